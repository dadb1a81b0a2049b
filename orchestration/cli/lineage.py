"""`sluice lineage`: what a version, a partition or a model came from, and where it went."""

from typing import Any

from orchestration.cli.output import print_facts, print_json, print_rows
from orchestration.cli.reading import reading
from orchestration.publication.lineage import trace
from orchestration.warehouse.connections import Role

_SHOWN = 50


def lineage(item: str, *, as_json: bool) -> None:
    with reading(Role.GATE) as connection:
        found = trace(connection, item)
    if as_json:
        print_json(found)
    elif found["kind"] == "partition":
        _print_partition(found)
    else:
        for version in found["versions"]:
            _print_version(version)


def _print_version(version: dict[str, Any]) -> None:
    names = ("version_id", "pipeline", "state", "published", "commit", "dirty", "run_id")
    print_facts({name: version[name] for name in names})
    _print_artifacts(version["artifacts"])
    segments = [
        {
            "model": model["model"],
            "segment": segment["segment"],
            "partitions": len(segment["partitions"]),
            "first": segment["partitions"][0]["partition"],
            "last": segment["partitions"][-1]["partition"],
            "rows": sum(partition["rows"] for partition in segment["partitions"]),
        }
        for model in version["models"]
        for segment in model["segments"]
    ]
    columns = ["model", "segment", "partitions", "first", "last", "rows"]
    _print_some("segments", columns, segments, "no model is kept as segments")
    models = [
        model | {"resources": ", ".join(model["resources"]), "reads": ", ".join(model["parents"])}
        for model in version["models"]
    ]
    columns = ["model", "view", "relation", "kind", "rows", "reads", "resources"]
    _print_some("models", columns, models, "no model")


def _print_partition(found: dict[str, Any]) -> None:
    _print_artifacts(found["artifacts"])
    same = {item["partition"]: item["same_rows_as"] for item in found["artifacts"]}
    for partition, others in same.items():
        if others:
            print_facts({partition: f"has the same rows as {', '.join(others)}"})
    rows = [
        {name: version[name] for name in ("version_id", "state", "partition")} | model
        for version in found["versions"]
        for model in version["models"]
    ]
    for row in rows:
        row["in"] = _span(row["partitions"])
    columns = ["version_id", "state", "partition", "model", "segment", "in", "relation", "view"]
    _print_some("versions that have it", columns, rows, "no version that is kept has it")
    print_rows(
        "readers see it in",
        ["view", "partition", "version_id"],
        found["published"],
        "readers do not see it",
    )


def _span(partitions: list[str] | None) -> str:
    """The partitions that a window went into: itself, and those that look back at it."""
    if partitions is None:
        return "the whole"
    first, last = partitions[0], partitions[-1]
    return first if first == last else f"{first} to {last} ({len(partitions)})"


def _print_artifacts(artifacts: list[dict[str, Any]]) -> None:
    rows = [item | {"checksum": (item["checksum"] or "")[:12]} for item in artifacts]
    columns = ["partition", "rows", "checksum", "run_id", "fetched_at", "source_ref"]
    _print_some("artifacts", columns, rows, "no artifact")


def _print_some(title: str, columns: list[str], rows: list[dict[str, Any]], empty: str) -> None:
    more = f" (the first {_SHOWN} of {len(rows)}; --json shows all)" if len(rows) > _SHOWN else ""
    print_rows(title + more, columns, rows[:_SHOWN], empty)
