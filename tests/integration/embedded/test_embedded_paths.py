import os
import stat
from collections.abc import Callable
from pathlib import Path

import psycopg
import pytest

from orchestration.warehouse.embedded import EmbeddedServer, EmbeddedServerError

MakeServer = Callable[[Path], EmbeddedServer]


def _works(server: EmbeddedServer) -> bool:
    with psycopg.connect(server.start()) as connection:
        return connection.execute("select current_user").fetchone() == ("sluice_owner",)


def _modes(folder: Path) -> dict[Path, int]:
    return {path: stat.S_IMODE(path.stat().st_mode) for path in (folder, *folder.parents)}


@pytest.mark.parametrize(
    "name",
    [
        "with a space",
        'it\'s "quoted"',
        "comma,percent%20&amp",
        "$HOME `id` \\back",
        "größe-日本",
    ],
)
def test_a_home_may_have_any_characters_in_its_path(
    open_folder: Path, make_server: MakeServer, name: str
) -> None:
    server = make_server(open_folder / name / "home")
    assert _works(server)
    server.stop()
    assert _works(EmbeddedServer(server.home))


def test_a_home_may_have_a_path_longer_than_a_socket_path(
    open_folder: Path, make_server: MakeServer
) -> None:
    server = make_server(open_folder / "/".join(["long" * 10] * 5) / "home")
    assert len(str(server.home)) > 150
    assert _works(server)
    sockets = server.status().sockets
    assert sockets is not None
    assert len(str(sockets / ".s.PGSQL.5432")) <= 107
    assert stat.S_IMODE(sockets.stat().st_mode) == 0o700
    server.stop()
    assert not sockets.exists()
    assert _works(server)


def test_a_socket_folder_that_others_prepared_is_refused(
    open_folder: Path, make_server: MakeServer
) -> None:
    server = make_server(open_folder / "a b" / "home")
    server.start()
    sockets = server.status().sockets
    assert sockets is not None
    server.stop()
    sockets.mkdir()
    sockets.chmod(0o777)
    before = _modes(sockets)
    try:
        with pytest.raises(EmbeddedServerError, match=r"not a private folder.*Remove it"):
            server.start()
        assert _modes(sockets) == before
    finally:
        sockets.rmdir()


def test_the_environment_of_the_caller_does_not_divert_the_connection(
    server: EmbeddedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PGPORT", "1")
    monkeypatch.setenv("PGDATA", "/nonexistent")
    monkeypatch.setenv("PGOPTIONS", "-c work_mem=nonsense")
    server.start()
    monkeypatch.delenv("PGOPTIONS")
    assert _works(server)


def test_no_folder_above_the_servers_own_changes_its_mode(
    open_folder: Path, make_server: MakeServer
) -> None:
    (open_folder / "above").mkdir(mode=0o750)
    above = open_folder / "above" / "home"
    above.mkdir(mode=0o700)
    before = _modes(above)
    server = make_server(above)
    server.start()
    server.stop()
    assert _modes(above) == before


@pytest.mark.skipif(os.geteuid() == 0, reason="everything is in the home only for ordinary users")
def test_an_ordinary_user_keeps_everything_in_the_home(server: EmbeddedServer) -> None:
    server.start()
    data = server.status().data
    assert data is not None
    assert data.is_relative_to(server.home)
    assert data.stat().st_uid == os.geteuid()
