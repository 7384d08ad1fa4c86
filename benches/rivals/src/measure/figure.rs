use crate::contender::Contender;

/// What is known of one contender in one row.
pub struct Line {
    pub name: &'static str,
    /// Whether it does less than the job.
    pub less: bool,
    pub allocations: f64,
    pub bytes: usize,
    /// Nanoseconds per call, one value for each pass.
    pub passes: Vec<f64>,
    pub instructions: Option<f64>,
}

pub struct Table {
    pub title: String,
    pub lines: Vec<Line>,
}

/// The median of the passes.
#[derive(Clone, Copy)]
pub struct Figure {
    pub nanos: f64,
    /// To the yardstick's value in the same pass, so that what slows the machine down for a while slows both.
    pub ratio: f64,
    /// From the least to the greatest ratio, as a share of the median; of the yardstick, from its least to its greatest
    /// value.
    pub spread: f64,
}

impl Line {
    pub fn new(contender: &Contender, allocations: f64) -> Self {
        let Contender { name, less, bytes, .. } = *contender;
        Self { name, less, allocations, bytes, passes: Vec::new(), instructions: None }
    }
}

impl Table {
    /// The line's figure; the first line is the yardstick.
    pub fn figure(&self, line: &Line) -> Figure {
        let yardstick = &self.lines[0];
        let ratios = if std::ptr::eq(line, yardstick) {
            line.passes.clone()
        } else {
            line.passes.iter().zip(&yardstick.passes).map(|(own, other)| own / other).collect()
        };
        let (least, median, most) = spread(ratios);
        let nanos = spread(line.passes.clone()).1;
        let ratio = if std::ptr::eq(line, yardstick) { 1.0 } else { median };
        Figure { nanos, ratio, spread: (most - least) / median }
    }
}

/// The least, the median, the greatest.
fn spread(mut values: Vec<f64>) -> (f64, f64, f64) {
    values.sort_by(f64::total_cmp);
    match (values.first(), values.last()) {
        (Some(&least), Some(&most)) => (least, values[values.len() / 2], most),
        _ => (f64::NAN, f64::NAN, f64::NAN),
    }
}
