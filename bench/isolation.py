"""Measurements in processes of their own, with the package from some checkout."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]


def isolated(module: str, run: dict[str, Any], source: Path, timeout: float, **environment: str) -> Any:
    """What `python -m module --worker run` prints last, read as JSON; None if it took too long."""
    paths = os.pathsep.join((str(source), str(ROOT)))
    command = [sys.executable, "-m", module, "--worker", json.dumps(run)]
    try:
        done = subprocess.run(
            command,
            env=os.environ | {"PYTHONPATH": paths} | environment,
            cwd=ROOT,
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return None
    if done.returncode:
        raise RuntimeError(f"{module} {run}: {done.stderr[-2000:]}")
    return json.loads(done.stdout.splitlines()[-1])
