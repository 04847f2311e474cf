# SPDX-License-Identifier: Apache-2.0
"""The connection of a client that blocks: bytes over TCP, TLS or a Unix socket. _wire_async.py is its twin."""

from __future__ import annotations

import os
import select
import socket
import ssl
import time
from typing import Any, Callable, Iterable, Iterator, Optional

from ._config import Target

_PIECE = 64 << 10


class WireTimeout(OSError):
    """Nothing came in time."""


class Wire:
    def __init__(self, connection: socket.socket) -> None:
        self._socket, self._process = connection, os.getpid()

    @classmethod
    def connect(cls, target: Target, context: Optional[ssl.SSLContext], seconds: float) -> Wire:
        try:
            if target.socket:
                connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
                connection.settimeout(seconds)
                connection.connect(target.socket)
            else:
                connection = socket.create_connection((target.host, target.port), seconds)
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if context is not None:
                connection = context.wrap_socket(connection, server_hostname=target.host)
        except socket.timeout:
            raise WireTimeout(f"no connection in {seconds:g} s") from None
        return cls(connection)

    def send(self, data: bytes, seconds: float) -> None:
        try:
            self._socket.settimeout(seconds)
            self._socket.sendall(data)
        except socket.timeout:
            raise WireTimeout(f"the server took no byte for {seconds:g} s") from None

    def receive(self, seconds: float) -> bytes:
        """Some bytes; b"" at the end."""
        try:
            self._socket.settimeout(seconds)
            return self._socket.recv(_PIECE)
        except socket.timeout:
            raise WireTimeout(f"no answer for {seconds:g} s") from None

    def usable(self) -> bool:
        """Whether another request may go out on it: the same process, and the peer has not closed it."""
        if self._process != os.getpid():
            return False
        try:
            poll = select.poll()
            poll.register(self._socket, select.POLLIN)
            return not poll.poll(0)
        except AttributeError:  # no poll(2)
            return not select.select([self._socket], [], [], 0)[0]
        except (OSError, ValueError):
            return False

    def close(self) -> None:
        self._socket.close()


def sleep(seconds: float) -> None:
    time.sleep(seconds)


def call(callback: Callable[[Any], Any], value: Any) -> None:
    callback(value)


def pieces(content: Iterable[bytes]) -> Iterator[bytes]:
    yield from content
