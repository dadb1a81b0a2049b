"""`sluice check` says which entries of shape_changes have done their work."""

from pathlib import Path
from typing import Any

from orchestration.checks.declared import read_pipelines
from orchestration.checks.shapes import check_shape_changes
from orchestration.warehouse.connections import Warehouse

PIPELINES = Path(__file__).parents[3] / "orchestration" / "pipelines"
ENTRIES = """
shape_changes:
  - {drop: fct_flights.gone, reason: r}
  - {drop: fct_flights.number, reason: r}
  - {rename: fct_flights.old, to: new, reason: r}
  - {rename: fct_flights.name, to: title, reason: r}
  - {retype: fct_flights.number, to: integer, reason: r}
  - {retype: fct_flights.name, to: integer, reason: r}
  - {withdraw: gone_mart, reason: r}
  - {withdraw: other_mart, reason: r}
"""


def test_only_entries_that_still_allow_something_are_left_alone(
    flights: Any, warehouse: Warehouse, tmp_path: Path
) -> None:
    text = (PIPELINES / "flights.yml").read_text()
    (tmp_path / "flights.yml").write_text(text.replace("\nsuites:\n", f"{ENTRIES}\nsuites:\n", 1))
    declared, problems = read_pipelines(tmp_path, tmp_path)
    assert problems == []
    with warehouse.connect(autocommit=True) as owner:
        assert check_shape_changes(owner, declared) == []
        flights.publish(
            flights.build(
                {
                    "fct_flights": "select 1 as number, 'a'::text as name",
                    "other_mart": "select 1 as one",
                }
            )
        )
        found = check_shape_changes(owner, declared)
    assert [finding.message.split(" is published")[0] for finding in found] == [
        "this change of fct_flights.gone",
        "this change of fct_flights.old",
        "this change of fct_flights.number",
        "this change of gone_mart",
    ]
    first = declared[0].where("shape_changes", 0)
    assert found[0].where == first
