"""The embedded Postgres server of one home: started at most once, stopped without a trace.

Its URL is that of an owner who is no superuser, as on a managed service. A server that was killed,
or whose machine restarted, recovers at the next start; nothing here waits for a process that is not
there.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from orchestration.processes import file_lock, wait_until
from orchestration.warehouse.embedded_cluster import (
    SUPERUSER,
    clear_leftovers,
    end_server,
    ensure_cluster,
    is_answering,
    launch,
    refuse_torn_copy,
    running_postmaster,
)
from orchestration.warehouse.embedded_install import EmbeddedServerError, usable_programs
from orchestration.warehouse.embedded_place import (
    PORT,
    Place,
    abandoned_places,
    claim_place,
    find_place,
    forget_place,
    not_ours,
    prepare_sockets,
    server_folder,
)

__all__ = ["DATABASE", "OWNER", "EmbeddedServer", "EmbeddedServerError", "EmbeddedStatus"]

OWNER = "sluice_owner"
DATABASE = "sluice"
_PATIENCE_SECONDS = 300.0


@dataclass(frozen=True)
class EmbeddedStatus:
    """What is known without asking the server; the paths are None before the first start."""

    running: bool
    pid: int | None
    data: Path | None
    sockets: Path | None
    logs: Path | None


class EmbeddedServer:
    """The server of one home folder; any number of objects and processes may name one home.

    `durable=False` is for tests: the data survive a kill but not a power cut. It takes effect when
    the server is next started. Every method may raise EmbeddedServerError, whose message ends with
    what to do.
    """

    def __init__(self, home: Path, *, durable: bool = True) -> None:
        self.home = Path(os.path.realpath(home))
        self._durable = durable

    def start(self) -> str:
        """Make sure that the server answers and return the owner's URL; at once when it does."""
        place = find_place(self.home)
        if place is not None and is_answering(place):
            return _url(place, OWNER, DATABASE)
        with self._locked() as lock:
            place = claim_place(self.home)
            if not self._joined(place):
                self._cold_start(place, lock)
            return _url(place, OWNER, DATABASE)

    def stop(self) -> None:
        """Shut the server down, rolling open transactions back; wait until all of it is gone."""
        if not server_folder(self.home).exists():
            return
        with self._locked():
            self._stop()

    def destroy(self) -> None:
        """Stop the server and delete its data, wherever they are. There is no way back."""
        if not server_folder(self.home).exists():
            return
        with self._locked():
            place = self._stop()
            if place is not None:
                forget_place(self.home, place)

    def url(self, role: str | None = None, database: str = DATABASE) -> str:
        """URL of `role` (default: the owner) for libpq and psycopg; the server need not run."""
        return _url(self._known_place(), role or OWNER, database)

    def superuser_url(self, database: str = DATABASE) -> str:
        """URL of the bootstrap superuser: for repairs and tests, never for the pipeline."""
        return _url(self._known_place(), SUPERUSER, database)

    def is_running(self) -> bool:
        """Whether the server answers now."""
        place = find_place(self.home)
        return place is not None and is_answering(place)

    def status(self) -> EmbeddedStatus:
        """Where the server is and whether it answers."""
        place = find_place(self.home)
        if place is None:
            return EmbeddedStatus(running=False, pid=None, data=None, sockets=None, logs=None)
        postmaster = running_postmaster(place.data)
        return EmbeddedStatus(
            running=is_answering(place),
            pid=postmaster.process.pid if postmaster else None,
            data=place.data,
            sockets=place.sockets,
            logs=place.logs,
        )

    @contextmanager
    def _locked(self) -> Iterator[int]:
        try:
            folder = server_folder(self.home)
            if not folder.exists():
                folder.mkdir(parents=True, exist_ok=True)
                # Only our own folder is opened for the server's user, never the ones above it.
                folder.chmod(0o711)
            with file_lock(folder / "lock") as lock:
                yield lock
        except PermissionError as error:
            raise not_ours(self.home) from error
        except OSError as error:
            raise EmbeddedServerError(
                f"The embedded server of {self.home} could not be managed: {error.strerror} "
                f"({error.filename}). Put that right, then try again."
            ) from error

    def _joined(self, place: Place) -> bool:
        """Whether a server that runs here comes to answer; one that cannot be reached is ended."""

        def settled() -> bool:
            postmaster = running_postmaster(place.data)
            return postmaster is None or postmaster.ready

        wait_until(settled, _PATIENCE_SECONDS)
        if is_answering(place):
            return True
        # It runs, but its socket is elsewhere or gone (the home was renamed, /tmp was cleaned).
        end_server(place)
        return False

    def _cold_start(self, place: Place, lock: int) -> None:
        for abandoned in abandoned_places(self.home, place):
            end_server(abandoned)
        refuse_torn_copy(place)
        programs = usable_programs(place.user)
        clear_leftovers(place)
        ensure_cluster(place, programs, durable=self._durable, lock=lock)
        prepare_sockets(place)
        launch(place, programs, patience=_PATIENCE_SECONDS)

    def _stop(self) -> Place | None:
        place = find_place(self.home)
        if place is not None:
            end_server(place)
            if place.data.exists():
                clear_leftovers(place)
        return place

    def _known_place(self) -> Place:
        place = find_place(self.home)
        if place is None:
            raise EmbeddedServerError(
                f"There is no embedded server in {self.home} yet. Run sluice up."
            )
        return place


def _url(place: Place, role: str, database: str) -> str:
    # The port is written out because PGPORT in the caller's environment would change it otherwise.
    host = quote(str(place.sockets))
    return (
        f"postgresql://{quote(role, safe='')}@/{quote(database, safe='')}?host={host}&port={PORT}"
    )
