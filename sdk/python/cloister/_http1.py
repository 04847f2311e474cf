# SPDX-License-Identifier: Apache-2.0
"""HTTP/1.1 without a connection: the bytes of a request, and the parts of an answer. Nothing here reads or writes."""

from __future__ import annotations

from typing import Dict, List, Mapping, Optional, Tuple

MOST_HEAD = 64 << 10
_MOST_LINE = 4096  # of a chunk's size, and of a trailer


class ProtocolError(OSError):
    """The peer does not speak HTTP/1.1, or broke off."""


def head(method: str, target: str, host: str, headers: Mapping[str, str]) -> bytes:
    """The head of a request. Refuses line breaks, so that no value becomes a header."""
    lines = [f"{method} {target} HTTP/1.1", f"Host: {host}", *(f"{name}: {value}" for name, value in headers.items())]
    if any("\r" in line or "\n" in line or "\0" in line for line in lines):
        raise ValueError("a header has a line break")
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")


def parse_head(data: bytes) -> Optional[Tuple[int, Dict[str, str], bytes]]:
    """(status, headers in lower case, the bytes behind the head); None while the head is incomplete."""
    end = data.find(b"\r\n\r\n")
    if end < 0:
        if len(data) > MOST_HEAD:
            raise ProtocolError("the head of the answer is too long")
        return None
    first, *lines = data[:end].decode("latin-1").split("\r\n")
    version, _, rest = first.partition(" ")
    if not version.startswith("HTTP/1.") or not rest[:3].isdigit():
        raise ProtocolError("the answer is not HTTP/1.1")
    headers: Dict[str, str] = {}
    for line in lines:
        name, colon, value = line.partition(":")
        if not colon:
            raise ProtocolError("a header of the answer is malformed")
        headers[name.strip().lower()] = value.strip()
    return int(rest[:3]), headers, data[end + 4:]


class Body:
    """The body of an answer: raw bytes go in, content comes out. `done` after its end."""

    def __init__(self, method: str, status: int, headers: Mapping[str, str]) -> None:
        self.done = method == "HEAD" or status in (204, 304) or status < 200
        self.reusable = headers.get("connection", "").lower() != "close"
        self._chunked = "chunked" in headers.get("transfer-encoding", "").lower()
        self._left: Optional[int] = None  # of the body, or of the present chunk
        self._raw = b""
        self._trailers = False
        if self.done or self._chunked:
            return
        length = headers.get("content-length")
        if length is None:
            self.reusable = False  # the end of the connection is the end of the body
        elif not length.isdigit():
            raise ProtocolError("the length of the answer is malformed")
        else:
            self._left = int(length)
            self.done = self._left == 0

    def feed(self, data: bytes) -> bytes:
        """The content in `data`."""
        if self._chunked:
            return self._feed_chunks(data)
        if self._left is None:
            return data
        content, more = data[:self._left], data[self._left:]
        self._left -= len(content)
        self.done = self._left == 0
        self.reusable = self.reusable and not more
        return content

    def end(self) -> None:
        """The connection has ended. Raises ProtocolError if the body has not."""
        if self._chunked or self._left is not None:
            raise ProtocolError("the server broke off the answer")
        self.done = True

    def _feed_chunks(self, data: bytes) -> bytes:
        self._raw += data
        content: List[bytes] = []
        while not self.done and self._raw:
            if self._left:
                piece = self._raw[:self._left]
                content.append(piece)
                self._left -= len(piece)
                self._raw = self._raw[len(piece):]
                continue
            line, found, rest = self._raw.partition(b"\r\n")
            if not found:
                if len(line) > _MOST_LINE:
                    raise ProtocolError("a chunk of the answer is malformed")
                break
            self._raw = rest
            self._line(line)
        if self.done and self._raw:
            self.reusable = False
        return b"".join(content)

    def _line(self, line: bytes) -> None:
        """The end of a chunk's data, a chunk's size, or a trailer."""
        if self._trailers:
            self.done = not line
        elif self._left == 0:
            if line:
                raise ProtocolError("a chunk of the answer is malformed")
            self._left = None
        else:
            digits = line.split(b";", 1)[0].strip()
            if not digits or len(digits) > 16 or any(byte not in b"0123456789abcdefABCDEF" for byte in digits):
                raise ProtocolError("the size of a chunk is malformed")
            self._left = int(digits, 16)
            self._trailers = self._left == 0
