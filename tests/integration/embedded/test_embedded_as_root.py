import os
import shutil
import stat
from collections.abc import Callable
from pathlib import Path

import psycopg
import pytest

from orchestration.processes import SystemUser, identify
from orchestration.warehouse import embedded_install
from orchestration.warehouse.embedded import EmbeddedServer, EmbeddedServerError
from orchestration.warehouse.embedded_install import can_enter, server_user

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="root's own troubles")

MakeServer = Callable[[Path], EmbeddedServer]


@pytest.fixture
def private_folder(open_folder: Path) -> Path:
    folder = open_folder / "private"
    folder.mkdir(mode=0o700)
    return folder


def _answer(server: EmbeddedServer) -> object:
    with psycopg.connect(server.start()) as connection:
        row = connection.execute("select answer from kept").fetchone()
    assert row is not None
    return row[0]


def _keep_a_row(server: EmbeddedServer) -> None:
    with psycopg.connect(server.start()) as connection:
        connection.execute("create table kept as select 42 as answer")


def _data(server: EmbeddedServer) -> Path:
    data = server.status().data
    assert data is not None
    return data


def test_another_user_runs_the_server_in_a_home_that_it_can_enter(server: EmbeddedServer) -> None:
    server.start()
    pid = server.status().pid
    assert Path(f"/proc/{pid}").stat().st_uid == server_user().uid
    assert _data(server) == server.home / "pg" / "18"


def test_a_home_that_only_root_can_enter_works_and_stays_private(
    private_folder: Path, make_server: MakeServer
) -> None:
    server = make_server(private_folder / "home")
    _keep_a_row(server)
    assert stat.S_IMODE(private_folder.stat().st_mode) == 0o700
    data = _data(server)
    assert not data.is_relative_to(private_folder)
    assert stat.S_IMODE(data.stat().st_mode) == 0o700
    assert data.stat().st_uid == server_user().uid
    server.stop()
    assert _answer(server) == 42
    server.destroy()
    assert not data.parent.exists()


def test_programs_that_the_servers_user_cannot_reach_are_copied_once(
    private_folder: Path, make_server: MakeServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = embedded_install.installed_programs().parents[1]
    inside = private_folder / "site-packages"
    shutil.copytree(package / "pginstall18", inside / package.name / "pginstall18")
    libraries = package.with_name(f"{package.name}.libs")
    shutil.copytree(libraries, inside / libraries.name)
    programs = inside / package.name / "pginstall18" / "bin"
    monkeypatch.setattr(embedded_install, "installed_programs", lambda: programs)
    shared = private_folder.parent / "shared"
    monkeypatch.setattr(embedded_install, "SHARED_FOLDER", shared)
    server = make_server(private_folder / "home")
    _keep_a_row(server)
    (copied,) = shared.glob("postgres-18-*")
    executable = Path(f"/proc/{server.status().pid}/exe").readlink()
    assert executable.is_relative_to(copied)
    assert copied.stat().st_uid == 0
    assert not can_enter(server_user(), private_folder)
    server.stop()
    shutil.rmtree(inside / package.name / "pginstall18" / "share")
    assert _answer(server) == 42
    server.destroy()


def test_a_private_home_that_moves_takes_its_data_along(
    private_folder: Path, make_server: MakeServer
) -> None:
    server = make_server(private_folder / "home")
    _keep_a_row(server)
    moved = make_server(private_folder / "moved")
    server.home.rename(moved.home)
    assert _answer(moved) == 42
    moved.stop()
    assert _answer(moved) == 42


def test_a_copy_of_a_private_home_does_not_share_its_server(
    private_folder: Path, make_server: MakeServer
) -> None:
    server = make_server(private_folder / "home")
    _keep_a_row(server)
    copy = make_server(private_folder / "copy")
    shutil.copytree(server.home, copy.home)
    assert copy.start() != server.start()
    with psycopg.connect(copy.url()) as connection:
        assert connection.execute("select to_regclass('kept')").fetchone() == (None,)
    assert _answer(server) == 42


def test_deleting_a_private_home_gives_a_new_empty_server_and_ends_the_old(
    private_folder: Path, make_server: MakeServer
) -> None:
    server = make_server(private_folder / "home")
    _keep_a_row(server)
    old, pid = _data(server), server.status().pid
    assert pid is not None
    shutil.rmtree(server.home)
    try:
        with psycopg.connect(server.start()) as connection:
            assert connection.execute("select to_regclass('kept')").fetchone() == (None,)
        assert identify(pid) is None
        assert (old / "PG_VERSION").exists()
    finally:
        shutil.rmtree(old.parent)


def test_a_home_that_becomes_private_keeps_its_data(
    server: EmbeddedServer, private_folder: Path, make_server: MakeServer
) -> None:
    _keep_a_row(server)
    server.stop()
    moved = make_server(private_folder / "home")
    server.home.rename(moved.home)
    assert _answer(moved) == 42


def test_data_that_root_copied_belong_to_the_servers_user_again(
    server: EmbeddedServer, make_server: MakeServer
) -> None:
    _keep_a_row(server)
    server.stop()
    copy = make_server(server.home.with_name("copy"))
    shutil.copytree(server.home, copy.home)
    assert (copy.home / "pg" / "18" / "PG_VERSION").stat().st_uid == 0
    assert _answer(copy) == 42


def test_root_and_the_owner_of_a_home_share_its_server(open_folder: Path) -> None:
    user = server_user()
    os.chown(open_folder, user.uid, user.gid)
    server = EmbeddedServer(open_folder / "home")
    try:
        url = _start_as(user, server.home)
        assert server.start() == url
        assert _data(server).stat().st_uid == user.uid
        server.stop()
        assert server.start() == _start_as(user, server.home)
    finally:
        server.destroy()


def test_an_ordinary_user_is_told_that_a_server_is_roots(
    private_folder: Path, make_server: MakeServer
) -> None:
    server = make_server(private_folder / "home")
    server.start()
    private_folder.chmod(0o755)
    said = _start_as(SystemUser(54321, 54321), server.home)
    assert "belongs to another user. Run Sluice as that user" in said


def test_a_shared_folder_that_others_can_write_is_refused(
    private_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shared = private_folder.parent / "shared"
    shared.mkdir()
    shared.chmod(0o777)
    monkeypatch.setattr(embedded_install, "SHARED_FOLDER", shared)
    with pytest.raises(EmbeddedServerError, match="must be a folder of root"):
        EmbeddedServer(private_folder / "home").start()


def _start_as(user: SystemUser, home: Path) -> str:
    """The URL that `user` gets, or the error's message; forked, as `user` may not reach Python."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.setgroups([])
        os.setgid(user.gid)
        os.setuid(user.uid)
        try:
            said = EmbeddedServer(home, durable=False).start()
        except BaseException as error:  # noqa: BLE001  (a forked test must never run on)
            said = str(error)
        os.write(writer, said.encode())
        os._exit(0)
    os.close(writer)
    os.waitpid(child, 0)
    with os.fdopen(reader) as pipe:
        return pipe.read()
