//! The style of every picture. The background is white, so that a picture is readable on a dark
//! page. The colours are safe for the colour-blind (Okabe and Ito, 2008).

use std::error::Error;
use std::ops::Range;

use plotters::coord::Shift;
use plotters::coord::ranged1d::{AsRangedCoord, ValueFormatter};
use plotters::element::DashedPathElement;
use plotters::prelude::*;

pub const BLACK_INK: RGBColor = RGBColor(30, 30, 30);
pub const GRAY: RGBColor = RGBColor(136, 136, 136);
pub const VERMILION: RGBColor = RGBColor(213, 94, 0);
pub const ORANGE: RGBColor = RGBColor(230, 159, 0);
pub const SKY: RGBColor = RGBColor(86, 180, 233);
pub const BLUE: RGBColor = RGBColor(0, 114, 178);
pub const GREEN: RGBColor = RGBColor(0, 158, 115);
pub const PURPLE: RGBColor = RGBColor(204, 121, 167);

const FONT: &str = "sans-serif";
/// A panel below this height has smaller margins and fewer labels.
const LOW: u32 = 180;

pub type Drawn<T = ()> = Result<T, Box<dyn Error>>;
pub type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

/// The title, axes and legend of a panel. An axis without words leaves more room for the curves.
pub struct Frame<'a> {
    pub title: &'a str,
    pub x: &'a str,
    pub y: &'a str,
    pub legend: Option<SeriesLabelPosition>,
}

/// A curve of a panel.
pub struct Curve<'a> {
    pub name: &'a str,
    pub colour: RGBColor,
    pub dashed: bool,
    pub points: Vec<(f64, f64)>,
}

/// Draws a picture of this size in pixels and returns it as SVG. `draw` gets the panels side by
/// side.
pub fn picture(
    (width, height): (u32, u32),
    panels: (usize, usize),
    draw: impl FnOnce(&[Area<'_>]) -> Drawn,
) -> Drawn<String> {
    let mut svg = String::new();
    {
        let area = SVGBackend::with_string(&mut svg, (width, height)).into_drawing_area();
        area.fill(&WHITE)?;
        draw(&area.margin(4, 4, 4, 12).split_evenly(panels))?;
        area.present()?;
    }
    Ok(svg)
}

/// Draws a panel with its axes and curves. `shaded` is a shaded range of x and its height.
pub fn panel<X, Y>(
    area: &Area<'_>,
    frame: &Frame<'_>,
    (x, y): (X, Y),
    shaded: Option<(Range<f64>, f64)>,
    curves: Vec<Curve<'_>>,
) -> Drawn
where
    X: AsRangedCoord<Value = f64>,
    Y: AsRangedCoord<Value = f64>,
    X::CoordDescType: ValueFormatter<f64>,
    Y::CoordDescType: ValueFormatter<f64>,
{
    let is_low = area.dim_in_pixel().1 < LOW;
    let (title, margin, axis, labels) = if is_low { (16, 2, 36, 4) } else { (19, 6, 42, 7) };
    let mut chart = ChartBuilder::on(area)
        .caption(frame.title, (FONT, title).into_font().color(&BLACK_INK))
        .margin(margin)
        .x_label_area_size(if frame.x.is_empty() { 22 } else { axis })
        .y_label_area_size(if frame.y.is_empty() { 40 } else { 58 })
        .build_cartesian_2d(x, y)?;
    chart
        .configure_mesh()
        .light_line_style(WHITE.mix(0.0))
        .bold_line_style(GRAY.mix(0.25))
        .axis_style(GRAY)
        .label_style((FONT, 15).into_font().color(&BLACK_INK))
        .axis_desc_style((FONT, 16).into_font().color(&BLACK_INK))
        .x_desc(frame.x)
        .y_desc(frame.y)
        .x_labels(8)
        .y_labels(labels)
        .x_label_formatter(&|value| short(*value))
        .y_label_formatter(&|value| short(*value))
        .draw()?;
    if let Some((range, top)) = shaded {
        chart.draw_series([Rectangle::new(
            [(range.start, 0.0), (range.end, top)],
            GRAY.mix(0.3).filled(),
        )])?;
    }
    for Curve { name, colour, dashed, points } in curves {
        let style = colour.stroke_width(2);
        let series = if dashed {
            chart.draw_series(DashedLineSeries::new(points, 5, 4, style))?
        } else {
            chart.draw_series(LineSeries::new(points, style))?
        };
        if !name.is_empty() {
            series.label(name).legend(move |(x, y)| {
                let (key, style) = ([(x, y), (x + 18, y)], colour.stroke_width(3));
                if dashed {
                    DashedPathElement::new(key, 4, 3, style).into_dyn()
                } else {
                    PathElement::new(key, style).into_dyn()
                }
            });
        }
    }
    if let Some(position) = frame.legend.clone() {
        chart
            .configure_series_labels()
            .position(position)
            .margin(8)
            .legend_area_size(24)
            .background_style(WHITE.mix(0.85))
            .border_style(GRAY.mix(0.5))
            .label_font((FONT, 15).into_font().color(&BLACK_INK))
            .draw()?;
    }
    Ok(())
}

/// Formats a value with few digits.
fn short(value: f64) -> String {
    if value.abs() >= 10_000.0 {
        format!("{}k", value / 1000.0)
    } else if value != 0.0 && value.abs() < 0.001 {
        format!("{value:e}")
    } else {
        format!("{}", (value * 1000.0).round() / 1000.0)
    }
}
