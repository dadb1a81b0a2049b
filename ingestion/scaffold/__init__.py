"""Writes the files of a new source: contract, resource, staging model, suites and a test, which passes.

Nothing that exists is overwritten: it is all of them or none.
"""

import re
from importlib import resources
from pathlib import Path
from string import Template

from ingestion.errors import IngestionConfigurationError

_NAME = re.compile(r"[a-z][a-z0-9]*(_[a-z0-9]+)*", re.ASCII)
_LONGEST_NAME = 20
_FILES = {
    "source.py": "ingestion/sources/$name/__init__.py",
    "contract.py": "ingestion/sources/$name/items.py",
    "sources.yml": "dbt_project/models/staging/$name/_${name}__sources.yml",
    "models.yml": "dbt_project/models/staging/$name/_${name}__models.yml",
    "staging.sql": "dbt_project/models/staging/$name/stg_${name}__items.sql",
    "suite.yml": "expectations/suites/staging/${name}__items.yml",
    "volume_suite.yml": "expectations/suites/staging/${name}__items__volume.yml",
    "test.py": "tests/unit/sources/test_${name}.py",
}


def create_source(name: str, root: Path) -> list[Path]:
    """Writes the source `name` below `root`, the project's folder; returns the files.

    It has one resource, `items`, to be renamed and filled in. Raises `ValueError` for a name that is
    none, and `IngestionConfigurationError` when a file of it exists.
    """
    if not _NAME.fullmatch(name) or len(name) > _LONGEST_NAME:
        raise ValueError(
            f"not a name for a source: {name!r}; take lower case words joined by one underscore, at "
            f"most {_LONGEST_NAME} characters"
        )
    words = {"name": name, "NAME": name.upper(), "title": name.replace("_", " ")}
    texts = {
        root / Template(target).substitute(words): _read(template).substitute(words)
        for template, target in _FILES.items()
    }
    if existing := [path.relative_to(root) for path in texts if path.exists()]:
        raise IngestionConfigurationError(
            f"{existing[0]} exists already, so nothing was written; choose another name or remove it",
            code="source_exists",
        )
    for path, text in texts.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return list(texts)


def _read(template: str) -> Template:
    file = resources.files(__name__) / "templates" / f"{template}.template"
    return Template(file.read_text(encoding="utf-8"))
