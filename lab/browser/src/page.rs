//! The functions that the script of the page calls.

use std::cell::RefCell;

use plotters::prelude::RGBColor;
use storm::catalogue::CLAIMS;
use storm::claims::{Check, Size};
use storm::tally::Tally;
use wasm_bindgen::prelude::wasm_bindgen;

use crate::client::{NAIVE, NO_RETRY, defaults, ready};
use crate::scene::{Line, World, run};
use crate::{picture, slider, words};

/// A slider.
#[wasm_bindgen(getter_with_clone)]
#[derive(Debug)]
pub struct Slider {
    pub label: String,
    pub help: String,
    pub start: usize,
    pub positions: Vec<String>,
}

/// The figures of a run.
#[wasm_bindgen(getter_with_clone)]
#[derive(Debug)]
pub struct Run {
    /// The outcome in a few words.
    pub outcome: String,
    pub sentence: String,
    pub picture: String,
    pub rows: Vec<Row>,
}

/// The row of a client in the table. The cells are its requests for each call, the share of its
/// successes, and its recovery.
#[wasm_bindgen(getter_with_clone)]
#[derive(Clone, Debug)]
pub struct Row {
    pub name: String,
    pub colour: String,
    pub cells: Vec<String>,
}

/// The outcome of a claim of `storm`. A claim of few numbers has no picture.
#[wasm_bindgen(getter_with_clone)]
#[derive(Debug)]
pub struct Claim {
    /// The lesson of the claim.
    pub shows: String,
    /// The action that follows from it.
    pub advice: String,
    pub picture: Option<String>,
    pub columns: Vec<String>,
    pub rows: Vec<Checked>,
    /// The number of rows that hold.
    pub tally: String,
}

/// A row of the table of a claim.
#[wasm_bindgen(getter_with_clone)]
#[derive(Clone, Debug)]
pub struct Checked {
    pub cells: Vec<String>,
    /// The words below the row.
    pub note: Option<String>,
}

thread_local! {
    /// The lines of the clients that have no sliders, in the last world.
    static OTHERS: RefCell<Option<(World, Vec<Line>)>> = const { RefCell::new(None) };
}

/// Turns a panic into an error of JavaScript with the same words.
#[wasm_bindgen(start)]
pub fn start() {
    std::panic::set_hook(Box::new(|panic| wasm_bindgen::throw_str(&panic.to_string())));
}

/// Returns the sliders.
#[wasm_bindgen]
pub fn sliders() -> Vec<Slider> {
    let shown = |slider: slider::Slider| Slider {
        label: slider.label.to_owned(),
        help: slider.help.to_owned(),
        start: slider.start,
        positions: slider.positions,
    };
    slider::all().into_iter().map(shown).collect()
}

/// Returns the names of the clients that are ready.
#[wasm_bindgen]
pub fn clients() -> Vec<String> {
    ready().map(|client| client.name.to_owned()).into()
}

/// Returns the positions of the sliders for a client that is ready, in the world of these positions.
#[wasm_bindgen]
pub fn choose(client: usize, positions: Vec<usize>) -> Result<Vec<usize>, String> {
    Ok(slider::moved(positions, ready().get(client).ok_or("no such client")?))
}

/// Runs the calls with the settings at these positions of the sliders, and those of the other
/// clients. The picture has this width.
#[wasm_bindgen]
pub fn simulate(positions: Vec<usize>, width: u32) -> Result<Run, String> {
    let (world, client) = slider::read(positions);
    let mut lines = vec![run(world, &client)];
    lines.extend(others(world));
    let alone = (client.policy.attempts() > 1).then_some(&lines[1]);
    let rows = lines.iter().zip(picture::COLOURS).map(|(line, RGBColor(red, green, blue))| Row {
        name: line.name.to_owned(),
        colour: format!("rgb({red} {green} {blue})"),
        cells: words::cells(world, line).into(),
    });
    Ok(Run {
        outcome: words::outcome(world, &lines[0]),
        sentence: words::sentence(world, &lines[0], alone),
        picture: picture::draw(world, &lines, width).map_err(|error| error.to_string())?,
        rows: rows.collect(),
    })
}

/// Returns the lines of the other clients. They run again only in another world.
fn others(world: World) -> Vec<Line> {
    OTHERS.with_borrow_mut(|kept| match kept {
        Some((of, lines)) if *of == world => lines.clone(),
        _ => {
            let lines = [NO_RETRY, NAIVE, defaults()].map(|client| run(world, &client)).to_vec();
            *kept = Some((world, lines.clone()));
            lines
        }
    })
}

/// Returns the titles of the claims of `storm`.
#[wasm_bindgen]
pub fn titles() -> Vec<String> {
    CLAIMS.iter().map(|claim| claim.title.to_owned()).collect()
}

/// Runs the models of a claim in their reduced form.
#[wasm_bindgen]
pub fn claim(number: usize) -> Result<Claim, String> {
    let claim = CLAIMS.get(number).ok_or("no such claim")?;
    let outcome = (claim.run)(Size::Quick, &|_| {});
    let picture = outcome.picture.transpose().map_err(|error| error.to_string())?;
    let checked = |check: &Check| Checked { cells: check.cells().into(), note: check.note() };
    let rows = outcome.checks.iter().map(checked).collect();
    let columns = Check::COLUMNS.map(str::to_owned).into();
    let mut tally = Tally::default();
    tally.add(claim.name, &outcome.checks);
    let [shows, advice] = [claim.shows, claim.advice].map(str::to_owned);
    Ok(Claim { shows, advice, picture, columns, rows, tally: tally.to_string() })
}
