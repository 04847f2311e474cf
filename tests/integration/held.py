# SPDX-License-Identifier: Apache-2.0
"""Requests under way: raw connections with a lasting answer, or an unfinished body."""

import socket
import time

import harness

KEY = "dGhlIHNhbXBsZSBub25jZQ=="
WEBSOCKET = {"Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13", "Sec-WebSocket-Key": KEY}
TCP = {"Connection": "Upgrade", "Upgrade": "cloister-tcp"}


class Held:
    """A request. `body`: the bytes to send; with `length` more are announced. `until`: the bytes that must come
    before the request counts as under way; without, nothing may have come by then."""

    def __init__(self, server, method, path, key=None, headers=None, body=b"", length=None, until=b"HTTP/1.1 "):
        self.name, self.data = f"{method} {path}", b""
        self.socket = socket.socket()
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)  # a reader soon counts as slow
        self.socket.settimeout(harness.limit(20))
        self.socket.connect((server.host, server.port))
        lines = [f"{method} {path} HTTP/1.1", f"Host: {server.host}:{server.port}"]
        if key:
            lines.append(f"X-API-Key: {key}")
        if body or length:
            lines.append(f"Content-Length: {length or len(body)}")
        lines += [f"{name}: {value}" for name, value in (headers or {}).items()]
        self.socket.sendall("\r\n".join([*lines, "", ""]).encode() + body)
        while until not in self.data:
            self.more()

    def more(self):
        try:
            more = self.socket.recv(65536)
        except TimeoutError as error:
            raise AssertionError(f"{self.name}: no more has come behind {self.data[-1000:]}") from error
        assert more, f"{self.name} has ended: {self.data[:1000]}"
        self.data += more

    def wait_events(self, count):
        """As many more heartbeats or events."""
        wanted = self.data.count(b"\n\n") + count
        while self.data.count(b"\n\n") < wanted:
            self.more()

    def goes_on(self):
        self.socket.setblocking(False)
        try:
            while True:
                more = self.socket.recv(65536)
                if not more:
                    return False
                self.data += more
        except BlockingIOError:
            return True
        except ConnectionError:
            return False
        finally:
            self.socket.settimeout(harness.limit(20))

    def ends_by(self, deadline):
        """Reads to the end of the connection, which must come before `deadline` (monotonic)."""
        try:
            while True:
                left = deadline - time.monotonic()
                if left < -5:  # earlier bytes are read by then
                    raise AssertionError(f"{self.name} goes on")
                self.socket.settimeout(max(0.2, left))
                more = self.socket.recv(65536)
                if not more:
                    return
                self.data += more
        except TimeoutError:
            raise AssertionError(f"{self.name} goes on") from None
        except ConnectionError:
            pass

    def close(self):
        self.socket.close()
