# SPDX-License-Identifier: Apache-2.0
"""A WebSocket client (RFC 6455), just enough to test a server."""

import base64
import hashlib
import os
import socket
import struct

TEXT, CLOSE, PING, PONG = 0x1, 0x8, 0x9, 0xA


class WebSocket:
    def __init__(self, host, port, path, headers=None, timeout=60):
        self.socket = socket.create_connection((host, port), timeout=timeout)
        key = base64.b64encode(os.urandom(16)).decode()
        fields = {"Host": f"{host}:{port}", "Connection": "Upgrade", "Upgrade": "websocket",
                  "Sec-WebSocket-Version": "13", "Sec-WebSocket-Key": key, **(headers or {})}
        lines = [f"GET {path} HTTP/1.1", *(f"{name}: {value}" for name, value in fields.items())]
        self.socket.sendall(("\r\n".join(lines) + "\r\n\r\n").encode())
        self._buffer = b""
        while b"\r\n\r\n" not in self._buffer:
            self._more()
        head, self._buffer = self._buffer.split(b"\r\n\r\n", 1)
        self.status = int(head.split()[1])
        if self.status == 101:
            magic = (key + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11").encode()
            accept = base64.b64encode(hashlib.sha1(magic).digest())
            assert b"sec-websocket-accept: " + accept.lower() in head.lower(), head

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close()

    def _more(self):
        piece = self.socket.recv(65536)
        if not piece:
            raise ConnectionError("the server is gone")
        self._buffer += piece

    def _take(self, size):
        while len(self._buffer) < size:
            self._more()
        taken, self._buffer = self._buffer[:size], self._buffer[size:]
        return taken

    def send(self, opcode, payload=b""):
        mask = os.urandom(4)
        assert len(payload) < 126
        masked = bytes(b ^ mask[i % 4] for i, b in enumerate(payload))
        self.socket.sendall(bytes([0x80 | opcode, 0x80 | len(payload)]) + mask + masked)

    def receive(self):
        """(opcode, payload) of one frame; the server never fragments."""
        first, second = self._take(2)
        assert first & 0x80 and not second & 0x80, (first, second)
        size = second & 0x7F
        if size == 126:
            (size,) = struct.unpack(">H", self._take(2))
        elif size == 127:
            (size,) = struct.unpack(">Q", self._take(8))
        return first & 0xF, self._take(size)

    def messages(self):
        """Text messages until the server closes; gives the close code to `closed`."""
        while True:
            opcode, payload = self.receive()
            if opcode == TEXT:
                yield payload.decode()
            elif opcode == CLOSE:
                self.closed = struct.unpack(">H", payload[:2])[0] if payload else None
                self.send(CLOSE, payload[:2])
                return
