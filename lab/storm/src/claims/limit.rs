//! A limit on the attempts in flight that is learned, beside the limits that other libraries learn.
//!
//! The server has 50 slots, and a call takes it 50 ms. For ten minutes it gets 2 or 1.2 times as many
//! calls as it can bear. Nothing is set but a most of 1,000.
//!
//! The algorithms of the others are from their sources. That of Cinnamon is not open, so its model has
//! what its authors tell of it (Gavrilenko and Thomsen 2023), and the steps of failsafe-go.

use super::Published::{AtLeast, AtMost, Below, Between};
use super::gate::Way;
use super::hidden::{self, Hidden};
use super::sim::{mean, on_all_cores};
use super::slots::{Run, Scene, Service, run};
use super::{Check, Progress, Size};

/// The seconds at the start that do not count.
const WARM: usize = 60;
pub const SLOTS: usize = 50;
/// The mean time of service in seconds.
pub(super) const TAKES: f64 = 0.05;
/// The calls that the server can do in a second.
pub(super) const CAPACITY: f64 = SLOTS as f64 / TAKES;

#[derive(Clone, Copy)]
struct Model {
    way: Way,
    service: Service,
    /// The arrivals as a multiple of the capacity.
    load: f64,
    lasts: usize,
}

impl Model {
    fn run(self, seed: u64) -> Run {
        let rate = self.load * CAPACITY;
        let scene = Scene {
            way: self.way,
            clients: 1,
            rate: &|_| rate,
            peak: rate,
            slots: &|_| SLOTS,
            refuses: false,
            takes: &|_, rng| self.service.draw(TAKES, rng),
            lasts: self.lasts,
        };
        run(&scene, seed)
    }
}

/// The outcome of all models.
#[derive(Debug)]
pub struct Measured {
    pub lines: Vec<Line>,
    hidden: Vec<Hidden>,
}

/// The runs of one model with several seeds.
#[derive(Debug)]
pub struct Line {
    pub way: Way,
    pub service: Service,
    pub load: f64,
    pub runs: Vec<Run>,
}

pub(super) const PEERS: [Way; 5] =
    [Way::Gradient2, Way::Vegas, Way::Envoy, Way::Guard, Way::Covariance];
/// A load that needs no limit.
const EASY: f64 = 0.8;

fn models(lasts: usize, size: Size) -> Vec<Model> {
    let all = [2.0, 1.2]
        .into_iter()
        .flat_map(|load| [Way::Learned].into_iter().chain(PEERS).map(move |way| (way, load)));
    let easy = [(Way::Learned, EASY), (Way::Envoy, EASY)];
    let model = |(way, load)| Service::ALL.map(|service| Model { way, service, load, lasts });
    // In a reduced run the others meet one distribution only.
    let is_asked = |model: &Model| {
        size == Size::Full || model.way == Way::Learned || model.service == Service::Exponential
    };
    all.chain(easy).flat_map(model).filter(is_asked).collect()
}

pub fn measure(size: Size, progress: Progress<'_>) -> Measured {
    let (seeds, lasts) = size.pick((1, 120), (4, 600));
    let models = models(lasts, size);
    let runs = on_all_cores(models.len() * seeds, &|done| progress(0.9 * done), |job| {
        models[job / seeds].run((job % seeds) as u64)
    });
    let mut runs = runs.into_iter();
    let line = |model: &Model| Line {
        way: model.way,
        service: model.service,
        load: model.load,
        runs: runs.by_ref().take(seeds).collect(),
    };
    let lines = models.iter().map(line).collect();
    let hidden = on_all_cores(seeds, progress, |seed| hidden::run(seed as u64));
    Measured { lines, hidden }
}

impl Line {
    fn each(&self, of: impl Fn(&Run) -> f64) -> impl Iterator<Item = f64> {
        self.runs.iter().map(of)
    }

    /// Returns the lowest and the highest limit of all runs: means of ten seconds.
    fn range(&self) -> (f64, f64) {
        let ranges = self.runs.iter().map(|run| run.range(WARM..run.limit.len()));
        ranges.fold((f64::MAX, 0.0), |all, one| (one.0.min(all.0), one.1.max(all.1)))
    }

    /// Returns the lowest goodput as a share of the capacity in percent.
    fn goodput(&self) -> f64 {
        let most = CAPACITY.min(self.load * CAPACITY);
        let share = |run: &Run| 100.0 * run.goodput(WARM..run.limit.len()) / most;
        self.each(share).fold(f64::MAX, f64::min)
    }

    /// Returns the highest mean latency as a multiple of the mean time of service.
    fn latency(&self) -> f64 {
        self.each(|run| run.latency(WARM..run.limit.len()) / TAKES).fold(0.0, f64::max)
    }

    /// Returns the mean of the calls that the limiter refused in a minute.
    fn refused(&self) -> f64 {
        mean(self.each(|run| {
            let over = WARM..run.limit.len();
            60.0 * run.sum(over.clone(), |second| f64::from(second.refused_here))
                / over.len() as f64
        }))
    }
}

/// Returns the figures of every model in lines of a table.
pub fn table(measured: &Measured) -> String {
    let head = "  limiter      load  service      limit, lowest to highest   goodput  latency\n";
    let row = |line: &Line| {
        let (low, high) = line.range();
        format!(
            "  {:<11}{:>6}  {:<13}{low:>6.0} to {high:<6.0}{:>16.1} %{:>8.2} x",
            line.way.name(),
            format!("{} x", line.load),
            format!("{:?}", line.service).to_lowercase(),
            line.goodput(),
            line.latency(),
        )
    };
    head.to_owned() + &measured.lines.iter().map(row).collect::<Vec<_>>().join("\n")
}

impl Measured {
    /// Returns the highest figure of a limiter at a load, whatever the distribution.
    fn most(&self, way: Way, load: f64, of: fn(&Line) -> f64) -> f64 {
        self.of(way, load).map(of).fold(f64::MIN, f64::max)
    }

    fn least(&self, way: Way, load: f64, of: fn(&Line) -> f64) -> f64 {
        self.of(way, load).map(of).fold(f64::MAX, f64::min)
    }

    fn of(&self, way: Way, load: f64) -> impl Iterator<Item = &Line> {
        let same = move |line: &&Line| line.way == way && (line.load - load).abs() < 0.01;
        self.lines.iter().filter(same)
    }
}

pub fn checks(measured: &Measured, size: Size) -> Vec<Check> {
    let mut checks = Vec::new();
    for line in measured.lines.iter().filter(|line| line.way == Way::Learned && line.load > 1.0) {
        let name = format!("learned, {:?}, {} x", line.service, line.load).to_lowercase();
        let (low, high) = line.range();
        let best = || Between(0.65 * SLOTS as f64, 1.35 * SLOTS as f64);
        checks.extend([
            Check::new(format!("{name}: lowest limit"), best(), (low, 0, "")).ours(),
            Check::new("  highest limit", best(), (high, 0, "")).ours(),
            Check::new("  goodput", AtLeast(93.0, 0.0), (line.goodput(), 1, " %")).ours(),
            Check::new("  latency", AtMost(1.2, 0.0), (line.latency(), 2, " x")).ours(),
        ]);
    }
    checks.extend(peers(measured, size));
    let (used, refused) = measured.hidden.iter().fold((f64::MAX, 0.0), |(used, refused), run| {
        (run.used.min(used), run.refused.max(refused))
    });
    checks.extend([
        Check::new("a hidden cap, 32, 16, 48: used", AtLeast(95.0, 0.0), (100.0 * used, 1, " %"))
            .ours(),
        Check::new("  refused in 1,000 calls", AtMost(5.0, 0.0), (1000.0 * refused, 1, "")).ours(),
    ]);
    checks
}

/// Asserts how the others fail. The best limit is 50.
fn peers(measured: &Measured, size: Size) -> Vec<Check> {
    let highest = |line: &Line| line.range().1;
    let row = |what: &str, bound, figure| Check::new(what, bound, figure).ours();
    let mut checks = Vec::new();
    for load in [2.0, 1.2] {
        // Its baseline learns the queue, so the limit drifts for as long as the overload lasts.
        let drifts = AtLeast(size.pick(75.0, 150.0), 0.0);
        let least = measured.least(Way::Gradient2, load, highest);
        checks.push(row(&format!("Gradient2, {load} x: limit drifts to"), drifts, (least, 0, "")));
        // Its least latency is that of the luckiest call.
        let vegas = measured.of(Way::Vegas, load).filter(|line| line.service != Service::Uniform);
        let most = vegas.map(Line::goodput).fold(0.0, f64::max);
        checks.push(row(
            &format!("Vegas, {load} x, calls that vary: goodput"),
            Below(50.0),
            (most, 1, " %"),
        ));
    }
    // Three calls at a time, until 50 have come back: the others are refused, overload or not.
    let dips = measured.least(Way::Envoy, EASY, Line::refused);
    let ours = measured.most(Way::Learned, EASY, Line::refused);
    // It correlates what moves by chance. Under a small surplus little does.
    let guarded = measured.least(Way::Guard, 1.2, highest);
    let reset = measured.least(Way::Covariance, 2.0, highest);
    checks.extend([
        row("Envoy, 0.8 x: refused in a minute", AtLeast(300.0, 0.0), (dips, 0, "")),
        row("learned, 0.8 x: refused in a minute", AtMost(5.0, 0.0), (ours, 0, "")),
        row(
            "failsafe-go, 1.2 x: limit drifts to",
            AtLeast(size.pick(60.0, 100.0), 0.0),
            (guarded, 0, ""),
        ),
        row("Cinnamon, 2 x: limit drifts to", AtLeast(size.pick(55.0, 100.0), 0.0), (reset, 0, "")),
    ]);
    if size == Size::Full {
        let idles = measured.least(Way::Guard, 2.0, Line::goodput);
        checks.push(row("failsafe-go, 2 x: least goodput", Below(93.0), (idles, 1, " %")));
    }
    checks
}
