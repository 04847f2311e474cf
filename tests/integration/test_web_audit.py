# SPDX-License-Identifier: Apache-2.0
"""The web interface in a browser: the audit log, verified in the page, before and after a byte of it flips."""

import sqlite3
import tempfile
import unittest
import pathlib

import harness
from web_case import WebCase

CONFIG = "audit:\n  roots: {every_seconds: 1}\n"


class Audit(WebCase):
    file = "audit.mjs"

    @classmethod
    def setUpClass(cls):
        cls.prepare()
        cls.state = pathlib.Path(cls.enterClassContext(tempfile.TemporaryDirectory(prefix="web-audit.")))
        cls.state.chmod(0o755)
        cls.env = {"CLOISTER_SHARE": str(cls.share)}

    def flip(self):
        """Flips one bit of an entry's text in the stopped service's ledger → the entry's number."""
        with sqlite3.connect(self.state / "ledger/ledger.db") as ledger:
            columns = [row[1] for row in ledger.execute("PRAGMA table_info(audit)")]
            text = "details" if "details" in columns else "subject"
            seq, value = ledger.execute(f"SELECT seq, {text} FROM audit WHERE length({text}) > 4 ORDER BY seq LIMIT 1 OFFSET 3").fetchone()
            value = value if isinstance(value, str) else value.decode()
            at = next(i for i, letter in enumerate(value) if letter.isalpha() and i > 1)
            guards = ledger.execute("SELECT name, sql FROM sqlite_master WHERE type='trigger' AND tbl_name='audit'").fetchall()
            for name, _ in guards:  # whoever has the file can do so, too
                ledger.execute(f"DROP TRIGGER {name}")
            ledger.execute(f"UPDATE audit SET {text}=? WHERE seq=?", (value[:at] + chr(ord(value[at]) ^ 1) + value[at + 1:], seq))
            for _, sql in guards:
                ledger.execute(sql)
        return seq

    def test_the_chain_verifies_until_a_byte_flips(self):
        with harness.Server(config=CONFIG, state=self.state, env=self.env) as server:
            self.server = server
            for name in ("one", "two", "three"):
                self.key(name=name, agent=name)
            person, _ = self.key(role="approver", user="ann")
            server.run("print(1)")
            roots = lambda: server.request("GET", "/v1/audit/roots?limit=1000").json()["roots"]  # noqa: E731
            some = len(roots())
            harness.wait_for("roots over these entries", lambda: len(roots()) >= some + 2, 20)
            story = self.story("verify", roots=True)
            self.assertRegex(story["chain"], r"^verified\s+\d+ entries")
            self.assertRegex(story["roots"], r"^verified\s+\d+ roots form one row")
            self.assertIn("created key_", story["timeline"])
            proven = self.story("prove", person=person)
            self.assertRegex(proven["roots"], r"^verified.*[1-9]\d* of your entries are proven")
            self.assertTrue(proven["no chain"])
        entry = self.flip()
        with harness.Server(config=CONFIG, state=self.state, env=self.env) as server:
            self.server = server
            chain = self.story("verify")["chain"]
            self.assertRegex(chain, r"^broken")
            self.assertRegex(chain, rf"\b{entry}\b", "the entry is named")


if __name__ == "__main__":
    unittest.main()
