# SPDX-License-Identifier: Apache-2.0
"""Snapshots of sessions over HTTP and the command line: restored content, sharing, refusals."""

import hashlib
import json
import os
import pathlib
import subprocess
import unittest

import api_case
import harness
import pages
from api_case import ApiTest
from session_case import Session

MIB = 1 << 20
CONFIG = api_case.CONFIG + """artifacts:
  quota_mb: 64
snapshots:
  per_tenant: 6
  max_mb: 48
  max_entries: 3000
"""
HOWTO = harness.REPO / "docs" / "howto" / "snapshots.md"

# The content of the workspace, to the last bit kept by a snapshot.
TREE = """
import hashlib, json, os, stat
tree = {}
def look(path):
    st = os.lstat(path)
    kind = stat.S_IFMT(st.st_mode)
    mode, size = (0, 0) if kind == stat.S_IFLNK else (stat.S_IMODE(st.st_mode), st.st_size)
    more = ""
    if kind == stat.S_IFLNK: more = os.fsdecode(os.readlink(path))
    if kind in (stat.S_IFREG, stat.S_IFDIR): os.chmod(path, 0o700)
    if kind == stat.S_IFREG: more = hashlib.sha256(open(path, "rb").read()).hexdigest()
    tree[os.fsdecode(path[2:])] = [oct(kind), oct(mode), size if kind == stat.S_IFREG else 0, st.st_mtime_ns, more]
    if kind == stat.S_IFDIR:
        for name in os.listdir(path): look(path + b"/" + name)
        os.utime(path, ns=(st.st_atime_ns, st.st_mtime_ns))
    if kind in (stat.S_IFREG, stat.S_IFDIR): os.chmod(path, mode)
for name in os.listdir(b"."): look(b"./" + name)
print(json.dumps(tree))
"""
# Every kind, mode and name of file possible in a workspace.
MAKE = """
import os, socket
for mode in (0o000, 0o200, 0o400, 0o444, 0o600, 0o644, 0o755, 0o777):
    open(f"f{mode:o}", "w").write(f"{mode:o}"); os.chmod(f"f{mode:o}", mode)
    os.mkdir(f"d{mode:o}"); open(f"d{mode:o}/in", "w").write("in"); os.chmod(f"d{mode:o}", mode)
open("empty", "w").close(); os.mkdir("hollow")
open("large", "wb").write(os.urandom(5 << 20)); open("sparse", "wb").truncate(3 << 20)
open("set-id", "w").write("x"); os.chmod("set-id", 0o6755)
os.link("empty", "twin")
for n, target in enumerate(("f644", "/etc/passwd", "../..", "nowhere", "d755", "x" * 300)): os.symlink(target, f"l{n}")
deep = "deep"
for n in range(60):
    os.mkdir(deep); open(deep + "/f", "w").write(str(n)); deep += "/" + "n" * 20
for name in (b"new\\nline", b"\\xff\\xfe", b" ", b"-rf", b"n" * 255, "\\u202e".encode(), b"back\\\\slash"): open(name, "wb").write(name)
os.mkfifo("fifo"); socket.socket(socket.AF_UNIX).bind("socket")
for n in range(300): open(f"many{n}", "w").write(str(n) * 50)
os.utime("empty", ns=(1, 1_234_567_890_123_456_789)); os.utime("hollow", ns=(1, 987_654_321_000_000_001))
os.utime("l0", ns=(1, 7_000_000_000), follow_symlinks=False)
"""


def setUpModule():
    ApiTest.server = harness.Server(config=CONFIG)
    unittest.enterModuleContext(ApiTest.server)


class SnapshotCase(ApiTest):
    def setUp(self):
        self.key = self.new_key(f"tenant-{self.id().rsplit('.', 1)[-1]}")["secret"]

    def session(self, **request):
        made = Session(self.server, call=lambda *args: self.call(*args), key=self.key,
                       **{"language": "python", "memory_mb": 256, **request})
        self.addCleanup(made.end)
        return made

    def good(self, session, code):
        done = session.exec(command=["python3", "-c", code])  # `code` would leave a file
        self.assertEqual((done["status"], done["exit_code"]), ("completed", 0), done["stderr"])
        return done["stdout"]

    def tree(self, session):
        return json.loads(session.exec(command=["python3", "-c", TREE], max_output_bytes=8 * MIB)["stdout"])

    def take(self, session, status=201, **body):
        return self.call("POST", f"{session.path}/snapshots", body, key=self.key, status=status).json()

    def create(self, status, key=None, **request):
        return self.call("POST", "/v1/sessions", request, key=key or self.key, status=status)

    def blobs(self):
        return {path for path in pathlib.Path(self.server.state, "blobs").glob("*/??/*")}


class Snapshots(SnapshotCase):
    def test_everything_comes_back(self):
        session = self.session()
        self.good(session, MAKE)
        before = self.tree(session)
        made = self.take(session, name="all of it", metadata={"step": "1"})
        self.assertEqual((made["name"], made["metadata"], made["session_id"]),
                         ("all of it", {"step": "1"}, session.id))
        self.assertEqual(self.tree(session), before, "taking it changes nothing")
        files = [each for each in before.values() if each[0] == "0o100000"]
        self.assertEqual(made["size"], sum(each[2] for each in files))
        expected = {}
        for path, each in before.items():
            if each[0] in ("0o100000", "0o40000", "0o120000"):  # the rest is left out
                expected[path] = each[:1] + [oct(int(each[1], 8) & 0o777)] + each[2:]
        self.assertEqual(made["entries"], len(expected))
        own = f"/v1/snapshots/{made['id']}"
        self.assertEqual(self.call("GET", own, key=self.key, status=200).json(), made)
        restored = self.session(from_snapshot=made["id"])
        self.assertEqual(restored.made["from_snapshot"], made["id"])
        after = self.tree(restored)
        self.assertEqual({p: (expected.get(p), after.get(p)) for p in expected.keys() | after.keys()
                          if expected.get(p) != after.get(p)}, {})

    def test_the_home_directory_comes_back_too(self):
        session = self.session()
        script = ("cd; mkdir -p .local/lib .shut; echo x > .local/lib/f; echo y > .profile; ln -s .profile link; echo z > .shut/f;"
                  " chmod 0 .shut; touch -d @1000000000 .profile; echo w > /workspace/w; mkdir -p /workspace/home/user;"
                  " echo no > /workspace/home/user/f; echo t > /tmp/t")
        self.assertEqual(session.exec(command=script)["exit_code"], 0)
        look = ("chmod 700 ~/.shut; cd; find . -mindepth 1 -printf '%P %y %l %m %T@\\n' | grep -v '^.shut ' | sort; cat .shut/f .profile;"
                " cd /workspace; find . -mindepth 1 -printf '%P %y\\n' | sort")
        made = self.take(session)
        self.assertEqual(made["entries"], 11)
        restored = self.session(from_snapshot=made["id"])
        self.assertEqual(restored.exec(command="stat -c %a ~ ~/.shut")["stdout"], "755\n0\n")
        after = restored.exec(command=look)["stdout"]
        self.assertEqual(after, session.exec(command=look)["stdout"])
        self.assertEqual(restored.exec(command="ls /tmp")["stdout"], "", "what is temporary is not kept")
        self.assertIn("home/user/f f", after)
        self.assertIn(".profile f  644 1000000000", after)
        again = self.session(from_snapshot=self.take(restored)["id"])
        self.assertEqual(again.exec(command=look)["stdout"], after)

    def test_a_second_one_adds_what_changed(self):
        session = self.session()
        self.good(session, "import os\nopen('big', 'wb').write(os.urandom(12 << 20))\n"
                           "for n in range(200): open(f'small{n}', 'wb').write(os.urandom(5000))")
        first = self.take(session)
        self.assertGreater(first["added_bytes"], 13_000_000)
        again = self.take(session)
        self.assertLess(again["added_bytes"], 64 << 10, "its manifest alone")
        self.good(session, "import os\nf = open('big', 'r+b'); f.seek(6 << 20); f.write(b'changed')")
        third = self.take(session)
        self.assertLess(third["added_bytes"], 9 * MIB, "the pieces around it")
        self.assertGreater(third["added_bytes"], 64 << 10)
        self.good(session, "open('new', 'w').write('new')")
        self.assertLess(self.take(session)["added_bytes"], 6 * MIB)
        # Blobs of the third snapshot alone go with it, and none of the others'.
        before = self.blobs()
        self.call("DELETE", f"/v1/snapshots/{third['id']}", key=self.key, status=204)
        self.assertLess(len(self.blobs()), len(before))
        restored = self.session(from_snapshot=first["id"])
        self.assertEqual(self.good(restored, "print(b'changed' in open('big', 'rb').read())"), "False\n")

    def test_forks_go_their_own_ways(self):
        session = self.session()
        self.good(session, "open('state', 'w').write('common')")
        made = self.take(session)
        forks = [self.session(from_snapshot=made["id"]) for _ in range(3)]
        for n, fork in enumerate(forks):
            self.good(fork, f"open('state', 'a').write(' {n}')")
        self.assertEqual([self.good(fork, "print(open('state').read())") for fork in forks],
                         ["common 0\n", "common 1\n", "common 2\n"])
        self.assertEqual(self.good(session, "print(open('state').read())"), "common\n")

    def test_what_runs_is_stopped_and_goes_on(self):
        session = self.session()
        # Two files kept equal by a program, and a third that the program writes last.
        program = session.start(command=["python3", "-c", "import itertools\nfor n in itertools.count():\n"
                                "    for name in 'ab': open(name, 'w').write(str(n))\n"
                                "    open('done', 'w').write(str(n))\n    if n == 0: print('on', flush=True)"])
        session.wait_output(program, "on")
        made = self.take(session)
        seen = self.good(session, "print(open('done').read() or 0)")
        harness.wait_for("it goes on", lambda: self.good(session, "print(open('done').read() or 0)") != seen)
        restored = self.session(from_snapshot=made["id"])
        values = json.loads(self.good(restored, "import json; print(json.dumps([open(n).read() for n in 'ab']))"))
        numbers = [int(value) for value in values if value]
        self.assertLessEqual(max(numbers) - min(numbers), 1, values)
        session.cancel(program)

    def test_what_was_stopped_stays_stopped(self):
        session = self.session()
        self.good(session, "import os, signal, time\npid = os.fork()\nif pid == 0:\n    for n in range(3): os.close(n)\n"
                           "    while True: time.sleep(0.01)\nos.kill(pid, signal.SIGSTOP); print(pid)")
        state = "import os\nprint([open(f'/proc/{p}/stat').read().rsplit(')')[1].split()[0] for p in os.listdir('/proc') if p.isdigit() and p != '1' and p != str(os.getpid())])"
        self.assertEqual(self.good(session, state), "['T']\n")
        self.take(session)
        self.assertEqual(self.good(session, state), "['T']\n")

    def test_limits_and_names_are_checked(self):
        session = self.session()
        for body, field in (({"name": "x" * 257}, "name"), ({"name": "a\nb"}, "name"), ({"other": 1}, "other"),
                            ({"metadata": {"a": 1}}, "metadata.a"), ({"ttl_seconds": 0}, "ttl_seconds")):
            answer = self.call("POST", f"{session.path}/snapshots", body, key=self.key)
            self.assertIn(answer.status, (400, 422))
            self.assertEqual(answer.json()["error"]["details"]["field"], field)
        self.good(session, "for n in range(3000): open(f'f{n}', 'w').close()")
        self.take(session)
        self.good(session, "open('one more', 'w').close()")
        self.assertIn("snapshots.max_entries", self.take(session, status=413)["detail"])
        self.good(session, "import os\nfor n in range(3000): os.unlink(f'f{n}')\nopen('big', 'wb').truncate(49 << 20)")
        self.assertIn("snapshots.max_mb", self.take(session, status=413)["detail"])
        self.good(session, "open('big', 'wb').truncate(40 << 20)")
        made = self.take(session)
        self.assertLess(made["added_bytes"], 5 * MIB, "zeros are one chunk")
        answer = self.create(422, language="python", memory_mb=32, from_snapshot=made["id"])
        self.assertEqual(answer.json()["error"]["details"]["field"], "memory_mb")
        answer = self.create(422, language="python", memory_mb=256, disk_mb=32, from_snapshot=made["id"])
        self.assertEqual(answer.json()["error"]["details"]["field"], "disk_mb")
        self.assertIn(self.create(None, language="python", from_snapshot="snap_1").status, (400, 422))
        for _ in range(4):
            self.take(session)
        self.assertIn("snapshots.per_tenant", self.take(session, status=429)["detail"])

    def test_the_quota_is_of_bytes_that_are_kept(self):
        session = self.session(memory_mb=512)
        self.good(session, "import os\nopen('a', 'wb').write(os.urandom(40 << 20))")
        made = self.take(session)
        for _ in range(2):
            self.take(session)
        blobs = self.blobs()
        self.good(session, "import os\nopen('a', 'wb').write(os.urandom(40 << 20))")
        self.assertIn("artifacts.quota_mb", self.take(session, status=429)["detail"])
        self.assertEqual(self.blobs(), blobs, "what was written of it is gone")
        self.call("POST", "/v1/artifacts?path=x", os.urandom(24 * MIB), key=self.key, status=429)
        for each in self.call("GET", "/v1/snapshots", key=self.key).json()["snapshots"]:
            self.call("DELETE", f"/v1/snapshots/{each['id']}", key=self.key, status=204)
        self.call("GET", f"/v1/snapshots/{made['id']}", key=self.key, status=404)
        self.take(session)

    def test_they_are_the_tenants_alone(self):
        session = self.session()
        self.good(session, "open('secret', 'w').write('words')")
        made = self.take(session)
        other = self.new_key("other-tenant")["secret"]
        unknown = made["id"][:-4] + "0000"
        for identifier in (made["id"], unknown):
            self.call("GET", f"/v1/snapshots/{identifier}", key=other, status=404)
            self.call("DELETE", f"/v1/snapshots/{identifier}", key=other, status=404)
            self.create(404, key=other, language="python", from_snapshot=identifier)
            self.call("GET", f"/v1/artifacts/{identifier}", key=self.key, status=404)
            self.call("GET", f"/v1/artifacts/{identifier}/content", key=self.key, status=404)
            self.call("DELETE", f"/v1/artifacts/{identifier}", key=self.key, status=404)
        self.call("POST", f"{session.path}/snapshots", {}, key=other, status=404)
        self.assertEqual(self.call("GET", "/v1/snapshots", key=other).json()["snapshots"], [])
        self.assertEqual(self.call("GET", "/v1/artifacts", key=self.key).json()["artifacts"], [])
        self.create(404, key=self.server.key, language="python", from_snapshot=made["id"])  # an admin's own tenant's only
        shown = self.call("GET", "/v1/snapshots?limit=1", key=self.key).json()
        self.assertEqual([each["id"] for each in shown["snapshots"]], [made["id"]])
        self.assertEqual(self.call("GET", f"/v1/snapshots?cursor={shown['next_cursor']}", key=self.key).json()["snapshots"], [])

    def test_they_go_with_their_age_and_their_tenants_key(self):
        tenant = "tenant-to-forget"
        self.key = self.new_key(tenant)["secret"]
        session = self.session()
        self.good(session, "open('f', 'w').write('x')")
        brief = self.take(session, ttl_seconds=1)
        made = self.take(session)
        harness.wait_for("it to expire", lambda: self.call("GET", f"/v1/snapshots/{brief['id']}", key=self.key).status == 404)
        self.call("GET", f"/v1/snapshots/{made['id']}", key=self.key, status=200)
        self.call("DELETE", f"/v1/tenants/{tenant}/artifacts", status=200)
        self.call("GET", f"/v1/snapshots/{made['id']}", key=self.key, status=404)
        self.create(404, language="python", from_snapshot=made["id"])
        again = self.take(session)
        self.assertEqual(self.good(self.session(from_snapshot=again["id"]), "print(open('f').read())"), "x\n")

    def test_a_retry_is_answered_as_the_first_was(self):
        """Also once its snapshot is gone; another request under the key, or none before, is told so."""
        session = self.session()
        made = self.take(session)
        request = {"language": "python", "memory_mb": 256, "from_snapshot": made["id"]}

        def create(status, key, **more):
            return self.call("POST", "/v1/sessions", {**request, **more}, key=self.key, status=status,
                             headers={"Idempotency-Key": key}).json()
        first = create(201, "once")
        self.call("DELETE", f"/v1/snapshots/{made['id']}", key=self.key, status=204)
        self.assertEqual(create(201, "once")["id"], first["id"])
        create(409, "once", memory_mb=300)
        create(404, "twice")
        self.call("DELETE", f"/v1/sessions/{first['id']}", key=self.key, status=200)
        self.assertEqual(create(201, "once")["id"], first["id"])

    def test_nothing_of_it_can_be_read_on_the_disk(self):
        word = hashlib.sha256(os.urandom(8)).hexdigest()
        session = self.session()
        self.good(session, f"open('{word}', 'w').write('{word}' * 40_000)")
        self.take(session)
        found = subprocess.run(["grep", "-rl", word[:32], f"{self.server.state}/blobs"], capture_output=True, check=False)
        self.assertEqual(found.stdout, b"")

    def test_an_ended_session_and_an_empty_one(self):
        session = self.session()
        made = self.take(session)
        self.assertEqual((made["entries"], made["size"], made["chunks"]), (0, 0, 0))
        self.assertEqual(self.tree(self.session(from_snapshot=made["id"])), {})
        session.end()
        self.take(session, status=409)


class Damage(SnapshotCase):
    """The disk's bytes differ from the written bytes."""

    def setUp(self):
        super().setUp()
        self.other = self.session()
        self.good(self.other, "open('f', 'w').write('whole')")
        self.whole = self.take(self.other)
        before = self.blobs()
        session = self.session()
        self.good(session, "import os\nfor n in range(4): open(f'f{n}', 'wb').write(os.urandom(2 << 20))")
        self.made = self.take(session)
        self.source = session
        self.mine = sorted(self.blobs() - before, key=lambda path: path.stat().st_size)

    def refused(self):
        """The restoration is refused with a digest, and leaves no running session."""
        answer = self.create(409, language="python", from_snapshot=self.made["id"])
        self.assertRegex(answer.json()["detail"], r"(chunk|manifest) [0-9a-f]{64} is (missing|damaged)|manifest is damaged|(chunk|manifest) [0-9a-f]{64}")
        running = self.call("GET", "/v1/sessions?status=running", key=self.key).json()["sessions"]
        self.assertEqual({each["id"] for each in running}, {self.other.id, self.source.id})
        # The earlier snapshot is unchanged.
        restored = self.session(from_snapshot=self.whole["id"])
        self.assertEqual(self.good(restored, "print(open('f').read())"), "whole\n")
        restored.end()

    def test_a_chunk_that_is_gone(self):
        self.mine[-1].unlink()
        self.refused()

    def test_a_manifest_that_is_gone(self):
        self.mine[0].unlink()
        self.refused()

    def test_one_that_is_cut_short(self):
        for blob in (self.mine[0], self.mine[-1]):
            with self.subTest(size=blob.stat().st_size):
                whole = blob.read_bytes()
                blob.write_bytes(whole[:len(whole) // 2])
                self.refused()
                blob.write_bytes(whole)

    def test_a_bit_in_the_middle_of_each(self):
        for blob in self.mine:
            with self.subTest(size=blob.stat().st_size):
                whole = blob.read_bytes()
                bad = bytearray(whole)
                bad[len(bad) // 2] ^= 1
                blob.write_bytes(bad)
                self.refused()
                blob.write_bytes(whole)
        self.session(from_snapshot=self.made["id"])

    def test_one_in_the_place_of_another(self):
        a, b = self.mine[-1], self.mine[-2]
        first, second = a.read_bytes(), b.read_bytes()
        a.write_bytes(second)
        b.write_bytes(first)
        self.refused()

    def test_the_next_snapshot_heals_it(self):
        blob = self.mine[-1]
        bad = bytearray(blob.read_bytes())
        bad[len(bad) // 2] ^= 1
        blob.write_bytes(bad)
        again = self.take(self.source)
        self.assertEqual(self.tree(self.session(from_snapshot=again["id"])), self.tree(self.source))
        self.session(from_snapshot=self.made["id"])


class CommandLine(unittest.TestCase):
    def test_the_howto_is_true(self):
        pages.assert_true(self, HOWTO, ApiTest.server)


if __name__ == "__main__":
    unittest.main()
