// The server, and the figures that change: they are asked for once a second while the page is seen.

const PERIOD = 1000;
const WINDOW = 5; // seconds over which rates are measured

export class ApiError extends Error {
  constructor(message, status) {
    super(message);
    this.status = status;
  }
}

async function answered(response) {
  const type = response.headers.get("Content-Type") ?? "";
  const answer = type.startsWith("application/json") ? await response.json() : { error: await response.text() };
  if (!response.ok) throw new ApiError(answer.error, response.status);
  return answer;
}

export const get = async (page, parameters = {}) =>
  answered(await fetch(`api/${page}?${new URLSearchParams(parameters)}`));

export const post = async (page, body = {}) =>
  answered(await fetch(`api/${page}`, { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) }));

/** The last figures, with rates: `relations` by name, and what changes per second. */
export const figures = { number: -1, epoch: 0, messages: 0, relations: new Map(), rates: new Map(), total: {} };

const history = [];

function measured(now, before) {
  const elapsed = now.at - before.at;
  if (!(elapsed > 0)) return { rates: new Map(), total: { batches: 0, work: 0 } };
  const rates = new Map();
  let work = 0;
  for (const [name, relation] of now.relations) {
    const old = before.relations.get(name);
    const difference = (a, b) => Math.max(0, (a ?? 0) - (b ?? 0)) / elapsed;
    const busy = {};
    for (const source of relation.sources) busy[source] = old ? difference(relation.seconds?.[source], old.seconds?.[source]) : 0;
    for (const each of Object.values(busy)) work += each;
    rates.set(name, {
      rows: old ? ((relation.rows ?? 0) - (old.rows ?? 0)) / elapsed : 0,
      batches: old ? difference(relation.batches, old.batches) : 0,
      tuples: old ? difference(relation.tuples, old.tuples) : 0,
      busy,
    });
  }
  return { rates, total: { batches: Math.max(0, now.epoch - before.epoch) / elapsed, work } };
}

function take(state) {
  const at = performance.now() / 1000;
  const same = state.relations === undefined;
  const now = same
    ? { at, epoch: figures.epoch, relations: figures.relations }
    : { at: state.at, epoch: state.epoch, relations: new Map(state.relations.map((each) => [each.name, each])) };
  // The server says when it read the figures; while they stay the same, its clock is taken to go on like ours.
  if (same) now.at = history.at(-1).at + (at - history.at(-1).seen);
  history.push({ ...now, seen: at });
  while (history.length > 2 && history[1].at < now.at - WINDOW) history.shift();
  Object.assign(figures, now, { number: state.number, messages: state.messages }, measured(now, history[0]));
}

/** Calls `changed(problem)` after every answer of the server, for as long as the page is open. */
export async function poll(changed) {
  for (;;) {
    if (!document.hidden) {
      try {
        take(await get("state", { since: figures.number }));
        changed(null);
      } catch (error) {
        changed(error instanceof ApiError ? error.message : "the server does not answer: it may have ended");
      }
    }
    await new Promise((done) => setTimeout(done, PERIOD));
  }
}
