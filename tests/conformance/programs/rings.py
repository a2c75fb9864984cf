"""Views over payload rings: sums of products of variables, by groups and categories, and listings of joins."""

from __future__ import annotations

from datetime import date
from random import Random

from tests.conformance.program import CofactorView, ListingView, Program, View
from workloads.query import NamedQuery
from workloads.streams import Batch, Row

_TABLES = {
    "sales": "CREATE {kind} sales (shop BIGINT, item BIGINT, units INTEGER, day DATE)",
    "shops": "CREATE {kind} shops (shop BIGINT, city VARCHAR)",
    "items": "CREATE {kind} items (item BIGINT, price DOUBLE)",
    "edges": "CREATE {kind} edges (source BIGINT, target BIGINT, weight DOUBLE)",
}
_ALL = "sales NATURAL JOIN shops NATURAL JOIN items"
_PATHS = "edges a JOIN edges b ON a.target = b.source"
_TRIANGLES = f"{_PATHS} JOIN edges c ON b.target = c.source AND c.target = a.source"


def _cofactor(
    name: str, source: str, groups: str = "", continuous: str = "", categorical: str = "", option: str = ""
) -> CofactorView:
    keys, numbers, kinds = (tuple(filter(None, each.split(", "))) for each in (groups, continuous, categorical))
    variables = ", ".join([*numbers, *(f"CATEGORICAL({kind})" for kind in kinds), *filter(None, [option])])
    sql = f"SELECT {', '.join([*keys, f'COFACTOR({variables}) AS sums'])} FROM {source}"
    sql += f" GROUP BY {groups}" if groups else ""
    return CofactorView(NamedQuery(name, sql), groups=keys, continuous=numbers, categorical=kinds, source=source)


def _listing(name: str, columns: str, source: str) -> ListingView:
    sql = f"SELECT FACTORIZED {columns} FROM {source}"
    return ListingView(NamedQuery(name, sql), join=f"SELECT {columns} FROM {source}")


VIEWS: tuple[View, ...] = (
    _cofactor("plain", "sales NATURAL JOIN items", "", "units, price"),
    _cofactor("categories", f"{_ALL} WHERE units > 1", "", "units, price * 2 AS gross", "city, day"),
    _cofactor("groups", _ALL, "city, shop", "units, price"),
    _cofactor("cubes", "sales NATURAL JOIN items", "", "units, price", option="degree => 3"),
    _cofactor("single", "sales", "day", "units"),
    _cofactor("paths", _PATHS, "", "a.weight AS x, b.weight AS y"),
    _cofactor("triangles", _TRIANGLES, "", "a.weight AS x, b.weight AS y, c.weight AS z"),
    _listing("listed", "shop, item, units, day, city, price", _ALL),
    _listing("few", "city, units", "sales NATURAL JOIN shops"),
)


def batches(seed: int, count: int) -> list[Batch]:
    """Random rows, some of which are deleted again later."""
    random = Random(seed)
    there: dict[str, list[Row]] = {name: [] for name in _TABLES}
    found = []
    for _ in range(count):
        batch: Batch = {}
        for table in random.sample(list(there), random.randint(1, 4)):
            known = there[table]
            gone = [known.pop(random.randrange(len(known))) for _ in range(random.randint(0, len(known) // 3))]
            come = [_row(random, table) for _ in range(random.randint(1, 8))]
            known += come
            batch[table] = [*((row, -1) for row in gone), *((row, 1) for row in come)]
        found.append(batch)
    return found


def _row(random: Random, table: str) -> Row:
    def some(values: int) -> int | None:
        return None if random.random() < 0.04 else random.randrange(values)

    match table:
        case "sales":
            return some(5), some(6), some(4), random.choice([date(2026, 1, 1), date(2026, 2, 3), None])
        case "shops":
            return some(5), random.choice(["Rome", "Oslo", None])
        case "items":
            return some(6), random.choice([0.5, 2.25, 1e6, None])
        case _:
            return some(6), some(6), random.choice([1.0, 2.5])


def programs() -> tuple[Program, ...]:
    return tuple(
        Program(
            f"rings over {kind.lower()}s",
            {name: text.format(kind=kind) for name, text in _TABLES.items()},
            VIEWS,
            batches(seed, 12),
        )
        for seed, kind in enumerate(("TABLE", "STREAM"))
    )
