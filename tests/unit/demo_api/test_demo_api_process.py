"""The demo service as a process: how it starts, is found, keeps its state and ends."""

import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import httpx
import pytest

from ingestion.demo_api.server import DEMO_TOKEN, DemoServer

DAY = "2013-01-05"
FLIGHTS = f"/v1/flights?date={DAY}"
WEATHER = f"/v1/weather?date={DAY}"


def _client(url: str, token: str = DEMO_TOKEN) -> httpx.Client:
    headers = {"Authorization": f"Bearer {token}"}
    return httpx.Client(base_url=url, headers=headers, timeout=20, trust_env=False)


def test_a_state_file_outlives_the_service(tmp_path: Path) -> None:
    state_file = tmp_path / "state.json"
    with DemoServer(state_file=state_file) as first:
        first.correct("airlines", changes=[({"carrier": "UA"}, {"name": "Corrected"})])
        first.set_fault("server_error", resource="weather", date=DAY, times=2)
        with _client(first.url) as client:
            assert client.get(WEATHER).status_code == 500
    with DemoServer(state_file=state_file) as second, _client(second.url) as client:
        assert [client.get(WEATHER).status_code for _ in range(2)] == [500, 200]
        assert "Corrected" in client.get("/v1/airlines").text


def _start(arguments: list[str], **environment: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "ingestion.demo_api", *arguments],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def _wait_for(port_file: Path, process: subprocess.Popen[str]) -> int:
    deadline = time.monotonic() + 20
    while not port_file.exists():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.01)
    return int(port_file.read_text())


def test_the_process_announces_its_port_and_leaves_quietly(tmp_path: Path) -> None:
    port_file = tmp_path / "port"
    options = ["--port", "0", "--port-file", str(port_file), "--token-env", "DEMO_KEY"]
    process = _start(options, DEMO_KEY="k3y")
    try:
        port = _wait_for(port_file, process)
        with _client(f"http://127.0.0.1:{port}", "k3y") as client:
            assert client.get("/healthz").status_code == 200
            assert client.get(FLIGHTS).json()["total_records"] == 720
            client.post("/control/faults", json={"fault": "truncated_body", "times": 1})
            with pytest.raises(httpx.RemoteProtocolError):
                client.get(FLIGHTS)
            # One idle connection stays open: it must not keep the process.
            process.send_signal(signal.SIGTERM)
            output, errors = process.communicate(timeout=10)
    finally:
        process.kill()
        process.communicate()
    assert (process.returncode, output, errors) == (0, "", "")
    assert list(tmp_path.iterdir()) == []


def test_a_waiting_caller_does_not_hold_up_the_end(tmp_path: Path) -> None:
    port_file = tmp_path / "port"
    process = _start(["--port-file", str(port_file)], SLUICE_FLIGHTS_API_TOKEN=DEMO_TOKEN)
    try:
        port = _wait_for(port_file, process)
        with _client(f"http://127.0.0.1:{port}") as client:
            client.post("/control/faults", json={"fault": "time_out", "seconds": 60})
            with socket.create_connection(("127.0.0.1", port)) as waiting:
                request = (
                    f"GET /v1/airlines HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {DEMO_TOKEN}"
                )
                waiting.sendall(f"{request}\r\n\r\n".encode())
                time.sleep(0.2)
                process.terminate()
                _, errors = process.communicate(timeout=10)
    finally:
        process.kill()
        process.communicate()
    assert (process.returncode, errors) == (0, "")


@pytest.mark.parametrize(
    ("options", "token", "hint"),
    [
        ([], "", "SLUICE_FLIGHTS_API_TOKEN"),
        (["--port-file", "/nowhere/port"], "t", "--port-file"),
        (["--state-file", __file__], "t", "remove it"),
    ],
)
def test_what_is_missing_to_start_is_said_with_exit_code_78(
    options: list[str], token: str, hint: str
) -> None:
    process = _start(options, SLUICE_FLIGHTS_API_TOKEN=token)
    _, errors = process.communicate(timeout=20)
    assert process.returncode == 78
    assert hint in errors
    assert "Traceback" not in errors


def test_a_taken_port_is_said_with_exit_code_78(server: DemoServer) -> None:
    port = server.url.rpartition(":")[2]
    process = _start(["--port", port], SLUICE_FLIGHTS_API_TOKEN=DEMO_TOKEN)
    _, errors = process.communicate(timeout=20)
    assert process.returncode == 78
    assert "--port" in errors
