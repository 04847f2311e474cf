# SPDX-License-Identifier: Apache-2.0
# Generated from _async/client.py by tools/sdk_sync.py: do not edit.
"""Client: requests to a server, with retries; the streams and downloads that continue after a break."""

from __future__ import annotations

import contextlib
import json
import time
import uuid
from typing import Any, Iterator, Callable, Dict, Iterable, List, Mapping, Optional, Union
from urllib.parse import quote, urlencode, urljoin

from .. import _config, _sse, errors, types
from .._retry import Attempts
from .._wire_sync import sleep
from .transport import Answer, Httpx, Transport, Failed

VERSION = "0.1.0"
MOST_ANSWER = 128 << 20  # bytes of a JSON answer
MOST_PROBLEM = 64 << 10
SILENCE = 60.0  # heartbeats come far more often
PATIENCE = 60.0  # seconds in which a stream that makes no progress is opened again
NO_PROGRESS = 5  # attempts of a download
_SAFE = ("GET", "HEAD", "PUT", "DELETE")  # twice is as once
Content = Union[bytes, Callable[[], Iterable[bytes]]]


def name(text: str) -> str:
    """Text as one part of a path."""
    return quote(text, safe="")


def new_key() -> str:
    """A key of idempotency."""
    return f"py-{uuid.uuid4().hex}"


def _query(query: Optional[Mapping[str, Any]]) -> str:
    words = {key: str(value).lower() if isinstance(value, bool) else value for key, value in (query or {}).items() if value is not None}
    return "?" + urlencode(words, quote_via=quote, errors="surrogateescape") if words else ""


class Client:
    """A server, and how to speak to it. One client serves any number of sandboxes.

    url: https://HOST, http://HOST:PORT or unix:/PATH; default: CLOISTER_URL, then the server of this account
    api_key: default: CLOISTER_API_KEY, then the key of the server of this account
    ca: a file of certificates to trust; default: CLOISTER_CA, then those of the system
    timeout: seconds for the answer to a request, beyond the time that the request itself asks for
    retries, retry_seconds: the most further attempts of a request, and the time within which they begin
    http_client: a httpx.Client to use in place of our own connections, such as for a proxy
    """

    def __init__(self, url: Optional[str] = None, api_key: Optional[str] = None, *, ca: Optional[str] = None,
                 state: Optional[str] = None, timeout: float = 60.0, retries: int = 4, retry_seconds: float = 30.0,
                 http_client: Any = None) -> None:
        self._target = _config.resolve(url, api_key, ca, state)
        self._transport: Union[Transport, Httpx] = (
            Transport(self._target) if http_client is None else Httpx(self._target, http_client))
        self._timeout, self._retries, self._retry_seconds = timeout, retries, retry_seconds

    @property
    def url(self) -> str:
        return self._target.url

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *error: Any) -> None:
        self.close()

    def close(self) -> None:
        """Closes the connections that wait for another request."""
        self._transport.close()

    def absolute(self, url: str) -> str:
        """A URL of an answer, which may be relative to the server."""
        return urljoin(self._target.url + "/", self._target.base + url if url.startswith("/") else url)

    def open(self, method: str, path: str, *, query: Optional[Mapping[str, Any]] = None, headers: Optional[Mapping[str, str]] = None,
                   content: Optional[Content] = None, safe: Optional[bool] = None, seconds: Optional[float] = None) -> Answer:
        """The answer to a request, after the attempts of the client. Raises the error of a refusal.

        safe: sending it twice has the effect of sending it once; default: by the method
        seconds: for the head of the answer
        """
        safe = method in _SAFE if safe is None else safe
        attempts = Attempts(self._retries, self._retry_seconds, safe)
        while True:
            sent = True
            try:
                answer = self._once(method, path + _query(query), headers or {}, content, safe, seconds or self._timeout)
                if answer.status < 300 or answer.status == 304:
                    return answer
                error: errors.CloisterError = errors.from_answer(answer.status, answer.headers, answer.read(MOST_PROBLEM))
            except Failed as failed:
                kind = errors.Timeout if failed.slow else errors.Unavailable
                error, sent = kind(f"asking {self.url}: {failed}", retryable=True), failed.sent
            pause = attempts.pause(error, sent)
            if pause is None:
                raise error
            sleep(pause)

    def _once(self, method: str, target: str, headers: Mapping[str, str], content: Optional[Content], safe: bool,
                    seconds: float) -> Answer:
        all_headers = {"User-Agent": f"cloister-python/{VERSION}", "Accept": "application/json", **headers}
        if self._target.api_key:
            all_headers["Authorization"] = f"Bearer {self._target.api_key}"
        body = content() if callable(content) else content
        return self._transport.open(method, target, all_headers, body, seconds, max(SILENCE, self._timeout), not safe)

    def call(self, method: str, path: str, body: Optional[Mapping[str, Any]] = None, *, query: Optional[Mapping[str, Any]] = None,
                   key: Optional[str] = None, safe: Optional[bool] = None, wait: float = 0) -> Dict[str, Any]:
        """The JSON object of an answer; {} without one. `key`: of idempotency, so that all attempts have one effect."""
        content, headers = None, {}
        if body is not None:
            content = json.dumps(body, separators=(",", ":")).encode()
            headers["Content-Type"] = "application/json"
        if key is not None:
            headers["Idempotency-Key"] = key
        safe = key is not None or (method in _SAFE if safe is None else safe)
        attempts = Attempts(self._retries, self._retry_seconds, safe)
        while True:
            answer = self.open(method, path, query=query, headers=headers, content=content, safe=safe, seconds=self._timeout + wait)
            try:
                return self.json(answer)
            except errors.Unavailable as error:  # the answer broke off in its body
                pause = attempts.pause(error, True)
                if pause is None:
                    raise
            sleep(pause)

    def whole(self, answer: Answer) -> bytes:
        """The body of an answer."""
        try:
            return answer.read(MOST_ANSWER)
        except Failed as failed:
            raise errors.Unavailable(f"asking {self.url}: {failed}") from failed

    def json(self, answer: Answer) -> Dict[str, Any]:
        """The JSON object in the body of an answer."""
        text = self.whole(answer)
        try:
            value = json.loads(text) if text else {}
        except ValueError:
            raise errors.ServerError(f"asking {self.url}: the answer is not JSON") from None
        return value if isinstance(value, dict) else {"value": value}

    def pages(self, path: str, member: str, limit: int, query: Mapping[str, Any]) -> List[Dict[str, Any]]:
        """At most `limit` items of a list, newest first."""
        items: List[Dict[str, Any]] = []
        cursor = None
        while len(items) < limit:
            page = self.call("GET", path, query={**query, "limit": min(limit - len(items), 200), "cursor": cursor})
            items += page[member]
            cursor = page["next_cursor"]
            if not cursor:
                break
        return items[:limit]

    def events(self, path: str, query: Optional[Mapping[str, Any]] = None) -> Events:
        return Events(self, path, query)

    def download(self, path: str, query: Optional[Mapping[str, Any]] = None, seconds: Optional[float] = None) -> Iterator[bytes]:
        """The bytes of a file or an artifact. A broken download continues where it broke, if the content is the same."""
        done, tag, left = 0, "", NO_PROGRESS
        while True:
            headers = {"Accept": "*/*", **({"Range": f"bytes={done}-", "If-Range": tag} if done else {})}
            answer = self.open("GET", path, query=query, headers=headers, seconds=seconds)
            if done and answer.status != 206:
                answer.close()
                raise errors.Conflict(f"reading {path}: the content changed during the transfer", remedy="read it again")
            tag = answer.headers.get("etag", "")
            try:
                while True:
                    piece = answer.next()
                    if not piece:
                        return
                    done, left = done + len(piece), NO_PROGRESS
                    yield piece
            except Failed as failed:
                left -= 1
                if left == 0 or (done and not tag):
                    raise errors.Unavailable(f"reading {path}: {failed}") from failed
                sleep(0.1)
            finally:
                answer.close()

    def cancel(self, execution_id: str) -> None:
        """Ends an execution; one that has ended stays as it is."""
        self.call("DELETE", f"/v1/executions/{name(execution_id)}")

    def whoami(self) -> types.Whoami:
        """Who the key is, and what it may do."""
        answer: Any = self.call("GET", "/v1/whoami")
        return answer  # type: ignore[no-any-return]

    def languages(self) -> List[types.Language]:
        """The languages of the server."""
        answer: Any = self.call("GET", "/v1/languages")
        return answer["languages"]  # type: ignore[no-any-return]


@contextlib.contextmanager
def borrowed(client: Optional[Client], url: Optional[str] = None, api_key: Optional[str] = None) -> Iterator[Client]:
    """The caller's client, or one that is closed afterwards."""
    made = client or Client(url, api_key)
    try:
        yield made
    finally:
        if client is None:
            made.close()


class Events:
    """Events of a stream, without heartbeats. After a break the stream continues behind the last event."""

    def __init__(self, client: Client, path: str, query: Optional[Mapping[str, Any]] = None) -> None:
        self._client, self._path, self._query = client, path, query
        self._answer: Optional[Answer] = None
        self._parser = _sse.Parser()
        self._ready: List[_sse.Event] = []
        self._last, self._moved, self._begun, self._over = "", time.monotonic(), False, False

    def __iter__(self) -> Events:
        return self

    def __next__(self) -> _sse.Event:
        event = self.next()
        if event is None:
            raise StopIteration
        return event

    def __enter__(self) -> Events:
        return self

    def __exit__(self, *error: Any) -> None:
        self.close()

    def close(self) -> None:
        self._over = True
        answer, self._answer = self._answer, None
        if answer is not None:
            answer.close()

    def next(self, deadline: Optional[float] = None) -> Optional[_sse.Event]:
        """The next event; None after the end of the stream. Raises Timeout at the deadline, a time of time.monotonic()."""
        while not self._over or self._ready:
            if self._ready:
                event = self._ready.pop(0)
                self._last = event.id or self._last
                if event.type != "heartbeat":
                    return event
                continue
            left = None if deadline is None else deadline - time.monotonic()
            if left is not None and left <= 0:
                raise errors.Timeout(f"following {self._path}: the time is over", remedy="wait longer, or again")
            try:
                self._more(left)
            except Failed as failed:
                self._broken(failed, left)
        return None

    def _more(self, left: Optional[float]) -> None:
        """Reads a piece of the stream, which it opens if needed."""
        if self._answer is None:
            headers = {"Accept": "text/event-stream", **({"Last-Event-ID": self._last} if self._last else {})}
            try:
                self._answer = self._client.open("GET", self._path, query=self._query, headers=headers)
            except (errors.Unavailable, errors.Timeout) as error:
                if not self._begun:
                    raise
                raise Failed(str(error), False) from error  # the server restarts, perhaps
            self._begun = True
            self._parser = _sse.Parser()
        if self._answer.status == 204:
            self.close()
            return
        piece = self._answer.next(left)
        if not piece:
            raise Failed("the server ended the stream", True)
        self._moved = time.monotonic()
        try:
            self._ready.extend(self._parser.feed(piece))
        except ValueError as error:
            raise errors.ServerError(f"following {self._path}: {error}") from error

    def _broken(self, failed: Failed, left: Optional[float]) -> None:
        answer, self._answer = self._answer, None
        if answer is not None:
            answer.close()
        if failed.slow and left is not None and left < SILENCE:
            return  # the deadline
        if time.monotonic() - self._moved > PATIENCE:
            raise errors.Unavailable(f"following {self._path}: {failed}") from failed
        sleep(0.1)
