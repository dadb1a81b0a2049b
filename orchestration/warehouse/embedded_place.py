"""Where one home's embedded server keeps its data and its socket, stable across processes.

Everything is in the home, except: for root, when the server's user cannot enter the home, the data
live below /var/lib/sluice and the home holds a pointer; a socket path too long or too odd for
clients moves to /tmp.
"""

import hashlib
import os
import re
import shutil
import stat
import tempfile
from dataclasses import dataclass
from pathlib import Path

from orchestration.processes import SystemUser
from orchestration.warehouse.embedded_install import (
    POSTGRES_MAJOR,
    EmbeddedServerError,
    can_enter,
    server_user,
    shared_folder,
)

PORT = 5432
SOCKET_NAME = f".s.PGSQL.{PORT}"

# The kernel's sun_path: 108 bytes with its end mark on Linux, 104 on macOS.
_LONGEST_SOCKET_PATH = 103
_SHORT_FOLDER = Path("/tmp")  # noqa: S108  (the folder below it is proved to be private)
# libpq splits hosts at commas, and other clients stumble over other characters.
_PLAIN_PATH = re.compile(r"/[A-Za-z0-9/._+-]*")


@dataclass(frozen=True)
class Place:
    """Folders of one server; `user` runs it when we are root, None when it runs as ourselves."""

    data: Path
    sockets: Path
    user: SystemUser | None

    @property
    def socket(self) -> Path:
        return self.sockets / SOCKET_NAME

    @property
    def logs(self) -> Path:
        return self.data / "log"


def server_folder(home: Path) -> Path:
    """The folder in the home that belongs to the embedded server."""
    return home / "pg"


def find_place(home: Path) -> Place | None:
    """The place of a server made before, None when there is none or it must be claimed first."""
    try:
        if (folder := _pointed_folder(home)) is not None:
            return _place(folder) if _is_ours(folder, home) else None
        return _place(server_folder(home))
    except FileNotFoundError:
        return None
    except PermissionError as error:
        raise not_ours(home) from error


def claim_place(home: Path) -> Place:
    """Find or choose the place; needs the home's lock. The data folder may still be missing."""
    base = server_folder(home)
    try:
        if os.geteuid() != 0:
            return _own_place(home, base)
        if (folder := _pointed_folder(home)) is not None and _is_ours(folder, home):
            _mark(folder, home)
            data = folder / str(POSTGRES_MAJOR)
            return Place(data, _socket_folder(folder), _owner(data) or server_user())
        user = _owner(base / str(POSTGRES_MAJOR)) or server_user()
        if can_enter(user, base):
            return Place(base / str(POSTGRES_MAJOR), _socket_folder(base), user)
        return _move_elsewhere(home, base, user)
    except PermissionError as error:
        raise not_ours(home) from error


def prepare_sockets(place: Place) -> None:
    """Make the socket folder and prove that nobody else can use it; no server runs there."""
    if place.sockets.parent == place.data.parent:
        # In our own folder it can only be a copy or a leftover, perhaps of another user.
        shutil.rmtree(place.sockets, ignore_errors=True)
    try:
        place.sockets.mkdir(mode=0o700)
        if place.user:
            os.chown(place.sockets, place.user.uid, place.user.gid)
    except FileExistsError:
        pass
    if not sockets_are_private(place):
        raise EmbeddedServerError(
            f"{place.sockets} is not a private folder of the database's user. Remove it, or set "
            "SLUICE_HOME to a shorter path without special characters."
        )


def sockets_are_private(place: Place) -> bool:
    """Whether the socket folder is a real folder that only the server's user can enter."""
    try:
        found = place.sockets.lstat()
    except OSError:
        return False
    owner = place.user.uid if place.user else os.geteuid()
    return stat.S_ISDIR(found.st_mode) and found.st_uid == owner and not found.st_mode & 0o077


def abandoned_places(home: Path, current: Place) -> list[Place]:
    """Places below the shared folder that were this home's before its pointer was deleted."""
    if os.geteuid() != 0:
        return []
    marks = shared_folder().glob("*/home")
    folders = [mark.parent for mark in marks if _marked_home(mark.parent) == home]
    return [
        _place(folder)
        for folder in folders
        if folder != current.data.parent and (folder / str(POSTGRES_MAJOR)).exists()
    ]


def forget_place(home: Path, place: Place) -> None:
    """Delete the data, the socket folder and the pointer of a stopped server."""
    shutil.rmtree(place.sockets, ignore_errors=True)
    shutil.rmtree(place.data, ignore_errors=True)
    if place.data.parent != server_folder(home):
        shutil.rmtree(place.data.parent, ignore_errors=True)
    _pointer(home).unlink(missing_ok=True)


def _own_place(home: Path, base: Path) -> Place:
    data = base / str(POSTGRES_MAJOR)
    if _pointer(home).exists() or (data.exists() and data.stat().st_uid != os.geteuid()):
        raise not_ours(home)
    return Place(data, _socket_folder(base), None)


def _place(folder: Path) -> Place:
    data = folder / str(POSTGRES_MAJOR)
    found = data.stat()
    if os.geteuid() == 0:
        return Place(data, _socket_folder(folder), SystemUser(found.st_uid, found.st_gid))
    if found.st_uid != os.geteuid():
        raise PermissionError(str(data))
    return Place(data, _socket_folder(folder), None)


def _socket_folder(base: Path) -> Path:
    inside = base / "run"
    if (
        _PLAIN_PATH.fullmatch(str(inside))
        and len(str(inside / SOCKET_NAME)) <= _LONGEST_SOCKET_PATH
    ):
        return inside
    # Not the user's temporary folder: it differs between a shell, cron and a service.
    return _SHORT_FOLDER / f"sluice-{hashlib.sha256(os.fsencode(base)).hexdigest()[:16]}"


def _pointer(home: Path) -> Path:
    return server_folder(home) / "elsewhere"


def _pointed_folder(home: Path) -> Path | None:
    try:
        return Path(_pointer(home).read_text("utf-8").strip())
    except (FileNotFoundError, NotADirectoryError):
        return None


def _marked_home(folder: Path) -> Path | None:
    try:
        return Path(os.fsdecode((folder / "home").read_bytes()))
    except FileNotFoundError:
        return None


def _is_ours(folder: Path, home: Path) -> bool:
    """Whether the pointed-at folder is this home's: made for it, or for its path before a move.

    A home that was copied is not the owner: two servers must not share the data.
    """
    marked = _marked_home(folder)
    return marked is not None and (marked == home or _pointed_folder(marked) != folder)


def _mark(folder: Path, home: Path) -> None:
    (folder / "home").write_bytes(os.fsencode(home))


def _move_elsewhere(home: Path, base: Path, user: SystemUser) -> Place:
    folder = Path(
        tempfile.mkdtemp(
            prefix=f"{hashlib.sha256(os.fsencode(home)).hexdigest()[:8]}-", dir=shared_folder()
        )
    )
    folder.chmod(0o711)
    _mark(folder, home)
    data = base / str(POSTGRES_MAJOR)
    if data.exists():
        shutil.move(data, folder / data.name)
        give_to(folder / data.name, user)
    # Last and in one step: without the pointer the folder is nobody's.
    fresh = _pointer(home).with_suffix(".new")
    fresh.write_text(f"{folder}\n", "utf-8")
    fresh.rename(_pointer(home))
    return Place(folder / data.name, _socket_folder(folder), user)


def give_to(tree: Path, user: SystemUser) -> None:
    """Hand a whole tree of ours over to the server's user, without following links."""
    os.lchown(tree, user.uid, user.gid)
    for folder, folders, files in os.walk(tree):
        for name in (*folders, *files):
            os.lchown(Path(folder) / name, user.uid, user.gid)


def _owner(data: Path) -> SystemUser | None:
    try:
        found = data.stat()
    except FileNotFoundError:
        return None
    return SystemUser(found.st_uid, found.st_gid) if found.st_uid != 0 else None


def not_ours(home: Path) -> EmbeddedServerError:
    return EmbeddedServerError(
        f"The embedded server of {home} belongs to another user. Run Sluice as that user, or set "
        "SLUICE_HOME to a folder of your own."
    )
