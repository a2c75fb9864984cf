"""What dbt asks of a database, and the three ways in which models are put into one.

view, materialized_view, incremental    a view that Viewlet keeps fresh; nothing is done while its query is the same
table                                   the answer of a query; rows that are other ones than before are one batch
seed                                    the rows of a file; rows that are other ones than before are one batch
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from threading import RLock
from typing import Any

import duckdb
from dbt.adapters.base import BaseRelation, available
from dbt.adapters.base.impl import ConstraintSupport
from dbt.adapters.capability import Capability, CapabilityDict, CapabilitySupport, Support
from dbt.adapters.contracts.relation import RelationType
from dbt.adapters.events.logging import AdapterLogger
from dbt.adapters.sql import SQLAdapter
from dbt.adapters.viewlet.connections import ViewletConnectionManager
from dbt.adapters.viewlet.relation import MAIN, ViewletColumn, ViewletRelation, prefix_of
from dbt.adapters.viewlet.seeds import read_seed
from dbt_common.contracts.constraints import ConstraintType
from dbt_common.exceptions import CompilationError, DbtDatabaseError

import viewlet

logger = AdapterLogger("Viewlet")

_VIEWS = "select view_name, sql, sources from duckdb_views()"
_CATALOGUE_LOCK = RLock()
_REHEARSALS = RLock()
UNCHANGED, CHANGED, CREATED, REPLACED = "UNCHANGED", "CHANGE", "CREATE", "REPLACE"


class ViewletAdapter(SQLAdapter):
    ConnectionManager = ViewletConnectionManager
    Relation = ViewletRelation
    Column = ViewletColumn

    CONSTRAINT_SUPPORT = dict.fromkeys(ConstraintType, ConstraintSupport.NOT_SUPPORTED) | dict.fromkeys(
        (
            ConstraintType.not_null,
            ConstraintType.primary_key,
            ConstraintType.unique,
            ConstraintType.check,
            ConstraintType.foreign_key,
        ),
        ConstraintSupport.ENFORCED,
    )
    _capabilities = CapabilityDict({Capability.SchemaMetadataByRelations: CapabilitySupport(support=Support.Full)})

    def __init__(self, config: Any, mp_context: Any) -> None:
        super().__init__(config, mp_context)
        self._catalogue: dict[str, tuple[str, int, list[tuple[Any, ...]]]] = {}
        self._beside: viewlet.Connection | None = None

    @classmethod
    def date_function(cls) -> str:
        return "current_date"

    @classmethod
    def is_cancelable(cls) -> bool:
        return False

    def debug_query(self) -> None:
        self.execute("select 1 as id")

    def quote(self, identifier: str) -> str:
        return '"' + identifier.replace('"', '""') + '"'

    @available
    @classmethod
    def convert_text_type(cls, agate_table: Any, col_idx: int) -> str:
        return "varchar"

    @available
    @classmethod
    def convert_number_type(cls, agate_table: Any, col_idx: int) -> str:
        import agate

        return "double" if agate_table.aggregate(agate.MaxPrecision(col_idx)) else "bigint"

    @available
    @classmethod
    def convert_integer_type(cls, agate_table: Any, col_idx: int) -> str:
        return "bigint"

    @available
    @classmethod
    def convert_datetime_type(cls, agate_table: Any, col_idx: int) -> str:
        return "timestamp"

    @available
    @classmethod
    def convert_time_type(cls, agate_table: Any, col_idx: int) -> str:
        return "varchar"

    # -- schemas ----------------------------------------------------------------------------------------------------

    def list_schemas(self, database: str) -> list[str]:
        """Schemas are prefixes of names: those that some name has."""
        prefixes = {name.partition("__")[0] for name in self._stored() if "__" in name}
        return sorted({MAIN, *prefixes})

    def check_schema_exists(self, database: str, schema: str) -> bool:
        return True

    def create_schema(self, relation: BaseRelation) -> None:
        """A schema is there as soon as a name begins with it."""

    def drop_schema(self, relation: BaseRelation) -> None:
        names = [each.stored_name for each in self.list_relations_without_caching(relation)]
        self._drop(names)
        self.cache.drop_schema(relation.database, relation.schema)

    @available
    def prefix_of(self, schema: str) -> str:
        """What the names of the relations of a schema begin with."""
        return prefix_of(schema)

    # -- relations --------------------------------------------------------------------------------------------------

    def list_relations_without_caching(self, schema_relation: BaseRelation) -> list[BaseRelation]:
        schema = schema_relation.schema
        prefix = prefix_of(schema)
        return [
            self.Relation.create(
                database=schema_relation.database,
                schema=schema,
                identifier=name[len(prefix) :],
                type=RelationType.View if is_view else RelationType.Table,
                quote_policy={"database": True, "schema": True, "identifier": True},
            )
            for name, is_view in self._stored().items()
            if name.startswith(prefix) and len(name) > len(prefix)
        ]

    def get_columns_in_relation(self, relation: ViewletRelation) -> list[ViewletColumn]:  # type: ignore[override]
        rows = self._ask(
            "select column_name, data_type, character_maximum_length from information_schema.columns"
            f" where table_name = {_text(relation.stored_name)} order by ordinal_position"
        )
        return [ViewletColumn(name, type if size is None else f"{type}({size})", size) for name, type, size in rows]

    def expand_column_types(self, goal: BaseRelation, current: BaseRelation) -> None:
        """VARCHAR holds strings of any length."""

    def drop_relation(self, relation: ViewletRelation) -> None:  # type: ignore[override]
        self._drop([relation.stored_name])

    def rename_relation(self, from_relation: ViewletRelation, to_relation: ViewletRelation) -> None:  # type: ignore[override]
        self.cache_renamed(from_relation, to_relation)
        self._run(f"alter table {from_relation.render()} rename to {to_relation.render()}")

    # -- models -----------------------------------------------------------------------------------------------------

    @available
    def maintain(self, relation: ViewletRelation, sql: str, full_refresh: bool = False) -> str:
        """Declares a view that Viewlet keeps fresh, unless it is there with the same query; returns what was done."""
        name = relation.stored_name
        statement = f"create or replace materialized view {relation.render()} as\n{sql.strip().rstrip(';').rstrip()}"
        is_view = self._stored().get(name)
        if is_view and not full_refresh and self._statement_of(name) == statement:
            return UNCHANGED
        if is_view is False:
            self._drop([name])
        self._replace(relation, statement, sql)
        return REPLACED if is_view else CREATED

    @available
    def fill(
        self, relation: ViewletRelation, sql: str, columns: str = "", full_refresh: bool = False
    ) -> dict[str, Any]:
        """Makes a table of the answer of a query, and changes one that is there by the rows that are other ones.

        `columns` are the declarations of columns and constraints, if the model has a contract.
        """
        if columns:
            return self._put_rows(relation, columns, self._arrow(sql), full_refresh)
        is_view = self._make_room(relation)
        if is_view is False and not full_refresh:
            rows = self._arrow(sql)
            if rows.schema.equals(self._arrow(f"select * from {relation.render()} limit 0").schema):
                return _done(CHANGED, self._change_by_difference(relation, rows))
        self._replace(relation, f"create or replace table {relation.render()} as\n{sql}", sql)
        return _done(CREATED if is_view is None else REPLACED, len(self._database().table(relation.stored_name)))

    @available
    def seed(self, relation: ViewletRelation, model: dict[str, Any], full_refresh: bool) -> dict[str, Any]:
        """Brings the rows of a CSV file into a table; what has changed of them is one batch."""
        config = model["config"]
        delimiter = config.get("delimiter", ",")
        if not delimiter:
            raise CompilationError("the delimiter of a seed is not empty")
        path = os.path.join(model["root_path"], model["original_file_path"])
        with self.connections.exception_handler(path):
            rows, types = read_seed(path, delimiter, config.get("column_types") or {})
        names = list(types) if config.get("quote_columns") else [name.lower() for name in types]
        columns = ", ".join(f"{self.quote(name)} {type}" for name, type in zip(names, types.values(), strict=True))
        return self._put_rows(relation, columns, rows.rename_columns(names), full_refresh)

    def _put_rows(self, relation: ViewletRelation, columns: str, rows: Any, full_refresh: bool) -> dict[str, Any]:
        """Gives a table of some declaration some rows, if it is there by their difference to those that it has."""
        is_view = self._make_room(relation)
        if is_view is False and not full_refresh and self._is_declared(relation, columns):
            return _done(CHANGED, self._change_by_difference(relation, rows))
        with self.connections.exception_handler(relation.render()), self._rehearsal(relation, columns) as rehearsal:
            rehearsal.insert(relation.stored_name, rows)
        self._replace(relation, f"create or replace table {relation.render()} ({columns})")
        with self.connections.exception_handler(relation.render()):
            self._database().insert(relation.stored_name, rows)
        return _done(CREATED if is_view is None else REPLACED, rows.num_rows)

    def _make_room(self, relation: ViewletRelation) -> bool | None:
        """Drops a view where a table is to be; returns whether what was there is a view, None if there was nothing."""
        is_view = self._stored().get(relation.stored_name)
        if is_view:
            self._drop([relation.stored_name])
        return is_view

    def _change_by_difference(self, relation: ViewletRelation, rows: Any) -> int:
        """Turns a table into one with other rows by a batch of those that come and go; returns their number."""
        old = self._arrow(f"select * from {relation.render()}")
        with self.connections.exception_handler(relation.render()):
            changes = difference(old, rows)
            if changes.num_rows:
                self._database().apply({relation.stored_name: changes})
        return int(changes.num_rows)

    def _is_declared(self, relation: ViewletRelation, columns: str) -> bool:
        """Whether a table has these columns and constraints, which a database in memory tells in the same words."""
        about = [
            f"select * exclude (table_oid) from {function}() where table_name = {_text(relation.stored_name)}"
            for function in ("duckdb_columns", "duckdb_constraints")
        ]
        try:
            with self._rehearsal(relation, columns) as rehearsal:
                return all(rehearsal.execute(sql).equals(self._arrow(sql)) for sql in about)
        except viewlet.ViewletError:
            return False

    @contextmanager
    def _rehearsal(self, relation: ViewletRelation, columns: str) -> Iterator[viewlet.Connection]:
        """A database in memory with a table of these columns and constraints, and no other."""
        with _REHEARSALS:
            if self._beside is None:
                self._beside = viewlet.connect()
            self._beside.execute(f"create table {relation.render()} ({columns})")
            try:
                yield self._beside
            finally:
                self._beside.execute(f"drop table {relation.render()}")

    def _replace(self, relation: ViewletRelation, statement: str, query: str = "select 1") -> None:
        """Runs a CREATE OR REPLACE. Views that would no longer fit what they read are dropped, to be made again.

        Models are made in the order of their dependencies: those that read this one follow.
        """
        name = relation.stored_name
        try:
            self._run(statement)
        except DbtDatabaseError:
            readers = self._readers(name)
            if not readers or not self._is_valid(query):
                raise
            logger.warning(f"{name} changes in a way that its readers do not fit; dropped: {', '.join(readers)}")
            self._drop([name])
            self._run(statement)

    def _is_valid(self, query: str) -> bool:
        """Whether a query can be answered: errors in it are no reason to drop what reads it."""
        try:
            self._ask(f"select * from (\n{query}\n) limit 0")
        except DbtDatabaseError:
            return False
        return True

    # -- the database -----------------------------------------------------------------------------------------------

    def _database(self) -> viewlet.Connection:
        return self.connections.get_thread_connection().handle.database  # type: ignore[no-any-return]

    def _run(self, sql: str) -> None:
        self.connections.add_query(sql, auto_begin=False)

    def _ask(self, sql: str) -> list[tuple[Any, ...]]:
        return self.connections.add_query(sql, auto_begin=False)[1].fetchall()  # type: ignore[no-any-return]

    def _arrow(self, sql: str) -> Any:
        return self.connections.add_query(sql, auto_begin=False)[1].fetch_arrow_table()

    def _stored(self) -> dict[str, bool]:
        """The tables and views, and whether each is a view."""
        return {name: kind == "VIEW" for name, kind, *_ in self._known("show tables")}

    def _statement_of(self, view: str) -> str | None:
        """The statement that declares a view."""
        known = {name: sql for name, sql, _ in self._known(_VIEWS)}
        return known[view].strip() if known.get(view) else None

    def _readers(self, name: str) -> list[str]:
        """The views over a table or view, and those over them."""
        sources = {view: read for view, _, read in self._known(_VIEWS)}
        found = [name]
        for each in found:
            found += [view for view, read in sources.items() if each in read and view not in found]
        return found[1:]

    def _known(self, sql: str) -> list[tuple[Any, ...]]:
        """What a query says of the catalogue, asked again after a statement that may have changed it."""
        place, statements = self.config.credentials.place, ViewletConnectionManager.statements
        with _CATALOGUE_LOCK:
            known = self._catalogue.get(sql)
            if known is None or known[:2] != (place, statements):
                known = self._catalogue[sql] = place, statements, self._ask(sql)
        return known[2]

    def _drop(self, names: Sequence[str]) -> None:
        """Drops tables and views, with the views that read them."""
        kinds = self._stored()
        for name in dict.fromkeys(names):
            if name in kinds:
                readers = self._readers(name)
                self._run(f"drop {'view' if kinds[name] else 'table'} if exists {self.quote(name)} cascade")
                for each in (name, *readers):
                    self._forget(each)

    def _forget(self, name: str) -> None:
        """Takes what has been dropped out of dbt's cache."""
        for database, schema in tuple(self.cache.schemas):
            prefix = prefix_of(schema)
            if name.lower().startswith(prefix.lower()):
                self.cache.drop(self.Relation.create(database=database, schema=schema, identifier=name[len(prefix) :]))


def difference(old: Any, new: Any) -> Any:
    """The rows that make one Arrow table of another, with `_multiplicity` for how often each comes, or goes."""
    names = ", ".join('"' + name.replace('"', '""') + '"' for name in new.column_names)
    with duckdb.connect() as connection:
        connection.register("old", old)
        connection.register("new", new)
        return connection.sql(
            f"SELECT {names}, CAST(SUM(n) AS BIGINT) AS _multiplicity FROM"
            f" (SELECT {names}, 1 AS n FROM new UNION ALL SELECT {names}, -1 FROM old) GROUP BY ALL HAVING SUM(n) <> 0"
        ).to_arrow_table()


def _done(action: str, rows: int) -> dict[str, Any]:
    return {"action": action, "rows": rows}


def _text(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"
