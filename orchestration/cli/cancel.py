"""`sluice cancel`: asks for a run to be stopped, and says whether it has stopped."""

from orchestration.cli.output import print_facts, print_json
from orchestration.cli.session import (
    open_warehouse,
    operator_name,
    prepare_logs,
    read_settings,
)
from orchestration.notifications.routes import read_alerts
from orchestration.runs.cancellation import request_cancel
from orchestration.runs.messages import deliver_left_over
from orchestration.runs.state import get_run, resolve_run
from orchestration.warehouse.connections import Role


def cancel(prefix: str, *, reason: str, wait_s: float, as_json: bool) -> None:
    settings = read_settings()
    prepare_logs(settings)
    warehouse = open_warehouse(settings)
    actor = operator_name(settings, warehouse)
    with warehouse.connect(Role.RUNNER, autocommit=True) as connection:
        run_id = resolve_run(connection, prefix).run_id
        answer = request_cancel(connection, run_id, reason=reason, wait_s=wait_s, actor=actor)
        run = get_run(connection, run_id)
    deliver_left_over(warehouse, read_alerts(settings))
    facts = {
        "run_id": run_id,
        "cancel": answer,
        "status": run.status,
        "outcome": run.outcome,
        "next": f"sluice status {run_id}"
        if answer == "requested" or run.status == "finished"
        else f"sluice replay {run_id}",
    }
    print_json(facts) if as_json else print_facts(facts)
