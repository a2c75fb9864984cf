"""A directory for every class of tests; raw SQL of the base classes names tables as `schema.name`."""

import re

import pytest
from dbt.adapters.viewlet.impl import ViewletAdapter

pytest_plugins = ["dbt.tests.fixtures.project"]


@pytest.fixture(scope="class")
def dbt_profile_target(tmp_path_factory):
    return {"type": "viewlet", "path": str(tmp_path_factory.mktemp("viewlet") / "db"), "fsync": False, "threads": 2}


@pytest.fixture(scope="session", autouse=True)
def schemas_in_raw_sql():
    """Tests of dbt write `select * from test123.seed`, which is the table test123__seed here."""
    run = ViewletAdapter.run_sql_for_tests

    def run_with_prefix(self, sql, fetch, conn):
        schema = re.escape(self.config.credentials.schema)
        sql = re.sub(rf'("?memory"?\.)?"?{schema}(_\w+)?"?\."?(\w+)"?', rf"{schema}\2__\3", sql)
        return run(self, sql, fetch, conn)

    ViewletAdapter.run_sql_for_tests = run_with_prefix
    yield
    ViewletAdapter.run_sql_for_tests = run
