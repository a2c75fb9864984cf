"""Random events of many groups, and queries over them online and offline."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import viewlet
from viewlet.signals import Signal

SCHEMA = "CREATE {kind} events (g VARCHAR NOT NULL, t BIGINT NOT NULL, x DOUBLE, y DOUBLE)"
PERIOD = 10


@dataclass(frozen=True, slots=True)
class History:
    """Rows (group, time, x, y) in the order in which they come; of a group, in the order of time."""

    rows: list[tuple[str, int, float | None, float]]

    def table(self) -> pa.Table:
        g, t, x, y = zip(*self.rows, strict=True)
        return pa.table({"g": g, "t": pa.array(t, pa.int64()), "x": pa.array(x, pa.float64()), "y": y})

    def group(self, name: str) -> tuple[np.ndarray, np.ndarray]:
        """Times and values of a group, those that are there."""
        rows = [(t, x) for g, t, x, _ in self.rows if g == name and x is not None]
        return np.array([t for t, _ in rows], np.int64), np.array([x for _, x in rows])

    @property
    def groups(self) -> list[str]:
        return sorted({row[0] for row in self.rows})


def irregular(seed: int, groups: int = 5, rows: int = 400, step: int = 30) -> History:
    """Events at irregular times, some on beats of the period, with gaps and NULLs."""
    random = np.random.default_rng(seed)
    clock = {f"g{i}": int(random.integers(-50, 50)) for i in range(groups)}
    found: list[tuple[str, int, float | None, float]] = []
    for _ in range(rows):
        g = f"g{random.integers(groups)}"
        found.append((g, clock[g], None if random.random() < 0.05 else float(random.normal()), float(random.normal())))
        clock[g] += int(random.integers(1, step)) if random.random() < 0.96 else int(random.integers(100, 900))
        if random.random() < 0.3:
            clock[g] += -clock[g] % PERIOD
    return History(found)


def regular(seed: int, groups: int = 4, samples: int = 120, missing: float = 0.0) -> History:
    """Events at the beats of the period, interleaved; some missing, some NULL."""
    random = np.random.default_rng(seed)
    start = {g: int(random.integers(-5, 20)) for g in range(groups)}
    found: list[tuple[str, int, float | None, float]] = []
    for k in range(samples):
        for g in random.permutation(groups):
            if random.random() < missing:
                if random.random() < 0.5:
                    continue
                x = None
            else:
                x = float(random.normal())
            found.append((f"g{g}", (start[g] + k) * PERIOD, x, float(random.normal())))
    return History(found)


def over(db: viewlet.Connection, **options: Any) -> Signal:
    """The signal of x by g."""
    return db.signal("events", **{"key": "g", "time": "t", "value": "x", "unit": "ms", **options})


def online(
    history: History, query: Any, seed: int = 0, kind: str = "STREAM", path: Path | None = None, **options: Any
) -> tuple[pa.Table, Signal]:
    """The view of a query after batches of random sizes, reopened between some of them if there is a path."""
    random = np.random.default_rng(seed)
    db = viewlet.connect(path, fsync=False) if path else viewlet.connect()
    db.execute(SCHEMA.format(kind=kind))
    made: Signal = query(over(db, **options))
    db.create_view("v", made)
    done = 0
    while done < len(history.rows):
        size = int(random.choice([1, 2, 7, 50, 150]))
        part = History(history.rows[done : done + size])
        db.insert("events", part.table() if random.random() < 0.5 else part.rows)
        done += size
        if path and random.random() < 0.4:
            (db.close if random.random() < 0.5 else db._session.database().journal.storage.close)()  # type: ignore[attr-defined]
            db = viewlet.connect(path, fsync=False)
    found = db.view("v").to_arrow()
    db.close()
    return found, made


def in_order(table: pa.Table) -> pa.Table:
    """Rows in the order of a view."""
    return table.sort_by([(name, "ascending") for name in table.column_names[:2]])


def same_bits(left: pa.Table, right: pa.Table) -> bool:
    """Two tables are equal, to the last bit of every number."""
    if left.column_names != right.column_names or left.num_rows != right.num_rows:
        return False
    for a, b in zip(in_order(left).columns, in_order(right).columns, strict=True):
        if a.null_count != b.null_count or a.to_pylist() != b.to_pylist():
            return False
    return True


def samples_of(table: pa.Table, group: str) -> tuple[np.ndarray, np.ndarray]:
    """Indexes (on the grid of PERIOD) and values of a group."""
    rows = in_order(table)
    chosen = np.array(rows["g"].to_pylist()) == group
    return rows["t"].to_numpy()[chosen] // PERIOD, rows["x"].to_numpy()[chosen]


def dense(history: History, group: str) -> tuple[int, np.ndarray]:
    """The samples of a group whose events are on beats: the first index, and the values with NaN where none is."""
    t, x = history.group(group)
    k = t // PERIOD
    whole = np.full(k[-1] - k[0] + 1, np.nan)
    whole[k - k[0]] = x
    return int(k[0]), whole
