# SPDX-License-Identifier: Apache-2.0
"""Signed receipts of executions, verified with nothing but the public key."""

import copy
import hashlib
import json
import pathlib
import shutil
import sqlite3
import subprocess
import tempfile
import unittest

import api_case
import harness


def setUpModule():
    api_case.start_server()


def leaves(value, path=()):
    """The path of each value without inner values."""
    if isinstance(value, dict) and value:
        return [leaf for name in value for leaf in leaves(value[name], (*path, name))]
    if isinstance(value, list) and value:
        return [leaf for index in range(len(value)) for leaf in leaves(value[index], (*path, index))]
    return [path]


def sha256(text):
    return hashlib.sha256(text.encode()).hexdigest()


def changed(value):
    """Another value of its kind."""
    if value is None:
        return 7
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return value + 1
    if isinstance(value, str):
        return value + "x"
    return ["x"] if isinstance(value, list) else {"x": 1}


class ReceiptTest(api_case.ApiTest):
    def setUp(self):
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        # An auditor's means: the program, and the key.
        shutil.copy2(harness.BIN / "cloister", self.folder / "cloister")
        key = self.call("GET", "/v1/audit/public-key", status=200).json()
        (self.folder / "audit.pub").write_text(key["public_key"] + "\n")

    def receipt(self, execution):
        return self.call("GET", f"/v1/executions/{execution['id']}/receipt", status=200).json()

    def verify(self, receipt, key="audit.pub"):
        """By the command line, in a directory with nothing else and an empty environment."""
        (self.folder / "receipt.json").write_text(receipt if isinstance(receipt, str) else json.dumps(receipt))
        return subprocess.run(["./cloister", "audit", "verify-receipt", "receipt.json", "--key", key],
                              cwd=self.folder, env={}, capture_output=True, text=True, timeout=60)


class Receipts(ReceiptTest):
    def test_tells_what_was_run(self):
        done = self.run_code("import sys; print('out'); print('err', file=sys.stderr)\n"
                             "open('a.txt', 'w').write('kept')", artifacts=["*.txt"])
        receipt = self.receipt(done)
        self.assertEqual(receipt["execution_id"], done["id"])
        self.assertEqual(receipt["result"], {"status": "completed", "exit_code": 0, "signal": "", "error": ""})
        self.assertEqual(receipt["principal"], done["principal"])
        self.assertEqual(receipt["outputs"]["stdout"], {"sha256": sha256("out\n"), "bytes": 4})
        self.assertEqual(receipt["outputs"]["stderr"], {"sha256": sha256("err\n"), "bytes": 4})
        self.assertEqual([(a["path"], a["sha256"]) for a in receipt["outputs"]["artifacts"]],
                         [("a.txt", sha256("kept"))])
        self.assertEqual(receipt["permit_id"], done["provenance"]["permit_id"])
        self.assertEqual(receipt["sandbox"]["weakened"], done["provenance"]["weakened"])
        self.assertEqual(receipt["usage"], done["resource_usage"])
        rows = [json.loads(line) for line in self.call("GET", "/v1/audit/export").text.splitlines()]
        of = {row["action"]: row for row in rows if row["subject"] == done["id"]}
        for name, action in (("accepted", "execution.accepted"), ("ended", "execution.finished")):
            row = of[action]
            self.assertEqual(receipt["audit"][name], {"seq": row["seq"], "prev": row["prev"], "hash": row["hash"]})
        self.assertEqual(receipt["request"]["sha256"], of["execution.accepted"]["details"]["request_sha256"])
        self.assertEqual(receipt["request"]["program_sha256"], of["execution.accepted"]["details"]["spec_sha256"])
        self.assertEqual(self.receipt(done), receipt, "the same each time")
        verified = self.verify(receipt)
        self.assertEqual((verified.returncode, verified.stderr), (0, ""), verified.stdout)
        self.assertRegex(verified.stdout, rf"^ok: {done['id']} completed, signed by [0-9a-f]{{16}}, audit entry \d+, "
                         rf"image {done['provenance']['image_digest']}\n$")

    def test_each_tampered_field_fails_by_name(self):
        receipt = self.receipt(self.run_code("exit 3", "bash"))
        facts = {name: value for name, value in receipt.items() if name not in ("fields", "signature", "format")}
        paths = leaves(facts)
        self.assertGreater(len(paths), 40)
        for path in paths:
            bad = copy.deepcopy(receipt)
            at = bad
            for name in path[:-1]:
                at = at[name]
            at[path[-1]] = changed(at[path[-1]])
            pointer = "/" + "/".join(map(str, path))
            with self.subTest(pointer):
                verified = self.verify(bad)
                self.assertEqual(verified.returncode, 1, verified.stdout)
                self.assertIn(f"BROKEN: {pointer}", verified.stdout)
                del at[path[-1]]
                verified = self.verify(bad)
                self.assertEqual(verified.returncode, 1, verified.stdout)
                self.assertIn("was removed", verified.stdout)

    def test_whole_parts_that_were_replaced(self):
        one, other = (self.receipt(self.run_code(f"exit {code}", "bash")) for code in (0, 1))
        for name, words in (("fields", "/"), ("signature", "/signature/value"), ("format", "/format")):
            bad = copy.deepcopy(one)
            bad[name] = "x" if name == "format" else other[name]
            with self.subTest(name):
                verified = self.verify(bad)
                self.assertEqual(verified.returncode, 1)
                self.assertIn(f"BROKEN: {words}", verified.stdout)
        for text in ("", "[]", "{", "{}", '{"fields":{},"signature":{}}', "null", '{"a":' * 200):
            with self.subTest(text[:40]):
                verified = self.verify(text)
                self.assertEqual(verified.returncode, 1, verified.stdout)
                self.assertIn("BROKEN: ", verified.stdout)

    def test_none_is_signed_of_a_record_that_was_changed(self):
        """Changed by an attacker with write access to the ledger: the key must not vouch for the record."""
        done = self.run_code("exit 3", "bash")
        receipt = self.receipt(done)
        database = sqlite3.connect(pathlib.Path(self.server.state) / "ledger" / "ledger.db", isolation_level=None)
        self.addCleanup(database.close)
        other = self.run_code("exit 0", "bash")

        def row_of(execution):
            return database.execute("SELECT record, encrypted FROM executions WHERE id=?", (execution["id"],)).fetchone()

        def details_of(entry):
            return database.execute("SELECT details FROM audit WHERE hash=?", (entry["hash"],)).fetchone()[0]

        kept = row_of(done)
        self.assertEqual(kept[1], 1, "it is encrypted")
        forge = "UPDATE executions SET record=?, encrypted=? WHERE id=?"
        try:
            for forged in (row_of(other), ('{"exit_code":0}', 1), ('{"exit_code":0}', 0)):
                with self.subTest(forged):
                    database.execute(forge, (*forged, done["id"]))
                    answer = self.call("GET", f"/v1/executions/{done['id']}/receipt", status=409)
                    self.assertIn("is not the one of audit entry", answer.json()["detail"])
            database.execute(forge, (*kept, done["id"]))
            entry = receipt["audit"]["ended"]
            details, digest = details_of(entry), json.loads(details_of(entry))["record_sha256"]
            (trigger,) = database.execute("SELECT sql FROM sqlite_master WHERE name='audit_is_not_changed'").fetchone()
            database.execute("DROP TRIGGER audit_is_not_changed")
            change = "UPDATE audit SET details=? WHERE hash=?"
            database.execute(change, (details.replace(digest, hashlib.sha256(b"another").hexdigest()), entry["hash"]))
            answer = self.call("GET", f"/v1/executions/{done['id']}/receipt", status=409)
            self.assertIn("is not as it was written", answer.json()["detail"])
            database.execute(change, (details, entry["hash"]))
            database.execute(trigger)
        finally:
            database.execute(forge, (*kept, done["id"]))
        self.assertEqual(self.receipt(done), receipt)

    def test_keys(self):
        receipt = self.receipt(self.run_code(":", "bash"))
        with harness.Server() as other:
            key = other.request("GET", "/v1/audit/public-key").json()["public_key"]
        (self.folder / "other.pub").write_text(key)
        self.assertIn("BROKEN: /signature/key", self.verify(receipt, "other.pub").stdout)
        (self.folder / "none.pub").write_text("none")
        refused = self.verify(receipt, "none.pub")
        self.assertEqual((refused.returncode, refused.stdout), (2, ""))
        self.assertIn("has no public key", refused.stderr)
        self.assertEqual(self.verify(receipt, "absent.pub").returncode, 4)
        file = (self.server.state / "keys/audit.pub").read_text().strip()
        self.assertEqual(file, (self.folder / "audit.pub").read_text().strip())

    def test_of_every_end(self):
        ends = {"completed": self.run_code("exit 9", "bash"),
                "timed_out": self.run_code("sleep 60", "bash", timeout_seconds=0.3),
                "cancelled": self.cancel(self.start("sleep 60"))}
        for status, execution in ends.items():
            with self.subTest(status):
                receipt = self.receipt(execution)
                self.assertEqual(receipt["result"]["status"], status)
                self.assertEqual(self.verify(receipt).returncode, 0)

    def test_none_while_it_runs(self):
        execution = self.start("sleep 60")
        path = f"/v1/executions/{execution['id']}/receipt"
        self.assertProblem(self.call("GET", path), 409)
        self.cancel(execution)
        self.call("GET", path, status=200)

    def test_what_is_not_yours_does_not_exist(self):
        execution = self.run_code(":", "bash")
        key = self.new_key("elsewhere")["secret"]
        path = f"/v1/executions/{execution['id']}/receipt"
        self.assertProblem(self.call("GET", path, key=key), 404)
        none = self.call("GET", "/v1/executions/exec_00000000000000000000000000/receipt")
        self.assertProblem(none, 404)
        self.call("GET", path, key=False, status=401)

    def test_by_the_command_line(self):
        execution = self.run_code(":", "bash")
        printed = self.server.cli("audit", "receipt", execution["id"])
        self.assertEqual(printed.returncode, 0, printed.stderr)
        self.assertEqual(self.verify(printed.stdout).returncode, 0)
        key = self.server.cli("audit", "public-key")
        self.assertEqual(key.stdout, (self.folder / "audit.pub").read_text())
        verdict = subprocess.run([self.folder / "cloister", "audit", "verify-receipt", "receipt.json", "--key",
                                  "audit.pub", "--json"], cwd=self.folder, env={}, capture_output=True, text=True)
        self.assertEqual(json.loads(verdict.stdout), {"ok": True, "field": "", "problem": ""})
        self.assertIn("BROKEN: this is not a receipt: ", self.verify("[]").stdout)
        public = self.folder / "audit.pub"
        for args, status, words in (
                (("audit", "receipt"), 2, "which execution"), (("audit", "verify-receipt"), 2, "which receipt"),
                (("audit", "verify-receipt", "x"), 2, "--key: is required"),
                (("audit", "verify-receipt", "x", "--wrong", public), 2, "--wrong: unknown flag"),
                (("audit", "verify-receipt", self.folder / "absent", "--key", public), 4, "No such file")):
            refused = self.server.cli(*args)
            self.assertEqual((refused.returncode, refused.stdout), (status, ""), refused.stderr)
            self.assertIn(words, refused.stderr)


POLICY = """
version: 2
rules:
  - name: looked-at
    why: bash is looked at first
    match: {languages: [bash]}
    effect: approve
    approve: {roles: [approver]}
  - {name: closed, why: nothing else runs, effect: deny}
"""


class Decided(ReceiptTest):
    @classmethod
    def setUpClass(cls):
        folder = pathlib.Path(cls.enterClassContext(tempfile.TemporaryDirectory()))
        folder.chmod(0o755)
        (folder / "policy.yaml").write_text(POLICY)
        cls.server = harness.Server(config=f"policy: {folder}/policy.yaml\n")
        cls.enterClassContext(cls.server)

    def test_names_who_approved(self):
        held = self.start("echo approved", "bash")
        self.assertProblem(self.call("GET", f"/v1/executions/{held['id']}/receipt"), 409)
        approver = self.new_key("default", roles=["approver"], user="lead")
        escalation = held["error"]["details"]["escalation_id"]
        shown = self.call("POST", f"/v1/escalations/{escalation}:approve", {}, key=approver["secret"], status=200).json()
        done = self.server.wait_end(held["id"])
        receipt = self.receipt(done)
        self.assertEqual(receipt["result"]["status"], "completed", done)
        self.assertEqual(receipt["policy"]["rule"], "looked-at")
        said = receipt["approvals"]
        self.assertEqual([(each["escalation"], each["by"]["user"], each["key"], each["approve"]) for each in said],
                         [(escalation, "lead", approver["id"], True)])
        self.assertRegex(said[0]["bound_to"], r"^sha256:[0-9a-f]{64}$")
        self.assertEqual(said[0]["bound_to"], shown["digest"])
        self.assertEqual(self.verify(receipt).returncode, 0)
        receipt["approvals"][0]["by"]["user"] = "other"
        self.assertIn("BROKEN: /approvals/0/by/user: was changed", self.verify(receipt).stdout)

    def test_of_what_was_denied(self):
        denied = self.run_code("print(1)")
        self.assertEqual(denied["status"], "denied")
        receipt = self.receipt(denied)
        self.assertEqual((receipt["result"]["status"], receipt["policy"]["rule"], receipt["permit_id"]),
                         ("denied", "closed", ""))
        self.assertEqual(receipt["audit"]["accepted"], receipt["audit"]["ended"])
        verified = self.verify(receipt)
        self.assertEqual(verified.returncode, 0, verified.stdout)
        self.assertNotIn("image", verified.stdout)


if __name__ == "__main__":
    unittest.main()
