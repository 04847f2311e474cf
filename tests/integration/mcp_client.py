# SPDX-License-Identifier: Apache-2.0
"""A small MCP client for tests, of both eras and over both transports.

    with mcp_client.connect(server, "modern", "http") as client:
        result = client.tool("run", language="python", code="print(1)")

The client hides nothing: `client.received` keeps each message of the server, and each message is checked against the
protocol's schema, if given.
"""

import contextlib
import http.client
import json
import pathlib
import queue
import subprocess
import tempfile
import threading

import harness

MODERN, LEGACY = "2026-07-28", "2025-11-25"
ERAS, TRANSPORTS = ("modern", "legacy"), ("http", "stdio")
META = "io.modelcontextprotocol/"
NAMED_BY = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}
SECONDS = 60


class McpError(Exception):
    """An error response."""

    def __init__(self, error, status=None):
        super().__init__(f"{error.get('code')}: {error.get('message')} (HTTP {status}) {error.get('data', '')}")
        self.code, self.message, self.data, self.status = error["code"], error["message"], error.get("data"), status


class Closed(Exception):
    """The server closed the stream without a response."""


def era_meta(capabilities=None, **more):
    return {META + "protocolVersion": MODERN, META + "clientCapabilities": capabilities or {},
            META + "clientInfo": {"name": "cloister-tests", "version": "1"}, **more}


class Pending:
    """A request under way."""

    def __init__(self, client, ident, method):
        self.client, self.id, self.method = client, ident, method
        self.status, self.headers = None, {}
        self.notifications = []  # for this request, in order
        self.requests = []  # the server's requests to us meanwhile (legacy)
        self._messages = queue.Queue()
        self.connection = None  # HTTP: the request's own

    def put(self, message):
        self._messages.put(message)

    def next(self, seconds=SECONDS):
        """The next message, None at the end of the stream."""
        try:
            return self._messages.get(timeout=seconds)
        except queue.Empty:
            raise AssertionError(f"{self.method} {self.id}: nothing for {seconds} s") from None

    def wait_notification(self, method, seconds=SECONDS):
        while True:
            message = self.next(seconds)
            assert message is not None and "method" in message, (method, message)
            self.notifications.append(message)
            if message["method"] == method:
                return message

    def response(self, seconds=SECONDS):
        """Any response; raises Closed when the stream ends without a response."""
        while True:
            message = self.next(seconds)
            if message is None:
                raise Closed(f"{self.method}: HTTP {self.status}")
            if "method" not in message:
                return message
            (self.requests if "id" in message else self.notifications).append(message)
            if "id" in message:
                self.client.answer(message)

    def result(self, seconds=SECONDS):
        message = self.response(seconds)
        if "error" in message:
            raise McpError(message["error"], self.status)
        return message["result"]

    def cancel(self):
        self.client.cancel(self)


class Client:
    """Shared by both transports. `capabilities`: the client's; `elicit`: answers a legacy elicitation/create (its
    params → the result)."""

    def __init__(self, server, era, capabilities=None, schemas=None, elicit=None, version=None, key=None):
        self.server, self.era, self.capabilities = server, era, capabilities or {}
        self.version = version or (MODERN if era == "modern" else LEGACY)
        self.key = key
        self.initialized = None  # the InitializeResult
        self.received = []
        self._schema = (schemas or {}).get(self.version)
        self._elicit = elicit
        self._ids = 0

    def __enter__(self):
        self.open()
        if self.era == "legacy":
            self.initialized = self.call("initialize", {
                "protocolVersion": self.version, "capabilities": self.capabilities,
                "clientInfo": {"name": "cloister-tests", "version": "1"}})
            assert self.initialized["protocolVersion"] == self.version, self.initialized
            self.notify("notifications/initialized")
        return self

    def __exit__(self, *exception):
        self.close()

    def _body(self, method, params, token, meta, ident=None):
        params = dict(params or {})
        added = dict(meta or {})
        if token is not None:
            added["progressToken"] = token
        if self.era == "modern":
            added = era_meta(self.capabilities, **added)
        if added:
            params["_meta"] = {**added, **params.get("_meta", {})}
        body = {"jsonrpc": "2.0", "method": method}
        if ident is not None:
            body["id"] = ident
        if params:
            body["params"] = params
        return body

    def start(self, method, params=None, token=None, meta=None):
        """Sends a request → Pending."""
        self._ids += 1
        pending = Pending(self, f"t{self._ids}", method)
        self.send_request(pending, self._body(method, params, token, meta, pending.id))
        return pending

    def call(self, method, params=None, seconds=SECONDS, **options):
        return self.start(method, params, **options).result(seconds)

    def start_tool(self, name, arguments=None, **options):
        return self.start("tools/call", {"name": name, "arguments": arguments or {}}, **options)

    def tool(self, name, /, **arguments):
        """tools/call → its result."""
        return self.start_tool(name, arguments).result()

    def ok(self, name, /, **arguments):
        """A tools/call that must succeed → its structuredContent."""
        result = self.tool(name, **arguments)
        assert not result.get("isError"), (name, result)
        return result["structuredContent"]

    def notify(self, method, params=None):
        self.send_other(self._body(method, params, None, None))

    def answer(self, request):
        """Answers a request of the server's, as a legacy client does."""
        reply = {"jsonrpc": "2.0", "id": request["id"]}
        if request["method"] == "elicitation/create" and self._elicit is not None:
            reply["result"] = self._elicit(request["params"])
        elif request["method"] == "ping":
            reply["result"] = {}
        else:
            reply["error"] = {"code": -32601, "message": "not here"}
        self.send_other(reply)

    def took(self, message, method=None):
        """Every message of the server passes here."""
        self.received.append(message)
        if self._schema is not None:
            self._schema.check(message, method)


class Http(Client):
    """Streamable HTTP: a connection for each request."""

    PATH = "/mcp"
    session = None  # Mcp-Session-Id, once assigned

    def open(self):
        pass

    def close(self):
        if self.session:
            self.server.request("DELETE", self.PATH, headers=self._headers({}), key=self.key)

    def _headers(self, body):
        headers = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json"}
        if self.key is not False:
            headers["Authorization"] = f"Bearer {self.key or self.server.key}"
        if self.era == "modern" or body.get("method") != "initialize":
            headers["MCP-Protocol-Version"] = self.version
        if self.session:
            headers["Mcp-Session-Id"] = self.session
        if self.era == "modern" and "method" in body:
            headers["Mcp-Method"] = body["method"]
            if body["method"] in NAMED_BY:
                headers["Mcp-Name"] = str(body.get("params", {}).get(NAMED_BY[body["method"]]))
        return headers

    def send_request(self, pending, body):
        connection = http.client.HTTPConnection(self.server.host, self.server.port, timeout=SECONDS + 30)
        pending.connection = connection
        connection.request("POST", self.PATH, json.dumps(body).encode(), self._headers(body))
        pending.socket = connection.sock
        threading.Thread(target=self._read, args=(pending,), daemon=True).start()

    def _read(self, pending):
        try:
            answer = pending.connection.getresponse()
            pending.status = answer.status
            pending.headers = {name.lower(): value for name, value in answer.getheaders()}
            if pending.method == "initialize":
                self.session = pending.headers.get("mcp-session-id")
            if pending.headers.get("content-type", "").startswith("text/event-stream"):
                for _, _, message in harness._parse_sse(_nonempty(answer)):
                    self._give(pending, message)
            else:
                text = answer.read()
                if text:
                    self._give(pending, json.loads(text))
        except (OSError, http.client.HTTPException, ValueError, AttributeError):
            pass  # closed by us, or cut off: no response comes
        except AssertionError as error:
            pending.put({"error": {"code": 0, "message": f"against the schema: {error}"}})
        finally:
            pending.put(None)
            pending.connection.close()

    def _give(self, pending, message):
        self.took(message, pending.method)
        pending.put(message)

    def send_other(self, body):
        answer = self.server.request("POST", self.PATH, body, self._headers(body), key=self.key)
        assert answer.status == 202 and not answer.body, (body, answer.status, answer.body[:500])

    def cancel(self, pending):
        if self.era == "legacy":
            self.notify("notifications/cancelled", {"requestId": pending.id, "reason": "test"})
            return
        with contextlib.suppress(OSError):
            pending.socket.shutdown(2)  # the disconnect is the cancellation

    def raw(self, body, headers=None):
        """POSTs bytes or a message unchanged → Response. A header with the value None is left out."""
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        merged = self._headers(body if isinstance(body, dict) else {}) | (headers or {})
        return harness.http_request(self.server.host, self.server.port, "POST", "/mcp", data,
                                    {k: v for k, v in merged.items() if v is not None})


def _nonempty(stream):
    """Lines of an event stream, without the priming events, which have an id and no data."""
    for line in stream:
        if line.strip() not in (b"data:", b"data"):
            yield line


class Stdio(Client):
    """`cloister mcp` as a child, bridged to the test's server. `env`: replaces the variables for the server."""

    def __init__(self, *args_, env=None, args=(), **options):
        super().__init__(*args_, **options)
        self._env, self._args = env, list(args)

    def open(self):
        named = {"CLOISTER_URL": self.server.url, "CLOISTER_API_KEY": self.key or self.server.key}
        env = {**self.server._environment(), **(named if self._env is None else self._env)}
        self.errors = tempfile.TemporaryFile()
        self.process = subprocess.Popen(
            [str(self.server.bin / "cloister"), "mcp", *self._args], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=self.errors, env=env, **self.server._identity())
        self.junk = []  # lines of stdout outside of the protocol
        self.stray = queue.Queue()  # answers without a request
        self._pending, self._lock, self._writing = {}, threading.Lock(), threading.Lock()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def close(self):
        """Ends the child like a host, by the end of its stdin, and checks its promises."""
        with contextlib.suppress(OSError):
            self.process.stdin.close()
        try:
            code = self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise AssertionError("cloister mcp did not end at the end of its input") from None
        finally:
            self._reader.join(10)
            self.process.stdout.close()
            self.errors.seek(0)
            said = self.errors.read().decode(errors="replace")
            self.errors.close()
        assert code == 0, (code, said[-2000:])
        assert not self.junk, self.junk[:3]

    def send_request(self, pending, body):
        with self._lock:
            self._pending[pending.id] = pending
        self.write(json.dumps(body).encode())

    def send_other(self, body):
        self.write(json.dumps(body).encode())

    def write(self, line):
        with self._writing:  # not the reader's: both pipes may be full
            self.process.stdin.write(line + b"\n")
            self.process.stdin.flush()

    def cancel(self, pending):
        self.send_other(self._body("notifications/cancelled", {"requestId": pending.id, "reason": "test"},
                                   None, None))

    def _read(self):
        for line in self.process.stdout:
            try:
                message = json.loads(line)
                assert message["jsonrpc"] == "2.0" and isinstance(message.get("id", ""), str | int | None)
            except (ValueError, KeyError, TypeError, AssertionError):
                self.junk.append(line[:500])
                continue
            self._give(message)
        with self._lock:
            waiting = list(self._pending.values())
        for pending in waiting:
            pending.put(None)

    def _give(self, message):
        with self._lock:
            pending = self._owner(message)
            if pending is not None and "method" not in message:
                del self._pending[pending.id]
        try:
            self.took(message, pending.method if pending and "method" not in message else None)
        except AssertionError as error:
            message = {"error": {"code": 0, "message": f"against the schema: {error}"}}
        if pending is None:
            self.stray.put(message)
            return
        pending.put(message)
        if "method" not in message:
            pending.put(None)

    def _owner(self, message):
        """The request of a message. A legacy server's own requests go to the oldest."""
        if "method" not in message:
            return self._pending.get(message.get("id"))
        params = message.get("params", {})
        token = params.get("progressToken")
        subscription = params.get("_meta", {}).get(META + "subscriptionId")
        for pending in self._pending.values():
            if token is not None and pending.token == token:
                return pending
            if subscription == pending.id:
                return pending
        return next(iter(self._pending.values()), None) if token is None else None

    def start(self, method, params=None, token=None, meta=None):
        self._ids += 1
        pending = Pending(self, f"t{self._ids}", method)
        pending.token = token
        self.send_request(pending, self._body(method, params, token, meta, pending.id))
        return pending


def connect(server, era, transport, **options):
    """A client; open with `with`. `options`: for Client."""
    return (Http if transport == "http" else Stdio)(server, era, **options)


def text_of(result):
    """The text blocks of a tool's result."""
    return "\n".join(block["text"] for block in result["content"] if block["type"] == "text")


def alive(marker):
    """The pids on this machine, in sandboxes too, of programs with `marker` among their arguments."""
    found = []
    for path in pathlib.Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            if marker.encode() in path.read_bytes().split(b"\0"):
                found.append(int(path.parent.name))
    return found


DEAD_SECONDS = 15  # until a cancelled tree of processes is gone; seconds are for a busy machine


def assert_dies(marker):
    """Every program with this argument is gone within a second."""
    harness.wait_for(f"the end of {marker}", lambda: not alive(marker), DEAD_SECONDS, every=0.005)
