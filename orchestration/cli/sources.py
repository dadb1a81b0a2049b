"""`sluice sources list|show|new`."""

from typing import Any

from ingestion.errors import IngestionConfigurationError
from ingestion.resources import Source
from ingestion.sources import get_resource, get_source, list_sources
from orchestration.cli.output import print_facts, print_json, print_rows, say
from orchestration.cli.session import read_settings
from orchestration.errors import ConfigurationError

_RULES = ("unit", "enumeration", "length", "at_least", "at_most")


def list_them(*, as_json: bool) -> None:
    sources = _sources()
    described = [source.describe() for source in sources]
    if as_json:
        print_json(described)
        return
    rows = [
        {
            "resource": resource.full_name,
            "window": resource.contract.window_kind,
            "contract": resource.contract.version,
            "schema_versions": ", ".join(resource.contract.supported_versions),
            "key": ", ".join(resource.contract.key),
            "sensitive": ", ".join(field.name for field in resource.contract.sensitive_fields)
            or None,
        }
        for source in sources
        for resource in source.resources
    ]
    columns = ["resource", "window", "contract", "schema_versions", "key", "sensitive"]
    print_rows("sources", columns, rows, "there is no source yet; run: sluice sources new NAME")


def show(name: str, *, as_json: bool) -> None:
    _sources()
    try:
        facts = get_resource(name).describe() if "." in name else get_source(name).describe()
    except IngestionConfigurationError as error:
        raise ConfigurationError(error.message, code=error.code) from error
    if as_json:
        print_json(facts)
        return
    contracts = [entry["contract"] for entry in facts.get("resources", [facts])]
    if "." not in name:
        paths = {entry["resource"]: entry["path"] for entry in facts["resources"]}
        print_facts({word: value for word, value in facts.items() if word != "resources"})
        rows = [contract | {"path": paths[contract["name"]]} for contract in contracts]
        columns = ["name", "path", "window", "version", "key", "sensitive"]
        print_rows("resources", columns, [_in_words(row) for row in rows], "no resource yet")
        return
    (contract,) = contracts
    told = ("name", "columns", "fields", "sensitive")
    print_facts(
        {word: value for word, value in facts.items() if word != "contract"}
        | _in_words({word: value for word, value in contract.items() if word not in told})
    )
    columns = ["field", "type", "null", "rules", "stored", "description"]
    print_rows("fields", columns, [_field_row(entry) for entry in contract["fields"]], "no field")


def _sources() -> list[Source]:
    """All sources. Raises `ConfigurationError` with file and line when one cannot be imported."""
    try:
        return list_sources()
    except IngestionConfigurationError as error:
        raise ConfigurationError(error.message, code=error.code) from error


def _in_words(facts: dict[str, Any]) -> dict[str, Any]:
    """Lists as `a, b`; an empty one says nothing."""
    return {
        word: (", ".join(map(str, value)) or None) if isinstance(value, list) else value
        for word, value in facts.items()
    }


def _field_row(entry: dict[str, Any]) -> dict[str, Any]:
    rules = _in_words({word.replace("_", " "): entry[word] for word in _RULES if word in entry})
    return {
        "field": entry["name"],
        "type": entry["type"],
        "null": "allowed" if entry["nullable"] else None,
        "rules": "; ".join(f"{word} {value}" for word, value in rules.items()) or None,
        "stored": entry.get("stored_as", entry["stored"]) if entry["sensitive"] else "as it is",
        "description": entry["doc"],
    }


def new(name: str, *, as_json: bool) -> None:
    from ingestion.scaffold import create_source

    root = read_settings().project_dir
    try:
        written = create_source(name, root)
    except (IngestionConfigurationError, ValueError, FileExistsError) as error:
        raise ConfigurationError(str(error), code="scaffold") from error
    files = [str(file.relative_to(root)) for file in written]
    if as_json:
        print_json({"source": name, "files": files})
        return
    for file in files:
        say(f"wrote {file}")
    say("next: docs/adding-a-source.md says what to fill in; then run: sluice check")
