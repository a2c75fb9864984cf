"""Hostile names and texts through every generator of code: the answers are the interpreter's, and nothing is run."""

from __future__ import annotations

import ast
import io
import os
import tokenize
from random import Random
from typing import Any

import duckdb
import pytest

import viewlet
from tests.security.hostile import NAMES, TWINS, drawn, literal, nothing_called, quoted
from tests.spark_plan.compiled_cluster import CompiledCluster
from tests.spark_plan.distributing import Reference
from viewlet.algebra.evaluate import State, evaluate
from viewlet.algebra.nodes import Const
from viewlet.changes.arrow import rows_to_arrow
from viewlet.codegen.not_compilable import NotCompilable
from viewlet.codegen.scalars import ScalarWriter, Tables
from viewlet.spark.plan.compile import compile_distributed
from viewlet.sql import CreateTable, CreateView, bind_statement, split_statements
from viewlet.sqlgen.definition import definition_sql
from viewlet.triggers.compiler import compile_query
from viewlet.triggers.program import Program
from viewlet.triggers.store import MapStore
from viewlet.types import DOUBLE, Table

ROUNDS = int(os.environ.get("VIEWLET_HOSTILE", "5"))
"""Random combinations of names."""


class Case:
    """Two tables and a view over them whose names and texts are hostile."""

    def __init__(self, names: list[str]) -> None:
        self.fact, self.dimension, self.view, self.key, self.number, self.text, self.output, said = names
        key, number, text = map(quoted, (self.key, self.number, self.text))
        self.tables = {
            self.fact: f"{key} BIGINT, {number} BIGINT NOT NULL, {text} VARCHAR",
            self.dimension: f"{text} BIGINT NOT NULL, {key} BIGINT",
        }
        self.query = (
            f"SELECT d.{text} AS {quoted(self.output)}, SUM(f.{number} * d.{key}) AS {number}, COUNT(*) AS {text}, "
            f"MAX(f.{number}) AS {key} FROM {quoted(self.fact)} f JOIN {quoted(self.dimension)} d ON f.{key} = d.{key} "
            f"WHERE f.{text} <> {literal(said)} AND f.{text} NOT IN ('no', {literal(said + 'x')}) GROUP BY d.{text}"
        )
        self.batches: list[dict[str, list[tuple[Any, ...]]]] = [
            {self.fact: [(1, 10, "a"), (2, 20, said), (2, 5, "b")], self.dimension: [(7, 1), (8, 2)]},
            {self.fact: [(1, -3, "ﬁ"), (2, 4, said + "x")], self.dimension: [(7, 2)]},
        ]

    def schemas(self) -> dict[str, Table]:
        tables: dict[str, Table] = {}
        for name, columns in self.tables.items():
            statement = next(split_statements(f"CREATE TABLE {quoted(name)} ({columns})"))
            bound = bind_statement(statement, tables)
            assert isinstance(bound, CreateTable)
            tables[bound.table.name] = bound.table
        return tables

    def program(self, strategy: str = "higher-order") -> tuple[Program, dict[str, Table]]:
        tables = self.schemas()
        bound = bind_statement(
            next(split_statements(f"CREATE MATERIALIZED VIEW {quoted(self.view)} AS {self.query}")), tables
        )
        assert isinstance(bound, CreateView)
        return compile_query(bound.name, bound.query, tables, strategy), tables

    def declare(self, db: viewlet.Connection) -> None:
        for name, columns in self.tables.items():
            db.execute(f"CREATE TABLE {quoted(name)} ({columns})")
        db.execute(f"CREATE MATERIALIZED VIEW {quoted(self.view)} AS {self.query}")


def answers(case: Case, **settings: Any) -> list[Any]:
    with viewlet.connect(**settings) as db:
        case.declare(db)
        found = []
        for batch in case.batches:
            db.apply(batch)
            found.append(db.view(case.view).rows())
        return found


def cases() -> list[Any]:
    """Every name somewhere, each with its neighbours in the list; then random combinations."""
    groups = [(NAMES[i : i + 8] + NAMES[:8])[:8] for i in range(0, len(NAMES), 8)]
    listed = [pytest.param(Case(list(names)), id=ascii(names[0][:20])) for names in groups]
    listed += [pytest.param(Case(["a\0b", "b\0a", *NAMES[:6]]), id="NUL in tables")]
    drawings = [drawn(Random(seed), 8) for seed in range(ROUNDS)]
    return [*listed, *(pytest.param(Case(names), id=f"random {seed}") for seed, names in enumerate(drawings))]


CASES = cases()


def check_source(source: str) -> None:
    """Identifiers are ASCII and at most a line long; comments and the docstring hold nothing that ends a line."""
    assert source.isascii()
    assert "\r" not in source
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant):
            assert not isinstance(node.value, str) or node is tree.body[0].value  # type: ignore[attr-defined]
            assert not isinstance(node.value, bytes)
        if isinstance(node, ast.Name):
            assert node.id.isascii()
            assert len(node.id) < 80
    assert len(ast.get_docstring(tree) or "") < 150
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            assert token.string.isprintable()
            assert len(token.string) < 500


@pytest.mark.parametrize("case", CASES)
def test_compiled(case: Case) -> None:
    with nothing_called():
        assert answers(case, engine="compiled") == answers(case, engine="interpreter")
        with viewlet.connect(engine="compiled") as db:
            case.declare(db)
            check_source(db.explain(case.view, stage="code"))


@pytest.mark.parametrize("case", CASES)
def test_blocks_of_spark(case: Case) -> None:
    program, tables = case.program()
    with nothing_called():
        reference = Reference(program, tables)
        cluster = CompiledCluster(compile_distributed(program, tables, {}), tables, workers=2)
        check_source(cluster.module.generated.source)
        for batch in case.batches:
            changes = {name: dict.fromkeys(rows, 1) for name, rows in batch.items()}
            expected = reference.apply(changes)
            cluster.apply(changes)
            assert cluster.result() == expected


@pytest.mark.parametrize("case", CASES)
def test_definitions_in_duckdb(case: Case) -> None:
    """The views of a program by SQL, as loads make them, are what the evaluator says."""
    program, tables = case.program()
    database = duckdb.connect(config={"enable_external_access": "false"})
    stores = {name: MapStore() for name in tables}
    for number, name in enumerate(tables):
        rows = [row for batch in case.batches for row in batch[name]]
        for row in rows:
            stores[name].add(row, (1,))
        database.register(f"t{number}", rows_to_arrow(tables[name].columns, [(row, 1) for row in rows]))
    source = {name: f"t{number}" for number, name in enumerate(tables)}
    for view in program.views:
        try:
            query = definition_sql(view, tables, source=source.__getitem__, dialect="duckdb")
        except viewlet.UnsupportedError:
            assert any(not column.name or "\0" in column.name for t in tables.values() for column in t.columns)
            continue
        found = database.execute(query).fetchall()
        for i, field in enumerate(view.fields):
            expected = evaluate(field.definition, view.keys, State(stores))
            keys = len(view.keys)
            assert {row[:keys]: row[keys + i] for row in found if row[keys + i]} == {
                key: int(number)
                for key, number in expected.items()
                if number  # type: ignore[arg-type]
            }


def declare_ring(db: viewlet.Connection, names: list[str]) -> None:
    a, b, c, t, s, view, other = map(quoted, names)
    db.execute(f"CREATE TABLE {t} ({a} BIGINT NOT NULL, {b} DOUBLE NOT NULL)")
    db.execute(f"CREATE TABLE {s} ({a} BIGINT NOT NULL, {c} DOUBLE NOT NULL)")
    db.execute(f"CREATE MATERIALIZED VIEW {view} AS SELECT COFACTOR({b}, {c}) FROM {t} NATURAL JOIN {s}")
    db.execute(f"CREATE MATERIALIZED VIEW {other} AS SELECT FACTORIZED * FROM {t} NATURAL JOIN {s}")


@pytest.mark.parametrize("seed", range(12))
def test_view_trees(seed: int) -> None:
    names = drawn(Random(1000 + seed), 7)
    t, s, view, other = names[3:]

    def told(engine: str) -> list[Any]:
        with viewlet.connect(engine=engine) as db:
            declare_ring(db, names)
            for factor in (1, 2):
                db.apply({t: [(1, 2.0 * factor), (2, 3.0)], s: [(1, 5.0), (1, 1.5 * factor)]})
            return [str(db.view(view).cofactor()), sorted(db.view(other).rows())]

    with nothing_called():
        assert told("compiled") == told("interpreter")


def test_twins_under_nfkc_keep_their_own_sums() -> None:
    for first, second in zip(TWINS[::2], TWINS[1::2], strict=True):
        with viewlet.connect(engine="compiled") as db:
            db.execute(f"CREATE TABLE t ({quoted(first)} BIGINT, {quoted(second)} BIGINT)")
            db.execute(
                f"CREATE MATERIALIZED VIEW v AS SELECT SUM({quoted(first)}) AS a, SUM({quoted(second)}) AS b FROM t"
            )
            db.insert("t", [(1, 100)] * 3)
            assert db.view("v").rows() == [(3, 300)]


def test_a_lone_surrogate_is_refused() -> None:
    with viewlet.connect() as db:
        with pytest.raises(viewlet.SqlError, match="half of a surrogate pair is no character"):
            db.execute('CREATE TABLE "\ud800" (a BIGINT)')
        db.execute("CREATE TABLE t (a VARCHAR)")
        with pytest.raises(viewlet.SqlError, match="half of a surrogate pair"):
            db.execute("CREATE MATERIALIZED VIEW v AS SELECT a FROM t WHERE a = '\udfff'")
        with pytest.raises(viewlet.DataError):
            db.insert("t", [("\ud800",)])


def test_constants_that_are_not_finite_are_no_names() -> None:
    writer = ScalarWriter(str, Tables())
    assert writer.word(Const(float("inf"), DOUBLE)).code == "np.inf"
    assert writer.word(Const(float("-inf"), DOUBLE)).code == "(-np.inf)"
    with pytest.raises(NotCompilable):
        writer.word(Const(float("nan"), DOUBLE))


@pytest.mark.parametrize("case", CASES)
def test_ad_hoc_queries(case: Case) -> None:
    with nothing_called(), viewlet.connect() as db:
        case.declare(db)
        for batch in case.batches:
            db.apply(batch)
        try:
            found = db.execute(f"SELECT * FROM {quoted(case.view)}").to_pydict()
        except viewlet.ViewletError:
            assert any(not name or "\0" in name for name in (case.view, case.key, case.number, case.text, case.output))
        else:
            assert sorted(zip(*found.values(), strict=True)) == sorted(db.view(case.view).rows())
