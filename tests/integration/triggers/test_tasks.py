"""What a task answers when its own run is not, or no longer, what it can work on."""

from pathlib import Path

import psycopg
import pytest
from late_work import RUN, Silence, begin_work

from orchestration.errors import DestinationFailure, SluiceError
from orchestration.model import StageName
from orchestration.settings import Settings
from orchestration.triggers.tasks import Services, pass_chunk, pass_stage, settle
from orchestration.warehouse.connections import Warehouse


@pytest.fixture
def services(warehouse: Warehouse, tmp_path: Path) -> Services:
    return Services(Settings(home=tmp_path), warehouse, Silence())


def test_a_task_of_other_code_does_nothing_and_says_so(services: Services) -> None:
    begin_work(services.warehouse)
    before = everything_about_the_run(services.warehouse)
    assert pass_stage(services, RUN, StageName.INITIALIZE, "elsewhere|1|1") == {
        "code_changed": True
    }
    failure = pass_chunk(services, RUN, [])["failure"]
    assert failure["error_code"] == "code_changed"
    assert everything_about_the_run(services.warehouse) == before


def test_a_permanent_failure_is_the_answer_and_a_transient_one_is_raised() -> None:
    answer = settle(ValueError("secret"), RUN, "flights")
    assert (answer["run_id"], answer["outcome"]) == (RUN, "failed")
    assert answer["failure"]["kind"] == "internal"
    assert "secret" not in str(answer)
    away = DestinationFailure("the warehouse is away; wait", code="away", transient=True)
    for error in (away, psycopg.OperationalError("connection refused")):
        with pytest.raises(SluiceError) as raised:
            settle(error, RUN, "flights")
        assert raised.value.transient


def everything_about_the_run(warehouse: Warehouse) -> list[object]:
    with warehouse.connect() as owner:
        return [
            owner.execute(f"select * from ops.{table} order by 1, 2").fetchall()  # type: ignore[arg-type]
            for table in ("runs", "run_stages", "run_partitions", "leases", "attempts")
        ]
