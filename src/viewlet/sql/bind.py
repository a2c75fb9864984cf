"""One statement of a script, bound against the catalogue."""

from __future__ import annotations

from collections.abc import Mapping

from sqlglot import exp

from viewlet.sql.modify import bind_modify
from viewlet.sql.query import translate_to_query
from viewlet.sql.source import Source, name_of
from viewlet.sql.split import RawStatement, create_kind, parse, split_statements
from viewlet.sql.statements import STRATEGIES, CreateTable, CreateView, Drop, Explain, Select, Statement
from viewlet.sql.tables import bind_create_table, table_name
from viewlet.types import Table

_QUERY = (exp.Select, exp.SetOperation, exp.Subquery, exp.Values)


def bind_statement(raw: RawStatement, catalog: Mapping[str, Table]) -> Statement:
    """What the statement asks for; names are looked up in `catalog`, types are checked."""
    if raw.words[0] == "EXPLAIN":
        return _explain(raw, catalog)
    node = parse(raw)
    if isinstance(node, exp.Create):
        return _create(node, raw, catalog)
    if isinstance(node, exp.Drop):
        return _drop(node, raw)
    if isinstance(node, exp.Insert | exp.Delete | exp.Update):
        return bind_modify(node, raw.source, catalog)
    if isinstance(node, _QUERY) or raw.words[0] in ("PIVOT", "UNPIVOT", "DESCRIBE", "SHOW", "SUMMARIZE"):
        return Select(raw.text)
    if raw.words[0].isalpha() and not isinstance(node, exp.Alter | exp.Copy | exp.Transaction | exp.Set):
        raise raw.source.error(f"'{raw.words[0]}' does not begin a statement", node)
    raise raw.source.unsupported(f"{raw.words[0]} statement", None)


def bind_query(sql: str, catalog: Mapping[str, Table]) -> CreateView:
    """A SELECT text, not yet a view, as one."""
    statements = list(split_statements(sql))
    if len(statements) != 1:
        raise Source(sql, 0, sql).error("one SELECT is expected")
    return _query_view(statements[0], 0, catalog)


def _query_view(raw: RawStatement, skip: int, catalog: Mapping[str, Table]) -> CreateView:
    node = parse(raw, skip)
    if not isinstance(node, _QUERY):
        raise raw.source.error("a SELECT is expected", node)
    query, sources = translate_to_query(node, raw.source, catalog)
    return CreateView("query", query, sources, select_sql=raw.text_from(skip))


# CREATE and DROP


def _create(node: exp.Create, raw: RawStatement, catalog: Mapping[str, Table]) -> Statement:
    if node.kind == "TABLE":
        if node.args.get("replace"):
            raise raw.source.unsupported("CREATE OR REPLACE TABLE", node.this, "DROP it first")
        kind, _ = create_kind(raw)
        return CreateTable(bind_create_table(node, kind, raw.source), bool(node.args.get("exists")))
    if node.kind == "VIEW":
        return _create_view(node, raw, catalog)
    raise raw.source.unsupported(f"CREATE {node.kind}", node.this)


def _create_view(node: exp.Create, raw: RawStatement, catalog: Mapping[str, Table]) -> CreateView:
    source = raw.source
    columns: list[exp.Expr] = []
    target = node.this
    if isinstance(target, exp.Schema):
        target, columns = target.this, target.expressions
    name = table_name(target, source)
    if node.expression is None or not isinstance(node.expression, _QUERY):
        raise source.error("a view needs AS SELECT ...", node)
    query, sources = translate_to_query(node.expression, source, catalog, [name_of(column) for column in columns])
    return CreateView(
        name,
        query,
        sources,
        _strategy(node, source),
        _select_text(node, raw),
        bool(node.args.get("replace")),
        bool(node.args.get("exists")),
    )


def _strategy(node: exp.Create, source: Source) -> str:
    strategy = "auto"
    properties = node.args.get("properties")
    for option in properties.expressions if properties is not None else []:
        if isinstance(option, exp.MaterializedProperty):
            continue
        name = option.name.lower() if isinstance(option, exp.Property) else option.sql("duckdb")
        if name != "strategy":
            raise source.error(f"unknown option '{name}': a view has the option strategy", option)
        strategy = str(option.args["value"].name).lower()
        if strategy not in STRATEGIES:
            raise source.error(
                f"unknown strategy '{strategy}': use one of {', '.join(STRATEGIES)}", option.args["value"]
            )
    return strategy


def _select_text(node: exp.Create, raw: RawStatement) -> str:
    """The query as written: what follows the first AS outside parentheses."""
    depth = 0
    for i, word in enumerate(raw.words):
        depth += (word == "(") - (word == ")")
        if word == "AS" and depth == 0:
            return raw.text_from(i + 1)
    return str(node.expression.sql("duckdb"))


def _drop(node: exp.Drop, raw: RawStatement) -> Drop:
    tables = node.args.get("tables") or [node.this]
    if len(tables) != 1:
        raise raw.source.unsupported("DROP of several tables", tables[1], "write one DROP for each")
    if node.args.get("cascade"):
        raise raw.source.unsupported("CASCADE", None, "drop the views that read it first")
    kind, _ = create_kind(raw)
    written = kind.value if node.kind == "TABLE" else str(node.kind)
    if written not in ("TABLE", "STREAM", "STATIC TABLE", "VIEW"):
        raise raw.source.unsupported(f"DROP {written}", tables[0])
    return Drop(table_name(tables[0], raw.source), written, bool(node.args.get("exists")))


def _explain(raw: RawStatement, catalog: Mapping[str, Table]) -> Explain:
    """EXPLAIN v, EXPLAIN (stage) v, EXPLAIN SELECT ..."""
    words, at, stage = raw.words, 1, None
    if len(words) > 4 and words[1] == "(" and words[3] == ")":
        start, end = raw.positions[2]
        stage, at = raw.text[start:end].strip("'\"").lower(), 4
    if len(words) <= at:
        raise raw.source.error("EXPLAIN needs a view or a SELECT")
    if len(words) == at + 1:
        start, end = raw.positions[at]
        written = raw.text[start:end]
        return Explain(written[1:-1] if written.startswith('"') else written.lower(), stage)
    return Explain(_query_view(raw, at, catalog), stage)
