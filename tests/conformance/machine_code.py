"""Plays some views of a program on machine code, in a process of its own: the others run generated code as Python.

VIEWLET_JIT=1 python -m tests.conformance.machine_code small grouped,streamed
"""

from __future__ import annotations

import json
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

from tests.conformance.adapters import Compiled
from tests.conformance.play import play
from tests.conformance.programs import PROGRAMS
from viewlet.runtime.jit import ENABLED


def main(program: str, views: str) -> None:
    assert ENABLED
    names = views.split(",")
    chosen = replace(PROGRAMS[program], views=tuple(v for v in PROGRAMS[program].views if v.name in names))
    assert len(chosen.views) == len(names)
    with tempfile.TemporaryDirectory() as folder:
        print(json.dumps(play(Compiled(), chosen, Path(folder), {})))


if __name__ == "__main__":
    main(*sys.argv[1:])
