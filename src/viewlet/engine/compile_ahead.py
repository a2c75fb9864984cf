"""The second process of `background.py`: compiles a view for the disk cache that both processes share, and ends.

    echo '{"statement": "CREATE VIEW ...", "layered": false, "chosen": "", "tables": [...], "statistics": {...}}' \
        | python -m viewlet.engine.compile_ahead

It is told what the view is, not what its code is: planning is deterministic, so the code is the same.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
import threading
import time
from collections.abc import Mapping

from viewlet.engine.catalogue_json import (
    statistics_of_json,
    statistics_to_json,
    table_of_json,
    table_to_json,
)
from viewlet.engine.declaration import Declaration
from viewlet.triggers.statistics import Statistics
from viewlet.types import Table

_PRIORITY = 5
_WATCH = 1.0
"""Seconds between two looks at the parent."""


def request(declared: Declaration, tables: Mapping[str, Table], statistics: Statistics) -> str | None:
    """What the second process reads; None where it would not help."""
    if os.environ.get("VIEWLET_JIT") == "0" or not declared.statement:
        return None
    return json.dumps(
        {
            "statement": declared.statement,
            "layered": declared.layered,
            "chosen": declared.chosen,
            "tables": [table_to_json(table) for table in tables.values()],
            "statistics": statistics_to_json(statistics),
        }
    )


def compile_ahead(text: str) -> None:
    """Compiles what `request` asks for."""
    from viewlet.engine.build import LeftToInterpreterError, build_compiled, draft_for_auto
    from viewlet.engine.choose_adaptive import chosen_adaptive
    from viewlet.engine.declaration import declared_by
    from viewlet.runtime.dictionary import StringDictionary
    from viewlet.triggers.sources import Sources

    known = json.loads(text)
    tables = {table.name: table for table in map(table_of_json, known["tables"])}
    declared = declared_by(known["statement"], tables, layered=known["layered"])
    if known["chosen"]:
        declared = chosen_adaptive(declared, known["chosen"])
    statistics = statistics_of_json(known["statistics"])
    sources = Sources(tables, {})
    with contextlib.suppress(LeftToInterpreterError):
        draft = draft_for_auto(declared, sources, statistics)
        build_compiled(declared, sources, statistics, StringDictionary(), draft=draft, reads=True)


def end_with_parent(parent: int) -> None:
    """Ends this process once its parent is gone, however that ended: the code is no longer needed."""
    while os.getppid() == parent:
        time.sleep(_WATCH)
    os._exit(0)


if __name__ == "__main__":
    threading.Thread(target=end_with_parent, args=(os.getppid(),), daemon=True).start()
    with contextlib.suppress(OSError, AttributeError):
        os.nice(_PRIORITY)
    compile_ahead(sys.stdin.read())
