use super::round::Round;

/// The rule by which a bulkhead learns its limit: pure, without locks and clocks.
///
/// Two signals move the limit, and each is right where the other one is blind.
///
/// * **Verdicts**, for an upstream that refuses. A refusal cuts the limit to nine tenths, but only once
///   for each *epoch*: an attempt that began before the last cut does not cut again. One less than the
///   refused limit is the last good one. The limit then grows by 1 for each round of as many attempts
///   as the limit, and stays at the last good one for [`HOLD`] rounds before it tries one more.
/// * **The slope**, for an upstream that queues. In saturation the number in flight is the throughput
///   times the latency (Little 1961) at *every* limit, so the values at one limit do not tell a queue
///   from slow work. Only a change of the limit does. So the limit alternates between a twelfth more
///   and a twelfth less than its centre. `s = Δ ln(latency) / Δ ln(limit)` is 0 without a queue,
///   and 1 if all added work queues. The centre moves until `s` is [`TARGET`]. Heiss and Wagner
///   (VLDB 1991) move a limit by small steps for the same reason.
///
/// An attempt that its call cut counts with twice its age, because its latency would have been longer.
/// If most attempts of a round are cut, the slope is unknown: the limit falls by a tenth, but not below
/// the first one, because timeouts do not tell an overload from an outage.
///
/// The slope needs many attempts, so it is off for rounds longer than [`SPARSE`] and for [`CALM`] rounds
/// after a cut. A round in which the limit was not reached teaches nothing, and the limit falls slowly
/// towards twice of what is used.
#[derive(Debug)]
pub(super) struct Law {
    most: u32,
    limit: u32,
    /// The limit without its alternation.
    centre: f64,
    stage: Stage,
    /// The rounds since the limit has changed, until it is reached again. `None` while the latency is
    /// measured.
    settling: Option<u32>,
    /// The most that the latest rounds have used.
    used: f64,
    gain: f64,
    /// The latest distance of the slope from its target.
    error: f64,
    /// The logarithms of the latency and of the limit in the half before.
    before: Option<(f64, f64)>,
    is_high: bool,
    /// The start of the latest epoch: the time of the last cut.
    cut_at: Option<u64>,
    good: u32,
    /// The rounds at the last good limit.
    held: u32,
    /// The rounds since the last cut.
    clean: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// The limit doubles until a queue shows.
    Start,
    /// The first half of a measurement of the slope.
    First,
    Second,
    /// The upstream has refused lately.
    Refused,
}

/// The first limit.
pub(super) const FIRST: u32 = 20;
const CUT: f64 = 0.9;
const HOLD: u32 = 8;
const CALM: u32 = 64;
/// The half of the alternation. 12 % shows a slope in a hundred attempts and costs little throughput.
const SWING: f64 = 1.12;
/// At a slope of 0.5 throughput divided by latency is largest (Kleinrock 1979). A little more keeps
/// the lower half of the alternation from idling the upstream.
const TARGET: f64 = 0.7;
/// A doubling shows a queue if the latency grows by more than this part of it.
const QUEUES: f64 = 0.35;
/// The least and the largest step. A step grows while the slope stays on one side of its target.
const GAINS: (f64, f64) = (0.05, 0.2);
/// The attempts of a half at a small limit.
const SAMPLES: u32 = 100;
/// The most attempts of a round.
const MOST_SAMPLES: u32 = 16_000;
/// The length of a half from which its attempts are too few for the slope: 30 s.
const SPARSE: u64 = 30_000_000_000;
/// A round teaches if one attempt in this number found the limit reached.
const PRESSED: u64 = 16;
/// The rounds in which a limit must be reached after it has changed. A surplus of a tenth needs several
/// round trips to fill what a higher limit admits, and until then the latency is that of less in flight.
const SETTLES: u32 = 4;
/// The share of its distance by which a limit that is not reached falls.
const DECAY: f64 = 1.0 / 16.0;

impl Law {
    pub(super) const fn new(most: u32) -> Self {
        let limit = if most < FIRST { most } else { FIRST };
        Self {
            most,
            limit,
            centre: limit as f64,
            stage: Stage::Start,
            settling: Some(0),
            used: 0.0,
            gain: GAINS.1,
            error: 0.0,
            before: None,
            is_high: false,
            cut_at: None,
            good: 0,
            held: 0,
            clean: 0,
        }
    }

    /// Returns the limit: at least 1 unless the most is 0.
    pub(super) const fn limit(&self) -> u32 {
        self.limit
    }

    /// Returns the number of attempts in the current round.
    pub(super) fn samples(&self) -> u32 {
        if self.is_measuring() {
            self.limit.saturating_mul(2).clamp(SAMPLES, MOST_SAMPLES)
        } else {
            self.limit.clamp(1, MOST_SAMPLES)
        }
    }

    /// Returns whether a round counts only attempts that began under its limit. Each other attempt
    /// shows the latency of the limit before.
    pub(super) fn is_measuring(&self) -> bool {
        self.stage != Stage::Refused && self.settling.is_none()
    }

    /// Ends a round. `starts_high` is random: the alternations of many clients are then independent.
    pub(super) fn end(&mut self, round: Round, starts_high: bool) {
        let is_pressed =
            round.pressed > 0 && round.pressed.saturating_mul(PRESSED) >= u64::from(round.samples);
        let is_sparse = round.lasted > SPARSE;
        self.used = self.used.max(round.used());
        if let (Some(rounds), true) = (self.settling, self.stage != Stage::Refused) {
            self.settling = Some(rounds + 1).filter(|rounds| !is_pressed && *rounds < SETTLES);
            if is_pressed || self.settling.is_some() {
                return;
            }
        }
        self.settling = Some(0);
        if is_pressed {
            self.used = 0.0;
        } else {
            self.decay();
        }
        if is_pressed && round.is_cut() {
            self.set_centre((self.centre * CUT).max(self.centre.min(f64::from(FIRST))));
            self.error = 0.0;
            if self.stage != Stage::Refused {
                return self.begin(starts_high);
            }
            // Also after a cut to 1, from where the slope would rise slowly.
            self.limit = whole(self.centre, self.most);
            return;
        }
        match self.stage {
            Stage::Refused if is_pressed => {
                self.grow();
                if self.clean >= CALM && !is_sparse {
                    self.begin(starts_high);
                }
            }
            Stage::Start if is_pressed => self.double(round, starts_high),
            Stage::Refused | Stage::Start => {}
            Stage::First | Stage::Second if is_sparse => {
                if is_pressed {
                    self.set_centre(self.centre + 1.0);
                }
                self.stage = Stage::First;
                self.limit = whole(self.centre, self.most);
            }
            Stage::First if is_pressed => {
                self.before = Some(self.point(round));
                self.stage = Stage::Second;
                self.alternate(!self.is_high);
            }
            Stage::Second if is_pressed => {
                if let Some(slope) = self.slope(round) {
                    self.follow(slope);
                }
                self.begin(starts_high);
            }
            Stage::First | Stage::Second => self.begin(starts_high),
        }
    }

    /// Cuts the limit after a refusal of an attempt that began at `began`. Returns false if it tells
    /// nothing of the current limit.
    pub(super) fn cut(&mut self, began: u64, now: u64) -> bool {
        if self.most == 0 || self.cut_at.is_some_and(|cut_at| began <= cut_at) {
            return false;
        }
        self.cut_at = Some(now);
        self.good = (self.limit - 1).max(1);
        self.set_centre(f64::from(self.limit) * CUT);
        self.centre = self.centre.floor();
        self.limit = whole(self.centre, self.most);
        self.stage = Stage::Refused;
        (self.held, self.clean) = (0, 0);
        true
    }

    /// Grows by 1, but stays at the last good limit for a while.
    fn grow(&mut self) {
        self.clean = self.clean.saturating_add(1);
        if self.limit == self.good {
            self.held += 1;
            if self.held < HOLD {
                return;
            }
        }
        self.held = 0;
        self.limit = self.limit.saturating_add(1).min(self.most);
        self.centre = f64::from(self.limit);
    }

    fn double(&mut self, round: Round, starts_high: bool) {
        let queues = self.slope(round).is_some_and(|slope| slope > QUEUES);
        if queues {
            self.set_centre(self.centre / std::f64::consts::SQRT_2);
        }
        if queues || self.limit == self.most {
            return self.begin(starts_high);
        }
        self.before = Some(self.point(round));
        self.set_centre(self.centre * 2.0);
        self.limit = whole(self.centre, self.most);
    }

    fn point(&self, round: Round) -> (f64, f64) {
        #[expect(clippy::cast_precision_loss, reason = "a mean needs few digits")]
        ((round.mean as f64).ln(), f64::from(self.limit).ln())
    }

    /// Returns the slope between the half before and this one, if their limits differ. One outlier
    /// counts for little.
    fn slope(&self, round: Round) -> Option<f64> {
        let (before, now) = (self.before?, self.point(round));
        let change = now.1 - before.1;
        (change != 0.0).then(|| ((now.0 - before.0) / change).clamp(-1.0, 2.0))
    }

    /// Moves the centre towards the limit at which the slope is on target.
    fn follow(&mut self, slope: f64) {
        let error = TARGET - slope;
        let step = if error * self.error > 0.0 { 1.2 } else { 0.75 };
        self.gain = (self.gain * step).clamp(GAINS.0, GAINS.1);
        self.error = error;
        self.set_centre(self.centre * (self.gain * error).exp());
    }

    /// Lets a limit that is not reached fall towards twice of what is used.
    fn decay(&mut self) {
        let enough = (2.0 * std::mem::take(&mut self.used)).max(f64::from(FIRST));
        if self.centre > enough {
            self.set_centre(self.centre - (self.centre - enough) * DECAY);
            self.limit = whole(self.centre, self.most);
        }
    }

    fn set_centre(&mut self, centre: f64) {
        self.centre = centre.clamp(1.0, f64::from(self.most.max(1)));
    }

    /// Begins a measurement of the slope.
    fn begin(&mut self, starts_high: bool) {
        self.stage = Stage::First;
        self.alternate(starts_high);
    }

    fn alternate(&mut self, is_high: bool) {
        let low = whole(self.centre / SWING, self.most);
        let high = whole(self.centre * SWING, self.most).max(low.saturating_add(1)).min(self.most);
        self.limit = if is_high { high } else { low };
        self.is_high = is_high;
    }
}

/// Only the models of `tests/loom` need it.
impl Default for Law {
    fn default() -> Self {
        Self::new(0)
    }
}

/// Rounds a limit.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a cast saturates")]
fn whole(limit: f64, most: u32) -> u32 {
    (limit.round() as u32).clamp(1.min(most), most)
}
