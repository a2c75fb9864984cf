"""The worked examples of the paper, with its numbers."""

from __future__ import annotations

from datetime import datetime

import pytest

import viewlet
from viewlet.errors import SqlError

LOSSES = [6, 12, 15, 24, 20, 16, 7]
M = "CREATE STREAM m (ts TIMESTAMP, src VARCHAR, dest VARCHAR, loss BIGINT) PARTITION LENGTH 60 BY ts"
HELPER = """
    CREATE VIEW helper AS
    INITIALIZE helper[i] AS
        SELECT src, dest, 1 AS ct, loss AS sum_loss FROM m[i] WHERE loss > 10
    UPDATE helper[j] AS
        SELECT new.src, new.dest, COALESCE(ct, 0) + 1, COALESCE(sum_loss, 0) + new.loss
        FROM m[j] AS new LEFT OUTER JOIN helper[j-1] AS prev
          ON new.src IS NOT DISTINCT FROM prev.src AND new.dest IS NOT DISTINCT FROM prev.dest
        WHERE new.loss > 10
    PARTITION LENGTH 60"""
VIEW2 = """
    CREATE VIEW view2 AS
    INITIALIZE view2[i] AS SELECT src, dest, ct, sum_loss FROM helper[i] WHERE ct >= 4
    UPDATE VIEW view2[j] AS SELECT src, dest, ct, sum_loss FROM helper[j] WHERE ct >= 4"""


def minute(number: int) -> datetime:
    return datetime(2015, 1, 1, 10, number)


@pytest.fixture
def db() -> viewlet.Connection:
    return viewlet.connect()


def test_high_packet_loss_is_reported_at_10_04_and_10_05_and_no_longer_at_10_06(db: viewlet.Connection) -> None:
    for statement in (M, HELPER, VIEW2):
        db.execute(statement)
    for number, loss in enumerate(LOSSES):
        db.insert("m", [(minute(number), "a", "b", loss)])
    db.close_parts("m", minute(7))
    assert db.view("view2").rows() == [("a", "b", 4, 71, minute(4)), ("a", "b", 5, 87, minute(5))]
    assert db.view("view2").part("2015-01-01 10:04").to_pylist()[0]["sum_loss"] == 71
    assert db.view("view2").newest().num_rows == 0
    found = db.execute("SELECT ct FROM view2 WHERE part_timestamp = TIMESTAMP '2015-01-01 10:05:00'")
    assert found.to_pylist() == [{"ct": 5}]


def test_hourly_sums_of_a_stream_by_minutes(db: viewlet.Connection) -> None:
    """View 3; hour i has the minutes 60 * i to 60 * i + 59, since both subscripts count from Unix time 0."""
    db.execute(M)
    db.execute("""
        CREATE VIEW view3 AS
        INITIALIZE view3[i] AS SELECT src, SUM(loss) AS loss, COUNT(*) AS n FROM m[i*60 .. i*60+59] GROUP BY src
        UPDATE view3[j] AS SELECT src, SUM(loss), COUNT(*) FROM m[j*60..j*60+59] GROUP BY src
        PARTITION LENGTH 3600""")
    db.insert("m", [(datetime(2015, 1, 1, 10, 59, 59), "a", "b", 3), (datetime(2015, 1, 1, 11), "a", "b", 5)])
    assert db.view("view3").rows() == [("a", 3, 1, datetime(2015, 1, 1, 10))]
    db.close_parts("m", "2015-01-01 11:59:59")
    assert len(db.view("view3").parts()) == 1
    db.close_parts("m", "2015-01-01 12:00")
    assert db.view("view3").rows()[1:] == [("a", 5, 1, datetime(2015, 1, 1, 11))]
    assert [part.number for part in db.view("view3").parts()] == [394474, 394475]


def test_a_part_is_numbered_by_unix_time_over_its_length(db: viewlet.Connection) -> None:
    db.execute(M)
    db.stream_view("copy", initialize="SELECT src, loss FROM m[i]")
    db.insert("m", [(datetime(2015, 1, 1), "a", "b", 1)])
    db.close_parts("m", datetime(2015, 1, 1, 0, 1))
    assert [part.number for part in db.view("copy").parts()] == [23667840]


def test_a_band_join_waits_for_both_streams(db: viewlet.Connection) -> None:
    db.execute("CREATE STREAM m (ts TIMESTAMP, k BIGINT, a BIGINT) PARTITION LENGTH 60 BY ts")
    db.execute("CREATE STREAM n (at TIMESTAMP, k BIGINT, b BIGINT) PARTITION LENGTH 60 BY at")
    db.execute("""
        CREATE VIEW j AS INITIALIZE j[i] AS SELECT k, a, b FROM m[i] NATURAL JOIN n[i]
        UPDATE j[j] AS SELECT k, a, b FROM m[j] NATURAL JOIN n[j] PARTITION LENGTH 60""")
    db.insert("m", [(minute(0), 1, 10), (minute(1), 1, 11), (minute(2), 1, 12)])
    assert db.view("j").rows() == []
    db.insert("n", [(minute(0), 1, 20), (minute(1), 2, 21)])
    assert db.view("j").rows() == [(1, 10, 20, minute(0))]
    db.insert("n", [(minute(2), 1, 22)])
    assert [part.rows for part in db.view("j").parts()] == [1, 0]
    db.insert("n", [(minute(1), 1, 23)])
    assert db.view("j").rows() == [(1, 10, 20, minute(0)), (1, 11, 23, minute(1))]


def test_figure_5_distributive_and_subtractable_aggregates(db: viewlet.Connection) -> None:
    db.execute("CREATE STREAM s (ts TIMESTAMP, a BIGINT) PARTITION LENGTH 60 BY ts")
    db.execute("""
        CREATE VIEW minutes AS INITIALIZE minutes[i] AS SELECT MAX(a) AS largest, SUM(a) AS total FROM s[i]
        UPDATE minutes[j] AS SELECT MAX(a), SUM(a) FROM s[j]""")
    db.execute("""
        CREATE VIEW view5 AS INITIALIZE view5[i] AS SELECT MAX(largest) AS largest FROM minutes[i-3..i]
        UPDATE view5[j] AS SELECT MAX(largest) FROM minutes[j-3..j]""")
    db.execute("""
        CREATE VIEW csum AS INITIALIZE csum[i] AS SELECT SUM(total) AS total FROM minutes[i]
        UPDATE csum[j] AS SELECT SUM(total) FROM (
            SELECT total FROM minutes[j] UNION ALL SELECT total FROM csum[j-1]) AS both""")
    db.execute("""
        CREATE VIEW view6 AS INITIALIZE view6[i] AS SELECT total FROM csum[i]
        UPDATE view6[j] AS SELECT SUM(t) FROM (
            SELECT total AS t FROM csum[j] UNION ALL SELECT -total FROM csum[j-4]) AS both""")
    minutes = [[10, 4, 2, 5, 6], [5, 3, 3, 4], [4, 4, 2, 3], [1, 1, 3, 9, 1, 4], [7, 1, 2, 1, 7]]
    db.insert("s", [(minute(number), value) for number, values in enumerate(minutes) for value in values])
    db.close_parts("s", minute(5))
    assert [total for total, _ in db.view("csum").rows()] == [27, 42, 55, 74, 92]
    by_time = {time: largest for largest, time in db.view("view5").rows()}
    assert (by_time[minute(3)], by_time[minute(4)]) == (10, 9)
    totals = {time: total for total, time in db.view("view6").rows()}
    assert (totals[minute(3)], totals[minute(4)]) == (74, 65)


def test_figure_5_by_translation(db: viewlet.Connection) -> None:
    """Views 5 and 6, from a query over a window."""
    db.execute("CREATE STREAM s (ts TIMESTAMP, g BIGINT, a BIGINT) PARTITION LENGTH 60 BY ts")
    db.execute("CREATE VIEW view5 AS SELECT g, MAX(a) AS a FROM s [WINDOW 4 MINUTES] GROUP BY g")
    db.execute("CREATE VIEW view6 AS SELECT g, SUM(a) AS a FROM s [WINDOW 240 SECONDS] GROUP BY g")
    db.execute("CREATE VIEW longer AS SELECT g, SUM(a) AS a FROM s [WINDOW 5 MINUTES] GROUP BY g")
    minutes = [[10, 4, 2, 5, 6], [5, 3, 3, 4], [4, 4, 2, 3], [1, 1, 3, 9, 1, 4], [7, 1, 2, 1, 7]]
    db.insert("s", [(minute(number), 1, value) for number, values in enumerate(minutes) for value in values])
    db.close_parts("s", minute(5))
    for name, expected in (("view5", (10, 9)), ("view6", (74, 65)), ("longer", (74, 92))):
        by_time = {time: value for _, value, time in db.view(name).rows()}
        assert (by_time[minute(3)], by_time[minute(4)]) == expected
    assert db.view("view6").stats()["strategy"] == "window of partial aggregates"
    assert db.view("longer").stats()["strategy"] == "window of partial aggregates"


def test_prices_above_the_previous_one_across_the_boundary_of_a_part(db: viewlet.Connection) -> None:
    """Section 6: hourly parts that read the hour before find the record of 11:00."""
    db.execute("CREATE STREAM quotes (ts TIMESTAMP, stock VARCHAR, price DECIMAL(9,2)) PARTITION LENGTH 3600 BY ts")
    query = """
        SELECT ts, stock, price FROM (
            SELECT ts, stock, price, LAG(price) OVER (PARTITION BY stock ORDER BY ts) AS before FROM quotes[{0}-1..{0}])
        WHERE price > before AND ts >= (SELECT MIN(ts) FROM quotes[{0}])"""
    db.execute(f"""
        CREATE VIEW risen AS INITIALIZE risen[i] AS {query.format("i")} UPDATE risen[j] AS {query.format("j")}""")
    prices = [("10:58", "5.00"), ("10:59", "4.95"), ("11:00", "4.97"), ("11:01", "4.98")]
    db.insert("quotes", [(f"2015-01-01 {time}:00", "Acme", price) for time, price in prices])
    db.close_parts("quotes", "2015-01-01 12:00")
    assert [f"{time:%H:%M}" for time, *_ in db.view("risen").rows()] == ["11:00", "11:01"]


@pytest.mark.parametrize(
    ("update", "reason"),
    [
        ("SELECT src FROM m[0..j]", "all history"),
        ("SELECT src FROM m[j*60]", "moves 60 parts"),
        ("SELECT src FROM v[j]", "only earlier parts of itself"),
        ("SELECT src FROM m", "say which"),
        ("SELECT src FROM m[k]", "variable"),
        ("SELECT nothing FROM m[j]", "nothing"),
        ("SELECT src, loss FROM m[j]", "columns"),
        ("SELECT src FROM m[j*j]", "multiplied by numbers"),
        ("SELECT src FROM nowhere", "no table or view"),
    ],
)
def test_references_are_checked(db: viewlet.Connection, update: str, reason: str) -> None:
    db.execute(M)
    with pytest.raises(SqlError, match=reason):
        db.execute(f"CREATE VIEW v AS INITIALIZE v[i] AS SELECT src FROM m[i] UPDATE v[j] AS {update}")


def test_initialize_does_not_read_the_view_itself(db: viewlet.Connection) -> None:
    db.execute(M)
    with pytest.raises(SqlError, match="first part has no earlier one"):
        db.execute("CREATE VIEW v AS INITIALIZE v[i] AS SELECT src FROM v[i-1] UPDATE v[j] AS SELECT src FROM m[j]")
