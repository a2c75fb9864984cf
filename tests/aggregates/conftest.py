"""Generated triggers run as plain Python here, because compiling them takes longer than these tests."""

from __future__ import annotations

import os
import tempfile

os.environ.setdefault("VIEWLET_JIT", "0")
os.environ.setdefault("VIEWLET_CACHE", os.path.join(tempfile.gettempdir(), "viewlet-generated"))
