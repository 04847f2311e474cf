# SPDX-License-Identifier: Apache-2.0
"""The audit log's signed head, published elsewhere: a log rewritten as a whole is detected."""

import base64
import collections
import contextlib
import hashlib
import hmac
import json
import os
import pathlib
import shutil
import sqlite3
import subprocess
import tempfile
import unittest

import harness
import hooks

SECRET = "0123456789abcdef0123456789abcdef"


def canonical(row):
    """The hashed bytes of a row of the table `audit`."""
    names = ("number", "at", "action", "subject", "tenant", "app", "agent", "user", "key_id")
    entry = {name.replace("key_id", "key").replace("number", "seq"): row[name] for name in names}
    entry["details"], entry["prev"] = json.loads(row["details"]), row["prev"]
    return json.dumps(entry, ensure_ascii=False, separators=(",", ":"))


class Attacker:
    """An attacker with write access to the ledger, and with the private key."""

    def __init__(self, state):
        self.state = state
        self.key = base64.b64decode((state / "keys/audit.key").read_text())
        self.db = sqlite3.connect(state / "ledger/ledger.db", isolation_level=None)
        self.db.row_factory = sqlite3.Row
        self.db.executescript("DROP TRIGGER IF EXISTS audit_is_not_changed; DROP TRIGGER IF EXISTS audit_is_not_cut")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.db.close()

    def sign(self, text):
        with tempfile.TemporaryDirectory() as place:
            der = bytes.fromhex("302e020100300506032b657004220420") + self.key
            pathlib.Path(place, "key").write_bytes(der)
            pathlib.Path(place, "text").write_bytes(text.encode())
            done = subprocess.run(["openssl", "pkeyutl", "-sign", "-rawin", "-keyform", "DER", "-inkey", f"{place}/key",
                                   "-in", f"{place}/text"], capture_output=True, check=True)
        return base64.b64encode(done.stdout).decode()

    def rechain(self, rows):
        """Writes `rows` as the whole log: numbers, links, hashes, the signed head and the file anew."""
        self.db.execute("DELETE FROM audit")
        prev = "0" * 64
        numbers = collections.Counter()
        for position, row in enumerate(rows, 1):
            numbers[row["tenant"]] += 1
            row = {**row, "seq": position, "number": numbers[row["tenant"]], "prev": prev}
            row["hash"] = prev = hashlib.sha256(canonical(row).encode()).hexdigest()
            self.db.execute(f"INSERT INTO audit({','.join(row)}) VALUES({','.join('?' * len(row))})", list(row.values()))
        at = rows[-1]["at"]
        signature = self.sign(f"cloister-audit-checkpoint v1\n{len(rows)}\n{prev}\n{at}\n")
        self.db.execute("DELETE FROM audit_roots")  # the service makes new ones, of this log
        self.db.execute("UPDATE audit_head SET seq=?, hash=?, at=?, signature=?", (len(rows), prev, at, signature))
        line = {"seq": len(rows), "hash": prev, "at": at, "key": self.key_id(), "signature": signature}
        for file in ("audit.checkpoints", "audit.anchor"):
            (self.state / "ledger" / file).write_text(json.dumps(line) + "\n")

    def key_id(self):
        return self.db.execute("SELECT key_id FROM audit_head").fetchone()[0]

    def rows(self):
        return [dict(row) for row in self.db.execute("SELECT * FROM audit ORDER BY seq")]


class Rewritten(unittest.TestCase):
    """ADVERSARIAL: each attack on a copy of the same state, detected with the published head."""

    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(cls.enterClassContext(tempfile.TemporaryDirectory()))
        cls.folder.chmod(0o777)
        cls.published = cls.folder / "published.jsonl"
        cls.state = cls.folder / "state"
        cls.state.mkdir()
        cls.config = f"audit:\n  publish: {{file: {cls.published}, every_seconds: 1}}\n"
        with harness.Server(config=cls.config, state=cls.state) as server:
            for number in range(5):
                server.submit(f"echo {number}", "bash")
            cls.wait_for_all(server)
            (cls.folder / "audit.pub").write_text(server.request("GET", "/v1/audit/public-key").json()["public_key"])

    @classmethod
    def wait_for_all(cls, server, published=None):
        published = published or cls.published

        def covered():
            last = json.loads(server.request("GET", "/v1/audit/export").text.splitlines()[-1])["position"]
            lines = published.read_text().splitlines() if published.exists() else []
            return lines and json.loads(lines[-1])["seq"] >= last

        harness.wait_for("the head to be published", covered, 30)

    def verify(self, server, *more):
        return server.cli("audit", "verify", "--against", self.folder / "kept.jsonl", "--key",
                          self.folder / "audit.pub", *more)

    @contextlib.contextmanager
    def attacked(self, attack, config=None):
        """A server on a copy of the state, after `attack`; its own publications are not kept, unless `config` says so."""
        shutil.copy2(self.published, self.folder / "kept.jsonl")
        os.chmod(self.folder / "kept.jsonl", 0o666)
        copy = pathlib.Path(tempfile.mkdtemp(prefix="attacked.", dir=self.folder))
        subprocess.run(["cp", "-a", f"{self.state}/.", copy], check=True)
        if attack:
            with Attacker(copy) as attacker:
                attack(attacker)
        with harness.Server(config=config, state=copy) as server:
            yield server

    def expect(self, attack, words):
        with self.attacked(attack) as server:
            found = self.verify(server)
            self.assertEqual(found.returncode, 1, found.stdout + found.stderr)
            self.assertIn("BROKEN: ", found.stdout)
            self.assertRegex(found.stdout, words)

    def test_an_honest_log_holds(self):
        with self.attacked(lambda attacker: None) as server:
            server.submit(":", "bash")
            found = self.verify(server)
            self.assertEqual(found.returncode, 0, found.stdout + found.stderr)
            self.assertRegex(found.stdout, r"^ok: \d+ entries, [1-9]\d* published checkpoints, head [0-9a-f]{64}\n$")
            report = json.loads(self.verify(server, "--json").stdout)
            self.assertEqual((report["ok"], report["problem"]), (True, ""))
            self.assertEqual(report["checkpoints"], report["published"])

    def test_a_chain_that_was_rewritten_as_a_whole(self):
        def attack(attacker):
            rows = attacker.rows()
            rows[5]["subject"] = "exec_forged"
            attacker.rechain(rows)

        self.expect(attack, r"entry \d+: was published with another hash")

    def forge_a_name(self, attacker):
        rows = attacker.rows()
        keys = next(row for row in rows if row["action"].startswith("key."))
        keys["details"] = json.dumps({**json.loads(keys["details"]), "name": "forged"}, sort_keys=True,
                                     separators=(",", ":"))
        attacker.rechain(rows)

    def test_it_is_whole_to_who_has_nothing_from_outside(self):
        with self.attacked(self.forge_a_name) as server:
            alone = server.cli("audit", "verify")
            self.assertEqual(alone.returncode, 0, "with the key, the log can be made whole: " + alone.stdout)
            self.assertEqual(self.verify(server).returncode, 1)

    def test_the_service_finds_it_where_it_publishes_and_does_not_forget(self):
        config = f"audit:\n  publish: {{file: {self.folder}/kept.jsonl, every_seconds: 1}}\n"
        with self.attacked(lambda attacker: attacker.rechain(attacker.rows()[:-4]), config) as server:
            for number in range(5):
                server.submit(f"echo {number}", "bash")
            self.wait_for_all(server, self.folder / "kept.jsonl")
        with harness.Server(config=config, state=server.state) as server:
            found = server.cli("audit", "verify")
            self.assertEqual(found.returncode, 1, found.stdout)
            self.assertRegex(found.stdout, r"the ledger was found changed here: .*entry \d+ is missing: entry \d+ was published")
            rows = server.request("GET", "/v1/audit?action=ledger.recovered&limit=100").json()["entries"]
            self.assertEqual(len(rows), 1, "it is recorded once")
            findings = server.request("GET", "/v1/doctor").json()["findings"]
            lost = [each for each in findings if (each["area"], each["name"]) == ("audit", "log")]
            self.assertIn("was published with another hash", lost[0]["detail"])
            self.assertIn("audit log is not as it was left", server.log.read_text(errors="replace"))

    def test_its_roots_show_it(self):
        """An attacker who forgets the roots over the log's periods."""
        def attack(attacker):
            roots = attacker.db.execute("SELECT * FROM audit_roots").fetchall()
            self.forge_a_name(attacker)
            attacker.db.executemany("INSERT INTO audit_roots VALUES (" + ",".join("?" * 11) + ")",
                                    [tuple(root) for root in roots])

        with self.attacked(attack) as server:
            alone = server.cli("audit", "verify")
            self.assertEqual(alone.returncode, 1, alone.stdout)
            self.assertRegex(alone.stdout, r"root \d+: it is not of the log that ends with entry \d+")

    def test_an_entry_less(self):
        self.expect(lambda attacker: attacker.rechain([row for row in attacker.rows() if row["seq"] != 7]),
                    r"was published with another hash|is missing")

    def test_an_entry_more(self):
        def attack(attacker):
            rows = attacker.rows()
            attacker.rechain(rows[:6] + [dict(rows[6], subject="exec_more")] + rows[6:])

        self.expect(attack, r"entry \d+: was published with another hash")

    def test_two_swapped(self):
        def attack(attacker):
            rows = attacker.rows()
            rows[5], rows[6] = rows[6], rows[5]
            attacker.rechain(rows)

        self.expect(attack, r"entry \d+: was published with another hash")

    def test_a_cut_tail(self):
        self.expect(lambda attacker: attacker.rechain(attacker.rows()[:-4]),
                    r"is missing: entry \d+ was published|was published with another hash")

    def test_a_flipped_byte(self):
        self.expect(lambda attacker: attacker.db.execute("UPDATE audit SET subject='x' WHERE seq=4"),
                    r"entry 4: its bytes do not match its hash")

    def test_checkpoints_of_another_key(self):
        with self.attacked(lambda attacker: None) as server, harness.Server() as other:
            (self.folder / "other.pub").write_text(other.request("GET", "/v1/audit/public-key").json()["public_key"])
            found = server.cli("audit", "verify", "--against", self.folder / "kept.jsonl", "--key", self.folder / "other.pub")
            self.assertEqual(found.returncode, 1)
            self.assertIn("is signed by another key", found.stdout)
            (self.folder / "empty").write_text("")
            found = server.cli("audit", "verify", "--against", self.folder / "empty")
            self.assertIn("the file has no checkpoint", found.stdout)
            found = server.cli("audit", "verify", "--against", self.folder / "none")
            self.assertNotEqual(found.returncode, 0)


    def test_one_tenants_export_is_neither_whole_nor_broken(self):
        with self.attacked(lambda attacker: None) as server:
            made = server.request("POST", "/v1/keys", {"tenant": "acme", "name": "t", "roles": ["tenant-admin"]})
            env = {"CLOISTER_API_KEY": made.json()["secret"]}
            own = server.request("POST", "/v1/keys", {"name": "a", "roles": ["agent"]}, key=made.json()["secret"])
            self.assertEqual(own.status, 201, own.body)
            args = ("audit", "verify", "--against", self.folder / "kept.jsonl", "--key", self.folder / "audit.pub")
            found = server.cli(*args, env=env)
            self.assertEqual((found.returncode, found.stdout), (1, ""), found.stderr)
            self.assertIn("nothing is verified: this export is one tenant's, or begins later", found.stderr)
            report = json.loads(server.cli(*args, "--json", env=env).stdout)
            self.assertEqual((report["ok"], report["incomplete"]), (False, True))
            self.assertFalse(json.loads(self.verify(server, "--json").stdout)["incomplete"])


class Published(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.folder.chmod(0o777)
        (self.folder / "secret").write_text(SECRET + "\n")
        (self.folder / "secret").chmod(0o644)

    def config(self, hook):
        return ("audit:\n  publish:\n    every_seconds: 1\n    webhook:\n"
                f"      url: http://127.0.0.1:{hook.server_address[1]}/checkpoints\n"
                f"      secret_file: {self.folder}/secret\n")

    def test_to_a_webhook(self):
        hook = hooks.webhook(failures=2)
        try:
            with harness.Server(config=self.config(hook)) as server:
                server.submit(":", "bash")
                last = json.loads(server.request("GET", "/v1/audit/export").text.splitlines()[-1])["position"]

                def taken():
                    return [json.loads(body)["checkpoint"]["seq"] for _, body in list(hook.received)[2:]]

                harness.wait_for("the head at the webhook", lambda: taken() and taken()[-1] >= last, 30)
                metrics = server.metrics()
                self.assertGreaterEqual(metrics['cloister_audit_published_entry{place="webhook"}'], last)
                self.assertEqual(metrics['cloister_audit_publish_failures_total{place="webhook"}'], 2)
            self.assertEqual(taken(), sorted(set(taken())), "each once, in order")
            for headers, body in hook.received:
                signed = f"{headers['X-Cloister-Timestamp']}.".encode() + body
                self.assertEqual(headers["X-Cloister-Signature"],
                                 "v1=" + hmac.new(SECRET.encode(), signed, hashlib.sha256).hexdigest())
                told = json.loads(body)
                self.assertEqual(told["event"], "audit.checkpoint")
                self.assertEqual(str(told["delivery"]), headers["X-Cloister-Delivery"])
                self.assertEqual(set(told["checkpoint"]), {"seq", "hash", "at", "key", "signature"})
        finally:
            hook.shutdown()
            hook.server_close()

    def test_a_file_that_cannot_be_written_holds_up_nothing(self):
        place = self.folder / "not-yet"
        with harness.Server(config=f"audit:\n  publish: {{file: {place}/published, every_seconds: 1}}\n") as server:
            self.assertEqual(server.submit("echo on", "bash").json()["stdout"], "on\n")
            failures = 'cloister_audit_publish_failures_total{place="file"}'
            harness.wait_for("a failure", lambda: server.metrics().get(failures, 0) >= 1, 30)
            place.mkdir()
            place.chmod(0o777)
            harness.wait_for("the file", lambda: (place / "published").exists(), 30)

    def test_a_log_behind_what_was_published_is_told_of(self):
        published = self.folder / "published"
        published.write_text(json.dumps({"seq": 1000, "hash": "0" * 64, "at": 1, "key": "0" * 16, "signature": "x"}) + "\n")
        published.chmod(0o666)
        with harness.Server(config=f"audit:\n  publish: {{file: {published}, every_seconds: 1}}\n") as server:
            harness.wait_for("the log's word", lambda: "ends before what was published" in
                             server.log.read_text(errors="replace"), 30)

    def said(self, config):
        server = harness.Server(config=f"audit:\n  publish: {{{config}}}\n", ready=False)
        with contextlib.suppress(AssertionError):
            with server:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    server.process.wait(10)
                return server.log_tail()

    def test_mistakes_name_their_key(self):
        for config, words in (("webhook: {url: 'ftp://x'}", "audit.publish.webhook.url"),
                              ("webhook: {url: 'https://x.test/'}", "audit.publish.webhook.secret_file"),
                              ("every_seconds: 0", "audit.publish.every_seconds")):
            with self.subTest(config):
                self.assertIn(words, self.said(config))


if __name__ == "__main__":
    unittest.main()
