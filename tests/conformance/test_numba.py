"""Generated triggers as machine code: one small view, in a process of its own, since the rest runs them as Python."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = """
import pyarrow as pa, viewlet
db = viewlet.connect(engine="compiled")
db.execute("CREATE STREAM sales (shop VARCHAR, amount DECIMAL(9,2), weight DOUBLE)")
db.execute("CREATE MATERIALIZED VIEW totals AS "
           "SELECT shop, SUM(amount) AS amount, SUM(weight) AS weight, COUNT(*) AS n FROM sales GROUP BY shop")
amounts = pa.array([150, 250, 400]).cast(pa.decimal128(19, 0)).cast(pa.decimal128(21, 2))
db.insert("sales", pa.table({"shop": ["a", "b", "a"], "amount": amounts, "weight": [0.5, None, 1.5]}))
db.insert("sales", [("c", "1.25", 2.0)] * 3)
db.delete("sales", [("b", "250.00", None)])
print([(shop, str(amount), weight, n) for shop, amount, weight, n in db.view("totals").rows()])
"""


def test_machine_code(tmp_path: Path) -> None:
    pytest.importorskip("numba")
    environment = {**os.environ, "VIEWLET_JIT": "1", "VIEWLET_CACHE": str(tmp_path)}
    ran = subprocess.run(
        [sys.executable, "-c", SCRIPT], env=environment, capture_output=True, text=True, timeout=120, check=False
    )
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.strip() == "[('a', '550.00', 2.0, 2), ('c', '3.75', 6.0, 3)]"
