"""A connection may be shared: writers take turns, and readers see whole batches."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import viewlet


def test_writers_and_readers_in_parallel() -> None:
    db = viewlet.connect()
    db.execute(
        """
        CREATE TABLE debit (id BIGINT, amount BIGINT); CREATE TABLE credit (id BIGINT, amount BIGINT);
        CREATE MATERIALIZED VIEW debits AS SELECT SUM(amount) AS s, COUNT(*) AS n FROM debit;
        CREATE MATERIALIZED VIEW balance AS
            SELECT SUM(a) AS s FROM (SELECT amount AS a FROM debit UNION ALL SELECT -amount AS a FROM credit) x;
        """
    )
    epochs: list[int] = []
    db.view("debits").subscribe(lambda epoch, changes: epochs.append(epoch))

    def write(writer: int) -> None:
        for step in range(15):
            rows = [(100 * writer + step, step + 1)]
            db.apply({"debit": rows, "credit": rows})

    def read(_: int) -> list[object]:
        balances: list[object] = []
        for _ in range(15):
            balances += [row[0] for row in db.view("balance").rows()]
            balances += db.execute("SELECT SUM(d.amount - c.amount) AS s FROM debit d JOIN credit c USING (id)")[
                "s"
            ].to_pylist()
        return balances

    with ThreadPoolExecutor(6) as pool:
        writers = [pool.submit(write, number) for number in range(3)]
        readers = [pool.submit(read, number) for number in range(3)]
        for job in writers:
            job.result()
        assert {balance for job in readers for balance in job.result()} <= {0, None}
    assert epochs == list(range(1, 46))
    assert db.view("debits").rows() == [(3 * 120, 45)]


def test_several_views_are_read_at_one_epoch() -> None:
    db = viewlet.connect()
    db.execute("""CREATE TABLE t (x INTEGER); CREATE MATERIALIZED VIEW a AS SELECT COUNT(*) AS n FROM t;
        CREATE MATERIALIZED VIEW b AS SELECT COUNT(x) AS n FROM t""")
    with ThreadPoolExecutor(2) as pool:
        jobs = [pool.submit(lambda: [db.insert("t", [(k,)]) for k in range(60)]) for _ in range(2)]
        for _ in range(60):
            with db.same_epoch() as epoch:
                counted = db.view("a").rows(), len(db.table("t")), db.execute("SELECT n FROM b")["n"].to_pylist()
                assert db.epoch == epoch
            assert counted[0] == [(counted[1],)] == [tuple(counted[2])]
        for job in jobs:
            job.result()
    assert len(db.table("t")) == 120
