"""The sources that exist: every package in this folder that declares `SOURCE`, found by looking.

A package that cannot be imported stops the search, and the error names file and line.
"""

import importlib
import pkgutil
import traceback
from functools import cache
from pathlib import Path
from types import ModuleType

from ingestion.errors import IngestionConfigurationError
from ingestion.resources import Resource, Source


@cache
def _discover() -> dict[str, Source]:
    found: dict[str, Source] = {}
    for module in pkgutil.iter_modules(__path__):
        if not module.ispkg:
            continue
        source = getattr(_imported(module.name), "SOURCE", None)
        if not isinstance(source, Source) or source.name != module.name:
            raise IngestionConfigurationError(
                f"ingestion/sources/{module.name}/__init__.py:1: declares no SOURCE named "
                f"{module.name!r}; see docs/adding-a-source.md",
                code="source_undeclared",
            )
        found[source.name] = source
    return dict(sorted(found.items()))


def _imported(package: str) -> ModuleType:
    """A package of this folder. Whatever its import raises, a person declared something wrong."""
    try:
        return importlib.import_module(f"{__name__}.{package}")
    except Exception as error:  # a source is code, whose import may raise anything
        message = error.msg if isinstance(error, SyntaxError) else str(error)
        raise IngestionConfigurationError(
            f"{_place(package, error)}: {message}; correct the contract or the source's SOURCE",
            code="source_broken",
        ) from error


def _place(package: str, error: Exception) -> str:
    """`ingestion/sources/flights/gates.py:12`, the innermost line of a source that is to blame."""
    frames = [(frame.filename, frame.lineno) for frame in traceback.extract_tb(error.__traceback__)]
    if isinstance(error, SyntaxError):
        frames.append((error.filename or "", error.lineno))
    for file, line in reversed(frames):
        for folder in map(Path, __path__):
            if Path(file).is_relative_to(folder / package):
                return f"ingestion/sources/{Path(file).relative_to(folder).as_posix()}:{line or 1}"
    return f"ingestion/sources/{package}/__init__.py:1"


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
