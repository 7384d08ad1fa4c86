use plotters::prelude::{IntoLogRange, RGBColor, SeriesLabelPosition as At};

use super::style::{
    BLACK_INK, BLUE, Drawn, Frame, GRAY, GREEN, ORANGE, PURPLE, VERMILION, panel, picture,
};
use super::{curve, dashed, over_time};
use crate::claims::gate::Way;
use crate::claims::limit::{Measured, SLOTS};
use crate::claims::slots::Service;

/// Draws the limit of each limiter under two loads.
pub fn limit(measured: &Measured) -> Drawn<String> {
    let picked: [(Way, &str, RGBColor); 6] = [
        (Way::Gradient2, "Gradient2 drifts", VERMILION),
        (Way::Covariance, "Cinnamon, as published", GREEN),
        (Way::Guard, "failsafe-go", PURPLE),
        (Way::Envoy, "Envoy dips", ORANGE),
        (Way::Vegas, "Vegas collapses", GRAY),
        (Way::Learned, "learned", BLUE),
    ];
    picture((960, 420), (1, 2), |areas| {
        for (area, (load, title)) in areas.iter().zip([
            (2.0, "Limit under twice the load that the server bears"),
            (1.2, "Limit under 1.2 times that load"),
        ]) {
            let line = |way: Way| {
                measured.lines.iter().find(move |line| {
                    line.way == way
                        && line.service == Service::Exponential
                        && (line.load - load).abs() < 0.01
                })
            };
            let all = picked.iter().filter_map(|&(way, name, colour)| {
                Some(curve(name, colour, over_time(&line(way)?.runs[0].limit, 2)))
            });
            let end = line(Way::Learned).map_or(1, |line| line.runs[0].limit.len()) as f64;
            let best = SLOTS as f64;
            let mut curves: Vec<_> = all.collect();
            curves.push(dashed("slots of the server", BLACK_INK, [(0.0, best), (end, best)]));
            let frame = Frame {
                title,
                x: "time, s",
                y: "calls at once (log)",
                legend: (load > 1.5).then_some(At::UpperLeft),
            };
            panel(area, &frame, (0.0..end, (3.0..4000.0).log_scale()), None, curves)?;
        }
        Ok(())
    })
}
