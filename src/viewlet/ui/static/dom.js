// Elements and texts. Nothing here or elsewhere parses HTML: names and values of users are text nodes.

const SVG = "http://www.w3.org/2000/svg";
const HIDDEN = /[\u0000-\u001f\u007f-\u009f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]/g;

function made(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (value === true) node.setAttribute(name, "");
    else if (value !== false && value != null) node.setAttribute(name, value);
  }
  node.append(...children.filter((child) => child != null));
  return node;
}

/** An element: `el("p", {id: "x", onclick: f}, "text", other)`. */
export const el = (tag, attributes = {}, ...children) => made(document.createElement(tag), attributes, children);

/** An element of a drawing. */
export const svg = (tag, attributes = {}, ...children) => made(document.createElementNS(SVG, tag), attributes, children);

/** Sets a text only if it is another one, so that screen readers and selections are left alone. */
export function setText(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

/** A name or a value in one line, with what would hide in it or turn it around escaped. */
export const shown = (text) =>
  text.replace(HIDDEN, (c) => (c === "\n" ? "\\n" : c === "\t" ? "\\t" : `\\u${c.charCodeAt(0).toString(16).padStart(4, "0")}`));

export const cut = (text, most) => (text.length > most ? `${text.slice(0, most - 1)}…` : text);

const whole = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const short = new Intl.NumberFormat("en", { notation: "compact", maximumSignificantDigits: 3 });

export const count = (number) => (number == null ? "–" : whole.format(number));
export const compact = (number) => (number == null ? "–" : number < 10000 ? whole.format(number) : short.format(number));
export const plural = (number, noun, written = count) => `${written(number)} ${noun}${number === 1 ? "" : noun.endsWith("ch") ? "es" : "s"}`;

export function rate(number) {
  if (number == null) return "–";
  return number === 0 ? "0" : number < 10 ? number.toPrecision(2).replace(/\.0$/, "") : compact(number);
}

export function seconds(number) {
  if (number == null) return "–";
  if (number === 0) return "0 s";
  if (number < 0.0995) return `${(number * 1000).toPrecision(2)} ms`;
  return number < 100 ? `${number.toPrecision(3)} s` : `${whole.format(number)} s`;
}

export function bytes(number) {
  if (number == null) return "–";
  let unit = 0;
  while (number >= 1024 && unit < 4) [number, unit] = [number / 1024, unit + 1];
  return `${unit ? number.toPrecision(3) : number} ${["bytes", "KiB", "MiB", "GiB", "TiB"][unit]}`;
}

/** The share of a second that something takes. */
export const share = (number) => (number == null ? "–" : number > 0 && number < 0.001 ? "<0.1 %" : `${(number * 100).toFixed(1)} %`);
