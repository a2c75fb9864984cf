"""Schemas and statistics as JSON, for logs and snapshots."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from viewlet.triggers.statistics import Size, Statistics
from viewlet.types import Column, Kind, SqlType, Table, TableKind, TimeParts

Json = dict[str, Any]


def table_to_json(table: Table) -> Json:
    parts = {} if table.parts is None else {"parts": asdict(table.parts)}
    lengths = {column.name: column.length for column in table.columns if column.length is not None}
    defaults = {column.name: column.default for column in table.columns if column.default is not None}
    always = [column.name for column in table.columns if column.always]
    generated = {column.name: column.generated for column in table.columns if column.generated is not None}
    comments = {column.name: column.comment for column in table.columns if column.comment is not None}
    return {
        "name": table.name,
        "kind": table.kind.value,
        "columns": [[column.name, *_type_to_json(column.type)] for column in table.columns],
        "primary_key": list(table.primary_key),
        "non_negative": sorted(table.non_negative),
        "partition_by": list(table.partition_by),
        **({"lengths": lengths} if lengths else {}),
        **({"defaults": defaults} if defaults else {}),
        **({"always": always} if always else {}),
        **({"generated": generated} if generated else {}),
        **({"comment": table.comment} if table.comment is not None else {}),
        **({"comments": comments} if comments else {}),
        **({"unique": table.unique} if table.unique else {}),
        **parts,
    }


def table_of_json(known: Json) -> Table:
    """
    >>> from viewlet.types import decimal
    >>> table = Table("t", (Column("price", decimal(9, 2)),), TableKind.STREAM, (), frozenset({"price"}), ("price",))
    >>> table_of_json(table_to_json(table)) == table
    True
    """
    lengths, defaults = known.get("lengths", {}), known.get("defaults", {})
    always, generated, comments = known.get("always", ()), known.get("generated", {}), known.get("comments", {})
    return Table(
        known["name"],
        tuple(
            Column(
                name,
                SqlType(Kind(kind), *rest),
                lengths.get(name),
                defaults.get(name),
                name in always,
                generated.get(name),
                comments.get(name),
            )
            for name, kind, *rest in known["columns"]
        ),
        TableKind(known["kind"]),
        tuple(known["primary_key"]),
        frozenset(known["non_negative"]),
        tuple(known.get("partition_by", ())),
        TimeParts(**{**known["parts"], "streams": ()}) if "parts" in known else None,
        tuple((name, tuple(columns)) for name, columns in known.get("unique", ())),
        known.get("comment"),
    )


def _type_to_json(type: SqlType) -> list[object]:
    return [type.kind.value, type.precision, type.scale, type.nullable]


def statistics_to_json(statistics: Statistics) -> Json:
    return {
        "sizes": {name: [size.rows, *size.distinct] for name, size in statistics.sizes.items()},
        "rates": dict(statistics.rates),
        "query_rate": statistics.query_rate,
        "batch_rows": statistics.batch_rows,
        "guessed": statistics.guessed,
    }


def statistics_of_json(known: Json) -> Statistics:
    sizes = {name: Size(rows, tuple(distinct)) for name, (rows, *distinct) in known["sizes"].items()}
    return Statistics(sizes, known["rates"], known["query_rate"], known["batch_rows"], known["guessed"])
