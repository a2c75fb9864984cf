"""Further base classes of dbt: hooks, stored failures, unit tests, contracts, snapshots with deletes, `dbt show`."""

import pytest
from dbt.tests.adapter.aliases.test_aliases import BaseAliasErrors, BaseAliases, BaseSameAliasDifferentSchemas
from dbt.tests.adapter.caching.test_caching import BaseCachingLowercaseModel, BaseCachingSelectedSchemaOnly
from dbt.tests.adapter.constraints.test_constraints import (
    BaseConstraintsRollback,
    BaseTableConstraintsColumnsEqual,
    BaseViewConstraintsColumnsEqual,
)
from dbt.tests.adapter.dbt_show.test_dbt_show import BaseShowLimit, BaseShowSqlHeader
from dbt.tests.adapter.empty.test_empty import BaseTestEmpty
from dbt.tests.adapter.hooks.test_model_hooks import BasePrePostModelHooksOnSeeds
from dbt.tests.adapter.query_comment.test_query_comment import BaseQueryComments
from dbt.tests.adapter.relations.test_changing_relation_type import BaseChangeRelationTypeValidator
from dbt.tests.adapter.simple_seed.test_seed import BaseSeedWithEmptyDelimiter, BaseSeedWithUniqueDelimiter
from dbt.tests.adapter.simple_snapshot.test_ephemeral_snapshot_hard_deletes import BaseSnapshotEphemeralHardDeletes
from dbt.tests.adapter.simple_snapshot.test_snapshot import BaseSimpleSnapshot, BaseSnapshotCheck
from dbt.tests.adapter.store_test_failures_tests.basic import (
    StoreTestFailuresAsInteractions,
    StoreTestFailuresAsProjectLevelOff,
)
from dbt.tests.adapter.unit_testing.test_case_insensitivity import BaseUnitTestCaseInsensivity
from dbt.tests.adapter.unit_testing.test_types import BaseUnitTestingTypes
from dbt.tests.adapter.utils.test_last_day import BaseLastDay


class TestAliases(BaseAliases):
    pass


class TestAliasErrors(BaseAliasErrors):
    pass


class TestSameAliasDifferentSchemas(BaseSameAliasDifferentSchemas):
    pass


class TestCachingLowercaseModel(BaseCachingLowercaseModel):
    pass


class TestCachingSelectedSchemaOnly(BaseCachingSelectedSchemaOnly):
    pass


class TestShowLimit(BaseShowLimit):
    pass


class TestShowSqlHeader(BaseShowSqlHeader):
    pass


class TestEmptyFlag(BaseTestEmpty):
    pass


class TestHooksOnSeeds(BasePrePostModelHooksOnSeeds):
    pass


class TestQueryComments(BaseQueryComments):
    pass


class TestChangeRelationType(BaseChangeRelationTypeValidator):
    pass


class TestSeedWithDelimiter(BaseSeedWithUniqueDelimiter):
    pass


class TestSeedWithEmptyDelimiter(BaseSeedWithEmptyDelimiter):
    pass


class TestStoredFailures(StoreTestFailuresAsInteractions):
    pass


class TestStoredFailuresOff(StoreTestFailuresAsProjectLevelOff):
    pass


class TestSimpleSnapshot(BaseSimpleSnapshot):
    pass


class TestSnapshotCheck(BaseSnapshotCheck):
    pass


class TestSnapshotHardDeletes(BaseSnapshotEphemeralHardDeletes):
    pass


class TestUnitTestCaseInsensitivity(BaseUnitTestCaseInsensivity):
    pass


class TestUnitTestTypes(BaseUnitTestingTypes):
    @pytest.fixture
    def data_types(self):
        return [
            ["1", "1"],
            ["'1'", "1"],
            ["true", "true"],
            ["DATE '2020-01-02'", "2020-01-02"],
            ["TIMESTAMP '2013-11-03 00:00:00'", "2013-11-03 00:00:00"],
            ["CAST('1.5' AS DECIMAL(9,2))", "1.5"],
        ]


class ContractTypes:
    @pytest.fixture
    def string_type(self):
        return "VARCHAR"

    @pytest.fixture
    def int_type(self):
        return "INTEGER"

    @pytest.fixture
    def data_types(self):
        return [
            ["1", "integer", "INTEGER"],
            ["'1'", "varchar", "VARCHAR"],
            ["true", "boolean", "BOOLEAN"],
            ["DATE '2013-11-03'", "date", "DATE"],
            ["CAST('2013-11-03 00:00:00' AS TIMESTAMP)", "timestamp", "TIMESTAMP"],
            ["CAST(1 AS DECIMAL(9,2))", "decimal(9,2)", "DECIMAL(9,2)"],
        ]


class TestTableContracts(ContractTypes, BaseTableConstraintsColumnsEqual):
    pass


class TestViewContracts(ContractTypes, BaseViewConstraintsColumnsEqual):
    pass


class TestConstraintsRollback(BaseConstraintsRollback):
    @pytest.fixture(scope="class")
    def expected_error_messages(self):
        return ["id", "NULL is refused"]


class TestLastDay(BaseLastDay):
    pass
