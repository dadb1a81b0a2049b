"""Starts the demo service: `python -m ingestion.demo_api --port 0 --port-file FILE`.

Stops quietly on SIGTERM or SIGINT, with exit code 0. Anything missing to start is said on stderr
with what to do, and ends with exit code 78.
"""

import argparse
import contextlib
import os
import signal
import socket
import sys
from pathlib import Path
from types import FrameType

from ingestion.demo_api.app import create_app
from ingestion.demo_api.data import DataUnavailableError, find_data_folder
from ingestion.demo_api.server import Server, listen
from ingestion.demo_api.state import StateUnreadableError, write_whole

EXIT_CONFIGURATION = 78


def main(arguments: list[str] | None = None) -> int:
    """Run the service until it is told to stop, and return the exit code."""
    options = _parse(arguments)
    token = os.environ.get(options.token_env, "")
    if not token.strip():
        return _refuse(
            f"no token: set the environment variable {options.token_env} to the token that "
            "callers must send"
        )
    try:
        find_data_folder()
        app = create_app(token, options.state_file)
    except (DataUnavailableError, StateUnreadableError) as error:
        return _refuse(str(error))
    try:
        listener = listen(options.host, options.port)
    except OSError as error:
        return _refuse(
            f"cannot listen on {options.host} port {options.port} ({error.strerror}); "
            "choose another with --port, or 0 for a free one"
        )
    try:
        return _serve(Server(app), listener, options.port_file)
    except PortFileError:
        return _refuse("cannot write the port file; give --port-file a path in a writable folder")


class PortFileError(RuntimeError):
    """The port file cannot be written, so nobody could find the service."""


def _serve(server: Server, listener: socket.socket, port_file: Path | None) -> int:
    host, port = listener.getsockname()[:2]

    def announce() -> None:
        if port_file is None:
            sys.stdout.write(f"demo service on http://{host}:{port}\n")
            sys.stdout.flush()
            return
        try:
            write_whole(port_file, str(port))
        except OSError as error:
            raise PortFileError from error

    def stop(_signal: int, _frame: FrameType | None) -> None:
        server.should_exit = True

    # uvicorn raises the signal again after its shutdown; these handlers make that an exit with 0.
    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGINT, stop)
    server.on_started = announce
    try:
        server.run(sockets=[listener])
    finally:
        listener.close()
        _remove_port_file(port_file, str(port))
    return 0


def _remove_port_file(port_file: Path | None, port: str) -> None:
    # A successor may have announced itself already; its file stays.
    with contextlib.suppress(OSError):
        if port_file is not None and port_file.read_text("utf-8") == port:
            port_file.unlink()


def _parse(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m ingestion.demo_api",
        description="Serve the flights that left New York in 2013 as an internal API would.",
    )
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on (loopback)")
    parser.add_argument(
        "--port", type=int, default=0, help="port; 0, the default, takes a free one"
    )
    parser.add_argument("--port-file", type=Path, help="file that gets the port once it answers")
    parser.add_argument(
        "--token-env",
        default="SLUICE_FLIGHTS_API_TOKEN",
        help="name of the environment variable with the token (%(default)s)",
    )
    parser.add_argument(
        "--state-file", type=Path, help="file that keeps faults and corrections between starts"
    )
    return parser.parse_args(arguments)


def _refuse(message: str) -> int:
    sys.stderr.write(f"demo service: {message}\n")
    return EXIT_CONFIGURATION


if __name__ == "__main__":
    sys.exit(main())
