# SPDX-License-Identifier: Apache-2.0
"""For the tests of the SDKs: a proxy that cuts connections, a server with answers of the test's, and the examples of pages."""

import contextlib
import http.server
import json
import os
import pathlib
import re
import socket
import sys
import tempfile
import threading

import harness

PYTHON = harness.REPO / "sdk/python"
sys.path.insert(0, str(PYTHON))
POLICY = """
version: 2
tiers:
  Assisted: {runtime: process}
  HumanApprove: {runtime: process, approve: {roles: [approver]}}
rules:
  - {name: closed, why: Nothing runs for this tenant., effect: deny, remedy: use another tenant, match: {tenants: [closed]}}
  - {name: looked-at, why: A person looks first., effect: approve, approve: {roles: [approver]}, match: {tenants: [looked-at]}}
  - {name: rest, why: Everything else runs., effect: allow}
"""


def server(test):
    """A server for all tests of the class `test`."""
    folder = pathlib.Path(test.enterClassContext(tempfile.TemporaryDirectory(prefix="cloister-sdk.")))
    folder.chmod(0o755)
    (folder / "policy.yaml").write_text(POLICY)
    return test.enterClassContext(harness.Server(config=f"policy: {folder}/policy.yaml\nhttp:\n  heartbeat_seconds: 1\n"))


def new_key(server, tenant, **more):
    """The secret of another key."""
    return server.request("POST", "/v1/keys", {"tenant": tenant, "name": "test", **more}).json()["secret"]


class CuttingProxy:
    """Passes bytes between a client and a server. Breaks off the first `cuts` connections, once `limit` bytes came from the
    server; all later connections are passed whole. It listens on TCP, or on a Unix socket at `path`. `with` gives its `url`;
    `cut` is the number of broken connections."""

    def __init__(self, server, limit=0, cuts=0, path=None):
        self._server, self._limit, self._cuts, self._path = (server.host, server.port), limit, cuts, path
        if path is None:
            self._listener = socket.create_server(("127.0.0.1", 0))
        else:
            self._listener = socket.socket(socket.AF_UNIX)
            self._listener.bind(path)
            self._listener.listen()
        self._lock = threading.Lock()
        self.cut = 0

    def __enter__(self):
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *exception):
        self._listener.close()

    @property
    def url(self):
        return f"unix:{self._path}" if self._path else f"http://127.0.0.1:{self._listener.getsockname()[1]}"

    def _accept(self):
        with contextlib.suppress(OSError):
            while True:
                client = self._listener.accept()[0]
                threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client):
        with client, contextlib.suppress(OSError), socket.create_connection(self._server) as server:
            there = threading.Thread(target=self._pass, args=(client, server, False), daemon=True)
            there.start()
            self._pass(server, client, True)
            there.join()

    def _pass(self, source, sink, limited):
        passed = 0
        with contextlib.suppress(OSError):
            while piece := source.recv(16384):
                if limited and passed + len(piece) > self._limit and self._may_cut():
                    sink.sendall(piece[:self._limit - passed])
                    break
                sink.sendall(piece)
                passed += len(piece)
        for end in (source, sink):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def _may_cut(self):
        with self._lock:
            may = self.cut < self._cuts
            self.cut += may
            return may


class Answers:
    """A server with the given answers, one after the other: (status, headers, JSON body). `seen` has the requests, as
    (method, path, headers)."""

    def __init__(self, *answers):
        self.seen, left = [], list(answers)
        seen = self.seen

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self):
                seen.append((self.command, self.path, {name.lower(): value for name, value in self.headers.items()}))
                self.rfile.read(int(self.headers.get("Content-Length", 0)))
                status, headers, body = left.pop(0) if len(left) > 1 else left[0]
                data = json.dumps(body).encode()
                self.send_response(status)
                for name, value in {"Content-Length": len(data), "X-Request-Id": "req_test", **headers}.items():
                    self.send_header(name, str(value))
                self.end_headers()
                self.wfile.write(data)

            do_POST = do_PUT = do_DELETE = do_GET

            def log_message(self, *_):
                pass

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)

    def __enter__(self):
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()
        return self

    def __exit__(self, *exception):
        self._server.shutdown()
        self._server.server_close()

    @property
    def url(self):
        return f"http://127.0.0.1:{self._server.server_address[1]}"


def problem(kind, message="no", retryable=False, **details):
    """The body of a refusal."""
    return {"type": "about:blank", "title": "t", "status": 0, "detail": message,
            "error": {"type": kind, "message": message, "details": details, "retryable": retryable}}


def examples(page, language):
    """[(code, the output that follows, or None)] of a page."""
    found = re.findall(rf"^```{language}\n(.*?)^```\n(?:\n```text\n(.*?)^```\n)?", page.read_text(encoding="utf-8"),
                       re.MULTILINE | re.DOTALL)
    return [(code, output or None) for code, output in found]


def assert_output(test, said, pairs, mark):
    """The output of the examples, each behind `mark`, is the output of the page; "…" stands for anything."""
    parts = said.split(mark)[1:]
    test.assertEqual(len(parts), len(pairs), said)
    for actual, (code, expected) in zip(parts, pairs):
        pattern = ".*".join(map(re.escape, (expected or "").split("…")))
        test.assertTrue(re.fullmatch(pattern, actual, re.DOTALL), f"{code}\nprinted:\n{actual}\nexpected:\n{expected}")


def environment(server, **more):
    """The environment of a program that uses an SDK."""
    return {"PATH": os.environ["PATH"], "HOME": str(server.state), "LANG": "C.UTF-8", "PYTHONPATH": str(PYTHON),
            "PYTHONDONTWRITEBYTECODE": "1", "CLOISTER_URL": server.url, "CLOISTER_API_KEY": server.key, **more}
