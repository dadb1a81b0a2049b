"""`sluice sources list|show|new`."""

from ingestion.errors import IngestionConfigurationError
from ingestion.sources import get_resource, get_source, list_sources
from orchestration.cli.output import print_facts, print_json, print_rows, say
from orchestration.cli.session import read_settings
from orchestration.errors import ConfigurationError


def list_them(*, as_json: bool) -> None:
    described = [source.describe() for source in list_sources()]
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
        for source in list_sources()
        for resource in source.resources
    ]
    columns = ["resource", "window", "contract", "schema_versions", "key", "sensitive"]
    print_rows("sources", columns, rows, "there is no source yet; run: sluice sources new NAME")


def show(name: str, *, as_json: bool) -> None:
    try:
        facts = get_resource(name).describe() if "." in name else get_source(name).describe()
    except IngestionConfigurationError as error:
        raise ConfigurationError(error.message, code=error.code) from error
    print_json(facts) if as_json else print_facts(facts)


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
