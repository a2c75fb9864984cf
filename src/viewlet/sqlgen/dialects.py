"""What Spark SQL and DuckDB write differently: names, literals, types, and a few functions.

Everything else of the generated SQL is common to both. Spark SQL evaluates
the loads of a cluster, DuckDB those of one process; DuckDB also answers without a JVM when the translation is tested.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import ClassVar

from viewlet.errors import UnsupportedError
from viewlet.types import WORD_DIGITS, Kind, SqlType


class Dialect(ABC):
    """One way of writing SQL. `wide` holds every exact number; `text` and `timestamp` are names of types.

    What is added up is exact too, as `sums`; where that is not `wide`, an overflow is an error.
    """

    name: ClassVar[str]
    wide: ClassVar[str]
    text: ClassVar[str]
    timestamp: ClassVar[str]

    @property
    def sums(self) -> str:
        return self.wide

    renamed: ClassVar[dict[str, str]]
    """Functions of strings whose name is not the one of the calculus."""

    def type_name(self, type: SqlType) -> str:
        """The SQL type that holds the engine's representation: decimals are integers, singles are doubles."""
        match type.kind:
            case Kind.DECIMAL:
                return "BIGINT" if type.precision <= WORD_DIGITS else self.wide
            case Kind.REAL | Kind.DOUBLE:
                return "DOUBLE"
            case Kind.VARCHAR | Kind.NULL:
                return self.text
            case Kind.TIMESTAMP:
                return self.timestamp
            case _:
                return str(type.kind.value)

    def cast(self, sql: str, type: SqlType) -> str:
        return f"CAST({sql} AS {self.type_name(type)})"

    @abstractmethod
    def quoted(self, name: str) -> str:
        """An identifier."""

    @abstractmethod
    def string(self, value: str) -> str:
        """A string literal."""

    @abstractmethod
    def column(self, sql: str, type: SqlType) -> str:
        """A column of a base table as the calculus reads it."""

    @abstractmethod
    def exact(self, sql: str, digits: int) -> str:
        """An integer of at most so many digits, of a type whose products and sums are exact or fail."""

    @abstractmethod
    def failure(self, message: str) -> str:
        """An expression that fails when it is evaluated."""

    @abstractmethod
    def divide(self, dividend: str, divisor: str, wide: bool) -> str:
        """The quotient of two integers, towards zero."""

    @abstractmethod
    def single(self, sql: str) -> str:
        """A double rounded to single precision."""

    @abstractmethod
    def half_even(self, sql: str) -> str:
        """A double rounded to a whole number, halves to the even neighbour."""

    @abstractmethod
    def concatenation(self, parts: Sequence[str]) -> str:
        """The concatenation of strings; NULLs are skipped."""

    @abstractmethod
    def trim(self, side: str, value: str, characters: str | None) -> str: ...

    @abstractmethod
    def days(self, sql: str) -> str:
        """Days since 1970-01-01."""

    @abstractmethod
    def microseconds(self, sql: str) -> str:
        """Microseconds of a timestamp since 1970-01-01."""

    @abstractmethod
    def add_days(self, date: str, days: str) -> str: ...

    @abstractmethod
    def add_months(self, moment: str, months: str, is_date: bool) -> str: ...

    @abstractmethod
    def add_microseconds(self, moment: str, microseconds: str) -> str: ...

    @abstractmethod
    def part(self, name: str, moment: str) -> str:
        """A part of a timestamp, as EXTRACT names it."""

    @abstractmethod
    def truncated(self, unit: str, moment: str) -> str:
        """The start of the year, month, ... of a timestamp, a timestamp."""


class SparkSql(Dialect):
    """Expects ANSI mode, the default since Spark 4: overflows and bad casts fail instead of giving NULL."""

    name = "spark"
    wide = "DECIMAL(38,0)"
    text = "STRING"
    timestamp = "TIMESTAMP_NTZ"
    renamed: ClassVar[dict[str, str]] = {"starts_with": "STARTSWITH", "ends_with": "ENDSWITH", "position": "INSTR"}

    def quoted(self, name: str) -> str:
        if not name:
            raise unsupported("a table or column without a name")
        return "`" + name.replace("`", "``") + "`"

    def string(self, value: str) -> str:
        return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"

    def column(self, sql: str, type: SqlType) -> str:
        return f"CAST({sql} AS {self.timestamp})" if type.kind is Kind.TIMESTAMP else sql

    def exact(self, sql: str, digits: int) -> str:
        return f"CAST({sql} AS DECIMAL({min(digits, 38)},0))"

    def failure(self, message: str) -> str:
        return f"RAISE_ERROR({self.string(message)})"

    def divide(self, dividend: str, divisor: str, wide: bool) -> str:
        if not wide:
            return f"({dividend} DIV {divisor})"
        return f"CAST(({dividend} - {dividend} % {divisor}) / {divisor} AS {self.wide})"

    def single(self, sql: str) -> str:
        return f"CAST(CAST({sql} AS FLOAT) AS DOUBLE)"

    def half_even(self, sql: str) -> str:
        return f"RINT({sql})"

    def concatenation(self, parts: Sequence[str]) -> str:
        return f"CONCAT_WS('', {', '.join(parts)})"

    def trim(self, side: str, value: str, characters: str | None) -> str:
        where = {"trim": "BOTH", "ltrim": "LEADING", "rtrim": "TRAILING"}[side]
        return f"TRIM({where} {characters or self.string(' ')} FROM {value})"

    def days(self, sql: str) -> str:
        return f"UNIX_DATE(CAST({sql} AS DATE))"

    def microseconds(self, sql: str) -> str:
        # From its parts: conversions of TIMESTAMP_NTZ to a moment would go through the session's time zone.
        minutes = f"((CAST({self.days(sql)} AS BIGINT) * 24 + HOUR({sql})) * 60 + MINUTE({sql}))"
        return f"({minutes} * 60000000 + CAST(EXTRACT(SECOND FROM {sql}) * 1000000 AS BIGINT))"

    def add_days(self, date: str, days: str) -> str:
        return f"DATE_ADD({date}, CAST({days} AS INT))"

    def add_months(self, moment: str, months: str, is_date: bool) -> str:
        months = f"CAST({months} AS INT)"
        return f"ADD_MONTHS({moment}, {months})" if is_date else f"TIMESTAMPADD(MONTH, {months}, {moment})"

    def add_microseconds(self, moment: str, microseconds: str) -> str:
        return f"TIMESTAMPADD(MICROSECOND, {microseconds}, {moment})"

    def part(self, name: str, moment: str) -> str:
        seconds = f"EXTRACT(SECOND FROM {moment})"
        match name:
            case "dayofweek":
                return f"(EXTRACT(DAYOFWEEK FROM {moment}) - 1)"
            case "isodow":
                return f"EXTRACT(DAYOFWEEK_ISO FROM {moment})"
            case "dayofyear":
                return f"EXTRACT(DOY FROM {moment})"
            case "second":
                return f"SECOND({moment})"
            case "millisecond":
                return f"FLOOR({seconds} * 1000)"
            case "microsecond":
                return f"CAST({seconds} * 1000000 AS BIGINT)"
            case _:
                return f"EXTRACT({name.upper()} FROM {moment})"

    def truncated(self, unit: str, moment: str) -> str:
        day = f"CAST({moment} AS DATE)"
        if unit in ("year", "quarter", "month", "week"):
            return f"CAST(TRUNC({day}, '{unit.upper()}') AS {self.timestamp})"
        kept = {"day": 0, "hour": 1, "minute": 2, "second": 3}[unit]
        parts = [f"{function}({moment})" for function in ("HOUR", "MINUTE", "SECOND")]
        time = ", ".join(part if i < kept else "0" for i, part in enumerate(parts))
        return f"(CAST({day} AS {self.timestamp}) + MAKE_DT_INTERVAL(0, {time}))"


class DuckDbSql(Dialect):
    name = "duckdb"
    wide = "HUGEINT"
    text = "VARCHAR"
    timestamp = "TIMESTAMP"
    renamed: ClassVar[dict[str, str]] = {"position": "INSTR"}

    def quoted(self, name: str) -> str:
        if not name or "\0" in name:  # Arrow hands names over as C strings
            raise unsupported(f"a table or column called {name!r}")
        return '"' + name.replace('"', '""') + '"'

    def string(self, value: str) -> str:
        return "'" + value.replace("'", "''") + "'"

    def column(self, sql: str, type: SqlType) -> str:
        return sql

    def exact(self, sql: str, digits: int) -> str:
        return f"CAST({sql} AS {self.wide})"

    def failure(self, message: str) -> str:
        return f"ERROR({self.string(message)})"

    def divide(self, dividend: str, divisor: str, wide: bool) -> str:
        return f"({dividend} // {divisor})"

    def single(self, sql: str) -> str:
        return f"CAST(CAST({sql} AS FLOAT) AS DOUBLE)"

    def half_even(self, sql: str) -> str:
        return f"ROUND_EVEN({sql}, 0)"

    def concatenation(self, parts: Sequence[str]) -> str:
        return f"CONCAT({', '.join(parts)})"

    def trim(self, side: str, value: str, characters: str | None) -> str:
        return f"{side.upper()}({value}, {characters or self.string(' ')})"

    def days(self, sql: str) -> str:
        return f"(CAST({sql} AS DATE) - DATE '1970-01-01')"

    def microseconds(self, sql: str) -> str:
        return f"EPOCH_US({sql})"

    def add_days(self, date: str, days: str) -> str:
        return f"({date} + CAST({days} AS INTEGER))"

    def add_months(self, moment: str, months: str, is_date: bool) -> str:
        shifted = f"({moment} + TO_MONTHS(CAST({months} AS INTEGER)))"
        return f"CAST({shifted} AS DATE)" if is_date else shifted

    def add_microseconds(self, moment: str, microseconds: str) -> str:
        return f"({moment} + TO_MICROSECONDS({microseconds}))"

    def part(self, name: str, moment: str) -> str:
        return f"EXTRACT({name.upper()} FROM {moment})"

    def truncated(self, unit: str, moment: str) -> str:
        return f"CAST(DATE_TRUNC('{unit}', {moment}) AS {self.timestamp})"


class SparkSqlInWords(SparkSql):
    """Spark adds up words many times faster than decimals; where they overflow it fails, as it does in ANSI mode."""

    name = "spark in words"

    @property
    def sums(self) -> str:
        return "BIGINT"

    def exact(self, sql: str, digits: int) -> str:
        return f"CAST({sql} AS {self.sums})"


DIALECTS: dict[str, Dialect] = {dialect.name: dialect for dialect in (SparkSql(), SparkSqlInWords(), DuckDbSql())}


def unsupported(construct: str) -> UnsupportedError:
    """The expression has no SQL form; callers run the triggers on rows instead."""
    return UnsupportedError(construct, hint="the view has to be loaded by its triggers", stage="sql of definitions")
