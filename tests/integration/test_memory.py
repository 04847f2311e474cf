# SPDX-License-Identifier: Apache-2.0
"""Snapshots of sessions with memory: the restored programs, refusals, and the command line."""

import os
import pathlib
import unittest

import api_case
import harness
import pages
import share_case
from api_case import ApiTest
from session_case import Session

RUNSC = "/usr/bin/runsc"
HERE = os.path.exists(RUNSC)
WHY = f"no {RUNSC}: install Debian's from backports"
SERVES = """
import http.server, secrets
token = secrets.token_hex(8)
class Say(http.server.BaseHTTPRequestHandler):
    seen = 0
    def do_GET(self):
        Say.seen += 1
        body = f"{token} {Say.seen}".encode()
        self.send_response(200); self.send_header("Content-Length", str(len(body))); self.end_headers()
        self.wfile.write(body)
    def log_message(self, *args): pass
server = http.server.HTTPServer(("127.0.0.1", 8000), Say)
print("listening", flush=True)
server.serve_forever()
"""
ASKS = "import urllib.request; print(urllib.request.urlopen('http://127.0.0.1:8000').read().decode())"


def setUpModule():
    ApiTest.server = harness.Server(config=api_case.CONFIG)
    unittest.enterModuleContext(ApiTest.server)


class MemoryCase(share_case.ShareCase, ApiTest):
    def session(self, **request):
        made = Session(self.server, language="python", **request)
        self.addCleanup(made.end)
        return made

    def take(self, session, status=201, **body):
        return self.call("POST", f"{session.path}/snapshots", {"memory": True} | body, status=status).json()

    def cell(self, session, code, **more):
        done = session.exec(code=code, kernel="python", **more)
        self.assertEqual((done["status"], done["exit_code"]), ("completed", 0), done["stderr"])
        return done["stdout"]


@unittest.skipUnless(HERE, WHY)
class Memory(MemoryCase):
    def test_variables_servers_and_files_go_on(self):
        session = self.session(runtime="gvisor")
        self.cell(session, "import os, random; kept = [os.getpid(), 'variable']; open('file', 'w').write('of then')")
        session.wait_output(session.start(command=["python3", "-c", SERVES]), "listening")
        token = session.exec(command=["python3", "-c", ASKS])["stdout"].split()
        made = self.take(session, name="all of it")
        self.assertEqual(made["memory"]["runtime"], "gvisor")
        self.assertEqual(made["memory"]["limits"]["memory_mb"], session.made["limits"]["memory_mb"])
        self.cell(session, "kept.append('later'); open('file', 'w').write('of now')")
        for _ in range(2):
            copy = self.session(from_snapshot=made["id"])
            self.assertEqual(copy.made["provenance"]["runtime"], "gvisor")
            self.assertTrue(any("snapshot of memory" in each for each in copy.made["provenance"]["weakened"]))
            self.assertEqual(self.cell(copy, "print(kept[1:], open('file').read(), kept[0] == os.getpid())"),
                             "['variable'] of then True\n")
            asked = copy.exec(command=["python3", "-c", ASKS])
            self.assertEqual(asked["stdout"].split(), [token[0], str(int(token[1]) + 1)], asked["stderr"])
            self.assertEqual(self.cell(copy, "kept.append('of the copy'); print(len(kept))"), "3\n")
        self.assertEqual(self.cell(session, "print(kept[1:])"), "['variable', 'later']\n")
        asked = session.exec(command=["python3", "-c", ASKS])
        self.assertEqual(asked["stdout"].split(), [token[0], str(int(token[1]) + 1)], asked["stderr"])

    def test_what_goes_on_sees_its_share_of_the_machine(self):
        limits = {"cpu_millis": 1000, "memory_mb": 200}
        session = self.session(runtime="gvisor", **limits)
        copy = self.session(from_snapshot=self.take(session)["id"])
        self.assertShows(copy.exec(share_case.PYTHON), **limits)
        self.assertShows(copy.exec(share_case.PYTHON, kernel="python"), **limits)

    def test_a_cell_that_runs_goes_on(self):
        session = self.session(runtime="gvisor")
        self.cell(session, "import os, time; n = 0")
        running = session.start("open('begun', 'w')\nwhile not os.path.exists('go'): n += 1; time.sleep(0.01)\n"
                                "print('went' * 100_000)", kernel="python")
        self.assertEqual(session.exec(command=["sh", "-c", "until [ -e begun ]; do sleep 0.01; done"])["exit_code"], 0)
        made = self.take(session)
        self.assertEqual(session.exec(command=["touch", "go"])["exit_code"], 0)
        done = session.wait(running)
        self.assertEqual((done["status"], done["stdout"]), ("completed", "went" * 100_000 + "\n"))
        copy = self.session(from_snapshot=made["id"])
        waits = copy.start("print(n > 0)", kernel="python")
        self.assertEqual(copy.exec(command=["touch", "go"])["exit_code"], 0)
        done = copy.wait(waits)
        self.assertEqual((done["status"], done["stdout"]), ("completed", "True\n"), done["stderr"])

    def test_it_is_encrypted_shared_in_part_and_deleted(self):
        session = self.session(runtime="gvisor")
        self.cell(session, "import os; secret = 'plain-' + 'text-' * 100; filler = os.urandom(32 << 20)")  # some 25 chunks
        first = self.take(session)
        self.cell(session, "more = 1")
        second = self.take(session)
        self.assertLess(second["added_bytes"], first["added_bytes"] * 3 / 4)
        for path in pathlib.Path(self.server.state).rglob("*"):
            if path.is_file() and "logs" not in path.parts:
                self.assertNotIn(b"plain-text-text-", path.read_bytes(), path)
        for each in (first, second):
            self.call("DELETE", f"/v1/snapshots/{each['id']}", status=204)
        self.call("POST", "/v1/sessions", {"from_snapshot": first["id"]}, status=404)

    def test_what_does_not_fit_is_refused(self):
        session = self.session(runtime="gvisor", memory_mb=200, pids=50)
        made = self.take(session)
        for field, value in (("memory_mb", 300), ("pids", 51), ("runtime", "process"), ("disk_mb", 7)):
            answer = self.call("POST", "/v1/sessions", {"from_snapshot": made["id"], field: value}, status=422).json()
            self.assertEqual(answer["error"]["details"]["field"], field, answer)
        same = self.session(from_snapshot=made["id"], memory_mb=200, timeout_seconds=7)
        self.assertEqual((same.made["limits"]["pids"], same.made["limits"]["timeout_seconds"]), (50, 7))

    def test_others_say_that_they_cannot(self):
        for request in ({}, {"runtime": "gvisor", "nested": True}):
            session = self.session(**request)
            answer = self.take(session, status=422)
            self.assertIn("cannot be kept", answer["error"]["message"])
            self.assertEqual(session.exec(command=["true"])["exit_code"], 0)

    def test_the_page_is_true(self):
        pages.assert_true(self, harness.REPO / "docs" / "howto" / "keep-memory.md", self.server)

    def test_command_line(self):
        session = self.session(runtime="gvisor")
        self.cell(session, "kept = 41")
        forked = self.server.cli("session", "fork", session.id, "--memory")
        self.assertEqual(forked.returncode, 0, forked.stderr)
        fork = forked.stdout.strip()
        done = self.server.cli("exec", fork, "--kernel", "python", "-c", "print(kept + 1)")
        self.assertEqual(done.stdout, "42\n")
        self.server.cli("session", "end", fork)


if __name__ == "__main__":
    unittest.main()
