//! A row of the table: a measured figure beside the published one and its tolerance. The verdict is read from the
//! figures as they are printed, so a reader of the table can repeat it.

use std::fmt;

/// Of the columns before the verdict.
const WHAT: usize = 48;
const PUBLISHED: usize = 20;
const MEASURED: usize = 12;
/// Of a line below a row.
const INDENT: &str = "      ";

/// A published figure with its tolerance, or a published bound. What it prints is what it accepts.
#[derive(Clone, Debug)]
pub(crate) enum Published {
    /// A figure, and how many percent of it the measured one may be away.
    Percent(f64, f64),
    /// A figure, and how far the measured one may be away, in its unit; 0 is exact.
    PlusMinus(f64, f64),
    /// The range that was published, with both ends.
    Between(f64, f64),
    /// A bound, and how far below it the measured figure may be.
    AtLeast(f64, f64),
    /// A bound, and how far above it the measured figure may be.
    AtMost(f64, f64),
    /// A bound that the measured figure may not reach.
    Below(f64),
    /// A word or a list.
    Text(String),
}

/// A measured figure, the decimals it is printed with, and its unit.
pub(crate) type Figure<'a> = (f64, usize, &'a str);

/// Whether a claim holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// The measured figure is within the tolerance of the published one.
    Holds,
    /// It is not, but what the claim concludes from it holds.
    OutcomeOnly,
    Fails,
}

/// One statement, and what the models say of it.
#[derive(Debug)]
pub(crate) struct Check {
    what: String,
    published: Published,
    /// As printed, without its unit.
    measured: String,
    unit: String,
    /// Whether the source states the expected figure, or it follows from its arithmetic.
    sourced: bool,
    outcome: Option<Outcome>,
}

/// What holds where the figure differs, and why it differs.
#[derive(Debug)]
struct Outcome {
    accepts: Published,
    reason: String,
}

impl Published {
    /// Whether a figure is accepted that is printed like this.
    fn accepts(&self, measured: &str) -> bool {
        // A bound such as 19.2 + 1.92 has no exact binary form.
        const HAIR: f64 = 1e-9;
        let figure: f64 = measured.parse().unwrap_or(f64::NAN);
        let within = |low: f64, high: f64| (low - HAIR..=high + HAIR).contains(&figure);
        match *self {
            Self::Percent(published, percent) => {
                let by = published.abs() * percent / 100.0;
                within(published - by, published + by)
            }
            Self::PlusMinus(published, by) => within(published - by, published + by),
            Self::Between(low, high) => within(low, high),
            Self::AtLeast(bound, slack) => within(bound - slack, f64::INFINITY),
            Self::AtMost(bound, slack) => within(f64::NEG_INFINITY, bound + slack),
            Self::Below(bound) => figure < bound,
            Self::Text(ref text) => text == measured,
        }
    }

    /// The published figure and its tolerance, in a unit.
    pub(crate) fn text(&self, unit: &str) -> String {
        // The figures are printed with all the decimals that they have.
        match self {
            Self::Percent(published, percent) => format!("{published}{unit} ± {percent} %"),
            Self::PlusMinus(published, 0.0) => format!("exactly {published}{unit}"),
            Self::PlusMinus(published, by) => format!("{published} ± {by}{unit}"),
            Self::Between(low, high) => format!("{low} to {high}{unit}"),
            Self::AtLeast(bound, 0.0) => format!("at least {bound}{unit}"),
            Self::AtLeast(bound, slack) => format!("at least {bound} - {slack}{unit}"),
            Self::AtMost(bound, 0.0) => format!("up to {bound}{unit}"),
            Self::AtMost(bound, slack) => format!("up to {bound} + {slack}{unit}"),
            Self::Below(bound) => format!("below {bound}{unit}"),
            Self::Text(text) => text.clone(),
        }
    }
}

impl Verdict {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Holds => "holds",
            Self::OutcomeOnly => "outcome only",
            Self::Fails => "FAILS",
        }
    }
}

impl Check {
    /// The most columns that a row takes.
    pub(crate) const WIDTH: usize = 100;

    /// Compares a measured figure with the published one.
    pub(crate) fn new(
        what: impl Into<String>,
        published: Published,
        (measured, decimals, unit): Figure<'_>,
    ) -> Self {
        Self {
            what: what.into(),
            published,
            measured: format!("{measured:.decimals$}"),
            unit: unit.to_owned(),
            sourced: true,
            outcome: None,
        }
    }

    /// Says that no source states the expected figure: it is this project's own.
    pub(crate) fn ours(self) -> Self {
        Self { sourced: false, ..self }
    }

    /// Compares words: they are to be the same.
    pub(crate) fn text(
        what: impl Into<String>,
        published: impl Into<String>,
        measured: impl Into<String>,
    ) -> Self {
        let published = Published::Text(published.into());
        Self { measured: measured.into(), ..Self::new(what, published, (f64::NAN, 0, "")) }
    }

    /// Accepts a figure outside its tolerance where the outcome is the same. The reason is one sentence.
    pub(crate) fn or_outcome(self, accepts: Published, reason: impl Into<String>) -> Self {
        Self { outcome: Some(Outcome { accepts, reason: reason.into() }), ..self }
    }

    pub(crate) fn what(&self) -> &str {
        &self.what
    }

    pub(crate) fn verdict(&self) -> Verdict {
        let same = |outcome: &Outcome| outcome.accepts.accepts(&self.measured);
        if self.published.accepts(&self.measured) {
            Verdict::Holds
        } else if self.outcome.as_ref().is_some_and(same) {
            Verdict::OutcomeOnly
        } else {
            Verdict::Fails
        }
    }

    /// The line above the rows.
    pub(crate) fn header() -> String {
        row("claim", "published", "measured", "verdict")
    }
}

fn row(what: &str, published: &str, measured: &str, verdict: &str) -> String {
    format!("  {what:<WHAT$}  {published:>PUBLISHED$}  {measured:>MEASURED$}  {verdict}")
}

/// The row; and where the figure is outside its tolerance, the outcome that is accepted and the reason.
impl fmt::Display for Check {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let published = self.published.text(&self.unit);
        let published = if self.sourced { published } else { format!("ours: {published}") };
        let verdict = self.verdict();
        f.write_str(&row(
            &self.what,
            &published,
            &format!("{}{}", self.measured, self.unit),
            verdict.name(),
        ))?;
        let Some(outcome) = self.outcome.as_ref().filter(|_| verdict != Verdict::Holds) else {
            return Ok(());
        };
        let accepted = outcome.accepts.text(&self.unit);
        let words = match verdict {
            Verdict::Fails => format!("Not even the outcome holds, {accepted}."),
            _ => format!("The outcome holds, {accepted}; the figure differs: {}", outcome.reason),
        };
        let mut column = Self::WIDTH;
        for word in words.split_whitespace() {
            let length = word.chars().count();
            if column + 1 + length > Self::WIDTH {
                write!(f, "\n{INDENT}{word}")?;
                column = INDENT.len() + length;
            } else {
                write!(f, " {word}")?;
                column += 1 + length;
            }
        }
        Ok(())
    }
}
