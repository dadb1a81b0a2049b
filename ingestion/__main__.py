"""Ingestion on its own: `python -m ingestion fetch flights.weather 2013-02-12 [--spool FOLDER]`.

Fetches, redacts and judges partitions into a folder and prints one JSON object for each; nothing is
loaded. Exit code 0, or 1 with the reason on standard error.
"""

import argparse
import json
import os
import sys
from pathlib import Path

from ingestion.errors import IngestionError
from ingestion.fetch import fetch_partition
from ingestion.partitions import SNAPSHOT, Partition, day_windows
from ingestion.sources import get_resource


def main(arguments: list[str] | None = None) -> int:
    """Runs the command and returns its exit code."""
    parser = argparse.ArgumentParser(prog="python -m ingestion")
    commands = parser.add_subparsers(dest="command", required=True)
    fetch = commands.add_parser("fetch", help="fetch partitions of a resource into a folder")
    fetch.add_argument("resource", help="for example flights.weather")
    fetch.add_argument("window", nargs="?", default=SNAPSHOT, help="a day, or first..last")
    fetch.add_argument("--spool", type=Path, default=Path("spool"), help="the folder (spool)")
    given = parser.parse_args(arguments)
    try:
        windows = [SNAPSHOT] if given.window == SNAPSHOT else day_windows(given.window)
        for window in windows:
            fetched = fetch_partition(
                get_resource(given.resource),
                Partition(given.resource, window),
                environ=os.environ,
                run_id="by_hand",
                spool_dir=given.spool,
            )
            sys.stdout.write(json.dumps(fetched.to_json()) + "\n")
    except (IngestionError, ValueError, OSError) as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
