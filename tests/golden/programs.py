"""Building, describing and running trigger programs of the papers' examples."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from random import Random

from viewlet.algebra.evaluate import State, evaluate
from viewlet.algebra.nodes import Expr, Rel, Var, View
from viewlet.algebra.printer import show, show_block
from viewlet.algebra.query import OutputColumn, Query
from viewlet.algebra.traverse import walk
from viewlet.changes import RowChange
from viewlet.triggers.compiler import compile_query
from viewlet.triggers.interpreter import Interpreter
from viewlet.triggers.program import Program, Statement
from viewlet.triggers.single import RowTrigger, row_trigger
from viewlet.triggers.store import MapStore
from viewlet.types import BIGINT, Column, Row, Table, TableKind

NUMBER = BIGINT.with_nullable(False)
Tables = Mapping[str, Table]


def var(name: str) -> Var:
    return Var(name, NUMBER)


def variables(names: str) -> tuple[Var, ...]:
    return tuple(map(var, names.split()))


def rel(name: str, columns: str) -> Rel:
    return Rel(name, variables(columns))


def streams(**columns: str) -> dict[str, Table]:
    """Tables whose rows are not kept, so that everything a trigger reads is a view."""
    return {
        name: Table(name, tuple(Column(column, NUMBER) for column in names.split()), TableKind.STREAM)
        for name, names in columns.items()
    }


def query_of(expr: Expr, output: str) -> Query:
    return Query(expr, tuple(OutputColumn(v.name, v) for v in variables(output)))


def compiled(expr: Expr, output: str, tables: Tables) -> Program:
    return compile_query("Q", query_of(expr, output), tables, "higher-order")


def describe_views(program: Program) -> str:
    lines = [
        f"{view.name}[{names(view.keys)}].{field.name} =\n{indented(show_block(field.definition))}"
        for view in program.views
        for field in view.fields
    ]
    return "\n".join([*lines, f"result =\n{indented(show_block(program.result))}"])


def describe_triggers(program: Program) -> str:
    parts = (f"on {trigger.table}:\n{describe_statements(trigger.statements)}" for trigger in program.triggers)
    return "\n\n".join(parts)


def describe_rows(program: Program, tables: Tables, sign: int = 1) -> str:
    """The triggers for one inserted or deleted row."""
    parts = []
    for row in row_triggers(program, tables, sign):
        event = "insert into" if sign > 0 else "delete from"
        parts.append(f"on {event} {row.table} ({names(row.row)}):\n{describe_statements(row.statements)}")
    return "\n\n".join(parts)


def describe_statements(statements: tuple[Statement, ...]) -> str:
    return "\n".join(
        f"    {statement.view}[{names(statement.args)}].{update.field} {':=' if statement.replaces else '+='}\n"
        + indented(show_block(update.expr), 8)
        for statement in statements
        for update in statement.updates
    )


def row_triggers(program: Program, tables: Tables, sign: int = 1) -> list[RowTrigger]:
    return [row_trigger(trigger, tables[trigger.table], sign) for trigger in program.triggers]


def names(keys: tuple[Var, ...]) -> str:
    return ", ".join(key.name for key in keys)


def indented(text: str, by: int = 4) -> str:
    return "\n".join(" " * by + line for line in text.splitlines())


def keys_of_views(program: Program) -> dict[str, str]:
    """View -> its keys, by the names they have in its definition."""
    return {view.name: names(view.keys) for view in program.views}


def statements_on(program: Program, table: str) -> dict[str, str]:
    """view.field -> `+=` or `:=`, and the expression, on one line."""
    trigger = program.trigger(table)
    assert trigger is not None
    return {
        f"{statement.view}.{update.field}": f"{':=' if statement.replaces else '+='} {show(update.expr)}"
        for statement in trigger.statements
        for update in statement.updates
    }


def reads(expr: Expr) -> list[str]:
    return sorted({node.name for node in walk(expr) if isinstance(node, View)})


def check_by_running(program: Program, tables: Tables, seed: int = 7, steps: int = 25, high: int = 4) -> None:
    """Random batches, and random single rows, give what evaluating the query gives.

    The interpreter's base tables stay empty: whatever it needs, it has to keep.
    """
    query = program.query
    interpreter = Interpreter(program, {name: MapStore() for name in tables})
    rows = RowRunner(program, tables)
    interpreter.load()
    stores = {name: MapStore() for name in tables}
    for table, changes in random_changes(tables, seed, steps, high):
        interpreter.apply(table, RowChange(changes))
        for row, multiplicity in changes.items():
            stores[table].add(row, (multiplicity,))
            rows.apply(table, row, multiplicity)
        interpreter.finish()
        expected = evaluate(query.expr, query.output, State(stores))
        assert interpreter.result() == expected
        assert rows.result() == expected


def random_changes(tables: Tables, seed: int, steps: int, high: int) -> Iterator[tuple[str, dict[Row, int]]]:
    """Batches of inserts, and of deletes of what is there."""
    random = Random(seed)
    present: dict[str, list[Row]] = {name: [] for name in tables}
    for _ in range(steps):
        table = random.choice(sorted(tables))
        changes: dict[Row, int] = {}
        for _ in range(random.randint(1, 3)):
            if present[table] and random.random() < 0.3:
                row, sign = present[table].pop(random.randrange(len(present[table]))), -1
            else:
                row, sign = tuple(random.randint(0, high) for _ in tables[table].columns), 1
                present[table].append(row)
            changes[row] = changes.get(row, 0) + sign
        yield table, {row: n for row, n in changes.items() if n}


class RowRunner:
    """Runs the triggers of single rows, one row at a time."""

    def __init__(self, program: Program, tables: Tables) -> None:
        self.program = program
        self.triggers = {(row.table, sign): row for sign in (1, -1) for row in row_triggers(program, tables, sign)}
        self.views = {
            view.name: MapStore([field.name for field in view.fields], view.presence) for view in program.views
        }

    def apply(self, table: str, row: Row, multiplicity: int) -> None:
        sign = 1 if multiplicity > 0 else -1
        for _ in range(abs(multiplicity)):
            self._fire(self.triggers[table, sign], row)

    def _fire(self, trigger: RowTrigger, row: Row) -> None:
        given = dict(zip(trigger.row, row, strict=True))
        state = State({}, {}, self.views)
        increments = [statement for statement in trigger.statements if not statement.replaces]
        computed = [(statement.view, self._payloads(statement, state, given)) for statement in increments]
        for view, payloads in computed:
            for key, payload in payloads.items():
                self.views[view].add(key, payload)
        for statement in trigger.statements:
            if statement.replaces:
                self.views[statement.view].assign(self._payloads(statement, state, {}))

    def _payloads(self, statement: Statement, state: State, given: Mapping[Var, object]) -> dict[Row, tuple[int, ...]]:
        by_field = {update.field: evaluate(update.expr, statement.args, state, given) for update in statement.updates}
        fields = [by_field.get(field.name, {}) for field in self.program.view(statement.view).fields]
        keys = {key for numbers in fields for key in numbers}
        return {key: tuple(numbers.get(key, 0) for numbers in fields) for key in keys}

    def result(self) -> dict[Row, int]:
        return evaluate(self.program.result, self.program.query.output, State({}, {}, self.views))
