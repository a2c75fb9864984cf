"""The words of arrays that Python and compiled code share have names, also in generated source."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[2] / "src" / "viewlet"
NUMBERED = re.compile(r"(?:meta|control|calls|spec|touched|notes)\[\d|(?:links|tree|stores|spec)\w*\[[^\[\]]*, \d\]")


@pytest.mark.parametrize("folder", ["runtime", "codegen"])
def test_no_word_is_read_by_its_number(folder: str) -> None:
    found = [
        f"{path.relative_to(PACKAGE)}:{number}: {line.strip()}"
        for path in sorted((PACKAGE / folder).rglob("*.py"))
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if NUMBERED.search(line)
    ]
    assert not found
