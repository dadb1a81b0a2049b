"""`sluice up`, `down` and `init`: the local environment and the state of the warehouse."""

import shutil

import typer

from orchestration.cli.output import print_facts, print_json, say
from orchestration.cli.session import ensure_sources, open_warehouse, prepare_analyst, read_settings
from orchestration.errors import ConfigurationError
from orchestration.settings import Settings
from orchestration.warehouse.connections import Warehouse


def up(*, as_json: bool) -> None:
    settings = read_settings()
    say("starting the warehouse" if settings.is_embedded else "connecting to the warehouse")
    warehouse = open_warehouse(settings, start=True)
    ensure_sources(settings)
    facts = _bring_up_to_date(settings, warehouse)
    facts |= {
        "services": _services(settings),
        "warehouse": "embedded" if settings.is_embedded else "external",
    }
    print_json(facts) if as_json else print_facts(facts | {"connect": "sluice psql"})


def init(*, as_json: bool) -> None:
    settings = read_settings()
    facts = _bring_up_to_date(settings, open_warehouse(settings, start=True))
    print_json(facts) if as_json else print_facts(facts)


def down(*, wipe: bool, yes: bool, as_json: bool) -> None:
    from orchestration.services import ServiceError, stop_demo_api
    from orchestration.warehouse.embedded import EmbeddedServer
    from orchestration.warehouse.embedded_install import EmbeddedServerError

    settings = read_settings()
    if wipe and not yes:
        typer.confirm(
            f"Delete the embedded warehouse and everything in {settings.home_dir}?", abort=True
        )
    server = EmbeddedServer(settings.home_dir)
    try:
        stop_demo_api(settings.home_dir)
        if wipe:
            server.destroy()
            shutil.rmtree(settings.home_dir, ignore_errors=True)
        else:
            server.stop()
    except (EmbeddedServerError, ServiceError) as error:
        raise ConfigurationError(str(error), code="services") from error
    facts = {"stopped": True, "wiped": wipe}
    print_json(facts) if as_json else say("stopped" + (", and everything deleted" if wipe else ""))


def _bring_up_to_date(settings: Settings, warehouse: Warehouse) -> dict[str, object]:
    from orchestration.warehouse.setup import analyst_schema, set_up

    say("bringing the warehouse up to date")
    done = set_up(warehouse)
    for warning in done.warnings:
        say(f"warning: {warning}")
    prepare_analyst(settings, warehouse)
    return {
        "migrations": done.migrations,
        "source_views": done.live_views,
        "analyst_schema": analyst_schema(),
        "warnings": done.warnings,
    }


def _services(settings: Settings) -> list[str]:
    from orchestration.services import services_status

    running = [item.name for item in services_status(settings.home_dir) if item.running]
    return [*(["postgres"] if settings.is_embedded else []), *running]
