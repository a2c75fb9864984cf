"""The command line: `viewlet shell`, `viewlet run`, `viewlet explain`, `viewlet ui`, ...

A user error is printed as one red block on standard error and ends the program with exit code 2. A traceback means a
bug in Viewlet.

Results go to standard output and everything else to standard error, so that `viewlet run ... --format csv > out.csv`
holds nothing but data.
"""

from __future__ import annotations

import json
import sys
from contextlib import suppress
from dataclasses import dataclass, field
from decimal import Decimal
from enum import StrEnum
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from viewlet.errors import DataError, InternalError, SchemaError, SqlError, ViewletError, interruptible
from viewlet.shell.output import Format, print_rows
from viewlet.shell.script import Statement, read_text, split
from viewlet.types import Column, Kind, SqlType
from viewlet.visible import visible

if TYPE_CHECKING:
    from viewlet.connection import Connection

Columns = tuple[Column, ...]

USER_ERROR = 2
MISMATCH = 1
FAILED = 1
INTERRUPTED = 130

app = typer.Typer(
    help="SQL views that stay up to date while the data under them changes.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


def main(arguments: list[str] | None = None) -> None:
    """The entry point: run the command and turn user errors into one readable block."""
    try:
        app(args=arguments, prog_name="viewlet")
    except InternalError:
        raise
    except ViewletError as error:
        _error_console().print(f"error: {error}", style="red", markup=False, soft_wrap=True)
        sys.exit(USER_ERROR)


# -- commands ---------------------------------------------------------------------------------------------------------


def _show_version(wanted: bool) -> None:
    if wanted:
        import viewlet

        typer.echo(f"viewlet {viewlet.__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Print the version and leave.")
    ] = False,
) -> None:
    pass


@app.command()
def shell(
    database: Annotated[
        Path | None, typer.Argument(metavar="[DIRECTORY]", help="The database; without it, an empty one in memory.")
    ] = None,
    command: Annotated[
        list[str] | None, typer.Option("-c", metavar="SQL", help="Carry this out and leave; may be repeated.")
    ] = None,
    mode: Annotated[Format, typer.Option(help="How rows are printed.")] = Format.TABLE,
    timer: Annotated[bool, typer.Option("--timer", help="Show how long statements take.")] = False,
    keep_going: Annotated[
        bool, typer.Option("--keep-going", help="Carry out what follows an error in a script too.")
    ] = False,
    external_access: Annotated[
        bool, typer.Option("--external-access", help="Let queries read files and other places that DuckDB reaches.")
    ] = False,
) -> None:
    """Type statements and see their answers, or carry out a script from standard input.

    A script ends at its first error, and the exit code is 1.
    """
    import viewlet
    from viewlet.shell.session import MOST_ROWS, Shell
    from viewlet.shell.terminal import converse

    typed = not command and sys.stdin.isatty()
    most_rows = MOST_ROWS if sys.stdout.isatty() else None
    with viewlet.connect(database, external_access=external_access) as db:
        session = Shell(db, not typed, keep_going, mode, timer, most_rows)
        try:
            if typed:
                session.say(f"Viewlet {viewlet.__version__}; .help lists the commands")
                converse(session)
            else:
                for lines in [text.splitlines() for text in command] if command else [sys.stdin]:
                    session.take_all(lines)
        except KeyboardInterrupt:
            raise typer.Exit(INTERRUPTED) from None
        except UnicodeDecodeError:
            raise DataError("standard input is not UTF-8 text") from None
    if session.failed and not typed:
        raise typer.Exit(FAILED)


@app.command()
def run(
    script: Annotated[Path, typer.Argument(help="A file of SQL statements, separated by semicolons.")],
    load: Annotated[
        list[str] | None,
        typer.Option(metavar="TABLE=FILE", help="Rows for a table, from .csv, .json or .parquet; may be repeated."),
    ] = None,
    format: Annotated[Format, typer.Option(help="How results of SELECT are printed.")] = Format.TABLE,
    external_access: Annotated[
        bool, typer.Option("--external-access", help="Let queries read files and other places that DuckDB reaches.")
    ] = False,
) -> None:
    """Run a script and print the results of its queries.

    A --load fills a table right after the statement that creates it. A stream is filled later, before the first
    statement that is not a CREATE, because the views over it must be declared first.
    """
    import viewlet

    statements = list(split(read_text(script)))
    files = _parse_loads(load or [])
    db = viewlet.connect(external_access=external_access)
    loader = Loader(db, files)
    for statement in statements:
        loader.before(statement)
        with statement.placing_errors():
            result = db.execute(statement.text)
        if hasattr(result, "schema"):
            print_rows(result, format)
        loader.after(statement)
    loader.finish()
    loader.check_all_used()
    typer.echo(f"{len(statements)} statements, {loader.rows:,} rows loaded, epoch {db.epoch}", err=True)


@app.command()
def explain(
    query: Annotated[Path, typer.Argument(help="A file whose last statement is a SELECT or a view declaration.")],
    stage: Annotated[str | None, typer.Option(help="One stage only, for example algebra or triggers.")] = None,
    schema: Annotated[Path | None, typer.Option(help="A file of CREATE statements to run first.")] = None,
) -> None:
    """Show how a query is maintained: its algebra, its views, its triggers."""
    import viewlet

    db = viewlet.connect()
    for statement in split(read_text(schema)) if schema else ():
        with statement.placing_errors():
            db.execute(statement.text)
    statements = list(split(read_text(query)))
    if not statements:
        raise SqlError(f"{query} holds no statement")
    for statement in statements[:-1]:
        with statement.placing_errors():
            db.execute(statement.text)
    subject = statements[-1]
    before = set(db.views)
    db.execute(subject.text if subject.creates_something else subject.as_view("query"))
    created = [name for name in db.views if name not in before]
    if not created:
        raise SqlError(f"the last statement of {query} is neither a SELECT nor CREATE MATERIALIZED VIEW")
    typer.echo(visible(db.explain(created[0], **({} if stage is None else {"stage": stage}))))


@app.command()
def ui(
    database: Annotated[Path, typer.Argument(metavar="DIRECTORY", help="The database; other processes may use it.")],
    port: Annotated[int, typer.Option(min=0, max=65535, help="Of 127.0.0.1; 0 takes a free one.")] = 0,
) -> None:
    """Serve a page that shows a database to a browser, without changing it: its graph, its figures, its rows.

    The page is at the address that is printed, which has a secret in it: it is for the person who started this.
    """
    import threading

    from viewlet.ui.server import UserInterface
    from viewlet.ui.subject import Directory

    with UserInterface(Directory(str(database)), port) as page:
        typer.echo(page.url)
        typer.echo("Ctrl-C ends it.", err=True)
        with suppress(KeyboardInterrupt):
            threading.Event().wait()


class DemoEngine(StrEnum):
    SPARK = "spark"
    LOCAL = "local"


@app.command()
def demo(
    scale: Annotated[
        float, typer.Option(min=0.001, max=1.0, help="Size of the generated data, as a scale factor of TPC-H.")
    ] = 0.005,
    seconds: Annotated[float | None, typer.Option(min=1.0, help="Stop streaming after about this long.")] = None,
    engine: Annotated[
        DemoEngine | None, typer.Option(help="Spark, or this process; Spark by default, where it is installed.")
    ] = None,
) -> None:
    """Watch views stay right over a changing database of orders, and check them against DuckDB."""
    if engine is None:
        engine = DemoEngine.SPARK if find_spec("pyspark") else DemoEngine.LOCAL
    if engine is DemoEngine.LOCAL:
        from viewlet.demo.run import run_demo as run
    else:
        from viewlet.demo.on_spark import run_demo_on_spark as run
    if not run(scale, seconds):
        raise typer.Exit(MISMATCH)


# -- loading ----------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Loader:
    """Fills tables from files once they exist; what is loaded leaves `pending`."""

    db: Connection
    pending: dict[str, Path]
    streams: set[str] = field(default_factory=set)
    rows: int = 0

    def after(self, statement: Statement) -> None:
        """Fill the tables a statement created, and note the streams it did."""
        created = [name for name in self.pending if name in self.db.tables and name not in self.streams]
        if statement.creates_stream:
            self.streams.update(created)
        else:
            self._load(created)

    def before(self, statement: Statement) -> None:
        """Fill the streams before the first statement that may need their rows."""
        if not statement.creates_something:
            self.finish()

    def finish(self) -> None:
        self._load([name for name in self.pending if name in self.db.tables])

    def check_all_used(self) -> None:
        if self.pending:
            known = ", ".join(sorted(self.db.tables)) or "none"
            missing = ", ".join(sorted(self.pending))
            raise SchemaError(f"--load names {missing}, but the script creates no such table (tables: {known})")

    def _load(self, names: list[str]) -> None:
        for name in names:
            path = self.pending.pop(name)
            data, rows = READERS[path.suffix.lower()](path, self.db.table(name).schema)
            try:
                self.db.insert(name, data)
            except DataError as error:
                raise DataError(f"{path}: {error}") from error
            self.rows += rows


def _parse_loads(options: list[str]) -> dict[str, Path]:
    """TABLE=FILE options, checked before anything runs."""
    loads: dict[str, Path] = {}
    for option in options:
        name, equals, file = option.partition("=")
        if not (name and equals and file):
            raise DataError(f"--load {option}: expected TABLE=FILE, for example --load orders=orders.parquet")
        path = Path(file)
        if path.suffix.lower() not in READERS:
            raise DataError(f"--load {option}: cannot tell the format; use one of {', '.join(READERS)}")
        if not path.is_file():
            raise DataError(f"--load {option}: there is no file {path}")
        if name.lower() in loads:
            raise DataError(f"--load {option}: {name} is loaded twice")
        loads[name.lower()] = path
    return loads


def _read_parquet(path: Path, columns: Columns) -> tuple[Any, int]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        data = pq.ParquetFile(path).read()  # as it is: folders named `key=value` add no columns
    except (pa.ArrowException, OSError) as error:
        raise DataError(f"cannot read {path} as Parquet: {_first_line(error)}") from None
    return data, data.num_rows


def _read_csv(path: Path, columns: Columns) -> tuple[Any, int]:
    """The file read with the types of the table, so that '007' in a VARCHAR column stays a string."""
    import duckdb

    from viewlet.duckdb_access import literal_name, open_duckdb

    file = literal_name(str(path.resolve()))
    options = "header = true, hive_partitioning = false"
    declared = {column.name: _csv_type(column.type) for column in columns}
    with open_duckdb(external_access=True) as reader:
        try:
            header = reader.execute(f"SELECT * FROM read_csv(?, {options}, all_varchar = true) LIMIT 0", [file])
            present = {entry[0].lower() for entry in header.description or ()}
            types = ", ".join(
                f"{_text(name)}: {_text(type)}" for name, type in declared.items() if name.lower() in present
            )
            whole = [column for column in columns if column.type.is_integer and column.name.lower() in present]
            shown = f"REPLACE ({', '.join(map(_integer, whole))})" if whole else ""
            query = f"SELECT * {shown} FROM read_csv(?, {options}, types = {{{types}}})"
            with interruptible(reader):
                data: Any = reader.sql(query, params=[file]).to_arrow_table()
        except duckdb.Error as error:
            raise DataError(f"cannot read {path} as CSV: {_first_line(error)}") from None
    return data, data.num_rows


def _text(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"


def _integer(column: Column) -> str:
    """A column of texts as integers: DuckDB itself would round what has a fraction."""
    name = '"' + column.name.replace('"', '""') + '"'
    refusal = f"error({_text(f'{column.name} ({column.type}): ')} || {name} || ' is no integer')"
    is_whole = f"regexp_full_match({name}, '\\s*[+-]?[0-9]+([.]0*)?\\s*')"
    value = f"CASE WHEN {name} IS NULL OR {is_whole} THEN CAST({name} AS {column.type}) ELSE {refusal} END"
    return f"{value} AS {name}"


def _csv_type(type: SqlType) -> str:
    """What DuckDB reads a column as; what it would round stays text."""
    exact_as_text = (Kind.DECIMAL, Kind.DATE, Kind.TIMESTAMP, Kind.VARCHAR)
    return "VARCHAR" if type.kind in exact_as_text or type.is_integer else str(type)


def _read_json(path: Path, columns: Columns) -> tuple[Any, int]:
    """An array of objects, or one object per line; numbers with a point are read exactly."""
    text = read_text(path).strip()
    try:
        if text.startswith("["):
            rows = json.loads(text, parse_float=Decimal)
        else:
            rows = [json.loads(line, parse_float=Decimal) for line in text.splitlines() if line.strip()]
    except (ValueError, ArithmeticError, RecursionError) as error:  # numbers may be too long, and lists too deep
        raise DataError(f"cannot read {path} as JSON: {_first_line(error)}") from None
    return rows, len(rows)


READERS = {".parquet": _read_parquet, ".csv": _read_csv, ".json": _read_json}


def _first_line(error: Exception) -> str:
    return str(error).strip().splitlines()[0]


def _error_console() -> Any:
    from rich.console import Console

    return Console(stderr=True, highlight=False)
