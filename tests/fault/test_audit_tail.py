# SPDX-License-Identifier: Apache-2.0
"""The end of the audit log is cut off: a history of runs, kill -9 of everything, and SQLite's write-ahead log cut at
a commit (sqlite.org/walformat.html). A service started on the rest reports the missing entries, and keeps reporting
them. With CLOISTER_LONG=1 at every commit; src/audit/audit_tail_test.cc does the same with the library in any case."""

import json
import os
import pathlib
import shutil
import sqlite3
import struct
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "integration"))
import harness  # noqa: E402

RUNS = 12


def commits(wal):
    """The lengths of the write-ahead log at the ends of transactions."""
    page, salts = struct.unpack(">I", wal[8:12])[0], wal[16:24]
    ends = []
    for at in range(32, len(wal) - page - 23, page + 24):
        if wal[at + 8:at + 16] != salts:
            break  # of an earlier log
        if struct.unpack(">I", wal[at + 4:at + 8])[0] != 0:
            ends.append(at + 24 + page)
    return ends


class Tail(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(cls.enterClassContext(tempfile.TemporaryDirectory()))
        cls.folder.chmod(0o777)
        cls.state = cls.folder / "state"
        cls.state.mkdir()
        cls.published = cls.folder / "published"
        server = harness.Server(f"audit:\n  publish: {{file: {cls.published}, every_seconds: 1}}\n", state=cls.state)
        with server:
            for number in range(RUNS):
                server.run(f"echo {number}", "bash")
            cls.last = json.loads(server.request("GET", "/v1/audit/export").text.splitlines()[-1])["position"]
            harness.wait_for("the head to be published", cls.is_published, 30)
            server.kill()
        cls.wal = (cls.state / "ledger/ledger.db-wal").read_bytes()
        cls.ends = commits(cls.wal)

    @classmethod
    def is_published(cls):
        lines = cls.published.read_text().splitlines() if cls.published.exists() else []
        return lines and json.loads(lines[-1])["seq"] >= cls.last

    def cut(self, end):
        """A copy of the state whose log ends there, and its last entry."""
        copy = pathlib.Path(tempfile.mkdtemp(prefix="cut.", dir=self.folder))
        subprocess.run(["cp", "-a", f"{self.state}/.", copy], check=True)
        os.truncate(copy / "ledger/ledger.db-wal", end)
        look = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        for name in ("ledger.db", "ledger.db-wal"):
            shutil.copy2(copy / "ledger" / name, look / name)
        with sqlite3.connect(look / "ledger.db") as ledger:
            last = ledger.execute("SELECT max(seq) FROM audit").fetchone()[0]
        ledger.close()
        return copy, last

    def chosen(self):
        return self.ends[:-1] if harness.LONG else [self.ends[0], self.ends[len(self.ends) // 2], self.ends[-2]]

    def test_the_first_missing_entry_is_named(self):
        self.assertGreater(len(self.ends), RUNS)
        for end in self.chosen():
            copy, last = self.cut(end)
            if last == self.last:
                continue  # the cut part had no entry
            with self.subTest(last=last), harness.Server(state=copy) as server:
                for again in (False, True):
                    found = server.cli("audit", "verify")
                    self.assertEqual(found.returncode, 1, found.stdout + found.stderr)
                    self.assertIn(f"BROKEN: entry {last + 1}: the ledger was found changed here: ", found.stdout)
                    self.assertIn(f"entry {last + 1} is missing: ", found.stdout)
                    self.assertIn(f"signed head of entry {self.last}", found.stdout)
                    self.assertIn(f"signed head of entry {self.last}", server.cli("doctor").stdout)
                    self.assertIn("audit log is not as it was left", server.log.read_text(errors="replace"))
                    if not again:
                        server.stop()
                        server.start()
            shutil.rmtree(copy)

    def test_a_log_that_was_not_cut_holds(self):
        copy, last = self.cut(self.ends[-1])
        self.assertEqual(last, self.last)
        with harness.Server(state=copy) as server:
            found = server.cli("audit", "verify")
            self.assertEqual(found.returncode, 0, found.stdout + found.stderr)
            self.assertNotIn("note:", found.stdout)

    def test_only_what_was_published_shows_that_both_files_were_cut(self):
        copy, last = self.cut(self.ends[len(self.ends) // 2])
        anchor = copy / "ledger/audit.anchor"
        lines = [line for line in anchor.read_text().splitlines() if json.loads(line)["seq"] <= last]
        anchor.write_text("".join(f"{line}\n" for line in lines))
        with harness.Server(state=copy) as server:
            alone = server.cli("audit", "verify")
            self.assertEqual(alone.returncode, 0, "as docs/AUDIT.md says: " + alone.stdout)
            kept = shutil.copy2(self.published, copy / "kept")
            os.chmod(kept, 0o644)
            found = server.cli("audit", "verify", "--against", kept)
            self.assertEqual(found.returncode, 1, found.stdout + found.stderr)
            self.assertRegex(found.stdout, r"BROKEN: entry \d+(: was published with another hash| is missing)")


if __name__ == "__main__":
    unittest.main()
