//! The sliders of the page. Each has a list of positions.

use std::time::Duration;

use resile::{Backoff, Budget, Jitter, RetryPolicy};

use crate::client::Client;
use crate::scene::World;

/// A slider.
pub(crate) struct Slider {
    pub(crate) label: &'static str,
    /// A sentence about its meaning.
    pub(crate) help: &'static str,
    /// The position at the start.
    pub(crate) start: usize,
    /// The words for each position.
    pub(crate) positions: Vec<String>,
}

/// A slider over a list of values.
struct Scale<T: 'static> {
    label: &'static str,
    help: &'static str,
    start: usize,
    values: &'static [T],
    say: fn(&T) -> String,
}

impl<T: Copy> Scale<T> {
    fn slider(&self) -> Slider {
        Slider {
            label: self.label,
            help: self.help,
            start: self.start,
            positions: self.values.iter().map(self.say).collect(),
        }
    }

    /// Takes the next position. A missing one is the start, and one beyond the end is the end.
    fn at(&self, positions: &mut impl Iterator<Item = usize>) -> T {
        let position = positions.next().unwrap_or(self.start);
        self.values[position.min(self.values.len() - 1)]
    }

    /// Returns the position of a value. A value between the positions has the start.
    fn position(&self, wanted: T) -> usize
    where
        T: PartialEq,
    {
        self.values.iter().position(|value| *value == wanted).unwrap_or(self.start)
    }
}

const USERS: Scale<u32> = Scale {
    label: "Clients",
    help: "Each makes one call a second. The server can do 300 requests a second.",
    start: 9,
    values: &[100, 120, 140, 160, 180, 200, 220, 240, 260, 280, 300, 320, 340],
    say: u32::to_string,
};

const STANDSTILL: Scale<u32> = Scale {
    label: "Standstill",
    help: "The server answers nothing for this time. Its queue grows.",
    start: 4,
    values: &[0, 1, 2, 5, 10, 15, 20, 30, 45, 60],
    say: |seconds| if *seconds == 0 { "none".to_owned() } else { format!("{seconds} s") },
};

const FAILING: Scale<f64> = Scale {
    label: "Failure rate",
    help: "This share of the requests fails by chance.",
    start: 0,
    values: &[0.0, 0.01, 0.02, 0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0],
    say: |share| format!("{} %", (100.0 * share).round()),
};

const ATTEMPTS: Scale<u32> = Scale {
    label: "Attempts",
    help: "The most requests of a call. Each may take 1\u{a0}s.",
    start: 2,
    values: &[1, 2, 3, 4, 5, 6],
    say: |attempts| if *attempts == 1 { "1: no retry".to_owned() } else { attempts.to_string() },
};

const DELAY: Scale<u32> = Scale {
    label: "First delay",
    help: "The delay before the first retry. It doubles for each further one.",
    start: 4,
    values: &[0, 50, 100, 200, 500, 1_000, 2_000, 5_000],
    say: |ms| match ms {
        0 => "none: at once".to_owned(),
        ms => format!("{} s", f64::from(*ms) / 1_000.0),
    },
};

const JITTER: Scale<Jitter> = Scale {
    label: "Jitter",
    help: "The random spread of each delay.",
    start: 3,
    values: &[
        Jitter::None,
        Jitter::Proportional(0.2),
        Jitter::Equal,
        Jitter::Full,
        Jitter::Decorrelated,
    ],
    say: |jitter| {
        let name = match jitter {
            Jitter::None => "none",
            Jitter::Proportional(_) => "± 20 %",
            Jitter::Equal => "equal",
            Jitter::Full => "full",
            _ => "decorrelated",
        };
        name.to_owned()
    },
};

const BUDGET: Scale<Option<u32>> = Scale {
    label: "Budget",
    help: "All retries share these tokens. A retry takes one. A success returns a tenth of one.",
    start: 0,
    values: &[
        None,
        Some(1_000),
        Some(300),
        Some(100),
        Some(30),
        Some(16),
        Some(8),
        Some(4),
        Some(2),
        Some(1),
    ],
    say: |tokens| match *tokens {
        None => "none".to_owned(),
        Some(1) => "1 token".to_owned(),
        Some(tokens) if tokens == Budget::new().capacity() => format!("{tokens} tokens (default)"),
        Some(tokens) => format!("{tokens} tokens"),
    },
};

const BREAKER: Scale<Option<f64>> = Scale {
    label: "Breaker",
    help: "It refuses calls for a while after this share of failures, or after 10 in a row.",
    start: 0,
    values: &[None, Some(0.9), Some(0.7), Some(0.5), Some(0.3), Some(0.1)],
    say: |share| match *share {
        None => "none".to_owned(),
        Some(0.5) => "50 % (default)".to_owned(),
        Some(share) => format!("{} %", (100.0 * share).round()),
    },
};

const LEARNED: Scale<Option<u32>> = Scale {
    label: "Learned limit",
    help: "The most requests in flight. A bulkhead learns how many the server can bear.",
    start: 0,
    values: &[None, Some(1_000), Some(300), Some(100), Some(30), Some(10), Some(3), Some(1)],
    say: |most| match most {
        None => "none".to_owned(),
        Some(most) => format!("at most {most}"),
    },
};

const SEED: Scale<u64> = Scale {
    label: "Chance",
    help: "Another seed draws other random numbers.",
    start: 0,
    values: &[1, 2, 3, 4, 5, 6, 7, 8, 9, 10],
    say: |seed| format!("seed {seed}"),
};

/// Returns the sliders in the order of their positions in [`read`].
pub(crate) fn all() -> Vec<Slider> {
    vec![
        USERS.slider(),
        STANDSTILL.slider(),
        FAILING.slider(),
        ATTEMPTS.slider(),
        DELAY.slider(),
        JITTER.slider(),
        BUDGET.slider(),
        BREAKER.slider(),
        LEARNED.slider(),
        SEED.slider(),
    ]
}

/// Returns the settings at these positions.
pub(crate) fn read(positions: impl IntoIterator<Item = usize>) -> (World, Client) {
    let mut positions = positions.into_iter();
    let world = World {
        users: USERS.at(&mut positions),
        standstill: STANDSTILL.at(&mut positions),
        failing: FAILING.at(&mut positions),
        seed: 0,
    };
    let attempts = ATTEMPTS.at(&mut positions);
    let delay = Duration::from_millis(DELAY.at(&mut positions).into());
    let backoff = Backoff::exponential(delay).with_jitter(JITTER.at(&mut positions));
    let client = Client {
        name: "Yours",
        policy: RetryPolicy::new().with_attempts(attempts).with_backoff(backoff),
        budget: BUDGET.at(&mut positions),
        breaker: BREAKER.at(&mut positions),
        learned: LEARNED.at(&mut positions),
    };
    (World { seed: SEED.at(&mut positions), ..world }, client)
}

/// The sliders of the world before those of the client.
const OF_WORLD: usize = 3;

/// Returns the positions after the sliders of the client have moved to its settings.
pub(crate) fn moved(mut positions: Vec<usize>, client: &Client) -> Vec<usize> {
    let backoff = client.policy.backoff();
    let delay = backoff.schedule().next().unwrap_or_default();
    let settings = [
        ATTEMPTS.position(client.policy.attempts()),
        DELAY.position(delay.as_millis().try_into().unwrap_or(u32::MAX)),
        JITTER.position(backoff.jitter()),
        BUDGET.position(client.budget),
        BREAKER.position(client.breaker),
        LEARNED.position(client.learned),
    ];
    for (position, setting) in positions.iter_mut().skip(OF_WORLD).zip(settings) {
        *position = setting;
    }
    positions
}
