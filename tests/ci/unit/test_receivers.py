"""The receiver of the tests takes whole requests only: a sender may be killed in the middle of one."""

import socket

import pytest

from tests.kit.outside.receivers import Receiver, serving


@pytest.mark.parametrize(("body", "taken"), [(b"", []), (b"wh", []), (b"whole", [b"whole"])])
def test_a_request_without_its_whole_body_is_left_out(body: bytes, taken: list[bytes]) -> None:
    receiver = Receiver()
    with serving(receiver), socket.create_connection(("127.0.0.1", receiver.server.server_port), timeout=10) as sender:
        sender.sendall(b"POST / HTTP/1.0\r\nContent-Length: 5\r\n\r\n" + body)
        sender.shutdown(socket.SHUT_WR)
        while sender.recv(1000):
            pass
        assert [request.body for request in receiver.received] == taken
