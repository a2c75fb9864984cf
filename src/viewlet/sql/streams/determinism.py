"""Functions that views over parts must not call: a part that is computed again would come out different.

    random(), uuid(), nextval('s')      another value for every row
    now(), current_date, age(ts)        depend on when a part is computed
    current_user, current_setting(...)  depend on the session that computes it, and on the host

DuckDB says of its functions which are like that; functions that other hosts have are added, and macros over such.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from functools import cache

from viewlet.sql.split import RawStatement, split_statements, unquoted
from viewlet.sql.statements import CreateView, Statement
from viewlet.streams.definition import PartView
from viewlet.streams.schema import unstable_functions
from viewlet.types import Table

_OF_OTHER_HOSTS = ("rand", "randn", "newid", "unix_timestamp", "clock_timestamp", "statement_timestamp", "timeofday")
_MACROS = ("ago", "user", "current_catalog", "current_role", "session_user", "current_user", "pg_conf_load_time")
_MORE = ("pg_postmaster_start_time", "reservoir_quantile", "version", "localtime", "localtimestamp", "current_time")
_TIMES = ("current_date", "current_timestamp", "curdate", "sysdate", "current_localtime", "current_localtimestamp")
_MOMENTS = ("'now'", "'today'", "'tomorrow'", "'yesterday'")
"""Texts that are a time of the clock where they become a date or a time, on PostgreSQL and in Spark's literals."""
_BARE = (
    *("CURRENT_DATE", "CURRENT_TIME", "CURRENT_TIMESTAMP", "LOCALTIME", "LOCALTIMESTAMP", "CURRENT_USER"),
    *("SESSION_USER", "CURRENT_ROLE", "CURRENT_CATALOG", "CURRENT_SCHEMA", "USER"),
)
"""Words that are calls without parentheses, unless a column has that name."""
_TIME_TYPES = ("DATE", "TIME", "TIMESTAMP", "TIMESTAMPTZ", "DATETIME", "TIMESTAMP_NTZ", "TIMESTAMP_LTZ")
_HINT = "parts are computed again when late rows come; take a column of the stream or part_timestamp"


@cache
def _unstable() -> frozenset[str]:
    return frozenset((*unstable_functions(), *_OF_OTHER_HOSTS, *_MACROS, *_MORE, *_TIMES)) - {"error"}


def refuse_unstable(raw: RawStatement, bound: Statement, catalog: Mapping[str, Table]) -> None:
    """Refuses a view over parts that calls such a function, or takes a sample of rows."""
    if not isinstance(bound, CreateView) or not isinstance(bound.definition, PartView):
        return
    columns = {name for source in bound.sources for name in catalog[source].column_names}
    for at, what in _unstable_words(raw, columns):
        raise _error(raw, at, what)


def unstable_word(expression: str) -> str | None:
    """What has another value each time in an expression, if anything has."""
    (raw,) = split_statements(f"SELECT {expression}")
    return next((what for _, what in _unstable_words(raw, ())), None)


def _unstable_words(raw: RawStatement, columns: Collection[str]) -> Iterator[tuple[int, str]]:
    """The words of a text that have other values each time, with their places; names of columns are none."""
    words = raw.words
    for at, word in enumerate(words):
        before, after = words[at - 1] if at else "", words[at + 1] if at + 1 < len(words) else ""
        name = unquoted(word).lower()
        if after == "(" and not word.startswith("'") and (name in _unstable() or _is_age(raw, at)):
            yield at, f"{name}()"
        if word in _BARE and name not in columns and before not in (".", "AS") and after not in (".", "("):
            yield at, name
        if word.lower() in _MOMENTS and (before in _TIME_TYPES or after in ("::", "AS")):
            yield at, word
        if word == "TABLESAMPLE" or (word == "SAMPLE" and before == "USING"):
            yield at, "a sample of rows"


def _is_age(raw: RawStatement, at: int) -> bool:
    """age(time), which is the age today; age(time, time) is not."""
    if raw.words[at] != "AGE":
        return False
    depth = 0
    for word in raw.words[at + 1 :]:
        depth += (word in ("(", "[")) - (word in (")", "]"))
        if depth == 1 and word == ",":
            return False
        if depth == 0:
            break
    return True


def _error(raw: RawStatement, at: int, what: str) -> Exception:
    message = f"{what} is another one each time that a part is computed: {_HINT}"
    return raw.source.error_at(message, *raw.positions[at])
