# SPDX-License-Identifier: Apache-2.0
# Generated from _async/files.py by tools/sdk_sync.py: do not edit.
"""sandbox.files: the files of a sandbox. Paths are relative to /workspace, or absolute in /workspace, /home/user or /tmp."""

from __future__ import annotations

import io
import os
import pathlib
from typing import IO, Any, Iterator, List, Literal, Mapping, Optional, Union, overload
from urllib.parse import quote

from .. import _body, errors
from ..results import FileEvent, FileInfo
from .client import Client, Events, name
from .execution import save

_PIECE = 256 << 10
Data = Union[str, bytes, IO[bytes]]


def _pieces(file: IO[bytes]) -> Iterator[bytes]:
    while True:
        piece = file.read(_PIECE)
        if not piece:
            return
        yield piece


class Watch:
    """Changes of a directory, as `for event in watch`. Ends with the sandbox, or by close()."""

    def __init__(self, events: Events) -> None:
        self._events = events

    def __iter__(self) -> Watch:
        return self

    def __next__(self) -> FileEvent:
        event = self._events.next()
        if event is None or event.type == "end":
            self._events.close()
            raise StopIteration
        return FileEvent(event.type, event.data)

    def __enter__(self) -> Watch:
        return self

    def __exit__(self, *error: Any) -> None:
        self.close()

    def close(self) -> None:
        self._events.close()


class Files:
    """Made by a sandbox, as `sandbox.files`."""

    def __init__(self, client: Client, sandbox_id: str) -> None:
        self._client = client
        self._path = f"/v1/sessions/{name(sandbox_id)}"

    def _file(self, path: str) -> str:
        inner = quote(_body.needs_name(path), safe="/", errors="surrogateescape")
        # Proxies may take one of two slashes away.
        return f"{self._path}/files/{'%2F' + inner[1:] if inner.startswith('/') else inner}"

    def chunks(self, path: str) -> Iterator[bytes]:
        """The content of a file, in pieces."""
        return self._client.download(self._file(path))

    @overload
    def read(self, path: str, format: Literal["text"] = "text") -> str: ...

    @overload
    def read(self, path: str, format: Literal["bytes"]) -> bytes: ...

    def read(self, path: str, format: Literal["text", "bytes"] = "text") -> Union[str, bytes]:
        """A file as text (UTF-8), or as bytes."""
        data = self.read_bytes(path)
        try:
            return data if format == "bytes" else data.decode("utf-8")
        except UnicodeDecodeError:
            raise errors.InvalidRequest(f"reading {path!r}: the file is not UTF-8", field="format",
                                        remedy="read it with format=\"bytes\"") from None

    def read_bytes(self, path: str) -> bytes:
        parts: List[bytes] = []
        for piece in self.chunks(path):
            parts.append(piece)
        return b"".join(parts)

    def write(self, path: str, data: Data, *, mode: Optional[int] = None) -> FileInfo:
        """Writes a file, and the missing directories above. The file is replaced with its last byte.

        data: text, bytes, or a file opened in binary mode, which is streamed
        mode: the permissions, such as 0o755
        """
        query = {"mode": None if mode is None else f"{mode:04o}"}
        content: Any = data.encode("utf-8") if isinstance(data, str) else data
        again = isinstance(content, bytes)
        if not again:
            file, start = content, None
            if hasattr(file, "seekable") and file.seekable():
                start, again = file.tell(), True

            def content() -> Iterator[bytes]:
                if start is not None:
                    file.seek(start)
                return _pieces(file)

        answer = self._client.open("PUT", self._file(path), query=query, content=content, safe=again, seconds=300.0,
                                         headers={"Content-Type": "application/octet-stream"})
        return FileInfo(self._client.json(answer))

    def write_files(self, files: Mapping[str, Data]) -> List[FileInfo]:
        """Writes several files."""
        written: List[FileInfo] = []
        for path, data in files.items():
            written.append(self.write(path, data))
        return written

    def list(self, path: str = "", *, depth: int = 1, limit: int = 10_000) -> List[FileInfo]:
        """The content of a directory, down to `depth`."""
        answer = self._client.call("GET", f"{self._path}/files", query={
            "path": _body.sandbox_path(path) or None, "depth": depth, "limit": limit})
        if answer["left_out"] and limit >= 10_000:
            raise errors.TooLarge(f"listing {path!r}: {answer['left_out']} entries are left out", field="path",
                                  remedy="list the directories below one by one, or pass a limit")
        return [FileInfo(entry) for entry in answer["entries"]]

    def info(self, path: str) -> FileInfo:
        """One file or directory."""
        found = self._client.call("GET", f"{self._path}/files", query={"path": _body.needs_name(path), "depth": 0})
        return FileInfo(found["entries"][0])

    def exists(self, path: str) -> bool:
        try:
            self.info(path)
        except errors.NotFound:
            return False
        return True

    def make_dir(self, path: str) -> FileInfo:
        """Makes a directory, and the missing directories above. An existing one is no error."""
        return FileInfo(self._client.call("POST", f"{self._path}/files:mkdir", {"path": _body.needs_name(path)}, safe=True))

    def remove(self, path: str, *, recursive: bool = False) -> None:
        """Removes a file, or an empty directory; with `recursive` a directory with all that is in it."""
        answer = self._client.open("DELETE", self._file(path), query={"recursive": recursive or None}, safe=False)
        answer.close()

    def rename(self, old: str, new: str, *, overwrite: bool = False) -> None:
        """Gives a file or directory another path."""
        self._client.call("POST", f"{self._path}/files:move", {
            "from": _body.needs_name(old), "to": _body.needs_name(new), "overwrite": overwrite})

    def watch(self, path: str = "", *, recursive: bool = False) -> Watch:
        """Follows the changes in a directory. The first event is `ready`: from then on no change is missed silently."""
        return Watch(self._client.events(f"{self._path}/files:watch", {
            "path": _body.sandbox_path(path) or None, "recursive": recursive or None}))

    def upload(self, local: Union[str, "os.PathLike[str]"], path: str) -> FileInfo:
        """Copies a local file into the workspace, with its permission to execute."""
        with open(local, "rb") as file:
            mode = 0o755 if os.fstat(file.fileno()).st_mode & 0o100 else None
            return self.write(path, file, mode=mode)

    def download(self, path: str, local: Union[str, "os.PathLike[str]"]) -> pathlib.Path:
        """Copies a file of the workspace to this machine. The local file appears with its last byte."""
        target = pathlib.Path(local)
        return save(self.chunks(path), target / pathlib.PurePosixPath(path).name if target.is_dir() else target)

    def read_archive(self, path: str = "") -> bytes:
        """A file or directory as a tar archive. Unpack it with care: its names were made in the sandbox."""
        answer = self._client.open("GET", f"{self._path}/archive", query={"path": _body.sandbox_path(path) or None}, seconds=300.0)
        return self._client.whole(answer)

    def write_archive(self, data: Union[bytes, IO[bytes]], path: str = "") -> int:
        """Unpacks an uncompressed tar archive into a directory; gives the number of entries that were left out."""
        file = io.BytesIO(data) if isinstance(data, bytes) else data
        answer = self._client.open("PUT", f"{self._path}/archive", query={"path": _body.sandbox_path(path) or None}, safe=False,
                                         content=lambda: _pieces(file), seconds=300.0, headers={"Content-Type": "application/x-tar"})
        return int((self._client.json(answer))["left_out"])
