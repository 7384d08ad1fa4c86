"use strict";

const get = id => document.getElementById(id);
const { sliders, clients, choose, simulate, titles, claim } = wasm_bindgen;

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
const buttons = [];

/** Returns the positions of the sliders. */
const current = () => inputs.map(input => Number(input.value));

/** Makes a slider. */
function addSlider(slider, number) {
    const { label, help, start, positions } = slider;
    const id = `slider-${number}`;
    const output = make("output", { htmlFor: id });
    const input = make("input", { type: "range", id, min: 0, max: positions.length - 1, step: 1 });
    input.defaultValue = start;
    input.setAttribute("aria-describedby", `${id}-help`);
    input.say = () => {
        output.textContent = positions[input.value];
        input.setAttribute("aria-valuetext", positions[input.value]);
    };
    input.addEventListener("input", () => { say(); schedule(DEBOUNCE); });
    input.addEventListener("change", () => schedule(0));
    inputs.push(input);
    get("sliders").append(make("div", { className: "slider" },
        make("label", { htmlFor: id, textContent: label }), output, input,
        make("p", { id: `${id}-help`, className: "help", textContent: help })));
    get("meanings").lastElementChild.append(
        make("dt", { textContent: label }), make("dd", { textContent: help }));
}

/** Makes a button that moves the sliders to a client. */
function addClient(name, number) {
    const button = make("button", { type: "button", textContent: name });
    button.addEventListener("click", () => {
        move(choose(number, Uint32Array.from(current())));
        schedule(0);
    });
    buttons.push(button);
    get("clients").append(button);
}

/** Moves the sliders. A missing position is the start. */
function move(wanted) {
    inputs.forEach((input, number) => { input.value = wanted[number] ?? input.defaultValue; });
    say();
}

/** Says the positions beside the sliders, and marks the button that has them. */
function say() {
    inputs.forEach(input => input.say());
    const now = Uint32Array.from(current());
    buttons.forEach((button, number) => {
        button.setAttribute("aria-pressed", `${choose(number, now)}` === `${now}`);
    });
}

/** Moves the sliders to the positions in the address, as in `#9,4,0`. */
function readAddress() {
    move(location.hash.slice(1).split(",").map(position => position || undefined));
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
    const now = current();
    const width = Math.floor(get("picture").clientWidth);
    const wanted = `${now} ${width}`;
    if (wanted !== shown) {
        shown = wanted;
        const began = performance.now();
        const run = simulate(Uint32Array.from(now), width);
        const took = Math.round(performance.now() - began);
        get("outcome").textContent = run.outcome;
        get("sentence").textContent = run.sentence;
        get("picture").innerHTML = run.picture;
        get("rows").replaceChildren(...run.rows.map(row));
        get("legend").replaceChildren(...run.rows.map(key));
        get("took").textContent = `The models ran for ${took} ms.`;
        const isStart = inputs.every(input => input.value === input.defaultValue);
        history.replaceState(null, "", isStart ? "#" : `#${now}`);
    }
    document.querySelector("section").setAttribute("aria-busy", "false");
}

/** Makes the name of a client beside the colour of its curves. */
function key({ name, colour }) {
    const line = make("span", { className: "line" });
    line.style.background = colour;
    return make("span", { className: "key" }, line, name);
}

/** Makes a row of the table. */
function row(client) {
    const { cells } = client;
    return make("tr", {},
        make("th", { scope: "row" }, key(client)),
        ...cells.map(textContent => make("td", { textContent })));
}

/** Keeps the unit at the end of a figure on its line. */
function tied(figure) {
    return figure.replace(/ (?=(%|s|ms|x)$)/, "\u00a0");
}

/** Makes the table of a claim. */
function table(columns, rows) {
    const header = columns.map(textContent => make("th", { scope: "col", textContent }));
    const body = make("tbody", {});
    for (const { cells: [claim, ...figures], note } of rows) {
        body.append(make("tr", {},
            make("th", { scope: "row", textContent: claim }),
            ...figures.map(figure => make("td", { textContent: tied(figure) }))));
        if (note) {
            const words = make("td", { colSpan: 4, className: "note", textContent: note });
            body.append(make("tr", {}, words));
        }
    }
    const head = make("thead", {}, make("tr", {}, ...header));
    return make("table", { className: "claim" }, head, body);
}

/** Makes a sentence with its first word. Every second part between backquotes is code. */
function lesson(word, sentence) {
    const parts = sentence.split("`").map((part, number) =>
        number % 2 === 1 ? make("code", { textContent: part }) : part);
    return make("p", { className: "lesson" }, make("b", { textContent: `${word}: ` }), ...parts);
}

/** Makes a part that scrolls sideways if the screen is too narrow. */
function region(ariaLabel, properties, ...children) {
    const scrolls = { className: "scroll", tabIndex: 0, role: "region", ariaLabel };
    return make("div", { ...properties, ...scrolls }, ...children);
}

/** Makes a claim, which runs when it is opened first. */
function addClaim(title, number) {
    const body = make("div", { textContent: "The models are running." });
    const details = make("details", {}, make("summary", { textContent: title }), body);
    details.addEventListener("toggle", () => afterPaint(() => {
        const { shows, advice, picture, columns, rows, tally } = claim(number);
        const parts = [
            lesson("Shows", shows),
            lesson("Do", advice),
            make("p", { className: "faint", textContent: `${tally}.` }),
        ];
        if (picture) {
            const hint = "The picture scrolls sideways.";
            parts.push(make("p", { className: "hint", textContent: hint }));
            parts.push(region("Picture", { innerHTML: picture }));
        }
        body.replaceChildren(...parts, region("Figures", {}, table(columns, rows)));
    }), { once: true });
    get("claims").append(details);
}

async function start() {
    const text = atob(get("wasm").textContent);
    const bytes = Uint8Array.from(text, character => character.charCodeAt(0));
    // A browser without a screen takes its picture when the page is loaded, so this way does not wait.
    const isAtOnce = location.search === "?at-once";
    if (isAtOnce) {
        wasm_bindgen.initSync({ module: bytes });
    } else {
        await wasm_bindgen({ module_or_path: bytes });
    }
    sliders().forEach(addSlider);
    clients().forEach(addClient);
    titles().forEach(addClaim);
    readAddress();
    addEventListener("hashchange", () => { readAddress(); schedule(0); });
    document.querySelector("form").addEventListener("reset", () => afterPaint(() => {
        say();
        schedule(0);
    }));
    if (isAtOnce) {
        show();
    }
    new ResizeObserver(() => schedule(DEBOUNCE)).observe(get("picture"));
    schedule(0);
}

start().catch(fail);
