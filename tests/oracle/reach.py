"""Which branches of the SQL front end the random grammar reaches: `python -m tests.oracle.reach --queries 500`.

The modules of `viewlet.sql` that translate queries are loaded with a probe in every condition, function, `case` and
`except`. Random queries are then translated, and what no query reached is printed, together with the scalar functions
and the entries of the front end's tables that no query used. Branches that raise an error are left out: `tests/sql`
covers them.
"""

from __future__ import annotations

import argparse
import ast
import importlib
import sys
from collections.abc import Iterator, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, SourceFileLoader
from importlib.util import find_spec, spec_from_loader
from itertools import pairwise
from types import CodeType
from typing import Any

PACKAGE = "viewlet.sql."
SKIPPED_MODULES = {  # with their submodules
    "bind": "statements around a query",
    "statements": "statements around a query",
    "modify": "INSERT, DELETE and UPDATE",
    "tables": "CREATE TABLE",
    "constraints": "CREATE TABLE",
    "alter": "ALTER TABLE",
    "target": "INSERT, DELETE and UPDATE",
    "result_columns": "INSERT, DELETE and UPDATE",
    "copy": "COPY",
    "prepared": "PREPARE and EXECUTE",
    "type_aliases": "CREATE TYPE",
    "auto_cdc": "AUTO CDC, which has a random test of its own",
    "parameters": "values beside a statement",
    "split": "the statements of a script",
    "source": "errors",
    "syntax": "what is refused; a test of its own walks every class of the parser",
    "user_aggregates": "names and types of user-defined aggregates",
    "key_condition": "UPDATE and DELETE by primary key",
    "matrix_programs": "outputs of matrix programs, which `Connection.program` declares",
    "table_functions": "kinds of views that other packages register",
    "ring_views": "COFACTOR and FACTORIZED, which have a random test of their own",
    "join_graph": "COFACTOR and FACTORIZED, which have a random test of their own",
    "inline": "views over views",
    "parser": "statements that are no SQL",
    "depth": "chains longer than a random query has",
    "streams": "views over parts of streams, which random streams of their own compare with a naive recomputation",
    "signal_functions": "signals, which tests of their own compare with SciPy",
    "signal_queries": "signals, which tests of their own compare with SciPy",
    "to_spark": "ad-hoc queries on Spark, which tests of their own compare with DuckDB",
}
EXPECTED: dict[str, str] = {
    "from_clause:_refuse_catalogue": "an error",
    "scope:tables": "what an error suggests",
    "scope:names": "what an error suggests",
    "scope:unknown": "the text of an error",
    "scope:named_query": "queries that are sent to Spark SQL or to the host of parts",
    "layers:is_small": "views over views",
    "scope:own: scalar is None": "a grouped block over a constant of an outer one",
    "scalars:_title": "the text of an error",
    "scalars:column: table is": "a name that does not exist",
    "datatypes:": "sizes that the parser leaves out or that do not exist",
    "query:_values: isinstance(row, exp.Tuple) is false": "DuckDB reads no VALUES without parentheses",
    "scalars:_literal: digits > MAX_DECIMAL_DIGITS": "an error",
    "scalars:_comparison: isinstance(left, exp.Any": "DuckDB reads no ANY on the left",
    "scalars:_is: isinstance(test, exp.Boolean) is false": "an error",
    "scalars:_is_div": "DuckDB has no DIV",
    "scalars:_date_shift: isinstance(node, exp.DateAdd) is false": "DATE_SUB is another function in DuckDB",
    "scalars:_date_diff: unit is not None is false": "DuckDB needs the unit",
    "builtins:moment: scalar.type.kind is Kind.NULL": "DuckDB needs the type of a NULL here",
    "builtins:choose: otherwise is not None is false": "DuckDB needs the third argument",
    "coerce:arithmetic: op == '//'": "DuckDB has no // of decimals",
    "coerce:_decimal_product: scale > MAX_DECIMAL_DIGITS": "DuckDB has no such decimal",
    "function_names:other_arguments": "an error",
    "subqueries:_inner": "the parser puts every subquery into a node of its own",
    "select:has_aggregate: isinstance(part, exp.Window)": "an error",
    "select:_output_reference": "two columns of one name",
    "aggregates:translate: isinstance(call, exp.": "DuckDB allows IGNORE NULLS in windows only",
    "aggregates:_user_call": "user-defined aggregates, which tests of their own compare with plain Python",
    "aggregates:_argument_of": "user-defined aggregates",
    "select:_grouped_block: grouping is None": "user-defined aggregates",
    "select:_grouping": "user-defined aggregates",
    "select:group_factors": "user-defined aggregates",
    "context:free_name": "user-defined aggregates",
    "query:translate_to_query: not layered": "user-defined aggregates",
    "query:_aggregate_query": "user-defined aggregates",
    "query:_collected": "user-defined aggregates",
    "query:_values_read": "user-defined aggregates",
    "query:_over": "user-defined aggregates",
    "query:_beyond": "user-defined aggregates",
    "query:_name": "user-defined aggregates",
    "query:translate_nested: block.grouping": "user-defined aggregates",
    "query:_translated: block.grouping": "user-defined aggregates",
    "adaptive_views:": "options of adaptive views, which tests of their own declare",
    "outer_joins:padded: scalar.type.kind is Kind.NULL": "in DuckDB a column of bare NULLs is an INTEGER",
    "outer_joins:_columns": "in DuckDB a column of bare NULLs is an INTEGER",
}
"""Beginnings of branches that no query of the grammar reaches, and why: `module:function: condition is outcome`."""

Point = tuple[str, str, str]
"""Module, function and text of the condition; the outcome is kept beside it."""


class Probes:
    """Every probe that was compiled into a module, and every outcome that was seen."""

    def __init__(self) -> None:
        self.points: dict[int, tuple[Point, tuple[str, ...]]] = {}
        self.seen: set[tuple[int, str]] = set()

    def add(self, point: Point, outcomes: tuple[str, ...]) -> int:
        self.points[len(self.points)] = (point, outcomes)
        return len(self.points) - 1

    def condition(self, number: int, value: Any) -> Any:
        self.seen.add((number, "true" if value else "false"))
        return value

    def entered(self, number: int) -> None:
        self.seen.add((number, "reached"))

    def unreached(self) -> Iterator[str]:
        for number, ((module, function, text), outcomes) in self.points.items():
            for outcome in outcomes:
                if (number, outcome) not in self.seen:
                    yield f"{module}:{function}: {text} is {outcome}" if text else f"{module}:{function}"

    def counts(self) -> tuple[int, int]:
        """Outcomes seen, and outcomes there are."""
        wanted = {(n, outcome) for n, (_, outcomes) in self.points.items() for outcome in outcomes}
        return len(wanted & self.seen), len(wanted)


class Instrument(ast.NodeTransformer):
    """Puts probes into the syntax tree of one module."""

    def __init__(self, module: str, probes: Probes) -> None:
        self.module = module
        self.probes = probes
        self.functions: list[str] = []
        self.last_tests: set[int] = set()

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        self.functions.append(node.name)
        self.generic_visit(node)
        if not _fails(node.body):
            node.body.insert(0, self._entered(""))
        self.functions.pop()
        return node

    def generic_visit(self, node: ast.AST) -> ast.AST:
        for name in ("body", "orelse"):
            self._mark_last_tests(getattr(node, name, None))
        return super().generic_visit(node)

    def _mark_last_tests(self, body: object) -> None:
        """Where an error follows an `if`, nothing else comes of its being false."""
        if isinstance(body, list):
            for first, second in pairwise(body):
                if isinstance(first, ast.If) and isinstance(second, ast.Raise):
                    self.last_tests.add(id(first))

    def visit_If(self, node: ast.If) -> ast.AST:
        self._mark_last_tests(node.body)
        self._mark_last_tests(node.orelse)
        fails = {"true": _fails(node.body), "false": id(node) in self.last_tests}
        if node.orelse:
            fails["false"] = _fails(node.orelse)
        outcomes = [outcome for outcome, failed in fails.items() if not failed]
        node.test = self._condition(self.visit(node.test), outcomes)
        node.body = node.body if _fails(node.body) else [self.visit(statement) for statement in node.body]
        node.orelse = [self.visit(statement) for statement in node.orelse]
        return node

    def visit_Raise(self, node: ast.Raise) -> ast.AST:
        return node

    def visit_IfExp(self, node: ast.IfExp) -> ast.AST:
        node.test = self._condition(node.test, ["true", "false"])
        return self.generic_visit(node)

    def visit_comprehension(self, node: ast.comprehension) -> ast.AST:
        node.ifs = [self._condition(test, ["true", "false"]) for test in node.ifs]
        return self.generic_visit(node)

    def visit_match_case(self, node: ast.match_case) -> ast.AST:
        text = f"case {ast.unparse(node.pattern)}"
        self.generic_visit(node)
        if not _fails(node.body):
            node.body.insert(0, self._entered(text))
        return node

    def _function(self) -> str:
        return self.functions[-1] if self.functions else "module"

    def _condition(self, test: ast.expr, outcomes: Sequence[str]) -> ast.expr:
        if ast.unparse(test) == "TYPE_CHECKING":
            return test
        number = self.probes.add((self.module, self._function(), ast.unparse(test)), tuple(outcomes))
        call = ast.Call(ast.Name("_condition_probe", ast.Load()), [ast.Constant(number), test], [])
        return ast.copy_location(call, test)

    def _entered(self, text: str) -> ast.stmt:
        number = self.probes.add((self.module, self._function(), text), ("reached",))
        return ast.Expr(ast.Call(ast.Name("_entered_probe", ast.Load()), [ast.Constant(number)], []))


def _fails(body: Sequence[ast.stmt]) -> bool:
    """Nothing comes of these statements but an error."""
    return isinstance(body[-1], ast.Raise) or "assert_never" in ast.unparse(body[-1])


class ProbedLoader(SourceFileLoader):
    """Loads a module with probes in it."""

    def __init__(self, name: str, path: str, probes: Probes) -> None:
        super().__init__(name, path)
        self.probes = probes

    def get_code(self, fullname: str) -> CodeType:
        tree = ast.parse(self.get_data(self.path))
        Instrument(fullname.removeprefix(PACKAGE), self.probes).visit(tree)
        return compile(ast.fix_missing_locations(tree), self.path, "exec", dont_inherit=True)

    def exec_module(self, module: Any) -> None:
        module._condition_probe, module._entered_probe = self.probes.condition, self.probes.entered
        super().exec_module(module)


class ProbedFinder(MetaPathFinder):
    """Finds the modules that get probes."""

    def __init__(self, probes: Probes) -> None:
        self.probes = probes

    def find_spec(self, fullname: str, path: Any, target: Any = None) -> ModuleSpec | None:
        if not fullname.startswith(PACKAGE) or fullname.removeprefix(PACKAGE).partition(".")[0] in SKIPPED_MODULES:
            return None
        sys.meta_path.remove(self)
        try:
            found = find_spec(fullname)
        finally:
            sys.meta_path.insert(0, self)
        assert found is not None
        assert found.origin is not None
        loader: Loader = ProbedLoader(fullname, found.origin, self.probes)
        return spec_from_loader(fullname, loader)


def measure(queries: int, first_seed: int = 0) -> tuple[Probes, set[str], int]:
    """Translates random queries. Returns the probes, the scalar functions that were used, and the queries refused."""
    probes = Probes()
    sys.meta_path.insert(0, ProbedFinder(probes))
    choices: Any = importlib.import_module("tests.oracle.grammar.choices")
    grammar: Any = importlib.import_module("tests.oracle.grammar.queries")
    values: Any = importlib.import_module("tests.oracle.grammar.values")
    sql: Any = importlib.import_module("viewlet.sql")
    errors: Any = importlib.import_module("viewlet.errors")
    tables: dict[str, Any] = {}
    for statement in values.TABLES.values():
        table = sql.bind_statement(next(sql.split_statements(statement)), tables).table
        tables[table.name] = table
    probes.seen.clear()
    used: set[str] = set()
    refused = 0
    for seed in range(first_seed, first_seed + queries):
        text, _ = grammar.Grammar(choices.RandomChoices(seed)).query()
        try:
            statement = next(sql.split_statements(f"CREATE MATERIALIZED VIEW result AS {text}"))
            view = sql.bind_statement(statement, tables, layered=True)  # as connections do
        except errors.ViewletError as error:
            refused += 1
            print(f"refused, seed {seed}: {error}\n", file=sys.stderr)
            continue
        used |= _operations(view.query.expr)
    return probes, used, refused


def _operations(expr: Any) -> set[str]:
    """The scalar functions an expression calls."""
    nodes: Any = importlib.import_module("viewlet.algebra.nodes")
    found: set[str] = set()
    todo: list[Any] = [expr]
    while todo:
        item = todo.pop()
        if isinstance(item, nodes.Call):
            found.add(item.op)
        if isinstance(item, tuple):
            todo.extend(item)
        elif hasattr(item, "__slots__"):
            todo.extend(getattr(item, name) for name in item.__slots__)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--queries", type=int, default=500)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--allow", type=int, help="fail when more branches than these are missed")
    arguments = parser.parse_args()
    probes, used, refused = measure(arguments.queries, arguments.seed)
    functions: Any = importlib.import_module("viewlet.algebra.functions")
    missed = [branch for branch in probes.unreached() if not branch.startswith(tuple(EXPECTED))]
    for branch in missed:
        print(branch)
    seen, all_outcomes = probes.counts()
    unused = sorted(set(functions.FUNCTIONS) - used)
    print(f"scalar functions not used: {', '.join(unused) or 'none'}")
    print(
        f"{arguments.queries} queries, {refused} refused; {seen} of {all_outcomes} outcomes reached, "
        f"{len(missed)} missed, {all_outcomes - seen - len(missed)} not expected to be; "
        f"{len(functions.FUNCTIONS) - len(unused)} of {len(functions.FUNCTIONS)} scalar functions used"
    )
    if arguments.allow is not None and len(missed) > arguments.allow:
        sys.exit(1)


if __name__ == "__main__":
    main()
