# SPDX-License-Identifier: Apache-2.0
"""Server-Sent Events (WHATWG HTML, 9.2.6) from pieces of bytes."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Dict, Iterator, List, Optional

_MOST_LINE = 64 << 20  # a record with its output is one line


@dataclass(frozen=True)
class Event:
    """`type`: such as "stdout"; `id`: the place in the stream, "" without one; `data`: the JSON value."""

    type: str
    id: str
    data: Dict[str, Any]


class Parser:
    def __init__(self) -> None:
        self._rest = b""
        self._type, self._data = "message", []  # type: str, List[str]
        self._id = ""

    def feed(self, piece: bytes) -> Iterator[Event]:
        """The events that are complete with this piece. An event without data, such as a comment, is left out."""
        lines = (self._rest + piece).split(b"\n")
        self._rest = lines.pop()
        if len(self._rest) > _MOST_LINE:
            raise ValueError("an event is too long")
        for raw in lines:
            event = self._line(raw.decode("utf-8", "replace").rstrip("\r"))
            if event is not None:
                yield event

    def _line(self, line: str) -> Optional[Event]:
        if line:
            name, _, value = line.partition(":")
            value = value[1:] if value.startswith(" ") else value
            if name == "event":
                self._type = value
            elif name == "id":
                self._id = value
            elif name == "data":
                self._data.append(value)
            return None
        data, kind = self._data, self._type
        self._data, self._type = [], "message"
        if not data:
            return None
        value = json.loads("\n".join(data))
        return Event(kind, self._id, value if isinstance(value, dict) else {"value": value})
