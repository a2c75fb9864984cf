"""Plans as text and as pictures."""

from __future__ import annotations

from xml.etree import ElementTree

from tests.spark_plan.distributing import distributed
from tests.triggers.trigger_program import tables_of
from viewlet.spark.plan import draw_plan, show_plan
from workloads.query import NamedQuery

TABLES = """
    CREATE TABLE orders (orderkey BIGINT NOT NULL, custkey BIGINT NOT NULL, PRIMARY KEY (orderkey));
    CREATE TABLE item (orderkey BIGINT NOT NULL, line BIGINT NOT NULL, price BIGINT NOT NULL,
                       PRIMARY KEY (orderkey, line));
"""
QUERY = NamedQuery(
    "v", "SELECT o.custkey, SUM(i.price) AS total FROM orders o JOIN item i USING (orderkey) GROUP BY o.custkey"
)
TEXT = """\
batch of item: 1 job, 2 stages
    v_orders_item local
    v_item partitioned by [orderkey]
    orders_rows partitioned by [orderkey]
block 1, at every worker: stage 1
    change_of_item[orderkey].sum_1 := Sum[orderkey](Δitem(orderkey, _, _))
    change_of_item[orderkey].sum_2 := Sum[orderkey](Δitem(orderkey, _, price) * price)
block 2, at the driver
    change_of_item_here := Repart[orderkey](change_of_item)
block 3, at every worker: stage 2
    part[custkey].sum_1 :=
        Sum[custkey](change_of_item_here.sum_1[orderkey] * orders_rows.count[orderkey, custkey])
    part[custkey].sum_2 :=
        Sum[custkey](change_of_item_here.sum_2[orderkey] * orders_rows.count[orderkey, custkey])
    v_item[orderkey].count += change_of_item_here.sum_1[orderkey]
    v_item[orderkey].sum_price += change_of_item_here.sum_2[orderkey]
block 4, at the driver
    part_gathered := Gather(part)
    v_orders_item[custkey].count += part_gathered.sum_1[custkey]
    v_orders_item[custkey].sum_price += part_gathered.sum_2[custkey]"""


def test_a_plan_as_text() -> None:
    program = distributed(QUERY, tables_of(TABLES), rows={"orders.custkey": 100})
    plan = program.plan({"item": program.plan().arrivals["item"]})
    assert show_plan(plan) == TEXT


def test_a_plan_as_a_picture() -> None:
    plan = distributed(QUERY, tables_of(TABLES), rows={"orders.custkey": 100}).plan()
    picture = ElementTree.fromstring(draw_plan(plan))
    boxes = [node for node in picture if node.tag.endswith("rect")]
    assert len(boxes) == len(plan.blocks)
    texts = [node.text or "" for node in picture if node.tag.endswith("text")]
    assert any("stage 1" in text for text in texts)
    assert any(text.startswith("Gather") for text in texts)
    assert any("Repart[orderkey]" in text for text in texts)
