# SPDX-License-Identifier: Apache-2.0
"""Policy documents over HTTP and the command line: applied without a restart, versions, questions, and the
JSON Schema held to the parser. Every answer is held to spec/openapi.yaml."""

import copy
import json
import pathlib
import sqlite3
import tempfile
import unittest

import jsonschema
import yaml

import harness
from api_case import DOCUMENT, ApiTest, start_server

OPEN = "version: 2\nrules:\n  - {name: open, why: for tests, effect: allow, tier: Auto}\n"
CLOSED = "version: 2\nrules:\n  - {name: closed, why: closed now, remedy: wait, effect: deny}\n"
ASK = "version: 2\nrules:\n  - {name: ask, why: somebody must look, effect: approve, tier: Auto}\n"
NO_BASH = """version: 2
rules:
  - {name: no-bash, why: no shells, effect: deny, match: {languages: [bash]}}
  - {name: rest, why: the rest, effect: allow, tier: Auto, match: {network_tiers: [none]}}
"""


def setUpModule():
    start_server()


class PolicyTest(ApiTest):
    def apply(self, document, status=201, **more):
        return self.call("POST", "/v1/policies", {"document": document, **more}, status=status)

    def ask(self, what, status=200, key=None, **body):
        return self.call("POST", f"/v1/policies:{what}", body, key=key, status=status)

    def setUp(self):
        self.apply(OPEN, name="open")


class Versions(PolicyTest):
    def test_applied_at_once(self):
        self.assertEqual(self.run_code("print(1)")["status"], "completed")
        applied = self.apply(CLOSED, name="closed", note="ticket 17")
        version = applied.json()["version"]
        self.assertEqual(applied.headers["location"], f"/v1/policies/{version}")
        denied = self.run_code("print(1)", status=200)
        self.assertEqual(denied["status"], "denied")
        self.assertEqual(denied["error"]["type"], "PERMISSION_DENIED")
        self.assertIn("closed now; wait", denied["error"]["message"])
        self.assertRegex(denied["provenance"]["policy_id"], rf"^closed@v{version}\.sha256:[0-9a-f]{{16}}$")
        shown = self.call("GET", "/v1/policies/current", status=200).json()
        self.assertEqual((shown["document"], shown["note"], shown["in_force"]), (CLOSED, "ticket 17", True))
        self.assertEqual(self.call("GET", f"/v1/policies/{version}", status=200).json()["sha256"], shown["sha256"])
        rows = self.server.request("GET", "/v1/audit?limit=1000").json()["entries"]
        row = [row for row in rows if row["subject"] == f"policy:{version}"][0]
        self.assertEqual((row["action"], row["details"]["sha256"]), ("policy.applied", shown["sha256"]))

    def test_sessions_too(self):
        self.apply(NO_BASH)
        refused = self.call("POST", "/v1/sessions", {"language": "bash"})
        self.assertEqual(refused.status, 403, refused.body)
        self.assertIn("no shells", refused.text)

    def test_what_needs_approval_waits_for_it(self):
        self.apply(ASK)
        blocked = self.server.submit("print(1)", wait=1)
        self.assertEqual(blocked.status, 202)
        blocked = blocked.json()
        self.assertEqual((blocked["status"], blocked["error"]["type"]), ("blocked", "APPROVAL_REQUIRED"))
        self.assertEqual(blocked["error"]["details"]["rule"], "ask")
        self.assertEqual(self.call("DELETE", f"/v1/executions/{blocked['id']}").status, 200)
        session = self.call("POST", "/v1/sessions", {"language": "bash"}, status=202).json()
        self.assertEqual((session["status"], session["error"]["details"]["required_roles"]), ("blocked", ["approver"]))
        self.call("DELETE", f"/v1/sessions/{session['id']}", status=200)

    def test_rollback(self):
        before = self.call("GET", "/v1/policies/current").json()["version"]
        self.apply(CLOSED)
        made = self.ask("rollback", 201, version=before, note="too strict").json()
        self.assertEqual((made["restores"], made["version"]), (before, before + 2))
        self.assertEqual(self.run_code("print(1)")["status"], "completed")
        self.assertProblem(self.ask("rollback", version=10**6, status=404), 404)

    def test_two_at_once(self):
        now = self.call("GET", "/v1/policies/current").json()["version"]
        self.apply(CLOSED, expected_version=now)
        self.assertProblem(self.apply(OPEN, status=409, expected_version=now), 409)

    def test_a_stale_tag_changes_nothing(self):
        current = self.call("GET", "/v1/policies/current", status=200)
        now = current.json()["version"]
        tag = current.headers["etag"]
        self.assertEqual(tag, f'"{now}"')
        self.assertEqual(self.call("GET", f"/v1/policies/{now}").headers["etag"], tag)
        body = {"document": CLOSED, "name": "test"}
        made = self.call("POST", "/v1/policies", body, headers={"If-Match": tag}, status=201)
        self.assertEqual(made.headers["etag"], f'"{now + 1}"')
        for path, other in (("/v1/policies", {"document": OPEN}), ("/v1/policies:rollback", {"version": now})):
            stale = self.call("POST", path, other, headers={"If-Match": tag}, status=412)
            self.assertIn(f"version {now + 1} is in force, not {now}", stale.json()["detail"])
            self.assertIn("read /v1/policies/current", stale.json()["detail"])
            both = self.call("POST", path, {**other, "expected_version": now + 1}, headers={"If-Match": tag})
            self.assertProblem(both, 422, field="expected_version")
            for bad in ("7", '"x"', '"7", "8"', 'W/"7"', '"', '""'):
                self.assertProblem(self.call("POST", path, other, headers={"If-Match": bad}), 400, field="header.if-match")
        self.assertEqual(self.call("GET", "/v1/policies/current").json()["version"], now + 1)
        self.call("POST", "/v1/policies:rollback", {"version": now}, headers={"If-Match": made.headers["etag"]}, status=201)
        self.call("POST", "/v1/policies", {"document": OPEN}, headers={"If-Match": "*"}, status=201)

    def test_pages(self):
        for _ in range(3):
            self.apply(OPEN)
        seen, cursor = [], ""
        while True:
            page = self.call("GET", f"/v1/policies?limit=2{cursor}", status=200).json()
            seen += [item["version"] for item in page["policies"]]
            if page["next_cursor"] is None:
                break
            cursor = "&cursor=" + page["next_cursor"]
        self.assertEqual(seen, sorted(set(seen), reverse=True))
        self.assertEqual(seen[-1], 1)
        for bad in ("0", "x", "99999999999999999999"):
            self.assertEqual(self.server.request("GET", f"/v1/policies/{bad}").status, 404)

    def test_who_may(self):
        roles = {"agent": (403, 403), "viewer": (403, 403), "operator": (200, 403), "approver": (200, 403),
                 "tenant-admin": (200, 403)}
        for role, (read, write) in roles.items():
            key = self.new_key("acme", roles=[role])["secret"]
            with self.subTest(role=role):
                for path in ("/v1/policies", "/v1/policies/current", "/v1/policies/1"):
                    self.call("GET", path, key=key, status=write)
                self.call("POST", "/v1/policies:diff", {"document": OPEN}, key=key, status=write)
                self.call("POST", "/v1/policies:explain", {"request": {"command": "ls"}}, key=key, status=read)
                self.call("POST", "/v1/policies", {"document": OPEN}, key=key, status=write)
                self.call("POST", "/v1/policies:rollback", {"version": 1}, key=key, status=write)
        self.call("GET", "/v1/policies", key=False, status=401)


class OfATenant(PolicyTest):
    """The document is for all tenants: a principal without the right to apply a document learns its decisions for
    its own tenant, and no more."""
    SECRET = """version: 2
rules:
  - {name: for-rival, why: rival pays for bash, effect: allow, tier: Auto, match: {tenants: [rival], languages: [bash]}}
  - {name: no-bash, why: no shells, effect: deny, match: {languages: [bash]}, remedy: send Python}
  - {name: rest, why: the rest, effect: allow, tier: Auto, match: {network_tiers: [none]}}
"""
    CASES = 'version: 1\ncases:\n  - {name: sh, request: {language: bash, code: "1"}, expect: {decision: deny}}\n'
    BASH = {"language": "bash", "code": "ls"}

    def setUp(self):
        self.version = self.apply(self.SECRET).json()["version"]
        self.keys = {role: self.new_key("acme", roles=[role])["secret"] for role in ("operator", "approver", "tenant-admin")}

    def test_what_is_decided_for_it_is_told(self):
        for role, key in self.keys.items():
            with self.subTest(role):
                answer = self.ask("explain", key=key, request=self.BASH)
                told = answer.json()
                self.assertEqual((told["decision"], told["rule"], told["reason"], told["remedy"]),
                                 ("deny", "no-bash", "no shells", "send Python"))
                self.assertEqual([(rule["name"], rule["decides"]) for rule in told["rules"]], [("no-bash", True), ("rest", False)])
                self.assertNotIn("rival", answer.text)

    def test_nothing_of_other_tenants_is_told(self):
        for role, key in self.keys.items():
            with self.subTest(role):
                for what, body in (("explain", {"request": self.BASH, "principal": {"tenant": "rival"}}),
                                   ("explain", {"request": self.BASH, "version": self.version}),
                                   ("explain", {"request": self.BASH, "document": None, "principal": {"tenant": "rival"}}),
                                   ("test", {"cases": self.CASES, "document": None}), ("test", {"cases": self.CASES}), ("test", {"cases": self.CASES, "version": self.version}),
                                   ("diff", {}), ("diff", {"document": OPEN}), ("diff", {"version": 1, "against": self.version})):
                    refused = self.ask(what, None, key, **body)
                    self.assertProblem(refused, 403, "PERMISSION_DENIED")
                    self.assertIn("policy.apply", refused.text)
                    self.assertNotIn("for-rival", refused.text)

    def test_a_document_of_its_own_is_tried(self):
        key = self.keys["operator"]
        self.assertTrue(self.ask("check", key=key, document=NO_BASH).json()["valid"])
        self.assertEqual(self.ask("test", key=key, document=NO_BASH, cases=self.CASES).json()["passed"], 1)
        told = self.ask("explain", key=key, document=self.SECRET, request=self.BASH, principal={"tenant": "rival"}).json()
        self.assertEqual((told["rule"], len(told["rules"])), ("for-rival", 3))

    def test_who_applies_sees_all(self):
        told = self.ask("explain", request=self.BASH, principal={"tenant": "acme"}).json()
        self.assertEqual([rule["name"] for rule in told["rules"]], ["for-rival", "no-bash", "rest"])
        self.assertIn("rival", told["rules"][0]["because"])
        self.assertEqual(self.ask("test", cases=self.CASES).json()["passed"], 1)


class Questions(PolicyTest):
    def test_check(self):
        good = self.ask("check", document=NO_BASH).json()
        self.assertEqual([rule["name"] for rule in good["rules"]], ["no-bash", "rest"])
        bad = self.ask("check", document="version: 2\nrules:\n  - {name: a, effect: deny}\n").json()
        self.assertFalse(bad["valid"])
        self.assertIn("line 3: rules[0].why", bad["error"])

    def test_check_warns(self):
        document = """version: 2
rules:
  - {name: all, why: w, effect: allow, max: {memory_mb: 8}, match: {tenants: ["*"]}}
  - {name: late, why: w, effect: deny, match: {languages: [cobol]}}
"""
        warned = self.ask("check", document=document).json()
        self.assertTrue(warned["valid"])
        for part in ("max.memory_mb", '"late" never decides', '"cobol" is no language'):
            self.assertTrue(any(part in each for each in warned["warnings"]), (part, warned))

    def test_a_change_warns_as_the_check_does(self):
        document = OPEN.replace("rules:\n", "rules:\n  - {name: look, why: w, effect: deny, match: {risk: {at_least: 30}}}\n")
        expected = self.ask("check", document=document).json()["warnings"]
        self.assertEqual(expected, ['rule "look" never decides: no score is more than 0'])
        self.assertEqual(self.apply(document, status=200, dry_run=True).json()["warnings"], expected)
        applied = self.apply(document).json()
        self.assertEqual(applied["warnings"], expected)
        self.assertEqual(self.apply(OPEN).json()["warnings"], [])
        self.assertEqual(self.ask("rollback", 201, version=applied["version"]).json()["warnings"], expected)

    def test_check_reads_levels_too(self):
        levels = (harness.REPO / "policies" / "levels.yaml").read_text()
        checked = self.ask("check", document=levels).json()
        self.assertEqual((checked["valid"], checked["warnings"], len(checked["levels"])), (True, [], 5), checked)
        asks = levels.replace("max_execution_time_minutes: 60", "max_network_requests_per_minute: 5")
        self.assertEqual(self.ask("check", document=asks).json()["warnings"], [], "the level has a network")
        asks = asks.replace("network_access: allowed_with_monitoring", "network_access: denied")
        self.assertIn("max_network_requests_per_minute", self.ask("check", document=asks).json()["warnings"][0])
        misspelt = levels.replace("auto_approve_safe_operations:", "auto_aprove:", 1)
        self.assertIn("escalation_policy.auto_aprove", self.ask("check", document=misspelt).json()["error"])

    def test_what_is_not_named_is_lowered_to_the_rule(self):
        self.apply("""version: 2
rules:
  - {name: small, why: w, effect: allow, tier: Auto, max: {memory_mb: 96, timeout_seconds: 5, max_output_bytes: 100}}
""")
        late = self.run_code("import time\ntime.sleep(60)")
        self.assertEqual((late["status"], late["error"]["details"]["value"]), ("timed_out", 5000), late)
        large = self.run_code("print('x' * 1000)")
        self.assertEqual((large["status"], large["stdout_truncated"], len(large["stdout"])), ("completed", True, 100))
        heavy = self.run_code("x = bytearray(150 << 20)", "python")
        self.assertEqual(heavy["error"]["details"]["limit"], "memory_mb", heavy)
        self.assertEqual(heavy["error"]["details"]["value"], 96 << 20, heavy)
        named = self.run_code("print(1)", memory_mb=256)
        self.assertEqual(named["status"], "denied", named)
        session = self.call("POST", "/v1/sessions", {"language": "python"}, status=201).json()
        self.assertEqual(session["limits"]["memory_mb"], 96)
        cell = self.call("POST", f"/v1/sessions/{session['id']}/exec?wait=60", {"code": "1 + 1"}).json()
        self.assertEqual(cell["status"], "completed", cell)
        behind = self.call("POST", f"/v1/sessions/{session['id']}/exec", {"command": ["sleep", "60"], "background": True},
                           status=202).json()["id"]
        ended = harness.wait_for("the end of what is in the background", lambda: (
            now := self.call("GET", f"/v1/executions/{behind}").json())["finished_at"] and now, 20)
        self.assertEqual(ended["status"], "timed_out", ended)

    def test_a_retry_is_the_same_request_under_another_document(self):
        headers = {"Idempotency-Key": "limits"}
        body = {"language": "python", "code": "print(1)"}
        first = self.call("POST", "/v1/executions?wait=60", body, headers).json()
        self.apply(OPEN.replace("tier: Auto", "tier: Auto, max: {memory_mb: 128}"))
        self.assertEqual(self.call("POST", "/v1/executions?wait=60", body, headers).json()["id"], first["id"])

    def test_patterns(self):
        self.apply("""version: 2
rules:
  - {name: prod, why: production is closed, effect: deny, match: {tenants: ["prod-*"]}}
  - {name: rest, why: the rest, effect: allow, tier: Auto}
""")
        inside = self.new_key("prod-eu", roles=["agent"])["secret"]
        outside = self.new_key("test-eu", roles=["agent"])["secret"]
        self.assertEqual(self.run_code("print(1)", key=inside)["status"], "denied")
        self.assertEqual(self.run_code("print(1)", key=outside)["status"], "completed")

    def test_hostile_documents(self):
        bomb = "a: &a [x, x]\nb: &b [*a, *a]\nversion: 2\nrules: [*b, *b]\n"
        for text in (bomb, "rules: " + "[" * 30_000, "[" * 5, "x" * 70_000, "\0", "version: 2\n---\nversion: 2\n",
                     "!!python/object/apply:os.system ['id']", "version: 2\nrules: 7\n"):
            with self.subTest(text=text[:40]):
                self.assertProblem(self.apply(text, status=None), 413 if len(text) > 65536 else 422, field="document")
        self.assertEqual(self.run_code("print(1)")["status"], "completed")

    def test_explain(self):
        answer = self.ask("explain", document=NO_BASH, request={"language": "bash", "code": "ls"},
                          principal={"tenant": "acme", "roles": ["agent"]}).json()
        self.assertEqual((answer["decision"], answer["rule"]), ("deny", "no-bash"))
        self.assertEqual([rule["decides"] for rule in answer["rules"]], [True, False])
        default = (harness.REPO / "policies" / "default.yaml").read_text()
        answer = self.ask("explain", document=default, request={"command": "sudo ls", "env": {"A_TOKEN": "x"}},
                          runtimes=["process", "gvisor"]).json()
        self.assertEqual(answer["decision"], "allow")
        risk = answer["risk"]
        self.assertEqual(sum(term["points"] for term in risk["terms"]), risk["score"])
        self.assertGreaterEqual(risk["score"], 40)
        self.assertTrue(risk["arithmetic"].endswith(f"= {risk['score']}"))
        answer = self.ask("explain", document=default, request={"command": "ls", "tier": "ManualOnly"},
                          runtimes=["process", "microvm"]).json()
        self.assertEqual((answer["decision"], answer["runtime"], answer["approval"]["quorum"]),
                         ("approve", "microvm", 2))
        self.assertProblem(self.ask("explain", None, request={"command": "ls", "pids": 0}), 422, field="request.pids")
        self.assertProblem(self.ask("explain", None, request={"command": "ls"}, operation="fly"), 422,
                           field="operation")

    def test_explain_says_what_a_run_then_meets(self):
        for body in ({"language": "python", "code": "1"}, {"language": "python", "code": "1", "tier": "Assisted"},
                     {"command": "ls", "deps": ["x"]}, {"command": "ls", "runtime": "gvisor"}):
            said = self.ask("explain", request=body).json()
            done = self.call("POST", "/v1/executions?wait=60", body).json()
            self.assertEqual(said["decision"] == "deny", done["status"] == "denied", (said, done))
            if said["decision"] == "deny":
                self.assertIn(said["reason"], done["error"]["message"])

    def test_cases(self):
        cases = """version: 1
cases:
  - {name: python, request: {language: python, code: "1"}, expect: {decision: allow, rule: rest}}
  - {name: bash, request: {language: bash, code: "1"}, expect: {decision: allow}}
"""
        report = self.ask("test", cases=cases, document=NO_BASH).json()
        self.assertEqual((report["passed"], report["failed"]), (1, 1))
        self.assertIn('decision: wanted "allow", came "deny"', report["cases"][1]["problems"])
        self.assertProblem(self.ask("test", None, cases="version: 1\ncases: [{}]\n"), 422, field="cases")

    def test_diff_tries_recorded_requests(self):
        done = self.run_code("echo hi", "bash")
        self.run_code("print(1)")
        before = self.call("GET", "/v1/policies/current").json()["version"]
        diff = self.ask("diff", document=NO_BASH, recent=200).json()
        self.assertEqual((diff["added"], diff["removed"]), (["no-bash", "rest"], ["open"]))
        changed = {change["execution_id"]: change for change in diff["replay"]["changes"]
                   if change["decision_changes"]}
        self.assertEqual(changed[done["id"]]["to"]["rule"], "no-bash")
        groups = diff["replay"]["groups"]
        self.assertEqual(sum(group["count"] for group in groups), len(diff["replay"]["changes"]))
        shells = [group for group in groups if group["rule"] == "no-bash"]
        self.assertTrue(any(done["id"] in group["examples"] or group["count"] > 3 for group in shells), groups)
        self.assertEqual({(group["to"]["decision"], group["reason"]) for group in shells}, {("deny", "no shells")})
        current = self.call("GET", f"/v1/policies/{before}", status=200).json()["document"]
        reworded = self.ask("diff", document=current.replace("why: ", "why: again "), recent=200).json()
        self.assertEqual(reworded["replay"]["changes"], [], "another sentence is no other decision")
        dry = self.apply(NO_BASH, status=200, dry_run=True, recent=200).json()
        self.assertEqual(len(dry["diff"]["replay"]["changes"]), len(diff["replay"]["changes"]))
        self.assertEqual(self.call("GET", "/v1/policies/current").json()["version"], before)
        other = self.new_key("other", roles=["tenant-admin"])["secret"]
        self.assertProblem(self.ask("diff", None, other, document=NO_BASH, recent=200), 403, "PERMISSION_DENIED")


class CommandLine(PolicyTest):
    def cli(self, *args, status=0, input=None):
        result = self.server.cli(*args, input=input)
        self.assertEqual(result.returncode, status, result.stderr + result.stdout)
        return result.stdout

    def test_every_command(self):
        with tempfile.TemporaryDirectory() as directory:
            path = pathlib.Path(directory) / "strict.yaml"
            path.write_text(NO_BASH)
            cases = pathlib.Path(directory) / "cases.yaml"
            cases.write_text('version: 1\ncases:\n  - {name: sh, request: {command: ls}, expect: {decision: deny}}\n')
            self.assertIn("valid: 2 rules", self.cli("policy", "check", str(path)))
            self.assertIn("nothing was applied", self.cli("policy", "apply", "--dry-run", "--recent", "5", str(path)))
            self.assertIn("FAILED  sh: allow by rest (Auto, process): the rest\n",
                          self.cli("policy", "test", "--policy", str(path), str(cases), status=1))
            self.assertIn("added: no-bash, rest", self.cli("policy", "diff", str(path)))
            self.assertIn("in force: version", self.cli("policy", "apply", "--note", "why", str(path)))
            self.assertIn("not valid: ", self.cli("policy", "check", "-", status=1, input="version: 2\n"))
            path.write_text(NO_BASH.replace("rules:\n", "rules:\n  - {name: look, why: w, effect: deny, match: {risk: {at_least: 30}}}\n"))
            warned = '  warning: rule "look" never decides: no score is more than 0\n'
            for words in (["check"], ["apply", "--dry-run"], ["apply"]):
                self.assertIn(warned, self.cli("policy", *words, str(path)))
            look = json.loads(self.cli("--json", "policy", "history", "--limit", "1"))["policies"][0]["version"]
            path.write_text(NO_BASH)
            self.assertNotIn("warning", self.cli("policy", "apply", "--note", "why", str(path)))
            self.assertIn(warned, self.cli("policy", "rollback", str(look)))
            self.cli("policy", "apply", "--note", "why", str(path))
        self.assertEqual(self.cli("policy", "show"), NO_BASH)
        text = self.cli("policy", "explain", "-l", "bash", "-c", "ls", status=1)
        self.assertIn("deny: no shells\n  rule: no-bash\n", text)
        self.assertIn("DECIDES", text)
        history = json.loads(self.cli("--json", "policy", "history", "--limit", "2"))["policies"]
        self.assertEqual((history[0]["name"], history[0]["note"], len(history)), ("strict", "why", 2))
        self.assertIn("is version 1 again", self.cli("policy", "rollback", "1").replace("which ", ""))
        self.assertIn("yes", self.cli("policy", "history"))


class Schema(PolicyTest):
    """The schema and the parser agree, except on rules beyond a schema."""

    SCHEMA = jsonschema.Draft202012Validator(
        json.loads((harness.REPO / "policies" / "policy.schema.json").read_text()))
    FULL = yaml.safe_load("""
version: 2
risk:
  languages: {python: 1, other: 2}
  commands: {other: 1}
  network: {full: 9}
  roles: {admin: 1}
  tenants: {acme: 1}
  dependencies: {each: 1, most: 3}
  secrets: {each: 1, most: 2, names: ["*TOKEN*"]}
tiers:
  Auto: {runtime: process}
  Assisted: {runtime: gvisor, from_score: 10}
  HumanApprove: {approve: {roles: [approver], quorum: 2, ttl_seconds: 9, fallback: deny}}
rules:
  - name: a
    why: b
    effect: approve
    tier: HumanApprove
    runtime: gvisor
    image: host
    max: {pids: 9, memory_mb: 64}
    network:
      - {name: m.example.net, ports: [80], protocol: http, methods: [GET], paths: ["/a/*"], dns: [TXT], max_bytes: 5,
         on_denied: ask, why: w}
      - b.example.net:443
    operations: [run, exec]
    approve: {roles: [admin]}
    match: {tenants: [a], apps: [a], agents: [a], users: [a], roles: [agent], languages: [python], session: true,
            network_tiers: [none], tool_types: [x], operations: [run], dependencies: {only: [x]}, risk: {at_least: 3}}
  - {name: c, why: d, effect: deny, remedy: e, match: {dependencies: none}}
  - {name: e, why: d, effect: allow, match: {dependencies: {any_of: [x]}}}
""")

    def mutants(self):
        """The document with each member left out, emptied, of another type, or beside an unknown member."""
        def walk(value, path):
            yield path
            for key in (value if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ()):
                yield from walk(value[key], (*path, key))

        for path in walk(self.FULL, ()):
            for change in ("drop", None, "odd", 0, [], {}, True, "unknown"):
                mutant = copy.deepcopy(self.FULL)
                at = mutant
                for key in path[:-1]:
                    at = at[key]
                if change == "unknown":
                    target = at[path[-1]] if path else mutant
                    if not isinstance(target, dict):
                        continue
                    target["unknown member"] = "x"
                elif not path:
                    continue
                elif change == "drop":
                    del at[path[-1]]
                else:
                    at[path[-1]] = change
                yield path, change, mutant

    def test_mutants(self):
        count, differ = 0, []
        for path, change, mutant in self.mutants():
            answer = self.server.request("POST", "/v1/policies:check", {"document": yaml.safe_dump(mutant)}).json()
            valid = self.SCHEMA.is_valid(mutant)
            count += 1
            # Weaker than the tier, or a score that does not rise: beyond a schema.
            if valid and not answer["valid"] and "weaker" in answer["error"]:
                continue
            if valid != answer["valid"]:
                differ.append((path, change, valid, answer["error"]))
        self.assertEqual(differ, [])
        self.assertGreater(count, 500)

    def test_default(self):
        text = (harness.REPO / "policies" / "default.yaml").read_text()
        self.assertTrue(self.SCHEMA.is_valid(yaml.safe_load(text)))
        self.assertTrue(self.ask("check", document=text).json()["valid"])


class Damage(unittest.TestCase):
    def test_a_damaged_version_denies_until_another_is_applied(self):
        with harness.Server() as server:
            self.assertEqual(server.run("print(1)")["status"], "completed")
            server.stop()
            database = sqlite3.connect(pathlib.Path(server.state) / "ledger" / "ledger.db")
            with database:
                database.execute("UPDATE policies SET document=?", (ASK.encode(),))
            database.close()
            server._ready = False  # it never gets ready, and so its address is only in the log
            before = len(server.log.read_text())
            server.start()

            def listens():
                for line in server.log.read_text()[before:].splitlines():
                    if '"event":"listening"' in line:
                        host, port = json.loads(line)["address"].rsplit(":", 1)
                        server.host, server.port = host, int(port)
                        return True

            harness.wait_for("an address", listens, 30)
            ready = server.request("GET", "/readyz")
            DOCUMENT.check("GET", "/readyz", ready)
            self.assertEqual(ready.status, 503)
            self.assertIn("version 1 is damaged", ready.json()["reasons"][0])
            denied = server.submit("print(1)").json()
            self.assertEqual(denied["status"], "denied")
            applied = server.request("POST", "/v1/policies", {"document": OPEN})
            self.assertEqual(applied.status, 201, applied.body)
            harness.wait_for("readiness", lambda: server.request("GET", "/readyz").status == 200)
            self.assertEqual(server.run("print(1)")["status"], "completed")


if __name__ == "__main__":
    unittest.main()
