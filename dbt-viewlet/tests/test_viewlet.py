"""What this adapter does in its own way: views that stay, differences as batches, readers that no longer fit."""

import json
from pathlib import Path

import pytest
from dbt.adapters.viewlet import ViewletConnectionManager
from dbt.adapters.viewlet.impl import difference
from dbt.tests.util import run_dbt, write_file

import viewlet

ORDERS = "id,customer,total\n1,ada,10\n2,bob,20\n3,ada,30\n"
SPEND = "select customer, sum(total) as total from {{ ref('orders') }} group by customer"

DOCUMENTED = {
    "name": "places",
    "description": "how many, and the customers' total",
    "columns": [{"name": "total", "description": "in all"}, {"name": "gone"}],
    "config": {"persist_docs": {"relation": True, "columns": True}},
}


@pytest.fixture(scope="class")
def database(dbt_profile_target):
    """Opens the directory, which dbt has closed at the end of its command."""

    def opened():
        ViewletConnectionManager.close_databases()
        return viewlet.connect(dbt_profile_target["path"])

    return opened


def actions(results):
    return {result.node.name: result.adapter_response["code"] for result in results if result.adapter_response}


class TestDifferences:
    @pytest.fixture(scope="class")
    def unique_schema(self):
        return "main"

    @pytest.fixture(scope="class")
    def seeds(self):
        return {"orders.csv": ORDERS}

    @pytest.fixture(scope="class")
    def models(self):
        return {
            "spend.sql": SPEND,
            "ranked.sql": "{{ config(materialized='table') }} select *, row_number() over (order by customer) as place"
            " from {{ ref('spend') }}",
            "docs.yml": json.dumps({"models": [DOCUMENTED]}),
            "places.sql": "{{ config(materialized='materialized_view', schema='marts') }}"
            " select count(*) as places, sum(total) as total from {{ ref('ranked') }}",
        }

    def test_runs(self, project, database):
        assert set(actions(run_dbt(["build"])).values()) == {"CREATE"}
        with database() as db:
            assert db.views == ("spend", "marts__places")
            assert db.view("marts__places").rows() == [(2, 60)]
            comments = db.execute("select comment from duckdb_views() union all select comment from duckdb_columns()")
            assert {row["comment"] for row in comments.to_pylist()} == {None, DOCUMENTED["description"], "in all"}

        run_dbt(["build"])
        with database() as db:
            before = db.epoch

        write_file(ORDERS.replace("3,ada,30", "3,cy,5"), project.project_root, "seeds", "orders.csv")
        done = actions(run_dbt(["build"]))
        assert done == {"orders": "CHANGE", "spend": "UNCHANGED", "ranked": "CHANGE", "places": "UNCHANGED"}
        with database() as db:
            assert db.epoch == before + 2, "one batch for the seed, one for the table"
            assert sorted(db.table("ranked").rows()) == [("ada", 10, 1), ("bob", 20, 2), ("cy", 5, 3)]
            assert db.view("marts__places").rows() == [(3, 35)]

        write_file(SPEND.replace("as total", "as spent"), project.project_root, "models", "spend.sql")
        write_file(
            "{{ config(materialized='materialized_view', schema='marts') }}"
            " select count(*) as places, sum(spent) as total from {{ ref('ranked') }}",
            *(project.project_root, "models", "places.sql"),
        )
        assert actions(run_dbt(["build"]))["places"] == "CREATE", "it read a column that is gone, and was dropped"
        with database() as db:
            assert db.view("marts__places").rows() == [(3, 35)]

        write_file("select customer, rank() over (order by spent) as r from {{ ref('spend') }}", "models", "top.sql")
        results = run_dbt(["run", "--select", "top"], expect_pass=False)
        assert "window function is not supported" in results[0].message
        write_file("select nothing from {{ ref('orders') }}", "models", "spend.sql")
        run_dbt(["run", "--select", "spend"], expect_pass=False)
        with database() as db:
            assert "spend" in db.views, "an error in a model is no reason to drop it"


class TestStoredFailures:
    @pytest.fixture(scope="class")
    def seeds(self):
        return {"orders.csv": ORDERS}

    @pytest.fixture(scope="class")
    def properties(self):
        tests = [{"accepted_values": {"arguments": {"values": ["ada", "bob"]}}}]
        return {
            "seeds.yml": json.dumps(
                {"seeds": [{"name": "orders", "columns": [{"name": "customer", "data_tests": tests}]}]}
            )
        }

    @pytest.fixture(scope="class")
    def project_config_update(self):
        return {"data_tests": {"+store_failures": True, "+store_failures_as": "view"}}

    def test_views_of_failures(self, project, database):
        run_dbt(["build"])
        path = Path(project.project_root, "seeds", "orders.csv")
        path.write_text(ORDERS + "4,eve,1\n")
        results = run_dbt(["build"], expect_pass=False)
        assert [result.failures for result in results if result.failures] == [1]
        with database() as db:
            failures = [name for name in db.views if "accepted_values" in name]
            assert [db.view(name).rows() for name in failures] == [[("eve", 1)]]


def test_difference_is_a_bag():
    db = viewlet.connect()
    for name, rows in (("old", "(1, 'a'), (1, 'a'), (2, NULL)"), ("new", "(1, 'a'), (2, NULL), (3, 'c'), (3, 'c')")):
        db.execute(f"create table {name} as select * from (values {rows}) v(k, s)")
    old, new = (db.execute(f"select * from {name}") for name in ("old", "new"))
    found = sorted(tuple(row.values()) for row in difference(old, new).to_pylist())
    assert found == [(1, "a", -1), (3, "c", 2)]
