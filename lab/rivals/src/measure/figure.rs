use crate::contender::Contender;

/// The measurements of one contender in one row.
pub struct Line {
    pub name: &'static str,
    /// True if the contender does less than the job.
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

/// The medians of the passes.
#[derive(Clone, Copy)]
pub struct Figure {
    pub nanos: f64,
    /// The ratio to the yardstick's value in the same pass. A slow phase of the machine then slows
    /// both.
    pub ratio: f64,
    /// The distance from the least to the greatest ratio, as a share of the median. For the
    /// yardstick it is the distance from its least to its greatest value.
    pub spread: f64,
}

impl Line {
    pub fn new(contender: &Contender, allocations: f64) -> Self {
        let Contender { name, less, bytes, .. } = *contender;
        Self { name, less, allocations, bytes, passes: Vec::new(), instructions: None }
    }
}

impl Table {
    /// Returns the figures of a line. The first line is the yardstick.
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

/// Returns the least value, the median and the greatest value.
fn spread(mut values: Vec<f64>) -> (f64, f64, f64) {
    values.sort_by(f64::total_cmp);
    match (values.first(), values.last()) {
        (Some(&least), Some(&most)) => (least, values[values.len() / 2], most),
        _ => (f64::NAN, f64::NAN, f64::NAN),
    }
}
