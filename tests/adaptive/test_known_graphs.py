"""Graphs with published triangle counts, loaded edge by edge and taken apart again."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

import viewlet

networkx: Any = pytest.importorskip("networkx")
KNOWN = {
    "karate_club_graph": 45,
    "les_miserables_graph": 467,
    "florentine_families_graph": 3,
    "davis_southern_women_graph": 0,
    "krackhardt_kite_graph": 11,
    "icosahedral_graph": 20,
    "octahedral_graph": 8,
    "petersen_graph": 0,
}


@pytest.mark.parametrize("engine", ["interpreter", "compiled"])
def test_published_counts(engine: str) -> None:
    db = viewlet.connect(engine=engine)
    db.execute("CREATE TABLE edge (a BIGINT NOT NULL, b BIGINT NOT NULL, PRIMARY KEY (a, b))")
    db.execute("""
        CREATE MATERIALIZED VIEW triangles WITH (strategy = 'adaptive') AS
        SELECT COUNT(*) AS n FROM edge x, edge y, edge z WHERE x.b = y.a AND y.b = z.b AND x.a = z.a
    """)
    for name, count in KNOWN.items():
        graph = networkx.convert_node_labels_to_integers(getattr(networkx, name)())
        edges = [(min(edge), max(edge)) for edge in graph.edges()]
        Random(1).shuffle(edges)
        for start in range(0, len(edges), 40):
            db.insert("edge", edges[start : start + 40])
        assert db.view("triangles").rows() == [(count,)], name
        for start in range(0, len(edges), 40):
            db.delete("edge", edges[start : start + 40])
        assert db.view("triangles").rows() == [(0,)]
