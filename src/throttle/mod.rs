//! A throttle that refuses a share of the attempts while the upstream refuses too many of them.

mod law;
mod throttle;
mod window;

pub use self::throttle::Throttle;
