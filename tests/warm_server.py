"""The process that `warm` forks commands from, with the checkout and heavy libraries imported.

Run as a program. Each line on standard input is an order. Its exit code is written into the pipe
`code` in its folder of outputs, by a process that waits for the command alone.
"""

import gc
import json
import os
import signal
import sys
import traceback
from importlib import import_module
from pathlib import Path
from pkgutil import walk_packages
from typing import Any

CHECKOUT = Path(__file__).resolve().parent.parent
PACKAGES = ("orchestration", "ingestion", "expectations")
# What a command never imports: programs of their own.
PROGRAMS = ("__main__", "workflow")
HEAVY = (
    *("adbc_driver_postgresql.dbapi", "dbt.adapters.postgres", "dbt.cli.main", "dlt"),
    *("great_expectations", "great_expectations.expectations.core", "pyarrow.parquet"),
    *("sqlalchemy.dialects.postgresql.psycopg2", "psycopg", "httpx", "tenacity", "orjson"),
    *("typer", "rich.table", "structlog", "sqlglot", "ruamel.yaml", "pydantic_settings", "cronsim"),
    *("dbt.task.build", "dbt.task.test", "dlt.destinations.impl.postgres.postgres", "httpcore"),
    *("dlt.sources.helpers.requests", "psycopg2.extras", "sqlglot.dialects.postgres", "sqlparse"),
)


def serve() -> None:
    """Forks a child for each order, and goes on to the next while that works."""
    sys.path.insert(0, str(CHECKOUT))
    for module in HEAVY:
        import_module(module)
    for package in map(import_module, PACKAGES):
        for found in walk_packages(package.__path__, f"{package.__name__}."):
            if found.name.rpartition(".")[2] not in PROGRAMS:
                import_module(found.name)
    # What is imported is never garbage; a collector that looks at it would copy all of it into every fork.
    gc.collect()
    gc.freeze()
    # Nobody waits for the attendants.
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    for line in sys.stdin:
        if os.fork() == 0:
            attend(json.loads(line))


def attend(order: dict[str, Any]) -> None:
    """Runs the command in a child and tells its exit code; never returns."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    child = os.fork()
    if child == 0:
        become(order)
    Path(order["outputs"], "pid").write_text(str(child))
    _, status = os.waitpid(child, 0)
    Path(order["outputs"], "code").write_text(str(os.waitstatus_to_exitcode(status)))
    os._exit(0)


def become(order: dict[str, Any]) -> None:
    """Turns this child into the command; never returns."""
    code = 70
    try:
        for number, name in ((1, "out"), (2, "err")):
            os.dup2(os.open(Path(order["outputs"], name), os.O_WRONLY | os.O_CREAT, 0o600), number)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.chdir(order["folder"])
        os.environ.clear()
        os.environ.update(order["environment"])
        if order["project"] != str(CHECKOUT):
            forget_checkout()
        sys.path.insert(0, order["project"])
        sys.argv = order["arguments"]
        for sabotage in order["sabotage"]:
            from sabotage import Sabotage

            Sabotage(**sabotage).prepare()
        if sys.argv[0] == "render-workflows":
            from render.workflows.cli import main
        else:
            from orchestration.cli import main
        main()
        code = 0
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    except BaseException:  # noqa: BLE001 - the child must not go on as the parent
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def forget_checkout() -> None:
    """Another copy of the project is imported when it is asked for."""
    for name in [name for name in sys.modules if name.partition(".")[0] in PACKAGES]:
        del sys.modules[name]


if __name__ == "__main__":
    serve()
