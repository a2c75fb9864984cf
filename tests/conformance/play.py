"""Plays a program to an engine and compares every view with the oracle: as declared, after every batch, reopened."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.conformance.adapters import Engine
from tests.conformance.program import Moment, Program, View
from viewlet.errors import UnsupportedError

Objections = dict[str, str]
"""What is wrong with views, by their names."""


def play(engine: Engine, program: Program, folder: Path, refused: Mapping[str, str]) -> Objections:
    """The views that differ from the oracle, and those that are refused although `refused` does not name them.

    A view named there must be refused, for the reason it gives.
    """
    player = _Player(engine, program, refused)
    count = len(program.moments)
    begins = [0, *(count * part // (engine.restarts + 1) for part in range(1, engine.restarts + 1))]
    for begin, end in zip(begins, [*begins[1:], count], strict=True):
        with engine.open(folder) as db:
            if begin == 0:
                for statement in program.tables.values():
                    db.execute(statement)
                engine.prepare(db, program)
            else:
                player.compare(db, program.moments[begin - 1], "opened again")
            player.follow(db)
            for at in range(begin, end):
                player.moment(db, at)
                if engine.restarts and at == count // 4:  # what is opened again is a snapshot and a log
                    db.checkpoint()
        engine.closed()
    return player.found


class _Player:
    def __init__(self, engine: Engine, program: Program, refused: Mapping[str, str]) -> None:
        self.engine = engine
        self.program = program
        self.refused = refused
        self.found: Objections = {}
        self.declared: list[View] = []
        self.told: dict[str, Counter[Any]] = {}

    def moment(self, db: Any, at: int) -> None:
        moment = self.program.moments[at]
        if at == 0:
            self.declare(db, late=False)
        before = {name: Counter(db.view(name).rows()) for name in self.told}
        db.apply(self.engine.changes(self.program, moment.batch))
        self.compare(db, moment, f"batch {at}")
        for name, rows in before.items():
            rows.update(self.told[name])
            if rows != Counter(db.view(name).rows()):
                self.found.setdefault(name, f"batch {at}: subscribers are told {dict(self.told[name])}")
            self.told[name].clear()
        if at == self.program.late:
            self.declare(db, late=True)
            self.compare(db, moment, "declared late")

    def declare(self, db: Any, late: bool) -> None:
        for view in self.program.views:
            if view.is_late is late:
                self.declare_view(db, view)

    def declare_view(self, db: Any, view: View) -> None:
        try:
            db.execute(view.statement)
        except UnsupportedError as error:
            if self.refused.get(view.name, "not expected") not in str(error):
                self.found[view.name] = f"refused: {error}"
            return
        if view.name in self.refused:
            self.found[view.name] = "not refused"
        self.declared.append(view)
        self.subscribe(db, view)

    def follow(self, db: Any) -> None:
        """Subscribes to the views of a database that has been opened again."""
        self.told = {}
        for view in self.declared:
            self.subscribe(db, view)

    def subscribe(self, db: Any, view: View) -> None:
        if not view.has_plain_rows:
            return
        told = self.told[view.name] = Counter()

        def note(epoch: int, changes: Any) -> None:
            *columns, counts = changes.columns
            for *row, count in zip(*(each.to_pylist() for each in (*columns, counts)), strict=True):
                told[tuple(row)] += count

        db.view(view.name).subscribe(note)

    def compare(self, db: Any, moment: Moment, when: str) -> None:
        for view in self.declared:
            objection = moment.expected[view.name].objection(db.view(view.name))
            if objection is not None:
                self.found.setdefault(view.name, f"{when}: {objection}")
