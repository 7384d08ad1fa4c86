//! The picture: what the provider got in each run. The background is white, so that the picture is
//! readable on a dark page. The colours are safe for the colour-blind (Okabe and Ito, 2008).

use std::error::Error;

use plotters::coord::Shift;
use plotters::prelude::*;

use crate::figures::Figures;
use crate::plan::{LIMIT, PROCESSES};
use crate::provider::{SLOT, Slot};
use crate::run::Outcome;

const INK: RGBColor = RGBColor(30, 30, 30);
const GRAY: RGBColor = RGBColor(150, 150, 150);
const VERMILION: RGBColor = RGBColor(213, 94, 0);
/// The colours of the processes. Neighbours differ in lightness.
const BANDS: [RGBColor; PROCESSES] = [
    RGBColor(0, 114, 178),
    RGBColor(86, 180, 233),
    RGBColor(0, 158, 115),
    RGBColor(240, 228, 66),
    RGBColor(204, 121, 167),
    RGBColor(230, 210, 225),
    RGBColor(110, 110, 110),
    RGBColor(200, 200, 200),
];
const FONT: &str = "sans-serif";
/// The slots of one point.
const SLOTS: usize = 2;

type Drawn<T = ()> = Result<T, Box<dyn Error>>;
type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

/// Draws a panel for each run and returns the picture as SVG.
pub(crate) fn picture(outcomes: &[Outcome]) -> Drawn<String> {
    let most = outcomes.iter().flat_map(|outcome| stacks(&outcome.slots)).flatten();
    let top = most.fold(f64::from(LIMIT), f64::max) * 1.05;
    let mut svg = String::new();
    {
        let area = SVGBackend::with_string(&mut svg, (960, 640)).into_drawing_area();
        area.fill(&WHITE)?;
        let areas = area.margin(4, 4, 4, 12).split_evenly((2, 2));
        for (at, (area, outcome)) in areas.iter().zip(outcomes).enumerate() {
            // The second panel has room for the legend.
            panel(area, outcome, top, at == 1)?;
        }
        area.present()?;
    }
    Ok(svg)
}

/// Returns the upper edges of all bands at each point, in requests per second. The last edge is that
/// of the refused requests.
fn stacks(slots: &[Slot]) -> Vec<[f64; PROCESSES + 1]> {
    let points = slots.chunks_exact(SLOTS).map(|slots| {
        let per_second = 1.0 / (SLOTS as f64 * SLOT.as_secs_f64());
        let mut edges = [0.0; PROCESSES + 1];
        let mut sum = 0;
        for (process, edge) in edges.iter_mut().enumerate() {
            sum += slots
                .iter()
                .map(|slot| {
                    slot.accepted.get(process).copied().unwrap_or_else(|| slot.all_refused())
                })
                .sum::<u32>();
            *edge = f64::from(sum) * per_second;
        }
        edges
    });
    points.collect()
}

/// Draws the bands of one run, the limit and the time without Redis.
fn panel(area: &Area<'_>, outcome: &Outcome, top: f64, has_legend: bool) -> Drawn {
    let end = outcome.plan.length.as_secs_f64();
    let title = Figures::of(outcome).title();
    let mut chart = ChartBuilder::on(area)
        .caption(title, (FONT, 16).into_font().color(&INK))
        .margin(6)
        .x_label_area_size(40)
        .y_label_area_size(58)
        .build_cartesian_2d(0.0..end, 0.0..top)?;
    chart
        .configure_mesh()
        .light_line_style(WHITE.mix(0.0))
        .bold_line_style(GRAY.mix(0.25))
        .axis_style(GRAY)
        .label_style((FONT, 13).into_font().color(&INK))
        .axis_desc_style((FONT, 14).into_font().color(&INK))
        .x_desc(if outcome.plan.outage.is_some() {
            "time, s; Redis is away in the gray"
        } else {
            "time, s"
        })
        .y_desc("requests a second")
        .x_labels(8)
        .y_labels(6)
        .x_label_formatter(&|value| format!("{value}"))
        .y_label_formatter(&|value| format!("{value}"))
        .draw()?;
    if let Some((from, to)) = outcome.plan.outage {
        let corners = [(from.as_secs_f64(), 0.0), (to.as_secs_f64(), top)];
        chart.draw_series([Rectangle::new(corners, GRAY.mix(0.3).filled())])?;
    }
    let stacks = stacks(&outcome.slots);
    let middle = |at: usize| (at as f64 + 0.5) * SLOTS as f64 * SLOT.as_secs_f64();
    for band in 0..=PROCESSES {
        let colour = BANDS.get(band).copied().unwrap_or(VERMILION);
        let upper = stacks.iter().enumerate().map(|(at, edges)| (middle(at), edges[band]));
        let lower = stacks
            .iter()
            .enumerate()
            .map(|(at, edges)| (middle(at), if band == 0 { 0.0 } else { edges[band - 1] }));
        let outline: Vec<_> = upper.chain(lower.rev()).collect();
        let series = chart.draw_series([Polygon::new(outline, colour.mix(0.85).filled())])?;
        let label = match band {
            0 => "accepted, a colour for each process",
            PROCESSES => "refused with 429",
            _ => continue,
        };
        series.label(label).legend(move |(x, y)| {
            Rectangle::new([(x, y - 5), (x + 18, y + 5)], colour.mix(0.85).filled())
        });
    }
    let limit = [(0.0, f64::from(LIMIT)), (end, f64::from(LIMIT))];
    let line = chart.draw_series(LineSeries::new(limit, INK.stroke_width(2)))?;
    line.label("the limit")
        .legend(|(x, y)| PathElement::new([(x, y), (x + 18, y)], INK.stroke_width(2)));
    if has_legend {
        chart
            .configure_series_labels()
            .position(SeriesLabelPosition::UpperRight)
            .margin(8)
            .legend_area_size(24)
            .background_style(WHITE.mix(0.85))
            .border_style(GRAY.mix(0.5))
            .label_font((FONT, 13).into_font().color(&INK))
            .draw()?;
    }
    Ok(())
}
