//! SQL databases. A test provokes an error and looks into the table afterwards: was the work done?

mod failure;
mod mariadb;
mod name;
mod payment;
mod postgres;
mod recipe;
mod sale;
mod sqlite;
