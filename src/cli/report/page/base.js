// Reading the data, writing numbers, making elements. Texts of the recording get into the page as text only.

async function readData() {
  const packed = Uint8Array.from(atob(document.getElementById("data").textContent.trim()), (c) => c.charCodeAt(0));
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
  return JSON.parse(await new Response(stream).text());
}

/** Numbers from differences, in units. */
function sums(differences, unit) {
  let last = 0;
  return differences.map((difference) => (last += difference) * unit);
}

const BYTE_UNIT = 512;

/** Makes the run's columns ready for use. */
function unpackRun(run) {
  const timeline = run.timeline;
  timeline.seconds = sums(timeline.us, 1e-6);
  timeline.events = sums(timeline.events, 1);
  for (const name of ["live", "reserved", "idle"]) timeline[name] = sums(timeline[name], BYTE_UNIT);
  timeline.blocks = sums(timeline.blocks, 1);
  for (const group of timeline.groups) group.bytes = group.bytes.map((column) => sums(column, BYTE_UNIT));
  run.grid.seconds = sums(run.grid.us, 1e-6);
  run.grid.largest_free = sums(run.grid.largest_free, BYTE_UNIT);
  run.sites = run.sites.map((row, place) => ({
    place,
    stack: row[0], tag: row[1], mallocs: row[2], bytes: row[3], rounding: row[4], peakBlocks: row[5], peak: row[6],
    endBlocks: row[7], end: row[8], temporaryMallocs: row[9], temporary: row[10], life: row[11] / 1e6, grown: row[12],
    growth: row[13], windows: row[14],
    name: run.frames[run.stacks[row[0]][0]],
  }));
  run.sizes = run.sizes.map(([size, mallocs, most, windows]) => ({ size, mallocs, most, windows }));
  run.doublings = run.doublings.map(([power, mallocs, bytes, peak, end, windows]) =>
    ({ power, mallocs, bytes, peak, end, windows }));
  run.sourceOf = new Map(run.sources.map(([frame, first, lines]) => [run.frames[frame], { first, lines }]));
  return run;
}

const UNITS = ["B", "KiB", "MiB", "GiB", "TiB"];

function bytesText(bytes) {
  let value = Math.abs(bytes);
  let unit = 0;
  while (value >= 1024 && unit + 1 < UNITS.length) {
    value /= 1024;
    unit += 1;
  }
  const digits = value === Math.floor(value) ? 0 : value < 100 ? 2 : 1;
  return `${bytes < 0 ? "-" : ""}${value.toFixed(digits)} ${UNITS[unit]}`;
}

function countText(count) {
  return Math.round(count).toLocaleString("en-US");
}

function secondsText(seconds) {
  if (seconds === 0) return "0 s";
  if (seconds < 1e-3) return `${(seconds * 1e6).toPrecision(3)} us`;
  if (seconds < 1) return `${(seconds * 1e3).toPrecision(3)} ms`;
  return `${seconds.toPrecision(4)} s`;
}

function hexText(address) {
  return `0x${address.toString(16)}`;
}

/** An element with attributes and children; strings become text. */
function make(kind, attributes, ...children) {
  const element = document.createElement(kind);
  for (const [name, value] of Object.entries(attributes || {})) {
    if (name === "on") for (const [event, act] of Object.entries(value)) element.addEventListener(event, act);
    else if (value === true) element.setAttribute(name, "");
    else if (value !== false && value !== undefined) element.setAttribute(name, value);
  }
  element.append(...children);
  return element;
}

function byId(id) {
  return document.getElementById(id);
}

const colours = {};

function readColours() {
  const style = getComputedStyle(document.documentElement);
  const names = ["back", "text", "soft", "line", "grid", "bad", "free", "none", "hatch", "focus"];
  for (const name of names) colours[name] = style.getPropertyValue(`--${name}`).trim();
  colours.groups = [];
  for (let i = 0; i <= 10; i += 1) colours.groups.push(style.getPropertyValue(`--c${i}`).trim());
}

function groupColour(i) {
  return colours.groups[i % colours.groups.length];
}

/** The same tag has the same colour everywhere. */
function tagColour(run, tag) {
  const names = run.timeline.groups[0].names;
  const at = names.indexOf(tag === "" ? "no tag" : tag);
  return groupColour(at < 0 ? 10 : at);
}

// What must be drawn again when the width or the colours change.
const drawings = new Set();

function redrawAll() {
  readColours();
  for (const draw of drawings) draw();
}

/** A canvas as sharp as the screen; returns its context in CSS pixels. */
function fitCanvas(canvas, height) {
  const width = Math.max(canvas.parentElement.clientWidth, 200);
  const scale = window.devicePixelRatio || 1;
  canvas.width = Math.round(width * scale);
  canvas.height = Math.round(height * scale);
  canvas.style.height = `${height}px`;
  const context = canvas.getContext("2d");
  context.scale(scale, scale);
  context.clearRect(0, 0, width, height);
  return { context, width, height };
}
