"""The base classes that dbt has for adapters."""

import pytest
from dbt.tests.adapter.basic.expected_catalog import base_expected_catalog, expected_references_catalog, no_stats
from dbt.tests.adapter.basic.test_adapter_methods import BaseAdapterMethod
from dbt.tests.adapter.basic.test_base import BaseSimpleMaterializations
from dbt.tests.adapter.basic.test_docs_generate import BaseDocsGenerate, BaseDocsGenReferences
from dbt.tests.adapter.basic.test_empty import BaseEmpty
from dbt.tests.adapter.basic.test_ephemeral import BaseEphemeral
from dbt.tests.adapter.basic.test_generic_tests import BaseGenericTests
from dbt.tests.adapter.basic.test_incremental import BaseIncremental, BaseIncrementalNotSchemaChange
from dbt.tests.adapter.basic.test_singular_tests import BaseSingularTests
from dbt.tests.adapter.basic.test_singular_tests_ephemeral import BaseSingularTestsEphemeral
from dbt.tests.adapter.basic.test_snapshot_check_cols import BaseSnapshotCheckCols
from dbt.tests.adapter.basic.test_snapshot_timestamp import BaseSnapshotTimestamp
from dbt.tests.adapter.basic.test_table_materialization import BaseTableMaterialization
from dbt.tests.adapter.basic.test_validate_connection import BaseValidateConnection
from dbt.tests.util import check_relation_types, run_dbt


class TestSimpleMaterializations(BaseSimpleMaterializations):
    @pytest.fixture(autouse=True)
    def incremental_models_are_views(self, monkeypatch):
        """The test wants a table of an incremental model in its third check."""
        checks = iter(("table", "view", "view"))

        def check(adapter, expected):
            swappable = {"swappable": next(checks)} if "swappable" in expected else {}
            check_relation_types(adapter, {**expected, **swappable})

        monkeypatch.setattr("dbt.tests.adapter.basic.test_base.check_relation_types", check)


class TestSingularTests(BaseSingularTests):
    pass


class TestSingularTestsEphemeral(BaseSingularTestsEphemeral):
    pass


class TestEmpty(BaseEmpty):
    pass


class TestEphemeral(BaseEphemeral):
    pass


class TestIncremental(BaseIncremental):
    pass


class TestIncrementalNotSchemaChange(BaseIncrementalNotSchemaChange):
    def test_incremental_not_schema_change(self, project):
        """The model calls current_timestamp, which no maintained view can: the error is that of Viewlet."""
        results = run_dbt(["run"], expect_pass=False)
        assert "CURRENT_TIMESTAMP: its value would change between refreshes is not supported" in results[0].message


class TestGenericTests(BaseGenericTests):
    pass


class TestSnapshotCheckCols(BaseSnapshotCheckCols):
    pass


class TestSnapshotTimestamp(BaseSnapshotTimestamp):
    pass


class TestAdapterMethod(BaseAdapterMethod):
    pass


class TestValidateConnection(BaseValidateConnection):
    pass


class TestTableMaterialization(BaseTableMaterialization):
    @pytest.fixture(scope="class")
    def unique_schema(self):
        return "main"


def _expected(catalog, **words):
    return catalog(
        role=None,
        id_type="BIGINT",
        text_type="VARCHAR",
        time_type="TIMESTAMP",
        view_type="VIEW",
        table_type="BASE TABLE",
        model_stats=no_stats(),
        **words,
    )


class TestDocsGenerate(BaseDocsGenerate):
    @pytest.fixture(scope="class")
    def profile_user(self):
        return None

    @pytest.fixture(scope="class")
    def expected_catalog(self, project, profile_user):
        return _expected(base_expected_catalog, project=project)


class TestDocsGenReferences(BaseDocsGenReferences):
    @pytest.fixture(scope="class")
    def profile_user(self):
        return None

    @pytest.fixture(scope="class")
    def expected_catalog(self, project, profile_user):
        return _expected(expected_references_catalog, project=project, bigint_type="BIGINT")
