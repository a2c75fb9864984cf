"""Updates of triangles per second beside other strategies, and beside what users have: a recount per batch."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

import numpy as np
import pyarrow as pa

import viewlet
from viewlet.view import CofactorView

CYCLES = "FROM e x JOIN e y ON x.target = y.source JOIN e z ON y.target = z.source AND z.target = x.source"
COUNT = f"SELECT COUNT(*) AS n {CYCLES}"
ADAPTIVE, SHORTER_SIDE = "adaptive", "first-order, the shorter side (epsilon = 0)"
STRATEGIES = {
    ADAPTIVE: f"WITH (strategy = 'adaptive') AS {COUNT}",
    "adaptive, epsilon = 'auto'": f"WITH (strategy = 'adaptive', epsilon = 'auto') AS {COUNT}",
    "adaptive, space = 'any'": f"WITH (strategy = 'adaptive', space = 'any') AS {COUNT}",
    SHORTER_SIDE: f"WITH (strategy = 'adaptive', epsilon = 0) AS {COUNT}",
    "first-order": f"WITH (strategy = 'first-order') AS {COUNT}",
    "higher-order": f"WITH (strategy = 'higher-order') AS {COUNT}",
    "view-tree": f"WITH (strategy = 'view-tree') AS {COUNT}",
    "view tree with indicators (COFACTOR)": f"AS SELECT COFACTOR(x.source AS v) {CYCLES}",
}
"""How the view is declared; the last one also keeps sums of a column, and of its squares."""
BATCH = 1000
WARM_UP = pa.table({"source": [1, 2, 3], "target": [2, 3, 1]})


@dataclass(frozen=True)
class Graph:
    """Edges to start with, and batches of signed edges that leave it as it was."""

    name: str
    edges: pa.Table
    batches: list[pa.Table]


def _signed(source: Any, target: Any) -> list[pa.Table]:
    """Edges that come, and go."""
    edges = pa.table({"source": source, "target": target})
    return [edges.append_column("_multiplicity", pa.array([sign] * len(source))) for sign in (1, -1)]


def hubs(edges: int) -> Graph:
    """Hubs that share all their neighbours; edges between hubs come and go.

    It has a fifteenth of the edges: to load it takes other strategies the square of that.
    """
    count, edges = 32, edges // 15
    leaves = max(4, edges // (2 * count))
    ends, between = np.arange(100, 100 + leaves), np.arange(count)
    out, back = np.repeat(between, leaves), np.tile(ends, count)
    whole = pa.table({"source": np.concatenate([out, back]), "target": np.concatenate([back, out])})
    rows = min(BATCH, leaves * count)
    signed = _signed(np.repeat(between, count)[:rows], np.tile(between, count)[:rows])
    return Graph(f"{count} hubs with {leaves:,} neighbours in common", whole, signed)


def power_law(edges: int) -> Graph:
    """Vertices with degrees of a power law; batches of edges come, and go."""
    random = np.random.default_rng(2)
    vertices = max(10, edges // 8)
    ranks = random.permutation(vertices)

    def ends(count: int) -> Any:
        return ranks[np.minimum((vertices * random.random(count) ** 2.5).astype(np.int64), vertices - 1)]

    whole = pa.table({"source": ends(edges), "target": ends(edges)})
    rows = min(BATCH, edges)
    batches = [batch for _ in range(5) for batch in _signed(ends(rows), ends(rows))]
    return Graph("power law", whole, batches)


def throughput(graph: Graph, rounds: int, seconds: float, left_out: Sequence[str] = ()) -> Iterator[str]:
    """All strategies in turn, several times: the machine may be busy with other things.

    Strategies and libraries whose names begin like those that are left out are not run.
    """
    yield f"### {graph.name}: {graph.edges.num_rows:,} edges\n"
    yield "| strategy | updates per CPU second | CPU seconds to load | bytes of state |"
    yield "|---|---|---|---|"
    databases, loaded = dict[str, viewlet.Connection](), dict[str, float]()
    for name in [name for name in STRATEGIES if not name.startswith(tuple(left_out))]:
        declared = STRATEGIES[name]
        db = databases[name] = _declare(declared)
        started = time.process_time()
        db.insert("e", graph.edges)
        loaded[name] = time.process_time() - started
    rates: dict[str, list[float]] = {name: [] for name in databases}
    for _ in range(rounds):
        for name, db in databases.items():
            rates[name].append(_rate(db, graph, seconds))
    assert len({_count(db) for db in databases.values()}) == 1
    for name, db in databases.items():
        told: Any = db.view("n").stats().get("bytes", 0)
        size = sum(told.values()) if isinstance(told, dict) else told
        yield f"| {name} | {median(rates[name]):,.0f} | {loaded[name]:,.2f} | {size:,} |"
        db.close()
    if len(paired := [rates[name] for name in (ADAPTIVE, SHORTER_SIDE) if name in rates]) == 2:
        ratios = sorted(mine / its for mine, its in zip(*paired, strict=True))
        told = f"{ratios[0]:.2f} to {ratios[-1]:.2f} times the updates of the shorter side, {median(ratios):.2f} times"
        compared = f"\nRound by round, adaptive maintenance made {told} in the middle."
    else:
        compared = ""
    for name, seconds_of in recounts(graph, left_out).items():
        yield f"| {name}, recounts after every {BATCH:,} updates | {BATCH / seconds_of:,.0f} | | |"
    yield compared
    yield ""


def _count(db: viewlet.Connection) -> int:
    view: Any = db.view("n")
    return int(view.cofactor().count if isinstance(view, CofactorView) else view.rows()[0][0])


def _declare(declared: str) -> viewlet.Connection:
    """A database with the view, its code compiled."""
    db = viewlet.connect(engine="compiled")
    db.execute("CREATE STREAM e (source BIGINT NOT NULL, target BIGINT NOT NULL)")
    db.execute(f"CREATE MATERIALIZED VIEW n {declared}")
    for sign in (1, -1):
        db.apply({"e": WARM_UP.append_column("_multiplicity", pa.array([sign] * 3))})
    return db


def _rate(db: viewlet.Connection, graph: Graph, seconds: float) -> float:
    rows, started = 0, time.process_time()
    while not rows or time.process_time() - started < seconds:
        for batch in graph.batches:
            db.apply({"e": batch})
            rows += batch.num_rows
    return rows / (time.process_time() - started)


# -- what users have --------------------------------------------------------------------------------------------------


def recounts(graph: Graph, left_out: Sequence[str] = ()) -> dict[str, float]:
    """CPU seconds of one count from the edges, for each library that is installed.

    DuckDB runs the same query; the others count the triangles of the undirected graph without loops and duplicates.
    """
    found = {}
    for name, count in (("DuckDB", _duckdb), ("igraph", _igraph), ("NetworKit", _networkit)):
        if name.startswith(tuple(left_out)):
            continue
        try:
            count(WARM_UP)
        except ImportError:
            continue
        started = time.process_time()
        count(graph.edges)
        found[name] = time.process_time() - started
    return found


def _duckdb(edges: pa.Table) -> Any:
    import duckdb

    with duckdb.connect(config={"threads": 1, "memory_limit": "6GB"}) as db:
        db.register("e", edges)
        return db.execute(f"SELECT COUNT(*) {CYCLES}").fetchone()


def _arrays(edges: pa.Table) -> tuple[Any, Any]:
    return edges["source"].to_numpy(), edges["target"].to_numpy()


def _igraph(edges: pa.Table) -> float:
    import igraph

    graph = igraph.Graph(edges=np.column_stack(_arrays(edges)))
    graph.simplify()
    degrees = np.array(graph.degree(), np.float64)
    return float(graph.transitivity_undirected()) * float((degrees * (degrees - 1) / 2).sum()) / 3


def _networkit(edges: pa.Table) -> float:
    import networkit

    source, target = _arrays(edges)
    networkit.setNumberOfThreads(1)
    graph = networkit.GraphFromCoo((source, target), n=int(max(source.max(), target.max())) + 1)
    graph.removeSelfLoops()
    graph.removeMultiEdges()
    scores = np.array(networkit.centrality.LocalClusteringCoefficient(graph, True).run().scores())
    degrees = np.array([graph.degree(vertex) for vertex in graph.iterNodes()], np.float64)
    return float((scores * degrees * (degrees - 1) / 2).sum() / 3)


Maker = Callable[[int], Graph]
GRAPHS: tuple[Maker, ...] = (hubs, power_law)
