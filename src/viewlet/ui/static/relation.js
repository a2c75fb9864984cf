// One table or view: what it is, how it is maintained, and its rows.

import { figures, get } from "./api.js";
import { bytes, count, el, plural, rate, seconds, setText, share, shown } from "./dom.js";
import { Grid } from "./grid.js";

const FOLLOWED_ROWS = 100_000; // of larger ones, rows are listed again only when asked for

const link = (name) => el("a", { href: `#relation/${encodeURIComponent(name)}` }, shown(name));
const links = (names) => (names.length ? ["Read by ", ...names.flatMap((name, i) => (i ? [", ", link(name)] : [link(name)]))] : ["No view reads it."]);

export class Relation {
  constructor(name) {
    this.name = name;
    this.facts = el("dl", { class: "facts", "aria-label": "Figures" });
    this.values = new Map();
    this.about = el("div", { class: "about" });
    this.grid = new Grid("Rows");
    this.grid.lost = () => this.list();
    this.follow = el("input", { type: "checkbox", id: "follow" });
    this.again = el("button", { type: "button", hidden: true, onclick: () => this.list() });
    this.asOf = el("span", { class: "hint" });
    this.problem = el("p", { class: "problem", role: "alert" });
    this.kind = el("span", { class: "kind" });
    this.node = el(
      "section",
      { "aria-labelledby": "title", class: "relation" },
      el("h2", { id: "title" }, shown(name), " ", this.kind),
      this.problem,
      this.facts,
      this.about,
      el("div", { class: "bar" }, el("h3", {}, "Rows"), this.asOf, this.again, el("label", { for: "follow", class: "follow" }, this.follow, " follow batches")),
      this.grid.node,
    );
    this.start();
  }

  async start() {
    this.describe();
    const relation = figures.relations.get(this.name);
    this.follow.checked = (relation?.rows ?? 0) <= FOLLOWED_ROWS;
    await this.list();
  }

  async describe() {
    try {
      const found = await get("relation", { name: this.name });
      this.engine = found.stats.engine;
      this.about.replaceChildren(...this.described(found));
    } catch (error) {
      setText(this.problem, error.message);
    }
  }

  *described(found) {
    const type = (column) => el("tr", {}, el("th", { scope: "row" }, shown(column.name)), el("td", {}, column.type), el("td", {}, found.key.includes(column.name) ? "primary key" : ""));
    yield el("p", {}, ...links(found.readers));
    yield el("details", {}, el("summary", {}, plural(found.columns.length, "column")), el("table", { class: "plain" }, el("tbody", {}, ...found.columns.map(type))));
    if (found.sql) yield el("details", { open: true }, el("summary", {}, "Definition"), el("pre", { tabindex: 0 }, found.sql));
    if (found.picture) {
      const picture = el("img", { class: "picture", alt: `The view tree of ${shown(this.name)}; the explanation has it as text`, loading: "lazy", src: `api/picture?${new URLSearchParams({ name: this.name })}` });
      yield el("details", {}, el("summary", {}, "View tree"), el("div", { class: "drawing", tabindex: 0 }, picture));
    }
    if (found.explain) yield el("details", {}, el("summary", {}, "How it is maintained"), el("pre", { tabindex: 0 }, found.explain));
    const stats = Object.entries(found.stats).map(([name, value]) => el("tr", {}, el("th", { scope: "row" }, name.replaceAll("_", " ")), el("td", {}, shown(value))));
    yield el("details", {}, el("summary", {}, `Statistics at epoch ${count(found.epoch)}`), el("table", { class: "plain" }, el("tbody", {}, ...stats)));
  }

  async list() {
    if (this.listing) return;
    this.listing = true;
    try {
      const found = await get("listing", { name: this.name });
      this.grid.show(found);
      this.changed = false;
      setText(this.asOf, `${this.grid.title} as of epoch ${count(found.epoch)}`);
      setText(this.problem, "");
    } catch (error) {
      setText(this.problem, error.message);
    } finally {
      this.listing = false;
      this.seen = figures.relations.get(this.name)?.batches ?? figures.epoch;
      this.again.hidden = true;
    }
  }

  fact(name, value) {
    if (!this.values.has(name)) {
      this.values.set(name, el("dd"));
      this.facts.append(el("div", {}, el("dt", {}, name), this.values.get(name)));
    }
    setText(this.values.get(name), value);
  }

  update() {
    const [relation, now] = [figures.relations.get(this.name), figures.rates.get(this.name)];
    if (!relation) return setText(this.problem, `There is no table or view ${shown(this.name)} any more.`);
    if (relation.problem) setText(this.problem, relation.problem);
    setText(this.kind, relation.kind);
    this.fact("rows", relation.rows == null ? "not kept" : count(relation.rows));
    this.fact("fresh as of", `epoch ${count(figures.epoch)}`);
    if (relation.batches != null) {
      const spent = Object.values(relation.seconds ?? {}).reduce((a, b) => a + b, 0);
      const busy = Object.values(now?.busy ?? {}).reduce((a, b) => a + b, 0);
      this.fact("engine", relation.engine ?? "–");
      this.fact("strategy", relation.strategy ?? "–");
      this.fact("bytes", bytes(relation.bytes));
      this.fact("batches", `${count(relation.batches)} (${rate(now?.batches)}/s)`);
      this.fact("changed rows read", `${count(relation.tuples)} (${rate(now?.tuples)}/s)`);
      this.fact("seconds of work", `${seconds(spent)} (${share(busy)} of the time)`);
      if (this.engine && relation.engine !== this.engine) this.describe();
    }
    const seen = relation.batches ?? figures.epoch;
    if (this.seen === undefined || seen === this.seen || this.listing || relation.rows == null) return;
    if (this.follow.checked) this.list();
    else {
      this.again.hidden = false;
      setText(this.again, `Show epoch ${count(figures.epoch)}`);
    }
  }
}
