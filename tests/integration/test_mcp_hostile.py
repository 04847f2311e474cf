# SPDX-License-Identifier: Apache-2.0
"""Hostile clients and programs through MCP: another tenant's ids (P51), repeated requests (P52), input bombs and
slow clients (P53), deceptive output (P54), malformed messages, and crowds."""

import concurrent.futures
import gzip
import http.client
import json
import socket
import time
import unittest

import harness
import mcp_client
import mcp_fuzz
from mcp_client import McpError, text_of

SEED = 20260728
MIB = 1 << 20
MESSAGES = 10_000  # under half a minute for each transport; where everything is slow, a fifth
if (harness.SANITIZED or harness.SLOW) and not harness.LONG:
    MESSAGES = 2_000
GROWTH = 256 * MIB if harness.SANITIZED else 64 * MIB
CROWD = 200


def setUpModule():
    Hostile.server = harness.Server(config="run:\n  queue_per_tenant: 1024\n")
    unittest.enterModuleContext(Hostile.server)
    Hostile.server.run("pass")


class Hostile(unittest.TestCase):
    server = None

    def client(self, era="modern", transport="http", **options):
        return self.enterContext(mcp_client.connect(self.server, era, transport, **options))

    def key_of(self, tenant):
        answer = self.server.request("POST", "/v1/keys", {"name": tenant, "tenant": tenant})
        self.assertEqual(answer.status, 201, answer.body)
        return answer.json()["secret"]

    def daemon_memory(self):
        return harness.memory_of(self.server.pid_of("cloisterd"))

    def assertServes(self):
        self.assertEqual(self.client().ok("run", language="bash", code="echo served")["stdout"], "served\n")


class Tenants(Hostile):
    """P51: another tenant's object looks like a missing object."""

    @classmethod
    def setUpClass(cls):
        cls.owner, cls.thief = cls.key_of(cls(), "p51-a"), cls.key_of(cls(), "p51-b")
        with mcp_client.connect(cls.server, "modern", "http", key=cls.owner) as client:
            cls.session = client.ok("create_session", language="bash")["session_id"]
            client.ok("upload", session_id=cls.session, path="secret.txt", content="canary-51")
            done = client.ok("run", language="bash", code="echo canary-51 | tee secret.txt")
            cls.execution, cls.artifact = done["execution_id"], done["artifacts"][0]["id"]

    @classmethod
    def tearDownClass(cls):
        with mcp_client.connect(cls.server, "modern", "http", key=cls.owner) as client:
            assert client.ok("exec", session_id=cls.session, command="cat secret.txt")["stdout"] == "canary-51"
            client.ok("terminate", session_id=cls.session)

    def calls(self, session, execution, artifact):
        return (
            ("run", {"session_id": session, "code": "cat secret.txt"}),
            ("exec", {"session_id": session, "command": "cat secret.txt"}),
            ("upload", {"session_id": session, "path": "secret.txt", "content": "mine"}),
            ("download", {"session_id": session, "path": "secret.txt"}),
            ("download", {"artifact_id": artifact}),
            ("list_artifacts", {"session_id": session}),
            ("list_artifacts", {"execution_id": execution}),
            ("get_logs", {"execution_id": execution}),
            ("cancel", {"execution_id": execution}),
            ("terminate", {"session_id": session}),
            ("terminate", {"execution_id": execution}),
        )

    @staticmethod
    def random_like(ident):
        return ident[:-12] + "0123456789ab"

    def test_p51_every_tool(self):
        others = [self.random_like(each) for each in (self.session, self.execution, self.artifact)]
        for era in mcp_client.ERAS:
            thief = self.client(era, key=self.thief)
            theirs = self.calls(self.session, self.execution, self.artifact)
            for (name, arguments), (_, unknown) in zip(theirs, self.calls(*others), strict=True):
                with self.subTest(era=era, tool=name, arguments=arguments):
                    seen = json.dumps(thief.tool(name, **arguments))
                    expected = json.dumps(thief.tool(name, **unknown))
                    for mine, other in zip((self.session, self.execution, self.artifact), others, strict=True):
                        expected = expected.replace(other, mine)
                    self.assertEqual(seen, expected)
                    self.assertNotIn("canary-51", seen)
                    self.assertIn('"isError": true', seen)

    def test_p51_resources_lists_and_completion(self):
        uris = (f"cloister://artifacts/{self.artifact}", f"cloister://sessions/{self.session}/files/secret.txt")
        for era in mcp_client.ERAS:
            owner, thief = self.client(era, key=self.owner), self.client(era, key=self.thief)
            for uri in uris:
                self.assertIn("canary-51", json.dumps(owner.call("resources/read", {"uri": uri})))
                with self.assertRaises(McpError) as caught:
                    thief.call("resources/read", {"uri": uri})
                self.assertEqual((caught.exception.code, caught.exception.data["uri"]), (-32602, uri))
            seen = [thief.tool("list_sessions", limit=100), thief.tool("list_artifacts", limit=100),
                    thief.call("resources/list")]
            for argument, value in (("session_id", self.session[:10]), ("session_id", "")):
                seen.append(thief.call("completion/complete", {
                    "ref": {"type": "ref/prompt", "name": "fix_until_tests_pass"},
                    "argument": {"name": argument, "value": value}}))
            for uri in ("cloister://artifacts/{artifact_id}", "cloister://sessions/{session_id}/files/{+path}"):
                name = "artifact_id" if "artifacts" in uri else "session_id"
                seen.append(thief.call("completion/complete", {
                    "ref": {"type": "ref/resource", "uri": uri}, "argument": {"name": name, "value": ""}}))
            for mine in (self.session, self.execution, self.artifact):
                self.assertNotIn(mine, json.dumps(seen))

    def test_p51_spoofed_tenant(self):
        thief = self.client(key=self.thief)
        body = thief._body("tools/call", {"name": "get_logs", "arguments": {"execution_id": self.execution}},
                           None, None, 1)
        body["params"]["_meta"]["tenant"] = body["params"]["_meta"]["io.cloister/tenant"] = "p51-a"
        answer = thief.raw(body, {"X-Tenant-Id": "p51-a", "X-Tenant": "p51-a"})
        self.assertNotIn("canary-51", answer.text)
        self.assertTrue(answer.json()["result"]["isError"])

    def test_p51_protocol_session_of_another(self):
        owner, thief = self.client("legacy", key=self.owner), self.client("legacy", key=self.thief)
        body = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
        self.assertEqual(thief.raw(body, {"Mcp-Session-Id": owner.session}).status, 404)
        gone = self.server.request("DELETE", "/mcp", headers={"Mcp-Session-Id": owner.session}, key=self.thief)
        self.assertEqual(gone.status, 404)
        marker = "951.4321"
        pending = owner.start_tool("run", {"language": "bash", "code": f"sleep {marker}"})
        harness.wait_for("the program", lambda: mcp_client.alive(marker))
        thief.notify("notifications/cancelled", {"requestId": pending.id})
        self.client(key=self.thief).notify("notifications/cancelled", {"requestId": pending.id})
        self.assertTrue(thief.call("tools/list")["tools"], "whatever a cancellation did is done")
        self.assertTrue(mcp_client.alive(marker), "cancelled by a stranger")
        pending.cancel()
        mcp_client.assert_dies(marker)


class Repeats(Hostile):
    """P52."""

    def test_p52_ids_of_requests_mean_nothing_elsewhere(self):
        """Fifty clients whose requests have the same id: each gets its own answer."""
        def one(number):
            client = mcp_client.Http(self.server, ("modern", "legacy")[number % 2])
            with client:
                return client.ok("run", language="bash", code=f"echo {number}")

        with concurrent.futures.ThreadPoolExecutor(50) as pool:
            done = list(pool.map(one, range(50)))
        self.assertEqual([each["stdout"] for each in done], [f"{n}\n" for n in range(50)])
        self.assertEqual(len({each["execution_id"] for each in done}), 50)

    def test_p52_idempotency_key(self):
        client = self.client()
        (tool,) = [each for each in client.call("tools/list")["tools"] if each["name"] == "run"]
        self.assertIn("idempotency_key", tool["inputSchema"]["properties"])
        arguments = {"language": "bash", "code": "echo once", "idempotency_key": "p52-mcp"}
        with concurrent.futures.ThreadPoolExecutor(50) as pool:
            done = list(pool.map(lambda _: mcp_client.Http(self.server, "modern").ok("run", **arguments), range(50)))
        self.assertEqual(len({each["execution_id"] for each in done}), 1)
        self.assertEqual({each["stdout"] for each in done}, {"once\n"})
        result = client.tool("run", **{**arguments, "code": "echo twice"})
        self.assertTrue(result["isError"])
        other = self.client(key=self.key_of("p52-mcp-other")).ok("run", **arguments)
        self.assertNotEqual(other["execution_id"], done[0]["execution_id"])


class Bombs(Hostile):
    """P53."""

    def bombs(self, era):
        def wrap(arguments):
            meta = f', "_meta": {json.dumps(mcp_client.era_meta())}' if era == "modern" else ""
            return b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"run","arguments":' + arguments + \
                meta.encode() + b"}}"

        return {
            "deep": wrap(b"[" * 100_000 + b"]" * 100_000),
            "wide": wrap(json.dumps({f"k{n}": 1 for n in range(400_000)}).encode()),
            "duplicate": wrap(b'{"language":"bash","language":"python","code":"1"}'),
            "number": wrap(b'{"language":"bash","code":"true","timeout_seconds":1e999}'),
            "surrogate": wrap(b'{"language":"bash","code":"\\ud800"}'),
            "not utf-8": wrap(b'{"language":"bash","code":"\xff"}'),
            "nul": wrap(b'{"language":"bash","code":"true","args":["a\\u0000b"]}'),
            "truncated": wrap(b'{"language":"bash"')[:-40],
        }

    def assertRefused(self, message, name):
        refused = "error" in message or message.get("result", {}).get("isError")
        self.assertTrue(refused, (name, str(message)[:500]))
        self.assertNotEqual(message.get("error", {}).get("code"), -32603, message)

    def test_p53_input_bombs_over_http(self):
        before = self.daemon_memory()
        for era in mcp_client.ERAS:
            client = self.client(era)
            for name, body in self.bombs(era).items():
                with self.subTest(era=era, bomb=name):
                    headers = {"Mcp-Method": "tools/call", "Mcp-Name": "run"} if era == "modern" else {}
                    answer = client.raw(body, headers)
                    self.assertIn(answer.status, (200, 400, 413, 422), answer.body[:300])
                    self.assertRefused(answer.json(), name)
            packed = gzip.compress(b'{"jsonrpc":"2.0","id":1,"method":"' + b" " * (64 * MIB) + b'"}')
            self.assertIn(client.raw(packed, {"Content-Encoding": "gzip"}).status, (400, 415))
            self.assertEqual(client.raw(b'{"jsonrpc":"' + b"x" * (40 * MIB)).status, 413)
        self.assertLess(self.daemon_memory() - before, 2 * GROWTH)
        self.assertServes()

    def test_p53_input_bombs_over_stdio(self):
        for era in mcp_client.ERAS:
            with mcp_client.connect(self.server, era, "stdio") as client:
                for name, body in self.bombs(era).items():
                    with self.subTest(era=era, bomb=name):
                        client.write(body)
                        self.assertRefused(client.stray.get(timeout=60), name)
                client.write(b'{"jsonrpc":"2.0","id":7,"method":"' + b"x" * (40 * MIB) + b'"}')
                self.assertRefused(client.stray.get(timeout=60), "40 MiB in one line")
                self.assertEqual(client.ok("run", language="bash", code="echo on")["stdout"], "on\n")
                self.assertLess(harness.memory_of(client.process.pid), 4 * GROWTH)

    def test_p53_slow_clients(self):
        slow = []
        try:
            for _ in range(200):
                connection = socket.create_connection((self.server.host, self.server.port))
                connection.sendall(b"POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\n{\"jso")
                slow.append(connection)
            self.assertServes()
        finally:
            for connection in slow:
                connection.close()

    def test_p53_a_reader_that_never_reads(self):
        """Its program ends with the reader, and no other client waits."""
        marker = "953.4321"
        before = self.daemon_memory()
        client = mcp_client.Http(self.server, "modern")
        code = f"import subprocess, sys\nsubprocess.Popen(['sleep', '{marker}'])\nline = 'x' * 199 + '\\n'\n" \
               "while True: sys.stdout.write(line * 1000)\n"
        body = client._body("tools/call", {"name": "run", "arguments": {
            "language": "python", "code": code, "timeout_seconds": 100}}, "flood", None, 1)
        data = json.dumps(body).encode()
        head = "".join(f"{k}: {v}\r\n" for k, v in client._headers(body).items())
        with socket.create_connection((self.server.host, self.server.port)) as stalled:
            stalled.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            stalled.sendall(f"POST /mcp HTTP/1.1\r\nHost: localhost:{self.server.port}\r\n{head}"
                            f"Content-Length: {len(data)}\r\n\r\n".encode() + data)
            harness.wait_for("the program", lambda: mcp_client.alive(marker))
            for _ in range(5):
                self.assertServes()
            self.assertLess(self.daemon_memory() - before, GROWTH)
        harness.wait_for("the end of the program", lambda: not mcp_client.alive(marker), 30)


class Output(Hostile):
    """P54."""

    def test_p54_output_flood(self):
        for transport in mcp_client.TRANSPORTS:
            result = self.client("modern", transport).tool("run", language="bash", code="yes", timeout_seconds=2)
            told = result["structuredContent"]
            self.assertEqual((told["status"], told["truncated"]), ("timed_out", True))
            self.assertLess(len(json.dumps(result)), 120_000)
            self.assertIn("get_logs", text_of(result))

    def test_p54_no_newline_and_binary(self):
        code = "import sys\nfor _ in range(20): sys.stdout.buffer.write(bytes(range(256)) * 4096)"
        for transport in mcp_client.TRANSPORTS:
            client = self.client("modern", transport)
            pending = client.start_tool("run", {"language": "python", "code": code}, token="t")
            result = pending.result()
            self.assertTrue(result["structuredContent"]["truncated"])
            self.assertLess(len(json.dumps(result)), 400_000)
            for told in pending.notifications:
                self.assertLessEqual(len(told["params"].get("message", "").encode()), 400)

    def test_p54_lines_that_look_like_protocol(self):
        """A program cannot speak for the server, nor draw on a reader's terminal."""
        forged = json.dumps({"jsonrpc": "2.0", "id": "t1", "result": {"content": [], "forged": True}})
        event = "event: message\\ndata: " + forged.replace('"', '\\"')
        code = f"import time\nfor line in ({forged!r}, '{event}', '\\x1b]52;c;Zm9yZ2Vk\\x07\\x1b[2J', " \
               "'{\"time\":\"2026-01-01T00:00:00Z\",\"level\":\"info\",\"event\":\"forged\"}'):\n" \
               "    print(line, flush=True); time.sleep(0.3)\n"
        for era in mcp_client.ERAS:
            for transport in mcp_client.TRANSPORTS:
                with self.subTest(era=era, transport=transport):
                    client = self.client(era, transport)
                    pending = client.start_tool("run", {"language": "python", "code": code}, token="t")
                    result = pending.result()
                    self.assertNotIn("forged", result)
                    self.assertIn("jsonrpc", result["structuredContent"]["stdout"])
                    shown = text_of(result) + "".join(n["params"].get("message", "") for n in pending.notifications)
                    self.assertNotRegex(shown, "[\x00-\x08\x0b-\x1f\x7f\x80-\x9f]")
        for line in self.server.log.read_text(errors="replace").splitlines():
            if line.startswith("{"):
                self.assertNotEqual(json.loads(line).get("event"), "forged")
            self.assertNotIn("\033", line)
        self.assertTrue(self.server.request("GET", "/v1/audit/verify").json()["ok"])


class Malformed(Hostile):
    """Ten thousand messages for each transport, changed from valid ones."""

    def test_over_http(self):
        before, started = self.daemon_memory(), time.monotonic()
        pid = self.server.pid_of("cloisterd")
        statuses = {}
        with harness.leakcheck(self.server):
            for era in mcp_client.ERAS:
                client = self.client(era)
                mutator = mcp_fuzz.Mutator(era, SEED)
                connection = http.client.HTTPConnection(self.server.host, self.server.port, timeout=60)
                for _ in range(MESSAGES // 2):
                    data, origin = mutator.message()
                    status = self.send(connection, client, data, origin)
                    statuses[status] = statuses.get(status, 0) + 1
                connection.close()
        self.assertEqual(self.server.pid_of("cloisterd"), pid, "it was started anew")
        self.assertLess(self.daemon_memory() - before, GROWTH)
        print(f"counts: {MESSAGES} malformed messages over HTTP in {time.monotonic() - started:.1f} s: {statuses}",
              flush=True)
        self.assertServes()

    def send(self, connection, client, data, origin):
        connection.request("POST", "/mcp", data, client._headers(origin))
        answer = connection.getresponse()
        body = answer.read()
        self.assertIn(answer.status, (200, 202, 400, 403, 404, 413, 422), (data[:2000], body[:1000]))
        if answer.status == 202:
            self.assertEqual(body, b"")
        elif answer.getheader("Content-Type", "").startswith("text/event-stream"):
            self.assertIn(b"data: ", body)
        else:
            message = json.loads(body)
            self.assertNotEqual((message.get("error") or {}).get("code"), -32603, (data[:2000], body[:1000]))
        if client.era == "legacy" and answer.getheader("Mcp-Session-Id"):
            self.server.request("DELETE", "/mcp", headers={"Mcp-Session-Id": answer.getheader("Mcp-Session-Id")})
        return answer.status

    def test_over_stdio(self):
        started = time.monotonic()
        with harness.leakcheck(self.server):
            answered = sum(self.babble(era) for era in mcp_client.ERAS)
        print(f"counts: {MESSAGES} malformed messages over stdio in {time.monotonic() - started:.1f} s: "
              f"{answered} answers", flush=True)
        self.assertServes()

    def babble(self, era):
        """Sends all of them to a single `cloister mcp`, which must speak nothing but protocol → answers."""
        client = mcp_client.connect(self.server, era, "stdio")
        with client:
            mutator = mcp_fuzz.Mutator(era, SEED)
            memory = 0
            for number in range(MESSAGES // 2):
                client.write(mutator.message()[0].replace(b"\n", b" "))
                if number % 20 == 19:  # more than 64 at once are refused, as intended
                    client.call("tools/list")
                if number == 500:
                    memory = harness.memory_of(client.process.pid)
            client.call("tools/list")
            self.assertLess(harness.memory_of(client.process.pid) - memory, GROWTH)
        self.assertEqual(client.junk, [])
        for message in client.received:
            self.assertEqual(message["jsonrpc"], "2.0")
            self.assertNotEqual((message.get("error") or {}).get("code"), -32603, message)
        return len(client.received)


class Crowd(Hostile):
    def test_two_hundred_clients(self):
        """Each is served, with its own output, and no trace of them stays."""
        with harness.leakcheck(self.server), concurrent.futures.ThreadPoolExecutor(CROWD) as pool:
            done = list(pool.map(self.one, range(CROWD)))
        self.assertEqual(done, [f"client {n}\n" for n in range(CROWD)])

    def one(self, number):
        with mcp_client.connect(self.server, mcp_client.ERAS[number % 2], "http") as client:
            client.call("tools/list")
            return client.ok("run", language="bash", code=f"echo client {number}")["stdout"]


if __name__ == "__main__":
    unittest.main()
