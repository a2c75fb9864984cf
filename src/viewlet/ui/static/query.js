// A box for queries, and the rows of the answer.

import { get, post } from "./api.js";
import { count, el, setText } from "./dom.js";
import { Grid } from "./grid.js";

export class Query {
  constructor() {
    this.text = el("textarea", { id: "sql", rows: 6, spellcheck: "false", autocapitalize: "off", "aria-describedby": "sql-hint", placeholder: "SELECT ..." });
    this.run = el("button", { class: "primary" }, "Run");
    this.cancel = el("button", { type: "button", disabled: true, onclick: () => post("cancel").catch(() => {}) }, "Cancel");
    this.problem = el("pre", { class: "problem", role: "alert" });
    this.done = el("span", { class: "hint", role: "status" });
    this.grid = new Grid("Answer");
    this.grid.node.hidden = true;
    this.grid.lost = (error) => setText(this.problem, `${error.message}: run the query again`);
    this.form = el(
      "form",
      {},
      el("label", { for: "sql" }, "One statement: SELECT, EXPLAIN, SHOW or DESCRIBE"),
      this.text,
      el("div", { class: "bar" }, this.run, this.cancel, el("span", { id: "sql-hint", class: "hint" }, "Ctrl+Enter runs it. Nothing is changed; batches go on meanwhile."), this.done),
    );
    this.form.addEventListener("submit", (event) => this.answer(event));
    this.text.addEventListener("keydown", (event) => {
      if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) this.answer(event);
    });
    this.node = el("section", { "aria-labelledby": "title", class: "query" }, el("h2", { id: "title" }, "Query"), this.form, this.problem, this.grid.node);
  }

  async answer(event) {
    event.preventDefault();
    if (this.run.disabled) return;
    const started = performance.now();
    this.busy(true);
    setText(this.problem, "");
    setText(this.done, "…");
    try {
      const found = await post("query", { sql: this.text.value });
      this.grid.node.hidden = false;
      this.grid.first = 0;
      this.grid.show(found);
      const cut = found.cut ? `the first ${count(found.total)} rows` : this.grid.title;
      setText(this.done, `${cut} at epoch ${count(found.epoch)}, in ${((performance.now() - started) / 1000).toFixed(2)} s`);
    } catch (error) {
      this.grid.node.hidden = true;
      setText(this.problem, error.message);
      setText(this.done, "");
    } finally {
      this.busy(false);
    }
  }

  busy(is) {
    this.run.disabled = is;
    this.cancel.disabled = !is;
  }

  update() {}
}

export class Messages {
  constructor() {
    this.list = el("ol", { class: "messages", role: "log", "aria-labelledby": "title" });
    this.node = el("section", { "aria-labelledby": "title" }, el("h2", { id: "title" }, "Messages"), el("p", { class: "hint" }, "Warnings and errors that Viewlet has logged in this process since the page is served, the newest first."), this.list);
    this.seen = -1;
  }

  async update(number) {
    if (number === this.seen) return;
    this.seen = number;
    const { messages } = await get("messages");
    const item = (each) => {
      const time = new Date(each.time * 1000);
      return el("li", { class: each.level }, el("time", { datetime: time.toISOString() }, time.toLocaleTimeString()), " ", el("strong", {}, each.level), " ", el("span", { class: "text" }, each.text));
    };
    this.list.replaceChildren(...(messages.length ? messages.map(item) : [el("li", {}, "None.")]));
  }
}
