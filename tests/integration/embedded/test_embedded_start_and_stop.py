import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import psycopg
import pytest

from orchestration.processes import (
    SystemUser,
    identify,
    is_alive,
    spawn_detached,
    wait_until,
    working_in,
)
from orchestration.warehouse.embedded import EmbeddedServer, EmbeddedServerError

START = """
import sys
from pathlib import Path
from orchestration.warehouse.embedded import EmbeddedServer
print(EmbeddedServer(Path(sys.argv[1]), durable=False).start())
"""
MakeServer = Callable[[Path], EmbeddedServer]
NewProcess = Callable[..., "subprocess.Popen[str]"]


def _pid(server: EmbeddedServer) -> int:
    pid = server.status().pid
    assert pid is not None
    return pid


def _data(server: EmbeddedServer) -> Path:
    data = server.status().data
    assert data is not None
    return data


def _ask(url: str, query: str) -> object:
    with psycopg.connect(url) as connection:
        row = connection.execute(query).fetchone()
    assert row is not None
    return row[0]


def _keep_a_row(server: EmbeddedServer) -> None:
    with psycopg.connect(server.start()) as connection:
        connection.execute("create table kept as select 42 as answer")


def _parent(pid: int) -> int:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except FileNotFoundError:
        # A connection that ended meanwhile: a child as well.
        return pid
    return int(stat.rpartition(")")[2].split()[1])


def _kill(server: EmbeddedServer) -> int:
    pid = _pid(server)
    os.kill(pid, signal.SIGKILL)
    assert wait_until(lambda: identify(pid) is None, 10)
    return pid


def test_processes_that_start_at_once_share_one_server(
    server: EmbeddedServer, in_new_process: NewProcess
) -> None:
    processes = [in_new_process(START, str(server.home)) for _ in range(4)]
    urls = {process.communicate(timeout=60)[0].strip() for process in processes}
    assert urls == {server.start()}
    every = {process.pid for process in working_in(_data(server), "postgres")}
    assert [pid for pid in every if _parent(pid) not in every] == [_pid(server)]
    assert _ask(server.url(), "select current_database()") == "sluice"


def test_a_running_server_is_found_at_once_without_a_subprocess(
    server: EmbeddedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = server.start()

    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("a subprocess was started")

    monkeypatch.setattr(subprocess, "Popen", refuse)
    begun = time.perf_counter()
    assert EmbeddedServer(server.home).start() == url
    assert time.perf_counter() - begun < 0.02


def test_the_server_outlives_the_process_that_started_it(
    server: EmbeddedServer, in_new_process: NewProcess
) -> None:
    in_new_process(START, str(server.home)).communicate(timeout=60)
    assert server.is_running()


def test_stop_leaves_nothing_behind(server: EmbeddedServer) -> None:
    with psycopg.connect(server.start()) as connection:
        connection.execute("create table never_committed (a int)")
        status, pid = server.status(), _pid(server)
        server.stop()
        connection.close()
    data, sockets = status.data, status.sockets
    assert data is not None
    assert sockets is not None
    assert identify(pid) is None
    assert working_in(data, "postgres") == []
    assert not sockets.exists()
    assert not (data / "postmaster.pid").exists()
    assert not server.is_running()


def test_stop_without_a_server_makes_nothing(tmp_path: Path) -> None:
    server = EmbeddedServer(tmp_path / "home")
    server.stop()
    assert not server.home.exists()
    assert not server.status().running
    with pytest.raises(EmbeddedServerError, match="sluice up"):
        server.url()


def test_data_outlive_a_stop(server: EmbeddedServer) -> None:
    _keep_a_row(server)
    server.stop()
    assert _ask(server.start(), "select answer from kept") == 42


def test_a_killed_server_recovers_at_the_next_start(open_folder: Path) -> None:
    server = EmbeddedServer(open_folder / "home")
    try:
        _keep_a_row(server)
        killed = _kill(server)
        assert _ask(server.start(), "select answer from kept") == 42
        assert _pid(server) != killed
    finally:
        server.destroy()


def test_processes_that_outlive_a_killed_server_are_ended(server: EmbeddedServer) -> None:
    _keep_a_row(server)
    children = working_in(_data(server), "postgres")
    for process in children:
        # A background worker may end by itself between the look and the signal.
        if process.pid != _pid(server):
            with suppress(ProcessLookupError):
                os.kill(process.pid, signal.SIGSTOP)
    _kill(server)
    server.stop()
    assert not any(is_alive(process) for process in children)
    assert _ask(server.start(), "select answer from kept") == 42


def test_a_stale_pid_file_whose_pid_was_recycled_is_no_obstacle(server: EmbeddedServer) -> None:
    _keep_a_row(server)
    data = _data(server)
    pid_file = data / "postmaster.pid"
    lines = pid_file.read_text().splitlines()
    owner = data.stat()
    _kill(server)
    server.stop()
    user = SystemUser(owner.st_uid, owner.st_gid) if os.geteuid() == 0 else None
    stranger = spawn_detached(
        ["sleep", "60"], log=Path("/dev/null"), env=os.environ, folder=Path("/"), user=user
    )
    try:
        pid_file.write_text("\n".join([str(stranger), *lines[1:]]) + "\n")
        os.chown(pid_file, owner.st_uid, owner.st_gid)
        assert not server.is_running()
        server.stop()
        pid_file.write_text("\n".join([str(stranger), *lines[1:]]) + "\n")
        os.chown(pid_file, owner.st_uid, owner.st_gid)
        assert _ask(server.start(), "select answer from kept") == 42
        assert identify(stranger) is not None
    finally:
        os.kill(stranger, signal.SIGKILL)


@pytest.mark.parametrize("after_seconds", [0.05, 0.15, 0.3, 0.5])
def test_a_first_start_that_was_killed_is_done_again(
    server: EmbeddedServer, in_new_process: NewProcess, after_seconds: float
) -> None:
    process = in_new_process(START, str(server.home))
    time.sleep(after_seconds)
    process.kill()
    process.communicate()
    assert _ask(server.start(), "select current_user") == "sluice_owner"
    assert [path.name for path in _data(server).parent.glob(".18.new-*")] == []


def test_a_half_made_data_folder_is_thrown_away(server: EmbeddedServer) -> None:
    half = server.home / "pg" / ".18.new-half"
    (half / "base").mkdir(parents=True)
    (server.home / "pg").chmod(0o711)
    server.start()
    assert not half.exists()


def test_a_foreign_folder_in_the_place_of_the_data_is_not_touched(server: EmbeddedServer) -> None:
    foreign = server.home / "pg" / "18" / "mine.txt"
    foreign.parent.mkdir(parents=True)
    (server.home / "pg").chmod(0o711)
    foreign.write_text("mine")
    with pytest.raises(EmbeddedServerError, match="not a Postgres data folder"):
        server.start()
    assert foreign.read_text() == "mine"
    shutil.rmtree(foreign.parent)


def test_deleting_the_home_of_a_running_server_gives_a_new_empty_one(
    server: EmbeddedServer,
) -> None:
    _keep_a_row(server)
    pid = _pid(server)
    shutil.rmtree(server.home)
    assert _ask(server.start(), "select to_regclass('kept') is null") is True
    assert identify(pid) is None


def test_a_copied_home_has_a_server_of_its_own(
    server: EmbeddedServer, make_server: MakeServer
) -> None:
    _keep_a_row(server)
    server.stop()
    copy = make_server(server.home.with_name("copy"))
    shutil.copytree(server.home, copy.home)
    assert server.start() != copy.start()
    assert _pid(server) != _pid(copy)
    assert _ask(copy.url(), "select answer from kept") == 42


def test_a_home_copied_while_its_server_runs_is_refused(
    server: EmbeddedServer, make_server: MakeServer
) -> None:
    _keep_a_row(server)
    copy = make_server(server.home.with_name("copy"))
    shutil.copytree(server.home / "pg" / "18", copy.home / "pg" / "18")
    (copy.home / "pg").chmod(0o711)
    assert not copy.is_running()
    with pytest.raises(EmbeddedServerError, match=r"copied from .* copy again"):
        copy.start()
    assert server.is_running()


def test_a_home_that_moves_while_its_server_runs_keeps_its_data(
    server: EmbeddedServer, make_server: MakeServer
) -> None:
    _keep_a_row(server)
    moved = make_server(server.home.with_name("moved"))
    server.home.rename(moved.home)
    assert _ask(moved.start(), "select answer from kept") == 42


def test_a_server_whose_socket_was_swept_away_is_restarted(server: EmbeddedServer) -> None:
    _keep_a_row(server)
    sockets = server.status().sockets
    assert sockets is not None
    shutil.rmtree(sockets)
    assert not server.is_running()
    assert _ask(server.start(), "select answer from kept") == 42
