//! The picture of the compared clients, in the style of `storm`.

#![expect(clippy::cast_precision_loss, reason = "pixels")]

use plotters::prelude::RGBColor;
use storm::plots::style::{BLACK_INK, BLUE, Drawn, Frame, GRAY, GREEN, VERMILION, panel, picture};
use storm::plots::{curve, dashed, over_time};

use crate::scene::{CAPACITY, END, Line, TRIGGER, World};

/// The colours of the lines. The first line is the reader's.
pub(crate) const COLOURS: [RGBColor; 4] = [GREEN, GRAY, VERMILION, BLUE];

/// The least width of a picture, and the least with two panels side by side.
const LEAST: u32 = 280;
const WIDE: u32 = 760;
const MOST: u32 = 1_600;
/// The heights of a picture. A narrow one leaves room for the sliders on the screen of a phone.
const HIGH: u32 = 360;
const LOW: u32 = 256;

/// Draws the answers and the load of each second. The panels are one below the other if the page is
/// narrow.
pub(crate) fn draw(world: World, lines: &[Line], width: u32) -> Drawn<String> {
    let width = width.clamp(LEAST, MOST);
    let is_narrow = width < WIDE;
    let (size, panels) = if is_narrow { ((width, LOW), (2, 1)) } else { ((width, HIGH), (1, 2)) };
    let seconds = "time, s";
    let end = END as f64;
    let (start, users) = (TRIGGER as f64, f64::from(world.users));
    let gray = start..start + f64::from(world.standstill);
    let most = lines.iter().flat_map(|line| &line.load).copied().fold(CAPACITY, f64::max);
    let series = |of: fn(&Line) -> &[f64]| {
        // The reader's line is drawn last, above the others.
        let lines = lines.iter().zip(COLOURS).rev();
        lines.map(move |(line, colour)| curve("", colour, over_time(of(line), 2)))
    };
    let bound = |value| std::iter::once(dashed("", BLACK_INK, [(0.0, value), (end, value)]));
    picture(size, panels, |areas| {
        let top = 1.25 * users;
        // The lower of two panels has the axis of both.
        let above = if is_narrow { "" } else { seconds };
        let frame =
            Frame { title: "Calls that succeed, per second", x: above, y: "", legend: None };
        let good = bound(users).chain(series(|line| &line.good)).collect();
        panel(&areas[0], &frame, (0.0..end, 0.0..top), Some((gray.clone(), top)), good)?;
        let top = 1.1 * most;
        let frame = Frame { title: "Requests to the server, per second", x: seconds, ..frame };
        let load = bound(CAPACITY).chain(series(|line| &line.load)).collect();
        panel(&areas[1], &frame, (0.0..end, 0.0..top), Some((gray, top)), load)
    })
}
