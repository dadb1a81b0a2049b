"""The sources that exist: every package in this folder that declares `SOURCE`, found by looking.

A package that cannot be imported stops the search with its own error, never silently.
"""

import importlib
import pkgutil
from functools import cache

from ingestion.errors import IngestionConfigurationError
from ingestion.resources import Resource, Source


@cache
def _discover() -> dict[str, Source]:
    found: dict[str, Source] = {}
    for module in pkgutil.iter_modules(__path__):
        if not module.ispkg:
            continue
        source = getattr(importlib.import_module(f"{__name__}.{module.name}"), "SOURCE", None)
        if not isinstance(source, Source) or source.name != module.name:
            raise IngestionConfigurationError(
                f"ingestion/sources/{module.name} declares no SOURCE named {module.name!r}; "
                "see docs/adding-a-source.md",
                code="source_undeclared",
            )
        found[source.name] = source
    return dict(sorted(found.items()))


def list_sources() -> list[Source]:
    """All sources, by name."""
    return list(_discover().values())


def get_source(name: str) -> Source:
    """The source of this name. Raises `IngestionConfigurationError`."""
    source = _discover().get(name)
    if source is None:
        raise IngestionConfigurationError(
            f"there is no source {name!r}; the sources are {', '.join(_discover())}",
            code="unknown_source",
        )
    return source


def get_resource(full_name: str) -> Resource:
    """The resource of this full name, e.g. `flights.weather`. Raises
    `IngestionConfigurationError`.
    """
    source = get_source(full_name.partition(".")[0])
    for resource in source.resources:
        if resource.full_name == full_name:
            return resource
    known = ", ".join(resource.full_name for resource in source.resources)
    raise IngestionConfigurationError(
        f"there is no resource {full_name!r}; the resources of {source.name} are {known}",
        code="unknown_resource",
    )
