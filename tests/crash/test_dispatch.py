"""A dispatcher that dies anywhere loses no message and no run, and starts none twice."""

from dataclasses import replace

import pytest
from inbox import put
from platform_api import PlatformApi
from sabotage import Kind, Sabotage
from warm import WarmSluice

from orchestration.faultpoints import FaultPoint
from orchestration.warehouse.embedded import EmbeddedServer

POINTS = [point for point in FaultPoint if point.startswith("dispatch.")]


@pytest.mark.parametrize("kind", [Kind.SIGKILL, pytest.param(Kind.CUT, marks=pytest.mark.campaign)])
@pytest.mark.parametrize("point", POINTS)
def test_what_a_dead_dispatcher_left_is_done_by_the_next_once(
    sluice: WarmSluice, server: EmbeddedServer, point: FaultPoint, kind: Kind
) -> None:
    for number in range(3):
        put(sluice.warehouse, f"msg_{number}", f"2013-02-0{number + 1}")
    sabotage = Sabotage(
        point, "", kind, sluice.warehouse.database, server.superuser_url("postgres"),
        str(server.home),
    )  # fmt: skip
    with PlatformApi() as api:
        sluice.extra = dict(api.environment)
        replace(sluice, sabotage=(sabotage,)).call("dispatch", "--json")
        assert (sluice.home / "struck").read_text().startswith(kind)
        with sluice.warehouse.connect(autocommit=True) as owner:
            # Two minutes later.
            owner.execute("update ops.run_starts set next_at = clock_timestamp()")
        sluice.json("dispatch")
        assert sluice.json("dispatch")["started"] == []
        [(run_id,)] = sluice.query("select run_id from ops.runs")
        assert api.inputs("execute") == [[run_id]]
    assert sluice.query("select distinct run_id from ops.inbox_work") == [(run_id,)]
