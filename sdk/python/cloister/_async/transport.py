# SPDX-License-Identifier: Apache-2.0
"""One request and its answer, on a connection of the pool or of its own; or through a client of httpx."""

from __future__ import annotations

import collections
from typing import Any, AsyncIterable, Deque, Dict, Iterable, List, Mapping, Optional, Union

from .. import _http1
from .._config import Target
from .._wire_async import AsyncWire, WireTimeout, pieces

MOST_IDLE = 16  # connections kept
_PIECE = 256 << 10
Content = Union[bytes, Iterable[bytes], AsyncIterable[bytes]]


class Failed(Exception):
    """No answer. `sent`: the server may have carried out the request. `slow`: it had time enough."""

    def __init__(self, why: str, sent: bool, slow: bool = False) -> None:
        super().__init__(why)
        self.sent, self.slow = sent, slow


class AsyncAnswer:
    """The head of an answer, and its body. Must be read to its end, or closed."""

    def __init__(self, status: int, headers: Mapping[str, str]) -> None:
        self.status, self.headers = status, headers

    async def next(self, seconds: Optional[float] = None) -> bytes:
        """Some bytes of the body; b"" at the end. Raises Failed, also when nothing comes in `seconds`."""
        raise NotImplementedError

    async def close(self) -> None:
        raise NotImplementedError

    async def read(self, most: int) -> bytes:
        """The whole body. Raises Failed if it is longer than `most`."""
        parts: List[bytes] = []
        size = 0
        try:
            while True:
                piece = await self.next()
                if not piece:
                    return b"".join(parts)
                parts.append(piece)
                size += len(piece)
                if size > most:
                    raise Failed(f"the answer is longer than {most} bytes", True)
        finally:
            await self.close()


class _Answer(AsyncAnswer):
    """An answer on a connection of ours, which goes back to `idle` after the body."""

    def __init__(self, status: int, headers: Mapping[str, str], body: _http1.Body, rest: bytes, wire: AsyncWire,
                 silence: float, idle: Deque[AsyncWire]) -> None:
        super().__init__(status, headers)
        self._body, self._rest, self._silence, self._idle = body, rest, silence, idle
        self._wire: Optional[AsyncWire] = wire

    async def next(self, seconds: Optional[float] = None) -> bytes:
        while not self._body.done or self._rest:
            data, self._rest = self._rest, b""
            try:
                if not data and self._wire is not None:
                    data = await self._wire.receive(min(self._silence, seconds or self._silence))
                    if not data:
                        self._body.end()
                        break
                piece = self._body.feed(data)
            except OSError as error:
                await self.close()
                raise Failed(str(error), True, isinstance(error, WireTimeout)) from error
            if piece:
                return piece
        await self.close()
        return b""

    async def close(self) -> None:
        wire, self._wire = self._wire, None
        if wire is None:
            return
        if self._body.done and not self._rest and self._body.reusable and len(self._idle) < MOST_IDLE:
            self._idle.append(wire)
        else:
            wire.close()


class AsyncTransport:
    """Requests over connections of our own, which are kept for the next request."""

    def __init__(self, target: Target) -> None:
        self._idle: Deque[AsyncWire] = collections.deque()
        self._target, self._context = target, target.ssl_context()

    async def open(self, method: str, path: str, headers: Mapping[str, str], content: Optional[Content], seconds: float,
                   silence: float, fresh: bool) -> AsyncAnswer:
        """Sends the request and reads the head of the answer. `seconds`: until the head; `silence`: between bytes of the
        body. `fresh`: on a new connection. Raises Failed."""
        wire, sent = None, False
        try:
            wire = None if fresh else self._kept()
            if wire is None:
                wire = await AsyncWire.connect(self._target, self._context, min(seconds, 20.0))
            sent = True
            refused = await self._send(wire, method, path, headers, content, seconds)
            return await self._answer(wire, method, seconds, silence, refused)
        except (OSError, EOFError) as error:
            if wire is not None:
                wire.close()
            raise Failed(f"{self._target.url}: {error or type(error).__name__}", sent, isinstance(error, WireTimeout)) from error
        except BaseException:
            if wire is not None:
                wire.close()
            raise

    async def close(self) -> None:
        self._close_idle()

    def __del__(self) -> None:
        self._close_idle()

    def _close_idle(self) -> None:
        while self._idle:
            self._idle.pop().close()

    def _kept(self) -> Optional[AsyncWire]:
        while self._idle:
            try:
                wire = self._idle.pop()
            except IndexError:  # another thread took it
                return None
            if wire.usable():
                return wire
            wire.close()
        return None

    async def _send(self, wire: AsyncWire, method: str, path: str, headers: Mapping[str, str], content: Optional[Content],
                    seconds: float) -> Optional[OSError]:
        """Sends the request. An error in its body is returned: the server may have refused the rest with an answer."""
        all_headers: Dict[str, str] = {**headers, "Accept-Encoding": "identity"}
        whole = content if isinstance(content, bytes) else None
        if whole is not None or method in ("POST", "PUT"):
            all_headers["Content-Length" if content is None or whole is not None else "Transfer-Encoding"] = (
                str(len(whole or b"")) if content is None or whole is not None else "chunked")
        head = _http1.head(method, self._target.base + path, self._target.authority, all_headers)
        if content is None or (whole is not None and len(whole) <= _PIECE):
            await wire.send(head + (whole or b""), seconds)
            return None
        await wire.send(head, seconds)
        try:
            if whole is not None:
                for at in range(0, len(whole), _PIECE):
                    await wire.send(whole[at:at + _PIECE], seconds)
                return None
            async for piece in pieces(content):  # type: ignore[arg-type]
                if piece:
                    await wire.send(b"%x\r\n%b\r\n" % (len(piece), piece), seconds)
            await wire.send(b"0\r\n\r\n", seconds)
        except OSError as error:
            return error
        return None

    async def _answer(self, wire: AsyncWire, method: str, seconds: float, silence: float, refused: Optional[OSError]) -> AsyncAnswer:
        data = b""
        while True:
            parsed = _http1.parse_head(data)
            if parsed is not None and parsed[0] >= 200:
                break
            if parsed is not None:  # 1xx: another head follows
                data = parsed[2]
                continue
            try:
                piece = await wire.receive(seconds)
            except OSError as error:
                raise refused or error
            if not piece:
                raise refused or _http1.ProtocolError("the server closed the connection without an answer")
            data += piece
        status, headers, rest = parsed
        body = _http1.Body(method, status, headers)
        body.reusable = body.reusable and refused is None and not (body.done and rest)
        return _Answer(status, headers, body, b"" if body.done else rest, wire, silence, self._idle)


class _HttpxAnswer(AsyncAnswer):
    def __init__(self, answer: Any) -> None:
        super().__init__(answer.status_code, {name.lower(): value for name, value in answer.headers.items()})
        self._answer, self._pieces = answer, answer.aiter_raw()

    async def next(self, seconds: Optional[float] = None) -> bytes:
        import httpx

        try:
            async for piece in self._pieces:
                if piece:
                    return bytes(piece)
        except httpx.TransportError as error:
            raise Failed(f"{error or type(error).__name__}", True, isinstance(error, httpx.TimeoutException)) from error
        await self.close()
        return b""

    async def close(self) -> None:
        await self._answer.aclose()


class AsyncHttpx:
    """Requests through a client of httpx, with its proxies, certificates and pool."""

    def __init__(self, target: Target, client: Any) -> None:
        self._target, self._client = target, client

    async def open(self, method: str, path: str, headers: Mapping[str, str], content: Optional[Content], seconds: float,
                   silence: float, fresh: bool) -> AsyncAnswer:
        import httpx

        times = httpx.Timeout(max(seconds, silence), connect=min(seconds, 20.0))
        body = content if content is None or isinstance(content, bytes) else pieces(content)
        request = self._client.build_request(method, self._target.url + path, headers={**headers, "Accept-Encoding": "identity"},
                                             content=body, timeout=times)
        try:
            answer = await self._client.send(request, stream=True)
        except httpx.TransportError as error:
            raise Failed(f"{self._target.url}: {error or type(error).__name__}", not isinstance(error, httpx.ConnectError),
                         isinstance(error, httpx.TimeoutException)) from error
        return _HttpxAnswer(answer)

    async def close(self) -> None:
        """The client belongs to the caller."""
