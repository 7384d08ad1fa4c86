//! A picture for each claim with curves.

#![expect(clippy::cast_precision_loss, reason = "pixels")]

mod limit;
mod quota;
pub mod style;

use plotters::prelude::{IntoLogRange, RGBColor, SeriesLabelPosition as At};

use crate::claims::{bucket, cap, collapse, fleet, hedge, jitter, storm};
pub use limit::limit;
pub use quota::{priority, quota};
pub use style::Drawn;
use style::{
    BLACK_INK, BLUE, Curve, Frame, GRAY, GREEN, ORANGE, PURPLE, SKY, VERMILION, panel, picture,
};

const TWO: (u32, u32) = (960, 380);
const ONE: (u32, u32) = (760, 400);

pub fn curve(
    name: &str,
    colour: RGBColor,
    points: impl IntoIterator<Item = (f64, f64)>,
) -> Curve<'_> {
    Curve { name, colour, dashed: false, points: points.into_iter().collect() }
}

pub fn dashed(
    name: &str,
    colour: RGBColor,
    points: impl IntoIterator<Item = (f64, f64)>,
) -> Curve<'_> {
    Curve { dashed: true, ..curve(name, colour, points) }
}

/// Returns the means of `some` seconds each, as points in their middle.
pub fn over_time(values: &[f64], some: usize) -> impl Iterator<Item = (f64, f64)> + '_ {
    let middle = move |at: usize| (at * some) as f64 + some as f64 / 2.0;
    values
        .chunks_exact(some)
        .enumerate()
        .map(move |(at, some)| (middle(at), some.iter().sum::<f64>() / some.len() as f64))
}

pub fn jitter(lines: &[jitter::Line]) -> Drawn<String> {
    let colours = [GRAY, VERMILION, SKY, BLUE, GREEN];
    let most = lines[0].points.last().map_or(1, |point| point.clients) as f64;
    let curves = |of: fn(&jitter::Point) -> f64| {
        let points = lines.iter().map(move |line| {
            line.points.iter().map(move |point| (point.clients as f64, of(point)))
        });
        lines
            .iter()
            .zip(colours)
            .zip(points)
            .map(|((line, colour), points)| curve(line.name, colour, points))
            .collect()
    };
    picture(TWO, (1, 2), |areas| {
        let clients = "clients that change one row";
        let frame = Frame {
            title: "Writes until all are done",
            x: clients,
            y: "writes",
            legend: Some(At::UpperLeft),
        };
        panel(
            &areas[0],
            &frame,
            (0.0..most, 0.0..most * most / 4.0),
            None,
            curves(|point| point.writes),
        )?;
        let frame = Frame {
            title: "Time until all are done",
            x: clients,
            y: "seconds (log)",
            legend: None,
        };
        panel(
            &areas[1],
            &frame,
            (0.0..most, (0.1..200.0).log_scale()),
            None,
            curves(|point| point.seconds),
        )
    })
}

pub fn cap(spreads: &[cap::Spread]) -> Drawn<String> {
    picture((960, 560), (2, 3), |areas| {
        for (area, spread) in areas.iter().zip(spreads) {
            // Draws the outline of steps of half a second. The last slot begins at the cap.
            let slots = cap::slots(&spread.delays[..cap::CLIENTS]);
            let mut outline = vec![(0.0, 0.5)];
            for (at, some) in slots.chunks(5).enumerate() {
                let count = f64::from(some.iter().sum::<u32>()).max(0.5);
                outline.extend([(at as f64 / 2.0, count), ((at + 1) as f64 / 2.0, count)]);
            }
            outline.push((outline[outline.len() - 1].0, 0.5));
            let bad = spread.name.starts_with("no ") || spread.name.starts_with("clipped");
            let colour = if bad { VERMILION } else { BLUE };
            let frame = Frame {
                title: spread.name,
                x: "delay, s",
                y: "of 1,000, in 0.5 s (log)",
                legend: None,
            };
            let end = cap::CAP.as_secs_f64() + 2.0;
            panel(
                area,
                &frame,
                (0.0..end, (0.5..2000.0).log_scale()),
                None,
                vec![curve("", colour, outline)],
            )?;
        }
        Ok(())
    })
}

pub fn bucket(measured: &bucket::Bucket) -> Drawn<String> {
    let lines = [
        ("no retry", GRAY, &measured.none),
        ("3 retries", VERMILION, &measured.three),
        ("3 retries, bucket of 5", BLUE, &measured.saved),
    ];
    let curves = |of: fn(&bucket::Measured) -> f64| {
        let curves = lines.iter().map(|(name, colour, line)| {
            curve(
                name,
                *colour,
                line.iter().map(|point| (100.0 * point.f, of(point))).collect::<Vec<_>>(),
            )
        });
        curves.collect()
    };
    picture(TWO, (1, 2), |areas| {
        let x = "requests that fail, %";
        let frame = Frame {
            title: "Load on the server",
            x,
            y: "% of the calls",
            legend: Some(At::UpperLeft),
        };
        panel(&areas[0], &frame, (0.0..100.0, 0.0..420.0), None, curves(|point| point.load))?;
        let frame = Frame { title: "Calls that succeed", x, y: "% of the calls", legend: None };
        panel(&areas[1], &frame, (0.0..100.0, 0.0..105.0), None, curves(|point| point.success))
    })
}

pub fn collapse(measured: &collapse::Collapse) -> Drawn<String> {
    let colour = |name: &str| match name {
        "no retry" => GRAY,
        "3 attempts at once" => VERMILION,
        "3 attempts with jitter" => ORANGE,
        "default policy and budget" => BLUE,
        _ => PURPLE,
    };
    let frame = |title, legend| Frame { title, x: "time, s", y: "per second", legend };
    picture((960, 400), (1, 2), |areas| {
        let panels = [
            ("A spike from 20 s to 25 s", &measured.spike, 80.0),
            ("A ramp to its peak at 25 s", &measured.ramp, 60.0),
        ];
        for (area, (title, lines, end)) in areas.iter().zip(panels) {
            let mut all = vec![dashed("arrivals", BLACK_INK, over_time(&lines[0].arrived, 1))];
            // With the default budget, retries at once and after a delay have the same curve.
            let told = lines.iter().filter(|line| line.name != "at once, default budget");
            all.extend(
                told.map(|line| curve(line.name, colour(line.name), over_time(&line.good, 1))),
            );
            panel(area, &frame(title, Some(At::UpperRight)), (0.0..end, 0.0..150.0), None, all)?;
        }
        Ok(())
    })
}

pub fn storm(lines: &[storm::Line]) -> Drawn<String> {
    // The legend has room above the curves.
    const TOP: f64 = 1_200.0;
    let picked = [
        ("one retry", VERMILION),
        ("one retry, budget filled by requests", ORANGE),
        ("no retry", GRAY),
        ("one retry, budget", SKY),
        ("one retry, breaker", PURPLE),
        ("one retry, default breaker and budget", BLUE),
    ];
    let of = |(name, colour): (&'static str, RGBColor), series: fn(&storm::Line) -> &[f64]| {
        let line = lines.iter().find(|line| line.name == name && line.rate > 200.0)?;
        Some(curve(name, colour, over_time(&series(line)[..260], 2)))
    };
    picture((960, 400), (1, 2), |areas| {
        let x = "time, s; the server stands still in the gray";
        let frame = Frame {
            title: "Answers in time, of 280 calls a second",
            x,
            y: "per second",
            legend: None,
        };
        let good = picked.into_iter().filter_map(|pick| of(pick, |line| &line.good)).collect();
        panel(&areas[0], &frame, (0.0..260.0, 0.0..350.0), Some((30.0..40.0, 350.0)), good)?;
        let frame = Frame {
            title: "Load on the server, which can do 300",
            legend: Some(At::UpperRight),
            ..frame
        };
        let load = picked.into_iter().filter_map(|pick| of(pick, |line| &line.load)).collect();
        panel(&areas[1], &frame, (0.0..260.0, 0.0..TOP), Some((30.0..40.0, TOP)), load)
    })
}

pub fn hedge(lines: &[hedge::Line]) -> Drawn<String> {
    let colours = [VERMILION, BLUE, ORANGE, GREEN];
    let count = lines[0].latencies.len() as f64;
    // These shares are even on a logarithmic axis.
    let shares: Vec<f64> = (0..=120).map(|step| count.powf(-f64::from(step) / 120.0)).collect();
    let curves = lines.iter().zip(colours).map(|(line, colour)| {
        curve(
            line.name,
            colour,
            shares.iter().map(|share| (line.quantile(1.0 - share).max(1.0), *share)),
        )
    });
    picture(ONE, (1, 1), |areas| {
        let title = "Requests to 1,000 machines: how many are slow";
        let frame = Frame {
            title,
            x: "milliseconds (log)",
            y: "share that takes longer (log)",
            legend: Some(At::UpperRight),
        };
        let ranges = ((5.0..20_000.0).log_scale(), (1.0 / count..1.0).log_scale());
        panel(&areas[0], &frame, ranges, None, curves.collect())
    })
}

pub fn fleet(lines: &[fleet::Line]) -> Drawn<String> {
    let colours = [VERMILION, ORANGE, BLUE];
    let most = lines.iter().flat_map(|line| &line.load).copied().fold(1.0, f64::max);
    let end = lines.iter().map(|line| line.load.len()).max().unwrap_or(1) as f64;
    let names: Vec<_> = lines
        .iter()
        .map(|line| format!("{}: {:.1} refusals per success", line.name, line.wasted))
        .collect();
    let mut curves = vec![dashed("served", BLACK_INK, over_time(&lines[0].good, 2))];
    curves.extend(
        names
            .iter()
            .zip(lines)
            .zip(colours)
            .map(|((name, line), colour)| curve(name, colour, over_time(&line.load, 2))),
    );
    picture(ONE, (1, 1), |areas| {
        let title = "A fleet of agents at a rate limit: load on the provider";
        let frame =
            Frame { title, x: "time, s", y: "requests a second", legend: Some(At::UpperRight) };
        panel(&areas[0], &frame, (0.0..end, 0.0..1.35 * most), None, curves)
    })
}
