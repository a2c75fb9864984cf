"""The TPC-H queries as Pathway dataflows, each what a user who knows Pathway and the data would write.

Pathway has no exact decimals and no days, so columns arrive as the compiled engine gets them: DECIMAL(15,2) as
hundredths, DATE as days since 1970, both integers. A sum of l_extendedprice * (1 - l_discount) is in ten thousandths.
Selections stand before joins, joins keep only the columns that are read later, and nested aggregates are rewritten into
groups that are joined back. ORDER BY and LIMIT are left out: the whole answer is kept.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import date
from typing import Any

import pathway as pw

Tables = Mapping[str, Any]

_DAY_ZERO = date(1970, 1, 1)
_LEAP_YEAR, _DAYS_BEFORE_ZERO, _FOUR_YEARS = 1968, 731, 1461


def day(text: str) -> int:
    return (date.fromisoformat(text) - _DAY_ZERO).days


def year(days: Any) -> Any:
    """The year of a day number, right from 1968 to 2099: every fourth year, the first one included, is a leap year."""
    return _LEAP_YEAR + (days + _DAYS_BEFORE_ZERO) * 4 // _FOUR_YEARS


def equi(left: Any, right: Any, on: Mapping[str, str], *keep: str) -> Any:
    """The equi-join of two tables, with these columns of either side; without `on` the product."""
    conditions = [left[mine] == right[other] for mine, other in on.items()]
    columns = {name: left[name] if name in left.column_names() else right[name] for name in keep}
    return left.join(right, *conditions).select(**columns)


def without(left: Any, right: Any, mine: str, other: str) -> Any:
    """Rows that have no partner: the anti-join; `other` is unique in `right`."""
    columns = {name: left[name] for name in left.column_names()}
    joined = left.join_left(right, left[mine] == right[other]).select(**columns, partner=right[other])
    return joined.filter(joined.partner.is_none())


def group(table: Any, by: str, **aggregates: Any) -> Any:
    """GROUP BY with the group's own columns first."""
    columns = [table[name] for name in by.split()]
    return table.groupby(*columns).reduce(*columns, **aggregates)


def distinct(table: Any, *columns: str) -> Any:
    return group(table, " ".join(columns))


def one_of(column: Any, *values: Any) -> Any:
    found = column == values[0]
    for value in values[1:]:
        found = found | (column == value)
    return found


def between(column: Any, low: Any, high: Any) -> Any:
    return (column >= low) & (column <= high)


def within(column: Any, begin: str, end: str) -> Any:
    """Days from `begin` to before `end`."""
    return (column >= day(begin)) & (column < day(end))


def contains_in_turn(column: Any, first: str, second: str) -> Any:
    """LIKE '%first%second%'"""
    place = column.str.find(first)
    return (place >= 0) & (column.str.find(second, place + len(first)) >= 0)


def discounted(table: Any = pw.this) -> Any:
    return table.l_extendedprice * (100 - table.l_discount)


def q01(t: Tables) -> Any:
    lines = t["lineitem"].filter(pw.this.l_shipdate <= day("1998-09-02"))
    return group(
        lines, "l_returnflag l_linestatus",
        sum_qty=pw.reducers.sum(lines.l_quantity),
        sum_base_price=pw.reducers.sum(lines.l_extendedprice),
        sum_disc_price=pw.reducers.sum(discounted(lines)),
        sum_charge=pw.reducers.sum(discounted(lines) * (100 + lines.l_tax)),
        avg_qty=pw.reducers.avg(lines.l_quantity) / 100,
        avg_price=pw.reducers.avg(lines.l_extendedprice) / 100,
        avg_disc=pw.reducers.avg(lines.l_discount) / 100,
        count_order=pw.reducers.count(),
    )  # fmt: skip


def q02(t: Tables) -> Any:
    part = t["part"].filter((pw.this.p_size == 15) & pw.this.p_type.str.endswith("BRASS"))
    offer = ("p_partkey", "p_mfgr", "ps_supplycost")
    offers = equi(t["partsupp"], part, {"ps_partkey": "p_partkey"}, "ps_suppkey", *offer)
    region = t["region"].filter(pw.this.r_name == "EUROPE")
    nation = equi(t["nation"], region, {"n_regionkey": "r_regionkey"}, "n_nationkey", "n_name")
    shown = ("s_acctbal", "s_name", "n_name", "s_address", "s_phone", "s_comment")
    supplier = equi(t["supplier"], nation, {"s_nationkey": "n_nationkey"}, "s_suppkey", *shown)
    offers = equi(offers, supplier, {"ps_suppkey": "s_suppkey"}, *offer, *shown)
    least = offers.groupby(offers.p_partkey).reduce(key=offers.p_partkey, cost=pw.reducers.min(offers.ps_supplycost))
    return equi(
        offers, least, {"p_partkey": "key", "ps_supplycost": "cost"},
        "s_acctbal", "s_name", "n_name", "p_partkey", "p_mfgr", "s_address", "s_phone", "s_comment",
    )  # fmt: skip


def q03(t: Tables) -> Any:
    customer = t["customer"].filter(pw.this.c_mktsegment == "BUILDING")
    orders = t["orders"].filter(pw.this.o_orderdate < day("1995-03-15"))
    lines = t["lineitem"].filter(pw.this.l_shipdate > day("1995-03-15"))
    lines = lines.select(lines.l_orderkey, volume=discounted(lines))
    kept = ("o_orderkey", "o_orderdate", "o_shippriority")
    orders = equi(orders, customer, {"o_custkey": "c_custkey"}, *kept)
    sold = equi(lines, orders, {"l_orderkey": "o_orderkey"}, "l_orderkey", "volume", "o_orderdate", "o_shippriority")
    revenue = group(sold, "l_orderkey o_orderdate o_shippriority", revenue=pw.reducers.sum(sold.volume))
    return revenue[["l_orderkey", "revenue", "o_orderdate", "o_shippriority"]]


def q04(t: Tables) -> Any:
    orders = t["orders"].filter(within(pw.this.o_orderdate, "1993-07-01", "1993-10-01"))
    late = distinct(t["lineitem"].filter(pw.this.l_commitdate < pw.this.l_receiptdate), "l_orderkey")
    found = equi(orders, late, {"o_orderkey": "l_orderkey"}, "o_orderpriority")
    return group(found, "o_orderpriority", order_count=pw.reducers.count())


def q05(t: Tables) -> Any:
    region = t["region"].filter(pw.this.r_name == "ASIA")
    nation = equi(t["nation"], region, {"n_regionkey": "r_regionkey"}, "n_nationkey", "n_name")
    supplier = equi(t["supplier"], nation, {"s_nationkey": "n_nationkey"}, "s_suppkey", "s_nationkey", "n_name")
    orders = t["orders"].filter(within(pw.this.o_orderdate, "1994-01-01", "1995-01-01"))
    orders = equi(orders, t["customer"], {"o_custkey": "c_custkey"}, "o_orderkey", "c_nationkey")
    lines = t["lineitem"].select(pw.this.l_orderkey, pw.this.l_suppkey, volume=discounted())
    lines = equi(lines, orders, {"l_orderkey": "o_orderkey"}, "l_suppkey", "volume", "c_nationkey")
    sold = equi(lines, supplier, {"l_suppkey": "s_suppkey", "c_nationkey": "s_nationkey"}, "n_name", "volume")
    return group(sold, "n_name", revenue=pw.reducers.sum(sold.volume))


def q06(t: Tables) -> Any:
    lines = t["lineitem"].filter(
        within(pw.this.l_shipdate, "1994-01-01", "1995-01-01")
        & between(pw.this.l_discount, 5, 7)
        & (pw.this.l_quantity < 2400)
    )
    return lines.reduce(revenue=pw.reducers.sum(lines.l_extendedprice * lines.l_discount))


def q07(t: Tables) -> Any:
    nation = t["nation"].filter(one_of(pw.this.n_name, "FRANCE", "GERMANY"))
    sellers = nation.select(seller=pw.this.n_nationkey, supp_nation=pw.this.n_name)
    buyers = nation.select(buyer=pw.this.n_nationkey, cust_nation=pw.this.n_name)
    supplier = equi(t["supplier"], sellers, {"s_nationkey": "seller"}, "s_suppkey", "supp_nation")
    customer = equi(t["customer"], buyers, {"c_nationkey": "buyer"}, "c_custkey", "cust_nation")
    orders = equi(t["orders"], customer, {"o_custkey": "c_custkey"}, "o_orderkey", "cust_nation")
    lines = t["lineitem"].filter(between(pw.this.l_shipdate, day("1995-01-01"), day("1996-12-31")))
    lines = lines.select(
        pw.this.l_orderkey, pw.this.l_suppkey, l_year=year(pw.this.l_shipdate), volume=discounted()
    )  # fmt: skip
    lines = equi(lines, supplier, {"l_suppkey": "s_suppkey"}, "l_orderkey", "l_year", "volume", "supp_nation")
    sold = equi(lines, orders, {"l_orderkey": "o_orderkey"}, "supp_nation", "cust_nation", "l_year", "volume")
    sold = sold.filter(sold.supp_nation != sold.cust_nation)
    return group(sold, "supp_nation cust_nation l_year", revenue=pw.reducers.sum(sold.volume))


def q08(t: Tables) -> Any:
    part = t["part"].filter(pw.this.p_type == "ECONOMY ANODIZED STEEL")
    region = t["region"].filter(pw.this.r_name == "AMERICA")
    nation = equi(t["nation"], region, {"n_regionkey": "r_regionkey"}, "n_nationkey")
    customer = equi(t["customer"], nation, {"c_nationkey": "n_nationkey"}, "c_custkey")
    orders = t["orders"].filter(between(pw.this.o_orderdate, day("1995-01-01"), day("1996-12-31")))
    orders = orders.select(pw.this.o_orderkey, pw.this.o_custkey, o_year=year(pw.this.o_orderdate))
    orders = equi(orders, customer, {"o_custkey": "c_custkey"}, "o_orderkey", "o_year")
    supplier = equi(t["supplier"], t["nation"], {"s_nationkey": "n_nationkey"}, "s_suppkey", "n_name")
    lines = t["lineitem"].select(pw.this.l_orderkey, pw.this.l_partkey, pw.this.l_suppkey, volume=discounted())
    lines = equi(lines, part, {"l_partkey": "p_partkey"}, "l_orderkey", "l_suppkey", "volume")
    lines = equi(lines, orders, {"l_orderkey": "o_orderkey"}, "l_suppkey", "volume", "o_year")
    sold = equi(lines, supplier, {"l_suppkey": "s_suppkey"}, "o_year", "volume", "n_name")
    of_brazil = pw.if_else(sold.n_name == "BRAZIL", sold.volume, 0)
    return group(sold, "o_year", mkt_share=pw.reducers.sum(of_brazil) / pw.reducers.sum(sold.volume))


def q09(t: Tables) -> Any:
    part = t["part"].filter(pw.this.p_name.str.find("green") >= 0)
    offers = equi(t["partsupp"], part, {"ps_partkey": "p_partkey"}, "ps_partkey", "ps_suppkey", "ps_supplycost")
    supplier = equi(t["supplier"], t["nation"], {"s_nationkey": "n_nationkey"}, "s_suppkey", "n_name")
    offers = equi(
        offers, supplier, {"ps_suppkey": "s_suppkey"}, "ps_partkey", "ps_suppkey", "ps_supplycost", "n_name"
    )  # fmt: skip
    orders = t["orders"].select(pw.this.o_orderkey, o_year=year(pw.this.o_orderdate))
    lines = t["lineitem"].select(
        pw.this.l_orderkey, pw.this.l_partkey, pw.this.l_suppkey, pw.this.l_quantity, volume=discounted()
    )
    lines = equi(
        lines, offers, {"l_partkey": "ps_partkey", "l_suppkey": "ps_suppkey"},
        "l_orderkey", "l_quantity", "volume", "ps_supplycost", "n_name",
    )  # fmt: skip
    lines = lines.select(
        pw.this.l_orderkey, nation=pw.this.n_name,
        amount=pw.this.volume - pw.this.ps_supplycost * pw.this.l_quantity,
    )  # fmt: skip
    sold = equi(lines, orders, {"l_orderkey": "o_orderkey"}, "nation", "o_year", "amount")
    return group(sold, "nation o_year", sum_profit=pw.reducers.sum(sold.amount))


def q10(t: Tables) -> Any:
    """Revenue per customer first: the customer's other columns depend on the key."""
    orders = t["orders"].filter(within(pw.this.o_orderdate, "1993-10-01", "1994-01-01"))
    lines = t["lineitem"].filter(pw.this.l_returnflag == "R")
    lines = lines.select(pw.this.l_orderkey, volume=discounted())
    sold = equi(lines, orders, {"l_orderkey": "o_orderkey"}, "o_custkey", "volume")
    sold = group(sold, "o_custkey", revenue=pw.reducers.sum(sold.volume))
    about = ("c_acctbal", "n_name", "c_address", "c_phone", "c_comment")
    customer = equi(t["customer"], t["nation"], {"c_nationkey": "n_nationkey"}, "c_custkey", "c_name", *about)
    return equi(customer, sold, {"c_custkey": "o_custkey"}, "c_custkey", "c_name", "revenue", *about)


def q11(t: Tables) -> Any:
    nation = t["nation"].filter(pw.this.n_name == "GERMANY")
    supplier = equi(t["supplier"], nation, {"s_nationkey": "n_nationkey"}, "s_suppkey")
    offers = equi(
        t["partsupp"], supplier, {"ps_suppkey": "s_suppkey"}, "ps_partkey", "ps_supplycost", "ps_availqty"
    )  # fmt: skip
    offers = offers.select(pw.this.ps_partkey, worth=pw.this.ps_supplycost * pw.this.ps_availqty)
    parts = group(offers, "ps_partkey", value=pw.reducers.sum(offers.worth))
    whole = parts.reduce(whole=pw.reducers.sum(parts.value))
    compared = equi(parts, whole, {}, "ps_partkey", "value", "whole")
    return compared.filter(compared.value * 10_000 > compared.whole)[["ps_partkey", "value"]]


def q12(t: Tables) -> Any:
    lines = t["lineitem"].filter(
        one_of(pw.this.l_shipmode, "MAIL", "SHIP")
        & (pw.this.l_commitdate < pw.this.l_receiptdate)
        & (pw.this.l_shipdate < pw.this.l_commitdate)
        & within(pw.this.l_receiptdate, "1994-01-01", "1995-01-01")
    )
    orders = t["orders"].select(
        pw.this.o_orderkey, high=pw.if_else(one_of(pw.this.o_orderpriority, "1-URGENT", "2-HIGH"), 1, 0)
    )
    shipped = equi(lines, orders, {"l_orderkey": "o_orderkey"}, "l_shipmode", "high")
    return group(
        shipped, "l_shipmode",
        high_line_count=pw.reducers.sum(shipped.high), low_line_count=pw.reducers.sum(1 - shipped.high),
    )  # fmt: skip


def q13(t: Tables) -> Any:
    orders = t["orders"].filter(~contains_in_turn(pw.this.o_comment, "special", "requests"))
    counted = group(orders, "o_custkey", number=pw.reducers.count())
    customer = t["customer"]
    joined = customer.join_left(counted, customer.c_custkey == counted.o_custkey)
    each = joined.select(c_count=pw.coalesce(counted.number, 0))
    return group(each, "c_count", custdist=pw.reducers.count())


def q14(t: Tables) -> Any:
    lines = t["lineitem"].filter(within(pw.this.l_shipdate, "1995-09-01", "1995-10-01"))
    lines = lines.select(pw.this.l_partkey, volume=discounted())
    part = t["part"].select(pw.this.p_partkey, promoted=pw.this.p_type.str.startswith("PROMO"))
    sold = equi(lines, part, {"l_partkey": "p_partkey"}, "volume", "promoted")
    of_promotion = pw.if_else(sold.promoted, sold.volume, 0)
    return sold.reduce(promo_revenue=100.0 * pw.reducers.sum(of_promotion) / pw.reducers.sum(sold.volume))


def q15(t: Tables) -> Any:
    lines = t["lineitem"].filter(within(pw.this.l_shipdate, "1996-01-01", "1996-04-01"))
    lines = lines.select(pw.this.l_suppkey, volume=discounted())
    revenue = group(lines, "l_suppkey", total_revenue=pw.reducers.sum(lines.volume))
    most = revenue.reduce(most=pw.reducers.max(revenue.total_revenue))
    best = equi(revenue, most, {"total_revenue": "most"}, "l_suppkey", "total_revenue")
    about = ("s_suppkey", "s_name", "s_address", "s_phone")
    return equi(t["supplier"], best, {"s_suppkey": "l_suppkey"}, *about, "total_revenue")


def q16(t: Tables) -> Any:
    part = t["part"].filter(
        (pw.this.p_brand != "Brand#45")
        & ~pw.this.p_type.str.startswith("MEDIUM POLISHED")
        & one_of(pw.this.p_size, 49, 14, 23, 45, 19, 3, 36, 9)
    )
    bad = t["supplier"].filter(contains_in_turn(pw.this.s_comment, "Customer", "Complaints"))
    offers = equi(t["partsupp"], part, {"ps_partkey": "p_partkey"}, "p_brand", "p_type", "p_size", "ps_suppkey")
    offers = distinct(without(offers, bad, "ps_suppkey", "s_suppkey"), "p_brand", "p_type", "p_size", "ps_suppkey")
    return group(offers, "p_brand p_type p_size", supplier_cnt=pw.reducers.count())


def q17(t: Tables) -> Any:
    """A quantity below a fifth of the mean: five times the quantity times the count below the sum."""
    part = t["part"].filter((pw.this.p_brand == "Brand#23") & (pw.this.p_container == "MED BOX"))
    lines = equi(t["lineitem"], part, {"l_partkey": "p_partkey"}, "l_partkey", "l_quantity", "l_extendedprice")
    mean = lines.groupby(lines.l_partkey).reduce(
        key=lines.l_partkey, whole=pw.reducers.sum(lines.l_quantity), number=pw.reducers.count()
    )
    lines = equi(lines, mean, {"l_partkey": "key"}, "l_quantity", "l_extendedprice", "whole", "number")
    small = lines.filter(lines.l_quantity * lines.number * 5 < lines.whole)
    return small.reduce(avg_yearly=pw.reducers.sum(small.l_extendedprice) / 700.0)


def q18(t: Tables) -> Any:
    """The sum that HAVING tests is the one shown: an order key has one group."""
    lines = t["lineitem"]
    large = group(lines, "l_orderkey", total_quantity=pw.reducers.sum(lines.l_quantity))
    large = large.filter(large.total_quantity > 30_000)
    about = ("o_orderkey", "o_orderdate", "o_totalprice", "total_quantity")
    orders = equi(t["orders"], large, {"o_orderkey": "l_orderkey"}, "o_custkey", *about)
    return equi(t["customer"], orders, {"c_custkey": "o_custkey"}, "c_name", "c_custkey", *about)


def q19(t: Tables) -> Any:
    lines = t["lineitem"].filter(
        one_of(pw.this.l_shipmode, "AIR", "AIR REG")
        & (pw.this.l_shipinstruct == "DELIVER IN PERSON")
        & between(pw.this.l_quantity, 100, 3000)
    )
    lines = lines.select(pw.this.l_partkey, pw.this.l_quantity, volume=discounted())
    cases = (
        ("Brand#12", ("SM CASE", "SM BOX", "SM PACK", "SM PKG"), 5, 100),
        ("Brand#23", ("MED BAG", "MED BOX", "MED PKG", "MED PACK"), 10, 1000),
        ("Brand#34", ("LG CASE", "LG BOX", "LG PACK", "LG PKG"), 15, 2000),
    )
    least = pw.cast(int, 0)
    for brand, containers, size, quantity in cases:
        fits = (pw.this.p_brand == brand) & one_of(pw.this.p_container, *containers) & between(pw.this.p_size, 1, size)
        least = pw.if_else(fits, quantity, least)
    part = t["part"].select(pw.this.p_partkey, least=least)
    sold = equi(lines, part.filter(part.least > 0), {"l_partkey": "p_partkey"}, "l_quantity", "volume", "least")
    sold = sold.filter(between(sold.l_quantity, sold.least, sold.least + 1000))
    return sold.reduce(revenue=pw.reducers.sum(sold.volume))


def q20(t: Tables) -> Any:
    part = t["part"].filter(pw.this.p_name.str.startswith("forest"))
    offers = equi(t["partsupp"], part, {"ps_partkey": "p_partkey"}, "ps_partkey", "ps_suppkey", "ps_availqty")
    lines = t["lineitem"].filter(within(pw.this.l_shipdate, "1994-01-01", "1995-01-01"))
    shipped = group(lines, "l_partkey l_suppkey", whole=pw.reducers.sum(lines.l_quantity))
    on = {"ps_partkey": "l_partkey", "ps_suppkey": "l_suppkey"}
    offers = equi(offers, shipped, on, "ps_suppkey", "ps_availqty", "whole")
    surplus = distinct(offers.filter(offers.ps_availqty * 200 > offers.whole), "ps_suppkey")
    nation = t["nation"].filter(pw.this.n_name == "CANADA")
    supplier = equi(t["supplier"], nation, {"s_nationkey": "n_nationkey"}, "s_suppkey", "s_name", "s_address")
    return equi(supplier, surplus, {"s_suppkey": "ps_suppkey"}, "s_name", "s_address")


def q21(t: Tables) -> Any:
    """An order counts where several suppliers deliver and one of them alone is late."""
    orders = t["orders"].filter(pw.this.o_orderstatus == "F")
    lines = equi(
        t["lineitem"], orders, {"l_orderkey": "o_orderkey"}, "l_orderkey", "l_suppkey", "l_receiptdate", "l_commitdate"
    )  # fmt: skip
    shares = group(
        lines, "l_orderkey l_suppkey",
        late=pw.reducers.sum(pw.if_else(lines.l_receiptdate > lines.l_commitdate, 1, 0)),
    )  # fmt: skip
    waiting = shares.groupby(shares.l_orderkey).reduce(
        key=shares.l_orderkey, suppliers=pw.reducers.count(),
        delaying=pw.reducers.sum(pw.if_else(shares.late > 0, 1, 0)),
    )  # fmt: skip
    waiting = waiting.filter((waiting.suppliers > 1) & (waiting.delaying == 1))
    late = equi(shares.filter(shares.late > 0), waiting, {"l_orderkey": "key"}, "l_suppkey", "late")
    nation = t["nation"].filter(pw.this.n_name == "SAUDI ARABIA")
    supplier = equi(t["supplier"], nation, {"s_nationkey": "n_nationkey"}, "s_suppkey", "s_name")
    found = equi(late, supplier, {"l_suppkey": "s_suppkey"}, "s_name", "late")
    return group(found, "s_name", numwait=pw.reducers.sum(found.late))


def q22(t: Tables) -> Any:
    code = pw.this.c_phone.str.slice(0, 2)
    customer = t["customer"].select(pw.this.c_custkey, pw.this.c_acctbal, cntrycode=code)
    customer = customer.filter(one_of(customer.cntrycode, "13", "31", "23", "29", "30", "18", "17"))
    positive = customer.filter(customer.c_acctbal > 0)
    mean = positive.reduce(whole=pw.reducers.sum(positive.c_acctbal), number=pw.reducers.count())
    idle = without(customer, distinct(t["orders"], "o_custkey"), "c_custkey", "o_custkey")
    compared = equi(idle, mean, {}, "cntrycode", "c_acctbal", "whole", "number")
    rich = compared.filter(compared.c_acctbal * compared.number > compared.whole)
    return group(rich, "cntrycode", numcust=pw.reducers.count(), totacctbal=pw.reducers.sum(rich.c_acctbal))


UNGROUPED = {"q06", "q14", "q17", "q19"}
"""Sums of everything: over no rows at all they have no row in Pathway, and a NULL in SQL."""

QUERIES: dict[str, Callable[[Tables], Any]] = {
    query.__name__: query
    for query in (
        q01, q02, q03, q04, q05, q06, q07, q08, q09, q10, q11, q12, q13, q14, q15, q16, q17, q18, q19, q20, q21, q22
    )
}  # fmt: skip
