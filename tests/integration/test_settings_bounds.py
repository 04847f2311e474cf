# SPDX-License-Identifier: Apache-2.0
"""Settings of sizes and numbers without another suite, each by a refusal or a wait (docs/EFFECTS.md,
tests/mutate_settings.py)."""

import contextlib
import datetime
import os
import socket
import tempfile
import unittest

import harness
import mcp_client
from session_case import Session

BUSY = "import time\nwhile time.process_time() < 1.5: pass"
POLICY = "version: 2\nrules:\n  - {name: all, why: version %d, effect: allow}\n"


class Case(unittest.TestCase):
    config = ""

    @classmethod
    def setUpClass(cls):
        cls.server = cls.enterClassContext(harness.Server(cls.config))

    def key(self, tenant, **who):
        body = {"tenant": tenant, "name": "test", "roles": ["agent"], **who}
        return self.call("POST", "/v1/keys", body, status=201)["secret"]

    def call(self, method, path, body=None, key=None, status=200):
        answer = self.server.request(method, path, body, key=key)
        self.assertEqual(answer.status, status, answer.body[:1000])
        return answer.json() if answer.body else None

    def sleeper(self, key=None, **request):
        """A run under way until the server stops."""
        made = self.server.submit("sleep 600", "bash", wait=0, key=key, **request).json()
        harness.wait_for("it to run", lambda: self.call("GET", f"/v1/executions/{made['id']}", key=key)["status"] == "running")


class Quotas(Case):
    """The defaults of each tenant and of each agent, unless an administrator set others."""

    bounds = "{concurrent: 1, sessions: 1, runs_per_minute: 3, cpu_seconds_per_hour: 1, memory_mb: 300}"

    @classmethod
    def setUpClass(cls):
        cls.servers = {scope: cls.enterClassContext(harness.Server(f"quotas:\n  {scope}: {cls.bounds}\n"))
                       for scope in ("tenant", "agent")}

    def each(self, name):
        """A key of an agent of its own, for each of the servers."""
        for self.server in self.servers.values():
            yield self.key(f"tenant-{name}", agent=f"agent-{name}")

    def refused(self, answer):
        self.assertEqual((answer.status, answer.json()["error"]["type"]), (429, "QUOTA_EXCEEDED"), answer.body)

    def test_concurrent(self):
        for key in self.each("concurrent"):
            self.sleeper(key, memory_mb=32)
            self.assertEqual(self.server.submit("true", "bash", wait=2, key=key, memory_mb=32).status, 202, "it waits")

    def test_sessions(self):
        for key in self.each("sessions"):
            with Session(self.server, key=key, language="bash", memory_mb=32):
                self.refused(self.server.request("POST", "/v1/sessions", {"language": "bash", "memory_mb": 32}, key=key))

    def test_runs_per_minute(self):
        for key in self.each("runs"):
            answers = [self.server.submit("true", "bash", key=key) for _ in range(4)]
            self.assertEqual([answer.status for answer in answers[:3]], [200] * 3)
            self.refused(answers[3])

    def test_cpu_seconds_per_hour(self):
        for key in self.each("cpu"):
            self.assertEqual(self.server.submit(BUSY, key=key).status, 200)
            self.refused(self.server.submit("1", key=key))

    def test_memory_mb(self):
        for key in self.each("memory"):
            self.assertEqual(self.server.submit("1", memory_mb=200, key=key).status, 200)
            self.assertGreaterEqual(self.server.submit("1", memory_mb=400, key=key).status, 400)


class Sessions(Case):
    config = "session:\n  max: 3\n  max_per_tenant: 2\n  ttl_seconds: 77\n  idle_ttl_seconds: 66\n"

    def test_times(self):
        with Session(self.server, language="bash") as session:
            self.assertEqual((session.made["ttl_seconds"], session.made["idle_ttl_seconds"]), (77, 66))

    def test_how_many(self):
        one, other, third = self.key("one"), self.key("other"), self.key("third")
        opened = [Session(self.server, key=key, language="bash", memory_mb=32) for key in (one, one, other)]
        told = [self.server.request("POST", "/v1/sessions", {"language": "bash"}, key=key) for key in (one, third)]
        self.assertEqual([answer.status for answer in told], [429, 429])
        opened.pop().end()
        answer = self.server.request("POST", "/v1/sessions", {"language": "bash", "memory_mb": 32}, key=one)
        self.assertEqual(answer.status, 429, "there is a place, and not for this tenant")
        for session in opened:
            session.end()


class Runs(Case):
    config = "run:\n  concurrent: 1\n  queue: 1\nhttp:\n  body_bytes: 4096\n"

    def test_one_runs_and_one_waits(self):
        self.sleeper()
        self.assertEqual(self.server.submit("1", wait=2).status, 202)
        self.assertEqual(self.server.submit("1", wait=0).status, 429)

    def test_how_many_of_a_tenant_wait(self):
        with harness.Server("run:\n  concurrent: 1\n  queue_per_tenant: 2\n") as self.server:
            self.sleeper()
            one, other = self.key("one"), self.key("other")
            told = [self.server.submit("1", wait=0, key=key).status for key in (one, one, one, other)]
            self.assertEqual(told, [201, 201, 429, 201])

    def test_the_node(self):
        """Its name, and its number of sandboxes."""
        with harness.Server("node:\n  name: box\n  max_sandboxes: 1\n") as self.server:
            self.assertEqual(self.server.run("1")["provenance"]["node"], "box")
            self.sleeper()
            self.assertEqual(self.server.submit("1", wait=2).status, 202)

    def test_the_size_of_a_request(self):
        self.assertEqual(self.server.submit("#" + "x" * 5000, wait=0).status, 413)


class PolicyDocument(unittest.TestCase):
    def test_beside_another_setting(self):
        with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
            file.write("version: 2\nrules:\n  - {name: none, why: nothing runs here, effect: deny}\n")
            file.flush()
            os.chmod(file.name, 0o644)
            with harness.Server(f"policy:\n  document: {file.name}\n") as server:
                self.assertEqual(server.run("1")["status"], "denied")


class Policies(Case):
    config = "policies:\n  history: 2\n  replay: 1\n"

    def test_versions_that_are_kept(self):
        for number in range(4):
            self.call("POST", "/v1/policies", {"document": POLICY % number}, status=201)
        self.assertEqual(len(self.call("GET", "/v1/policies")["policies"]), 2)

    def test_requests_that_are_tried(self):
        for _ in range(2):
            self.server.run("true", "bash")
        body = {"document": POLICY % 9, "dry_run": True}
        self.assertEqual(self.server.request("POST", "/v1/policies", {**body, "recent": 2}).status, 422)
        self.assertEqual(self.server.request("POST", "/v1/policies", {**body, "recent": 1}).status, 200)


class Agents(Case):
    config = "agents:\n  default_level: isolated\n  per_tenant: 1\n"

    def test_the_level_of_who_has_none(self):
        key = self.key("acme", agent="new")
        done = self.server.submit("touch /workspace/x", "bash", key=key).json()
        self.assertNotEqual(done["status"], "completed", done)

    def test_how_many(self):
        self.call("POST", "/v1/agents/one/sandbox", {"level": "standard"}, status=201)
        self.call("POST", "/v1/agents/two/sandbox", {"level": "standard"}, status=429)


class Levels(unittest.TestCase):
    def test_a_document_of_its_own(self):
        text = (harness.REPO / "policies" / "levels.yaml").read_text()
        with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
            file.write(text.replace("\n  training:\n", "\n  apprentice:\n"))
            file.flush()
            os.chmod(file.name, 0o644)
            with harness.Server(f"agents:\n  levels: {file.name}\n") as server:
                answer = server.request("POST", "/v1/agents/one/sandbox", {"level": "apprentice"})
                self.assertEqual(answer.status, 201, answer.body)


class Mcp(Case):
    config = "mcp:\n  wait_seconds: 1\n  heartbeat_seconds: 1\n  sessions: 32\n"

    def test_how_long_a_call_waits(self):
        with mcp_client.connect(self.server, "modern", "http") as client:
            self.assertEqual(client.ok("run", language="bash", code="sleep 8")["status"], "running")

    def test_how_often_progress_is_told(self):
        with mcp_client.connect(self.server, "modern", "http") as client:
            pending = client.start_tool("run", {"language": "bash", "code": "sleep 4"}, token="p")
            pending.result()
            self.assertGreaterEqual(len(pending.notifications), 3, "the default is five seconds")

    def test_how_many_sessions(self):
        """A key may have a 32nd part of the sessions."""
        first, second = (self.enterContext(mcp_client.connect(self.server, "legacy", "http")) for _ in range(2))
        self.assertTrue(second.call("tools/list"))
        with self.assertRaises(mcp_client.McpError) as gone:
            first.call("tools/list")
        self.assertEqual(gone.exception.status, 404)


class Http(Case):
    config = "http:\n  max_connections: 8\n  requests_per_tenant: 6\n"

    def test_how_many_connections(self):
        """The longest idle connection makes room."""
        opened = []
        for _ in range(12):
            opened.append(self.enterContext(socket.create_connection((self.server.host, self.server.port))))
            opened[-1].sendall(f"GET /healthz HTTP/1.1\r\nHost: {self.server.host}\r\n\r\n".encode())
            self.assertIn(b"200", opened[-1].recv(4096))
        opened[0].settimeout(10)
        self.assertEqual(opened[0].recv(4096), b"")


class Uploads(Case):
    config = "artifacts:\n  resume: {ttl_seconds: 77, max_mb: 1}\n"

    def broken_off(self, name, size, key=None):
        """The state of an upload of `size` bytes, a byte too few, after its client has gone."""
        with self.upload(name, size + 1, b"x" * size, key):
            harness.wait_for("all of it to be there", lambda: self.shown(name, key).json().get("size") == size)
        return harness.wait_for("its end", lambda: self.settled(self.shown(name, key)))

    @contextlib.contextmanager
    def upload(self, name, length, body=b"", key=None, head=""):
        """A client that sends the first bytes of an upload."""
        with socket.create_connection((self.server.host, self.server.port), timeout=20) as client:
            client.sendall(f"POST /v1/artifacts?path=x&upload={name} HTTP/1.1\r\nHost: localhost\r\n{head}"
                           f"X-API-Key: {key or self.server.key}\r\nContent-Length: {length}\r\n\r\n".encode() + body)
            yield client

    def shown(self, name, key=None):
        return self.server.request("GET", f"/v1/uploads/{name}", key=key)

    def settled(self, answer):
        return answer if answer.status == 404 or answer.json()["expires_at"] else None

    def test_how_long_they_are_kept(self):
        ends = datetime.datetime.fromisoformat(self.broken_off("brief", 1000).json()["expires_at"])
        self.assertLess((ends - datetime.datetime.now(datetime.timezone.utc)).total_seconds(), 78)

    def test_how_many_are_kept(self):
        """The bound is over all tenants. The longest waiting upload gives way."""
        with harness.Server("artifacts:\n  resume: {max: 2}\n") as self.server:
            keys = [self.key(tenant) for tenant in ("one", "two", "three")]
            self.assertEqual([self.broken_off("mine", 10, key).status for key in keys], [200] * 3)
            self.assertEqual([self.shown("mine", key).status for key in keys], [404, 200, 200])

    def test_how_many_at_once(self):
        """The bound is over all tenants."""
        with harness.Server("artifacts:\n  uploads: 2\n  uploads_per_tenant: 1\n") as self.server, contextlib.ExitStack() as held:
            begin = lambda tenant: held.enter_context(
                self.upload(tenant, 10, key=self.key(tenant), head="Expect: 100-continue\r\n")).recv(4096)
            self.assertEqual([begin(tenant)[9:12] for tenant in ("one", "two", "three")], [b"100", b"100", b"429"])
            held.close()
            harness.wait_for("a place", lambda: begin("four")[9:12] == b"100")

    def test_how_much_is_kept(self):
        self.assertEqual(self.broken_off("small", 1 << 19).status, 200)
        self.assertEqual(self.broken_off("large", 2 << 20).status, 404)


if __name__ == "__main__":
    unittest.main()
