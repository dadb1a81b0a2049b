"""The kinds of failure that a test makes happen at a fault point, inside the process it concerns."""

import os
import signal
import time
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

import psycopg

from orchestration.faultpoints import FaultPoint, arm

# Points that every stage passes; all others belong to one stage or to the run.
SHARED = {
    FaultPoint.STAGE_BEFORE_ATTEMPT,
    FaultPoint.STAGE_AFTER_ATTEMPT,
    FaultPoint.STAGE_BEFORE_SUCCESS,
    FaultPoint.STAGE_AFTER_SUCCESS,
}
# Points that runs do not reach by themselves: what reviewers decide has a matrix of its own.
REVIEWERS = {point for point in FaultPoint if point.startswith("quarantine.")}


class Kind(StrEnum):
    SIGKILL = "sigkill"
    EXCEPTION = "exception"
    CUT = "connection cut"
    RESTART = "database restarted"
    PAUSE = "paused"


@dataclass(frozen=True)
class Sabotage:
    """One failure at one point (of one stage); `server_home` is the embedded server's."""

    point: str
    stage: str
    kind: str
    database: str
    superuser_url: str
    server_home: str

    def order(self) -> dict[str, Any]:
        return asdict(self)

    def prepare(self) -> None:
        """Arms the point in this process."""
        arm(FaultPoint(self.point), self.strike, stage=self.stage)

    def strike(self) -> None:
        Path("struck").write_text(f"{self.kind} {os.getpid()}")
        match Kind(self.kind):
            case Kind.SIGKILL:
                os.kill(os.getpid(), signal.SIGKILL)
                time.sleep(60)
            case Kind.EXCEPTION:
                raise RuntimeError("sabotage")
            case Kind.PAUSE:
                os.kill(os.getpid(), signal.SIGSTOP)
            case Kind.CUT:
                self.cut_connections()
            case Kind.RESTART:
                from orchestration.warehouse.embedded import EmbeddedServer

                server = EmbeddedServer(Path(self.server_home), durable=False)
                server.stop()
                server.start()

    def cut_connections(self) -> None:
        with psycopg.connect(self.superuser_url, autocommit=True) as connection:
            connection.execute(
                "select pg_terminate_backend(pid) from pg_stat_activity "
                "where datname = %s and pid <> pg_backend_pid()",
                [self.database],
            )
