"""Random damage to the files of a directory: each is refused with its file's name, or changes nothing.

    python -m tests.durable.damages --damages 500 --seed 1

A directory has every kind of file: a log, a snapshot, a manifest, parts of streams, their WAL, an archive. It is
damaged as its process left it when it was killed, and as `close` leaves it. Damage is a flipped bit, bytes that are
cut off, zeroed, added or doubled; a file that is removed, replaced by an older copy, by that of another directory with
as many rows, or by another file of its own. Directories are opened in processes of their own: damage must not end one.
"""

from __future__ import annotations

import argparse
import importlib
import os
import pickle
import random
import re
import shutil
import signal
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

STATEMENTS = """
CREATE TABLE o (k BIGINT PRIMARY KEY, c BIGINT, s VARCHAR, d DECIMAL(9,2));
CREATE STREAM e (c BIGINT, x DOUBLE);
CREATE STREAM p (ts TIMESTAMP, c VARCHAR, n BIGINT) PARTITION LENGTH 60 BY ts RETAIN INTERVAL '10' MINUTE ARCHIVE;
CREATE TABLE r (m VARCHAR NOT NULL, at BIGINT NOT NULL, g DOUBLE);
CREATE MATERIALIZED VIEW v AS SELECT c, COUNT(*) AS n, SUM(k) AS s, MIN(s) AS ms FROM o GROUP BY c;
CREATE MATERIALIZED VIEW w AS SELECT c, COUNT(*) AS n, SUM(x) AS x FROM e GROUP BY c;
CREATE VIEW h AS INITIALIZE h[i] AS SELECT c, SUM(n)::BIGINT AS n FROM p[i] GROUP BY c
    UPDATE h[j] AS SELECT c, SUM(n)::BIGINT AS n FROM p[j] GROUP BY c PARTITION LENGTH 60;
CREATE MATERIALIZED VIEW a AS SELECT * FROM ewm(r, KEY => m, TIME => at, VALUE => g, PERIOD => 10,
    INTERPOLATE => 'linear', MAX_GAP => 100, ALPHA => 0.02)
"""
KEPT = ("o", "p", "r")
VIEWS = ("v", "w", "h", "a")
BATCHES = 24
SNAPSHOT_AFTER = 12
OLDER_AT = (6, 14, 20, BATCHES - 1)
"""Batches after which the directory is copied, for older files."""
PATIENCE = 60
"""Seconds of processor time for a process; it may wait ten times as long."""

State = tuple[int, dict[str, Any]]


def state_of(db: Any) -> State:
    rows = {name: db.table(name).rows() for name in KEPT} | {name: db.view(name).rows() for name in VIEWS}
    rows["archive"] = sorted(map(repr, db.archived_rows("p").to_pylist()))
    return db.epoch, {name: sorted(map(repr, each)) for name, each in rows.items()}


def batch(number: int, shift: int) -> dict[str, Any]:
    """`shift` makes the rows of another directory: as many, of the same size, with other values."""
    return {
        "o": [(number * 10 + j, j, f"s{number + shift:03}", f"{number + shift}.50") for j in range(10)],
        "e": [(j, float(number + shift)) for j in range(5)],
        "p": [(f"2026-01-01 00:{number:02}:00", "c", number + shift)],
        "r": [("m", number * 7, float(number + shift))],
    }


def build(path: Path, shift: int, closes: bool) -> None:
    """Makes a directory and copies of it at earlier times; its process ends as if it were killed, or closes it."""
    import viewlet

    db: Any = viewlet.connect(path / "now", engine="interpreter")
    db.execute(STATEMENTS)
    for number in range(BATCHES):
        db.apply(batch(number, shift))
        if number + 1 == SNAPSHOT_AFTER:
            db.checkpoint()
        if number in OLDER_AT:
            shutil.copytree(path / "now", path / f"older-{number}")
    (path / "state").write_bytes(pickle.dumps(state_of(db)))
    if closes:
        db.close()
    os._exit(0)


def read(path: Path, expected: bytes) -> str:
    """What becomes of opening a directory: `same`, `different` with what differs, or the error."""
    import viewlet

    epoch, rows = pickle.loads(expected)
    try:
        db: Any = viewlet.connect(path, engine="interpreter")
        found = state_of(db)
        if found != (epoch, rows):
            return "different: " + ", ".join(name for name in rows if found[1][name] != rows[name]) + f" {found[0]}"
        db.insert("p", [("2026-01-01 00:59:00", "c", 1)])
        db.insert("o", [(9999, 1, "z", None)])
        if len(db.table("o")) != len(rows["o"]) + 1 or len(db.view("h").rows()) < 1:
            return "different after an insert"
        db.close()
        return "same"
    except viewlet.ViewletError as error:
        return f"{type(error).__name__}: {error}"


# -- damage -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Site:
    """A directory, what it holds, and copies of it at other times."""

    place: Path

    @property
    def now(self) -> Path:
        return self.place / "now"

    @property
    def state(self) -> bytes:
        return (self.place / "state").read_bytes()

    def older(self, file: str, rng: random.Random) -> Path | None:
        """An older copy of a file, of the same name or the same kind."""
        kind = file.split("-")[0]
        copies = [
            found
            for folder in sorted(self.place.glob("older-*"))
            for found in files(folder)
            if found == file or ("/" not in file and "-" in file and found.startswith(kind + "-"))
        ]
        places = [(folder, f) for folder in sorted(self.place.glob("older-*")) for f in copies if (folder / f).exists()]
        different = [folder / f for folder, f in places if (folder / f).read_bytes() != (self.now / file).read_bytes()]
        return rng.choice(different) if different else None


def files(path: Path) -> list[str]:
    return sorted(str(file.relative_to(path)) for file in path.rglob("*") if file.is_file())


def damage(path: Path, site: Site, other: Site, rng: random.Random) -> str:
    """Damages one file of a copy of a directory; says how."""
    kinds = sorted({re.sub(r"\d+", "*", file) for file in files(path)})
    kind = rng.choice(kinds)
    file = rng.choice([file for file in files(path) if re.sub(r"\d+", "*", file) == kind])
    target = path / file
    data = bytearray(target.read_bytes())
    at = rng.randrange(len(data)) if data and rng.random() < 0.6 else rng.randrange(max(1, min(len(data), 200)))
    ways: dict[str, Callable[[], object]] = {
        "flip": lambda: target.write_bytes(bytes([*data[:at], data[at] ^ (1 << rng.randrange(8)), *data[at + 1 :]])),
        "cut": lambda: target.write_bytes(data[:at]),
        "zero": lambda: target.write_bytes(data[:at] + bytes(len(data[at : at + 4096])) + data[at + 4096 :]),
        "add": lambda: target.write_bytes(data + rng.randbytes(100)),
        "double": lambda: target.write_bytes(data + data),
        "remove": target.unlink,
        "another file": lambda: target.write_bytes((path / rng.choice(files(path))).read_bytes()),
    }
    older = site.older(file, rng)
    if older is not None:

        def restore() -> None:
            """Also under the name that it had: then the newer file is gone."""
            target.unlink()
            name = target if older.name == target.name or rng.random() < 0.3 else target.with_name(older.name)
            name.parent.mkdir(exist_ok=True)
            shutil.copy(older, name)

        ways["older"] = restore
    if (other.now / file).exists():
        ways["other directory"] = lambda: shutil.copy(other.now / file, target)
    if not data:
        ways.pop("flip")
    way = rng.choice(sorted(ways))
    ways[way]()
    return f"{way} {file} at {at} of {len(data)}"


@contextmanager
def sites(folder: Path) -> Iterator[list[tuple[Site, Site]]]:
    """Pairs of a directory and another one like it: killed and closed."""
    pairs = []
    for closes in (False, True):
        pair = []
        for shift in (0, 100):
            place = folder / f"{'closed' if closes else 'killed'}-{shift}"
            place.mkdir()
            ended = run_alone(lambda place=place, shift=shift, closes=closes: build(place, shift, closes))  # type: ignore[misc]
            assert not ended, ended
            pair.append(Site(place))
        pairs.append((pair[0], pair[1]))
    yield pairs


def import_all() -> None:
    """Imports what the processes need, which would each take a second for it."""
    for name in ("viewlet", "duckdb", "sqlglot", "pyarrow.parquet", "viewlet.signals", "viewlet.hosts.streams"):
        importlib.import_module(name)


def run_alone(work: Callable[[], object]) -> str:
    """What a function returns in a process of its own; a signal that ends it is told as text."""
    get, put = os.pipe()
    child = os.fork()
    if child == 0:
        signal.setitimer(signal.ITIMER_PROF, PATIENCE)
        signal.alarm(10 * PATIENCE)
        os.close(get)
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
        try:
            answer = str(work())
        except BaseException as error:
            answer = f"unexpected {type(error).__name__}: {error}"
        os.write(put, answer.encode(errors="replace")[:4000])
        os._exit(0)
    os.close(put)
    with os.fdopen(get, "rb") as pipe:
        answer = pipe.read().decode(errors="replace")
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    return answer if status == 0 else f"unexpected end {status}"


def verdict(answer: str, path: Path) -> str:
    """`same`, `refused` by an error that names a file of the directory, or what is wrong."""
    if answer == "same":
        return "same"
    if answer.startswith("StateError") and str(path) in answer:
        return "refused"
    return "bad"


def run(folder: Path, damages: int, seed: int, only: int | None = None) -> tuple[Counter[str], list[str]]:
    """Damages directories in a folder; returns the number of each verdict, by kind of damage, and what is wrong."""
    counts: Counter[str] = Counter()
    wrong: list[str] = []
    import_all()
    with sites(folder) as pairs:
        for number in range(damages):
            if only is not None and number != only:
                continue
            rng = random.Random(f"{seed} {number}")
            site, other = pairs[number % len(pairs)]
            path = folder / f"damaged-{number}"
            shutil.copytree(site.now, path)
            what = damage(path, site, other, rng)
            answer = run_alone(lambda path=path, site=site: read(path, site.state))  # type: ignore[misc]
            found = verdict(answer, path)
            counts[found] += 1
            counts[f"{what.split(' ')[0]}: {found}"] += 1
            if found == "bad":
                wrong.append(f"{number}: {site.place.name}, {what}: {answer}")
            shutil.rmtree(path, ignore_errors=True)
    return counts, wrong


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--damages", type=int, default=500)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", type=int, help="the damage of this number")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="viewlet-damages-") as folder:
        counts, wrong = run(Path(folder), options.damages, options.seed, options.only)
    for name, count in sorted(counts.items()):
        print(f"{count:6} {name}")
    print("\n".join(wrong[:20]))
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
