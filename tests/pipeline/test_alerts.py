"""From a sender's message to what an owner is told, and back to the command that puts it right."""

import json
import shlex
from typing import Any

import pytest
from receiver import Receiver
from warm import WarmSluice
from web_service import WebService, message

DAY, NEXT_DAY = "2013-02-12", "2013-02-13"
ABSENT = {"SLUICE_WORKFLOW": "none", "RENDER_LOCAL_DEV_URL": "http://127.0.0.1:1"}


def announce(sluice: WarmSluice, day: str) -> None:
    with WebService(sluice, ABSENT) as web:
        for resource in ("flights.flights", "flights.weather"):
            answer = web.send(message(resource, day), f"{resource} {day}")
            assert answer.status_code == 202
    for name in ABSENT:
        del sluice.extra[name]


def told(receiver: Receiver, kind: str) -> dict[str, dict[str, Any]]:
    """Owner → the message of this kind; each was told once."""
    found = [(path, item) for path, item in receiver.told if kind in item["title"]]
    assert len(dict(found)) == len(found)
    return dict(found)


@pytest.mark.slow
def test_a_message_can_be_followed_to_the_alert_whose_command_puts_it_right(
    sluice: WarmSluice,
) -> None:
    with Receiver() as receiver:
        sluice.extra["SLUICE_ALERT_ROUTES"] = json.dumps({"*": receiver.route("{email}")})
        announce(sluice, DAY)
        done = sluice.json("dispatch")
        [run] = done["runs"]
        assert run["outcome"] == "published"
        # Nobody asked to be told of what went well; the reviewer is told what was kept out.
        [(path, kept_out)] = receiver.told
        assert path == "flight-data-review@example.com"
        assert receiver.fact(kept_out, "Records kept out").startswith(
            "1 flights.weather wind_speed"
        )
        assert receiver.fact(kept_out, "Request") == f"flights/flights.flights {DAY}"
        assert receiver.fact(kept_out, "Run") == run["run_id"]
        shown = sluice.json("runs", "show", run["run_id"])
        assert shown["correlation_id"] == receiver.fact(kept_out, "Request")
        assert shown["trigger"].startswith("micro_batch ")
        listed = sluice.call(*shlex.split(receiver.fact(kept_out, "Next"))[1:])
        assert (listed.returncode, "record-1" in listed.stdout) == (0, True)

        announce(sluice, NEXT_DAY)
        sluice.demo.set_fault("expired_token")
        sluice.json("dispatch", code=11)
        # Both resources refused the token, and each has an owner.
        failures = told(receiver, "failed:")
        assert failures.keys() == {"flight-data@example.com", "weather-data@example.com"}
        failed = failures["weather-data@example.com"]
        assert receiver.fact(failed, "Class") == "source (source_unauthorized), needs somebody"
        sluice.demo.clear()
        again = sluice.call(*shlex.split(receiver.fact(failed, "Next"))[1:])
        assert again.returncode == 0, again.stderr
        recovered = told(receiver, "published again")
        assert recovered.keys() == failures.keys()
        for item in recovered.values():
            assert "failed in run" in receiver.fact(item, "Before")
        assert set(receiver.keys.values()) == {1}
        assert sluice.query("select count(*) from ops.inbox_work where run_id is null") == [(0,)]
        for _, item in receiver.told:
            assert "crew_email" not in json.dumps(item)
