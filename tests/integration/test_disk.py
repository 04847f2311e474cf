# SPDX-License-Identifier: Apache-2.0
"""Workspaces on disk, too large for memory: runs and sessions with them, their bounds, refusals, and the disk's
content meanwhile and after."""

import json
import os
import unittest

import disk_case
import harness
import test_at_rest
from disk_case import MIB
from session_case import Session

CONFIG = "workspace:\n  disk:\n    max_mb: 2600\n    keep_free_mb: 64\n"
# Little memory, and more disk than fits.
LARGE = {"memory_mb": 96, "disk_mb": 1200}
WRITE = """
import hashlib, os
block = os.urandom(1 << 20); digest = hashlib.sha256()
with open("big", "wb") as file:
    for _ in range(160): file.write(block); digest.update(block)
print(os.path.getsize("big"), digest.hexdigest())
"""
READ = """
import hashlib
with open("big", "rb") as file: print(hashlib.file_digest(file, "sha256").hexdigest())
"""


class DiskTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = cls.enterClassContext(harness.Server(CONFIG))
        if lack := disk_case.lack(cls.server):
            raise unittest.SkipTest(f"no workspaces on disk here: {lack}")
        cls.server.run(":", "bash")

    def setUp(self):
        self.enterContext(harness.leakcheck(self.server))

    def taken(self):
        return int(self.server.metrics()["cloister_disk_workspace_bytes"])

    def test_a_run_writes_more_than_its_memory(self):
        done = self.server.run(WRITE, artifacts=[], **LARGE)
        self.assertEqual((done["status"], done["exit_code"], done["error"]), ("completed", 0, None), done)
        size, digest = done["stdout"].split()
        self.assertEqual(int(size), 160 * MIB)
        self.assertTrue(any("sizes, times" in line for line in done["provenance"]["weakened"]), done["provenance"])
        self.assertEqual(len(digest), 64)

    def test_artifacts_come_from_it(self):
        done = self.server.run("open('a.txt', 'w').write('kept')", artifacts=["**"], **LARGE)
        self.assertEqual([each["path"] for each in done["artifacts"]], ["a.txt"])
        kept = self.server.request("GET", f"/v1/artifacts/{done['artifacts'][0]['id']}/content")
        self.assertEqual(kept.body, b"kept")

    def test_what_fits_memory_stays_there(self):
        for limits in ({}, {"disk_mb": 1024}, {"memory_mb": 2048, "disk_mb": 1200}):
            done = self.server.run("import os; print(os.statvfs('.').f_type if hasattr(os.statvfs('.'), 'f_type') else "
                                   "[l.split()[2] for l in open('/proc/mounts') if l.split()[1] == '/workspace'][0])", **limits)
            self.assertEqual(done["stdout"], "tmpfs\n", limits)

    def test_a_full_one_is_named(self):
        done = self.server.run("import os; f = os.open('a', os.O_CREAT | os.O_WRONLY)\n"
                               "os.posix_fallocate(f, 0, 1000 << 20)\n"
                               "try:\n    while os.write(f := os.open('b', os.O_CREAT | os.O_APPEND | os.O_WRONLY), bytes(1 << 20)): os.close(f)\n"
                               "except OSError as e: print(e.errno)", **LARGE)
        self.assertEqual(done["stdout"], "28\n", done)
        self.assertEqual(done["error"]["details"]["limit"], "disk_mb")
        self.assertLessEqual(done["error"]["details"]["value"], 1200 * MIB)
        self.assertEqual(done["resource_usage"]["disk_limit_bytes"], done["error"]["details"]["value"])
        self.assertIn("raise disk_mb if it needs more", done["error"]["message"])

    def test_a_session_keeps_its_files_and_gives_and_takes_them(self):
        with Session(self.server, language="python", **LARGE) as session:
            digest = session.exec(WRITE)["stdout"].split()[1]
            self.assertEqual(session.exec(READ)["stdout"].strip(), digest)
            self.assertEqual(self.taken(), 1200 * MIB)
            content = os.urandom(3 * MIB)
            session.call("PUT", "/files/up/in.bin", content, status=200)
            self.assertEqual(session.call("GET", "/files/up/in.bin", status=200).body, content)
            archive = session.call("GET", "/archive?path=up", status=200).body
            session.exec(command="rm -r up")
            session.call("PUT", "/archive?path=again", archive, status=200)
            self.assertEqual(session.exec(command="find again -type f | wc -l")["stdout"].strip(), "1")
            self.assertTrue(any("sizes, times" in line for line in session.show()["provenance"]["weakened"]))
        harness.wait_for("its disk to be given back", lambda: self.taken() == 0)

    def test_a_snapshot_goes_to_disk_and_back_to_memory(self):
        with Session(self.server, language="python", **LARGE) as session:
            session.exec("open('kept', 'w').write('here'); import os; os.symlink('kept', 'link')")
            made = session.call("POST", "/snapshots", status=201).json()
        for limits in (LARGE, {}):
            with Session(self.server, language="python", from_snapshot=made["id"], **limits) as restored:
                self.assertEqual(restored.exec("print(open('link').read())")["stdout"], "here\n")

    def test_all_of_them_have_a_bound(self):
        with Session(self.server, language="bash", **LARGE), Session(self.server, language="bash", **LARGE):
            answer = self.server.request("POST", "/v1/sessions", {"language": "bash", **LARGE})
            self.assertEqual(answer.status, 429, answer.body)
            self.assertIn("workspace.disk.max_mb", answer.json()["error"]["message"])
            self.assertIn("retry-after", answer.headers)
            run = self.server.submit(":", "bash", **LARGE)
            self.assertEqual(run.status, 429, run.body)
            self.assertEqual(self.server.run("echo small", "bash")["stdout"], "small\n")
        answer = self.server.submit(":", "bash", memory_mb=96, disk_mb=4096)
        self.assertEqual(answer.status, 422, answer.body)
        self.assertEqual(answer.json()["error"]["details"]["field"], "disk_mb")

    def test_runs_wait_for_each_other(self):
        ids = [self.server.submit("import time; open('x', 'w').write('y'); time.sleep(0.5); print('done')", wait=0, **LARGE).json()["id"]
               for _ in range(5)]
        for each in ids:
            self.assertEqual(self.server.wait_end(each)["stdout"], "done\n")

    def test_a_plan_shows_it(self):
        plan = self.server.cli("run", "--dry-run", "--json", "--memory", "96", "--disk", "1200", "-c", "1")
        self.assertEqual(plan.returncode, 0, plan.stderr)
        self.assertEqual(json.loads(plan.stdout)["disk"]["bytes"], 1200 * MIB)

    def test_nothing_readable_is_on_the_disk(self):
        run = os.urandom(8).hex()
        code = test_at_rest.MAKE.format(seed=run) + (
            "import os\nwith open('f-' + text[:64], 'w') as f: f.write(text * 2000); f.flush(); os.fsync(f.fileno())\n"
            "os.symlink(text[:64], 'link'); os.mkdir('d-' + text[:64]); os.sync()")
        wanted = list(test_at_rest.spellings(test_at_rest.text_of(run)))
        with Session(self.server, language="python", **LARGE) as session:
            self.assertEqual(session.exec(code)["exit_code"], 0)
            found = disk_case.devices(self.server)
            self.assertEqual(len(found), 1)
            os.sync()
            self.assertEqual(disk_case.holds(found[0], wanted), [])
            self.assertEqual(disk_case.holds(found[0], [b"scratch"]), [b"scratch"], "the search finds what is there")
            self.assertEqual(test_at_rest.holders(self.server.state, test_at_rest.text_of(run)), set())
        harness.wait_for("its device to go", lambda: not disk_case.devices(self.server))
        self.assertEqual(test_at_rest.holders(self.server.state, test_at_rest.text_of(run)), set())


class WithoutDisk(unittest.TestCase):
    def test_it_is_refused_with_the_remedy(self):
        with harness.Server("workspace:\n  disk:\n    max_mb: 0\n") as server:
            answer = server.submit(":", "bash", **LARGE)
            self.assertEqual(answer.status, 422, answer.body)
            self.assertIn("workspace.disk.max_mb", answer.json()["error"]["message"])
            answer = server.request("POST", "/v1/sessions", {"language": "bash", **LARGE})
            self.assertEqual(answer.status, 422, answer.body)
            self.assertIn("set workspace.disk.max_mb", server.cli("doctor").stdout)
            self.assertEqual(server.run("echo small", "bash")["stdout"], "small\n")

    @unittest.skipUnless(harness.ROOT, "only root can become an ordinary user")
    def test_an_ordinary_user_is_told(self):
        with harness.Server(user=True) as server:
            answer = server.submit(":", "bash", **LARGE)
            self.assertEqual(answer.status, 422, answer.body)
            self.assertIn("run cloister-node as root", answer.json()["error"]["message"])


class Told(unittest.TestCase):
    """Which limits a program is told that it met."""

    @classmethod
    def setUpClass(cls):
        cls.server = cls.enterClassContext(harness.Server())

    def test_a_full_workspace_that_the_program_emptied(self):
        tidy = ("import tempfile\nwith tempfile.TemporaryDirectory(dir='/workspace') as d:\n"
                "    open(d + '/x', 'wb').write(b'x' * ({} << 20))")
        met = self.server.run(tidy.format(60), disk_mb=20)
        self.assertEqual(met["exit_code"], 1, met)
        self.assertEqual((met["error"]["type"], met["error"]["details"]["limit"], met["error"]["details"].get("probable")),
                         ("RESOURCE_LIMIT_EXCEEDED", "disk_mb", True), met)
        fits = self.server.run(tidy.format(10) + "\nexit(1)", disk_mb=20)
        self.assertEqual((fits["exit_code"], fits["error"]), (1, None), fits)

    def test_signals_of_limits_that_were_not_met(self):
        done = self.server.run("kill -XCPU $$", "bash")
        self.assertEqual((done["status"], done["signal"], done["error"]), ("completed", "SIGXCPU", None), done)
        guess = self.server.run("kill -XFSZ $$", "bash")["error"]["details"]
        self.assertEqual((guess["limit"], guess["probable"]), ("file_size_mb", True), guess)
        self.assertLess(guess["used"] or 0, 1 << 20, "no file is large")


if __name__ == "__main__":
    unittest.main()
