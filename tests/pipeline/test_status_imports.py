"""Asking is cheap: `sluice status` imports nothing that only stages need."""

import subprocess
import sys

from harness import Sluice

HEAVY = {
    *("dbt", "dlt", "great_expectations", "pyarrow", "pandas", "numpy", "sqlalchemy", "ruamel"),
    *("jsonschema", "adbc_driver_postgresql", "agate", "jinja2", "orjson", "httpx", "requests"),
}
# Owners and reviewers are named in the pipeline files, which are YAML.
NEEDED = {("quarantine", "list"): {"ruamel"}}
PROGRAM = """
import atexit, sys
sys.argv = ["sluice", *sys.argv[1:]]
atexit.register(lambda: print(*sorted({name.partition(".")[0] for name in sys.modules}), file=sys.stderr))
from orchestration.cli import main
main()
"""


def test_looking_imports_nothing_heavy(sluice: Sluice) -> None:
    commands = (
        ["status"],
        ["runs", "list"],
        ["versions", "list"],
        ["quarantine", "list"],
        ["gates", "show"],
        ["metrics"],
    )
    for command in commands:
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM, *command],
            env=sluice.environment,
            cwd=sluice.home,
            text=True,
            capture_output=True,
            check=False,
        )
        loaded = set(done.stderr.splitlines()[-1].split())
        assert "psycopg" in loaded, done.stderr
        assert loaded & HEAVY <= NEEDED.get(tuple(command), set()), (command, loaded & HEAVY)
