// Who reads whom, from left to right: tables first, every view to the right of what it reads.

import { figures } from "./api.js";
import { compact, cut, el, plural, rate, seconds, setText, share, shown, svg } from "./dom.js";

const [WIDTH, HEIGHT, LANE, ACROSS, DOWN, MARGIN] = [190, 66, 18, 150, 24, 16];

/** How far to the right each table and view is. */
function depths(relations) {
  const found = new Map();
  const depth = (name) => {
    if (!found.has(name)) {
      found.set(name, 0);
      const below = relations.get(name).sources.filter((source) => relations.has(source)).map(depth);
      found.set(name, below.length ? Math.max(...below) + 1 : 0);
    }
    return found.get(name);
  };
  for (const name of relations.keys()) depth(name);
  return found;
}

/** Layers of stops: tables and views, and where a line passes a layer on its way; and the lines, as lists of stops. */
function routed(relations) {
  const found = depths(relations);
  const layers = [];
  const stop = (depth, name) => {
    const made = { depth, name, before: [], after: [], height: name === null ? LANE : HEIGHT };
    (layers[depth] ??= []).push(made);
    return made;
  };
  const stops = new Map([...relations.keys()].map((name) => [name, stop(found.get(name), name)]));
  const lines = [];
  for (const { name, sources } of relations.values())
    for (const source of sources.filter((each) => stops.has(each))) {
      const line = [stops.get(source)];
      for (let depth = found.get(source) + 1; depth < found.get(name); depth++) line.push(stop(depth, null));
      line.push(stops.get(name));
      for (let i = 1; i < line.length; i++) {
        line[i].before.push(line[i - 1]);
        line[i - 1].after.push(line[i]);
      }
      lines.push({ source, reader: name, line });
    }
  return { layers, stops, lines };
}

/** Sorts each layer by the middle of its neighbours, to and fro, which leaves few crossings. */
function untangle(layers) {
  const number = (layer) => layer.forEach((stop, i) => (stop.place = (i + 0.5) / layer.length));
  const sweep = (order, side) => {
    for (const layer of order) {
      for (const stop of layer) stop.middle = stop[side].length ? stop[side].reduce((sum, each) => sum + each.place, 0) / stop[side].length : stop.place;
      layer.sort((a, b) => a.middle - b.middle);
      number(layer);
    }
  };
  layers.forEach(number);
  for (let round = 0; round < 6; round++) {
    sweep(layers, "before");
    sweep(layers.toReversed(), "after");
  }
}

function places(relations) {
  const { layers, stops, lines } = routed(relations);
  untangle(layers);
  const tall = (layer) => layer.reduce((sum, stop) => sum + stop.height + DOWN, -DOWN);
  const tallest = Math.max(0, ...layers.map(tall));
  layers.forEach((layer, column) => {
    let y = MARGIN + (tallest - tall(layer)) / 2;
    for (const stop of layer) {
      Object.assign(stop, { x: MARGIN + column * (WIDTH + ACROSS), y });
      y += stop.height + DOWN;
    }
  });
  // Lines leave and arrive side by side, in the order of where they lead.
  for (const stop of layers.flat())
    for (const side of ["before", "after"]) stop[side].sort((a, b) => a.y - b.y);
  return { stops, lines, width: 2 * MARGIN + layers.length * (WIDTH + ACROSS) - ACROSS, height: 2 * MARGIN + tallest };
}

/** Where a line from or to a neighbour touches a stop. */
function gate(stop, side, neighbour) {
  const among = stop[side];
  return stop.y + (stop.height * (among.indexOf(neighbour) + 0.5)) / among.length;
}

function node(relation, { x, y }) {
  const name = svg("text", { class: "name", x: 12, y: 21 }, cut(shown(relation.name), 24));
  const first = svg("text", { x: 12, y: 38 });
  const second = svg("text", { x: 12, y: 53 });
  const link = svg(
    "a",
    { class: `node ${relation.sources.length ? "view" : "table"}`, transform: `translate(${x} ${y})`, href: `#relation/${encodeURIComponent(relation.name)}` },
    svg("title", {}, shown(relation.name)),
    svg("rect", { width: WIDTH, height: HEIGHT, rx: 8 }),
    name, first, second,
  );
  return { link, first, second };
}

function edge({ source, reader, line }) {
  let path = "";
  let end = 0;
  for (let i = 1; i < line.length; i++) {
    const [from, to] = [line[i - 1], line[i]];
    const [x1, y1, x2] = [from.x + WIDTH, gate(from, "after", to), to.x];
    end = gate(to, "before", from);
    path += `${i === 1 ? `M${x1} ${y1}` : `L${x1} ${y1}`} C${x1 + ACROSS / 2} ${y1} ${x2 - ACROSS / 2} ${end} ${x2} ${end} `;
  }
  const label = svg("text", { class: "label", x: line.at(-1).x - 12, y: end - 4 });
  return { source, reader, label, path: svg("path", { class: "edge", d: path.trim(), "marker-end": "url(#arrow)" }) };
}

export class Graph {
  constructor() {
    this.drawing = svg("svg", { role: "group", "aria-label": "Tables and views, from left to right; a line leads from what is read to the view that reads it" });
    this.legend = el("p", { class: "hint" }, "On a line: the seconds a view has worked on changes from there, and now the share of the time. The list at the side has the same tables and views.");
    this.node = el("section", { "aria-labelledby": "title" }, el("h2", { id: "title" }, "Graph"), this.legend, el("div", { class: "drawing", tabindex: 0, role: "region", "aria-label": "Drawing of the graph" }, this.drawing));
    this.shape = "";
  }

  update() {
    const relations = figures.relations;
    const shape = JSON.stringify([...relations.values()].map((each) => [each.name, each.sources]));
    if (shape !== this.shape) this.draw(shape);
    for (const [name, { link, first, second }] of this.nodes) {
      const [relation, now] = [relations.get(name), figures.rates.get(name)];
      const rows = relation.rows == null ? "rows are not kept" : plural(relation.rows, "row", compact);
      const change = now && Math.round(now.rows) ? ` (${now.rows > 0 ? "+" : "−"}${rate(Math.abs(now.rows))}/s)` : "";
      setText(first, relation.problem ? "out of order" : relation.kind === "lost view" ? "lost" : rows + change);
      setText(second, relation.batches == null ? relation.kind : `${plural(relation.batches, "batch", compact)} · ${rate(now?.batches)}/s`);
      link.classList.toggle("busy", Boolean(now && (now.batches || now.rows)));
      link.classList.toggle("failed", Boolean(relation.problem));
      link.setAttribute("aria-label", `${shown(name)}, ${relation.kind}: ${first.textContent}, ${second.textContent}`);
    }
    for (const { source, reader, path, label } of this.edges) {
      const spent = relations.get(reader).seconds?.[source];
      const busy = figures.rates.get(reader)?.busy[source] ?? 0;
      setText(label, spent == null ? "" : `${seconds(spent)} · ${share(busy)}`);
      path.classList.toggle("busy", busy > 0);
    }
  }

  draw(shape) {
    const relations = figures.relations;
    const focused = this.drawing.contains(document.activeElement) ? document.activeElement.getAttribute("href") : null;
    const { stops, lines, width, height } = places(relations);
    this.shape = shape;
    this.nodes = new Map();
    for (const [name, stop] of stops) this.nodes.set(name, node(relations.get(name), stop));
    this.edges = lines.map(edge);
    const arrow = svg("marker", { id: "arrow", viewBox: "0 0 8 8", refX: 8, refY: 4, markerWidth: 10, markerHeight: 10, markerUnits: "userSpaceOnUse", orient: "auto" }, svg("path", { class: "head", d: "M0 0 8 4 0 8z" }));
    this.drawing.replaceChildren(
      svg("defs", {}, arrow),
      svg("g", { "aria-hidden": "true" }, ...this.edges.map(({ path }) => path), ...this.edges.map(({ label }) => label)),
      ...[...this.nodes.values()].map(({ link }) => link),
    );
    for (const [name, value] of Object.entries({ viewBox: `0 0 ${width} ${height}`, width, height })) this.drawing.setAttribute(name, value);
    if (focused) [...this.drawing.querySelectorAll("a")].find((link) => link.getAttribute("href") === focused)?.focus();
    if (!relations.size) this.drawing.replaceChildren(svg("text", { x: 8, y: 24 }, "There are no tables yet."));
  }
}
