# SPDX-License-Identifier: Apache-2.0
"""Authority ends: a key's streams and calls end with the key, as docs/IDENTITY.md says, or go on in its successor."""

import json
import time
import unittest

import api_case
import harness
import mcp_client
from api_case import DOCUMENT
from held import TCP, WEBSOCKET, Held
from session_case import Session
from test_mcp_servers import program

SECONDS = 1  # docs/IDENTITY.md: everything ends within
LARGE = 24 << 20  # more than the connection's buffers hold
HOURS = {"timeout_seconds": 3600}

# Each route of the API is in one of these lists. A new route fails test_every_route_is_decided until added to a list.
# Lasting or waiting answers: each is begun here, and seen to end. The value is the method of Everything that begins the
# answer.
GOES_ON = {
    ("POST", "/v1/executions"): "waited_run",
    ("GET", "/v1/executions/{id}/events"): "run_events",
    ("POST", "/v1/sessions/{id}/exec"): "waited_programs",
    ("GET", "/v1/sessions/{id}/events"): "session_events",
    ("GET", "/v1/sessions/{id}/files:watch"): "watch",
    ("GET", "/v1/sessions/{id}/ports/{port}"): "tcp",
    **{(method, "/v1/sessions/{id}/ports/{port}/{rest}"): "ports"
       for method in ("GET", "PUT", "POST", "PATCH", "DELETE", "HEAD", "OPTIONS")},
    ("PUT", "/v1/sessions/{id}/files/{path}"): "uploads",
    ("PUT", "/v1/sessions/{id}/archive"): "uploads",
    ("POST", "/v1/artifacts"): "uploads",
    ("GET", "/v1/artifacts/{id}/content"): "downloads",
    ("GET", "/v1/sessions/{id}/files/{path}"): "downloads",
    ("GET", "/v1/sessions/{id}/archive"): "downloads",
    ("POST", "/v1/tool-calls"): "tool_call",
    ("POST", "/mcp"): "mcp",
    ("GET", "/mcp"): "mcp",
}
# Answers at once, with effects that outlast the answer: see the named test.
BEGINS = {
    ("POST", "/v1/sessions"): "test_programs_and_sessions_finish",
    ("POST", "/v1/sessions/{id}/ports/{port}/tokens"): "test_links_end",
    ("GET", "/v1/artifacts/{id}/url"): "test_links_end",
    ("POST", "/v1/mcp-servers"): "test_a_hosted_server",
    ("POST", "/v1/keys"): "test_a_key_that_it_made_is_its_own",
    ("POST", "/v1/keys/{id}:rotate"): "test_rotation_ends_nothing",
}
# End with their answer. Their results are the tenant's: records, files, settings, votes (tests of ESCALATIONS.md).
ENDS_WITH_ITS_ANSWER = """
GET /.well-known/oauth-protected-resource          GET /.well-known/oauth-protected-resource/mcp
GET /  GET /ui  GET /ui/{rest}  GET /ui/config  GET /ui/login  GET /ui/callback  POST /ui/session  GET /ui/session  DELETE /ui/session
GET /healthz  GET /metrics  GET /openapi.yaml  GET /readyz  DELETE /mcp  GET /v1/whoami  GET /v1/node  GET /v1/pool
GET /v1/doctor  POST /v1/agents/{agent}/sandbox:dry-run  GET /v1/audit/roots  GET /v1/audit/entries/{id}/proof
GET /v1/images  GET /v1/languages  GET /v1/capabilities  POST /v1/commands:explain
GET /v1/executions  GET /v1/executions/{id}  DELETE /v1/executions/{id}  GET /v1/executions/{id}/logs
GET /v1/executions/{id}/receipt  GET /v1/executions/{id}/request  POST /v1/executions/{id}/input  POST /v1/executions/{id}:resize
POST /v1/executions/{id}:signal  GET /v1/tool-calls/{id}
GET /v1/sessions  GET /v1/sessions/{id}  DELETE /v1/sessions/{id}  POST /v1/sessions/{id}/renew  POST /v1/sessions/{id}:move
GET /v1/sessions/{id}/kernels  POST /v1/sessions/{id}/kernels/{name}:restart
GET /v1/sessions/{id}/files  DELETE /v1/sessions/{id}/files/{path}  POST /v1/sessions/{id}/files:mkdir
POST /v1/sessions/{id}/files:move  GET /v1/sessions/{id}/memory  GET /v1/sessions/{id}/memory/{key}
PUT /v1/sessions/{id}/memory/{key}  DELETE /v1/sessions/{id}/memory/{key}  POST /v1/sessions/{id}/snapshots
GET /v1/snapshots  GET /v1/snapshots/{id}  DELETE /v1/snapshots/{id}
GET /v1/artifacts  GET /v1/artifacts/{id}  DELETE /v1/artifacts/{id}  DELETE /v1/tenants/{id}/artifacts
GET /v1/uploads  GET /v1/uploads/{upload}  DELETE /v1/uploads/{upload}
POST /v1/escalations  GET /v1/escalations  GET /v1/escalations/{id}  POST /v1/escalations/{id}:approve
POST /v1/escalations/{id}:deny  GET /v1/escalations/{id}/request  GET /v1/agents/{agent}/escalation-policy  PUT /v1/agents/{agent}/escalation-policy
GET /v1/keys  GET /v1/keys/{id}  DELETE /v1/keys/{id}
GET /v1/audit  GET /v1/audit/export  GET /v1/audit/public-key  GET /v1/audit/verify  POST /v1/audit/{position}:redact
GET /v1/sign-ins  DELETE /v1/sign-ins/{id}  GET /v1/deps  GET /v1/deps/{id}  POST /v1/deps:prune  GET /v1/executions/{id}/sbom
GET /v1/secrets  PUT /v1/secrets/{name}  DELETE /v1/secrets/{name}
GET /v1/quotas  PUT /v1/quotas/agents/{agent}  PUT /v1/quotas/tenants/{tenant}
GET /v1/agents  GET /v1/agents:health  DELETE /v1/agents/{agent}/sandbox  GET /v1/agents/{agent}/sandbox
POST /v1/agents/{agent}/sandbox  GET /v1/agents/{agent}/sandbox/audit  GET /v1/agents/{agent}/sandbox/stats
GET /v1/agents/{agent}/sandbox/usage  GET /v1/agents/{agent}/sandbox/violations
GET /v1/mcp-servers  DELETE /v1/mcp-servers/{name}
GET /v1/agents/{agent}/runtime  PUT /v1/agents/{agent}/runtime  DELETE /v1/agents/{agent}/runtime
POST /v1/agents/{agent}/sandbox:update  POST /v1/agents/{agent}/sandbox:validate
GET /v1/policies  POST /v1/policies  GET /v1/policies/{version}  POST /v1/policies:check  POST /v1/policies:diff
POST /v1/policies:explain  POST /v1/policies:rollback  POST /v1/policies:test  POST /v1/egress:explain
"""

# Each connection is answered at once, and then goes on: a WebSocket for /ws, a body without end for others.
SERVER = r'''
import base64, hashlib, socket, threading, time
listener = socket.create_server(("127.0.0.1", 8000), backlog=64)
print("ready", flush=True)
def serve(s):
    data = s.recv(65536)
    while data[:4] != b"raw " and b"\r\n\r\n" not in data: data += s.recv(65536)
    if data[:4] == b"raw ": s.sendall(b"echo")
    elif data.startswith(b"GET /ws "):
        key = [l.split(b": ", 1)[1] for l in data.split(b"\r\n") if l.lower().startswith(b"sec-websocket-key")][0]
        accept = base64.b64encode(hashlib.sha1(key + b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11").digest())
        s.sendall(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
                  b"Sec-WebSocket-Accept: " + accept + b"\r\n\r\n\x81\x05hello")
    elif not data.startswith(b"HEAD "):
        s.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\nhello")
    while s.recv(65536): pass
while True:
    s, _ = listener.accept()
    threading.Thread(target=serve, args=(s,), daemon=True).start()
'''


class Everything:
    """All that a key can begin. `held` are the connections, `runs` the programs without a connection, `calls` the
    calls of MCP, which end with the key."""

    def __init__(self, server, key):
        self.server, self.key, self.held, self.runs, self.calls = server, key, [], {}, {}
        self.session = Session(server, key=key, language="python", memory_mb=768)
        self.pending = []

    def begin(self):
        serving = self.session.start(SERVER, **HOURS)
        self.session.wait_output(serving, "ready")
        self.runs["server"] = serving
        for opener in sorted({*GOES_ON.values()}):
            getattr(self, opener)()
        self.terminal()
        return self

    def call(self, method, path, body=None, status=None):
        return self.session.call(method, path, body, status=status)

    def open(self, method, path, **how):
        how.setdefault("key", self.key)
        target = path if path.startswith(("/v1/", "/mcp")) else self.session.path + path
        self.held.append(Held(self.server, method, target, **how))
        return self.held[-1]

    def post(self, path, body, **how):
        return self.open("POST", path, body=json.dumps(body).encode(), until=b"", **how,
                         headers={"Content-Type": "application/json"})

    def wait_running(self, **query):
        """The only program that waits for nothing but its end, and is not known yet."""
        def found():
            for each in self.call("GET", "/v1/executions?status=running", status=200).json()["executions"]:
                if each["id"] not in (*self.runs.values(), *self.calls.values()):
                    return each["id"]
        return harness.wait_for("the program to run", found)

    def waited_run(self):
        self.post("/v1/executions?wait=300", {"language": "bash", "code": "sleep 3600", **HOURS})
        self.runs["run"] = self.wait_running()

    def run_events(self):
        run = self.call("POST", "/v1/executions", {"language": "bash", "code": "sleep 3600", **HOURS}, 201).json()["id"]
        self.runs["followed"] = run
        self.events = self.open("GET", f"/v1/executions/{run}/events", until=b"event: ")
        self.open("GET", f"/v1/executions/{run}/events", headers=WEBSOCKET, until=b'"status"').websocket = True

    def waited_programs(self):
        self.post("/exec?wait=300", {"code": "import time; time.sleep(3600)", "kernel": "none", **HOURS})
        self.runs["program"] = self.wait_running()
        self.post("/exec?wait=300", {"code": "import time; time.sleep(3600)", **HOURS})
        self.runs["cell"] = self.wait_running()

    def terminal(self):
        made = self.session.post(command=["cat"], background=True, tty={"cols": 80, "rows": 24}, **HOURS)
        self.tty = made.json()["id"]
        self.open("GET", f"/v1/executions/{self.tty}/events", headers=WEBSOCKET, until=b'"status"').websocket = True

    def session_events(self):
        self.open("GET", "/events", until=b"event: ")

    def watch(self):
        self.open("GET", "/files:watch", until=b"\n\n")

    def tcp(self):
        held = self.open("GET", "/ports/8000", headers=TCP)
        held.socket.sendall(b"raw ")
        while b"echo" not in held.data:
            held.more()

    def ports(self):
        for method in ("GET", "DELETE", "OPTIONS"):
            self.open(method, "/ports/8000/x", until=b"hello")
        for method in ("PUT", "POST", "PATCH"):
            self.open(method, "/ports/8000/x", body=b"half", length=1000, until=b"hello")
        self.open("HEAD", "/ports/8000/x", until=b"")
        self.open("GET", "/ports/8000/ws", headers=WEBSOCKET, until=b"hello")
        self.link = self.call("POST", "/ports/8000/tokens", {}, 201).json()["url"]
        self.open("GET", self.link + "x", key=None, until=b"hello")
        self.open("GET", self.link + "ws", key=None, headers=WEBSOCKET, until=b"hello")

    def uploads(self):
        for method, path in (("PUT", "/files/half"), ("PUT", "/archive"), ("POST", "/v1/artifacts?path=half")):
            self.open(method, path, body=b"half", length=LARGE, until=b"")

    def downloads(self):
        made = self.call("POST", "/v1/artifacts?path=large", b"x" * LARGE, 201).json()
        self.call("PUT", "/files/large", b"x" * LARGE, 200)
        self.url = self.call("GET", f"/v1/artifacts/{made['id']}/url", status=200).json()["url"]
        for path, key in ((f"/v1/artifacts/{made['id']}/content", self.key), (self.url, None), ("/files/large", self.key),
                          ("/archive", self.key)):
            self.open("GET", path, key=key).cut_short = True

    def tool_call(self):
        self.post("/v1/tool-calls?wait=300", {"tool_id": "shell.execute",
                                              "arguments": {"command": "sleep 3600", "timeout_seconds": 300}})
        self.runs["tool"] = self.wait_running()

    def mcp(self):
        client = mcp_client.Http(self.server, "modern", key=self.key)
        self.pending.append(client.start("subscriptions/listen", {"notifications": {"toolsListChanged": True}}))
        assert self.pending[0].next()["method"] == "notifications/subscriptions/acknowledged"
        legacy = mcp_client.Http(self.server, "legacy", key=self.key)
        legacy.__enter__()
        self.open("GET", "/mcp", headers={"Accept": "text/event-stream", "Mcp-Session-Id": legacy.session,
                                          "MCP-Protocol-Version": legacy.version})
        for era, calling in (("modern", client), ("legacy", legacy)):
            # With progress the call waits to the end.
            self.pending.append(calling.start_tool("run", {"command": "sleep 3600", **HOURS}, token=era))
            self.calls[era] = self.wait_running()

    def seen_to_end(self, test, since):
        """Each connection ends within the bound, with the reason."""
        deadline = since + SECONDS * harness.PATIENCE
        for held in self.held:
            with test.subTest(held.name):
                held.ends_by(deadline)
                if getattr(held, "websocket", False):
                    test.assertIn(b"\x03\xf0the credential is expired or revoked", held.data)
                if getattr(held, "cut_short", False):
                    test.assertLess(len(held.data), LARGE)
                test.assertFalse(held.data.endswith(b"0\r\n\r\n"), "cut off, and not complete")
        for pending in self.pending:
            with test.subTest(pending.method):
                while (told := pending.next(max(0.1, deadline - time.monotonic()))) is not None:
                    if "method" not in told:  # not an earlier notification: with `end`, the answer may name the reason
                        test.assertRegex(str(told), "the credential (that began it|is missing, unknown, expired or revoked)")
        for era, run in self.calls.items():
            with test.subTest(f"an MCP call, {era}"):
                test.assertTrue(self.server.wait_end(run, SECONDS)["error"])

    def close(self):
        for held in self.held:
            held.close()
        self.session.key = None  # the administrator's
        for run in [*self.runs.values(), *self.calls.values(), self.tty]:
            self.call("DELETE", f"/v1/executions/{run}")
        self.call("DELETE", "")


class Revocation(api_case.ApiTest):
    config = ""

    @classmethod
    def setUpClass(cls):
        cls.server = cls.enterClassContext(harness.Server(config=api_case.CONFIG + cls.config))

    def everything(self):
        self.made = self.new_key(self.id().rsplit(".", 1)[-1], roles=["agent"])  # a tenant of the test's own
        everything = Everything(self.server, self.made["secret"]).begin()
        self.addCleanup(everything.close)
        self.assertEqual([held.name for held in everything.held if not held.goes_on()], [])
        return everything

    def hosted(self):
        """The key that has a hosted server, and its session as the administrator sees it."""
        made = self.new_key("hosting", roles=["agent"])
        server = {"name": "kept", "command": program("say(id=ident, result=text(state))")}
        answer = self.call("POST", "/v1/mcp-servers", server, key=made["secret"], status=201).json()
        self.assertEqual((answer["status"], answer["error"]), ("running", None))
        [session] = self.call("GET", "/v1/sessions?status=running", key=made["secret"], status=200).json()["sessions"]
        return made["id"], session["id"]

    def revoke(self, key):
        self.call("DELETE", f"/v1/keys/{key}", status=204)
        return time.monotonic()

    def status(self, run):
        return self.server.get(run)["status"]

    def assertNamed(self, error, key):
        self.assertEqual((error["type"], error["details"].get("reason")), ("PERMISSION_DENIED", "credential_revoked"))
        self.assertEqual(error["details"].get("credential"), key)
        self.assertIn(key, error["message"])


class Finish(Revocation):
    """The default."""

    def test_every_route_is_decided(self):
        answers = set(zip(ENDS_WITH_ITS_ANSWER.split()[::2], ENDS_WITH_ITS_ANSWER.split()[1::2]))
        decided = [*GOES_ON, *BEGINS, *answers]
        self.assertEqual(len(decided), len(set(decided)), "a route is decided once")
        self.assertEqual(set(decided), DOCUMENT.operations())
        for begins in (*GOES_ON.values(), *BEGINS.values()):
            self.assertTrue(hasattr(Everything, begins) or hasattr(self, begins), begins)
        # And routes with a stream, by the document, are in GOES_ON.
        for method, template in DOCUMENT.operations():
            operation = DOCUMENT.root["paths"][template][method.lower()]
            kinds = {kind for answer in operation["responses"].values()
                     for kind in DOCUMENT.resolve(answer).get("content", {})}
            if "text/event-stream" in kinds:
                self.assertIn((method, template), GOES_ON)

    def test_programs_and_sessions_finish(self):
        everything = self.everything()
        everything.seen_to_end(self, self.revoke(self.made["id"]))
        ended = self.server.wait_end(everything.tty, SECONDS)
        self.assertEqual(ended["status"], "failed")
        self.assertNamed(ended["error"], self.made["id"])
        self.assertEqual({name: self.status(run) for name, run in everything.runs.items()},
                         dict.fromkeys(everything.runs, "running"))
        self.assertEqual({era: self.status(run) for era, run in everything.calls.items()},
                         dict.fromkeys(everything.calls, "cancelled"))
        everything.session.key = None
        self.assertEqual(everything.session.show()["status"], "running")

    def test_a_hosted_server(self):
        key, session = self.hosted()
        self.revoke(key)
        self.assertEqual(self.call("GET", f"/v1/sessions/{session}").json()["status"], "running")
        self.call("DELETE", f"/v1/sessions/{session}")

    def test_links_end(self):
        made = self.new_key("acme", roles=["agent"])
        other = self.new_key("acme", roles=["agent"])
        with Session(self.server, key=made["secret"], language="python") as session:
            serving = session.start(SERVER, **HOURS)
            session.wait_output(serving, "ready")
            link = session.call("POST", "/ports/8000/tokens", {}, status=201).json()["url"]
            artifact = session.call("POST", "/v1/artifacts?path=a", b"x", status=201).json()["id"]
            url = session.call("GET", f"/v1/artifacts/{artifact}/url", status=200).json()["url"]
            self.assertIn(made["id"], link)
            self.assertIn(f"credential={made['id']}&", url)

            def answers():
                held = Held(self.server, "GET", link + "x")
                held.close()
                return int(held.data.split()[1]), self.server.request("GET", url, key=False).status

            self.assertEqual(answers(), (200, 200))
            next_key = self.call("POST", f"/v1/keys/{made['id']}:rotate", {"overlap_seconds": 0}, status=201).json()
            self.assertEqual(answers(), (200, 200), "the successor is as good")
            for changed in (link.replace(made["id"], other["id"]), link.replace(made["id"], "")):
                self.assertEqual(self.server.request("GET", changed, key=False).status, 404)
            for changed in (url.replace(made["id"], other["id"]), url.replace(f"credential={made['id']}&", "")):
                self.assertEqual(self.server.request("GET", changed, key=False).status, 401)
            self.revoke(next_key["id"])
            self.assertEqual(answers(), (401, 401))
            session.key = other["secret"]
            session.cancel(serving)

    def test_rotation_ends_nothing(self):
        everything = self.everything()
        successor = self.call("POST", f"/v1/keys/{self.made['id']}:rotate", {"overlap_seconds": 0}, status=201).json()
        refused = self.server.request("GET", "/v1/whoami", key=self.made["secret"])
        self.assertEqual(refused.status, 401, "the old one itself has ended")
        everything.events.wait_events(3)  # by heartbeats of a second: each look has passed
        self.assertEqual([held.name for held in everything.held if not held.goes_on()], [])
        self.assertEqual({self.status(run) for run in (everything.tty, *everything.calls.values())}, {"running"})
        everything.seen_to_end(self, self.revoke(successor["id"]))
        self.assertNamed(self.server.wait_end(everything.tty, SECONDS)["error"], self.made["id"])

    def test_at_the_end_of_a_key(self):
        made = self.new_key("acme", roles=["agent"], expires_in_seconds=2)
        run = self.call("POST", "/v1/executions", {"language": "bash", "code": "sleep 60"}, key=made["secret"],
                        status=201).json()
        held = Held(self.server, "GET", f"/v1/executions/{run['id']}/events", made["secret"], until=b"event: ")
        held.ends_by(time.monotonic() + (2 + SECONDS) * harness.PATIENCE)
        self.assertEqual(self.status(run["id"]), "running")
        self.cancel(run)

    def test_whoever_revokes_its_own_key_is_answered(self):
        made = self.new_key("acme", roles=["tenant-admin"])
        self.call("DELETE", f"/v1/keys/{made['id']}", key=made["secret"], status=204)
        self.assertEqual(self.server.request("GET", "/v1/whoami", key=made["secret"]).status, 401)

    def test_a_key_that_it_made_is_its_own(self):
        maker = self.new_key("acme", roles=["tenant-admin"])
        made = self.call("POST", "/v1/keys", {"roles": ["viewer"]}, key=maker["secret"], status=201).json()
        self.revoke(maker["id"])
        self.assertEqual(self.server.request("GET", "/v1/whoami", key=made["secret"]).status, 200)


class End(Revocation):
    """`auth.on_revoke: end`."""

    config = "auth:\n  on_revoke: end\n"

    def test_a_hosted_server(self):
        key, session = self.hosted()
        self.revoke(key)
        ended = harness.wait_for("its session's end", lambda: self.call("GET", f"/v1/sessions/{session}").json()["end_reason"])
        self.assertNamed(ended, key)

    def test_all_ends_and_says_by_what(self):
        everything = self.everything()
        everything.seen_to_end(self, self.revoke(self.made["id"]))
        for name, run in [*everything.runs.items(), ("terminal", everything.tty)]:
            with self.subTest(name):
                ended = self.server.wait_end(run, 10)
                self.assertEqual((ended["status"], ended["error"]["type"]), ("failed", "PERMISSION_DENIED"), ended)
                self.assertEqual(ended["error"]["details"]["reason"], "credential_revoked")
        everything.session.key = None
        ended = everything.session.wait_ended()
        self.assertNamed(ended["end_reason"], self.made["id"])


if __name__ == "__main__":
    unittest.main()
