"""Which data tests say something else than they did: two manifests compared, as JSON."""

from collections.abc import Iterator, Mapping
from typing import Any

# Where a test stands and what it is described as changes no outcome.
_DECIDING_CONFIG = ("severity", "where", "limit", "error_if", "warn_if", "fail_calc", "enabled")


def changed_tests(before: Mapping[str, Any] | None, after: Mapping[str, Any]) -> set[str]:
    """Unique ids of the tests of `after` that `before` lacks or states differently; all without it."""
    known = dict(_tests(before)) if before is not None else {}
    return {name for name, stated in _tests(after) if known.get(name) != stated}


def _tests(manifest: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    for name, node in manifest["nodes"].items():
        if node["resource_type"] == "test":
            config = {key: node["config"].get(key) for key in _DECIDING_CONFIG}
            texts = dict(_macros(manifest, node["depends_on"]["macros"], set()))
            yield name, [node["raw_code"], node.get("test_metadata"), config, texts]


def _macros(
    manifest: Mapping[str, Any], names: list[str], seen: set[str]
) -> Iterator[tuple[str, str]]:
    for name in names:
        macro = manifest["macros"].get(name)
        if macro is None or name in seen:
            continue
        seen.add(name)
        yield name, macro["macro_sql"]
        yield from _macros(manifest, macro["depends_on"]["macros"], seen)
