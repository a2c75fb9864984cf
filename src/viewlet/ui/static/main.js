// The frame: which page is shown, the list of tables and views, the figures of the whole database.

import { figures, poll } from "./api.js";
import { compact, count, el, rate, setText, share, shown } from "./dom.js";
import { Graph } from "./graph.js";
import { Messages, Query } from "./query.js";
import { Relation } from "./relation.js";

const SECONDS_BETWEEN_NEWS = 15; // a screen reader that reads figures every second is of no use
const by = (id) => document.getElementById(id);
const pages = { graph: new Graph(), query: new Query(), messages: new Messages() };
const items = new Map();
let page = null;
let place = "";
let read = 0;
let told = { time: 0, epoch: null };

function open() {
  const [kind, name] = location.hash.slice(1).split("/", 2);
  const wanted = kind === "relation" && name ? decodeURIComponent(name) : null;
  if (page && place === location.hash) return;
  const moved = page !== null;
  place = location.hash;
  page = wanted === null ? (pages[kind] ?? pages.graph) : new Relation(wanted);
  by("main").replaceChildren(page.node);
  document.title = wanted === null ? "Viewlet" : `${shown(wanted)} – Viewlet`;
  for (const link of document.querySelectorAll("nav a")) {
    const current = link.getAttribute("href") === (location.hash || "#graph");
    if (current) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  if (moved) by("main").focus({ preventScroll: true });
  update();
}

function list() {
  const names = [...figures.relations.keys()];
  if (names.join("\0") !== [...items.keys()].join("\0")) {
    items.clear();
    for (const name of names) {
      const href = `#relation/${encodeURIComponent(name)}`;
      const rows = el("span", { class: "count" });
      const link = el("a", { href, title: shown(name), "aria-current": href === location.hash ? "page" : null }, el("span", { class: "label" }, shown(name)), rows);
      items.set(name, { item: el("li", { class: figures.relations.get(name).sources.length ? "view" : "table" }, link), rows });
    }
    by("relations").replaceChildren(...[...items.values()].map(({ item }) => item));
    filter();
  }
  for (const [name, { rows }] of items) {
    const known = figures.relations.get(name).rows;
    setText(rows, known == null ? "" : compact(known));
  }
}

function filter() {
  const text = by("filter").value.toLowerCase();
  for (const [name, { item }] of items) item.hidden = !name.toLowerCase().includes(text);
}

function tell() {
  const now = performance.now() / 1000;
  if (told.epoch === figures.epoch || now - told.time < SECONDS_BETWEEN_NEWS) return;
  if (told.epoch !== null) setText(by("news"), `Epoch ${count(figures.epoch)}, ${rate(figures.total.batches)} batches per second`);
  told = { time: now, epoch: figures.epoch };
}

function update() {
  if (figures.number < 0) return;
  setText(by("epoch"), count(figures.epoch));
  setText(by("batches"), rate(figures.total.batches));
  setText(by("work"), share(figures.total.work));
  list();
  page.update(figures.messages);
  if (page === pages.messages) read = figures.messages;
  by("unread").hidden = figures.messages <= read;
  setText(by("unread"), figures.messages > read ? `${count(figures.messages - read)} new` : "");
  tell();
}

by("filter").addEventListener("input", filter);
by("skip").addEventListener("click", (event) => {
  event.preventDefault();
  by("main").focus();
});
addEventListener("hashchange", open);
open();
poll((problem) => {
  setText(by("connection"), problem ?? "");
  if (!problem) update();
});
