# SPDX-License-Identifier: Apache-2.0
"""P52 to P54: hostile clients, and deceptive output."""
import concurrent.futures
import gzip
import json
import socket
import unittest
import urllib.parse

from hostile import WARM, HostileTest, harness
from session_case import Session

ENDLESS, LONG = ("bash", "yes"), ("bash", "head -c 64000000 /dev/zero")
FORGE = "bash", "printf '{0}'; printf '{0}' >&2"
if WARM:  # the streams of a copy are older than its runner
    ENDLESS = "python", "while True: print('y')"
    LONG = "python", "import sys\nfor _ in range(64): sys.stdout.buffer.write(bytes(1_000_000))"
    FORGE = "python", "import sys\nfor stream in (sys.stdout, sys.stderr): stream.write('{0}')"


class Clients(HostileTest):
    def post(self, body, **headers):
        return self.server.request("POST", "/v1/executions?wait=30", body,
                                   {"Content-Type": "application/json", **headers})

    def make_key(self, tenant):
        answer = self.server.request("POST", "/v1/keys", {"name": tenant, "tenant": tenant})
        self.assertEqual(answer.status, 201, answer.body)
        return answer.json()["secret"]

    def test_p52_same_key_same_body_runs_once(self):
        body = {"language": "bash", "code": "echo once"}
        with concurrent.futures.ThreadPoolExecutor(50) as pool:
            answers = list(pool.map(
                lambda _: self.server.request("POST", "/v1/executions?wait=30", body,
                                              {"Idempotency-Key": "p52"}), range(50)))
        self.assertEqual({a.status for a in answers}, {200})
        self.assertEqual(len({a.json()["id"] for a in answers}), 1)
        again = self.server.request("POST", "/v1/executions", {**body, "code": "echo twice"},
                                    {"Idempotency-Key": "p52"})
        self.assertEqual(again.status, 409, again.body)
        other = self.server.request("POST", "/v1/executions?wait=30", body,
                                    {"Idempotency-Key": "p52"}, key=self.make_key("p52-other"))
        self.assertEqual(other.status, 200)
        self.assertNotEqual(other.json()["id"], answers[0].json()["id"])

    def test_p53_input_bombs(self):
        daemon = self.server.pid_of("cloisterd")
        before = harness.memory_of(daemon)
        deep = b'{"language":"bash","code":"true","metadata":' + b"[" * 100_000 + b"]" * 100_000 + b"}"
        wide = json.dumps({"language": "bash", "code": "true",
                           "env": {f"V{n}": "x" for n in range(300_000)}}).encode()
        bombs = {
            "deep": deep,
            "wide": wide,
            "duplicate": b'{"language":"bash","language":"python","code":"true"}',
            "number": b'{"language":"bash","code":"true","timeout_seconds":1e999}',
            "surrogate": b'{"language":"bash","code":"\\ud800"}',
            "truncated": b'{"language":"bash","code":"tr',
            "not utf-8": b'{"language":"bash","code":"\xff"}',
            "nul": b'{"language":"bash","code":"true","args":["a\\u0000b"]}',
            "array": b"[]",
            "unknown": b'{"language":"bash","code":"true","privileged":true}',
        }
        for name, body in bombs.items():
            with self.subTest(name):
                answer = self.post(body)
                self.assertIn(answer.status, (400, 413, 422), answer.body[:300])
                self.assertEqual(answer.headers["content-type"], "application/problem+json")
                self.assertEqual(answer.json()["error"]["type"], "INVALID_REQUEST")
        with self.subTest("gzip"):
            packed = gzip.compress(b'{"language":"bash","code":"' + b" " * (64 << 20) + b'"}')
            self.assertEqual(self.post(packed, **{"Content-Encoding": "gzip"}).status, 415)
        with self.subTest("too large"):
            self.assertEqual(self.post(b'{"code":"' + b"x" * (40 << 20)).status, 413)
        self.assertLess(harness.memory_of(daemon) - before, 128 << 20)

    def test_p53_slow_clients(self):
        """Two hundred clients that never finish their request; the server serves others all along."""
        slow = []
        try:
            for _ in range(200):
                connection = socket.create_connection((self.server.host, self.server.port))
                connection.sendall(b"POST /v1/executions HTTP/1.1\r\nHost: localhost\r\nX-")
                slow.append(connection)
            self.assertEqual(self.run_code("bash", "echo served")["stdout"], "served\n")
        finally:
            for connection in slow:
                connection.close()

    def test_p53_reader_that_never_reads(self):
        if WARM:
            harness.await_copies(self.server)
        language, code = LONG
        submitted = self.server.request("POST", "/v1/executions", {
            "language": language, "code": code, "artifacts": [], "timeout_seconds": 120}).json()
        stalled = socket.create_connection((self.server.host, self.server.port))
        stalled.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        stalled.sendall((f"GET /v1/executions/{submitted['id']}/events HTTP/1.1\r\nHost: localhost\r\n"
                         f"Authorization: Bearer {self.server.key}\r\n\r\n").encode())
        try:
            done = self.server.wait_end(submitted["id"], 150)
            self.assertEqual(done["status"], "completed")
            self.assertTrue(done["stdout_truncated"])
        finally:
            stalled.close()

    def test_p53_malformed_http(self):
        for raw in (b"GET / HTTP/9.9\r\n\r\n", b"\x16\x03\x01\x02\x00", b"GET /\0 HTTP/1.1\r\n\r\n",
                    b"POST /v1/executions HTTP/1.1\r\nContent-Length: -1\r\n\r\n",
                    b"POST /v1/executions HTTP/1.1\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
                    b"GET /healthz HTTP/1.1\r\n" + b"A: " + b"b" * 100_000 + b"\r\n\r\n"):
            with self.subTest(raw[:40]):
                with socket.create_connection((self.server.host, self.server.port)) as connection:
                    connection.settimeout(20)
                    connection.sendall(raw)
                    try:
                        answer = connection.recv(4096)
                    except ConnectionResetError:
                        answer = b""
                    self.assertRegex(answer, rb"^(HTTP/1\.[01] (400|413|431|501|505)|$)")

    def test_p54_output_flood(self):
        result = self.run_code(*ENDLESS, timeout_seconds=5, max_output_bytes=65536)
        self.assertEnded(result, "timed_out", "TIMEOUT")
        self.assertTrue(result["stdout_truncated"])
        self.assertEqual(len(result["stdout_bytes"]), 65536)

    def test_p54_no_newline_and_binary(self):
        result = self.run_code("python", "import sys\nfor _ in range(100): sys.stdout.buffer.write(bytes(range(256))*4096)",
                               timeout_seconds=60)
        self.assertEnded(result, "completed", "OUTPUT_LIMIT", "max_output_bytes")
        self.assertTrue(result["stdout_truncated"])
        self.assertEqual(result["stdout_encoding"], "base64")
        self.assertEqual(result["stdout_bytes"][:256], bytes(range(256)))
        whole = [a for a in result["artifacts"] if a["size"] >= 50 << 20]
        self.assertEqual(len(whole), 1, result["artifacts"])

    def test_p54_log_injection(self):
        forged = ('{"time":"2026-01-01T00:00:00Z","level":"info","process":"cloisterd","event":"forged"}\\n'
                  '\\033]52;c;Zm9yZ2Vk\\007\\033[2J')
        language, code = FORGE
        result = self.run_code(language, code.replace("{0}", forged),
                               metadata={"note": 'x"}\n{"event":"forged"}'})
        self.assertEnded(result, "completed")
        self.assertNothingForged()

    def test_p54_names_forge_no_lines(self):
        """In the names of everything with a name: each is refused, or shown escaped."""
        forged = 'x"}\n{"event":"forged","level":"info"}\r\x1b[2J\x1b]52;c;Zm9yZ2Vk\x07\u202e'
        with Session(self.server, language="bash", metadata={"note": forged}, env={"NOTE": forged}) as session:
            quoted = urllib.parse.quote(forged.replace("/", ""), safe="")
            for method, path, body in (("PUT", f"/files/{quoted}", b"x"), ("GET", f"/files/{quoted}", None),
                                       ("POST", "/snapshots", {"name": forged}), ("POST", "/snapshots", {"metadata": {"n": forged}}),
                                       ("POST", "/exec", {"code": "x", "kernel": forged}),
                                       ("POST", "/exec", {"command": [forged], "cwd": forged}),
                                       ("GET", f"/archive?path={quoted}", None)):
                self.assertLess(session.call(method, path, body).status, 500, (method, path))
            made = session.exec(command=["touch", "--", forged.replace("/", "")])
            self.assertEnded(made, "completed")
            self.assertEqual(session.call("POST", "/snapshots", {}).status, 201)
            listed = session.call("GET", "/files", status=200).json()["entries"]
            for arguments in (["session", "list"], ["session", "show", session.id], ["snapshot", "list"],
                              ["execution", "list"], ["artifact", "list"], ["audit", "list"]):
                shown = self.server.cli(*arguments)
                for character in "\x1b\x07\u202e":
                    self.assertNotIn(character, shown.stdout + shown.stderr, arguments)
        self.assertGreaterEqual(len(listed), 1)
        self.assertLess(self.server.request("POST", f"/v1/artifacts?path={quoted}", b"x").status, 500)
        self.assertNothingForged()

    def assertNothingForged(self):
        for line in self.server.log.read_text(errors="replace").splitlines():
            if line.startswith("{"):
                self.assertNotEqual(json.loads(line).get("event"), "forged")
            for character in "\x1b\x07\u202e":
                self.assertNotIn(character, line)
        report = self.server.request("GET", "/v1/audit/verify")
        self.assertTrue(report.json()["ok"], report.body)


if __name__ == "__main__":
    unittest.main()
