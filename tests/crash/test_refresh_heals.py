"""A refresh that brings the same content again mends what was damaged since it was adopted."""

import pytest
from harness import Sluice

DAY = "2013-02-12"
ROWS = (
    "select (to_jsonb(t) - '_run_id' - '_source_ref')::text from staging.flights__weather t "
    "where _artifact_id = '{}' order by 1"
)
REVISIONS = (
    "select artifact_id from ops.artifacts where resource = 'flights.weather' "
    "and state = 'adopted' order by revision"
)


@pytest.mark.slow
def test_a_refresh_with_equal_content_gives_a_damaged_artifact_its_rows_back(
    sluice: Sluice,
) -> None:
    first = sluice.run(DAY)
    [(artifact,)] = sluice.query(REVISIONS)
    good = sluice.query(ROWS.format(artifact))
    with sluice.warehouse.connect() as owner:
        owner.execute(
            f"delete from staging.flights__weather where _artifact_id = '{artifact}' and hour < 5".encode()
        )
    refreshed = sluice.run(DAY, "--refresh")
    assert (refreshed["outcome"], refreshed["version"]) == ("unchanged", first["version"])
    # The manifest of that version names the first revision, so that is the one to be whole.
    assert sluice.query(ROWS.format(artifact)) == good
    assert len(sluice.query(REVISIONS)) == 2
    again = sluice.run(DAY)
    assert again["stages"][1]["stage"] == "extract"
    assert again["stages"][1]["status"] == "reused"

    with sluice.warehouse.connect() as owner:
        owner.execute(
            f"delete from staging.flights__weather where _artifact_id = '{artifact}' and hour < 5".encode()
        )
    left = sluice.query(ROWS.format(artifact))
    sluice.demo.correct("weather", DAY, changes=[({"hour": 7}, {"temp": 1.0})])
    assert sluice.run(DAY, "--refresh")["outcome"] == "published"
    assert sluice.query(ROWS.format(artifact)) == left, "other content is not what was adopted"
