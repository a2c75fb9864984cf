"""What a word that is begun may become: commands, keywords, tables, views and columns."""

from __future__ import annotations

import re
from collections.abc import Iterable
from glob import escape, glob
from pathlib import Path

from viewlet.connection import Connection
from viewlet.shell.output import Format
from viewlet.shell.session import COMMANDS

KEYWORDS = re.findall(
    r"\w+",
    """
    ALL ALTER ANALYZE AND AS ASC AVG BEGIN BETWEEN BIGINT BOOLEAN BY CASE CAST CHECK COFACTOR COLUMN COMMIT CONFLICT
    CONSTRAINT COUNT CREATE CROSS DATE DECIMAL DEFAULT DELETE DESC DESCRIBE DISTINCT DO DOUBLE DROP ELSE END EXCEPT
    EXECUTE EXISTS EXPLAIN FACTORIZED FALSE FILTER FOREIGN FROM FULL GROUP HAVING IF IN INNER INSERT INTEGER
    INTERSECT INTO IS JOIN KEY LEFT LIKE LIMIT MATERIALIZED MAX MERGE MIN NOT NULL OFFSET ON OR ORDER OUTER OVER
    PARTITION PREPARE PRIMARY REFERENCES REPLACE RETURNING RIGHT ROLLBACK SELECT SET SHOW SMALLINT STATIC STREAM SUM
    TABLE TABLES THEN TIMESTAMP TRUE UNION UNIQUE UPDATE USING VALUES VARCHAR VIEW VIEWS WHEN WHERE WITH
    """,
)
BREAKS = " \t\n,;()=<>+-*/'\""
"""What ends a word; a dot does not."""
_TABLE_COMES = re.compile(r"\b(FROM|JOIN|INTO|UPDATE|TABLE|VIEW|DESCRIBE|EXPLAIN)\s+$", re.IGNORECASE)
_PLAIN = re.compile(r"[a-z_][a-z0-9_]*")


def completions(db: Connection, before: str, word: str) -> list[str]:
    """What `word` may become, after what is typed `before` it; keywords are in the case of the word."""
    line = before.rpartition("\n")[2]
    if "\n" not in before and not line.strip() and word.startswith("."):
        return _starting(COMMANDS, word)
    if line.startswith("."):
        return _arguments(db, line.split()[0], word)
    if "." in word:
        table, _, begun = word.rpartition(".")
        return [f"{table}.{name}" for name in _starting(_columns(db, [table]), begun)]
    names = [*db.tables, *db.views]
    if _TABLE_COMES.search(before):
        return _starting(names, word)
    read = [name for name in names if re.search(rf"\b{re.escape(name)}\b", before, re.IGNORECASE)]
    keywords = [each.lower() for each in KEYWORDS] if word.islower() else KEYWORDS
    return _starting([*_columns(db, read or names), *names, *keywords], word)


def _starting(names: Iterable[str], word: str) -> list[str]:
    """Names that need no quotes, or words of the shell, that begin like a word."""
    plain = (name for name in names if _PLAIN.fullmatch(name.lower().lstrip(".")))
    return list(dict.fromkeys(name for name in plain if name.lower().startswith(word.lower())))


def _columns(db: Connection, names: Iterable[str]) -> list[str]:
    tables, views = set(db.tables), set(db.views)
    found = [(db.table if name in tables else db.view)(name) for name in names if name in tables | views]
    return [column.name for each in found for column in each.schema]


def _arguments(db: Connection, command: str, word: str) -> list[str]:
    match command:
        case ".explain" | ".watch":
            return _starting(db.views, word)
        case ".mode":
            return _starting([each.value for each in Format], word)
        case ".timer":
            return _starting(["on", "off"], word)
        case ".read":
            files = sorted(glob(escape(word) + "*"))
            return [f"{each}/" if Path(each).is_dir() else each for each in files]
        case _:
            return []
