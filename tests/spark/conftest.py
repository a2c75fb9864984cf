"""Generated code runs as plain Python here; set before anything imports it."""

from __future__ import annotations

import os

os.environ.setdefault("VIEWLET_JIT", "0")
