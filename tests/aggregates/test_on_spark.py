"""Views with user-defined aggregates on partitions in this process: the cluster keeps rows, the driver states."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import pytest

import viewlet
from tests.aggregates.examples import ALL
from tests.aggregates.test_views import SCHEMA, assert_right, play, signed

pytest.importorskip("pyspark")

OWN = ("by_key", "joined", "filtered", "everything")


def opened(path: Path, partitions: int) -> viewlet.Connection:
    from viewlet.connection.spark_facade import connect_inline

    return connect_inline(path, partitions, aggregates=ALL)


def test_random_changes_are_followed(tmp_path: Path) -> None:
    db, r, s = opened(tmp_path / "db", 3), list[Any](), list[Any]()
    db.execute(SCHEMA.format(kind="TABLE"))
    heard: list[Any] = []
    db.view("by_key").subscribe(lambda epoch, changes: heard.extend(changes.to_pylist()))
    play(db, Random(2), 5, r, s, OWN)
    db.close()
    db = opened(tmp_path / "db", 3)
    db.apply({"r": signed("abx", [(1, 1, 3)], []), "s": []})  # a batch before the first reading
    r.append((1, 1, 3))
    assert_right(db, r, s, OWN)
    play(db, Random(3), 3, r, s, OWN)
    total: dict[Any, int] = {}
    for row in heard:
        weight = row.pop("_multiplicity")
        key = tuple(row.values())
        total[key] = total.get(key, 0) + weight
    assert all(weight in (0, 1) for weight in total.values())
    db.close()


def test_deletes_without_remove_and_subqueries_are_refused(tmp_path: Path) -> None:
    db = opened(tmp_path / "db", 2)
    db.execute("CREATE TABLE t (g BIGINT, x BIGINT)")
    db.execute("CREATE MATERIALIZED VIEW v AS SELECT g, largest(x) AS m FROM t GROUP BY g")
    db.insert("t", [(1, 5), (1, 7)])
    with pytest.raises(viewlet.DataError, match="no remove"):
        db.delete("t", [(1, 7)])
    assert db.view("v").rows() == [(1, 7)]
    db.insert("t", [(1, 9)])
    assert db.view("v").rows() == [(1, 9)]
    with pytest.raises(viewlet.UnsupportedError, match="a view of its own"):
        db.execute(
            "CREATE MATERIALIZED VIEW w AS SELECT g, bit_mix(x) AS m FROM t GROUP BY g "
            "HAVING bit_mix(x) > (SELECT AVG(x) FROM t)"
        )
    db.close()


def test_a_checkpoint_needs_its_aggregates(tmp_path: Path) -> None:
    from viewlet.connection.spark_facade import connect_inline

    db = opened(tmp_path / "db", 2)
    db.execute("CREATE TABLE t (g BIGINT, x BIGINT)")
    db.execute("CREATE MATERIALIZED VIEW v AS SELECT g, bit_mix(x) AS m FROM t GROUP BY g")
    db.close()
    with pytest.raises(viewlet.StateError, match="uses the aggregate 'bit_mix'"):
        connect_inline(tmp_path / "db", 2)
