"""The dialect of SQLAlchemy: tables, the mapper, reflection, and data frames."""

from __future__ import annotations

from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import viewlet

sa = pytest.importorskip("sqlalchemy")
orm = pytest.importorskip("sqlalchemy.orm")


class Base(orm.DeclarativeBase):  # type: ignore[misc, name-defined]
    pass


class Customer(Base):
    __tablename__ = "customer"
    id = sa.Column(sa.Integer, primary_key=True)
    name = sa.Column(sa.String(20), nullable=False, unique=True)
    born = sa.Column(sa.Date)
    orders = orm.relationship("Order", back_populates="customer")


class Order(Base):
    __tablename__ = "order"  # a word of SQL
    id = sa.Column(sa.BigInteger, primary_key=True)
    customer_id = sa.Column(sa.ForeignKey("customer.id"), nullable=False)
    total = sa.Column(sa.Numeric(9, 2), sa.CheckConstraint("total > 0"), nullable=False)
    placed = sa.Column(sa.DateTime, server_default=sa.text("TIMESTAMP '2026-01-01'"))
    is_paid = sa.Column(sa.Boolean, default=False)
    weight = sa.Column(sa.Float)
    customer = orm.relationship("Customer", back_populates="orders")


@pytest.fixture(params=["memory", "directory"])
def engine(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    made = sa.create_engine("viewlet://" if request.param == "memory" else f"viewlet:///{tmp_path}/db")
    Base.metadata.create_all(made)
    yield made
    made.dispose()


def test_objects_are_kept(engine: Any) -> None:
    with orm.Session(engine) as session:
        ada = Customer(name="Ada", born=date(1990, 1, 2))
        ada.orders = [Order(total=Decimal("10.50"), weight=0.5), Order(total=Decimal("4.00"), is_paid=True)]
        session.add_all([ada, Customer(name="Bo")])
        session.commit()
        assert ada.id is not None
        assert [order.placed for order in ada.orders] == [datetime(2026, 1, 1)] * 2
        ada.orders[0].total = Decimal("11.00")
        session.delete(ada.orders[1])
        session.flush()
        assert session.scalars(sa.select(Order.total)).all() == [Decimal("11.00")]
        session.rollback()
        totals = sa.select(Customer.name, sa.func.sum(Order.total)).join(Order).group_by(Customer.name)
        assert session.execute(totals).all() == [("Ada", Decimal("14.50"))]
        assert session.scalars(sa.select(Order).where(Order.is_paid).limit(1)).one().total == 4
        session.add(Customer(name="Ada"))
        with pytest.raises(sa.exc.IntegrityError, match="UNIQUE"):
            session.commit()
        session.rollback()
        assert session.scalar(sa.select(sa.func.count()).select_from(Customer)) == 2


def test_views_follow_what_the_mapper_writes(engine: Any) -> None:
    with engine.begin() as connection:
        connection.exec_driver_sql(
            'CREATE MATERIALIZED VIEW spend AS SELECT customer_id, SUM(total) AS total FROM "order" GROUP BY 1'
        )
    with orm.Session(engine) as session:
        session.add(Customer(name="Ada", orders=[Order(total=2), Order(total=3)]))
        session.commit()
    spend = sa.Table("spend", sa.MetaData(), autoload_with=engine)
    with engine.connect() as connection:
        assert [total for _, total in connection.execute(sa.select(spend))] == [Decimal("5.00")]


def test_reflection_finds_what_was_declared(engine: Any) -> None:
    found = sa.inspect(engine)
    assert found.get_table_names() == ["customer", "order"]
    assert found.get_view_names() == []
    assert (found.has_table("customer"), found.has_table("nothing")) == (True, False)
    metadata = sa.MetaData()
    metadata.reflect(engine)
    again = metadata.tables["order"]
    assert [key.name for key in again.primary_key] == ["id"]
    assert [key.target_fullname for key in again.foreign_keys] == ["customer.id"]
    types = {column.name: (str(column.type), column.nullable) for column in again.columns}
    assert types["total"] == ("DECIMAL(9, 2)", False)
    assert types["placed"] == ("TIMESTAMP", True)
    assert found.get_unique_constraints("customer")[0]["column_names"] == ["name"]
    assert [each["sqltext"] for each in found.get_check_constraints("order")] == ["(total > 0)"]
    with pytest.raises(sa.exc.NoSuchTableError):
        sa.Table("nothing", sa.MetaData(), autoload_with=engine)


def test_data_frames_go_in_and_out(engine: Any) -> None:
    frame = pd.DataFrame({"k": [1, 2], "s": ["a", None], "x": [0.5, None], "at": pd.to_datetime(["2026-01-01", None])})
    frame.to_sql("frame", engine, index=False)
    again = pd.read_sql("SELECT * FROM frame ORDER BY k", engine)
    assert again["s"].tolist() == ["a", None]
    assert again["x"].tolist()[0] == 0.5
    assert pd.read_sql_table("frame", engine)["k"].tolist() == [1, 2]
    frame.to_sql("frame", engine, index=False, if_exists="append", method="multi")
    frame.to_sql("frame", engine, index=False, if_exists="replace")
    assert len(pd.read_sql(sa.text("SELECT k FROM frame WHERE k > :least"), engine, params={"least": 1})) == 1


def test_an_open_connection_is_handed_over() -> None:
    db = viewlet.connect()
    db.execute("CREATE TABLE t (k INTEGER)")
    engine = sa.create_engine("viewlet://", connect_args={"database": db})
    with engine.begin() as connection:
        connection.execute(sa.text("INSERT INTO t VALUES (:k)"), [{"k": 1}, {"k": 2}])
    engine.dispose()
    assert db.table("t").rows() == [(1,), (2,)]


@pytest.mark.parametrize("column", [sa.LargeBinary, sa.Time, sa.JSON, sa.DateTime(timezone=True)])
def test_types_that_are_not_there_are_refused(column: Any) -> None:
    engine = sa.create_engine("viewlet://")
    with pytest.raises(sa.exc.CompileError, match="Viewlet has"):
        sa.MetaData().create_all(engine) or sa.Table("t", sa.MetaData(), sa.Column("c", column)).create(engine)
    with pytest.raises(sa.exc.ArgumentError, match="directory"):
        sa.create_engine("viewlet://user@host/db").connect()
