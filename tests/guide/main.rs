//! What the guide shows is so: its wrong and mended programs, its lines of the log and its settings.

mod ends;
mod features;
mod log;
mod observing;
mod operating;
mod page;
mod settings;
mod warnings;
mod wrong;
