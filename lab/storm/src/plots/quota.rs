//! The pictures of the quotas.

use plotters::prelude::{IntoLogRange, SeriesLabelPosition as At};

use super::style::{
    BLACK_INK, BLUE, Drawn, Frame, GRAY, GREEN, ORANGE, PURPLE, SKY, VERMILION, panel, picture,
};
use super::{ONE, curve, dashed, over_time};
use crate::claims::{priority, quota};

pub fn quota(measured: &quota::Measured) -> Drawn<String> {
    let colours = [VERMILION, ORANGE, PURPLE, GRAY, BLUE, GREEN, SKY];
    let end = measured.actual[0].used.len() as f64;
    picture((960, 900), (2, 2), |areas| {
        let providers = [
            ("The actual tokens are charged", &measured.actual),
            ("The maximum is charged and refunded", &measured.maximum),
        ];
        // The legend has room between the ways that waste many calls and those that waste few.
        let legends = [Some(At::Coordinate(210, 70)), None];
        for ((areas, (title, lines)), legend) in areas.chunks(2).zip(providers).zip(legends) {
            let frame = Frame { title, x: "time, s", y: "% of the limit used", legend: None };
            let used = lines.iter().zip(colours).map(|(line, colour)| {
                let share = |tokens| 100.0 * tokens * 60.0 / f64::from(quota::LIMIT);
                let means = over_time(&line.used, 120).map(|(at, used)| (at, share(used)));
                curve(line.name, colour, means)
            });
            panel(&areas[0], &frame, (0.0..end, 0.0..120.0), None, used.collect())?;
            let frame = Frame { y: "refused calls a minute (log)", legend, ..frame };
            let refused = lines.iter().zip(colours).map(|(line, colour)| {
                let a_minute = |calls: f64| (calls * 60.0).max(0.1);
                let means = over_time(&line.refused, 120).map(|(at, some)| (at, a_minute(some)));
                curve(line.name, colour, means)
            });
            let range = (0.1..10_000.0).log_scale();
            panel(&areas[1], &frame, (0.0..end, range), None, refused.collect())?;
        }
        Ok(())
    })
}

pub fn priority(lines: &[priority::Line]) -> Drawn<String> {
    let colours = [GRAY, VERMILION, BLUE, SKY];
    let end = lines[0].finished.len() as f64;
    // 30 calls of an agent take 3 s of the limit.
    let possible = dashed("the most possible", BLACK_INK, [(0.0, 0.0), (end, end / 3.0)]);
    let curves = lines.iter().zip(colours).map(|(line, colour)| {
        let seconds = line.finished.iter().enumerate();
        curve(line.name, colour, seconds.map(|(second, agents)| (second as f64 + 1.0, *agents)))
    });
    picture(ONE, (1, 1), |areas| {
        let title = "512 agents of 30 calls at 10 calls a second";
        let frame =
            Frame { title, x: "time, s", y: "agents that finished", legend: Some(At::UpperLeft) };
        let all = std::iter::once(possible).chain(curves).collect();
        panel(&areas[0], &frame, (0.0..end, 0.0..220.0), None, all)
    })
}
