"""`sluice state`: dbt's manifest of what is published, for `--state` and `--defer`."""

import json
import os
from pathlib import Path

from orchestration.cli.diff import published_by
from orchestration.cli.output import print_facts, print_json
from orchestration.cli.reading import reading
from orchestration.cli.session import open_as, read_settings
from orchestration.publication.deferral import published_manifest
from orchestration.warehouse.connections import Role


def state(*, output: Path | None, pipeline: str | None, as_json: bool) -> None:
    settings = read_settings()
    folder = (output or settings.home_dir / "state").absolute()
    with reading(Role.ANALYST) as connection:
        version = published_by(connection, pipeline)
        manifest = published_manifest(connection, version, open_as(settings, Role.ANALYST).database)
    folder.mkdir(parents=True, exist_ok=True)
    target = folder / "manifest.json"
    temporary = folder / f".manifest.json.{os.getpid()}"
    temporary.write_text(json.dumps(manifest), encoding="utf-8")
    temporary.replace(target)
    facts = {
        "version": version.version_id,
        "pipeline": version.pipeline,
        "commit": version.code_commit,
        "dirty": version.code_dirty,
        "manifest": str(target),
        "next": f"dbt build -s state:modified+ --defer --state {folder}",
    }
    print_json(facts) if as_json else print_facts(facts)
