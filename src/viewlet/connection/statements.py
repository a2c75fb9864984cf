"""SQL statements, carried out one after another: each is bound against the catalogue the earlier ones left."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, assert_never

from viewlet.adhoc import AdHoc
from viewlet.changes import did_you_mean, rows_to_arrow
from viewlet.changes.generated import computed, with_types
from viewlet.changes.sequences import calls_sequences
from viewlet.connection.binding import bound_statement, missing_name, naming_lost_views, readable_names
from viewlet.connection.catalogue_queries import catalogue, show
from viewlet.connection.database import Database
from viewlet.connection.definitions import (
    comment_on,
    create_sequence,
    create_type,
    declared_table,
    drop_sequences,
    drop_type,
    settle_sequences,
)
from viewlet.connection.explain import explain_query, explain_view
from viewlet.connection.redeclare import replace_table
from viewlet.connection.session import Session
from viewlet.engine.declaration import Declaration, constraint_declaration, declaration
from viewlet.engine.kinds import kind_defined_by
from viewlet.errors import DataError, SchemaError, SqlError, UnsupportedError
from viewlet.hosts.catalogue import unreadable_stream
from viewlet.runtime.garbage import collecting_afterwards
from viewlet.tables.base_table import BaseTable
from viewlet.types import Column, Constraint, Row, Table, TableKind
from viewlet.visible import logger

if TYPE_CHECKING:
    from viewlet.sql import (
        AlterTable,
        Copy,
        CreateTable,
        CreateView,
        Drop,
        Execute,
        Explain,
        Modify,
        Select,
        Statement,
        Transact,
    )
    from viewlet.sql.parameters import InsertedRow, Parameters

Elsewhere = Callable[[str, Sequence[str], Database, Callable[[Any], Any]], Any]
"""Answers a query over tables and views; None leaves it to DuckDB, whose answer over given tables it may ask for."""
Question = Callable[[AdHoc, int], Any]
"""The first rows of an answer, by who asks DuckDB for it and how many."""

MOST_KEYS_MET = 100_000
"""Of more new rows than this, all rows of the table are read instead of those with their keys."""


class StatementRunner:
    """Carries out SQL on a session; DuckDB is started by the first statement that needs it."""

    def __init__(self, session: Session, external_access: bool = False) -> None:
        self._session = session
        self.elsewhere: Elsewhere | None = None
        """Answers queries over tables and views that should not be read to this process."""
        self._adhoc = AdHoc(external_access)
        self._prepared: dict[str, str] = {}
        """The texts of prepared statements."""
        self._arrow: dict[str, tuple[object, Any]] = {}
        """Tables as Arrow, with their versions."""

    def run(self, sql: str) -> Any:
        """The answer of the last statement of `sql`; an error leaves the statements before it done."""
        from viewlet.sql import expanded, refuse_unstable, split_statements

        answer: Any = None
        with self._session.open() as database:
            for raw in split_statements(sql):
                with naming_lost_views(raw, database):
                    raw = expanded(raw, database.catalogue.types)
                    bound = bound_statement(raw, database)
                    refuse_unstable(raw, bound, database.catalogue.schemas())
                    answer = self._run(bound, raw.text, database)
                    settle_sequences(database)
        return answer

    def question(self, text: str) -> Question:
        """One statement that changes nothing, to be answered without the lock over tables and views as they are now."""
        from viewlet import sql

        statements = list(sql.split_statements(text))
        if len(statements) != 1:
            raise SqlError("one statement at a time is answered here", text)
        (raw,) = statements
        with self._session.open() as database, naming_lost_views(raw, database):
            bound = bound_statement(sql.expanded(raw, database.catalogue.types), database)
            match bound:
                case sql.Select() | sql.Explain() | sql.Show() if calls_sequences(raw.text):
                    raise SqlError("no value of a sequence is taken here: nothing is changed", text)
                case sql.Select() if self.elsewhere is None:
                    return self._asked_of_duckdb(bound.sql, database, self._rows_of_call(bound, database))
                case sql.Select() | sql.Explain() | sql.Show():
                    answer = self._run(bound, raw.text, database)
                    return lambda _, most_rows: answer.slice(0, most_rows)
                case _:
                    raise SqlError(
                        "only SELECT, EXPLAIN, SHOW and DESCRIBE are answered here: nothing is changed", text
                    )

    def run_with(self, sql: str, parameters: Parameters) -> Any:
        """Like `run`, for a text with parameters; a row of parameters is inserted as `Connection.insert` does."""
        from viewlet.sql.parameters import template

        found = template(sql, isinstance(parameters, Mapping))
        if found.row is not None:
            values = found.values(parameters)
            if self._inserts(found.row, [values]):
                return 1
        return self.run(found.filled(parameters))

    def insert_many(self, sql: str, rows: Iterable[Sequence[object]]) -> int:
        """Inserts rows of parameters, as one batch."""
        from viewlet.sql.parameters import template

        found = template(sql, False)
        if found.row is None:
            raise UnsupportedError(
                "this statement in executemany()", "it takes INSERT INTO ... VALUES (?, ...)", sql=sql
            )
        every = [found.values(row) for row in rows]
        if not self._inserts(found.row, every):
            self.run(found.row.statement(every))
        return len(every)

    def _inserts(self, row: InsertedRow, values: Sequence[Sequence[object]]) -> bool:
        """Inserts rows without SQL; False if they need the casts of an INSERT, or its errors."""
        table = self._session.schema(row.table)
        if table is None or any(column.always for column in table.columns):
            return False
        names = table.column_names
        if row.columns is None or row.columns == names:
            rows = [tuple(given) for given in values]
        elif set(names).issuperset(row.columns) and len(set(row.columns)) == len(row.columns):
            at = [row.columns.index(name) if name in row.columns else None for name in names]
            if any(i is None and column.default for i, column in zip(at, table.columns, strict=True)):
                return False
            rows = [tuple(None if i is None else given[i] for i in at) for given in values]
        else:
            return False
        if any(len(each) != len(names) for each in rows):
            return False
        try:
            self._session.change(row.table, [(rows, 1)], table)
        except (DataError, SchemaError):
            return False
        return True

    def close(self) -> None:
        self._arrow.clear()
        self._adhoc.close()

    def _run(self, statement: Statement, text: str, database: Database) -> Any:
        from viewlet import sql

        match statement:
            case sql.CreateType():
                return create_type(statement, database)
            case sql.Drop(names, "TYPE", if_exists):
                return drop_type(names[0], if_exists, database)
            case sql.CreateSequence():
                return create_sequence(statement, database)
            case sql.CreateTable(query=""):
                _create_table(statement, database)
                return self._session.tell()
            case sql.CreateTable():
                return self._create_table_as(statement, text, database)
            case sql.CreateView():
                _create_view(statement, text, database)
                return self._session.tell()
            case sql.AlterTable():
                return self._alter_table(statement, text, database)
            case sql.AlterView():
                database.check_no_transaction("ALTER VIEW")
                return database.partition_view(statement.name, statement.partition_by)
            case sql.Drop(names, "SEQUENCE", if_exists):
                return drop_sequences(names, if_exists, database)
            case sql.Drop():
                database.check_no_transaction("DROP")
                return _drop(statement, database)
            case sql.Explain():
                return _explain(statement, database)
            case sql.Select():
                return self._select(statement, database)
            case sql.Modify():
                return self._modify(statement, database)
            case sql.Comment(name, column, comment):
                return comment_on(name, column, comment, database)
            case sql.Copy():
                return self._copy(statement, text, database)
            case sql.Show():
                return show(statement, database)
            case sql.Transact():
                return self._transact(statement, database)
            case sql.Prepare(name, prepared):
                self._prepared[name] = prepared
                return None
            case sql.Deallocate(name):
                self._prepared.pop(self._prepared_name(name, text))
                return None
            case sql.Execute():
                return self._execute(statement, text, database)
            case sql.Ignored(notice):
                return logger.warning("%s", notice)
            case _:
                assert_never(statement)

    def _create_table_as(self, statement: CreateTable, text: str, database: Database) -> int | None:
        """A table with the columns and the rows of a query, in one step; the answer is the number of the rows."""
        name = statement.table.name
        temporary = _is_temporary(statement, database)
        if statement.if_not_exists and name in database.tables:
            return None
        replaces = _replaces(statement, database)
        if not replaces:
            database.catalogue.check_free(name)
        answer = self._query(statement.query, database, text)
        columns = _columns_of(answer, statement.names, text)
        table = replace(statement.table, columns=columns, temporary=temporary)
        rows = answer.rename_columns([column.name for column in columns])
        if not statement.with_rows:
            rows = rows.slice(0, 0)
        if replaces:
            _replace_table(table, rows, [], database)
            self._session.tell()
        elif database.transaction is not None or not rows.num_rows:
            database.create_table(table)
            _note_declared([name], database)
            self._session.commit({name: database.change_of(database.tables[name], rows, 1, encoded=False)})
        else:
            database.create_table_with(table, rows)
        return int(rows.num_rows)

    def _alter_table(self, statement: AlterTable, text: str, database: Database) -> None:
        """Puts another table, with its rows, in the place of one; its views and constraints are declared again."""
        database.check_no_transaction("ALTER TABLE")
        table, dropped = with_types(statement.table), statement.dropped
        names = [view.name for view in database.constraints_of(statement.name)]
        for each in dropped:
            if each not in names:
                raise SchemaError(f"{statement.name!r} has no constraint {each!r}{did_you_mean(each, names)}")
        rows = self._query(statement.rows_sql, database, text)
        constraints = _constraints(statement.constraints, table, database)
        replace_table(database, statement.name, table, rows, constraints, dropped)
        self._session.tell()

    def _copy(self, statement: Copy, text: str, database: Database) -> int:
        """Rows of a file as one batch, or rows for a file; the answer is their number."""
        from viewlet.connection.copy import read_file, write_file

        self._adhoc.check_access(text, statement.path)
        if statement.writes:
            return write_file(statement, self._query(statement.query, database, text))
        table = database.catalogue.find_table(statement.table)
        place = {column.name: column for column in table.schema.columns}
        rows = read_file(statement, tuple(place[name] for name in statement.columns))
        database.host.expect({table.schema.name: int(rows.num_rows)})
        self._session.commit({table.schema.name: database.change_of(table, rows, 1, encoded=False)})
        return int(rows.num_rows)

    def _execute(self, statement: Execute, text: str, database: Database) -> Any:
        """Runs a prepared statement; its values may be expressions."""
        prepared = self._prepared[self._prepared_name(statement.name, text)]
        values: Sequence[object] = statement.literals
        if statement.values_sql:
            answer = self._query(statement.values_sql, database, text)
            values = [column[0].as_py() for column in answer.columns]
        return self.run_with(prepared, dict(zip(statement.names, values, strict=True)) if statement.names else values)

    def _prepared_name(self, name: str, text: str) -> str:
        if name not in self._prepared:
            raise SqlError(f"there is no prepared statement {name!r}" + did_you_mean(name, self._prepared), text)
        return name

    def _transact(self, statement: Transact, database: Database) -> None:
        match statement.action:
            case "BEGIN":
                database.begin_transaction()
            case "COMMIT":
                self._session.commit_transaction()
            case "SAVEPOINT":
                database.open_transaction().save(statement.savepoint)
            case "RELEASE":
                database.open_transaction().release(statement.savepoint)
            case "ROLLBACK" if statement.savepoint:
                database.roll_back_to(statement.savepoint)
            case _:
                database.roll_back_transaction()

    def _select(self, statement: Select, database: Database) -> Any:
        """The answer of a query; a table function that it reads is computed from tables as they are."""
        given = self._rows_of_call(statement, database)
        return self._query(statement.sql, database, statement.sql if given else "", given)

    def _rows_of_call(self, statement: Select, database: Database) -> dict[str, Any]:
        """The rows of a table function that a query reads, by the name that it has there."""
        call = statement.call
        if call is None:
            return {}
        answer = kind_defined_by(call.definition).answer
        assert answer is not None

        def table(name: str) -> Any:
            if database.catalogue.schemas()[name].is_forgetful:
                raise unreadable_stream(name)
            return self._arrow_of(name, database, statement.sql)

        return {call.name: answer(call.definition, table)}

    def _query(self, sql: str, database: Database, text: str = "", given: Mapping[str, Any] | None = None) -> Any:
        """The answer of a query; `text` is the statement of the user that it was made from.

        Tables that are `given` are read instead of those of the same names.
        """
        known = given or {}
        names, about = readable_names(sql, database), catalogue(sql, database)

        def ask(tables: Mapping[str, Any]) -> Any:
            missing = partial(missing_name, sql=text or sql, database=database)
            return self._adhoc.query(sql, tables, missing, text, about, database.sequences)

        stays = text or about or database.transaction is not None or calls_sequences(sql)
        if self.elsewhere is not None and not stays:
            found = self.elsewhere(sql, names, database, ask)
            if found is not None:
                return found
        return ask({**known, **{name: self._arrow_of(name, database, sql) for name in names if name not in known}})

    def _asked_of_duckdb(self, sql: str, database: Database, given: Mapping[str, Any]) -> Question:
        """A query with what it reads of tables and views, of which some rows are `given`."""
        names, about = readable_names(sql, database), catalogue(sql, database)
        read = {name: self._arrow_of(name, database, sql) for name in names if name not in given}
        missing = partial(missing_name, sql=sql, database=database)
        return lambda duckdb, most_rows: duckdb.query(
            sql, {**given, **read}, missing, catalogue=about, most_rows=most_rows
        )

    def _arrow_of(self, name: str, database: Database, sql: str) -> Any:
        """A table or view as Arrow, made once for all queries until it changes; of some views what `sql` can need."""
        table, view = database.tables.get(name), database.views.get(name)
        few: Any = None
        if view is not None and view.kind.prune is not None:
            few = view.kind.prune(view.engine, sql)
        elif table is not None and table.with_parts is not None:
            few = table.with_parts(sql)
        elif name not in self._arrow or self._arrow[name][0] != database.version_of(name):
            few = _rows_asked_for(name, database, sql)
        if few is not None:
            return few
        if view is not None:
            return view.arrow()
        version = database.version_of(name)
        if name not in self._arrow or self._arrow[name][0] != version:
            self._arrow[name] = version, database.arrow(name)
        return self._arrow[name][1]

    def _modify(self, statement: Modify, database: Database) -> Any:
        """A statement that changes rows: its changes are queried, then applied as one batch.

        Where the condition names primary keys, or new rows do, the query reads the rows with these keys instead of the
        whole table. The answer is the number of changed rows, or that of RETURNING.
        """
        table = database.catalogue.find_table(statement.table)
        schema, given, keys = table.schema, dict[str, Any](), statement.keys
        if (new := statement.new_rows) is not None:
            incoming = given[new.name] = computed(schema, self._query(new.sql, database, statement.sql))
            if new.decide_by_keys and incoming.num_rows <= MOST_KEYS_MET:
                keys = _primary_keys(table, incoming, database)
        if keys is not None and (rows := database.rows_with_keys(schema.name, keys)) is not None:
            given[schema.name] = rows_to_arrow(schema.columns, rows.items())
        answer = self._query(statement.changes_sql, database, statement.sql, given)
        if statement.first_by:
            place = {name: f"new {i}" for i, name in enumerate(schema.column_names)}
            answer = _first_by(answer, [[place[name] for name in key] for key in statement.first_by])
        gone, come = _old_and_new(statement.kind, answer, schema.column_names)
        come = None if come is None else computed(schema, come)
        sides = [(rows, sign) for rows, sign in ((gone, -1), (come, 1)) if rows is not None]
        database.host.expect({schema.name: sum(int(rows.num_rows) for rows, _ in sides)})
        self._session.commit({schema.name: database.net_change(table, sides)})
        if statement.returning is None:
            return int(answer.num_rows)
        changed, asked = _changed_rows(answer, gone, come), statement.returning
        read = {asked.name: changed} if asked.reads_others else {asked.name: changed, schema.name: changed}
        return self._query(asked.sql, database, statement.sql, read)


def _columns_of(answer: Any, names: Sequence[str], text: str) -> tuple[Column, ...]:
    """The columns of a table that takes the answer of a query; the first ones have other names."""
    from viewlet.changes.arrow import type_of_arrow

    if len(names) > answer.num_columns:
        raise SqlError(f"{len(names)} names for {answer.num_columns} columns", text)
    columns: dict[str, Column] = {}
    for written, field in zip([*names, *answer.column_names[len(names) :]], answer.schema, strict=True):
        name, found = written.lower() if written.isidentifier() else written, type_of_arrow(field.type)
        if found is None:
            raise UnsupportedError(f"a column of type {field.type}", f"CAST {written!r} to another type", sql=text)
        if name in columns and len(columns) < len(names):
            raise SqlError(f"two columns are named {name!r}", text)
        free = (each for each in (name, *(f"{name}_{i}" for i in range(1, answer.num_columns))) if each not in columns)
        name = next(free)
        columns[name] = Column(name, found)
    return tuple(columns.values())


def _first_by(rows: Any, keys: Sequence[Sequence[str]]) -> Any:
    """The rows, one after the other, that share no key with one before them; a key with a NULL is none."""
    import pyarrow as pa

    taken: list[set[tuple[object, ...]]] = [set() for _ in keys]
    columns = [list(zip(*(rows[name].to_pylist() for name in key), strict=True)) for key in keys]
    kept: list[bool] = []
    for values in zip(*columns, strict=True):
        kept.append(not any(value in known for value, known in zip(values, taken, strict=True)))
        if kept[-1]:
            for value, known in zip(values, taken, strict=True):
                if None not in value:
                    known.add(value)
    return rows.filter(pa.array(kept, pa.bool_()))


def _primary_keys(table: BaseTable, rows: Any, database: Database) -> tuple[Row, ...]:
    """The primary keys of new rows."""
    schema = table.schema
    at = [schema.column_names.index(name) for name in schema.primary_key]
    change = database.change_of(table, rows, 1, encoded=False)
    return tuple({tuple(row[i] for i in at): None for row in change.rows()})


def _old_and_new(kind: str, answer: Any, names: Sequence[str]) -> tuple[Any, Any]:
    """The rows that a statement takes out and puts in; None for a side that it does not have."""
    if kind in ("insert", "delete"):
        return (None, answer) if kind == "insert" else (answer, None)
    old, new = (
        answer.select([f"{side} {i}" for i in range(len(names))]).rename_columns(list(names)) for side in ("old", "new")
    )
    if kind == "update":
        return old, new
    import pyarrow.compute as pc

    action = answer["merge_action"]
    return old.filter(pc.not_equal(action, "INSERT")), new.filter(pc.not_equal(action, "DELETE"))


def _changed_rows(answer: Any, old: Any, new: Any) -> Any:
    """What RETURNING reads: the new rows, and the old ones of deletes; MERGE also says what it did."""
    if old is None or "merge_action" not in answer.column_names:
        return old if new is None else new
    import pyarrow as pa
    import pyarrow.compute as pc

    action = answer["merge_action"]
    gone = old.filter(pc.equal(action.filter(pc.not_equal(action, "INSERT")), "DELETE"))
    done = pa.array(
        [*action.filter(pc.not_equal(action, "DELETE")).to_pylist(), *["DELETE"] * gone.num_rows], pa.string()
    )
    return pa.concat_tables([new, gone]).append_column("merge_action", done)


def _rows_asked_for(name: str, database: Database, sql: str) -> Any:
    """The rows of a table or view that a query can need, by the values it names; None if that may be any."""
    from viewlet.sql.key_condition import keys_among, queried_values

    schema = database.catalogue.schemas()[name]
    values = queried_values(sql, schema)
    if not values:
        return None
    if name in database.views:
        return database.views[name].arrow_with(values)
    keys = keys_among(schema, values)
    rows = None if keys is None else database.rows_with_keys(name, keys)
    return None if rows is None else rows_to_arrow(schema.columns, rows.items())


def _note_declared(names: Iterable[str], database: Database) -> None:
    """What is declared in a transaction goes with its ROLLBACK."""
    if database.transaction is not None:
        database.transaction.declared.extend(names)


def _is_temporary(statement: CreateTable, database: Database) -> bool:
    """A table that goes with the connection; in memory all do."""
    if not statement.temporary or database.journal.stats() is None:
        return False
    if not database.host.has_temporary_views:
        raise UnsupportedError("a temporary table on Spark", "create a table, and drop it")
    return True


def _replaces(statement: CreateTable, database: Database) -> bool:
    """OR REPLACE, and there is a table to be replaced."""
    name = statement.table.name
    if not statement.or_replace or name not in database.tables:
        return False
    database.check_no_transaction("CREATE OR REPLACE TABLE")
    known = database.tables[name].schema
    if known.kind is not TableKind.TABLE or known.temporary != _is_temporary(statement, database):
        raise SchemaError(f"{name!r} is a {'temporary ' * known.temporary}{known.kind.value}: DROP it first")
    return True


def _replace_table(table: Table, rows: Any, constraints: list[Declaration], database: Database) -> None:
    """Puts a table with its rows in the place of one with its name, and of the constraints of that."""
    dropped = [view.name for view in database.constraints_of(table.name)]
    replace_table(database, table.name, table, rows, constraints, dropped)


def _constraints(constraints: Iterable[Constraint], table: Table, database: Database) -> list[Declaration]:
    """The views that have to stay empty because of constraints of a table."""
    known, aggregates = {**database.catalogue.schemas(), table.name: table}, database.catalogue.aggregates
    return [replace(constraint_declaration(each, known, aggregates), temporary=table.temporary) for each in constraints]


def _create_table(statement: CreateTable, database: Database) -> None:
    temporary = _is_temporary(statement, database)
    if not (statement.if_not_exists and statement.table.name in database.tables):
        replaces = _replaces(statement, database)
        table = replace(declared_table(statement, database), temporary=temporary)
        constraints = _constraints(statement.constraints, table, database)
        if replaces:
            _replace_table(table, [], constraints, database)
            return
        database.create_table(table, constraints)
        _note_declared([table.name], database)


def _create_view(statement: CreateView, text: str, database: Database) -> None:
    declared = (statement, *statement.together)
    if any(each.or_replace and each.name in database.views for each in declared):
        database.check_no_transaction("CREATE OR REPLACE VIEW")
    is_temporary = statement.temporary and database.journal.stats() is not None
    if is_temporary and not database.host.has_temporary_views:
        raise UnsupportedError("a temporary view on Spark", "create a view, and drop it")
    if not (statement.if_not_exists and all(each.name in database.views for each in declared)):
        for each in declared:
            if (rehearse := kind_defined_by(each.definition).rehearse) is not None:
                rehearse(each.definition)
        with collecting_afterwards():
            database.create_view(*(replace(declaration(each, text), temporary=is_temporary) for each in declared))
        _note_declared([each.name for each in declared], database)


def _drop(statement: Drop, database: Database) -> None:
    """DROP of some names, all of them or none; with CASCADE, of the views that read them too."""
    catalogue = database.catalogue
    names = [
        _dropped_name(name, statement.kind, database)
        for name in statement.names
        if not (statement.if_exists and catalogue.find(name) is None)
    ]
    at = 0
    while statement.cascade and at < len(names):
        names += [reader for reader in catalogue.readers(names[at]) if reader not in names]
        at += 1
    if names:
        database.drop(list(dict.fromkeys(names)))


def _dropped_name(name: str, kind: str, database: Database) -> str:
    """The table or view that a name stands for, which has to be of the kind that is written."""
    catalogue = database.catalogue
    if kind == TableKind.VIEW.value:
        found = catalogue.find(name)
        if found is not None and found in catalogue.lost:
            return found
        view = catalogue.find_view(name)
        if (constraint := view.declared.constraint) is not None:
            raise SchemaError(f"{name!r} is a constraint of {constraint.table!r}, and not a view")
        return view.name
    if name in database.views:
        raise SchemaError(f"{name!r} is a view; use DROP VIEW")
    table = catalogue.find_table(name).schema
    if kind not in (TableKind.TABLE.value, table.kind.value):
        raise SchemaError(f"{name!r} is a {table.kind.value}, not a {kind}")
    return table.name


def _explain(statement: Explain, database: Database) -> Any:
    import pyarrow as pa

    if isinstance(statement.target, str):
        text = explain_view(database, database.catalogue.find_view(statement.target), statement.stage)
    else:
        text = explain_query(database, declaration(statement.target), statement.stage)
    return pa.table({"explain": pa.array(text.splitlines(), pa.string())})
