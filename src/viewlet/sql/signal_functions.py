"""Table functions of signals: a view of samples in one statement.

    SELECT * FROM sample(readings, KEY => sensor, TIME => t, VALUE => temp, PERIOD => '100ms', INTERPOLATE => 'linear')
    SELECT * FROM sosfilt(readings, KEY => sensor, TIME => t, VALUE => temp, PERIOD => '100ms', SOS => [[...], ...])

Every function names the columns of a table and how they are sampled, then the arguments of its operator.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sqlglot import exp

from viewlet.errors import ViewletError
from viewlet.sql.signal_queries import bound_signal
from viewlet.sql.source import name_of
from viewlet.sql.table_functions import BoundCall, TableCall, TableFunction

if TYPE_CHECKING:
    from viewlet.signals import Query, Signal

COLUMNS = ("key", "time", "value", "end")
OPTIONS = ("unit", "overlap", "lateness", "late", "idle")
SAMPLING = ("period", "rate", "offset", "interpolate", "max_gap", "fill")


@dataclass(frozen=True, slots=True)
class SignalFunction:
    """An operator as a table function: the arguments that it needs, those that it may have, and what it makes."""

    needs: tuple[str, ...]
    takes: tuple[str, ...]
    build: Callable[..., Query]

    def __call__(self, call: TableCall) -> BoundCall:
        """Binds a call of it."""
        given = _arguments(call)
        known = (*COLUMNS, *OPTIONS, *SAMPLING, *self.needs, *self.takes, "retain")
        for name in given:
            if name not in known:
                raise call.error(f"{call.name} has no argument {name.upper()}, only {', '.join(known).upper()}")
        for name in ("time", "value", *self.needs):
            if name not in given:
                raise call.error(f"{call.name} needs {name.upper()} => ...")
        values = {name: _value(call, name, node) for name, node in given.items()}
        return self._bound(call, values)

    def _bound(self, call: TableCall, values: dict[str, Any]) -> BoundCall:
        from viewlet.signals.declare import signal_over
        from viewlet.signals.notation import check_function

        table = call.table(0)

        def part(names: tuple[str, ...]) -> dict[str, Any]:
            return {name: values[name] for name in names if name in values}

        try:
            if ":" in str(values.get("interpolate", "")):
                check_function(str(values["interpolate"]))
            options = part((*OPTIONS, "end"))
            unit = options.pop("unit", None)
            signal = signal_over(table, values.get("key", ()), values["time"], values["value"], unit, **options)
            query = self.build(signal.sample(**part(SAMPLING)), **part((*self.needs, *self.takes)))
            return bound_signal(call, query.node, {table.name: table}, values.get("retain"))
        except ViewletError as wrong:
            raise call.error(str(wrong)) from wrong


def _arguments(call: TableCall) -> dict[str, exp.Expr]:
    """The arguments behind the table, by their names."""
    found: dict[str, exp.Expr] = {}
    for number, argument in enumerate(call.arguments[1:], 1):
        if not isinstance(argument, exp.Kwarg):
            raise call.error(f"{call.name} takes a table, then NAME => value", number)
        name = str(argument.this.this).lower()
        if name in found:
            raise call.error(f"{call.name}: {name.upper()} is given twice", number)
        found[name] = argument.expression
    return found


def _value(call: TableCall, name: str, node: exp.Expr) -> Any:
    """A literal, a list of numbers, or for the columns of a signal, their names."""
    if name in COLUMNS:
        columns = (
            node.expressions if isinstance(node, exp.Tuple) else [node.this if isinstance(node, exp.Paren) else node]
        )
        if not all(isinstance(each, exp.Column) and not each.args.get("table") for each in columns):
            raise call.error(
                f"{call.name} expects the name of a column, or of several in parentheses, for {name.upper()}"
            )
        names = [name_of(each.this) for each in columns]
        return names[0] if len(names) == 1 else names
    match node:
        case exp.Array():
            return [_value(call, name, each) for each in node.expressions]
        case exp.Neg():
            return -_value(call, name, node.this)
        case exp.Literal() if node.is_string:
            return str(node.this)
        case exp.Literal():
            text = str(node.this)
            return int(text) if text.isdecimal() else float(text)
        case exp.Boolean():
            return bool(node.this)
    raise call.error(f"{call.name} expects a number, a text or a list of numbers for {name.upper()}")


def _moving(signal: Signal, operation: str, size: int, hop: int = 1, min_samples: int = 1) -> Query:
    from viewlet.signals.coefficients import checked_choice

    checked_choice(operation, ("sum", "mean", "power", "energy", "count"), "OPERATION")
    made: Query = getattr(signal, operation)(size, hop, min_samples=min_samples)
    return made


def _spectrum(signal: Signal, size: int, hop: int | None = None, window: str | None = None) -> Query:
    return signal.window(size, hop, window).rfft().power_spectrum()


SIGNAL_FUNCTIONS: dict[str, TableFunction] = {
    "sample": SignalFunction((), (), lambda signal: signal),
    "lfilter": SignalFunction(("b", "a"), ("start", "missing"), lambda signal, **given: signal.lfilter(**given)),
    "sosfilt": SignalFunction(("sos",), ("start", "missing"), lambda signal, **given: signal.sosfilt(**given)),
    "fir": SignalFunction(("taps",), ("start", "missing", "method"), lambda signal, **given: signal.fir(**given)),
    "correlate": SignalFunction(("values",), ("missing",), lambda signal, **given: signal.correlate(**given)),
    "ewm": SignalFunction(("alpha",), ("adjust",), lambda signal, **given: signal.ewm(**given)),
    "derivative": SignalFunction((), (), lambda signal: signal.derivative()),
    "integral": SignalFunction((), ("method",), lambda signal, **given: signal.integral(**given)),
    "decimate": SignalFunction(("factor",), (), lambda signal, factor: signal.decimate(factor)),
    "moving": SignalFunction(("operation", "size"), ("hop", "min_samples"), _moving),
    "power_spectrum": SignalFunction(("size",), ("hop", "window"), _spectrum),
}
"""By name."""
