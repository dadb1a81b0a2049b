"""dbt's answers about a project that did not change: asked once, and read from disk after that.

The key holds all that decides an answer, in doubt more. What depends on the connection is in it only
for projects that can see the connection, so that all databases share what is the same for all.
"""

import hashlib
import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from importlib.metadata import version
from pathlib import Path
from typing import Any, Generic, TypeVar

from orchestration.identity import digest
from orchestration.warehouse.dbt.cache import DiskCache
from orchestration.warehouse.dbt.profile import target_values
from orchestration.warehouse.dbt.session import DbtSession, visible_environment

_FORMAT = 1
# dbt itself, and what its answers are read with and written down with.
_TOOLS = (
    "dbt-core",
    "dbt-adapters",
    "dbt-common",
    "dbt-postgres",
    "jinja2",
    "mashumaro",
    "msgpack",
)
_GENERATED = frozenset({"target", "logs", "profiles.yml"})
_HIDDEN_INPUT = ".dbtignore"
_JINJA = re.compile(rb"\{[{%]")
_SEES_TARGET = re.compile(rb"\b(target|context|builtins)\b")
_NAMES_DATABASE = re.compile(rb"database")
_ENV_VAR = re.compile(rb"\benv_var\b")
_ENV_VAR_NAME = re.compile(rb"\benv_var\s*\(\s*(?:'(\w+)'|\"(\w+)\")\s*[,)]")
_ALWAYS_SEEN = "DBT_ENV_"

T = TypeVar("T")


@dataclass(frozen=True)
class Form(Generic[T]):
    """How an answer is written down; both directions raise `UNREADABLE` for what they cannot do."""

    dump: Callable[[T], bytes]
    load: Callable[[bytes], T]


# What msgpack, mashumaro and json raise.
UNREADABLE = (TypeError, ValueError, LookupError, AttributeError)


@dataclass(frozen=True)
class ProjectState:
    """The files of a dbt project as they are now: path below the project → sha256, and more."""

    files: Mapping[str, str]
    sees_target: bool
    env_vars: frozenset[str] | None
    """The variables that Jinja may ask for; None when their names are computed."""

    @property
    def has_seeds(self) -> bool:
        return any(name.endswith(".csv") for name in self.files)


@dataclass(frozen=True)
class Answers:
    """The answers for one session's project, as it is when the first of them is asked for."""

    session: DbtSession

    @cached_property
    def state(self) -> ProjectState:
        return read_state(self.session.project_dir)

    @cached_property
    def key(self) -> str:
        return project_key(self.session, self.state)

    def recall(self, question: list[Any], ask: Callable[[], T], form: Form[T]) -> T:
        """The kept answer to this question, else what `ask` returns, which is kept then."""
        if self.session.cache_dir is None:
            return ask()
        disk = DiskCache(self.session.cache_dir)
        key = digest([self.key, question])
        kept = disk.read(key)
        if kept is not None:
            try:
                return form.load(kept)
            except UNREADABLE:
                pass
        answer = ask()
        try:
            content = form.dump(answer)
            # What is handed out now is what others will read, or it is not kept.
            answer = form.load(content)
        except UNREADABLE:
            return answer
        # An edit while dbt read the files would keep the new answer under the old key.
        if project_key(self.session, read_state(self.session.project_dir)) == self.key:
            disk.write(key, content)
        return answer


def project_key(session: DbtSession, state: ProjectState) -> str:
    """The digest of all that decides what dbt says of the project."""
    seen = visible_environment(session.url)
    asked = seen if state.env_vars is None else state.env_vars
    return digest(
        {
            "format": _FORMAT,
            "python": list(sys.version_info[:2]),
            "tools": {name: version(name) for name in _TOOLS},
            "own": _own_source(),
            "files": dict(state.files),
            # Seeds remember where they lie.
            "folder": str(session.project_dir) if state.has_seeds else None,
            "environment": {
                name: seen.get(name)
                for name in sorted({*asked, *(n for n in seen if n.startswith(_ALWAYS_SEEN))})
            },
            "target": target_values(session.url, session.threads) if state.sees_target else None,
        }
    )


def read_state(project_dir: Path) -> ProjectState:
    """Reads all files that dbt may read, installed packages included."""
    files: dict[str, str] = {}
    sees_target, names, computed = False, set[str](), False
    for path in _inputs(project_dir):
        content = path.read_bytes()
        files[str(path.relative_to(project_dir))] = hashlib.sha256(content).hexdigest()
        sees_target |= bool(_NAMES_DATABASE.search(content)) or bool(
            _JINJA.search(content) and _SEES_TARGET.search(content)
        )
        named = [first or second for first, second in _ENV_VAR_NAME.findall(content)]
        names |= {name.decode() for name in named}
        computed |= len(named) != len(_ENV_VAR.findall(content))
    return ProjectState(files, sees_target, None if computed else frozenset(names))


def _inputs(project_dir: Path) -> Iterator[Path]:
    # Local packages are links, so links are followed, each folder once.
    seen: set[str] = set()
    for folder, folders, names in os.walk(project_dir, followlinks=True):
        real = os.path.realpath(folder)
        left_out = _GENERATED if Path(folder) == project_dir else frozenset[str]()
        folders[:] = sorted(n for n in folders if not n.startswith(".") and n not in left_out)
        if real in seen:
            folders.clear()
            continue
        seen.add(real)
        for name in sorted(names):
            if (name == _HIDDEN_INPUT or not name.startswith(".")) and name not in left_out:
                yield Path(folder, name)


@cache
def _own_source() -> str:
    """A changed checkout asks again: these modules decide what is asked and under which names."""
    here = Path(__file__).parent
    own = [*sorted(here.glob("*.py")), here.parent / "names.py"]
    return digest([(file.name, hashlib.sha256(file.read_bytes()).hexdigest()) for file in own])
