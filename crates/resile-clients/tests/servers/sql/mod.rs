//! SQL databases. A test provokes an error and looks into the table afterwards: was the work done?

mod failure;
mod mariadb;
mod postgres;
mod recipe;
#[expect(clippy::trivially_copy_pass_by_ref, reason = "`over` passes the classifier so")]
mod sale;
mod sqlite;
