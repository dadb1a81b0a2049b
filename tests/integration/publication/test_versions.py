from typing import Any

import pytest

from orchestration.errors import ConfigurationError
from orchestration.identity import VersionId
from orchestration.publication.versions import (
    get_version,
    list_publications,
    list_versions,
    resolve_version,
    version_models,
)
from orchestration.warehouse.connections import Role, Warehouse


def test_versions_are_found_by_the_beginning_of_their_id(
    flights: Any, warehouse: Warehouse
) -> None:
    built = [flights.build({"fct": f"select {number} as number"}) for number in range(20)]
    with warehouse.connect(Role.RUNNER) as connection:
        assert [version.version_id for version in list_versions(connection, "flights")] == built[
            ::-1
        ]
        assert list_versions(connection, "weather") == []
        assert resolve_version(connection).version_id == built[-1]
        for prefix in (built[0], built[0].removeprefix("v_"), built[0][:14]):
            assert resolve_version(connection, prefix, "flights").version_id == built[0]
        with pytest.raises(ConfigurationError) as caught:
            resolve_version(connection, "v_")
        assert caught.value.code == "version_ambiguous"
        assert sum(version in caught.value.message for version in built) > 1
        for call in (
            lambda: resolve_version(connection, "zz"),
            lambda: get_version(connection, VersionId("x")),
        ):
            with pytest.raises(ConfigurationError) as caught:
                call()
            assert caught.value.code == "version_unknown"


def test_without_a_prefix_the_published_version_is_meant(
    flights: Any, warehouse: Warehouse
) -> None:
    version = flights.build({"fct": "select 1 as number"})
    flights.publish(version)
    flights.build({"fct": "select 2 as number"})
    with warehouse.connect(Role.RUNNER) as connection:
        found = resolve_version(connection, None, "flights")
        assert (found.version_id, found.state) == (version, "published")
        assert [model.model for model in version_models(connection, version)] == ["fct"]
        assert [entry.version_id for entry in list_publications(connection, "flights")] == [version]
