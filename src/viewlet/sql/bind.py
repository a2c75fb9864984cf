"""One statement of a script, bound against the catalogue."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TYPE_CHECKING

from sqlglot import exp

from viewlet.algebra.aggregate_query import AggregateQuery
from viewlet.algebra.layered_query import LayeredQuery
from viewlet.algebra.query import Query
from viewlet.sql.adaptive_views import ADAPTIVE, ADAPTIVE_OPTIONS, AdaptiveOptions, bind_adaptive
from viewlet.sql.alter import bind_alter_table, unique_index
from viewlet.sql.auto_cdc import as_query
from viewlet.sql.copy import bind_copy
from viewlet.sql.depth import shallow
from viewlet.sql.matrix_programs import bind_matrix_program
from viewlet.sql.modify import MODIFYING, bind_modify
from viewlet.sql.parser import quiet
from viewlet.sql.prepared import bind_prepared
from viewlet.sql.query import translate_to_query
from viewlet.sql.ring_views import asks_for_cofactor, bind_ring_view
from viewlet.sql.scope import unknown
from viewlet.sql.signal_functions import SIGNAL_FUNCTIONS
from viewlet.sql.signal_queries import bind_signal_query
from viewlet.sql.source import Source, name_of, sql_of
from viewlet.sql.split import RawStatement, create_kind, factorised_word, identifier, parse, split_statements, unquoted
from viewlet.sql.statements import (
    STRATEGIES,
    AlterView,
    AnsweredCall,
    Comment,
    CreateSequence,
    CreateTable,
    CreateView,
    Drop,
    Explain,
    Ignored,
    Select,
    Show,
    Statement,
    Transact,
)
from viewlet.sql.streams.carried_rows import bind_look_back, looks_back
from viewlet.sql.streams.grouped_windows import bind_grouped_window, groups_by_window
from viewlet.sql.streams.match_recognize import bind_match_recognize, is_match_recognize
from viewlet.sql.streams.part_queries import syntax_errors
from viewlet.sql.streams.patterns import bind_pattern_view, is_pattern_view
from viewlet.sql.streams.statements import (
    bind_stream_parts,
    bind_view_delta_function,
    cut_clauses,
    is_partitioned_stream,
    is_view_delta_function,
    refuse_replacement,
)
from viewlet.sql.streams.views_together import bind_together, declares_together
from viewlet.sql.streams.window_functions import bind_window_function, calls_window_function
from viewlet.sql.streams.windows import bind_window_view, is_window_view
from viewlet.sql.syntax import everything_read
from viewlet.sql.table_functions import TABLE_FUNCTIONS, TableCall, bind_call, called_function
from viewlet.sql.tables import bind_create_table, is_temporary, known_columns, partitioning, table_name
from viewlet.sql.type_aliases import bind_type
from viewlet.types import Table, TableKind

if TYPE_CHECKING:
    from viewlet.aggregates import Aggregate

_QUERY = (exp.Select, exp.SetOperation, exp.Subquery, exp.Values)
RING_STRATEGIES = ("auto", "view-tree")
Defined = Mapping[str, "Aggregate"]
"""Aggregates that users defined, by name."""
_NONE: Defined = MappingProxyType({})

TABLE_FUNCTIONS["matrix_program"] = bind_matrix_program
TABLE_FUNCTIONS["signal_query"] = bind_signal_query
TABLE_FUNCTIONS.update(SIGNAL_FUNCTIONS)


@dataclass(frozen=True, slots=True)
class Names:
    """What the names in a statement may stand for: tables and views, and aggregates that users defined.

    `layered` says whether queries may be cut into layers.
    """

    catalog: Mapping[str, Table]
    aggregates: Defined
    layered: bool = False


def bind_statement(
    raw: RawStatement, catalog: Mapping[str, Table], aggregates: Defined = _NONE, layered: bool = False
) -> Statement:
    """What the statement asks for; names are looked up in `catalog` and `aggregates`, types are checked.

    With `layered`, large queries are cut into layers; otherwise every query is one expression.
    """
    names = Names(catalog, aggregates, layered)
    if raw.words[0] == "EXPLAIN":
        return _explain(raw, names)
    if raw.words[0] == "ALTER" and "VIEW" in raw.words[1:3]:
        return _alter_view(raw, catalog)
    if (altered := unique_index(raw, catalog) or raw).words[:2] == ("ALTER", "TABLE"):
        with quiet():
            return bind_alter_table(altered, catalog) or Ignored("ALTER TABLE has nothing to do")
    if raw.words[0] == "COPY":
        return bind_copy(raw, catalog)
    if raw.words[:2] == ("COMMENT", "ON"):
        return _comment(raw, catalog)
    if (type := bind_type(raw)) is not None:
        return type
    if (sequence := _sequence(raw)) is not None:
        return sequence
    if (shown := _show(raw, catalog)) is not None:
        return shown
    if (transact := _transact(raw)) is not None:
        return transact
    if (prepared := bind_prepared(raw)) is not None:
        return prepared
    if (ignored := _ignored(raw)) is not None:
        return ignored
    if (flow := as_query(raw, catalog)) is not None:
        return bind_statement(flow, catalog, aggregates, layered)
    refuse_replacement(raw)
    if (bind_over_parts := _binder_over_parts(raw, catalog)) is not None:
        with quiet(), syntax_errors(raw):
            return bind_over_parts(raw, catalog)
    if is_partitioned_stream(raw):
        return _partitioned_stream(raw, names)
    node = parse(raw, aggregates=aggregates)
    if isinstance(node, exp.Create) and node.kind == "TABLE" and node.expression is not None:
        return _create_table_as(node, raw)
    if isinstance(node, (exp.Create, exp.Drop, *MODIFYING)):
        with quiet(), shallow(node, raw.source), everything_read(node, raw.source):
            return _bind(node, raw, names)
    if isinstance(node, _QUERY) or raw.words[0] in ("PIVOT", "UNPIVOT", "DESCRIBE", "SHOW", "SUMMARIZE"):
        if factorised_word(raw) is not None or asks_for_cofactor(node):
            what = "FACTORIZED" if factorised_word(raw) is not None else "COFACTOR"
            raise raw.source.unsupported(f"{what} outside a view", None, "write CREATE MATERIALIZED VIEW ... AS SELECT")
        if (function := called_function(node)) is not None and str(function.this).lower() in SIGNAL_FUNCTIONS:
            return _select_from_call(node, function, raw, catalog)
        _check_outside_views(node, raw)
        return Select(raw.text)
    if raw.words[0].isalpha() and not isinstance(node, exp.Alter | exp.Transaction | exp.Set):
        raise raw.source.error(f"'{raw.words[0]}' does not begin a statement", node)
    raise raw.source.unsupported(f"{raw.words[0]} statement", None)


def _binder_over_parts(
    raw: RawStatement, catalog: Mapping[str, Table]
) -> Callable[[RawStatement, Mapping[str, Table]], CreateView] | None:
    """What binds a view over parts of streams; None if the statement declares no such view."""
    for is_form, bind in _OVER_PARTS:
        if is_form(raw):
            return bind
    return bind_look_back if looks_back(raw, catalog) else None


_OVER_PARTS = (
    (declares_together, bind_together),
    (is_view_delta_function, bind_view_delta_function),
    (is_match_recognize, bind_match_recognize),
    (is_pattern_view, bind_pattern_view),
    (is_window_view, bind_window_view),
    (calls_window_function, bind_window_function),
    (groups_by_window, bind_grouped_window),
)


def _partitioned_stream(raw: RawStatement, names: Names) -> CreateTable:
    """CREATE STREAM: the columns as in every table, then the clauses about its parts."""
    head, clauses = cut_clauses(raw)
    created = bind_statement(head, names.catalog)
    assert isinstance(created, CreateTable)
    return replace(created, table=bind_stream_parts(created.table, raw, clauses))


def _bind(node: exp.Expr, raw: RawStatement, names: Names) -> Statement:
    if isinstance(node, exp.Create):
        return _create(node, raw, names)
    if isinstance(node, exp.Drop):
        return _drop(node, raw)
    _check_outside_views(node, raw)
    return bind_modify(node, raw.source, names.catalog)


def _select_from_call(
    node: exp.Expr, function: exp.Anonymous, raw: RawStatement, catalog: Mapping[str, Table]
) -> Select:
    """A query over the rows of a table function, which have a name in its place."""
    name = str(function.this).lower()
    bound = TABLE_FUNCTIONS[name](TableCall(name, tuple(function.expressions), raw.source, catalog))
    shown = f"{name}()"
    function.replace(exp.to_identifier(shown, quoted=True))
    _check_outside_views(node, raw)
    return Select(node.sql(dialect="duckdb"), AnsweredCall(shown, bound.definition))


def _check_outside_views(node: exp.Expr, raw: RawStatement) -> None:
    """DuckDB answers queries, and knows neither the aggregates of users nor our table functions."""
    function = called_function(node)
    if function is not None:
        hint = f"CREATE MATERIALIZED VIEW v AS SELECT * FROM {function.this}(...), and read the view"
        raise raw.source.unsupported(f"the table function {function.this}() outside a view", function, hint)
    call = node.find(exp.AnonymousAggFunc)
    if call is not None:
        hint = "write CREATE MATERIALIZED VIEW ... AS SELECT, and read the view"
        raise raw.source.unsupported(f"the user-defined aggregate {call.this}() outside a view", call, hint)


def bind_query(sql: str, catalog: Mapping[str, Table], aggregates: Defined = _NONE) -> CreateView:
    """A SELECT text, not yet a view, as one."""
    statements = list(split_statements(sql))
    if len(statements) != 1:
        raise Source(sql, 0, sql).error("one SELECT is expected")
    return _query_view(statements[0], 0, Names(catalog, aggregates))


def _query_view(raw: RawStatement, skip: int, names: Names) -> CreateView:
    node = parse(raw, skip, names.aggregates)
    if not isinstance(node, _QUERY):
        raise raw.source.error("a SELECT is expected", node)
    with quiet(), shallow(node, raw.source), everything_read(node, raw.source):
        query, definition, sources = _view_query(node, raw, names, (), _Options())
    return CreateView("query", query, definition, sources, select_sql=raw.text_from(skip))


def _show(raw: RawStatement, catalog: Mapping[str, Table]) -> Show | Select | None:
    """SHOW [ALL] TABLES, SHOW VIEWS, DESCRIBE name and SHOW COLUMNS FROM name; DuckDB describes everything else."""
    match raw.words:
        case ("SHOW", "TABLES") | ("SHOW", "ALL", "TABLES"):
            return Show("TABLES")
        case ("SHOW", "VIEWS"):
            return Show("VIEWS")
        case (
            ("DESCRIBE" | "DESC", _)
            | ("DESCRIBE" | "DESC", "TABLE" | "VIEW", _)
            | ("SHOW", "COLUMNS", "FROM" | "IN", _)
        ):
            return Show("COLUMNS", _known_name(raw, len(raw.words) - 1, "table or view", catalog))
        case ("SHOW", "SELECT" | "WITH" | "FROM" | "VALUES", *_):
            return Select(f"DESCRIBE {raw.text_from(1)}")
        case _:
            return None


_TRANSACTIONS = {
    **dict.fromkeys((("BEGIN",), ("BEGIN", "TRANSACTION"), ("BEGIN", "WORK"), ("START", "TRANSACTION")), "BEGIN"),
    **dict.fromkeys((("COMMIT",), ("COMMIT", "TRANSACTION"), ("COMMIT", "WORK"), ("END",)), "COMMIT"),
    **dict.fromkeys((("ROLLBACK",), ("ROLLBACK", "TRANSACTION"), ("ROLLBACK", "WORK"), ("ABORT",)), "ROLLBACK"),
}
"""The statements that begin and end transactions, in the words that databases have for them."""


def _transact(raw: RawStatement) -> Transact | None:
    """A statement about transactions, or SAVEPOINT s, RELEASE [SAVEPOINT] s and ROLLBACK TO [SAVEPOINT] s."""
    if (action := _TRANSACTIONS.get(raw.words)) is not None:
        return Transact(action)
    match raw.words:
        case (
            ("SAVEPOINT" as action, _)
            | ("RELEASE" as action, _)
            | ("RELEASE" as action, "SAVEPOINT", _)
            | ("ROLLBACK" as action, "TO", _)
            | ("ROLLBACK" as action, "TO", "SAVEPOINT", _)
            | ("ROLLBACK" as action, "TRANSACTION" | "WORK", "TO", _)
            | ("ROLLBACK" as action, "TRANSACTION" | "WORK", "TO", "SAVEPOINT", _)
        ):
            return Transact(action, raw.name_at(len(raw.words) - 1))
        case _:
            return None


_GUARDS = ("access", "allow", "auto", "extension", "lock", "path", "directo", "secret")
"""Parts of the names of settings that decide what statements may reach."""


def _ignored(raw: RawStatement) -> Ignored | None:
    """SET, RESET, PRAGMA, CREATE INDEX and DROP INDEX, which other databases need and which nothing here depends on."""
    match raw.words:
        case ("PRAGMA", name, *rest) if (rest[:1] == ["="] or name.startswith(("ENABLE_", "DISABLE_"))) and not any(
            guard in name.lower() for guard in _GUARDS
        ):
            return Ignored(f"PRAGMA does nothing here: there is no setting {unquoted(name).lower()!r}")
        case ("SET" | "RESET", name, *_) if raw.words[1] not in ("VARIABLE", "("):
            setting = raw.words[2] if name in ("SESSION", "GLOBAL", "LOCAL") and len(raw.words) > 2 else name
            setting = unquoted(setting).lower()
            if any(guard in setting for guard in _GUARDS):
                return None  # a script that relies on these has to fail
            return Ignored(f"{raw.words[0]} does nothing here: there is no setting {setting!r}")
        case ("CREATE", "UNIQUE", "INDEX", "IF", "NOT", "EXISTS", *_):
            return Ignored("CREATE UNIQUE INDEX has nothing to do")
        case ("CREATE" | "DROP", "INDEX", *_):
            return Ignored(f"{raw.words[0]} INDEX does nothing here: views make the indexes that they need")
        case _:
            return None


# CREATE, ALTER and DROP


def _sequence(raw: RawStatement) -> CreateSequence | Drop | None:
    """CREATE [OR REPLACE] SEQUENCE [IF NOT EXISTS], which DuckDB reads, and DROP SEQUENCE [IF EXISTS] name, ..."""
    match raw.words:
        case ("CREATE", "SEQUENCE", *rest) | ("CREATE", "OR", "REPLACE", "SEQUENCE", *rest):
            return CreateSequence(raw.text, rest[:3] == ["IF", "NOT", "EXISTS"], raw.words[1] == "OR")
        case ("CREATE", "TEMP" | "TEMPORARY", "SEQUENCE", *_):
            raise raw.source.unsupported("a temporary sequence", None, "CREATE SEQUENCE, and DROP it")
        case ("DROP", "SEQUENCE", *rest):
            exists = rest[:2] == ["IF", "EXISTS"]
            begin, end = 4 if exists else 2, len(raw.words) - (rest[-1:] in (["CASCADE"], ["RESTRICT"]))
            if end <= begin or set(raw.words[begin + 1 : end : 2]) - {","}:
                raise raw.source.error("DROP SEQUENCE name, ... is expected")
            return Drop(tuple(raw.name_at(at) for at in range(begin, end, 2)), "SEQUENCE", exists)
        case _:
            return None


def _alter_view(raw: RawStatement, catalog: Mapping[str, Table]) -> AlterView:
    """ALTER [MATERIALIZED] VIEW name PARTITION BY (column, ...)"""
    at = raw.words.index("VIEW") + 1
    rest = raw.words[at + 1 :]
    if len(rest) < 4 or rest[:2] != ("PARTITION BY", "(") or rest[-1] != ")" or set(rest[3:-1:2]) - {","}:
        raise raw.source.error("ALTER MATERIALIZED VIEW name PARTITION BY (column, ...) is expected")
    views = {name: table for name, table in catalog.items() if table.kind is TableKind.VIEW}
    name = _known_name(raw, at, "view", views)
    columns = views[name].column_names
    positions = range(at + 3, len(raw.words) - 1, 2)
    return AlterView(name, tuple(dict.fromkeys(_known_name(raw, i, "column", columns) for i in positions)))


def _known_name(raw: RawStatement, at: int, kind: str, known: Collection[str]) -> str:
    """A word of the statement as the name that it stands for, which must exist."""
    start, end = raw.positions[at]
    name = unquoted(raw.source.text[start:end])
    found = next((spelling for spelling in (name, name.lower()) if spelling in known), None)
    if found is None:
        raise raw.source.error_at(unknown(kind, name, known), start, end)
    return found


def _comment(raw: RawStatement, catalog: Mapping[str, Table]) -> Comment:
    """COMMENT ON TABLE name, VIEW name or COLUMN name.column IS 'text' or NULL."""
    match raw.words[2:]:
        case ("COLUMN", _, ".", _, "IS", text):
            table = _known_name(raw, 3, "table or view", catalog)
            column = _known_name(raw, 5, "column", catalog[table].column_names)
        case ("TABLE" | "VIEW", _, "IS", text) | ("MATERIALIZED", "VIEW", _, "IS", text):
            table, column = _known_name(raw, len(raw.words) - 3, "table or view", catalog), ""
        case _:
            text = ""
    if text != "NULL" and text[:1] != "'":
        raise raw.source.error("COMMENT ON {TABLE | VIEW | COLUMN} name IS {'text' | NULL} is expected")
    return Comment(table, column, None if text == "NULL" else unquoted(text))


def _create(node: exp.Create, raw: RawStatement, names: Names) -> Statement:
    if node.kind == "TABLE":
        kind, _ = create_kind(raw)
        _check_replaces(node, raw.source)
        replaces = bool(node.args.get("replace"))
        if replaces and kind is not TableKind.TABLE:
            raise raw.source.unsupported(f"CREATE OR REPLACE {kind.value}", node.this, "DROP it first")
        table, constraints, identities = bind_create_table(node, kind, raw.source, names.catalog)
        exists = bool(node.args.get("exists"))
        return CreateTable(
            table, exists, is_temporary(node), constraints, or_replace=replaces, identities=tuple(identities.items())
        )
    if node.kind == "VIEW":
        return _create_view(node, raw, names)
    raise raw.source.unsupported(f"CREATE {node.kind}", node.this)


def _check_replaces(node: exp.Create, source: Source) -> None:
    if node.args.get("replace") and node.args.get("exists"):
        raise source.error("OR REPLACE and IF NOT EXISTS exclude each other: leave one out", node.this)


def _create_table_as(node: exp.Create, raw: RawStatement) -> CreateTable:
    """CREATE TABLE name [(columns)] AS query [WITH [NO] DATA], whose query DuckDB answers."""
    _check_replaces(node, raw.source)
    (kind, _), listed = create_kind(raw), isinstance(node.this, exp.Schema)
    target = node.this.this if listed else node.this
    columns = node.this.expressions if listed else []
    others = [each for each in partitioning(node)[1] if not isinstance(each, exp.WithDataProperty)]
    unread = [name for name in node.args if node.args[name] and name not in _READ_OF_TABLE_AS]
    if others or unread or kind is not TableKind.TABLE or not isinstance(node.expression, _QUERY):
        what = sql_of(others[0]) if others else ", ".join(unread).upper() or "this kind of table"
        raise raw.source.unsupported(f"CREATE TABLE AS with {what}", target)
    if any(not isinstance(column, exp.Identifier) for column in columns):
        raise raw.source.error("CREATE TABLE ... AS takes names of columns, and their types from the query", node.this)
    _check_outside_views(node, raw)
    begin, end = raw.positions[raw.words.index("AS") + 1][0], len(raw.text)
    data = next((each for each in node.find_all(exp.WithDataProperty)), None)
    if data is not None:
        end = raw.positions[-3 if data.args.get("no") else -2][0]
    return CreateTable(
        Table(table_name(target, raw.source), (), kind),
        bool(node.args.get("exists")),
        is_temporary(node),
        query=raw.text[begin:end],
        names=tuple(map(name_of, columns)),
        with_rows=data is None or not data.args.get("no"),
        or_replace=bool(node.args.get("replace")),
    )


_READ_OF_TABLE_AS = ("this", "kind", "expression", "exists", "properties", "replace")


def _create_view(node: exp.Create, raw: RawStatement, known: Names) -> CreateView:
    source = raw.source
    columns: list[exp.Expr] = []
    target = node.this
    if isinstance(target, exp.Schema):
        target, columns = target.this, target.expressions
    name = table_name(target, source)
    for column in columns:
        if not isinstance(column, exp.Identifier):
            raise source.unsupported(f"'{sql_of(column)}' as a column of a view", column, "give its name alone")
    if node.expression is None or not isinstance(node.expression, _QUERY):
        raise source.error("a view needs AS SELECT ...", node)
    partition_by, others = partitioning(node)
    options = _options(others, source)
    names = [name_of(column) for column in columns]
    query, definition, sources = _view_query(node.expression, raw, known, names, options)
    return CreateView(
        name,
        query,
        definition,
        sources,
        options.strategy,
        _select_text(node, raw),
        bool(node.args.get("replace")),
        bool(node.args.get("exists")),
        known_columns(partition_by, [column.name for column in query.columns], source),
        _aggregates_of(definition),
        isinstance(definition, LayeredQuery),
        temporary=is_temporary(node),
    )


def _aggregates_of(definition: object) -> tuple[str, ...]:
    """The names of the user-defined aggregates that a view uses."""
    if not isinstance(definition, AggregateQuery):
        return ()
    return tuple(dict.fromkeys(call.aggregate.name for call in definition.calls))


@dataclass(frozen=True, slots=True)
class _Options:
    """What stands in WITH (...)."""

    strategy: str = "auto"
    variable_order: exp.Expr | None = None
    adaptive: AdaptiveOptions = field(default_factory=AdaptiveOptions)


def _view_query(
    node: exp.Expr, raw: RawStatement, known: Names, names: Sequence[str], options: _Options
) -> tuple[Query, object, frozenset[str]]:
    """What the rows of a view look like, what it is defined by, and the tables it reads."""
    source, order = raw.source, options.variable_order
    if (call := called_function(node)) is not None:
        return bind_call(node, call, source, known.catalog, names)
    factorised = factorised_word(raw) is not None
    if not factorised and not asks_for_cofactor(node):
        if order is not None:
            hint = "it is an option of COFACTOR and FACTORIZED views; others take strategy = 'view-tree'"
            raise source.unsupported("variable_order for this view", order, hint)
        layered = known.layered and options.strategy != ADAPTIVE
        found = translate_to_query(node, source, known.catalog, names, known.aggregates, layered)
        if options.strategy == ADAPTIVE:
            return found.query, bind_adaptive(found.definition, options.adaptive, source), found.sources
        return found.query, found.definition, found.sources
    if options.strategy not in RING_STRATEGIES:
        hint = "COFACTOR and FACTORIZED views are view trees"
        raise source.unsupported(f"strategy '{options.strategy}' for this view", None, hint)
    text = None if order is None else str(order.args["value"].name)
    bound = bind_ring_view(node, source, known.catalog, names, factorised, text)
    return bound.query, bound.ring, bound.sources


def _options(written: Sequence[exp.Expr], source: Source) -> _Options:
    options, seen = _Options(), set[str]()
    for option in written:
        if isinstance(option, exp.MaterializedProperty):
            continue
        name = option.name.lower() if isinstance(option, exp.Property) else sql_of(option)
        if name in seen:
            raise source.error(f"option '{name}' is given twice", option)
        seen.add(name)
        if name == "variable_order":
            options = replace(options, variable_order=option)
            continue
        if name in ADAPTIVE_OPTIONS:
            options = replace(options, adaptive=replace(options.adaptive, **{name: option}))
            continue
        if name != "strategy":
            known = f"strategy, variable_order, {', '.join(ADAPTIVE_OPTIONS[:-1])} and {ADAPTIVE_OPTIONS[-1]}"
            raise source.error(f"unknown option '{name}': a view has the options {known}", option)
        strategy = str(option.args["value"].name).lower()
        if strategy not in STRATEGIES:
            raise source.error(
                f"unknown strategy '{strategy}': use one of {', '.join(STRATEGIES)}", option.args["value"]
            )
        options = replace(options, strategy=strategy)
    if options.strategy != ADAPTIVE:
        for name, written_option in options.adaptive.given.items():
            hint = "it is an option of views with strategy = 'adaptive'"
            raise source.unsupported(f"{name} for this view", written_option, hint)
    return options


def _select_text(node: exp.Create, raw: RawStatement) -> str:
    """The query as written: what follows the first AS outside parentheses."""
    depth = 0
    for i, word in enumerate(raw.words):
        depth += (word == "(") - (word == ")")
        if word == "AS" and depth == 0:
            return raw.text_from(i + 1)
    return str(sql_of(node.expression))


def _drop(node: exp.Drop, raw: RawStatement) -> Drop:
    tables = node.args.get("tables") or [node.this]
    kind, _ = create_kind(raw)
    written = kind.value if node.kind == "TABLE" else str(node.kind)
    if written not in ("TABLE", "STREAM", "STATIC TABLE", "VIEW"):
        raise raw.source.unsupported(f"DROP {written}", tables[0])
    names = tuple(table_name(each, raw.source) for each in tables)
    return Drop(names, written, bool(node.args.get("exists")), bool(node.args.get("cascade")))


def _explain(raw: RawStatement, names: Names) -> Explain:
    """EXPLAIN v, EXPLAIN (stage) v, EXPLAIN ANALYZE v; a SELECT in place of v."""
    words, at, stage = raw.words, 1, None
    if words[1:2] == ("ANALYZE",) and len(words) > 2:
        stage, at = "analyze", 2
    if len(words) > 4 and words[1] == "(" and words[3] == ")":
        start, end = raw.positions[2]
        stage, at = raw.text[start:end].strip("'\"").lower(), 4
    if len(words) <= at:
        raise raw.source.error("EXPLAIN needs a view or a SELECT")
    if len(words) == at + 1:
        start, end = raw.positions[at]
        written = raw.text[start:end]
        return Explain(identifier(written), stage)
    return Explain(_query_view(raw, at, names), stage)
