"""Random signal pipelines against their recomputation by NumPy and SciPy.

    python -m tests.signals.hunt --pipelines 10000

Rows come late, are corrected and deleted; values are NULL, or no numbers between operators; keys are of many types. Of
every pipeline the view has the bits of a run over the finished table, and that run has the samples of the reference.
"""

from __future__ import annotations

import argparse
import datetime
import operator
import random
import re
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

import numpy as np
import scipy.signal as ss

import viewlet
from tests.signals import reference as ref
from tests.signals import user_functions as own
from tests.signals.reference import Track
from viewlet.signals.rows import value_columns

DAY = datetime.date(2020, 1, 1)
KEYS: dict[tuple[str, ...], list[tuple[Any, ...]]] = {
    ("BIGINT",): [(0,), (-7,), (2**40,)],
    ("INTEGER",): [(3,), (None,), (1,)],
    ("VARCHAR",): [("mill",), ("",), (None,)],
    ("DATE",): [(DAY,), (DAY + datetime.timedelta(9),), (None,)],
    ("DECIMAL(8,2)",): [(Decimal("1.50"),), (Decimal("-0.01"),), (Decimal("3.00"),)],
    ("BOOLEAN",): [(True,), (False,), (None,)],
    ("VARCHAR", "BIGINT"): [("a", 1), ("a", 2), ("b", None)],
    (): [()],
}
SOS = ss.butter(3, 0.3, output="sos")
LONG = np.hanning(70)
ZERO = re.compile(r"-0\.0(?![0-9])")
"""It equals 0.0, and rows that are equal are one to those who follow a view."""


@dataclass(frozen=True)
class Step:
    """An operator: what it is called, how a query has it, and what it means."""

    name: str
    build: Callable[[Any], Any]
    meaning: Callable[[Track], Track]


class UndecidedError(Exception):
    """Rounding decides which samples are the largest: the recomputation may choose others, and rightly so."""


def steps(r: random.Random, is_complex: bool, period: int) -> Step:
    """An operator on samples."""
    size, hop, lag = r.randint(1, 7), r.randint(1, 4), r.randint(1, 3)
    alpha, adjust, missing = r.choice([0.3, 0.05, 1.0]), r.random() < 0.7, r.choice(["zero", "reset"])
    b, a = r.choice([([0.2, 0.3], [1, -0.4, 0.1]), ([1.0], [2.0, 0.5]), ([0.5, 0.1, 0.2], [1.0])])
    taps = r.choice([[0.5, 0.2, -0.1, 0.7], [1.0], *([[0.5 + 1j, -0.25]] if is_complex else [])])
    factor, operation = r.choice([-1.5, 0.25]), r.choice(["sum", "mean", "power", "energy", "count"])
    least, ticks, trapezoid = r.randint(1, size), r.choice([-13, 5, 20, 64]), r.random() < 0.5
    passes = ref.by_stretch if missing == "reset" else ref.whole
    return r.choice(
        [
            Step(f"scale {factor}", lambda s: s.scale(factor), ref.each(lambda v: factor * v)),
            Step("offset", lambda s: s - 0.5, ref.each(lambda v: v - 0.5)),
            Step("root", lambda s: s.select(own.root, is_complex=False), ref.each(own.root)),
            Step("spiked", lambda s: s.select(own.spiked), ref.each(own.spiked)),
            Step("turned", lambda s: s.select(own.turned, is_complex=True), ref.each(own.turned)),
            Step(
                "where",
                lambda s: s.where(own.above),
                lambda t: t.then({k: v for k, v in t.values.items() if v[0].real > -0.3131}),
            ),
            Step(f"lfilter {b} {a} {missing}", lambda s: s.lfilter(b, a, missing=missing), passes(ref.lfilter(b, a))),
            Step(f"sosfilt {missing}", lambda s: s.sosfilt(SOS, missing=missing), passes(ref.sosfilt(SOS))),
            Step(f"fir {taps} {missing}", lambda s: s.fir(taps, missing=missing), passes(ref.lfilter(taps, [1.0]))),
            Step("long fir", lambda s: s.fir(LONG), ref.whole(ref.lfilter(LONG, [1.0]))),
            Step("user filter", lambda s: s.filter(own.Smooth), ref.smoothed),
            Step(f"ewm {alpha} {adjust}", lambda s: s.ewm(alpha, adjust=adjust), ref.ewm(alpha, adjust)),
            Step(f"difference {lag}", lambda s: s.difference(lag), ref.difference(lag, 1.0)),
            Step("derivative", lambda s: s.derivative(), lambda t: ref.difference(1, float(t.period))(t)),
            Step(
                f"integral {trapezoid}",
                lambda s: s.integral(method="trapezoid" if trapezoid else "sum"),
                ref.integral(trapezoid),
            ),
            Step(
                f"{operation} {size} {hop} {least}",
                lambda s: getattr(s, operation)(size, hop, min_samples=least),
                ref.rolling(operation, size, hop, least),
            ),
            Step(f"downsample {hop}", lambda s: s.downsample(hop), ref.downsampled(hop)),
            Step(f"shift {ticks}", lambda s: s.shift(ticks), ref.shifted(ticks)),
            Step(
                "resample",
                lambda s: s.resample(4, "linear", max_gap=55, offset=3),
                lambda t: ref.resampled(t, 4, 3, ("linear", 55)),
            ),
            pipeline(r, is_complex),
            pipeline(r, is_complex),
        ]
    )


def pipeline(r: random.Random, is_complex: bool, *, is_open: bool = False) -> Step:
    """Windows through array operators, and back to samples unless they stay open."""
    size, hop, fills = r.choice([1, 2, 5, 8]), r.choice([1, 2, 3, 8, 11]), r.random() < 0.4
    window = r.choice([None, None, "hann", "hamming"])
    weights = np.ones(size) if window is None else ss.get_window(window, size)
    stages, names, length = list[tuple[Any, Any]](), list[str](), size
    for _ in range(r.randint(0, 3)):
        name, build, function, length, is_complex = stage(r, length, size, is_complex)
        names.append(name)
        stages.append((build, function))
    finish = r.choice(
        ["last", "sum", "mean", "energy", "power", *([] if is_complex else ["min", "max"]), "overlap_add"]
    )
    norm = "dual" if finish == "overlap_add" and length == size and r.random() < 0.5 else None

    def build_it(signal: Any) -> Any:
        windows = signal.window(size, hop, window, missing="zero" if fills else "invalid")
        for build, _ in stages:
            windows = build(windows)
        if is_open:
            return windows
        return windows.overlap_add(norm) if finish == "overlap_add" else getattr(windows, finish)()

    def meaning(track: Track) -> Track:
        arrays = ref.windows(track, size, hop, weights, fills)
        with np.errstate(all="ignore"):
            for _, function in stages:
                arrays = {k: function(x) for k, x in arrays.items()}
        if is_open:
            return track.then(arrays)
        if finish == "overlap_add":
            lost = {k for k, x in arrays.items() if not np.isfinite(x).all()}
            assert not lost
            return track.then(ref.overlap_added(arrays, weights if norm else None))
        return track.then({k: ref.FINISHES[finish](x) for k, x in arrays.items()})

    shown = f"window {size} {hop} {window} {fills} {names} {'open' if is_open else finish} {norm}"
    return Step(shown, build_it, meaning)


def stage(r: random.Random, length: int, size: int, is_complex: bool) -> tuple[str, Any, Any, int, bool]:
    """An array operator for arrays of a length: its name, the method, its meaning, and what comes out."""
    factors = [round(r.gauss(0, 1), 2) for _ in range(length)]
    fixed, count = [1.0, -0.5, 0.25], r.randint(1, length)

    def top(x: Any) -> Any:
        order = np.argsort(-np.abs(x), axis=-1, kind="stable")
        if count < length:
            least, next_one = np.take_along_axis(np.abs(x), order[..., count - 1 : count + 1], axis=-1).T
            if ((least > next_one) & (least - next_one <= 1e-9 * np.abs(x).max(initial=0.0))).any():
                raise UndecidedError
        kept = np.zeros(x.shape, bool)
        np.put_along_axis(kept, order[..., :count], True, axis=-1)
        return np.where(kept, x, 0)

    def correlated(x: Any, y: Any = None) -> Any:
        return np.array([np.correlate(row, row if y is None else y, "full") for row in x])

    known: list[tuple[str, Any, Any, int, bool]] = [
        ("fft", lambda w: w.fft(), np.fft.fft, length, True),
        ("ifft", lambda w: w.ifft(), np.fft.ifft, length, True),
        ("magnitude", lambda w: w.magnitude(), np.abs, length, False),
        ("power_spectrum", lambda w: w.power_spectrum(), lambda x: np.abs(x) ** 2, length, False),
        ("detrend", lambda w: w.detrend("constant"), lambda x: x - x.mean(axis=-1, keepdims=True), length, is_complex),
        ("linear detrend", lambda w: w.detrend(), ss.detrend, length, is_complex),
        (f"product {factors}", lambda w: w.product(factors), lambda x: x * np.array(factors), length, is_complex),
        ("autocorrelate", lambda w: w.autocorrelate(), correlated, 2 * length - 1, is_complex),
        ("correlate", lambda w: w.correlate(fixed), lambda x: correlated(x, fixed), length + 2, is_complex),
        ("spread", lambda w: w.select(own.spread, size=2, is_complex=False), own.spread, 2, False),
        ("ramp", lambda w: w.apply(own.Ramp), lambda x: np.cumsum(x, axis=-1), length, is_complex),
    ]
    if not is_complex:
        known.append(("rfft", lambda w: w.rfft(), np.fft.rfft, length // 2 + 1, True))
        known.append((f"top {count}", lambda w: w.top_k(count), top, length, False))
    if is_complex and length > 1:
        n = 2 * (length - 1)
        known.append((f"irfft {n}", lambda w: w.irfft(n), lambda x: np.fft.irfft(x, n), n, False))
    return r.choice(known)


# -- cases ------------------------------------------------------------------------------------------------------------


@dataclass
class Case:
    """A pipeline over one or two tables, its rows so far, and what it means."""

    seed: int
    r: random.Random = field(init=False)
    rows: dict[str, dict[tuple[Any, int], tuple[Any, ...]]] = field(default_factory=dict)
    names: list[str] = field(default_factory=list)
    events: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        r = self.r = random.Random(self.seed)
        self.key_types = r.choice(list(KEYS))
        self.keys = KEYS[self.key_types]
        self.is_stream = r.random() < 0.2
        self.tables = ["l", "r"][: r.choice([1, 1, 2])]
        self.shapes = {name: r.choice(["real", "real", "complex", "vector"]) for name in self.tables}
        if len(set(self.shapes.values())) == 2 and "vector" in self.shapes.values():
            self.shapes = dict.fromkeys(self.tables, "real")
        self.grids = {name: (r.choice([10, 10, 20]), r.choice([0, 0, 3, -24])) for name in self.tables}
        self.policies = {name: self.policy() for name in self.tables}
        self.rows = {name: {} for name in self.tables}
        self.clock = {(name, key): r.randint(-100, 100) for name in self.tables for key in self.keys}

    def policy(self) -> ref.Policy | None:
        kind = self.r.choice([None, "linear", "last", "zero", "constant", "quadratic"])
        return None if kind is None else (kind, self.r.choice([20, 55, 200]))

    def declare(self, db: Any) -> tuple[Any, Callable[[Any], Track]]:
        """The query, and what it means for a key."""
        columns = "".join(f"k{i} {kind}, " for i, kind in enumerate(self.key_types))
        signals, first = [], []
        for name in self.tables:
            kind = "STREAM" if self.is_stream else "TABLE"
            db.execute(f"CREATE {kind} {name} ({columns}t BIGINT NOT NULL, v DOUBLE, w DOUBLE)")
            (period, offset), policy, shape = self.grids[name], self.policies[name], self.shapes[name]
            value = "v" if shape == "real" else ["v", "w"]
            key = [f"k{i}" for i in range(len(self.key_types))]
            signal = db.signal(name, key=key, time="t", value=value, is_complex=shape == "complex")
            given = {} if policy is None else {"max_gap": policy[1]}
            if policy is not None and policy[0] == "constant":
                given["fill"] = ref.FILL
            self.events[name] = signal
            signals.append(signal.sample(period, policy and policy[0], offset=offset, **given))
            first.append(
                lambda key, name=name: ref.sampled(self.points(name, key), *self.grids[name], self.policies[name])
            )
            self.names.append(f"{shape} {name} every {period} from {offset}, {policy}")
        queries, meanings = [], list[Callable[[Any], Track]]()
        for signal, start in zip(signals, first, strict=True):
            made, meaning = self.chain(signal, start, self.r.randint(0, 2))
            queries.append(made)
            meanings.append(meaning)
        query, meaning = queries[0], meanings[0]
        if len(queries) == 2:
            query, meaning = self.pair(queries, meanings)
        made, meaning = self.chain(query, meaning, self.r.randint(0, 2))
        if self.r.random() < 0.2:
            last = pipeline(self.r, made.form.is_complex, is_open=True)
            self.names.append(last.name)
            made, before = last.build(made), meaning
            meaning = lambda key: last.meaning(before(key))  # noqa: E731
        return made, meaning

    def chain(self, signal: Any, meaning: Callable[[Any], Track], count: int) -> tuple[Any, Callable[[Any], Track]]:
        for _ in range(count):
            step = steps(self.r, signal.form.is_complex, int(signal.form.grid.period))
            signal, before = step.build(signal), meaning
            self.names.append(step.name)
            meaning = lambda key, step=step, before=before: step.meaning(before(key))  # noqa: E731
        return signal, meaning

    def pair(self, queries: list[Any], meanings: list[Any]) -> tuple[Any, Callable[[Any], Track]]:
        known: dict[str, tuple[Any, Any]] = {
            "+": (operator.add, operator.add),
            "-": (operator.sub, operator.sub),
            "*": (operator.mul, operator.mul),
            "/": (lambda a, b: a / b.select(own.squared_and_one, is_complex=False), operator.truediv),
            "join": (lambda a, b: a.join(b), lambda a, b: np.concatenate((a, b))),
        }
        name, left, right = self.r.choice([*known, "as_of", "as_of events"]), *meanings
        self.names.append(name)
        if name.startswith("as_of"):
            gap = self.r.choice([20, 100, 10_000])
            self.names.append(str(gap))
            if name == "as_of":
                return queries[0].as_of(queries[1], gap), lambda key: ref.as_of(left(key), right(key).points, gap)
            events = self.events[self.tables[1]]
            return queries[0].as_of(events, gap), lambda key: ref.as_of(left(key), self.points("r", key), gap)
        build, function = known[name]
        if name == "/":
            divisor, right = right, lambda key: ref.each(own.squared_and_one)(divisor(key))
        return build(*queries), lambda key: ref.combined(left(key), right(key), function)

    # -- rows ----------------------------------------------------------------------------------------------------------

    def points(self, name: str, key: Any) -> list[tuple[int, Any]]:
        shape = self.shapes[name]
        found = []
        for (owner, t), (v, w) in sorted(self.rows[name].items(), key=lambda item: item[0][1]):
            if owner == key and v is not None and (shape == "real" or w is not None):
                value = {"real": [v], "vector": [v, w], "complex": [complex(v, w or 0.0)]}[shape]
                found.append((t, np.array(value)))
        return found

    def change(self, db: Any) -> None:
        """A batch: new rows, and of a table late ones, corrections and deletes."""
        r, name = self.r, self.r.choice(self.tables)
        rows, action = self.rows[name], self.r.random()
        new, gone = list[Any](), list[Any]()
        if action < 0.7 or not rows or self.is_stream:
            for _ in range(r.choice([1, 3, 40])):
                key = r.choice(self.keys)
                late = not self.is_stream and r.random() < 0.05
                clock = self.clock[name, key] + r.choice([1, 7, 10, 10, 10, 20, 33, 260])
                if r.random() < 0.4:
                    clock += -clock % 10
                t = r.randint(-200, clock) if late else clock
                if (key, t) in rows:
                    continue
                self.clock[name, key] = max(self.clock[name, key], t)
                rows[key, t] = self.value()
                new.append((*key, t, *rows[key, t]))
        else:
            for key, t in r.sample(sorted(rows, key=str), min(len(rows), r.choice([1, 4]))):
                gone.append((*key, t, *rows.pop((key, t))))
                if action < 0.85:
                    rows[key, t] = self.value()
                    new.append((*key, t, *rows[key, t]))
        if gone:
            db.delete(name, gone)
        if new:
            db.insert(name, new)

    def value(self) -> tuple[Any, ...]:
        r = self.r
        return tuple(None if r.random() < 0.04 else float(r.choice([r.gauss(0, 1), r.gauss(0, 1), 1.0])) for _ in "vw")


def tracks_of(query: Any, table: Any, keys: int) -> dict[Any, dict[int, Any]]:
    """Values by key and time; those with a NULL are left out."""
    form = query.form
    names = table.column_names[:keys]
    rows = list(zip(*(table.column(name).to_pylist() for name in names), strict=True)) or [()] * table.num_rows
    times = table.column(form.source.time).to_pylist()
    values: list[list[Any]] = [[0.0] * form.width for _ in rows]
    lost = set()
    for column in value_columns(form):
        for row, x in enumerate(table.column(column.name).to_pylist()):
            if x is None or (isinstance(x, list) and None in x):
                lost.add(row)
            else:
                part = np.array(x) * (1j if column.part == "imag" else 1)
                values[row][column.component] = values[row][column.component] + part
    found: dict[Any, dict[int, Any]] = {}
    for row, (key, t, value) in enumerate(zip(rows, times, values, strict=True)):
        if row not in lost:
            assert t not in found.setdefault(key, {}), (key, t)
            found[key][t] = np.array(value)
    return found


def sorted_rows(table: Any) -> list[str]:
    return sorted(map(repr, zip(*(column.to_pylist() for column in table.columns), strict=True)))


def check(seed: int) -> str:
    """Runs a case: "refused", "same", "undecided", or an AssertionError that says what differs."""
    case = Case(seed)
    with tempfile.TemporaryDirectory() as place:
        return check_case(case, place if case.r.random() < 0.1 else None)


def check_case(case: Case, place: str | None) -> str:
    """The same, where the database is in a directory, which is opened again between batches, or in memory."""
    db = viewlet.connect(place)
    try:
        query, meaning = case.declare(db)
        view = db.create_view("o", query)
    except viewlet.ViewletError as error:
        if isinstance(error, viewlet.InternalError):
            raise
        return "refused"
    told = Counter[str]()

    def note(epoch: int, changes: Any) -> None:
        *columns, weights = (column.to_pylist() for column in changes.columns)
        for row, weight in zip(zip(*columns, strict=True), weights, strict=True):
            told[ZERO.sub("0.0", repr(row))] += weight

    view.subscribe(note)
    for _ in range(case.r.choice([2, 6, 15])):
        case.change(db)
        if place is not None and case.r.random() < 0.3:
            db.close()
            db = viewlet.connect(place)
            view = db.view("o")
            view.subscribe(note)
    finished = {name: table_of(case, name) for name in case.tables}
    given = finished if len(finished) > 1 else finished[case.tables[0]]
    now, end = query.run(given), query.run(given, flush=True)
    shown = view.to_arrow()
    assert sorted_rows(shown) == sorted_rows(now), ("view and run", shown.num_rows, now.num_rows)
    if not any(name.startswith("as_of") for name in case.names):  # their values may still change
        assert {*sorted_rows(now)} <= {*sorted_rows(end)}, "what has come stays at the end"
    assert +told == Counter(ZERO.sub("0.0", row) for row in sorted_rows(shown)), "what subscribers are told"
    found = tracks_of(query, end, len(case.key_types))
    for key in case.keys:
        try:
            expected = meaning(key)
        except UndecidedError:
            return "undecided"
        compare(key, found.get(key, {}), expected)
    return "same"


def table_of(case: Case, name: str) -> Any:
    """The rows of a table as Arrow."""
    db = viewlet.connect()
    columns = "".join(f"k{i} {kind}, " for i, kind in enumerate(case.key_types))
    db.execute(f"CREATE TABLE {name} ({columns}t BIGINT NOT NULL, v DOUBLE, w DOUBLE)")
    db.insert(name, [(*key, t, *value) for (key, t), value in case.rows[name].items()])
    return db.table(name).to_arrow()


def compare(key: Any, found: dict[int, Any], expected: Track) -> None:
    wanted = {expected.time(k): v for k, v in expected.values.items()}
    assert found.keys() == wanted.keys(), (key, sorted(found.keys() ^ wanted.keys())[:6], len(found), len(wanted))
    largest = max((float(np.abs(v).max()) for v in wanted.values() if v.size), default=0.0)
    for t, value in wanted.items():
        np.testing.assert_allclose(found[t], value, rtol=1e-6, atol=1e-8 * max(1.0, largest), err_msg=f"{key} at {t}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pipelines", type=int, default=200)
    parser.add_argument("--first", type=int, default=0)
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    counts, began = {"same": 0, "refused": 0, "undecided": 0, "differ": 0}, time.time()
    for seed in range(given.first, given.first + given.pipelines):
        try:
            counts[check(seed)] += 1
        except Exception as error:
            counts["differ"] += 1
            case = Case(seed)
            case.r.random()  # as in check()
            try:
                case.declare(viewlet.connect())
            except Exception as wrong:
                case.names.append(f"({wrong})")
            print(seed, case.key_types, case.is_stream, case.names, flush=True)
            lines = str(error).strip() or traceback.format_exc(limit=-3)
            print("   ", type(error).__name__, lines[:400].replace("\n", " | "), flush=True)
        if (seed + 1 - given.first) % 500 == 0:
            print(f"{seed + 1 - given.first} pipelines: {counts}, {time.time() - began:.0f} s", flush=True)
    print(f"{given.pipelines} pipelines: {counts}, {time.time() - began:.0f} s")
    return 1 if counts["differ"] else 0


if __name__ == "__main__":
    sys.exit(main())
