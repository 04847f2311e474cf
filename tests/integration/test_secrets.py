# SPDX-License-Identifier: Apache-2.0
"""Secrets: set and never read back, granted by a rule, given to a program, and kept out of every record."""

import base64
import json
import os
import pathlib
import tempfile
import time
import unittest

import harness
from api_case import ApiTest
from session_case import Session
from test_at_rest import holders

POLICY = """
version: 2
rules:
  - name: looked-at
    why: an approver looks first
    effect: approve
    approve: {roles: [approver]}
    secrets: [{name: "KEY*", as: [env]}]
    match: {network_tiers: [none], tool_types: [deploy]}
  - name: work
    why: tests
    effect: allow
    secrets:
      - {name: "KEY*", as: [env, file]}
      - {name: API, as: [broker], hosts: [api.example.com]}
    network: ["api.example.com:443"]
    match: {network_tiers: [none, restricted]}
"""
CONFIG = "secrets:\n  per_tenant: 20\n"


def new_value():
    return "v-" + os.urandom(16).hex()


class Secrets(ApiTest):
    """`keys`: of two tenants, by role and agent."""

    @classmethod
    def setUpClass(cls):
        folder = cls.enterClassContext(tempfile.TemporaryDirectory())
        policy = pathlib.Path(folder, "policy.yaml")
        policy.write_text(POLICY)
        os.chmod(folder, 0o755)
        cls.server = cls.enterClassContext(harness.Server(config=f"policy: {policy}\n" + CONFIG))
        cls.keys = {}
        for name, tenant, role, agent in (("admin", "acme", "tenant-admin", ""), ("alice", "acme", "agent", "alice"),
                                          ("bob", "acme", "agent", "bob"), ("approver", "acme", "approver", ""),
                                          ("rival", "rival", "tenant-admin", ""), ("mallory", "rival", "agent", "alice")):
            made = cls.server.request("POST", "/v1/keys", {"tenant": tenant, "name": name, "roles": [role],
                                                           **({"agent": agent} if agent else {})})
            assert made.status == 201, made.text
            cls.keys[name] = made.json()["secret"]

    def set(self, name, value, by="admin", status=200, **more):
        answer = self.call("PUT", f"/v1/secrets/{name}", {"value": value, **more}, key=self.keys[by], status=status)
        self.assertNotIn(value, answer.text)
        return answer.json()

    def remove(self, name, by="admin", status=204):
        return self.call("DELETE", f"/v1/secrets/{name}", key=self.keys[by], status=status)

    def run_with(self, code, secrets, by="alice", status=200, **request):
        return self.run_code(code, key=self.keys[by], status=status, secrets=secrets, **request)

    def test_it_is_written_and_never_read_back(self):
        value = new_value()
        first = self.set("KEY_ONE", value)
        self.assertEqual((first["version"], first["expires_at"], first["last_used_at"]), (1, None, None))
        self.assertEqual(self.set("KEY_ONE", new_value())["version"], 2)
        listed = self.call("GET", "/v1/secrets", key=self.keys["admin"], status=200)
        self.assertNotIn(value, listed.text)
        self.assertIn("KEY_ONE", [each["name"] for each in listed.json()["secrets"]])
        self.remove("KEY_ONE")
        self.remove("KEY_ONE", status=404)
        self.assertEqual(self.set("KEY_ONE", new_value())["version"], 3, "a version never means another value")
        self.assertEqual(holders(self.server.state, value.encode()), set())

    def test_who_may_set_and_see(self):
        for by, status in (("alice", 403), ("approver", 403)):
            self.set("KEY_WHO", new_value(), by, status)
        self.set("KEY_WHO", new_value())
        self.call("GET", "/v1/secrets", key=self.keys["alice"], status=403)
        self.assertIn("KEY_WHO", self.call("GET", "/v1/secrets", key=self.keys["approver"], status=200).text)
        self.assertNotIn("KEY_WHO", self.call("GET", "/v1/secrets", key=self.keys["rival"], status=200).text)
        self.remove("KEY_WHO", "rival", 404)
        self.remove("KEY_WHO", "alice", 403)

    def test_bad_values(self):
        for body, field in (({}, "value"), ({"value": "short"}, "value"), ({"value": 7}, "value"),
                            ({"value": new_value(), "expires_at": "soon"}, "expires_at"),
                            ({"value": new_value(), "expires_at": "2001-01-01T00:00:00Z"}, "expires_at"),
                            ({"value": new_value(), "x": 1}, "x")):
            answer = self.call("PUT", "/v1/secrets/KEY_BAD", body, key=self.keys["admin"])
            self.assertProblem(answer, 422, field=field)
        answer = self.call("PUT", "/v1/secrets/KEY_BAD", {"value": "x" * 65_537}, key=self.keys["admin"])
        self.assertEqual(answer.status, 413)
        answer = self.call("PUT", "/v1/secrets/1KEY", {"value": new_value()}, key=self.keys["admin"])
        self.assertProblem(answer, 400, field="url.name")

    def test_a_tenant_has_a_bounded_number(self):
        for n in range(20):
            self.set(f"N{n}", new_value(), "rival")
        full = self.call("PUT", "/v1/secrets/N20", {"value": new_value()}, key=self.keys["rival"])
        self.assertEqual(full.status, 429, full.text)
        self.assertIn("secrets.per_tenant", full.text)
        for n in range(20):
            self.remove(f"N{n}", "rival")

    def test_in_the_environment_and_in_a_file(self):
        value = new_value()
        self.set("KEY_ENV", value)
        code = ("import hashlib, os, stat\n"
                "print(hashlib.sha256(os.environ['TOKEN'].encode()).hexdigest())\n"
                "path = '/run/secrets/sub/key'\n"
                "print(hashlib.sha256(open(path, 'rb').read()).hexdigest())\n"
                "print(oct(stat.S_IMODE(os.stat(path).st_mode)), os.listdir('.'))")
        done = self.run_with(code, [{"name": "KEY_ENV", "as": "env", "variable": "TOKEN"},
                                    {"name": "KEY_ENV", "as": "file", "path": "/run/secrets/sub/key"}])
        import hashlib
        digest = hashlib.sha256(value.encode()).hexdigest()
        lines = done["stdout"].split("\n")
        self.assertEqual(lines[:2], [digest, digest], done)
        self.assertEqual(lines[2], "0o444 ['main.py']")
        used = [each for each in self.call("GET", "/v1/secrets", key=self.keys["admin"], status=200).json()["secrets"]
                if each["name"] == "KEY_ENV"][0]
        self.assertIsNotNone(used["last_used_at"])

    def test_output_is_without_it_in_every_coding_and_in_pieces(self):
        value = new_value() + "/+\"é"
        self.set("KEY_OUT", value)
        code = ("import base64, json, os, sys, time, urllib.parse\n"
                "v = os.environ['KEY_OUT']\nb = v.encode()\n"
                "for text in (b.decode('latin-1'), b.hex(), b.hex().upper(), urllib.parse.quote(v), urllib.parse.quote(v, safe=''), json.dumps(v),\n"
                "             *(base64.b64encode(b'x' * n + b).decode() for n in range(3)),\n"
                "             *(base64.urlsafe_b64encode(b'x' * n + b).decode() for n in range(3)),\n"
                "             v.encode('utf-16-le').decode('latin-1'), v.encode('utf-16-be').decode('latin-1')):\n"
                "    sys.stdout.buffer.write(b'<' + text.encode('latin-1') + b'>\\n')\n"
                "sys.stdout.flush()\n"
                "for byte in b:\n"
                "    os.write(2, bytes([byte])); time.sleep(0.001)\n")
        done = self.run_with(code, [{"name": "KEY_OUT", "as": "env"}])
        self.assertEqual(done["status"], "completed", done)
        self.assertEqual(done["stdout"].count("[secret KEY_OUT]"), 14, done["stdout"])
        self.assertEqual(done["stderr"], "[secret KEY_OUT]")
        for part in (value, value.encode().hex(), base64.b64encode(value.encode()).decode()[:24]):
            self.assertNotIn(part, json.dumps(done))
        events = self.call("GET", f"/v1/executions/{done['id']}/events", key=self.keys["alice"])
        self.assertNotIn(value, events.text)
        import hashlib
        self.assertEqual(done["provenance"]["stderr_sha256"], hashlib.sha256(b"[secret KEY_OUT]").hexdigest(),
                         "a digest in a record is of what the record shows")

    def test_an_artifact_with_it_is_not_kept(self):
        value = new_value()
        self.set("KEY_ART", value)
        code = ("import base64, os\nv = os.environ['KEY_ART']\n"
                "open('clean.txt', 'w').write('nothing')\n"
                "open('dirty.txt', 'w').write('x' * 70000 + v)\n"
                "open('coded.txt', 'wb').write(base64.b64encode(v.encode()))\n"
                "open(v, 'w').write('its name')\n")
        done = self.run_with(code, [{"name": "KEY_ART", "as": "env"}], artifacts=["**"])
        self.assertEqual([each["path"] for each in done["artifacts"]], ["clean.txt"], done)
        self.assertIn("has the secret KEY_ART", done["error"]["message"])
        self.assertNotIn(value, json.dumps(done))

    def test_silence_refuses(self):
        self.set("OTHER", new_value())
        denied = self.run_with("print(1)", [{"name": "OTHER", "as": "env"}])
        self.assertEqual(denied["status"], "denied", denied)
        self.assertIn("does not grant the secret OTHER as env", denied["error"]["message"])
        self.assertEqual(denied["error"]["details"]["rule"], "work")
        for uses, field in (([{"name": "KEY_NONE", "as": "env"}], "secrets[0]"),
                            ([{"name": "API", "as": "broker", "host": "api.example.com", "header": "X"}], "secrets[0].as"),
                            ([{"name": "KEY_X", "as": "env", "value": "y"}], "secrets[0].value")):
            answer = self.call("POST", "/v1/executions", {"language": "python", "code": "1", "secrets": uses},
                               key=self.keys["alice"])
            self.assertProblem(answer, 422, field=field)
        self.assertIn("network_policy", self.call("POST", "/v1/executions", {"language": "python", "code": "1", "secrets": [
            {"name": "API", "as": "broker", "host": "api.example.com", "header": "X"}]}, key=self.keys["alice"]).text)

    def test_an_approval_is_of_the_version(self):
        value = new_value()
        self.set("KEY_SEEN", value)
        request = {"language": "python", "code": "import os; print(len(os.environ['KEY']))", "metadata": {"tool_type": "deploy"},
                   "secrets": [{"name": "KEY_SEEN", "as": "env", "variable": "KEY"}]}

        def ask(changes):
            waits = self.call("POST", "/v1/executions", request, key=self.keys["alice"], status=201).json()
            self.assertEqual(waits["status"], "blocked", waits)
            if changes:
                self.set("KEY_SEEN", new_value())
            escalation = waits["error"]["details"]["escalation_id"]
            self.call("POST", f"/v1/escalations/{escalation}:approve", {}, key=self.keys["approver"], status=200)
            return self.server.wait_end(waits["id"])

        self.assertEqual(ask(changes=False)["stdout"], f"{len(value)}\n")
        refused = ask(changes=True)
        self.assertEqual(refused["status"], "denied", refused)
        self.assertIn("approval_mismatch", json.dumps(refused["error"]))

    def test_another_tenant_has_it_not(self):
        self.set("KEY_MINE", new_value())
        answer = self.call("POST", "/v1/executions", {"language": "python", "code": "1",
                                                      "secrets": [{"name": "KEY_MINE", "as": "env"}]}, key=self.keys["mallory"])
        self.assertProblem(answer, 422, field="secrets[0]")

    def test_an_expired_one_is_refused(self):
        soon = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + 2))
        self.set("KEY_OLD", new_value(), expires_at=soon)
        self.assertEqual(self.run_with("print(1)", [{"name": "KEY_OLD", "as": "env"}])["status"], "completed")
        time.sleep(2.5)
        answer = self.call("POST", "/v1/executions", {"language": "python", "code": "1",
                                                      "secrets": [{"name": "KEY_OLD", "as": "env"}]}, key=self.keys["alice"])
        self.assertProblem(answer, 422, field="secrets[0]")
        self.assertIn("expired", answer.text)

    def test_a_program_of_a_session_has_it_alone(self):
        value = new_value()
        self.set("KEY_SES", value)
        with Session(self.server, call=self.call, key=self.keys["alice"], language="bash") as session:
            mine = [{"name": "KEY_SES", "as": "env"}, {"name": "KEY_SES", "as": "file"}]
            has = session.exec("echo ${#KEY_SES}; cat /run/secrets/KEY_SES | wc -c; echo \"$KEY_SES\" > kept", secrets=mine)
            self.assertEqual(has["stdout"].split(), [str(len(value))] * 2, has)
            harness.wait_for("the file to go", lambda: session.exec("ls /run/secrets/")["stdout"] == "")
            gone = session.exec("echo ${KEY_SES-none}; cat kept")
            self.assertEqual(gone["stdout"], "none\n[secret KEY_SES]\n", "and what it left behind stays unseen")
            for uses, field in (([{"name": "API", "as": "broker", "host": "api.example.com", "header": "X"}], "secrets[0].as"),
                                ([{"name": "KEY_SES", "as": "file", "path": "in_home"}], "secrets[0].path")):
                answer = session.call("POST", "/exec", {"command": ["true"], "secrets": uses})
                self.assertProblem(answer, 422, field=field)
        answer = self.call("POST", "/v1/sessions", {"language": "bash", "secrets": [{"name": "KEY_SES", "as": "env"}]},
                           key=self.keys["alice"])
        self.assertProblem(answer, 422, field="secrets[0].as")

    def test_results_of_an_interpreter(self):
        value = new_value()
        self.set("KEY_CELL", value)
        with Session(self.server, call=self.call, key=self.keys["alice"], language="python") as session:
            session.exec("import os\nopen('kept', 'w').write(os.environ['KEY_CELL'])", secrets=[{"name": "KEY_CELL", "as": "env"}])
            shown = session.exec("v = open('kept').read()\n{'the value': v}", kernel="python")
            self.assertIn("[secret KEY_CELL]", json.dumps(shown["results"]))
            self.assertNotIn(value, json.dumps(shown))

    def test_no_record_has_it(self):
        value = new_value()
        self.set("KEY_REC", value)
        done = self.run_with("import os\nopen('a', 'w').write(os.environ['KEY_REC'])\nprint(os.environ['KEY_REC'])\nraise SystemExit(3)",
                             [{"name": "KEY_REC", "as": "env"}], artifacts=["**"])
        self.assertEqual(done["exit_code"], 3)
        rows = self.call("GET", "/v1/audit?limit=500", key=self.server.key, status=200).text
        self.assertNotIn(value, rows)
        self.assertIn("secret.used", rows)
        self.assertIn("artifact.withheld", rows)
        self.assertEqual(holders(self.server.state, value.encode()), set())

    def test_command_line(self):
        value = new_value()
        cli = lambda *words, **more: self.server.cli(*words, env={"CLOISTER_API_KEY": self.keys["admin"]}, **more)
        made = cli("secret", "set", "KEY_CLI", input=value + "\n")
        self.assertEqual((made.returncode, made.stdout), (0, "KEY_CLI: version 1\n"), made.stderr)
        self.assertIn("KEY_CLI", cli("secret", "list").stdout)
        self.assertEqual(json.loads(cli("--json", "secret", "list").stdout)["secrets"][0].get("value"), None)
        ran = self.server.cli("run", "--secret", "KEY_CLI=env:K", "-c", "import os; print(len(os.environ['K']))",
                              env={"CLOISTER_API_KEY": self.keys["alice"]})
        self.assertEqual((ran.returncode, ran.stdout), (0, f"{len(value)}\n"), ran.stderr)
        wrong = self.server.cli("run", "--secret", "KEY_CLI=oops", "-c", "1", env={"CLOISTER_API_KEY": self.keys["alice"]})
        self.assertIn("NAME=env:VARIABLE", wrong.stderr)
        removed = cli("secret", "rm", "KEY_CLI")
        self.assertEqual(removed.returncode, 0, removed.stderr)
        self.assertNotIn("KEY_CLI", cli("secret", "list").stdout)


if __name__ == "__main__":
    unittest.main()
