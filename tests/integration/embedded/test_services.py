import json
import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest

from orchestration.processes import identify, spawn_detached
from orchestration.services import ServiceError, services_status, start_demo_api, stop_demo_api

TOKEN = "token-of-this-test"
START = """
import sys
from pathlib import Path
from orchestration.services import start_demo_api
print(start_demo_api(Path(sys.argv[1]), sys.argv[2]))
"""


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Path]:
    home = tmp_path / "a home"
    yield home
    stop_demo_api(home)


def _pid(home: Path) -> int:
    (status,) = services_status(home)
    assert status.pid is not None
    return status.pid


def test_the_demo_api_answers_and_is_started_once(home: Path) -> None:
    url = start_demo_api(home, TOKEN)
    pid = _pid(home)
    assert start_demo_api(home, TOKEN) == url
    assert _pid(home) == pid
    response = httpx.get(f"{url}/v1/airlines?page=1", headers={"Authorization": f"Bearer {TOKEN}"})
    assert response.json()["total_records"] == 16


def test_processes_that_start_at_once_share_one_service(
    home: Path, in_new_process: Callable[..., "subprocess.Popen[str]"]
) -> None:
    processes = [in_new_process(START, str(home), TOKEN) for _ in range(4)]
    urls = {process.communicate(timeout=60)[0].strip() for process in processes}
    assert urls == {start_demo_api(home, TOKEN)}


def test_a_service_that_died_is_replaced(home: Path) -> None:
    start_demo_api(home, TOKEN)
    dead = _pid(home)
    os.kill(dead, signal.SIGKILL)
    start_demo_api(home, TOKEN)
    assert _pid(home) != dead


def test_a_service_that_hangs_is_replaced(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("orchestration.services._ANSWER_SECONDS", 0.5)
    start_demo_api(home, TOKEN)
    hung = _pid(home)
    os.kill(hung, signal.SIGSTOP)
    assert not services_status(home)[0].running
    monkeypatch.setattr("orchestration.services._TERM_SECONDS", 0.5)
    start_demo_api(home, TOKEN)
    assert identify(hung) is None


def test_a_new_token_takes_effect(home: Path) -> None:
    start_demo_api(home, TOKEN)
    url = start_demo_api(home, "another-token")
    response = httpx.get(
        f"{url}/v1/airlines?page=1", headers={"Authorization": "Bearer another-token"}
    )
    assert response.status_code == 200


def test_stop_leaves_nothing_running(home: Path) -> None:
    start_demo_api(home, TOKEN)
    pid = _pid(home)
    stop_demo_api(home)
    assert identify(pid) is None
    assert [(s.name, s.running, s.url) for s in services_status(home)] == [
        ("demo_api", False, None)
    ]
    assert not (home / "demo_api.port").exists()
    stop_demo_api(home)


def test_a_recycled_pid_is_never_signalled(home: Path) -> None:
    start_demo_api(home, TOKEN)
    record = home / "demo_api.json"
    found = json.loads(record.read_text())
    stop_demo_api(home)
    stranger = spawn_detached(
        ["sleep", "60"], log=Path("/dev/null"), env=os.environ, folder=Path("/")
    )
    try:
        record.write_text(json.dumps(found | {"pid": stranger}))
        start_demo_api(home, TOKEN)
        stop_demo_api(home)
        assert identify(stranger) is not None
    finally:
        os.kill(stranger, signal.SIGKILL)


def test_the_token_is_on_no_disk_and_in_no_command_line(home: Path) -> None:
    start_demo_api(home, TOKEN)
    assert TOKEN.encode() not in Path(f"/proc/{_pid(home)}/cmdline").read_bytes()
    files = [path for path in home.rglob("*") if path.is_file()]
    assert all(TOKEN.encode() not in path.read_bytes() for path in files)


def test_a_service_that_cannot_start_says_where_to_look(home: Path) -> None:
    with pytest.raises(ServiceError, match=r"demo_api\.log"):
        start_demo_api(home, "   ")
    assert not services_status(home)[0].running


def test_stop_without_a_service_makes_nothing(tmp_path: Path) -> None:
    stop_demo_api(tmp_path / "home")
    assert not (tmp_path / "home").exists()
