"""Every row of docs/outcomes.md, run as a user runs it: the fault, what it leads to, and the way out."""

import json
import subprocess
from typing import Any

import psycopg
import pytest
from effort import draw
from harness import Sluice
from outcome_table import Failure, Row, read_rows

from ingestion.demo_api.faults import Fault
from ingestion.demo_api.server import DemoServer
from orchestration.warehouse.embedded import EmbeddedServer
from orchestration.warehouse.embedded_install import installed_programs

pytestmark = pytest.mark.slow

ROWS = read_rows()
MART = {"flights": "fct_flights", "weather": "fct_weather_hourly"}
CORRECTION = ({"carrier": "UA", "flight": 1545}, {"arr_delay": 99.0})
Published = dict[str, list[tuple[Any, ...]]]


@pytest.fixture
def sluice(after_a_good_day: Sluice) -> Sluice:
    """One good day is published, and nothing is wrong yet."""
    return after_a_good_day


def test_every_fault_has_a_row() -> None:
    assert {row.fault for row in ROWS if row.fault} == set(Fault)


@pytest.mark.parametrize("row", draw(ROWS, 10), ids=str)
def test_a_fault_ends_as_its_row_says(
    row: Row, sluice: Sluice, server: EmbeddedServer, before: Published, whole: Published
) -> None:
    if row.fault is Fault.TIME_OUT:
        sluice.extra["SLUICE_FETCH_TIMEOUT_S"] = "2"
    strike(row, sluice.demo)
    first = run(sluice, row)
    assert first.answer["outcome"] == row.outcome
    assert failure_of(first.answer) == row.failure
    assert first.exit_code == row.exit_code
    check_quarantine(sluice, row, first.answer)
    check_readers(sluice, row, before, whole)
    if row.fault is Fault.EXTRA_FIELD:
        check_warning(sluice)

    logs = first.logs
    if row.failure is not None:
        logs += check_status(sluice, row)
    if row.what_to_do != "nothing":
        sluice.demo.clear()
        again = run(sluice, row, "--refresh" if "--refresh" in row.what_to_do else "")
        logs += again.logs
        assert (again.answer["failure"], again.exit_code) == (None, 0)
        assert again.answer["outcome"] == ("unchanged" if row.refreshes else "published")
        assert sluice.everything_published() == (before if row.refreshes else whole)

    kept = logs + "".join(file.read_text() for file in sluice.home.rglob("*.jsonl"))
    for secret in ("@crew.example", sluice.demo.token, "a key for tests", "DETAIL"):
        assert secret not in kept
    dump = dumped(server, sluice)
    assert "@crew.example" not in dump
    assert "surprise" not in dump


class Ran:
    """What one `sluice run` printed."""

    def __init__(self, done: subprocess.CompletedProcess[str]) -> None:
        self.exit_code = done.returncode
        self.logs = done.stdout + done.stderr
        assert done.stdout, done.stderr[-4000:]
        self.answer: dict[str, Any] = json.loads(done.stdout)
        assert "records" in self.answer, done.stdout
        records = self.answer["records"]
        assert records["fetched"] == records["loaded"] + records["quarantined"]


def strike(row: Row, demo: DemoServer) -> None:
    if row.fault is not None:
        demo.set_fault(row.fault, **row.parameters)
    elif row.name == "corrected record":
        demo.correct(row.resource, row.day, changes=[CORRECTION])
    elif row.name == "day without records":
        demo.correct(row.resource, row.day, remove=[{}])
    else:
        pytest.fail(f"nobody knows how to make happen: {row.name}")


def run(sluice: Sluice, row: Row, *options: str) -> Ran:
    """The command of the row; a refresh where the day is published already."""
    if row.refreshes:
        options = ("--refresh",)
    given = [option for option in options if option]
    return Ran(
        sluice.call("run", "--pipeline", "flights", "--partitions", row.day, *given, "--json")
    )


def failure_of(answer: dict[str, Any]) -> Failure | None:
    failure = answer["failure"]
    return failure and Failure(
        kind=failure["kind"], code=failure["error_code"], stage=failure["stage"]
    )


def check_quarantine(sluice: Sluice, row: Row, answer: dict[str, Any]) -> None:
    found = {
        table: {
            str(rule): int(count)
            for rule, count in sluice.query(
                f"select split_part(rule, ':', 1), count(*) from quarantine.{table} "
                f"where run_id = '{answer['run_id']}' group by 1"
            )
        }
        for table in ("records", "partitions")
    }
    assert found == {"records": row.records, "partitions": row.partitions}
    assert answer["records"]["quarantined"] == sum(row.records.values())
    assert answer["partitions"]["quarantined"] == (1 if row.partitions else 0)


def check_readers(sluice: Sluice, row: Row, before: Published, whole: Published) -> None:
    seen, mart = sluice.everything_published(), MART[row.resource]
    if row.readers_see == "what they saw before":
        assert seen == before
    elif row.readers_see == "all but this resource's day":
        assert seen == whole | {mart: before[mart]}
    elif row.readers_see == "the day without the quarantined records":
        lacking = set(whole[mart]) - set(seen[mart])
        assert set(seen[mart]) < set(whole[mart])
        assert len(lacking) == sum(row.records.values())
    elif row.name == "corrected record":
        changed = set(seen[mart]) ^ set(before[mart])
        assert len(changed) == 2
        assert len(seen[mart]) == len(before[mart])
        assert sluice.query(
            "select arrival_delay_minutes from analytics.fct_flights where carrier_code = 'UA' "
            f"and flight_number = 1545 and flight_date = '{row.day}'"
        ) == [(99.0,)]
    else:
        assert seen == whole


def check_warning(sluice: Sluice) -> None:
    """The name of the field is told, and the records are not refused for it."""
    shown = sluice.json("runs", "show")
    [told] = [item for item in shown["findings"] if item["resource"] == "flights.flights"]
    assert told["acceptance"] == "accepted"
    assert "unannounced_field" in told["reason"]


def check_status(sluice: Sluice, row: Row) -> str:
    """`sluice status` says what failed and the command to type next, and that command works."""
    shown = sluice.json("status")["run"]
    assert row.failure is not None
    assert shown["failure"] == f"{row.failure.kind} ({row.failure.code})"
    assert "@" in shown["owner"]
    options = ["--refresh"] if "--refresh" in row.what_to_do else []
    again = f"sluice run --pipeline flights --partitions {row.day}".split() + options
    assert shown["next"].split() == again
    done = sluice.call(*shown["look"].split()[1:])
    assert done.returncode == 0
    assert all(rule in done.stdout for rule in row.partitions)
    return json.dumps(shown) + done.stdout + done.stderr


def dumped(server: EmbeddedServer, sluice: Sluice) -> str:
    name = psycopg.conninfo.conninfo_to_dict(sluice.warehouse.owner_url)["dbname"]
    return subprocess.run(
        [installed_programs() / "pg_dump", server.superuser_url(str(name))],
        check=True, capture_output=True, text=True,
    ).stdout  # fmt: skip
