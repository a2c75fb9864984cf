// Rows of a listing. Only those in sight are elements; pages of them come from the server as they are scrolled to.
//
// A browser cannot make an element of 240 million pixels. So the scroll bar is at most TALLEST pixels long, and where
// it stands for more rows than that, the wheel and the keys move by rows and the bar only by shares of them.

import { get } from "./api.js";
import { count, el, plural, setText, shown } from "./dom.js";

const [ROW, PAGE, TALLEST, MOST_PAGES] = [26, 200, 5_000_000, 40];

export class Grid {
  constructor(label) {
    this.head = el("tr", { "aria-rowindex": 1 });
    this.body = el("tbody");
    this.table = el("table", { role: "grid", "aria-label": label, "aria-readonly": "true" }, el("thead", {}, this.head), this.body);
    this.inner = el("div", { class: "rows" }, this.table);
    this.spacer = el("div", { class: "spacer" });
    this.scroller = el("div", { class: "grid", tabindex: 0, role: "region", "aria-label": `${label}: arrow keys, Page Up, Page Down, Home and End move` }, this.inner, this.spacer);
    this.place = el("span", { class: "place", role: "status" });
    this.target = el("input", { type: "number", min: 1, id: `row-${label}`, class: "target" });
    this.go = el("form", { class: "go" }, el("label", { for: `row-${label}` }, "Go to row "), this.target, el("button", {}, "Go"));
    this.foot = el("div", { class: "foot" }, this.place, this.go);
    this.node = el("div", { class: "listing" }, this.scroller, this.foot);
    this.go.addEventListener("submit", (event) => this.jump(event));
    this.scroller.addEventListener("scroll", () => this.scrolled());
    this.scroller.addEventListener("wheel", (event) => this.wheeled(event), { passive: false });
    this.scroller.addEventListener("keydown", (event) => this.pressed(event));
    new ResizeObserver(() => this.measure()).observe(this.scroller);
    this.listing = null;
    this.first = 0;
    this.pages = new Map();
    this.loading = false;
    this.lost = () => {};
  }

  /** Shows another listing, at the same row if it is of the same columns. */
  show(listing) {
    const columns = JSON.stringify(listing.columns);
    if (columns !== this.columns) {
      this.columns = columns;
      this.first = 0;
      this.scroller.scrollLeft = 0;
      this.head.replaceChildren(...listing.columns.map((column) => el("th", { scope: "col", class: column.number ? "number" : null, title: column.type }, shown(column.name))));
    }
    this.listing = listing;
    this.old = this.pages; // shown until the new rows are there, so that nothing flickers
    this.pages = new Map();
    this.table.setAttribute("aria-rowcount", listing.total + 1);
    this.table.setAttribute("aria-colcount", listing.columns.length);
    this.target.max = listing.total;
    this.measure();
  }

  /** The rows stay where they are seen, and a spacer below them makes the scroll bar. */
  measure() {
    if (!this.listing) return;
    const pixels = this.listing.total * ROW + this.head.offsetHeight;
    this.spacer.style.height = `${Math.max(0, Math.min(pixels, TALLEST) - this.scroller.clientHeight)}px`;
    this.moveTo(this.first);
  }

  get visible() {
    return Math.max(1, Math.floor((this.scroller.clientHeight - this.head.offsetHeight) / ROW));
  }

  get last() {
    return Math.max(0, (this.listing?.total ?? 0) - this.visible);
  }

  get reach() {
    return Math.max(1, this.scroller.scrollHeight - this.scroller.clientHeight);
  }

  moveTo(row) {
    this.first = Math.min(Math.max(0, row), this.last);
    this.expected = Math.round((this.first / Math.max(1, this.last)) * this.reach);
    if (Math.abs(this.scroller.scrollTop - this.expected) >= 1) this.scroller.scrollTop = this.expected;
    this.draw();
  }

  scrolled() {
    if (this.expected !== undefined && Math.abs(this.scroller.scrollTop - this.expected) < 2) return; // our own doing
    this.expected = undefined;
    this.first = (this.scroller.scrollTop / this.reach) * this.last;
    this.draw();
  }

  wheeled(event) {
    if (!this.listing || Math.abs(event.deltaX) > Math.abs(event.deltaY) || event.ctrlKey || event.shiftKey) return;
    const rows = event.deltaMode === 1 ? event.deltaY : event.deltaMode === 2 ? event.deltaY * this.visible : event.deltaY / ROW;
    const target = Math.min(Math.max(0, this.first + rows), this.last);
    if (target === this.first) return; // at an end the page scrolls
    event.preventDefault();
    this.moveTo(target);
  }

  pressed(event) {
    const step = { ArrowUp: -1, ArrowDown: 1, PageUp: -this.visible, PageDown: this.visible, Home: -Infinity, End: Infinity }[event.key];
    if (step === undefined || !this.listing || event.ctrlKey || event.altKey || event.metaKey) return;
    event.preventDefault();
    this.moveTo(Math.floor(this.first) + step);
  }

  jump(event) {
    event.preventDefault();
    const row = Number(this.target.value);
    if (Number.isFinite(row) && row >= 1) this.moveTo(row - 1);
  }

  row(number) {
    const page = Math.floor(number / PAGE);
    return (this.pages.get(page) ?? this.old?.get(page))?.[number % PAGE];
  }

  draw() {
    if (!this.listing) return;
    const start = Math.floor(this.first);
    const end = Math.min(this.listing.total, start + this.visible + 1);
    while (this.body.rows.length > end - start) this.body.lastChild.remove();
    while (this.body.rows.length < end - start) this.body.append(el("tr"));
    [...this.body.rows].forEach((tr, i) => this.fill(tr, start + i));
    setText(this.place, this.listing.total ? `Rows ${count(start + 1)} to ${count(Math.min(end, start + this.visible))} of ${count(this.listing.total)}` : "No rows");
    this.load(start, end);
  }

  fill(tr, number) {
    const columns = this.listing.columns;
    const cells = this.row(number);
    tr.setAttribute("aria-rowindex", number + 2);
    tr.classList.toggle("odd", number % 2 === 1);
    tr.classList.toggle("missing", !cells);
    while (tr.cells.length > columns.length) tr.lastChild.remove();
    while (tr.cells.length < columns.length) tr.append(el("td"));
    columns.forEach((column, i) => {
      const [td, value] = [tr.cells[i], cells ? cells[i] : "…"];
      setText(td, value ?? "NULL");
      td.className = `${column.number ? "number" : ""}${value === null ? " null" : ""}`;
      if (cells && value?.length > 40) td.title = value;
      else td.removeAttribute("title");
    });
  }

  /** Loads one page at a time, always the one that is wanted most by then. */
  async load(start, end) {
    const missing = [Math.floor(start / PAGE), Math.floor(Math.max(start, end - 1) / PAGE)].find((page) => !this.pages.has(page));
    this.table.setAttribute("aria-busy", String(missing !== undefined && this.listing.total > 0));
    if (this.loading || missing === undefined || !this.listing.total) return;
    const listing = this.listing;
    this.loading = true;
    try {
      const answer = await get("rows", { listing: listing.listing, first: missing * PAGE, most: PAGE });
      if (listing === this.listing) {
        this.pages.set(missing, answer.rows);
        if (this.pages.size > MOST_PAGES) this.pages.delete(this.pages.keys().next().value);
      }
    } catch (error) {
      this.listing = listing === this.listing ? null : this.listing;
      this.lost(error);
    } finally {
      this.loading = false;
    }
    this.draw();
  }

  get title() {
    return plural(this.listing?.total ?? 0, "row");
  }
}
