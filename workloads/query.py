"""A named query whose ORDER BY and LIMIT are known, so that answers with ties can be compared fairly."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class NamedQuery:
    """`body` is the query without its LIMIT; `order` names the output columns it sorts by, most significant first."""

    name: str
    body: str
    order: tuple[str, ...] = ()
    limit: int | None = None

    @property
    def sql(self) -> str:
        return self.body if self.limit is None else f"{self.body}\nLIMIT {self.limit}"
