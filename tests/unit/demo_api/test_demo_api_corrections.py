"""A correction changes what a day or snapshot holds, whole or not at all."""

from collections.abc import Callable
from typing import Any

import httpx
import pytest

from ingestion.demo_api.server import DemoServer

DAY = "2013-01-05"
FLIGHTS = f"/v1/flights?date={DAY}"
WEATHER = f"/v1/weather?date={DAY}"
Read = Callable[[str], list[dict[str, Any]]]
SetFault = Callable[..., int]


def test_a_correction_changes_the_day_until_it_is_cleared(read: Read, client: httpx.Client) -> None:
    before = read(FLIGHTS)
    match = {"carrier": before[0]["carrier"], "flight": before[0]["flight"]}
    gone = {"carrier": before[1]["carrier"], "flight": before[1]["flight"]}
    added = before[2] | {"flight": 9_999}
    answer = client.post(
        "/control/corrections",
        json={
            "resource": "flights",
            "date": DAY,
            "changes": [{"match": match, "set": {"arr_delay": 99.0}}],
            "remove": [gone],
            "add": [{k: v for k, v in added.items() if k != "crew_email"}],
        },
    )
    assert answer.status_code == 201
    assert answer.json() == {"changed": 1, "removed": 1, "added": 1}
    after = read(FLIGHTS)
    assert after[:1] == [before[0] | {"arr_delay": 99.0}]
    assert after[1:-1] == before[2:]
    assert after[-1]["flight"] == 9_999
    assert after[-1]["crew_email"].endswith("@crew.example")
    assert len(client.get("/control/corrections").json()["corrections"]) == 1
    assert client.delete("/control/corrections").status_code == 204
    assert read(FLIGHTS) == before


def test_corrections_add_up_and_reach_snapshots(read: Read, server: DemoServer) -> None:
    server.correct("airlines", changes=[({"carrier": "UA"}, {"name": "United"})])
    server.correct("airlines", changes=[({"name": "United"}, {"name": "United Again"})])
    names = {r["carrier"]: r["name"] for r in read("/v1/airlines")}
    assert (len(names), names["UA"]) == (16, "United Again")
    server.correct("weather", DAY, remove=[{}])
    assert read(WEATHER) == []


@pytest.mark.parametrize(
    "correction",
    [
        {"resource": "flights", "add": [{"flight": 1}]},
        {"resource": "planes", "date": DAY, "add": [{"tailnum": "N1"}]},
        {"resource": "planes"},
        {"resource": "planes", "add": [{"wings": 2}]},
        {"resource": "planes", "remove": [{"tailnum": "none such"}]},
        {"resource": "planes", "add": [{"tailnum": "N1"}], "remove": [{"tailnum": "none such"}]},
    ],
)
def test_a_correction_that_does_not_fit_changes_nothing(
    client: httpx.Client, correction: dict[str, object]
) -> None:
    answer = client.post("/control/corrections", json=correction)
    assert answer.status_code == 422
    assert "none such" not in answer.text
    assert client.get("/control/corrections").json() == {"corrections": []}
    assert client.get("/v1/planes").json()["total_records"] == 3_322
