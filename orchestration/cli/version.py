"""Which Sluice this is: as it was installed, or as its checkout says."""

import tomllib
from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as installed_version
from pathlib import Path

import orchestration


def version() -> str:
    """Like `0.1.0`."""
    try:
        return installed_version("sluice")
    except PackageNotFoundError:
        # Started from a checkout that nobody installed.
        project = Path(orchestration.__file__).parents[1] / "pyproject.toml"
        return str(tomllib.loads(project.read_text("utf-8"))["project"]["version"])
