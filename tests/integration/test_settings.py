# SPDX-License-Identifier: Apache-2.0
"""Settings without another suite, each by its effect: the service has a value other than its default, and the effect
differs from the default's (docs/EFFECTS.md, tests/mutate_settings.py)."""

import base64
import contextlib
import datetime
import os
import pathlib
import pwd
import queue
import signal
import socket
import threading
import time
import unittest

import harness
import machine
import mcp_client
from session_case import Session

CONFIG = """\
http:
  header_bytes: 2048
  header_timeout_seconds: 1
  idle_timeout_seconds: 1
  heartbeat_seconds: 1
  allowed_hosts: [proxy.example]
api:
  cors_origins: ["https://app.example", "http://localhost:5173"]
ports:
  domain: boxes.test
mcp:
  output_bytes: 256
  download_bytes: 1024
  inline_images: 1
  inline_image_bytes: 1000
  session_idle_seconds: 1
run:
  output_artifact_bytes: 1000
kernels:
  max_per_session: 1
  code_bytes: 1024
artifacts:
  ttl_days: 1
"""
SECONDS = 8  # more than the times above, and less than their defaults
PNG = base64.b64decode("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==")


def figures(*sizes):
    """A program that leaves images of so many bytes."""
    return "\n".join(f"open('{n}.png', 'wb').write({PNG!r}.ljust({size}, b'\\0'))" for n, size in enumerate(sizes))


class Settings(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = cls.enterClassContext(harness.Server(CONFIG))

    def connect(self):
        sock = self.enterContext(socket.create_connection((self.server.host, self.server.port)))
        sock.settimeout(SECONDS)
        return sock

    def with_mcp(self):
        return self.enterContext(mcp_client.connect(self.server, "modern", "http"))

    # - http -

    def test_http_header_bytes(self):
        self.assertEqual(self.server.request("GET", "/v1/executions", headers={"X-Long": "x" * 1500}).status, 200)
        self.assertEqual(self.server.request("GET", "/v1/executions", headers={"X-Long": "x" * 3000}).status, 431)

    def test_http_header_timeout_seconds(self):
        sock = self.connect()
        sock.sendall(b"GET /healthz HTTP/1.1\r\nHost:")
        self.assertIn(sock.recv(4096)[9:12], (b"408", b""))

    def test_http_idle_timeout_seconds(self):
        sock = self.connect()
        sock.sendall(f"GET /healthz HTTP/1.1\r\nHost: {self.server.host}\r\n\r\n".encode())
        said = b""
        while piece := sock.recv(4096):  # to its end
            said += piece
        self.assertIn(b"200", said)

    def test_http_heartbeat_seconds(self):
        with Session(self.server, language="bash") as session:
            sock = self.connect()
            sock.sendall(f"GET {session.path}/events HTTP/1.1\r\nHost: {self.server.host}\r\nX-API-Key: {self.server.key}\r\n"
                         "\r\n".encode())
            said = b""
            while b"event: heartbeat" not in said:
                piece = sock.recv(4096)
                self.assertTrue(piece, said)
                said += piece

    def test_http_allowed_hosts(self):
        for host, status in (("proxy.example", 200), ("other.example", 421)):
            self.assertEqual(self.server.request("GET", "/v1/executions", headers={"Host": host}).status, status, host)

    # - api, ports -

    def cross(self, method="GET", path="/v1/executions", origin="https://app.example", key=None, **headers):
        headers = {name.replace("_", "-"): value for name, value in headers.items()}
        return self.server.request(method, path, headers={"Origin": origin, **headers}, key=key)

    def test_api_cors_origins(self):
        for origin in ("https://app.example", "http://localhost:5173"):
            asked = self.cross("OPTIONS", origin=origin, key=False, Access_Control_Request_Method="POST",
                               Access_Control_Request_Headers="authorization,content-type")
            self.assertEqual((asked.status, asked.headers["access-control-allow-origin"]), (204, origin))
            self.assertIn("POST", asked.headers["access-control-allow-methods"])
            self.assertEqual(asked.headers["access-control-allow-headers"], "authorization,content-type")
            got = self.cross(origin=origin)
            self.assertEqual((got.status, got.headers["access-control-allow-origin"], got.headers["vary"]), (200, origin, "Origin"))
            self.assertIn("X-Request-Id", got.headers["access-control-expose-headers"])
            self.assertNotIn("access-control-allow-credentials", got.headers)
            refused = self.cross(origin=origin, key=False)
            self.assertEqual((refused.status, refused.headers["access-control-allow-origin"]), (401, origin), "readable, too")
        stream = self.cross(path="/v1/executions/none/events")
        self.assertEqual((stream.status, stream.headers["access-control-allow-origin"]), (404, "https://app.example"))

    def test_other_origins_are_refused(self):
        for origin in ("https://evil.example", "https://app.example.evil.example", "http://app.example", "https://app.example:444",
                       "https://sub.app.example", "null", "https://app.example/"):
            for method, headers in (("OPTIONS", {"Access_Control_Request_Method": "POST"}), ("GET", {})):
                answer = self.cross(method, origin=origin, **headers)
                self.assertEqual(answer.status, 403, origin)
                self.assertNotIn("access-control-allow-origin", answer.headers)
        plain = self.server.request("GET", "/v1/executions")
        self.assertNotIn("access-control-allow-origin", plain.headers)

    def test_ports_domain(self):
        with Session(self.server, language="bash") as session:
            made = session.call("POST", "/ports/80/tokens", {}, status=201).json()
            self.assertTrue(made["url"].startswith(f"http://80-{session.id.replace('_', '-')}.boxes.test:{self.server.port}/?"), made)
            host = made["url"].split("/")[2]
            for path in ("/healthz", "/v1/sessions"):
                self.assertEqual(self.server.request("GET", path, headers={"Host": host}).status, 404, "nothing listens there")
        self.assertEqual(self.server.request("GET", "/healthz", headers={"Host": "x.boxes.test"}).status, 404)

    # - mcp -

    def test_mcp_output_bytes(self):
        said = self.with_mcp().ok("run", language="python", code="print('x' * 2000)")
        self.assertLess(len(said["stdout"]), 600)

    def test_mcp_download_bytes(self):
        with Session(self.server, language="bash") as session:
            session.exec("head -c 3000 /dev/zero | tr '\\0' x > long.txt")
            got = self.with_mcp().ok("download", session_id=session.id, path="long.txt")
            self.assertEqual((got["size"], got["length"]), (3000, 1024), got)

    def images(self, *sizes):
        result = self.with_mcp().tool("run", language="python", code=figures(*sizes))
        self.assertEqual(len(result["structuredContent"]["artifacts"]), len(sizes), result)
        return [block["type"] for block in result["content"]].count("image")

    def test_mcp_inline_images(self):
        self.assertEqual(self.images(500, 501, 502), 1)

    def test_mcp_inline_image_bytes(self):
        self.assertEqual((self.images(900), self.images(1100)), (1, 0))

    def test_mcp_session_idle_seconds(self):
        client = self.enterContext(mcp_client.connect(self.server, "legacy", "http"))

        def forgotten():
            try:
                client.call("tools/list")
            except mcp_client.McpError as error:
                return error.status == 404
            return False

        harness.wait_for("the session to be forgotten", forgotten, SECONDS, every=1.5)  # each request is a further use

    # - what runs -

    def test_run_output_artifact_bytes(self):
        done = self.server.run("print('x' * 5000)", max_output_bytes=256)
        self.assertTrue(done["stdout_artifact_truncated"], done)
        [of_result] = done["artifacts"]
        shown = self.server.request("GET", f"/v1/artifacts/{of_result['id']}").json()
        listed = self.server.request("GET", "/v1/artifacts").json()["artifacts"]
        for artifact in (of_result, shown, next(each for each in listed if each["id"] == shown["id"])):
            self.assertEqual((artifact["size"], artifact["truncated"], artifact["full_size"]), (1000, True, 5001), artifact)
        got = self.server.cli("artifact", "get", shown["id"], "-")
        self.assertIn("the first 1000 of 5001 bytes", got.stderr)
        self.assertIn(" of ", self.server.cli("artifact", "list", "-o", "wide").stdout.split(shown["id"])[1].split("\n")[0])
        [whole] = self.server.run("print('x' * 500)", max_output_bytes=256)["artifacts"]
        self.assertNotIn("truncated", whole)

    def test_kernels_max_per_session(self):
        with Session(self.server, language="python") as session:
            session.exec("1", kernel="one")
            self.assertEqual(session.post("1", kernel="two").status, 429)

    def test_kernels_code_bytes(self):
        with Session(self.server, language="python") as session:
            session.exec("1" + " " * 1000, kernel="one")
            self.assertIn(session.post("1" + " " * 1100, kernel="one").status, (400, 413, 422))

    def test_artifacts_ttl_days(self):
        done = self.server.run("open('a.txt', 'w').write('a')", artifacts=["a.txt"])
        shown = self.server.request("GET", f"/v1/artifacts/{done['artifacts'][0]['id']}").json()
        lives = datetime.datetime.fromisoformat(shown["expires_at"]) - datetime.datetime.fromisoformat(shown["created_at"])
        self.assertEqual(lives.days, 1)


LOCKS = """
import fcntl, time
file = open("one", "wb")
for at in range(100): fcntl.lockf(file, fcntl.LOCK_EX, 1, 2 * at)
time.sleep(20)
"""


@unittest.skipUnless(harness.ROOT, "needs root: an ordinary user's sandboxes have neither ids nor control groups of their own")
class Node(unittest.TestCase):
    """The host's view of the service and its sandboxes."""

    config = ("node:\n  uid_base: 900000000\n  cgroup_parent: cloister-elsewhere\n  file_locks: 64\nuser: nobody\n"
              "gvisor:\n  overhead_mb: 100\n")

    @classmethod
    def setUpClass(cls):
        cls.server = cls.enterClassContext(harness.Server(cls.config))

    def test_uids_of_sandboxes(self):
        with Session(self.server, language="python"):
            uids = {pathlib.Path(f"/proc/{pid}").stat().st_uid for pid in self.server.pids()}
        self.assertTrue(any(900_000_000 <= uid < 910_000_000 for uid in uids), uids)

    def test_groups_of_sandboxes(self):
        with Session(self.server, language="python"):
            groups = [pathlib.Path(f"/proc/{pid}/cgroup").read_text() for pid in self.server.pids()]
        self.assertTrue(any("/cloister-elsewhere/" in text for text in groups), groups)

    def test_the_user_of_the_service(self):
        (uid,) = {pathlib.Path(f"/proc/{self.server.pid_of('cloisterd')}").stat().st_uid}
        self.assertEqual(uid, pwd.getpwnam("nobody").pw_uid)

    def test_locks_of_a_sandbox(self):
        error = self.server.run(LOCKS)["error"]
        self.assertEqual((error["type"], error["details"]["limit"]), ("RESOURCE_LIMIT_EXCEEDED", "file_locks"))

    @unittest.skipUnless(os.path.exists("/usr/bin/runsc"), "no /usr/bin/runsc: install Debian's from backports")
    def test_memory_of_gvisor(self):
        with Session(self.server, language="python", runtime="gvisor", memory_mb=200):
            self.assertIn(300, machine.memory_limits(self.server))


# In a copy of a prestarted interpreter, copies of the same zygote have the seed in common.
SEED = "import sys; print(hash('a') if 'statistics' in sys.modules else 0)"


class Zygotes(unittest.TestCase):
    def seed(self, server, key=None):
        """The seed of a program in a copy."""
        return harness.wait_for("a copy", lambda: int(server.submit(SEED, key=key).json()["stdout"]), 30)

    def test_tenants_share_none(self):
        with harness.Server("pool:\n  zygote_per_tenant: true\n" + harness.CALM) as server:
            keys = [server.request("POST", "/v1/keys", {"tenant": tenant, "name": "test", "roles": ["agent"]}).json()["secret"]
                    for tenant in ("one", "two")]
            one, two = ({self.seed(server, key) for _ in range(6)} for key in keys)
            self.assertFalse(one & two)


class Metrics(unittest.TestCase):
    def test_open(self):
        """Only with the setting is no key needed on this machine; without it, a key without the permission is
        refused."""
        for setting, bare, agent in (("", 401, 403), ("metrics:\n  open: true\n", 200, 200)):
            with self.subTest(setting), harness.Server(setting) as server:
                def key(role):
                    return server.request("POST", "/v1/keys", {"tenant": "ops", "role": role}).json()["secret"]

                self.assertEqual(server.request("GET", "/metrics", key=False).status, bare)
                self.assertEqual(server.request("GET", "/metrics", key=key("agent")).status, agent)
                scraped = server.request("GET", "/metrics", key=key("metrics"))
                self.assertEqual(scraped.status, 200)
                self.assertIn("cloister_running 0", scraped.text)


class Shares(unittest.TestCase):
    """The share of a tenant, or of all sessions, in the whole."""

    def test_http_requests_per_tenant(self):
        config = "http:\n  requests_per_tenant: 1\n  heartbeat_seconds: 1\n"  # a lost stream is noticed at a heartbeat
        with harness.Server(config) as server, Session(server, language="python") as session:
            events = server.events(session.path + "/events")
            next(events)
            self.assertEqual(server.request("GET", "/v1/whoami").status, 429)
            events.close()
            harness.wait_for("its place", lambda: server.request("GET", "/v1/whoami").status == 200)

    def test_durability(self):
        """With `power`, no acknowledgement precedes the disk."""
        with harness.Server("durability: power\n") as server:
            device = server.state.stat().st_dev
            stat = pathlib.Path(f"/sys/dev/block/{os.major(device)}:{os.minor(device)}/stat")
            flushes = lambda: int(stat.read_text().split()[15])  # Documentation/block/stat.rst
            if not stat.exists() or len(stat.read_text().split()) < 17:
                self.skipTest("needs root: an ordinary user's jail has no disk of its own, which would count")
            before = flushes()
            for _ in range(20):
                server.request("POST", "/v1/keys", {"tenant": "one", "name": "test", "roles": ["viewer"]})
            self.assertGreaterEqual(flushes() - before, 20)

    def test_session_memory_percent(self):
        memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") >> 20
        asked = min(max(memory // 20, 16), 16_384)  # a twentieth
        with harness.Server("session:\n  memory_percent: 1\n") as server:
            answer = server.request("POST", "/v1/sessions", {"language": "bash", "memory_mb": asked})
            self.assertEqual(answer.status, 429, answer.body)
            Session(server, language="bash", memory_mb=16).end()

    def test_run_permit_life_seconds(self):
        with harness.Server("run:\n  permit_life_seconds: 1\n") as server:
            node = server.pid_of("cloister-node")
            os.kill(node, signal.SIGSTOP)
            made = server.submit("1", wait=0).json()
            time.sleep(2)  # longer than the permit's life
            os.kill(node, signal.SIGCONT)
            self.assertIn("permit: it has expired", server.wait_end(made["id"])["error"]["message"])

    def test_snapshots_at_once(self):
        """Bounds of a tenant, and of all."""
        with harness.Server("snapshots:\n  at_once: 2\n  at_once_per_tenant: 1\n") as server:
            self.assertEqual(self.taken_at_once(server, "one", "one"), [429])
            self.assertEqual(self.taken_at_once(server, "one", "two", "three"), [429])

    def taken_at_once(self, server, *tenants):
        """The answers to snapshots of these tenants' sessions while none can finish: their runners are stopped."""
        answers = queue.Queue()
        with contextlib.ExitStack() as open_ones:
            keys = {tenant: server.request("POST", "/v1/keys", {"tenant": tenant, "name": "test", "roles": ["agent"]}).json()["secret"]
                    for tenant in set(tenants)}
            sessions = [open_ones.enter_context(Session(server, key=keys[tenant], language="bash", memory_mb=64))
                        for tenant in tenants]
            takes = [threading.Thread(target=lambda s=session: answers.put(s.call("POST", "/snapshots", {}).status))
                     for session in sessions]
            stopped = [pid for pid in server.pids() if harness.program_of(pid) == "cloister-runner"]
            try:
                for pid in stopped:
                    os.kill(pid, signal.SIGSTOP)
                for take in takes:
                    take.start()
                told = [answers.get(timeout=SECONDS)]
            finally:
                for pid in stopped:
                    os.kill(pid, signal.SIGCONT)
                for take in takes:
                    take.join()
            self.assertEqual({answers.get() for _ in range(len(tenants) - 1)}, {201})
            return told


LIMITS = {"timeout_seconds": 100, "cpu_seconds": 90, "cpu_millis": 900, "memory_mb": 300, "disk_mb": 1100, "inodes": 9000,
          "file_size_mb": 200, "open_files": 500, "pids": 100, "max_output_bytes": 1_000_000}


class Limits(unittest.TestCase):
    """The highest limits that a request may name."""

    @classmethod
    def setUpClass(cls):
        config = "limits:\n" + "".join(f"  {name}: {value}\n" for name, value in LIMITS.items())
        cls.server = cls.enterClassContext(harness.Server(config))

    def test_limits(self):
        for name, most in LIMITS.items():
            with self.subTest(name):
                answer = self.server.submit("1", wait=0, **{name: most + 1})
                self.assertEqual((answer.status, answer.json()["error"]["details"]["field"]), (422, name), answer.body)
                self.assertIn(str(most), answer.json()["error"]["message"])
                self.assertLess(self.server.submit("1", wait=0, **{name: most}).status, 300)


if __name__ == "__main__":
    unittest.main()
