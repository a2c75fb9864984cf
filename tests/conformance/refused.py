"""What engines refuse: by engine and program, the views and a part of the reason they give.

A view that is listed must be refused, and one that is not listed must not: the list is exact.
"""

from __future__ import annotations

REFUSED: dict[tuple[str, str], dict[str, str]] = {}
