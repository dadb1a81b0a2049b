"""Answers of the web service leave at once."""

import socket

from orchestration.cli.serve import _listen


def test_no_answer_waits_for_an_acknowledgement() -> None:
    with _listen("127.0.0.1", 0) as listener:
        client = socket.create_connection(listener.getsockname())
        accepted, _ = listener.accept()
        with client, accepted:
            assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
