"""What reviewers decide about real dirt, from the quarantine to the published tables."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from harness import Sluice
from quarantine_bench import assert_reconciled

from orchestration.warehouse.connections import Role
from orchestration.warehouse.embedded_install import installed_programs

pytestmark = pytest.mark.slow

DAYS = "2013-02-11..2013-02-12"
WINDY = (
    "select wind_speed_mph from analytics.fct_weather_hourly "
    "where origin_airport_code = 'EWR' and observed_at = '2013-02-12 08:00Z'"
)
COUNTS = ("fetched", "loaded", "quarantined", "held", "retried", "discarded", "released")
CREW = "ada.lovelace@crew.example"


def payload(sluice: Sluice, fields: dict[str, Any]) -> str:
    file = sluice.home / "payload.json"
    file.write_text(json.dumps(fields))
    return str(file)


def relations(sluice: Sluice, version: str) -> dict[str, str]:
    models = sluice.json("versions", "show", version)["models"]
    return {model["model"]: model["relation"] for model in models}


def weather(sluice: Sluice) -> dict[str, Any]:
    """The counts of the weather, which agree with everything else."""
    rows = sluice.json("quarantine", "list", "--summary")
    assert all(row["reconciles"] for row in rows)
    assert_reconciled(sluice.warehouse)
    [row] = [row for row in rows if row["resource"] == "flights.weather"]
    return {name: row[name] for name in COUNTS}


def counts(**given: int) -> dict[str, int]:
    return dict.fromkeys(COUNTS, 0) | given


def test_a_wind_of_1048_miles_an_hour_is_corrected_by_hand_and_published(sluice: Sluice) -> None:
    first = sluice.run(DAYS)
    before = sluice.everything_published()
    assert sluice.query(WINDY) == []
    assert weather(sluice) == counts(fetched=144, loaded=143, quarantined=1, held=1)

    [entry] = sluice.json("quarantine", "list", "--pipeline", "flights", "--decision", "held")
    assert (entry["id"], entry["rule"]) == ("record-1", "wind_speed.less_than_equal")
    assert (entry["owner"], entry["reviewer"], entry["age_s"] >= 0) == (
        "weather-data@example.com",
        "flight-data-review@example.com",
        True,
    )
    shown = sluice.json("quarantine", "show", "record-1")
    assert (shown["contract_version_then"], shown["contract_version_now"]) == ("1", "1")
    assert shown["payload"]["wind_speed"] == 1048.36058

    # As it is it stays out; nothing is loaded for it.
    [still] = sluice.json("quarantine", "retry", "record-1", code=10)["records"]
    assert (still["result"], still["detail"]) == ("held", entry["error"])
    assert sluice.query("select count(*) from ops.runs") == [(1,)]

    # The shown payload is what a reviewer starts from.
    corrected = payload(sluice, shown["payload"] | {"wind_speed": 10.35702})
    command = ("quarantine", "retry", "record-1", "--payload", corrected, "--reason", "mistyped")
    for _ in range(2):
        answer = sluice.json(*command)
        [record] = answer["records"]
        assert (record["result"], record["partition"]) == ("loaded", "flights.weather/2013-02-12@2")
        assert [run["outcome"] for run in answer["runs"]] == ["unchanged"]
    assert answer["next"] == "sluice quarantine retry record-1 --publish"
    assert weather(sluice) == counts(fetched=144, loaded=143, quarantined=1, retried=1)
    assert sluice.everything_published() == before

    # The next run publishes it, and builds only what changed.
    second = sluice.run(DAYS)
    assert (second["run_id"], second["outcome"]) == (first["run_id"], "published")
    assert sluice.query(WINDY) == [(10.35702,)]
    old, new = relations(sluice, first["version"]), relations(sluice, second["version"])
    changed = {model for model in new if new[model] != old.get(model)}
    assert "fct_weather_hourly" in changed
    assert not changed & {"dim_carrier", "dim_airport", "dim_plane", "agg_carrier_daily"}
    after = sluice.everything_published()
    assert set(before["fct_weather_hourly"]) < set(after["fct_weather_hourly"])
    assert len(after["fct_weather_hourly"]) == len(before["fct_weather_hourly"]) + 1
    [run] = sluice.json(*answer["next"].split()[1:])["runs"]
    assert (run["outcome"], run["version"]) == ("unchanged", second["version"])


def test_a_correction_by_hand_stays_until_the_source_says_something_else(sluice: Sluice) -> None:
    sluice.run(DAYS)
    corrected = payload(sluice, {"wind_speed": 10.35702})
    answer = sluice.json("quarantine", "retry", "record-1", "--payload", corrected, "--publish")
    [run] = answer["runs"]
    assert run["outcome"] == "published"
    after = sluice.everything_published()
    assert sluice.query(WINDY) == [(10.35702,)]

    # The source is asked again and sends the same: the correction stays, and that is said.
    again = sluice.run("2013-02-12", "--refresh")
    assert (again["outcome"], again["version"]) == ("unchanged", run["version"])
    [news] = again["corrections"]
    assert (news["record"], news["event"]) == ("record-1", "applied_again")
    assert again["records"]["quarantined"] == 0
    assert sluice.everything_published() == after
    weather(sluice)

    # The source corrects it: that is what counts, and that is said too.
    at = {"origin": "EWR", "hour": 3}
    sluice.demo.correct("weather", "2013-02-12", changes=[(dict(at), {"wind_speed": 11.5})])
    last = sluice.run("2013-02-12", "--refresh")
    assert last["outcome"] == "published"
    [news] = last["corrections"]
    assert (news["record"], news["event"]) == ("record-1", "superseded")
    assert "the source itself sends the record in order now" in news["message"]
    assert sluice.query(WINDY) == [(11.5,)]
    weather(sluice)

    shown = sluice.json("quarantine", "show", "record-1")
    assert (shown["decision"], shown["superseded_how"]) == ("retried", "corrected")
    assert shown["superseded_by"] == "flights.weather/2013-02-12@4"
    events = [item["event"] for item in shown["history"]]
    assert events == ["retry_requested", "retried", "applied_again", "superseded"]
    revisions = [
        (item["partition"][-2:], item["origin"], item["in_use"]) for item in shown["revisions"]
    ]
    assert revisions == [
        ("@4", "fetched", True),
        ("@3", "fetched", False),
        ("@2", "retry of @1", False),
        ("@1", "fetched", False),
    ]


def test_a_partition_with_too_much_in_quarantine_is_released_as_it_is(sluice: Sluice) -> None:
    sluice.run("2013-02-11")
    bad = [({"origin": "JFK", "hour": hour}, {"humid": 101.0}) for hour in range(4)]
    sluice.demo.correct("weather", "2013-02-11", changes=bad)
    degraded = sluice.run("2013-02-11", "--refresh")
    assert degraded["outcome"] == "degraded"
    before = sluice.published("fct_weather_hourly")
    assert len(before) == 72

    entries = {row["id"]: row for row in sluice.json("quarantine", "list", "--decision", "held")}
    assert entries["partition-1"]["rule"] == "max_quarantined_share"
    assert len(entries) == 5
    partition = entries["partition-1"]["partition"]
    shown = sluice.json("quarantine", "show", "partition-1")
    assert shown["in_use"]["partition"] == "flights.weather/2013-02-11@1"
    assert shown["in_use"]["loaded"] == 72

    released = sluice.json("quarantine", "release", "partition-1", "--reason", "sensor was down")
    assert released["partition"] == partition
    assert released["in_use_until_now"]["partition"] == "flights.weather/2013-02-11@1"
    assert released["in_use_from_the_next_run"] == {
        "partition": partition,
        "fetched": 72,
        "loaded": 68,
        "quarantined": 4,
    }
    again = sluice.json("quarantine", "release", partition, "--reason", "twice")
    assert again["remark"] == "it was accepted already"
    assert sluice.published("fct_weather_hourly") == before

    run = sluice.json(*released["next"].split()[1:])
    assert run["outcome"] == "published"
    assert len(sluice.published("fct_weather_hourly")) == 68
    assert sluice.json("versions", "show", run["version"])["degraded"] is False
    # The run that it was rejected in judges it again, and the release stands.
    replayed = sluice.json("replay", degraded["run_id"], "--stage", "validate")
    assert replayed["outcome"] in {"published", "unchanged"}
    assert len(sluice.published("fct_weather_hourly")) == 68
    assert sluice.query("select action, target, reason from ops.operator_actions order by 1") == [
        ("quarantine_release", partition, "sensor was down"),
        ("replay", f"{degraded['run_id']}/validate", "no reason was given"),
    ]
    assert weather(sluice)["held"] == 4


def test_a_held_run_goes_on_once_its_records_are_corrected_and_no_person_shows(
    sluice: Sluice,
) -> None:
    day = "2013-01-05"
    # More than one in a hundred of 720 flights, on a resource that holds the run.
    for position in range(8):
        sluice.demo.set_fault(
            "malformed_record", resource="flights", date=day, page=1, position=position,
            field="crew_email" if position == 7 else "distance",
        )  # fmt: skip
    held = sluice.run(day, code=10)
    assert held["failure"]["error_code"] == "partition_rejected"
    assert "sluice quarantine retry" in held["failure"]["message"]
    shown = sluice.json("quarantine", "show", "record-1")
    assert "crew_pseudonym" in shown["hidden"]
    assert "crew_pseudonym" not in shown["payload"]

    names = [f"record-{number}" for number in range(1, 9)]
    fields: dict[str, Any] = {name: {"distance": 1400} for name in names[:7]}
    fields[names[7]] = {"crew_email": CREW}
    fields[names[0]]["crew_email"] = CREW
    file = payload(sluice, fields)
    done = sluice.call("quarantine", "retry", *names, "--payload", file, "--json")
    assert done.returncode == 0, done.stderr[-3000:]
    answer = json.loads(done.stdout)
    assert {record["result"] for record in answer["records"]} == {"loaded"}
    assert {record["partition"] for record in answer["records"]} == {"flights.flights/2013-01-05@2"}

    # The same request is not held by the rejected revision any more.
    assert sluice.run(day)["outcome"] == "published"
    assert len(sluice.published()) == 720
    said = [done.stdout, done.stderr]
    for command in (["list"], ["list", "--summary"], *(["show", name] for name in names)):
        shown = sluice.call("quarantine", *command)
        assert shown.returncode == 0
        said.append(shown.stdout + shown.stderr)
    dump = subprocess.run(
        [str(installed_programs() / "pg_dump"), "--no-password", sluice.warehouse.owner_url],
        capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
    files = [
        file for file in sluice.home.rglob("*") if file.is_file() and file.name != "payload.json"
    ]
    said += [dump, *(file.read_bytes().decode(errors="replace") for file in files)]
    assert not [text for text in said if CREW in text or "@crew.example" in text]
    [(one, other)] = sluice.query(
        "select min(crew_pseudonym), max(crew_pseudonym) from staging.flights__flights "
        "where _source_ref ~ 'manual=record-(1|8)$'"
    )
    assert one == other
    assert_reconciled(sluice.warehouse)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("{", "not JSON (line 1, column 2)"),
        ("[]", "not a JSON object"),
        ('{"wind_speed": NaN}', "NaN and Infinity are not JSON"),
        ('{"wind_speed": 1, "wind_speed": 2}', "names a field twice"),
        ('{"record-2": {"wind_speed": 1}}', "names record-2"),
        ('{"record-1": 5}', "the fields of record-1 are not a JSON object"),
        (b"\xff".decode("latin-1"), "not UTF-8"),
        ("", "not JSON"),
    ],
)
def test_a_correction_that_is_no_strict_json_is_refused_before_anything_happens(
    text: str, why: str, sluice: Sluice, tmp_path: Path
) -> None:
    file = tmp_path / "fix.json"
    file.write_bytes(text.encode("latin-1" if "UTF" in why else "utf-8"))
    answer = sluice.json("quarantine", "retry", "record-1", "--payload", str(file), code=78)
    assert answer["error"]["code"] == "payload_file"
    assert why in answer["error"]["message"]


def test_decisions_about_what_there_is_not_are_refused_with_what_to_do(sluice: Sluice) -> None:
    for arguments, code in [
        (["show", "record-9"], "unknown_entry"),
        (["show", "rec-9"], "bad_entry"),
        (["retry", "record-9"], "unknown_entry"),
        (["retry", "partition-1"], "bad_entry"),
        (["discard", "record-9", "--reason", "x"], "decision_refused"),
        (["discard", "record-9", "--reason", " "], "no_reason"),
        (["release", "partition-9", "--reason", "x"], "unknown_partition"),
        (["release", "flights.weather/2013-02-12@1", "--reason", "x"], "unknown_partition"),
        (["list", "--decision", "lost"], "unknown_decision"),
    ]:
        answer = sluice.json("quarantine", *arguments, code=78)
        assert answer["error"]["code"] == code
    assert sluice.call("quarantine", "discard", "record-1").returncode == 2
    assert sluice.query("select count(*) from ops.operator_actions", Role.REVIEWER) == [(0,)]
