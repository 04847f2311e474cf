# SPDX-License-Identifier: Apache-2.0
"""The scan of artifacts: clean, refused, and every other outcome, also refused."""

import concurrent.futures
import json
import os
import pathlib
import tempfile
import unittest

import api_case
import harness
from api_case import ApiTest

# Acts by the first word of the file. Reports its identity on request.
SCANNER = """
import os, sys, time
head = sys.stdin.buffer.read(16)
word = head.split()[0] if head.split() else b""
if word == b"EARLY": sys.exit(0)
size = len(head) + sum(len(piece) for piece in iter(lambda: sys.stdin.buffer.read(1 << 16), b""))
if word == b"BAD": sys.exit(1)
if word == b"ODD": sys.exit(2)
if word == b"SIGNAL": os.kill(os.getpid(), 9)
if word == b"SLOW": time.sleep(1000)
if word == b"LATE": time.sleep(2)
if word == b"LOUD": os.write(1, b"x" * 10_000_000)
if word == b"STAY":
    if os.fork() == 0:
        for fd in range(3): os.close(fd)
        time.sleep(1000)
if word == b"WHO":
    fds = [fd for fd in os.listdir("/proc/self/fd") if os.path.exists(f"/proc/self/fd/{fd}")]
    print(os.getuid(), sorted(os.environ), fds, open("/proc/self/status").read().split("CapEff:")[1].split()[0], file=open(sys.argv[1], "w"))
if word == b"ALONE":
    place = os.path.dirname(sys.argv[1])
    os.mkdir(place + "/one") if not os.path.exists(place + "/one") else open(place + "/two", "w")
    time.sleep(0.5)
    os.rmdir(place + "/one")
if word == b"SIZE" and size != 5_000_000: sys.exit(3)
"""


def setUpModule():
    folder = pathlib.Path(unittest.enterModuleContext(tempfile.TemporaryDirectory()))
    folder.chmod(0o777)
    (folder / "scan.py").write_text(SCANNER)
    Scan.folder = folder
    command = json.dumps(["/usr/bin/python3", str(folder / "scan.py"), str(folder / "who")])
    ApiTest.server = harness.Server(config=api_case.CONFIG + f"artifacts:\n  scan:\n    command: {command}\n    timeout_seconds: 5\n")
    unittest.enterModuleContext(ApiTest.server)


class Scan(ApiTest):
    def put(self, body, status):
        return self.call("POST", "/v1/artifacts?path=x", body, status=status).json()

    def blobs(self):
        return len(list(pathlib.Path(self.server.state, "blobs").glob("*/??/*")))

    def refusals(self):
        rows = self.call("GET", "/v1/audit?limit=1000").json()["entries"]
        return [row for row in rows if row["action"] == "artifact.refused"]

    def test_what_is_clean_is_kept(self):
        for body in (b"", b"clean", b"EARLY " + os.urandom(3_000_000), b"SIZE " + os.urandom(4_999_995), b"LOUD", b"STAY"):
            made = self.put(body, 201)
            self.assertEqual(self.call("GET", f"/v1/artifacts/{made['id']}/content").body, body)

    def test_what_is_refused_is_not(self):
        blobs, known, listed = self.blobs(), len(self.refusals()), len(self.call("GET", "/v1/artifacts").json()["artifacts"])
        problem = self.put(b"BAD " + os.urandom(100_000), 403)
        self.assertIn("artifacts.scan.command", problem["detail"])
        for word in (b"ODD", b"SIGNAL", b"SLOW"):
            self.put(word + b" " + os.urandom(200_000), 503)
        self.assertEqual(self.blobs(), blobs)
        self.assertEqual(len(self.call("GET", "/v1/artifacts").json()["artifacts"]), listed)
        rows = self.refusals()[known:]
        self.assertEqual(len(rows), 4)
        self.assertEqual(rows[0]["details"]["path"], "x")
        self.put(b"clean again", 201)

    def test_what_a_run_leaves(self):
        known = len(self.refusals())
        done = self.run_code("for n in ('BAD', 'fine'): open(n, 'w').write(n)\nprint('ok')")
        self.assertEqual(([each["path"] for each in done["artifacts"]], done["stdout"]), (["fine"], "ok\n"))
        rows = self.refusals()[known:]
        self.assertEqual([(row["subject"], row["details"]["path"]) for row in rows], [(done["id"], "BAD")])

    def test_the_command_has_nothing_of_the_service(self):
        self.put(b"WHO", 201)
        said = (self.folder / "who").read_text()
        uid = 64751 if os.geteuid() == 0 else os.getuid()
        self.assertTrue(said.startswith(f"{uid} ['LANG', 'PATH'] ['0', '1', '2'] 0000000000000000") or
                        said.startswith(f"{uid} ['LANG', 'LC_CTYPE', 'PATH'] ['0', '1', '2'] 0000000000000000"), said)

    def test_many_at_once(self):
        with concurrent.futures.ThreadPoolExecutor(12) as pool:
            answers = list(pool.map(lambda n: self.server.request("POST", "/v1/artifacts?path=x", b"BAD" if n % 3 == 0 else b"clean"), range(24)))
        self.assertEqual([answer.status for answer in answers], [403 if n % 3 == 0 else 201 for n in range(24)])


class OneAtOnce(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.folder.chmod(0o777)
        (self.folder / "scan.py").write_text(SCANNER)

    def serve(self, settings):
        command = json.dumps(["/usr/bin/python3", str(self.folder / "scan.py"), str(self.folder / "who")])
        return self.enterContext(harness.Server(f"artifacts:\n  scan: {{command: {command}, {settings}}}\n"))

    def test_the_others_wait(self):
        server = self.serve("concurrent: 1")
        with concurrent.futures.ThreadPoolExecutor(3) as pool:
            put = lambda number: server.request("POST", f"/v1/artifacts?path={number}", b"ALONE").status
            self.assertEqual(set(pool.map(put, range(3))), {201})
            self.assertFalse((self.folder / "two").exists(), "two at once")

    def test_how_long_it_may_take(self):
        servers = [self.serve(f"timeout_seconds: {seconds}") for seconds in (1, 100)]
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            put = lambda server: server.request("POST", "/v1/artifacts?path=x", b"LATE").status
            self.assertEqual(list(pool.map(put, servers)), [503, 201])


if __name__ == "__main__":
    unittest.main()
