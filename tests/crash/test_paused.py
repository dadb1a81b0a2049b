"""Workers that are stopped for longer than their leases live, and woken when others did their work."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from harness import Sluice
from observation import REQUEST, differences, observe

from orchestration.faultpoints import FaultPoint

POINTS = [
    FaultPoint.EXTRACT_AFTER_LOAD,
    FaultPoint.VALIDATE_AFTER_SUITES,
    FaultPoint.TRANSFORM_AFTER_BUILD,
    FaultPoint.GATE_AFTER_TESTS,
    FaultPoint.PUBLISH_AFTER_PREPARE,
    FaultPoint.NOTIFY_BEFORE_DELIVERY,
]
PROGRAM = """
import os, signal, sys
from orchestration.faultpoints import FaultPoint, arm
arm(FaultPoint(sys.argv.pop(1)), lambda: os.kill(os.getpid(), signal.SIGSTOP))
sys.argv[0] = "sluice"
from orchestration.cli import main
main()
"""


def start_and_pause(sluice: Sluice, point: FaultPoint) -> subprocess.Popen[bytes]:
    """A worker that has stopped itself at the point, all its threads with it."""
    with (sluice.home / "log").open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-c", PROGRAM, point, *REQUEST, "--json"],
            env=sluice.environment,
            cwd=sluice.home,
            stdout=subprocess.DEVNULL,
            stderr=log,
        )
    _, status = os.waitpid(process.pid, os.WUNTRACED)
    assert os.WIFSTOPPED(status), (sluice.home / "log").read_text()[-3000:]
    return process


def let_leases_run_out(sluice: Sluice) -> None:
    with sluice.warehouse.connect(autocommit=True) as owner:
        owner.execute(
            "update ops.leases set expires_at = clock_timestamp(), holder = 'elsewhere|1|1' "
            "where expires_at > clock_timestamp()"
        )


@pytest.mark.campaign
def test_workers_that_were_paused_change_nothing_when_they_wake(
    fresh_sluice: Callable[[], Sluice], tmp_path: Path
) -> None:
    """One run, paused in one stage after the other."""
    sluice = fresh_sluice()
    paused: list[subprocess.Popen[bytes]] = []
    try:
        for point in POINTS:
            paused.append(start_and_pause(sluice.at(tmp_path / point), point))
            let_leases_run_out(sluice)
        assert sluice.json(*REQUEST)["outcome"] == "published"
        before = observe(sluice)
        attempts = sluice.query("select * from ops.attempts order by 1, 2")
        for process in paused:
            process.send_signal(signal.SIGCONT)
            # It stops, or finds when it looks again that the run was brought to its end.
            assert process.wait(120) in {0, 75}
        assert differences(sluice, before) == {}
        assert sluice.query("select * from ops.attempts order by 1, 2") == attempts
    finally:
        for process in paused:
            process.kill()
            process.wait()
