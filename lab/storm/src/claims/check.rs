//! A row of the table: a measured figure beside the published one and its tolerance. The verdict
//! depends on the printed figures only, so a reader of the table can check it.

use std::fmt;

/// The columns of the claim and the published figure together.
const CLAIM: usize = 55;
/// The columns of the measured figure.
const MEASURED: usize = 12;
/// The indent of a line below a row.
const INDENT: &str = "      ";

/// A published figure with its tolerance, or a published bound. It prints exactly the range that it
/// accepts.
#[derive(Clone, Debug)]
pub enum Published {
    /// A figure and its tolerance in percent of the figure.
    Percent(f64, f64),
    /// A figure and its tolerance in the unit of the figure. A tolerance of 0 is exact.
    PlusMinus(f64, f64),
    /// A published range with both ends.
    Between(f64, f64),
    /// A lower bound and the tolerance below it.
    AtLeast(f64, f64),
    /// An upper bound and the tolerance above it.
    AtMost(f64, f64),
    /// An upper bound that the measured figure must not reach.
    Below(f64),
    /// A word or a list.
    Text(String),
}

/// A measured figure, the number of its printed decimals, and its unit.
pub(super) type Figure<'a> = (f64, usize, &'a str);

/// The verdict on a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The measured figure is within the tolerance of the published one.
    Holds,
    /// The figure is outside the tolerance, but the conclusion of the claim holds.
    OutcomeOnly,
    /// Neither the figure nor the conclusion holds.
    Fails,
}

/// A row: one statement with its published and its measured figure.
#[derive(Debug)]
pub struct Check {
    what: String,
    published: Published,
    /// The figure as printed, without its unit.
    measured: String,
    unit: String,
    /// True if a source states the expected figure, or the figure follows from its arithmetic.
    sourced: bool,
    outcome: Option<Outcome>,
}

/// The conclusion of a claim, and the reason for a figure outside the tolerance.
#[derive(Debug)]
struct Outcome {
    accepts: Published,
    reason: String,
}

impl Published {
    /// Returns true if the figure with this printed form is accepted.
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

    /// Returns the published figure with its tolerance and its unit.
    pub fn text(&self, unit: &str) -> String {
        // Published figures are printed with all their decimals.
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
    /// Returns the verdict in words.
    pub fn name(self) -> &'static str {
        match self {
            Self::Holds => "holds",
            Self::OutcomeOnly => "outcome only",
            Self::Fails => "FAILS",
        }
    }
}

impl Check {
    /// The largest width of a row in columns.
    pub const WIDTH: usize = 80;
    /// The names of the [cells](Self::cells).
    pub const COLUMNS: [&str; 4] = ["claim", "published", "measured", "verdict"];

    /// Compares a measured figure with the published one.
    pub fn new(
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

    /// Marks the expected figure as this project's own, since no source states it.
    pub fn ours(self) -> Self {
        Self { sourced: false, ..self }
    }

    /// Compares two texts, which must be equal.
    pub fn text(
        what: impl Into<String>,
        published: impl Into<String>,
        measured: impl Into<String>,
    ) -> Self {
        let published = Published::Text(published.into());
        Self { measured: measured.into(), ..Self::new(what, published, (f64::NAN, 0, "")) }
    }

    /// Accepts a figure outside its tolerance if the conclusion still holds. `reason` is a
    /// sentence.
    pub fn or_outcome(self, accepts: Published, reason: impl Into<String>) -> Self {
        Self { outcome: Some(Outcome { accepts, reason: reason.into() }), ..self }
    }

    /// Returns the name of the row.
    pub fn what(&self) -> &str {
        &self.what
    }

    /// Compares the printed figures.
    pub fn verdict(&self) -> Verdict {
        let same = |outcome: &Outcome| outcome.accepts.accepts(&self.measured);
        if self.published.accepts(&self.measured) {
            Verdict::Holds
        } else if self.outcome.as_ref().is_some_and(same) {
            Verdict::OutcomeOnly
        } else {
            Verdict::Fails
        }
    }

    /// Returns the cells of the row: the claim, the published figure, the measured figure and the
    /// verdict.
    pub fn cells(&self) -> [String; 4] {
        let published = self.published.text(&self.unit);
        let published = if self.sourced { published } else { format!("ours: {published}") };
        let measured = format!("{}{}", self.measured, self.unit);
        [self.what.clone(), published, measured, self.verdict().name().to_owned()]
    }

    /// Returns the words for a figure outside its tolerance: the conclusion, and the reason if it
    /// holds.
    pub fn note(&self) -> Option<String> {
        let verdict = self.verdict();
        let outcome = self.outcome.as_ref().filter(|_| verdict != Verdict::Holds)?;
        let accepted = outcome.accepts.text(&self.unit);
        Some(match verdict {
            Verdict::Fails => format!("The outcome, {accepted}, does not hold either."),
            _ => format!(
                "{}: the figure differs, but its conclusion, {accepted}, holds. {}",
                verdict.name(),
                outcome.reason
            ),
        })
    }

    /// Returns the header of the table.
    pub fn header() -> String {
        let [what, published, measured, verdict] = Self::COLUMNS;
        row(what, published, measured, verdict)
    }
}

/// Returns a row. A claim that leaves no room for its figure gets a line of its own.
fn row(what: &str, published: &str, measured: &str, verdict: &str) -> String {
    let left = CLAIM.saturating_sub(what.chars().count());
    let published = if published.chars().count() + 2 > left {
        format!("\n  {published:>CLAIM$}")
    } else {
        format!("{published:>left$}")
    };
    format!("  {what}{published}  {measured:>MEASURED$}  {verdict}").trim_end().to_owned()
}

/// Displays the row. If the figure is outside its tolerance, the accepted conclusion and the reason
/// follow below the row.
impl fmt::Display for Check {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [what, published, measured, verdict] = self.cells();
        // The long verdict has no room in the row and begins the line below.
        let end = if self.verdict() == Verdict::OutcomeOnly { "" } else { &verdict };
        f.write_str(&row(&what, &published, &measured, end))?;
        let mut column = Self::WIDTH;
        for word in self.note().unwrap_or_default().split_whitespace() {
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
