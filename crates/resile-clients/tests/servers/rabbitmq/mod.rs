//! RabbitMQ.

mod channels;
mod confirms;
mod connections;
mod down;
mod kinds;
mod start;
