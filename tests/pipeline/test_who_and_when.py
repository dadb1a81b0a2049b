"""Who gave a command, which Sluice it was given to, and which days may be asked for."""

import getpass
import tomllib
from datetime import UTC, date, datetime, timedelta

import pytest
from harness import CHECKOUT
from pydantic import SecretStr
from warm import WarmSluice

from orchestration.cli.session import operator_name
from orchestration.pipelines.files import get_pipeline
from orchestration.settings import Settings
from orchestration.triggers.schedule import last_closed_day
from orchestration.warehouse.connections import Warehouse


def test_an_operator_is_named_by_the_login_and_where_all_share_it_by_the_user_of_the_machine(
    warehouse: Warehouse,
) -> None:
    elsewhere = Settings(warehouse_url=SecretStr(warehouse.owner_url))
    assert operator_name(elsewhere, warehouse) == "sluice_owner"
    embedded = Settings(warehouse_url=None)
    assert operator_name(embedded, warehouse) == f"sluice_owner ({getpass.getuser()})"


@pytest.mark.parametrize(
    ("moment", "day"),
    [
        ("2013-03-02T04:59Z", date(2013, 2, 28)),
        # Midnight in New York.
        ("2013-03-02T05:00Z", date(2013, 3, 1)),
    ],
)
def test_a_day_is_closed_once_it_has_ended_where_the_source_is(moment: str, day: date) -> None:
    pipeline = get_pipeline(Settings().pipelines_dir, "flights")
    assert last_closed_day(pipeline, datetime.fromisoformat(moment)) == day
    anywhere = pipeline.model_copy(update={"schedule": None})
    assert last_closed_day(anywhere, datetime.fromisoformat(moment)) == date(2013, 3, 1)


def test_a_day_that_has_not_ended_is_refused_unless_the_request_is_made_as_of_later(
    sluice: WarmSluice,
) -> None:
    today = f"{datetime.now(UTC) + timedelta(days=1):%Y-%m-%d}"
    request = ("run", "--pipeline", "flights", "--dry-run", "--partitions")
    for days in ("2099-01-01", f"2013-01-01..{today}"):
        refused = sluice.call(*request, days)
        assert refused.returncode == 2
        assert "has not ended yet in" in refused.stderr
    assert sluice.query("select 1 from ops.runs") == []
    plan = sluice.json(*request, "2099-01-01", "--as-of", "2099-01-02T05:00:00+00:00")
    assert "flights.flights/2099-01-01@1" in {item["partition"] for item in plan["partitions"]}
    early = sluice.call(*request, "2013-01-02", "--as-of", "2013-01-02T12:00:00+00:00")
    assert early.returncode == 2


def test_the_version_is_that_of_the_project(sluice: WarmSluice) -> None:
    project = tomllib.loads((CHECKOUT / "pyproject.toml").read_text("utf-8"))["project"]
    assert sluice.call("--version").stdout == f"sluice {project['version']}\n"
