"""What asking costs: CPU of `sluice status` beside that of importing the libraries it stands on.

    SLUICE_WAREHOUSE_URL=… python benchmarks/status.py [--repeat 7] [--json]

Both are processes of their own; counted is user and system time, the least of all repetitions, which
alternate. The warehouse is the configured one or the running embedded one. Ends with exit code 1 when
`sluice status` costs more than 1.5 times the imports.
"""

import argparse
import json
import os
import subprocess
import sys

LIMIT = 1.5
STATUS = "import sys; sys.argv = ['sluice', 'status']; from orchestration.cli import main; main()"
IMPORTS = "import typer, rich, psycopg, pydantic_settings"


def cpu_seconds(program: str) -> float:
    """User and system time of `python -c program`. Raises `CalledProcessError` when it fails."""
    before = os.times()
    subprocess.run(
        [sys.executable, "-c", program], check=True, stdout=subprocess.DEVNULL, text=True
    )
    after = os.times()
    return (
        after.children_user - before.children_user + after.children_system - before.children_system
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--repeat", type=int, default=7)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    costs: dict[str, list[float]] = {STATUS: [], IMPORTS: []}
    for _ in range(options.repeat + 1):
        for program, measured in costs.items():
            measured.append(cpu_seconds(program))
    # The first of each compiles bytecode.
    status, imports = min(costs[STATUS][1:]), min(costs[IMPORTS][1:])
    answer = {
        "status_cpu_s": round(status, 3),
        "imports_cpu_s": round(imports, 3),
        "ratio": round(status / imports, 2),
        "limit": LIMIT,
    }
    if options.json:
        print(json.dumps(answer))
    else:
        print(f"sluice status  {status:.3f} s of CPU")
        print(f"imports alone  {imports:.3f} s of CPU")
        print(f"ratio          {status / imports:.2f} (at most {LIMIT})")
    return 0 if status <= LIMIT * imports else 1


if __name__ == "__main__":
    sys.exit(main())
