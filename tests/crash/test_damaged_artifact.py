"""Rows that were adopted and damaged since are noticed and fetched again, not built from."""

import pytest
from harness import Sluice

DAY = "2013-02-12"
WEATHER = "select {} from ops.artifacts where partition = 'flights.weather/2013-02-12@1' "


@pytest.mark.slow
def test_damaged_rows_are_put_right_by_the_same_request(sluice: Sluice) -> None:
    first = sluice.run(DAY)
    before = sluice.everything_published()
    [(artifact,)] = sluice.query(WEATHER.format("artifact_id"))
    rows = f"from staging.flights__weather where _artifact_id = '{artifact}'"
    good = sluice.query(
        f"select t::text {rows.replace('weather where', 'weather t where')} order by 1"
    )
    quarantined = sluice.query("select * from quarantine.records")
    with sluice.warehouse.connect() as owner:
        owner.execute(f"delete {rows} and hour < 5".encode())
    again = sluice.run(DAY)
    assert (again["run_id"], again["version"]) == (first["run_id"], first["version"])
    assert (
        sluice.query(
            f"select t::text {rows.replace('weather where', 'weather t where')} order by 1"
        )
        == good
    )
    assert sluice.query(WEATHER.format("artifact_id, state") + "and state = 'adopted'") == [
        (artifact, "adopted")
    ]
    assert sluice.query("select * from quarantine.records") == quarantined
    assert sluice.everything_published() == before

    with sluice.warehouse.connect() as owner:
        owner.execute(f"delete {rows} and hour < 5".encode())
    sluice.demo.correct("weather", DAY, changes=[({"hour": 7}, {"temp": 1.0})])
    failed = sluice.run(DAY, code=13)
    assert failed["failure"]["error_code"] == "artifact_damaged"
    assert sluice.everything_published() == before
    assert sluice.run(DAY, "--refresh")["outcome"] == "published"
