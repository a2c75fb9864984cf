"""PREPARE name AS statement, EXECUTE name(values) and DEALLOCATE [PREPARE] name."""

from __future__ import annotations

import re
from collections.abc import Sequence
from decimal import Decimal

from sqlglot import exp

from viewlet.sql.parser import parse_text
from viewlet.sql.source import name_of
from viewlet.sql.split import RawStatement
from viewlet.sql.statements import Deallocate, Execute, Prepare


def bind_prepared(raw: RawStatement) -> Prepare | Execute | Deallocate | None:
    """A statement of these three kinds, or None."""
    match raw.words:
        case ("PREPARE", _, "AS", _, *_):
            return Prepare(raw.name_at(1), raw.text_from(3))
        case ("DEALLOCATE", "PREPARE", _):
            return Deallocate(raw.name_at(2))
        case ("DEALLOCATE", _):
            return Deallocate(raw.name_at(1))
        case ("EXECUTE", _):
            return Execute(raw.name_at(1))
        case ("EXECUTE", _, "(", *_, ")"):
            inside = raw.text[raw.positions[2][1] : raw.positions[-1][0]]
            call = parse_text(f"SELECT f({inside})")[0]
            found = None if call is None else call.find(exp.Anonymous)
            if found is None:
                raise raw.source.error("EXECUTE name(value, ...) is expected")
            return _executed(raw, found.expressions)
        case ("PREPARE" | "EXECUTE" | "DEALLOCATE", *_):
            raise raw.source.error("PREPARE name AS statement, EXECUTE name(value, ...) or DEALLOCATE name is expected")
        case _:
            return None


def _executed(raw: RawStatement, arguments: Sequence[exp.Expr]) -> Execute:
    named = [each for each in arguments if isinstance(each, exp.PropertyEQ | exp.Kwarg)]
    if named and len(named) < len(arguments):
        raise raw.source.error("give all parameters by name, or none")
    values = [each.expression for each in named] or list(arguments)
    name, names = raw.name_at(1), tuple(name_of(each.this) for each in named)
    literals = tuple(_literal(value) for value in values)
    if _NO_LITERAL not in literals:
        return Execute(name, literals, names=names)
    cells = ", ".join(f'{value.sql(dialect="duckdb")} AS "{i}"' for i, value in enumerate(values))
    return Execute(name, values_sql=f"SELECT {cells}", names=names)


_NO_LITERAL = object()


def _literal(node: exp.Expr) -> object:
    """The value of a literal as Python has it, of the type that DuckDB gives it."""
    match node:
        case exp.Null():
            return None
        case exp.Boolean():
            return bool(node.this)
        case exp.Literal(is_string=True):
            return str(node.this)
        case exp.Literal() if re.fullmatch(r"[0-9]+", node.this):
            return int(node.this)
        case exp.Literal() if re.fullmatch(r"[0-9]+\.[0-9]*|\.[0-9]+", node.this):
            return Decimal(node.this)
        case exp.Neg(this=exp.Literal(is_string=False)):
            value = _literal(node.this)
            return -value if isinstance(value, int | Decimal) else _NO_LITERAL
        case _:
            return _NO_LITERAL
