"""Generated code runs as plain Python here unless told otherwise: then an exception can come inside of it."""

from __future__ import annotations

import os

os.environ.setdefault("VIEWLET_JIT", "0")
