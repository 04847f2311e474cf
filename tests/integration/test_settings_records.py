# SPDX-License-Identifier: Apache-2.0
"""Settings of escalations, notifications, the audit log and retention without another suite, each by its effect
(docs/EFFECTS.md, tests/mutate_settings.py)."""

import datetime
import json
import pathlib
import socket
import sqlite3
import tempfile
import unittest

import harness
import hooks

SECRET = "0123456789abcdef0123456789abcdef"
DAY = 86_400_000_000  # microseconds, as the ledger counts


def seconds_between(earlier, later):
    return (datetime.datetime.fromisoformat(later) - datetime.datetime.fromisoformat(earlier)).total_seconds()


class Case(unittest.TestCase):
    config = ""

    def setUp(self):
        self.dir = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory(prefix="cloister-settings.")))
        self.dir.chmod(0o777)
        (self.dir / "secret").write_text(SECRET)
        (self.dir / "secret").chmod(0o644)
        self.keys = {}

    def serve(self, config):
        self.server = self.enterContext(harness.Server(config))
        return self.server

    def call(self, method, path, body=None, key=None, status=200):
        answer = self.server.request(method, path, body, key=key)
        self.assertEqual(answer.status, status, answer.body[:1000])
        return answer.json()

    def key(self, role, **who):
        return self.call("POST", "/v1/keys", {"tenant": "acme", "name": role, "roles": [role], **who}, status=201)["secret"]

    def ask(self, status=201, path="/workspace/x"):
        """An escalation requested by hand by an agent."""
        self.keys.setdefault("agent", None)
        self.keys["agent"] = self.keys["agent"] or self.key("agent", agent="coder")
        body = {"operation": "file_write", "path": path, "reason": "why"}
        return self.call("POST", "/v1/escalations", body, self.keys["agent"], status)


class Escalations(Case):
    def setUp(self):
        super().setUp()
        self.serve("escalation:\n  ttl_seconds: 77\n  grant_seconds: 88\n  pending_per_tenant: 1\n")

    def test_how_long(self):
        asked = self.ask()
        self.assertEqual(round(seconds_between(asked["created_at"], asked["expires_at"])), 77)
        approver = self.key("approver", user="lead")
        given = self.call("POST", f"/v1/escalations/{asked['id']}:approve", {"reason": "seen"}, approver)
        self.assertEqual(round(seconds_between(given["decided_at"], given["grant_expires_at"])), 88)

    def test_an_approver_shortens_an_approval(self):
        approver = self.key("approver", user="lead")
        path = f"/v1/escalations/{self.ask()['id']}:approve"
        for wrong, status in ((0, 422), (89, 422), (2592001, 422), ("5", 422)):
            refused = self.call("POST", path, {"grant_seconds": wrong}, approver, status)
            self.assertEqual(refused["error"]["details"]["field"], "grant_seconds")
        self.call("POST", path.replace(":approve", ":deny"), {"grant_seconds": 5, "reason": "no"}, approver, 422)
        given = self.call("POST", path, {"grant_seconds": 5}, approver)
        self.assertEqual((given["status"], given["grant_seconds"]), ("approved", 5))
        self.assertEqual(round(seconds_between(given["decided_at"], given["grant_expires_at"])), 5)

    def test_the_command_shortens_an_approval(self):
        lead = self.key("approver", user="lead")
        given = self.server.cli("escalation", "approve", self.ask()["id"], "--for", "5s", "--json", env={"CLOISTER_API_KEY": lead})
        self.assertEqual(json.loads(given.stdout)["grant_seconds"], 5, given.stderr)

    def test_how_many(self):
        self.ask()
        self.ask(status=429, path="/workspace/y")


class Deciding(Case):
    def setUp(self):
        super().setUp()
        self.serve("escalation:\n  roles: [tenant-admin]\n  safe_operations: [command]\n")

    def test_who_decides(self):
        asked = self.ask()["id"]
        body = {"reason": "seen"}
        self.call("POST", f"/v1/escalations/{asked}:approve", body, self.key("approver", user="lead"), status=403)
        self.call("POST", f"/v1/escalations/{asked}:approve", body, self.key("tenant-admin", user="owner"))

    def test_what_is_safe(self):
        """By default a rule lets this agent read."""
        key = self.key("agent", agent="careful")
        self.call("PUT", "/v1/agents/careful/escalation-policy", {"auto_approve": "safe"}, self.key("tenant-admin", user="owner"))
        body = {"operation": "file_read", "path": "/workspace/x", "reason": "why"}
        self.assertEqual(self.call("POST", "/v1/escalations", body, key, 201)["status"], "pending")


class Notifications(Case):
    def notified(self, more, hook):
        return self.serve(f"escalation:\n{more}  webhook: {{url: 'http://127.0.0.1:{hook}/x', secret_file: {self.dir}/secret}}\n")

    def gave_up(self, lines=1):
        return self.server.log.read_text(errors="replace").count("notification given up") >= lines

    def test_attempts(self):
        hook = hooks.webhook(failures=99)
        self.notified("  notification_attempts: 2\n  notification_pause_ms: 50\n", hook.server_port)
        self.ask()
        harness.wait_for("its end", self.gave_up, 10)
        self.assertEqual(len(hook.received), 2)

    def test_pause(self):
        hook = hooks.webhook(failures=5)  # 1.6 s with these pauses, 62 s with the default's
        self.notified("  notification_pause_ms: 50\n", hook.server_port)
        self.ask()
        harness.wait_for("the sixth", lambda: len(hook.received) > 5, 15)

    def test_timeout(self):
        silent = self.enterContext(socket.create_server(("127.0.0.1", 0)))
        self.notified("  notification_timeout_ms: 200\n  notification_attempts: 1\n", silent.getsockname()[1])
        self.ask()
        harness.wait_for("its end", self.gave_up, 4)

    def test_queue(self):
        hook = hooks.webhook(failures=99)
        self.notified("  notification_queue: 1\n", hook.server_port)
        for path in ("/workspace/a", "/workspace/b"):
            self.ask(path=path)
        entries = self.call("GET", "/v1/audit?limit=100")["entries"]
        self.assertTrue([each for each in entries if each["details"].get("notifications_left_out")], entries)

    def test_mail_in_clear(self):
        relay = hooks.mail_relay()
        self.serve(f"escalation:\n  smtp: {{relay: '127.0.0.1:{relay.server_address[1]}', from: a@example.org,"
                   f" to: [b@example.org], starttls: false}}\n")
        self.ask()
        mail = harness.wait_for("the mail", lambda: relay.received, 10)[0]
        self.assertFalse(mail[0])


class Audit(Case):
    def test_checkpoints(self):
        path = self.dir / "checkpoints"
        self.serve(f"audit:\n  checkpoint_every: 1\n  checkpoint_file: {path}\n")
        lines = lambda: len(path.read_text().splitlines()) if path.exists() else 0
        before = harness.wait_for("the first checkpoint", lines, 10)
        self.key("viewer")
        harness.wait_for("another, after few entries", lambda: lines() > before, 10)


    def test_the_anchor_elsewhere(self):
        """With the published heads beside it."""
        path = self.dir / "anchor"
        self.serve(f"audit:\n  anchor_file: {path}\n")
        self.key("viewer")
        last = json.loads(self.server.request("GET", "/v1/audit/export").text.splitlines()[-1])
        self.assertEqual(json.loads(path.read_text().splitlines()[-1])["hash"], last["hash"])
        self.assertFalse((self.server.state / "ledger" / "audit.anchor").exists())
        published = pathlib.Path(f"{path}.published")
        harness.wait_for("a published head", lambda: published.exists() and published.read_text(), 10)

    def test_the_anchor_is_bounded(self):
        self.serve("audit:\n  anchor_max_kb: 16\n")
        anchor = self.server.state / "ledger" / "audit.anchor"
        before = anchor.stat().st_ino
        for _ in range(100):  # a line has more than 200 bytes
            self.key("viewer")
        self.assertNotEqual(anchor.stat().st_ino, before)
        self.assertLessEqual(anchor.stat().st_size, 16 << 10)
        self.assertEqual(self.call("GET", "/v1/audit/verify")["problem"], "")


class Published(Case):
    def test_to_a_webhook_of_an_authority_of_its_own(self):
        certificate = hooks.Certificate()
        hook = hooks.webhook(certificate)
        self.serve(f"audit:\n  publish:\n    every_seconds: 1\n    webhook:\n      url: https://127.0.0.1:{hook.server_port}/x\n"
                   f"      secret_file: {self.dir}/secret\n      ca_file: {certificate.ca}\n")
        harness.wait_for("the head", lambda: hook.received, 15)


    def test_how_often(self):
        """The first time at the start."""
        lines = {}
        for seconds in (86_400, 1):
            file = self.dir / f"every-{seconds}"
            self.serve(f"audit:\n  publish: {{file: {file}, every_seconds: {seconds}}}\n")
            lines[seconds] = lambda file=file: len(file.read_text().splitlines()) if file.exists() else 0
            first = harness.wait_for("the first head", lines[seconds], 10)
            self.key("viewer")
        harness.wait_for("another", lambda: lines[1]() > first, 10)
        self.assertEqual(lines[86_400](), 1)


class Retention(Case):
    def aged(self, days):
        """An execution with an end so many days ago, and a restart of the service."""
        done = self.server.run("print('kept')")
        self.server.stop()
        with sqlite3.connect(self.server.state / "ledger" / "ledger.db") as ledger:
            ledger.execute("UPDATE executions SET finished_at = finished_at - ?1 WHERE id = ?2", (days * DAY, done["id"]))
        ledger.close()
        self.server.start()
        return f"/v1/executions/{done['id']}"

    def test_an_old_record_goes(self):
        self.serve("retention:\n  delete_after_days: 2\n  every_seconds: 1\n")
        old = self.aged(3)
        harness.wait_for("its record to go", lambda: self.server.request("GET", old).status == 404, 10)

    def test_old_output_goes(self):
        self.serve("retention:\n  archive_after_days: 2\n  every_seconds: 1\n")
        old = self.aged(3)
        harness.wait_for("its output to go", lambda: not self.call("GET", old)["stdout"], 10)

    def test_how_many_are_kept(self):
        self.serve("retention:\n  keep_at_most: 1\n  every_seconds: 1\nrun:\n  finished_in_memory: 0\n")
        first, last = self.server.run("1"), self.server.run("2")
        status = lambda run: self.server.request("GET", f"/v1/executions/{run['id']}").status
        harness.wait_for("the first to go", lambda: status(first) == 404, 10)
        self.assertEqual(status(last), 200)


if __name__ == "__main__":
    unittest.main()
