"""Errors of the operating system, made to happen, and what they are taken for."""

import errno
import os
import resource
import socket
import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from failure_words import in_words

from orchestration.errors import FailureKind
from orchestration.failures import classify
from orchestration.failures.systems import TABLE

NOBODY = 65534


def fill_a_disk(_: Path) -> None:
    with Path("/dev/full").open("wb", buffering=0) as file:
        file.write(b"x")


def write_where_nobody_may(folder: Path) -> None:
    file = folder / "locked"
    file.touch(mode=0o400)
    with as_somebody_without_rights():
        file.write_bytes(b"x")


@contextmanager
def as_somebody_without_rights() -> Iterator[None]:
    own = os.geteuid()
    if own == 0:
        os.seteuid(NOBODY)
    try:
        yield
    finally:
        if own == 0:
            os.seteuid(0)


def open_too_many_files(_: Path) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    opened: list[int] = []
    resource.setrlimit(resource.RLIMIT_NOFILE, (64, hard))
    try:
        while True:
            opened.append(os.dup(0))
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        for descriptor in opened:
            os.close(descriptor)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def connect_where_nobody_listens(_: Path) -> None:
    with socket.socket() as client:
        client.connect(("127.0.0.1", free_port()))


def read_from_a_reset_connection(_: Path) -> None:
    with socket.socket() as listener, socket.socket() as client:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        client.connect(listener.getsockname())
        served, _address = listener.accept()
        served.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        served.close()
        client.recv(1)


def wait_too_long(_: Path) -> None:
    one, other = socket.socketpair()
    with one, other:
        one.settimeout(0.01)
        one.recv(1)


def write_into_a_closed_pipe(_: Path) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    with suppress(BlockingIOError), os.fdopen(writer, "wb", buffering=0) as pipe:
        pipe.write(b"x")


def look_up_no_name(_: Path) -> None:
    socket.getaddrinfo("no-such-host.invalid", 80)


def open_a_file_that_is_missing(folder: Path) -> None:
    (folder / "missing").read_bytes()


# what happened → kind, code, transient, exit code
CASES = [
    (fill_a_disk, "destination disk_full permanent 13"),
    (write_where_nobody_may, "configuration permission_denied permanent 78"),
    (open_too_many_files, "destination too_many_files transient 13"),
    (connect_where_nobody_listens, "destination connection_lost transient 13"),
    (read_from_a_reset_connection, "destination connection_lost transient 13"),
    (wait_too_long, "destination connection_lost transient 13"),
    (write_into_a_closed_pipe, "destination connection_lost transient 13"),
    (look_up_no_name, "destination name_not_resolved transient 13"),
    (open_a_file_that_is_missing, "internal os_error permanent 70"),
]


@pytest.mark.parametrize(
    ("provoke", "expected"),
    CASES,
    ids=[case[0].__name__ for case in CASES],
)
def test_a_real_error_is_classified(
    provoke: Callable[[Path], None], expected: str, tmp_path: Path
) -> None:
    with pytest.raises(OSError) as caught:  # noqa: PT011 - the class is what varies
        provoke(tmp_path)
    failure = classify(caught.value)
    assert in_words(failure) == expected
    assert str(tmp_path) not in failure.message


@pytest.mark.parametrize(
    ("number", "transient"),
    [
        *((errno.EINTR, True), (errno.EAGAIN, True), (errno.ETIMEDOUT, True), (errno.ENOMEM, True)),
        *((errno.EDQUOT, False), (errno.ENOSPC, False), (errno.EIO, False), (errno.EXDEV, False)),
    ],
)
def test_an_errno_decides(number: int, transient: bool) -> None:
    assert classify(OSError(number, os.strerror(number))).transient is transient


def test_every_entry_says_what_to_do_and_configuration_is_permanent() -> None:
    for rule in TABLE.values():
        assert rule.advice
        assert not (rule.kind is FailureKind.CONFIGURATION and rule.transient)
