"use strict";

const get = id => document.getElementById(id);
const { sliders, simulate, titles, claim } = wasm_bindgen;

/** The waits between a movement and its run, in milliseconds. */
const DEBOUNCE = 120;

function make(tag, properties, ...children) {
    const element = Object.assign(document.createElement(tag), properties);
    element.append(...children);
    return element;
}

function fail(error) {
    get("error").textContent = `The page does not work: ${error.message ?? error}`;
    get("error").hidden = false;
}

/** Lets the browser paint before a long piece of work. */
function afterPaint(work) {
    setTimeout(() => {
        try {
            work();
        } catch (error) {
            fail(error);
        }
    }, 20);
}

const inputs = [];

/** Makes a slider. */
function add(slider, number) {
    const { label, help, start, positions } = slider;
    const id = `slider-${number}`;
    const output = make("output", { htmlFor: id });
    const input = make("input", { type: "range", id, min: 0, max: positions.length - 1, step: 1 });
    input.defaultValue = start;
    input.setAttribute("aria-describedby", `${id}-help`);
    const say = () => {
        output.textContent = positions[input.value];
        input.setAttribute("aria-valuetext", positions[input.value]);
    };
    input.say = say;
    input.addEventListener("input", () => { say(); schedule(DEBOUNCE); });
    input.addEventListener("change", () => schedule(0));
    inputs.push(input);
    get("sliders").append(make("div", { className: "slider" },
        make("label", { htmlFor: id, textContent: label }), output, input,
        make("p", { id: `${id}-help`, className: "help", textContent: help })));
    get("meanings").lastElementChild.append(
        make("dt", { textContent: label }), make("dd", { textContent: help }));
}

/** Sets the sliders to the positions in the address, as in `#9,4,0`. */
function readAddress() {
    const positions = location.hash.slice(1).split(",");
    inputs.forEach((input, number) => {
        input.value = positions[number] || input.defaultValue;
        input.say();
    });
}

let timer;
let shown = "";

/** Runs the models after a time without another movement. */
function schedule(wait) {
    clearTimeout(timer);
    timer = setTimeout(() => {
        document.querySelector("section").setAttribute("aria-busy", "true");
        afterPaint(show);
    }, wait);
}

/** Runs the models and shows their figures. */
function show() {
    const positions = inputs.map(input => Number(input.value));
    const width = Math.floor(get("picture").clientWidth);
    const wanted = `${positions} ${width}`;
    if (wanted !== shown) {
        shown = wanted;
        const began = performance.now();
        const run = simulate(Uint32Array.from(positions), width);
        const took = Math.round(performance.now() - began);
        get("sentence").textContent = run.sentence;
        get("picture").innerHTML = run.picture;
        get("rows").replaceChildren(...run.rows.map(row));
        get("took").textContent = `The models ran for ${took} ms.`;
        const isStart = inputs.every(input => input.value === input.defaultValue);
        history.replaceState(null, "", isStart ? "#" : `#${positions}`);
    }
    document.querySelector("section").setAttribute("aria-busy", "false");
}

/** Makes a row of the table. */
function row({ name, colour, cells }) {
    const line = make("span", { className: "line" });
    line.style.background = colour;
    return make("tr", {},
        make("th", { scope: "row" }, line, name),
        ...cells.map(textContent => make("td", { textContent })));
}

/** Makes the table of a claim. */
function table(columns, rows) {
    const header = columns.map(textContent => make("th", { scope: "col", textContent }));
    const body = make("tbody", {});
    for (const { cells: [claim, ...figures], note } of rows) {
        body.append(make("tr", {},
            make("th", { scope: "row", textContent: claim }),
            ...figures.map(textContent => make("td", { textContent }))));
        if (note) {
            const words = make("td", { colSpan: 4, className: "note", textContent: note });
            body.append(make("tr", {}, words));
        }
    }
    const head = make("thead", {}, make("tr", {}, ...header));
    return make("table", { className: "claim" }, head, body);
}

/** Makes a claim, which runs when it is opened first. */
function addClaim(title, number) {
    const body = make("div", { textContent: "The models are running." });
    const details = make("details", {}, make("summary", { textContent: title }), body);
    details.addEventListener("toggle", () => afterPaint(() => {
        const { picture, columns, rows, tally } = claim(number);
        const parts = [make("p", { textContent: `${tally}.` })];
        if (picture) {
            const region = { className: "scroll", tabIndex: 0, role: "region", innerHTML: picture };
            const hint = "The picture scrolls sideways.";
            parts.push(make("p", { className: "hint", textContent: hint }));
            parts.push(make("div", { ...region, ariaLabel: "Picture" }));
        }
        body.replaceChildren(...parts, table(columns, rows));
    }), { once: true });
    get("claims").append(details);
}

async function start() {
    const text = atob(get("wasm").textContent);
    const bytes = Uint8Array.from(text, character => character.charCodeAt(0));
    await wasm_bindgen({ module_or_path: bytes });
    sliders().forEach(add);
    titles().forEach(addClaim);
    readAddress();
    addEventListener("hashchange", () => { readAddress(); schedule(0); });
    document.querySelector("form").addEventListener("reset", () => afterPaint(() => {
        inputs.forEach(input => input.say());
        schedule(0);
    }));
    new ResizeObserver(() => schedule(DEBOUNCE)).observe(get("picture"));
    schedule(0);
}

start().catch(fail);
