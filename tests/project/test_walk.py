"""ARCHITECTURE.md walks one row from `insert` to `to_arrow`: every file that it names is on the way."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from types import FrameType

import pytest

import viewlet
from viewlet.connection.spark_facade import connect_inline

ROOT = Path(__file__).parents[2]
SOURCE = str(ROOT / "src" / "viewlet") + "/"
WALK = (ROOT / "ARCHITECTURE.md").read_text().partition("## One row, file by file")[2].partition("\n## ")[0]
COMMON, _, ENGINES = WALK.partition("**In one process**")
ELSEWHERE = {
    "spark/run/units/generated_node.py",
    "tests/project/test_walk.py",
    "spark/run/views/unit_view.py",
    "runtime/probe.py",
}
"""Named in passing: on the way of other rows."""


def files(text: str) -> set[str]:
    return set(re.findall(r"`([a-z_/]+\.py)`", text)) - ELSEWHERE


def section(title: str) -> str:
    return ENGINES.partition(f"| {title} | |")[2].partition("\n\n")[0]


def passed(db: viewlet.Connection) -> set[str]:
    """The files of Viewlet that run between the call of `insert` and the answer of `to_arrow`."""
    db.execute("CREATE TABLE t (k BIGINT, v BIGINT)")
    db.execute("CREATE MATERIALIZED VIEW s AS SELECT k, SUM(v) AS s FROM t GROUP BY k")
    db.insert("t", [(1, 1)])
    found: set[str] = set()

    def note(frame: FrameType, event: str, arg: object) -> None:
        name = frame.f_code.co_filename
        if name.startswith(SOURCE):
            found.add(name.removeprefix(SOURCE))

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        db.insert("t", [(1, 7)])
        db.view("s").to_arrow()
    finally:
        sys.setprofile(before)
    return found


@pytest.mark.parametrize("engine", ["interpreter", "compiled"])
def test_a_row_passes_the_files_of_its_engine(engine: str) -> None:
    local = ENGINES.partition("| interpreter | |")[0]
    reading = {"view.py", "engine/ranking.py", "changes/arrow.py"}
    wanted = files(COMMON) | files(local) | files(section(engine)) | reading
    assert wanted <= passed(viewlet.connect(engine=engine))


def test_a_row_passes_the_files_of_spark(tmp_path: Path) -> None:
    assert files(COMMON) | files(section("Spark")) <= passed(connect_inline(tmp_path, 2, sync=False))
