"""`explain(stage="view-tree")`: the tree, what is stored, and the way of each change, as text and as a picture."""

from __future__ import annotations

from itertools import combinations
from xml.etree import ElementTree

import pytest

import viewlet

SCHEMA = """
CREATE TABLE sales (shop BIGINT, item BIGINT, units INTEGER);
CREATE TABLE shops (shop BIGINT, city VARCHAR);
CREATE STATIC TABLE items (item BIGINT, price DOUBLE);
CREATE MATERIALIZED VIEW m AS SELECT city, COFACTOR(units, price) AS c
    FROM sales NATURAL JOIN shops NATURAL JOIN items WHERE units > 3 GROUP BY city;
CREATE MATERIALIZED VIEW j AS SELECT FACTORIZED * FROM sales NATURAL JOIN shops NATURAL JOIN items;
CREATE MATERIALIZED VIEW s WITH (strategy = 'view-tree') AS SELECT city, SUM(units * price) AS total
    FROM sales NATURAL JOIN shops NATURAL JOIN items GROUP BY city;
"""
SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture
def db() -> viewlet.Connection:
    db = viewlet.connect()
    db.execute(SCHEMA)
    return db


def test_the_text_has_the_order_the_views_and_the_deltas(db: viewlet.Connection) -> None:
    assert (
        db.explain("m", stage="view-tree")
        == """\
variable order city(shop(item(units, price))) (found)
payload cofactor of degree 2 over units, price

* V@city,shop[city]  ⊕shop; keeps sums of units, price
  * shops(shop, city)
  * V@item[shop]  ⊕item; keeps sums of units, price
      V@units[shop, item]  ⊕units; keeps sums of units
        sales(shop, item, units)
    * V@price[item]  ⊕price; keeps sums of price
        items(item, price)

on sales: rows where units > 3
    δV@units[shop, item] = ⊕units δsales(shop, item, units)
    δV@item[shop] = ⊕item δV@units[shop, item] ⊗ V@price[item]
    δV@city,shop[city] = ⊕shop shops(shop, city) ⊗ δV@item[shop]
on shops:
    δV@city,shop[city] = ⊕shop δshops(shop, city) ⊗ V@item[shop]"""
    )


def test_a_given_order_is_shown_as_it_is(db: viewlet.Connection) -> None:
    db.execute(
        "CREATE MATERIALIZED VIEW n WITH (variable_order = 'item(units, price)') AS "
        "SELECT COFACTOR(units, price) FROM sales NATURAL JOIN items"
    )
    assert db.explain("n", stage="view-tree").startswith("variable order item(units, price) (given)\n")


def test_views_of_a_trigger_program_form_a_tree_too(db: viewlet.Connection) -> None:
    text = db.explain("s", stage="view-tree")
    assert text.startswith("* s_sales_shops_items[city]  keeps count, sum_")
    assert "\n  * s_items_sales[shop]" in text or "\n  * s_sales_items[shop]" in text
    assert "on shops: s_sales_shops_items" in text


def test_a_summary_has_the_tree_and_the_stages_are_named(db: viewlet.Connection) -> None:
    assert "-- view-tree\nvariable order" in db.explain("m")
    assert "view query (view-tree)" in db.execute("EXPLAIN SELECT COFACTOR(units) FROM sales")["explain"].to_pylist()
    with pytest.raises(viewlet.SqlError, match="the stages are sql, algebra, view-tree, code, engine"):
        db.explain("m", stage="triggers")


@pytest.mark.parametrize("view", ["m", "j", "s"])
def test_the_picture_has_a_box_for_each_node_and_none_on_top_of_another(db: viewlet.Connection, view: str) -> None:
    drawn = ElementTree.fromstring(db.explain(view, stage="view-tree", format="svg"))
    boxes = [
        tuple(float(rect.attrib[name]) for name in ("x", "y", "width", "height")) for rect in drawn.iter(f"{SVG}rect")
    ]
    written = [line for line in db.explain(view, stage="view-tree").splitlines() if "[" in line and "δ" not in line]
    assert len(boxes) >= len(written) > 2
    for (x1, y1, w1, h1), (x2, y2, w2, h2) in combinations(boxes, 2):
        assert x1 + w1 <= x2 or x2 + w2 <= x1 or y1 + h1 <= y2 or y2 + h2 <= y1
    width, height = float(drawn.attrib["width"]), float(drawn.attrib["height"])
    assert all(x >= 0 and y >= 0 and x + w <= width and y + h <= height for x, y, w, h in boxes)
    texts = [text.text for text in drawn.iter(f"{SVG}text")]
    assert {"δsales", "δshops"} <= set(texts)
    assert len({path.attrib["stroke"] for path in drawn.iter(f"{SVG}path")}) >= 2


def test_what_is_not_stored_has_a_dashed_edge(db: viewlet.Connection) -> None:
    drawn = ElementTree.fromstring(db.explain("m", stage="view-tree", format="svg"))
    dashed = [rect for rect in drawn.iter(f"{SVG}rect") if "stroke-dasharray" in rect.attrib]
    text = db.explain("m", stage="view-tree")
    assert (
        len(dashed) == sum(line.strip().startswith(("sales(", "items(", "V@units")) for line in text.splitlines()) == 3
    )


def test_only_trees_are_drawn(db: viewlet.Connection) -> None:
    with pytest.raises(viewlet.SqlError, match="only the stage 'view-tree' has a picture"):
        db.explain("m", stage="sql", format="svg")
    with pytest.raises(viewlet.SqlError, match="writes text or svg, not 'png'"):
        db.view("m").explain(stage="view-tree", format="png")
