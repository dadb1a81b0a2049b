"""Previews of edits beside one published version, which none of them touches."""

import secrets
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import psycopg
import pytest
from analyst import DAYS, DELAYED, MODELS, change_the_delays, check_out, edit, git
from harness import Sluice
from warm import WarmProcess, WarmSluice

from ingestion.demo_api.server import DemoServer
from orchestration.warehouse.connections import Role, Warehouse
from orchestration.warehouse.embedded import EmbeddedServer

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def published(
    server: EmbeddedServer,
    template: str,
    tmp_path_factory: pytest.TempPathFactory,
    demo_server: DemoServer,
    warm_process: WarmProcess,
) -> Iterator[WarmSluice]:
    """A Sluice of a fresh clone that published two days, for all tests of this module."""
    name = f"preview_{secrets.token_hex(6)}"
    folder = tmp_path_factory.mktemp("preview")
    demo_server.clear()
    with psycopg.connect(server.superuser_url("postgres"), autocommit=True) as admin:
        admin.execute(f"create database {name} template {template} owner sluice_owner")
        warehouse = Warehouse(server.url(database=name))
        home = folder / "home"
        home.mkdir()
        project = check_out(Sluice(warehouse, home, demo_server), folder / "project")
        sluice = WarmSluice(warehouse, home, demo_server, project, process=warm_process)
        sluice.extra["SLUICE_ANALYST"] = "ada"
        assert sluice.run(DAYS)["outcome"] == "published"
        yield sluice
        admin.execute(f"drop database {name} with (force)")


@pytest.fixture
def sluice(published: WarmSluice) -> Iterator[WarmSluice]:
    """The same, with nothing edited; what is published stays what it is."""
    git(published.project, "checkout", "--quiet", "--", ".")
    git(published.project, "clean", "--quiet", "--force", "-d")
    before = published.everything_published()
    yield published
    assert published.everything_published() == before
    assert published.query("select count(*) from ops.versions") == [(1,)]


def test_a_preview_says_why_and_replaces_the_former_one_and_leaves_nothing(
    sluice: WarmSluice,
) -> None:
    project = sluice.project
    edit(
        project / MODELS / "dim_plane.sql",
        "with\n",
        "{{ config(indexes=[{'columns': ['tail_number']}]) }}\n\nwith\n",
    )
    edit(
        project / MODELS / "dim_carrier.sql",
        "        carrier_name\n",
        "        upper(carrier_name) as carrier_name\n",
    )
    selection = ("--select", "dim_carrier", "--select", "dim_plane")
    planned = sluice.json("preview", "--dry-run", *selection)
    models = {model["model"]: model for model in planned["models"]}
    assert models["dim_plane"]["reasons"][0]["text"] == "config changed: indexes"
    assert models["dim_carrier"]["reasons"][0]["text"] == "SQL changed"
    assert models["agg_carrier_daily"]["action"] == "left_out"
    assert (
        models["agg_carrier_daily"]["reasons"][0]["text"] == "upstream model changed: dim_carrier"
    )

    first = sluice.json("preview", "--name", "pr-7", "--select", "dim_carrier")
    assert first["schema"] == "dev_pr_7"
    [diff] = first["diff"]["models"]
    assert (diff["model"], diff["counts"]["changed"]) == ("dim_carrier", 16)
    [(shown,)] = sluice.query(
        "select carrier_name from dev_pr_7.dim_carrier where carrier_code = 'UA'"
    )
    assert shown == "UNITED AIR LINES INC."

    edit(project / MODELS / "dim_carrier.sql", "upper(", "lower(")
    sluice.json("preview", "--name", "pr-7", "--select", "dim_carrier")
    [(shown,)] = sluice.query(
        "select carrier_name from dev_pr_7.dim_carrier where carrier_code = 'UA'"
    )
    assert shown == "united air lines inc."

    assert "dim_carrier" in sluice.json("preview", "--clean", "--name", "pr-7")["dropped"]
    assert sluice.query("select to_regnamespace('dev_pr_7')::text") == [(None,)]


def test_a_preview_that_a_gate_would_hold_says_so_and_ends_like_a_held_run(
    sluice: WarmSluice,
) -> None:
    edit(
        sluice.project / MODELS / "fct_flights.sql",
        "    from flights\n",
        "    from flights\n    where carrier_code <> 'UA'\n",
    )
    previewed = sluice.json("preview", code=10)
    refused = ["marts/fct_flights", "marts/agg_carrier_daily", "dbt data tests"]
    assert previewed["refused"] == refused
    [tests] = [gate for gate in previewed["gates"] if gate["suite"] == "dbt data tests"]
    assert "marts_keep_every_source_row" in [failed["type"] for failed in tests["failed"]]
    markdown = sluice.call("preview", "--format", "markdown").stdout
    assert f"A run would hold this version: {', '.join(refused)}." in markdown
    assert len(markdown) < 65_536


def test_the_published_state_tells_plain_dbt_what_was_edited(sluice: WarmSluice) -> None:
    written = sluice.json("state", "--output", str(sluice.home / "state"))
    assert written["version"] == sluice.json("versions", "show")["version_id"]
    assert dbt(sluice, "ls", "--select", "state:modified", "--state", sluice.home / "state") == []

    change_the_delays(sluice)
    modified = dbt(
        sluice,
        *("ls", "--select", "state:modified+", "--resource-type", "model"),
        *("--state", sluice.home / "state"),
    )
    assert modified == [
        "sluice.marts.flights.agg_carrier_daily",
        "sluice.marts.flights.fct_flights",
    ]
    dbt(
        sluice,
        *("build", "--select", "state:modified+", "--defer", "--state", sluice.home / "state"),
        # The schema is empty but for this: what was not edited is read where it is published.
        *("--favor-state", "--resource-type", "model"),
    )
    assert sluice.query(
        "select count(*) from dev_ada.fct_flights d join analytics.fct_flights a using (flight_key) "
        "where d.arrival_delay_minutes = a.arrival_delay_minutes + 1"
    ) == sluice.query(DELAYED)


def dbt(sluice: Sluice, *arguments: str | Path) -> list[str]:
    """Plain dbt as the analyst runs it; returns what it lists, sorted."""
    done = subprocess.run(
        [
            *(Path(sys.executable).parent / "dbt", "--quiet", *arguments),
            *("--project-dir", sluice.project / "dbt_project"),
            *("--profiles-dir", sluice.project / "dbt_project"),
        ],
        env=sluice.environment,
        cwd=sluice.project / "dbt_project",
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return sorted(line for line in done.stdout.splitlines() if line.startswith("sluice."))


def test_new_models_and_edited_tests_are_built_and_judged_and_nothing_else(
    sluice: WarmSluice,
) -> None:
    project = sluice.project / "dbt_project"
    edit(project / "macros/local_clock.sql", "as integer)", "as integer) + 0")
    planned = sluice.json("preview")
    assert {model["action"] for model in planned["models"]} == {"reuse"}
    judged = [gate for gate in planned["gates"] if gate["judged"]]
    assert [gate["suite"] for gate in judged] == ["dbt data tests"]
    assert judged[0]["status"] == "passed"

    (project / "models/marts/flights/dim_origin.sql").write_text(
        "select distinct origin_airport_code from {{ ref('stg_flights__weather') }}\n"
    )
    edit(
        project / "models/marts/flights/_flights__models.yml",
        "  - name: dim_carrier\n",
        "  - name: dim_origin\n    config: {group: reference_data}\n    columns:\n"
        "      - {name: origin_airport_code, data_type: text, data_tests: [unique]}\n\n"
        "  - name: dim_carrier\n",
    )
    pipeline = sluice.project / "orchestration/pipelines/flights.yml"
    edit(pipeline, "+dim_plane]", "+dim_plane, dim_origin]")
    edit(pipeline, "publishes: [", "publishes: [dim_origin, ")
    previewed = sluice.json("preview")
    reasons = {m["model"]: m["reasons"] for m in previewed["models"] if m["reasons"]}
    assert [reason["text"] for reason in reasons.pop("dim_origin")] == ["new model"]
    assert reasons == {}
    [new] = previewed["diff"]["models"]
    assert (new["model"], new["change"], new["rows_after"]) == ("dim_origin", "added", 3)


def test_a_preview_writes_as_the_analyst_who_cannot_write_the_store(sluice: WarmSluice) -> None:
    change_the_delays(sluice)
    sluice.json("preview", "--name", "rights", "--select", "fct_flights")
    owners = sluice.query(
        "select distinct relowner::regrole::text from pg_class "
        "where relnamespace = 'dev_rights'::regnamespace and relkind in ('r', 'v')"
    )
    assert owners == [("sluice_analyst",)]
    for refused in (
        "create table store.mine (a int)",
        "create schema mine",
        "select ops.create_preview_schema('store')",
        "select ops.create_preview_schema('dev_')",
    ):
        with pytest.raises(psycopg.Error):
            sluice.query(refused, Role.ANALYST)
    sluice.json("preview", "--clean", "--name", "rights")


def test_a_login_as_the_analyst_is_enough(sluice: WarmSluice) -> None:
    login = {
        "SLUICE_WAREHOUSE_URL": "",
        "SLUICE_ANALYST_URL": sluice.warehouse.url(Role.ANALYST),
    }
    analyst = replace(sluice, extra={**sluice.extra, **login})
    change_the_delays(sluice)
    planned = analyst.json("preview", "--dry-run", "--name", "pr-8")
    assert [m["model"] for m in planned["models"] if m["action"] == "build"] == [
        "fct_flights",
        "agg_carrier_daily",
    ]
    assert analyst.json("diff", "published", "published")["models"] == []
    assert analyst.json("state")["pipeline"] == "flights"
    assert analyst.call("rollback", "--reason", "no").returncode != 0


def test_two_previews_do_not_share_a_schema_at_one_time(sluice: WarmSluice) -> None:
    with sluice.warehouse.connect(Role.ANALYST, autocommit=True) as connection:
        connection.execute("select pg_advisory_lock(hashtextextended('sluice preview dev_ada', 0))")
        answer = sluice.json("preview", code=75)
        assert answer["error"]["code"] == "preview_running"
        assert sluice.json("preview", "--clean", code=75)["error"]["code"] == "preview_running"


def test_plain_dbt_goes_on_in_the_schema_of_a_preview(sluice: WarmSluice) -> None:
    change_the_delays(sluice)
    sluice.json("preview")
    dbt(sluice, "build", "--select", "fct_flights", "--resource-type", "model")
    kind = "select relkind from pg_class where oid = to_regclass('dev_ada.fct_flights')"
    assert sluice.query(kind) == [("r",)]
    sluice.json("preview")
    assert sluice.query(kind) == [("v",)]
    dropped = sluice.json("preview", "--clean")["dropped"]
    assert {"fct_flights", "agg_carrier_daily"} <= set(dropped)
    # A stand-in is back, and nothing of the preview is left.
    assert sluice.query(
        "select count(*) from pg_class where relnamespace = 'dev_ada'::regnamespace "
        "and (relkind = 'r' or relname ~ '__[0-9a-f]{12}')"
    ) == [(0,)]
    assert sluice.query("select count(*) from dev_ada.fct_flights") == sluice.query(
        "select count(*) from analytics.fct_flights"
    )
