# SPDX-License-Identifier: Apache-2.0
"""The connection of an async client: bytes over TCP, TLS or a Unix socket. _wire_sync.py is its twin."""

from __future__ import annotations

import asyncio
import inspect
import os
import ssl
from typing import Any, AsyncIterator, AsyncIterable, Awaitable, Callable, Iterable, Optional, TypeVar, Union

from ._config import Target

_PIECE = 64 << 10
_T = TypeVar("_T")


class WireTimeout(OSError):
    """Nothing came in time."""


async def _within(work: Awaitable[_T], seconds: float) -> _T:
    """As asyncio.wait_for, which before Python 3.12 loses a cancellation that comes just as `work` ends."""
    task = asyncio.ensure_future(work)
    try:
        done, _ = await asyncio.wait({task}, timeout=seconds)
    except BaseException:
        task.cancel()
        raise
    if not done:
        task.cancel()
        raise asyncio.TimeoutError
    return task.result()


class AsyncWire:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer
        self._loop, self._process = asyncio.get_running_loop(), os.getpid()

    @classmethod
    async def connect(cls, target: Target, context: Optional[ssl.SSLContext], seconds: float) -> AsyncWire:
        if target.socket:
            opening: Any = asyncio.open_unix_connection(target.socket)
        else:
            opening = asyncio.open_connection(target.host, target.port, ssl=context, server_hostname=target.host if context else None)
        try:
            reader, writer = await _within(opening, seconds)
        except asyncio.TimeoutError:
            raise WireTimeout(f"no connection in {seconds:g} s") from None
        return cls(reader, writer)

    async def send(self, data: bytes, seconds: float) -> None:
        self._writer.write(data)
        try:
            await _within(self._writer.drain(), seconds)
        except asyncio.TimeoutError:
            raise WireTimeout(f"the server took no byte for {seconds:g} s") from None

    async def receive(self, seconds: float) -> bytes:
        """Some bytes; b"" at the end."""
        try:
            return await _within(self._reader.read(_PIECE), seconds)
        except asyncio.TimeoutError:
            raise WireTimeout(f"no answer for {seconds:g} s") from None

    def usable(self) -> bool:
        """Whether another request may go out on it: the same loop and process, and the peer has not closed it."""
        here = self._loop is asyncio.get_running_loop() and self._process == os.getpid()
        return here and not self._reader.at_eof() and not self._writer.is_closing()

    def close(self) -> None:
        if self._process == os.getpid() and not self._loop.is_closed():
            self._writer.close()


async def sleep(seconds: float) -> None:
    await asyncio.sleep(seconds)


async def call(callback: Callable[[Any], Any], value: Any) -> None:
    """Calls a callback, which may be a coroutine function."""
    done = callback(value)
    if inspect.isawaitable(done):
        await done


async def pieces(content: Union[Iterable[bytes], AsyncIterable[bytes]]) -> AsyncIterator[bytes]:
    if isinstance(content, AsyncIterable):
        async for piece in content:
            yield piece
    else:
        for piece in content:
            yield piece
