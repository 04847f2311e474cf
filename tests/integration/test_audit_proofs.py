# SPDX-License-Identifier: Apache-2.0
"""Proofs for single entries of the audit log: for whom, how they break, and what they do not tell."""

import base64
import collections
import copy
import hashlib
import json
import pathlib
import sqlite3
import subprocess
import sys
import tempfile
import time
import unittest

import harness
from api_case import ApiTest

SCRIPT = harness.REPO / "tools" / "verify_audit.py"
VECTOR = json.loads((harness.REPO / "tests" / "data" / "audit_proof.json").read_text())
EVERY = 1
CONFIG = f"audit:\n  roots:\n    every_seconds: {EVERY}\n"
ROOT_TEXT = "cloister-audit-root v1\n{number}\n{begins}\n{ends}\n{root}\n{log}\n{prev}\n"


def setUpModule():
    ApiTest.server = harness.Server(config=CONFIG)
    unittest.enterModuleContext(ApiTest.server)


class Proofs(ApiTest):
    @classmethod
    def setUpClass(cls):
        test = cls()
        cls.dir = pathlib.Path(cls.enterClassContext(tempfile.TemporaryDirectory(prefix="proofs-test.")))
        cls.public = test.call("GET", "/v1/audit/public-key", status=200).json()["public_key"]
        (cls.dir / "audit.pub").write_text(cls.public + "\n")
        cls.acme, cls.other = (test.new_key(name, roles=["tenant-admin"], user="boss")["secret"]
                               for name in ("acme", "other"))
        cls.acme_agent = test.new_key("acme", roles=["agent"])["secret"]
        # An entry with a sealed reason.
        test.call("PUT", "/v1/quotas/tenants/acme", {"runs_per_minute": 1000}, status=200)

    def entries(self, key):
        return self.call("GET", "/v1/audit?limit=1000", key=key, status=200).json()["entries"]

    def proof(self, number, key=None):
        """The proof, once the entry is in a root."""
        def there():
            answer = self.call("GET", f"/v1/audit/entries/{number}/proof", key=key)
            self.assertIn(answer.status, (200, 409), answer.body)
            return answer.status == 200 and answer.json()

        return harness.wait_for("a root with the entry", there, 10 * EVERY, every=0.1)

    def roots(self, key=None):
        found, after = [], 0
        while after is not None:
            page = self.call("GET", f"/v1/audit/roots?limit=50&after={after}", key=key, status=200).json()
            found += page["roots"]
            after = page["next_after"]
        return found

    def verdicts(self, proof, roots=None, key=None):
        """What the command line and the script say, which agree about the exit status."""
        file, kept, public = self.dir / "proof.json", self.dir / "roots.jsonl", self.dir / "audit.pub"
        file.write_text(json.dumps(proof))
        more = []
        if roots is not None:
            kept.write_text("".join(json.dumps(each) + "\n" for each in roots))
            more = ["--roots", kept]
        if key:
            public = self.dir / "another.pub"
            public.write_text(key)
        told = harness.cli("audit", "verify-proof", file, "--key", public, *more)
        script = subprocess.run([sys.executable, SCRIPT, "--proof", file, "--key", public.read_text().strip(), *more],
                                capture_output=True, text=True, check=False)
        self.assertEqual(told.returncode, script.returncode, f"{told.stdout}{told.stderr}{script.stdout}{script.stderr}")
        return told.returncode, told.stdout + told.stderr, script.stdout + script.stderr

    def assertBroken(self, proof, *words, **more):
        status, told, script = self.verdicts(proof, **more)
        self.assertEqual(status, 1, told)
        for each in words:
            self.assertIn(each, told)
        self.assertRegex(script, "BROKEN: .")

    # --- what is proven

    def test_a_tenant_proves_each_of_its_entries(self):
        entries = self.entries(self.acme)
        self.assertGreater(len(entries), 1)
        kept = None
        for entry in entries:
            proof = self.proof(entry["seq"], self.acme)
            self.assertNotIn("position", proof["entry"])
            self.assertEqual((proof["entry"]["hash"], proof["entry"]["tenant"]), (entry["hash"], "acme"))
            status, told, script = self.verdicts(proof)
            self.assertEqual(status, 0, told)
            self.assertRegex(told, rf"^ok: entry {entry['seq']} of tenant acme \({entry['action']}\) is in root \d+, ")
            self.assertRegex(script, rf"^ok: entry {entry['seq']} of tenant acme is in root \d+$")
        kept = self.roots(self.acme)
        self.assertIn(proof["record"], kept)
        self.assertEqual(self.verdicts(proof, kept)[0], 0)

    def test_an_administrator_names_the_position(self):
        entry = self.entries(None)[-1]
        proof = self.proof(entry["position"])
        self.assertEqual((proof["entry"]["position"], proof["entry"]["hash"]), (entry["position"], entry["hash"]))
        self.assertEqual(self.verdicts(proof)[0], 0)
        own = self.proof(self.entries(self.acme)[0]["seq"], self.acme)
        self.assertEqual(own["entry"]["tenant"], "acme")

    def test_sealed_text_is_proven_too(self):
        self.call("POST", "/v1/agents/sealer/sandbox", {"level": "isolated"}, key=self.acme, status=201)
        agent = self.call("POST", "/v1/keys", {"name": "s", "roles": ["agent"], "agent": "sealer"}, key=self.acme,
                          status=201).json()["secret"]
        self.call("POST", "/v1/executions?wait=30", {"command": "sudo id"}, key=agent)
        entry = [each for each in self.entries(self.acme) if each["action"] == "agent.violation"][-1]
        proof = self.proof(entry["seq"], self.acme)
        self.assertEqual(proof["entry"]["sealed"]["what"]["value"], entry["details"]["what"])
        self.assertEqual(self.verdicts(proof)[0], 0)
        bad = copy.deepcopy(proof)
        bad["entry"]["sealed"]["what"]["value"] += "x"
        self.assertBroken(bad, "entry.sealed.what")

    def test_the_roots_form_one_row_for_all(self):
        first = harness.wait_for("three roots", lambda: len(found := self.roots()) >= 3 and found, 20)
        self.assertEqual([each["number"] for each in first], list(range(1, len(first) + 1)))
        self.assertEqual(first[0]["prev"], "0" * 64)
        for before, after in zip(first, first[1:]):
            self.assertEqual(after["prev"], hashlib.sha256(ROOT_TEXT.format(**before).encode()).hexdigest())
            self.assertEqual(after["begins"], before["ends"])
            self.assertEqual(after["ends"] % (EVERY * 1_000_000), 0)
        for key in (self.acme, self.other):
            self.assertEqual(self.roots(key)[:len(first)], first)
        told = self.server.cli("audit", "roots", "--after", "1")
        self.assertEqual([json.loads(line) for line in told.stdout.splitlines()][:len(first) - 1], first[1:])

    def test_the_log_verifies_with_its_roots(self):
        done = self.server.cli("audit", "verify")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    # --- what breaks

    def test_any_flipped_byte_is_found(self):
        proof = self.proof(self.entries(self.acme)[0]["seq"], self.acme)
        flip = lambda text, at: text[:at] + ("0" if text[at] != "0" else "1") + text[at + 1:]

        def changed(change):
            bad = copy.deepcopy(proof)
            change(bad)
            return bad

        def set_entry(name, value):
            return lambda bad: bad["entry"].update({name: value})

        for name, value in (("seq", 999), ("at", 1), ("action", "key.revoked"), ("subject", "x"), ("tenant", "other"),
                            ("app", "x"), ("agent", "x"), ("user", "x"), ("key", "x"), ("details", {}),
                            ("prev", "0" * 63 + "1")):
            self.assertBroken(changed(set_entry(name, value)), "its bytes do not match its hash")
        self.assertBroken(changed(lambda bad: bad["entry"].update(hash=flip(bad["entry"]["hash"], 5))), "entry")
        for at in (0, 1, 31, 32, 62, 63):
            self.assertBroken(changed(lambda bad: bad["siblings"].__setitem__(at, flip(bad["siblings"][at], 17))),
                              "they do not lead from the entry to root")
        self.assertBroken(changed(lambda bad: bad.update(place=flip(bad["place"], 15))), "they do not lead")
        self.assertBroken(changed(lambda bad: bad["siblings"].reverse()), "they do not lead")
        self.assertBroken(changed(lambda bad: bad["record"].update(root=flip(bad["record"]["root"], 0))), "they do not lead")
        for name, value in (("number", 99), ("begins", 1), ("ends", 2), ("log", "0" * 64), ("prev", "1" * 64)):
            self.assertBroken(changed(lambda bad: bad["record"].update({name: value})), "a signature that is not valid")
        signature = bytearray(base64.b64decode(proof["record"]["signature"]))
        signature[7] ^= 1
        self.assertBroken(changed(lambda bad: bad["record"].update(signature=base64.b64encode(signature).decode())),
                          "a signature that is not valid")
        self.assertBroken(proof, "is signed by another key", key=VECTOR["public_key"])
        for change, words in ((lambda bad: bad.update(version=2), "version: must be 1"),
                              (lambda bad: bad.update(more=1), "more"),
                              (lambda bad: bad["siblings"].pop(), "siblings: must be a list of 64 digests"),
                              (lambda bad: bad["siblings"].append("0" * 64), "siblings: must be a list of 64 digests"),
                              (lambda bad: bad["siblings"].__setitem__(3, "A" * 64), "siblings[3]"),
                              (lambda bad: bad.update(place="0"), "place: must be 16"),
                              (lambda bad: bad["record"].pop("log"), "record.log")):
            self.assertBroken(changed(change), words)

    def test_what_was_not_verified_is_not_broken(self):
        """A script tells a typing error from a proof that does not hold."""
        file, public, absent = self.dir / "some.json", self.dir / "audit.pub", self.dir / "absent"
        text = self.dir / "text"
        text.write_text("no key")
        file.write_text(json.dumps(self.proof(self.entries(self.acme)[0]["seq"], self.acme)))
        for args, status, words in (((), 2, "which proof"), ((file,), 2, "--key: is required"), ((file, "--key", text), 2, "has no public key"),
                                    ((absent, "--key", public), 4, "No such file"), ((file, "--key", absent), 4, "No such file"),
                                    ((file, "--key", public, "--roots", absent), 4, "No such file")):
            told = harness.cli("audit", "verify-proof", *args)
            self.assertEqual((told.returncode, told.stdout), (status, ""), told.stderr)
            self.assertIn(words, told.stderr)
        for text in ("", "[]", "{"):
            file.write_text(text)
            told = harness.cli("audit", "verify-proof", file, "--key", public)
            self.assertEqual(told.returncode, 1, told.stderr)
            self.assertIn("BROKEN: ", told.stdout)

    def test_kept_roots_show_another_log(self):
        proof = self.proof(self.entries(self.acme)[0]["seq"], self.acme)
        kept = self.roots()
        number = proof["record"]["number"]
        self.assertBroken(proof, f"the kept roots have no root {number}",
                          roots=[each for each in kept if each["number"] > number])
        other = copy.deepcopy(kept)
        other[number - 1]["root"] = "0" * 64
        self.assertBroken(proof, f"root {number} has a signature that is not valid", roots=other)
        if len(kept) > 2:
            self.assertBroken(proof, "root 1 is followed by root 3", roots=kept[:1] + kept[2:])

    def test_the_vector_of_the_document(self):
        self.assertEqual(self.verdicts(VECTOR["proof"], [VECTOR["proof"]["record"]], VECTOR["public_key"])[0], 0)

    # --- for whom

    def test_only_for_readers_of_the_entry(self):
        numbers = {each["seq"] for each in self.entries(self.other)}
        foreign = [each for each in self.entries(None) if each["tenant"] == "acme"]
        unknown = self.call("GET", "/v1/audit/entries/999999/proof", key=self.other)
        self.assertProblem(unknown, 404)
        for entry in foreign:
            for number in (entry["position"], entry["seq"]):
                if number in numbers:
                    proof = self.proof(number, self.other)
                    self.assertEqual(proof["entry"]["tenant"], "other", "its own entry of this number")
                    continue
                answer = self.call("GET", f"/v1/audit/entries/{number}/proof", key=self.other)
                self.assertProblem(answer, 404)
                self.assertEqual(answer.json()["detail"].replace(str(number), "999999"), unknown.json()["detail"])
        for text in ("0", "x", "-1", "1.5", "99999999999999999999"):
            self.assertEqual(self.server.request("GET", f"/v1/audit/entries/{text}/proof").status, 404)
        for role in ("viewer", "agent", "operator"):
            key = self.new_key("acme", roles=[role])["secret"]
            for path in ("/v1/audit/roots", f"/v1/audit/entries/{foreign[0]['seq']}/proof"):
                self.assertEqual(self.call("GET", path, key=key).status, 403)
        for bad in ("after=-1", "limit=0", "limit=1001", "more=1"):
            self.assertEqual(self.server.request("GET", f"/v1/audit/roots?{bad}").status, 400, bad)

    def test_not_yet(self):
        self.call("POST", "/v1/keys", {"name": "late", "roles": ["viewer"]}, key=self.acme, status=201)
        number = self.entries(self.acme)[-1]["seq"]
        answer = self.call("GET", f"/v1/audit/entries/{number}/proof", key=self.acme)
        if answer.status == 409:  # else a root was made in between
            self.assertRegex(answer.json()["detail"], r"is in no root yet; ask again after 20\d\d-\d\d-\d\dT")
        self.proof(number, self.acme)

    # --- what is not told

    def test_a_proof_tells_nothing_of_other_entries(self):
        """Alone in its period, or among some hundred entries of another tenant."""
        def own(others):
            start = len(self.roots())
            harness.wait_for("a fresh period", lambda: len(self.roots()) > start, 10, every=0.05)
            for _ in range(others):
                self.server.request("POST", "/v1/keys", {"name": "more", "roles": ["viewer"]}, key=self.other)
            self.call("POST", "/v1/keys", {"name": "own", "roles": ["viewer"]}, key=self.acme, status=201)
            proof = self.proof(self.entries(self.acme)[-1]["seq"], self.acme)
            with sqlite3.connect(f"file:{self.server.state}/ledger/ledger.db?mode=ro", uri=True) as ledger:
                first, last = ledger.execute("SELECT first_row, last_row FROM audit_roots WHERE number=?",
                                             (proof["record"]["number"],)).fetchone()
            return last - first + 1, proof

        few, alone = own(0)
        many, among = own(80)
        self.assertGreater(many, few + 20, "the periods differ")
        shape = lambda proof: (len(proof["siblings"]), len(proof["place"]), sorted(proof), sorted(proof["record"]))
        self.assertEqual(shape(alone), shape(among))
        siblings = [len(json.dumps(each["siblings"])) for each in (alone, among)]
        self.assertEqual(siblings[0], siblings[1])
        for proof in (alone, among):
            self.assertEqual(len(set(proof["siblings"])), 64, "no digest stands for every empty subtree")
            digits = collections.Counter("".join(proof["siblings"]))
            # 4096 digits of 16 kinds: 256 of each, with a deviation of 15.5; 7 deviations are one in 10^11.
            self.assertLess(max(abs(count - 256) for count in digits.values()), 110, digits)
        shared = set(alone["siblings"]) & set(among["siblings"])
        self.assertEqual(shared, set(), "each period has a secret of its own")

    def test_silent_periods_have_roots_too(self):
        """Without any entry, and so without a sign of it."""
        start = self.roots()
        time.sleep(2.5 * EVERY)
        now = self.roots()
        self.assertGreaterEqual(len(now), len(start) + 2)
        self.assertEqual(len({each["root"] for each in now}), len(now))
        self.assertEqual(len({each["log"] for each in now}), len(now))

    def test_no_answer_comes_at_once(self):
        number = self.entries(self.acme)[0]["seq"]
        self.proof(number, self.acme)
        began = time.monotonic()
        self.proof(number, self.acme)
        self.assertGreaterEqual(time.monotonic() - began, 0.1)


class Lives(unittest.TestCase):
    def roots(self, server):
        return server.request("GET", "/v1/audit/roots?limit=1000").json()["roots"]

    def test_a_restart_and_a_tampered_ledger(self):
        with tempfile.TemporaryDirectory(prefix="proofs-test.") as state:
            pathlib.Path(state).chmod(0o755)
            with harness.Server(config=CONFIG, state=state) as server:
                before = harness.wait_for("roots", lambda: len(found := self.roots(server)) >= 2 and found, 20)
            with harness.Server(config=CONFIG, state=state) as server:
                after = harness.wait_for("more", lambda: len(found := self.roots(server)) >= len(before) + 2 and found, 20)
                self.assertEqual(after[:len(before)], before)
                for first, second in zip(after, after[1:]):
                    self.assertEqual(second["begins"], first["ends"], "the next record covers the pause")
                self.assertEqual(server.cli("audit", "verify").returncode, 0)
            self.tamper(state, "UPDATE audit_roots SET root='" + "0" * 64 + "' WHERE number=2",
                        r"root 2 .*signature that is not valid")

    def tamper(self, state, sql, said):
        with sqlite3.connect(f"{state}/ledger/ledger.db") as ledger:
            ledger.execute(sql)
        with harness.Server(config=CONFIG, state=state) as server:
            done = server.cli("audit", "verify")
            self.assertEqual(done.returncode, 1, done.stdout)
            self.assertRegex(done.stdout, said)

    def test_how_often_and_how_many_are_kept(self):
        with harness.Server(config="audit:\n  roots:\n    every_seconds: 1\n    keep: 10\n") as server:
            harness.wait_for("twelve", lambda: self.roots(server) and self.roots(server)[-1]["number"] >= 12, 40)
            kept = self.roots(server)
            self.assertEqual(len(kept), 10)
            last = kept[-1]["number"]
            self.assertEqual([each["number"] for each in kept], list(range(last - 9, last + 1)))
            gone = server.request("GET", "/v1/audit/entries/1/proof")
            self.assertEqual(gone.status, 409, gone.body)
            self.assertIn("older than the kept roots (audit.roots.keep)", gone.text)
            self.assertEqual(server.cli("audit", "verify").returncode, 0)
        with harness.Server(config="audit:\n  roots: {every_seconds: 600}\n") as server:
            time.sleep(3)
            # The one of the start, and another only if a multiple of ten minutes lies in between.
            self.assertLessEqual(len(self.roots(server)), 2)


if __name__ == "__main__":
    unittest.main()
