# SPDX-License-Identifier: Apache-2.0
"""The Open Policy Agent as the deciding engine: the same suite for OPA and for the embedded engine, the same
decisions on 200 recorded requests, and no run at all after a failure. `./dev test opa` builds a real OPA."""

import collections
import http.server
import json
import os
import pathlib
import subprocess
import tempfile
import threading
import time
import unittest

import harness
import hooks
from api_case import ApiTest
from session_case import Session

REPO = pathlib.Path(__file__).resolve().parents[2]
OPA = pathlib.Path(os.environ.get("CLOISTER_OPA", REPO / "build" / "opa" / "opa"))
needs_opa = unittest.skipUnless(OPA.exists(), f"no {OPA}: ./dev test opa builds the real one")
RICH = (REPO / "tests" / "data" / "policy_rich.yaml").read_text()
RECORDED = [json.loads(line) for line in (REPO / "tests" / "data" / "policy_requests.jsonl").read_text().splitlines()]
COMPARED = ("decision", "rule", "tier", "runtime", "network", "reason", "remedy", "image", "approval", "limits")

RULES = """version: 2
tiers:
  Assisted: {runtime: process}
rules:
  - {name: no-node, why: no JavaScript here, remedy: send Python, effect: deny, match: {languages: [node]}}
  - {name: ask, why: somebody must look, effect: approve, tier: Auto, match: {tool_types: [custom]}}
  - {name: small, why: it is small, effect: allow, max: {memory_mb: 128}, match: {tool_types: [small]}}
  - {name: strong, why: no wall is so strong, effect: allow, runtime: microvm, match: {tool_types: [strong]}}
  - {name: rest, why: the rest, effect: allow, tier: Assisted, match: {languages: [python, bash, command]}}
"""


class Opa:
    """A real OPA, with our Rego; its decision log is its stderr."""

    def __init__(self):
        self.port = harness.free_port()
        self.log = tempfile.NamedTemporaryFile(prefix="cloister-test-opa.", mode="w+")
        self.process = None

    @property
    def url(self):
        return f"http://127.0.0.1:{self.port}"

    def start(self):
        self.process = subprocess.Popen(
            [str(OPA), "run", "--server", "--addr", f"127.0.0.1:{self.port}", "--disable-telemetry",
             "--log-format", "json", "--set", "decision_logs.console=true",
             str(REPO / "policies" / "opa" / "cloister.rego")],
            stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log, cwd="/")
        harness.wait_for("OPA", self.answers, 60)

    def answers(self):
        if self.process.poll() is not None:
            raise AssertionError(f"OPA ended: {pathlib.Path(self.log.name).read_text()[-2000:]}")
        try:
            return self.request("GET", "/health").status == 200
        except OSError:
            return False

    def request(self, method, path, body=None):
        return harness.http_request("127.0.0.1", self.port, method, path, body)

    def stop(self):
        if self.process is not None:
            self.process.terminate()
            self.process.wait(20)
        self.process = None

    def load(self, server):
        """Loads the policy in force, so that OPA decides by it too."""
        exported = server.cli("policy", "export")
        assert exported.returncode == 0, exported.stderr
        put = self.request("PUT", "/v1/data/cloister/policy", json.loads(exported.stdout))
        assert put.status == 204, put.body

    def decisions(self):
        """The decisions in its log, by their id."""
        found = {}
        for line in pathlib.Path(self.log.name).read_text().splitlines():
            row = json.loads(line) if line.startswith("{") else {}
            if "decision_id" in row:
                found[row["decision_id"]] = row
        return found


def config_of(url, more=""):
    return f"http:\n  heartbeat_seconds: 1\npolicies:\n  engine: opa\n  opa: {{url: '{url}', timeout_ms: 10000{more}}}\n"


class Suite:
    """Tests for either engine."""

    def apply(self, document):
        self.call("POST", "/v1/policies", {"document": document, "name": "suite"}, status=201)

    def setUp(self):
        self.apply(RULES)

    def error_of(self, status=200, **request):
        done = self.run_code("print(1)", status=status, **request)
        self.assertEqual(done["status"], "denied", done)
        return done["error"]

    def test_allowed(self):
        done = self.run_code("print(6 * 7)")
        self.assertEqual((done["status"], done["stdout"]), ("completed", "42\n"))
        self.assertEqual(done["provenance"]["runtime"], "process")

    def test_denied_with_the_rule_and_what_to_do(self):
        error = self.error_of(language="node")
        self.assertEqual((error["type"], error["details"]["rule"]), ("PERMISSION_DENIED", "no-node"))
        self.assertIn("no JavaScript here; send Python", error["message"])
        self.assertFalse(error["retryable"])

    def test_no_rule_is_no(self):
        error = self.error_of(language="typescript")
        self.assertIn("allows this run", error["message"])
        self.assertNotIn("rule", error["details"])

    def test_limits_are_not_clamped(self):
        small = {"metadata": {"tool_type": "small"}}
        self.assertEqual(self.run_code("print(1)", memory_mb=128, **small)["status"], "completed")
        error = self.error_of(memory_mb=129, **small)
        self.assertIn("is more than this rule allows", error["message"])

    def test_no_runtime_that_is_not_there(self):
        error = self.error_of(metadata={"tool_type": "strong"})
        self.assertIn("microvm", error["message"])
        self.assertEqual(error["details"]["rule"], "strong")

    def test_no_tier_or_runtime_below(self):
        told = self.call("POST", "/v1/policies:explain",
                         {"request": {"language": "python", "code": "1", "tier": "ManualOnly"},
                          "runtimes": ["process", "gvisor", "microvm"]}, status=200).json()
        self.assertEqual((told["decision"], told["tier"], told["runtime"]), ("approve", "ManualOnly", "microvm"))
        self.assertEqual(told["engine"], self.engine)

    def test_an_approval_is_waited_for(self):
        blocked = self.call("POST", "/v1/executions", {"language": "python", "code": "print(5)",
                                                      "metadata": {"tool_type": "custom"}}, status=201).json()
        self.assertEqual((blocked["status"], blocked["error"]["details"]["rule"]), ("blocked", "ask"))
        key = self.new_key("default", roles=["approver"], user="bob")["secret"]
        escalation = blocked["error"]["details"]["escalation_id"]
        self.call("POST", f"/v1/escalations/{escalation}:approve", {"reason": "fine"}, key=key, status=200)
        done = self.server.wait_end(blocked["id"])
        self.assertEqual((done["status"], done["stdout"]), ("completed", "5\n"))

    def test_sessions_with_files_and_a_kernel(self):
        with Session(self.server, language="python") as session:
            done = session.exec("a = 20; open('x', 'w').write('hello')", kernel=None)
            self.assertEqual(done["status"], "completed", done)
            self.assertEqual(session.exec("print(a + 1)", kernel=None)["stdout"], "21\n")
            self.assertEqual(session.exec("print(7)")["stdout"], "7\n")
            self.assertEqual(session.call("GET", "/files/x", status=200).text, "hello")
        refused = self.call("POST", "/v1/sessions", {"language": "node"})
        self.assertEqual(refused.status, 403, refused.body)
        self.assertIn("no JavaScript here", refused.text)


class Embedded(Suite, ApiTest):
    engine = "embedded"

    @classmethod
    def setUpClass(cls):
        cls.server = harness.Server(config="http:\n  heartbeat_seconds: 1\n")
        cls.enterClassContext(cls.server)


class OpaCase(ApiTest):
    engine = "opa"

    @classmethod
    def setUpClass(cls):
        cls.opa = Opa()
        cls.addClassCleanup(cls.opa.log.close)
        cls.addClassCleanup(cls.opa.stop)
        cls.opa.start()
        cls.server = harness.Server(config=config_of(cls.opa.url))
        cls.enterClassContext(cls.server)


@needs_opa
class ByOpa(Suite, OpaCase):
    def apply(self, document):
        super().apply(document)
        self.opa.load(self.server)

    def test_the_decision_is_in_both_records(self):
        done = self.run_code("print(1)")
        exported = json.loads(self.server.cli("policy", "export").stdout)
        self.assertEqual(done["provenance"]["policy_id"], f"opa@{exported['revision']}")
        rows = self.server.request("GET", "/v1/audit?limit=1000").json()["entries"]
        rows = {row["action"]: row["details"] for row in rows if row["subject"] == done["id"]}
        for action in ("execution.accepted", "execution.started"):
            decision = rows[action]["decision"]
            self.assertEqual(decision["engine"], "opa")
            self.assertRegex(decision["input_sha256"], "^[0-9a-f]{64}$")
        self.assertEqual(rows["execution.accepted"]["rule"], "rest")
        wanted = rows["execution.accepted"]["decision"]["decision_id"]
        row = harness.wait_for("the decision in OPA's log", lambda: self.opa.decisions().get(wanted))
        self.assertEqual(row["result"]["rule"], "rest")
        self.assertEqual(row["input"]["principal"]["tenant"], "default")
        self.assertIn(wanted, pathlib.Path(self.server.log).read_text())

    def test_without_it_nothing_runs(self):
        self.opa.stop()
        try:
            error = self.error_of()
            self.assertEqual(error["type"], "PERMISSION_DENIED")
            self.assertEqual((error["details"]["reason"], error["retryable"]), ("policy_unavailable", True))
            self.assertIn("policies.opa.url", error["message"])
            self.assertEqual(self.call("POST", "/v1/sessions", {"language": "python"}).status, 403)
        finally:
            self.opa.start()
            self.opa.load(self.server)
        self.assertEqual(self.run_code("print(1)")["status"], "completed")

    def test_without_a_document_nothing_runs(self):
        self.assertEqual(self.opa.request("DELETE", "/v1/data/cloister/policy").status, 204)
        error = self.error_of()
        self.assertEqual(error["details"]["reason"], "policy_unavailable")
        self.assertIn("the decision is undefined", error["message"])


@needs_opa
class SameDecisions(OpaCase):
    def test_on_the_recorded_requests(self):
        """Each request by both engines: the decision, and all its details."""
        ours = self.enterContext(harness.Server())
        answer = ours.request("POST", "/v1/policies", {"document": RICH, "name": "rich"})
        self.assertEqual(answer.status, 201, answer.body)
        self.opa.load(ours)
        self.assertEqual(len(RECORDED), 200)
        seen = {name: collections.Counter() for name in ("decision", "rule", "tier", "runtime")}
        for number, case in enumerate(RECORDED):
            with self.subTest(number=number, case=case):
                mine, theirs = (server.request("POST", "/v1/policies:explain", case) for server in (ours, self.server))
                self.assertEqual((mine.status, theirs.status), (200, 200), mine.body + theirs.body)
                mine, theirs = mine.json(), theirs.json()
                self.assertEqual((mine["engine"], theirs["engine"]), ("embedded", "opa"))
                self.assertTrue(theirs["decision_id"])
                self.assertEqual({name: theirs[name] for name in COMPARED}, {name: mine[name] for name in COMPARED})
                self.assertEqual(theirs["risk"]["score"], mine["risk"]["score"])
                for name, counter in seen.items():
                    counter[mine[name]] += 1
        # The requests are diverse: each kind of decision, tier and rule is among them.
        self.assertGreater(min(seen["decision"][name] for name in ("allow", "deny", "approve")), 15, seen)
        self.assertEqual(set(seen["tier"]) - {None}, {"Auto", "Assisted", "HumanApprove", "ManualOnly"})
        self.assertEqual(set(seen["runtime"]) - {None}, {"process", "gvisor", "microvm"})
        self.assertGreaterEqual(len(seen["rule"]), 11, seen["rule"])


class Wrong(http.server.BaseHTTPRequestHandler):
    """Servers other than OPA that answer."""

    answer = (200, b"{}")
    pause = 0
    authorization = None

    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        type(self).authorization = self.headers["Authorization"]
        time.sleep(self.pause)
        status, body = self.answer
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args):
        pass


class WrongCase(ApiTest):
    more = ""

    @classmethod
    def setUpClass(cls):
        wrong = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Wrong)
        cls.addClassCleanup(wrong.server_close)
        cls.addClassCleanup(wrong.shutdown)
        threading.Thread(target=wrong.serve_forever, daemon=True).start()
        cls.server = harness.Server(config=config_of(f"http://127.0.0.1:{wrong.server_port}", cls.more))
        cls.enterClassContext(cls.server)


class Settings(WrongCase):
    """Each setting by its effect."""

    @classmethod
    def setUpClass(cls):
        token = cls.enterClassContext(tempfile.NamedTemporaryFile("w", prefix="cloister-token."))
        token.write("token-of-the-service\n")
        token.flush()
        os.chmod(token.name, 0o644)
        cls.more = f", answer_bytes: 1024, token_file: {token.name}"
        super().setUpClass()

    def reason(self, length, pause=0):
        said = {"version": 1, "outcome": "deny", "reason": "x" * length, "rule": "all"}
        Wrong.answer, Wrong.pause = (200, json.dumps({"result": said}).encode()), pause
        self.addCleanup(setattr, Wrong, "pause", 0)
        return self.run_code("print(1)")["error"]["details"].get("reason")

    def test_answer_bytes(self):
        self.assertNotEqual(self.reason(500), "policy_unavailable")
        self.assertEqual(self.reason(1200), "policy_unavailable")

    def test_timeout(self):
        self.assertNotEqual(self.reason(5, pause=1), "policy_unavailable", "the default waits for a quarter of that")

    def test_token(self):
        self.reason(5)
        self.assertEqual(Wrong.authorization, "Bearer token-of-the-service")


class Verified(ApiTest):
    def test_by_an_authority_of_its_own(self):
        certificate = hooks.Certificate()
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Wrong)
        server.socket = certificate.context.wrap_socket(server.socket, server_side=True)
        self.addCleanup(server.server_close)
        self.addCleanup(server.shutdown)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        config = config_of(f"https://127.0.0.1:{server.server_port}", f", ca_file: {certificate.ca}")
        type(self).server = self.enterContext(harness.Server(config))
        Wrong.answer = (200, json.dumps({"result": {"version": 1, "outcome": "deny", "reason": "seen", "rule": "all"}}).encode())
        self.assertIn("seen", self.run_code("print(1)")["error"]["message"])


class FailClosed(WrongCase):
    """Without a real OPA: a failure denies, in the record too."""

    def test_denied_and_recorded(self):
        for answer, why in (((200, b"{}"), "undefined"), ((200, b"[1"), "OPA's answer"), ((500, b"{}"), "500"),
                            ((200, b'{"result":{"version":1,"outcome":"allow","reason":"x","rule":"y"}}'), "tier"),
                            ((200, b'{"result":{"version":1,"outcome":"deny","reason":"x","more":1}}'), "more")):
            with self.subTest(answer=answer):
                Wrong.answer = answer
                done = self.run_code("print(1)")
                self.assertEqual((done["status"], done["error"]["type"]), ("denied", "PERMISSION_DENIED"))
                self.assertEqual(done["error"]["details"]["reason"], "policy_unavailable")
                self.assertIn(why, done["error"]["message"])
                rows = self.server.request("GET", "/v1/audit?limit=1000").json()["entries"]
                row = [row for row in rows if row["subject"] == done["id"]][0]
                self.assertEqual(row["action"], "execution.denied")
                self.assertIn(why, row["details"]["decision"]["failure"])

    def test_what_is_wrong_in_the_configuration_is_named(self):
        for text, key in (("policies: {engine: rego}", "policies.engine"), ("policies: {engine: opa}", "policies.opa.url"),
                          ("policies: {opa: {url: 'http://127.0.0.1:1'}}", "policies.opa.url"),
                          ("policies: {engine: opa, opa: {url: 'http://example.org'}}", "policies.opa.url")):
            with self.subTest(text=text), tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
                file.write(text + "\n")
                file.flush()
                os.chmod(file.name, 0o644)
                state = self.enterContext(tempfile.TemporaryDirectory(prefix="cloister-test."))
                ended = harness.cli("serve", "--state", state, "--listen", "127.0.0.1:0", "--config", file.name)
                self.assertNotEqual(ended.returncode, 0)
                self.assertIn(key, ended.stderr)


if __name__ == "__main__":
    unittest.main()
