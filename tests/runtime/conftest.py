"""The runtime is tested as plain Python; set before anything imports it."""

from __future__ import annotations

import os

os.environ.setdefault("VIEWLET_JIT", "0")
