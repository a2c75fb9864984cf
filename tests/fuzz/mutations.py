# ruff: noqa: E501
"""Mutated SQL: statements that work, changed token by token, most of the time into something of the same kind."""

from __future__ import annotations

import random
import re
from collections.abc import Sequence

TOKEN = re.compile(r"'(?:[^']|'')*'|\"(?:[^\"]|\"\")*\"|\d+\.?\d*(?:e-?\d+)?|\w+|<=|>=|<>|\|\||::|//|\s+|\S")

SEEDS = """
SELECT a, SUM(b) AS s, COUNT(*) AS n FROM r GROUP BY a
SELECT r.a, s.c, COUNT(*) AS n FROM r JOIN s ON r.b = s.b GROUP BY r.a, s.c
SELECT r.a, s.c FROM r LEFT JOIN s ON r.b = s.b AND s.c > 2 WHERE r.a IS NOT NULL
SELECT r.a, s.c FROM r FULL JOIN s USING (b)
SELECT DISTINCT a FROM r UNION SELECT c FROM s EXCEPT SELECT d FROM t
SELECT a FROM r WHERE b IN (SELECT b FROM s WHERE c > 1) AND NOT EXISTS (SELECT 1 FROM t WHERE t.c = r.a)
SELECT a FROM r WHERE b > ALL (SELECT c FROM s) OR a = ANY (SELECT d FROM t)
SELECT name, SUM(total) AS s FROM orders WHERE day >= DATE '2024-01-01' GROUP BY name HAVING SUM(total) > 1 ORDER BY s DESC NULLS LAST, name LIMIT 5
SELECT CASE WHEN total > 5 THEN 'big' WHEN total IS NULL THEN NULL ELSE 'small' END AS k, AVG(x) AS m FROM orders GROUP BY 1
SELECT EXTRACT(YEAR FROM day) AS y, MIN(ts) AS lo, MAX(name) AS hi, COUNT(DISTINCT custkey) AS u FROM orders GROUP BY EXTRACT(YEAR FROM day)
SELECT UPPER(SUBSTRING(name, 1, 2)) || '-' || CAST(custkey AS VARCHAR) AS k FROM orders WHERE name LIKE 'a%' AND COALESCE(total, 0) <> 1.25
WITH q AS (SELECT custkey, SUM(total) AS t FROM orders GROUP BY custkey) SELECT nation, MAX(t) AS m FROM q NATURAL JOIN customer GROUP BY nation
SELECT o.custkey FROM orders o WHERE o.total > (SELECT AVG(total) FROM orders p WHERE p.custkey = o.custkey)
SELECT COFACTOR(a, b, c) FROM r NATURAL JOIN s
SELECT nation, COFACTOR(x, CATEGORICAL(custkey)) FROM orders NATURAL JOIN customer GROUP BY nation
SELECT FACTORIZED * FROM r NATURAL JOIN s NATURAL JOIN t
SELECT a FROM r INTERSECT ALL SELECT c FROM s
SELECT DATE_TRUNC('month', ts) AS m, ROUND(x, 1) AS q, x * 2 - 1 / custkey AS z, -total AS w FROM orders
SELECT a + b AS x, a * 2 AS y, b % 3 AS z FROM r WHERE a BETWEEN 1 AND 5
SELECT day + INTERVAL '1' MONTH AS d, ts - INTERVAL '2' HOUR AS h FROM orders WHERE day IS NOT NULL
SELECT COUNT(*) AS n, SUM(x) AS s, STDDEV_SAMP(x) AS d FROM orders WHERE custkey > 0
SELECT n, COUNT(a) AS c FROM (VALUES (1), (2), (3)) AS v(n) LEFT JOIN r ON r.a = v.n GROUP BY n
SELECT a, b FROM r ORDER BY a DESC, b LIMIT 3 OFFSET 1
SELECT a FROM r WHERE a IN (1, 2, 3, 5) OR b NOT IN (4, 6)
SELECT COALESCE(a, 0) AS x, NULLIF(b, 2) AS y, GREATEST(a, b) AS g FROM r
SELECT r.a, SUM(s.c) FILTER (WHERE s.c > 1) AS f FROM r CROSS JOIN s GROUP BY r.a
SELECT custkey, BOOL_AND(total > 1) AS b, MIN(day) AS d FROM orders GROUP BY custkey
SELECT LENGTH(name) AS l, REPLACE(name, 'a', 'b') AS p, TRIM(name) AS q FROM orders
SELECT a, (SELECT MAX(c) FROM s WHERE s.b = r.b) AS m FROM r
INSERT INTO r VALUES (1, 2), (NULL, 3)
INSERT INTO orders (orderkey, total, day) SELECT a + 100, 1.5, DATE '2025-01-01' FROM r WHERE a IS NOT NULL
UPDATE orders SET total = total + 1, name = UPPER(name) WHERE orderkey = 1
UPDATE r SET a = b WHERE a > 1
DELETE FROM r WHERE a > 100 OR b IN (SELECT c FROM s)
CREATE TABLE zz (k BIGINT PRIMARY KEY, v DECIMAL(10,2) NOT NULL, w VARCHAR, CHECK (k >= 0))
CREATE STREAM ss (k BIGINT, v DOUBLE)
DROP TABLE IF EXISTS zz
EXPLAIN SELECT a, SUM(b) AS s FROM r GROUP BY a
CREATE STREAM zs (ts TIMESTAMP, g VARCHAR, x BIGINT) PARTITION LENGTH 60 BY ts WATERMARK FOR ts AS ts - INTERVAL '5' SECOND LATENESS INTERVAL '1' HOUR
CREATE STREAM zs (ts TIMESTAMP, g VARCHAR) PARTITION LENGTH 60 BY ts UNIQUE (g) NOT ENFORCED RETAIN INTERVAL '7' DAY ARCHIVE ROLLUP INTERVAL '1' HOUR AFTER INTERVAL '1' DAY IDLE AFTER INTERVAL '1' MINUTE
CREATE VIEW zv AS INITIALIZE zv[i] AS SELECT g, SUM(x) AS x, COUNT(*) AS n FROM m[i*2..i*2+1] GROUP BY g UPDATE zv[j] AS SELECT g, SUM(x), COUNT(*) FROM m[j*2..j*2+1] GROUP BY g PARTITION LENGTH 120 RETAIN INTERVAL '30' DAY
CREATE VIEW zv AS INITIALIZE zv[i] FROM BEGINNING AS SELECT g, x AS total FROM m[i] WHERE x > 1 UPDATE VIEW zv[j] AS SELECT g, total + 1 FROM zv[j-1] UNION ALL SELECT g, x FROM m[j] UNION ALL SELECT g, x FROM m[j+1..j+2 IF CLOSED] SHOW NEWEST
CREATE VIEW zv AS SELECT g, MAX(x) AS x, COUNT(*) AS n FROM m [WINDOW 4 MINUTES] WHERE x > 0 GROUP BY g HAVING COUNT(*) > 1
CREATE VIEW zv AS SELECT g, COUNT(*) AS n, SUM(x) AS x FROM m PATTERN [a+, b] WHERE a.x > 1 AND b.x > a.x GROUP BY g
CREATE VIEW zv AS SELECT g, since, low FROM m MATCH_RECOGNIZE (PARTITION BY g ORDER BY ts MEASURES FIRST(ts) AS since, MIN(x) AS low PATTERN (a b+) DEFINE b AS x < PREV(x))
CREATE VIEW zv AS SELECT * FROM m MATCH_RECOGNIZE (PARTITION BY g ORDER BY ts MEASURES LAST(b.x) AS last, COUNT(*) AS n, CLASSIFIER() AS c ONE ROW PER MATCH AFTER MATCH SKIP PAST LAST ROW PATTERN (a b{1,3} c?) DEFINE a AS x > 1, b AS b.x > a.x AND b.x < 100)
CREATE VIEW zv AS SELECT g, window_start, SUM(x) AS x FROM TUMBLE(m, INTERVAL '2' MINUTE) GROUP BY g, window_start, window_end
CREATE VIEW zv AS SELECT g, window_end, COUNT(*) AS n FROM HOP(m, INTERVAL '1' MINUTE, INTERVAL '5' MINUTE) GROUP BY g, window_end EMIT ON WINDOW CLOSE
CREATE VIEW zv AS SELECT g, window_start, COUNT(*) AS n FROM SESSION(m PARTITION BY g, INTERVAL '2' MINUTE) GROUP BY g, window_start
CREATE MATERIALIZED VIEW zv AS SELECT * FROM sample(ev, KEY => g, TIME => at, VALUE => x, PERIOD => 10, INTERPOLATE => 'linear', MAX_GAP => 100)
CREATE MATERIALIZED VIEW zv AS SELECT * FROM moving(ev, KEY => g, TIME => at, VALUE => x, PERIOD => 10, OPERATION => 'sum', SIZE => 3, HOP => 2)
CREATE MATERIALIZED VIEW zv AS SELECT * FROM lfilter(ev, KEY => g, TIME => at, VALUE => x, PERIOD => 10, B => [0.5, 1.0], A => [1.0, -0.5])
CREATE MATERIALIZED VIEW zv AS SELECT * FROM matrix_program('input A(n, n); B := A * A + 2 * A; C := power(B, 3) + I(n);', 'C', mx)
CREATE MATERIALIZED VIEW zv AS SELECT * FROM matrix_program('input X(m, n), Y(m, k); B := inv(X'' * X + 0.5 * I(n)) * X'' * Y;', 'B', mx, my)
""".strip().splitlines()

KINDS: Sequence[frozenset[str]] = tuple(
    frozenset(words.split())
    for words in (
        "a b c d custkey orderkey",
        "total x",
        "name nation",
        "day ts",
        "+ - * %",
        "< > <= >= = <>",
        "AND OR",
        "SUM MIN MAX AVG COUNT",
        "LEFT RIGHT FULL INNER",
        "UNION EXCEPT INTERSECT",
        "1 2 3 5 100",
        "YEAR MONTH DAY",
        "UPPER LOWER TRIM",
        "ASC DESC",
        "BIGINT INTEGER DOUBLE VARCHAR",
        "SECOND MINUTE HOUR",
        "60 120 180",
        "FIRST LAST PREV NEXT",
        "g x ts",
    )
)
HOSTILE = (
    """
NULL;-1;0;1e400;99999999999999999999999999;'';(;));,;*;LATERAL;INTERVAL '1' DAY;DATE '0001-01-01';DATE 'x';CAST(NULL AS DOUBLE);::BOOLEAN;::DATE
OVER ();FILTER (WHERE TRUE);DISTINCT;LIMIT -1;LIMIT 99999999999999999999;OFFSET 1.5;ORDER BY 99;GROUP BY 1;HAVING NULL;[1];{'a':1};$1;?;:x;@v;ARRAY[1]
X'ff';1_000;0x1F;COUNT();SUM();MIN(*);SUM(SUM(1));COFACTOR();CATEGORICAL(1);FACTORIZED;EXISTS;IN ();IN (NULL);CASE END;BETWEEN;LIKE NULL;ESCAPE ''
LIKE '%' ESCAPE '%%';EXTRACT(EPOCH FROM 1);SUBSTRING('a',-1,-1);POWER(10,1000);1/0;1%0;-9223372036854775808;ABS(-9223372036854775808);CAST('x' AS INT)
CAST(1e300 AS INT);TRUE;r.*;r.;a.b.c.d;VERSION AS OF 3;AT (VERSION => 1);TABLESAMPLE 5;DIV;SIMILAR TO 'x';IGNORE NULLS;FOR UPDATE;QUALIFY TRUE;WITH TIES
COLLATE x;é;"";"\u2028";#;\\;~;!;->;=>;:=;@@x;$$x$$;E'\\n';U&'x';b'1';^;|;&;<<;ROLLUP (a);UNNEST([1]);PIVOT;STRUCT(1);MAP {};TRY_CAST(a AS DATE);read_text('x')
m[j];m[;m[j/0];m[j*j];m[99999999999999999999];m[j..];m[j-1..j IF CLOSED];INTERVAL '1e400' DAY;INTERVAL '' DAY;INTERVAL 'nan' HOUR;[WINDOW 0 MINUTES];PATTERN [a];PATTERN ();
(a|b)*;{0,};{2,1};^ a $;PERMUTE(a, b);"$part0_0";'"$part0_0"';'"$rows"';part_timestamp;INITIALIZE;UPDATE;PARTITION LENGTH 0;EMIT CHANGES;RETAIN;=> 'x';=> [];=> -1;=> 1e400;²
""".replace("\n", ";")
    .strip(";")
    .split(";")
)
FUNCTIONS = [
    "COALESCE",
    "NULLIF",
    "SUBSTRING",
    "TRIM",
    "UPPER",
    "ROUND",
    "FLOOR",
    "CEIL",
    "SQRT",
    "LN",
    "EXP",
    "POWER",
    "ABS",
    "MOD",
    "YEAR",
    "EXTRACT",
    "DATE_TRUNC",
    "GREATEST",
    "LEAST",
    "CONCAT",
    "REPLACE",
    "LENGTH",
    "POSITION",
    "STDDEV",
    "VARIANCE",
    "AVG",
    "MIN",
    "MAX",
    "COUNT",
    "SUM",
    "SIGN",
    "REVERSE",
    "LEFT",
    "RIGHT",
    "CAST",
    "DATE_DIFF",
    "MONTH",
    "LOG",
]
WORDS = sorted({token for seed in SEEDS for token in TOKEN.findall(seed) if token.strip()})


def mutate(text: str, rng: random.Random) -> str:
    """A statement like `text`: usually one token of it exchanged for one of its kind, sometimes anything."""
    tokens = TOKEN.findall(text)
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        gentle = rng.random() < 0.87
        tokens = _exchange(tokens, rng) if gentle else _disturb(tokens, rng)
    return "".join(tokens)


def _exchange(tokens: list[str], rng: random.Random) -> list[str]:
    places = [(i, kind) for i, token in enumerate(tokens) for kind in KINDS if token in kind]
    if not places:
        return tokens
    at, kind = rng.choice(places)
    return [*tokens[:at], rng.choice(sorted(kind)), *tokens[at + 1 :]]


def _disturb(tokens: list[str], rng: random.Random) -> list[str]:
    words = [i for i, token in enumerate(tokens) if token.strip()] or [0]
    at = rng.choice(words)
    match rng.randrange(9):
        case 0:
            return tokens[:at] + tokens[at + 1 :]
        case 1:
            end = min(len(tokens), at + rng.randrange(1, 8))
            return [*tokens[:end], " ", *tokens[at:]]
        case 2:
            other = rng.choice(words)
            swapped = list(tokens)
            swapped[at], swapped[other] = swapped[other], swapped[at]
            return swapped
        case 3:
            return [*tokens[:at], rng.choice(WORDS), *tokens[at + 1 :]]
        case 4:
            return [*tokens[:at], " ", rng.choice(WORDS), " ", *tokens[at:]]
        case 5:
            return [*tokens[:at], " ", rng.choice(HOSTILE), " ", *tokens[at:]]
        case 6:
            return [*tokens[:at], rng.choice(HOSTILE), *tokens[at + 1 :]]
        case 7:
            more = f", {rng.choice(HOSTILE + WORDS)}" if rng.random() < 0.4 else ""
            return [*tokens[:at], f"{rng.choice(FUNCTIONS)}({tokens[at]}{more})", *tokens[at + 1 :]]
        case _:
            return [*tokens[:at], "(", _expression(rng), ")", *tokens[at + 1 :]]


def _expression(rng: random.Random) -> str:
    """A piece of another statement: what stands between two commas or keywords of it."""
    pieces = re.split(r",|\bFROM\b|\bWHERE\b|\bGROUP BY\b|\bSELECT\b|\bAND\b|\bAS\b", rng.choice(SEEDS))
    return rng.choice([piece for piece in pieces if piece.strip()])
