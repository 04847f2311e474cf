# SPDX-License-Identifier: Apache-2.0
"""A session's files over HTTP, every answer held to spec/openapi.yaml."""

import concurrent.futures
import contextlib
import hashlib
import http.client
import io
import itertools
import json
import os
import socket
import tarfile
import threading
import unittest
import urllib.parse

import api_case
import harness
from api_case import ApiTest
from session_case import Session

MIB = 1 << 20


def setUpModule():
    api_case.start_server()


class Files(ApiTest):
    @classmethod
    def setUpClass(cls):
        cls.session = Session(cls.server, language="python", memory_mb=512)
        cls.addClassCleanup(cls.session.end)

    def setUp(self):
        self.sh("find . -mindepth 1 -delete")

    def at(self, path, **query):
        target = f"{self.session.path}/files/{urllib.parse.quote(path)}"
        return target + ("?" + urllib.parse.urlencode(query) if query else "")

    def put(self, path, body, status=200, **query):
        return self.call("PUT", self.at(path, **query), body, status=status)

    def fetch(self, path, headers=None, status=200):
        return self.call("GET", self.at(path), headers=headers, status=status)

    def listing(self, **query):
        answer = self.call("GET", f"{self.session.path}/files?{urllib.parse.urlencode(query)}", status=200).json()
        return {entry["path"]: entry for entry in answer["entries"]}, answer["left_out"]

    def sh(self, script):
        done = self.session.exec(command=["sh", "-c", script])
        self.assertEqual((done["status"], done["exit_code"]), ("completed", 0), done["stderr"])
        return done["stdout"]

    def test_a_file_goes_in_and_comes_out(self):
        body = os.urandom(3 * MIB)
        made = self.put("in/deep/data.bin", body, mode="640").json()
        self.assertEqual((made["path"], made["type"], made["size"], made["mode"]),
                         ("in/deep/data.bin", "file", len(body), "0640"))
        self.assertEqual(self.sh("sha256sum in/deep/data.bin").split()[0], hashlib.sha256(body).hexdigest())
        answer = self.fetch("in/deep/data.bin")
        self.assertEqual(answer.body, body)
        self.assertEqual(answer.headers["content-security-policy"], "sandbox")
        self.assertEqual(answer.headers["content-disposition"], "attachment; filename*=UTF-8''data.bin")
        self.assertEqual(self.fetch("in/deep/data.bin", {"If-None-Match": answer.headers["etag"]}, 304).body, b"")
        self.assertEqual(self.fetch("in/deep/data.bin", {"Range": "bytes=100-199"}, 206).body, body[100:200])
        self.assertEqual(self.fetch("in/deep/data.bin", {"Range": "bytes=-7"}, 206).body, body[-7:])
        self.fetch("in/deep/data.bin", {"Range": f"bytes={len(body)}-"}, 416)
        self.assertEqual(self.put("empty", b"").json()["size"], 0)
        self.assertEqual(self.fetch("empty").body, b"")
        self.put("page.html", b"<!doctype html><script>1</script>")
        self.assertTrue(self.fetch("page.html").headers["content-type"].startswith("text/plain"))

    def test_it_takes_the_place_of_what_was_there(self):
        self.sh("printf old > file; chmod 700 file; ln file other")
        self.put("file", b"new")
        self.assertEqual(self.sh("cat file other; stat -c %a file"), "newold700\n")
        self.put("dir/x", b"")
        self.assertProblem(self.put("dir", b"", status=409), 409, field="url.path")

    def test_an_upload_goes_on_where_it_broke_off(self):
        self.put("part", b"one", offset=0)
        self.assertEqual(self.put("part", b"two", offset=3).json()["size"], 6)
        self.assertProblem(self.put("part", b"again", status=409, offset=3), 409, field="url.path")
        self.assertEqual(self.fetch("part").body, b"onetwo")
        self.assertProblem(self.put("part", b"", status=400, offset=0, mode="600"), 400, field="query.mode")
        self.assertProblem(self.put("part", b"", status=400, mode="4777"), 400, field="query.mode")

    def test_lists(self):
        self.sh("mkdir -p a/b; touch a/1 a/b/2 as%0Ais; ln -s / a/link; mkfifo a/fifo; touch \"$(printf 'new\\nline')\" \"$(printf '\\377')\"")
        everything, left_out = self.listing(depth=9)
        self.assertEqual({path: entry["type"] for path, entry in everything.items()},
                         {"a": "directory", "a/1": "file", "a/b": "directory", "a/b/2": "file", "a/link": "link",
                          "a/fifo": "other", "as%0Ais": "file", "new%0Aline": "file", "%FF": "file"})
        self.assertEqual(left_out, 0)
        self.assertEqual({path: entry["escaped"] for path, entry in everything.items() if "escaped" in entry},
                         {"new%0Aline": True, "%FF": True}, "a name that is written so is as it is")
        self.assertEqual(set(self.listing()[0]), {"a", "as%0Ais", "new%0Aline", "%FF"})
        self.assertEqual(set(self.listing(path="a/b")[0]), {"a/b/2"})
        self.assertEqual(list(self.listing(path="a/1", depth=0)[0].values())[0]["type"], "file")
        self.assertEqual(list(self.listing(depth=0)[0].values())[0]["type"], "directory")
        some, left_out = self.listing(depth=9, limit=3)
        self.assertEqual(len(some), 3)
        self.assertGreater(left_out, 0)
        files = f"{self.session.path}/files"
        self.assertProblem(self.call("GET", f"{files}?path=gone"), 404, field="query.path")
        self.assertProblem(self.call("GET", f"{files}?depth=129"), 400, field="query.depth")
        # A name with a control character is accepted in its displayed form.
        self.call("DELETE", f"{files}/new%0Aline", status=204)
        self.assertTrue(self.put("made\nhere", b"").json()["escaped"])
        self.assertNotIn("escaped", self.put("made%0Ahere", b"").json())
        self.assertEqual(self.call("GET", f"{files}/%FF").status, 400, "a request names no path outside UTF-8")

    def test_each_root(self):
        """?root=: the same requests in the home directory and in /tmp, with paths relative to the root."""
        for root, place in (("workspace", "/workspace"), ("home", "/home/user"), ("tmp", "/tmp")):
            with self.subTest(root):
                made = self.put("in/data.bin", b"one", root=root, mode="640").json()
                self.assertEqual((made["path"], made["mode"]), ("in/data.bin", "0640"))
                self.assertEqual(self.sh(f"cat {place}/in/data.bin"), "one")
                self.put("in/data.bin", b"two", root=root, offset=3)
                got = self.call("GET", self.at("in/data.bin", root=root), headers={"Range": "bytes=3-"}, status=206)
                self.assertEqual(got.body, b"two")
                self.assertEqual(set(self.listing(root=root, path="in")[0]), {"in/data.bin"})
                self.assertIn("in/data.bin", self.listing(root=root, depth=2)[0])
                self.assertEqual(self.listing(root=root, path="in/data.bin", depth=0)[0]["in/data.bin"]["size"], 6)
                self.assertEqual(set(self.listing(path=f"{place}/in")[0]),
                                 {"in/data.bin" if root == "workspace" else f"{place}/in/data.bin"})
                self.call("POST", f"{self.session.path}/files:move?root={root}", {"from": "in/data.bin", "to": "to/moved"}, status=204)
                self.assertEqual(self.call("POST", f"{self.session.path}/files:mkdir?root={root}", {"path": "made"}).json()["path"], "made")
                self.assertEqual(self.sh(f"cd {place}; cat to/moved; test -d made"), "onetwo")
                packed = self.call("GET", f"{self.session.path}/archive?root={root}&path=to", status=200)
                self.assertIn("to.tar", packed.headers["content-disposition"])
                self.call("PUT", f"{self.session.path}/archive?root={root}&path=again", packed.body, status=200)
                self.assertEqual(self.sh(f"cat {place}/again/moved"), "onetwo")
                whole = self.call("GET", f"{self.session.path}/archive?root={root}", status=200)
                self.assertIn(f"{root}.tar", whole.headers["content-disposition"])
                for name in ("to", "again", "made", "in"):
                    self.call("DELETE", self.at(name, root=root, recursive="true"), status=204)
                self.assertEqual(self.sh(f"ls {place}"), "")
        self.assertProblem(self.put("x", b"", status=400, root="etc"), 400, field="query.root")
        self.assertProblem(self.put("/tmp/x", b"", status=400, root="home"), 400, field="url.path")
        self.assertProblem(self.call("POST", f"{self.session.path}/files:move", {"from": "/tmp/none", "to": "x"}, status=404), 404)

    def test_a_root_is_watched(self):
        with contextlib.closing(self.server.events(f"{self.session.path}/files:watch?root=home")) as stream:
            for event, _, data in stream:
                if event == "ready":
                    self.put("seen", b"x", root="home")
                if event == "created":
                    self.assertEqual(data["path"], "seen")
                    break
        self.sh("rm ~/seen")

    def test_home_is_not_the_workspace(self):
        self.assertEqual(self.sh("cd; pwd; echo $HOME; stat -c '%a %u' ~; getent passwd sandbox | cut -d: -f6"),
                         "/home/user\n/home/user\n755 1000\n/home/user\n")
        self.sh("echo x > ~/.setting; mkdir -p ~/.cache/tool")
        self.assertEqual(self.sh("ls -A"), "")
        self.assertEqual(self.session.exec("print(open('/home/user/.setting').read())")["stdout"], "x\n\n")
        self.sh("rm -r ~/.setting ~/.cache")

    def test_moves_makes_and_removes(self):
        self.put("a/file", b"x")
        move, make = f"{self.session.path}/files:move", f"{self.session.path}/files:mkdir"
        self.call("POST", move, {"from": "a/file", "to": "b/c/file"}, status=204)
        self.put("other", b"y")
        self.assertProblem(self.call("POST", move, {"from": "other", "to": "b/c/file"}), 409, field="from")
        self.call("POST", move, {"from": "other", "to": "b/c/file", "overwrite": True}, status=204)
        self.assertEqual(self.fetch("b/c/file").body, b"y")
        self.assertProblem(self.call("POST", move, {"from": "gone", "to": "x"}), 404, field="from")
        self.assertProblem(self.call("POST", move, {"from": "gone"}), 422, field="to")
        self.assertProblem(self.call("POST", move, {"from": "../x", "to": "y"}), 422, field="from")
        for _ in range(2):
            self.assertEqual(self.call("POST", make, {"path": "d/e"}, status=200).json()["type"], "directory")
        self.assertProblem(self.call("POST", make, {"path": "b/c/file"}), 409, field="path")
        self.assertProblem(self.call("DELETE", self.at("b")), 409, field="url.path")
        self.call("DELETE", self.at("b", recursive="true"), status=204)
        self.assertProblem(self.call("DELETE", self.at("b")), 404, field="url.path")
        self.call("DELETE", self.at("d/e"), status=204)

    def test_archives_go_both_ways(self):
        self.sh("mkdir -p src/in; echo one > src/file; echo two > src/in/'a b'; ln -s nowhere src/link; chmod 750 src/file")
        archive = self.call("GET", f"{self.session.path}/archive?path=src", status=200).body
        with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
            self.assertEqual({m.name: (m.type, m.mode) for m in tar if m.name != "in"},
                             {"file": (tarfile.REGTYPE, 0o750), "in/a b": (tarfile.REGTYPE, 0o644),
                              "link": (tarfile.SYMTYPE, 0o777)})
        done = self.call("PUT", f"{self.session.path}/archive?path=copy/of", archive, status=200).json()
        self.assertEqual(done, {"left_out": 0})
        self.assertEqual(self.sh("diff -r --no-dereference src copy/of && echo same"), "same\n")
        self.assertProblem(self.call("PUT", f"{self.session.path}/archive", b"x" * 1024), 400, field="query.path")
        self.assertProblem(self.call("GET", f"{self.session.path}/archive?path=gone"), 404, field="query.path")

    def test_a_full_workspace_is_told_and_changes_nothing(self):
        with Session(self.server, self.call, language="python", disk_mb=8) as small:
            answer = small.call("PUT", "/files/big", b"x" * (9 * MIB))
            self.assertProblem(answer, 413, field="url.path")
            self.assertEqual(small.call("GET", "/files", status=200).json()["entries"], [])

    def test_what_changes_something_is_audited(self):
        self.put("noted", b"x")
        self.fetch("noted")
        self.call("DELETE", self.at("noted"), status=204)
        rows = [json.loads(line) for line in self.call("GET", "/v1/audit/export").text.splitlines()]
        rows = [row for row in rows if row["subject"] == self.session.id and row["action"].startswith("file.")]
        self.assertEqual([(row["action"], row["details"]["arguments"][0]) for row in rows[-2:]],
                         [("file.written", "noted"), ("file.removed", "noted")])

    @contextlib.contextmanager
    def broken_off(self, method, path, body, length):
        """Sends `body` of a request with a length of `length` bytes, and closes the connection at the end of the
        block."""
        with socket.create_connection((self.server.host, self.server.port)) as client:
            client.sendall(f"{method} {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {self.server.key}\r\n"
                           f"Content-Length: {length}\r\n\r\n".encode() + body)
            yield

    def rows(self, action):
        rows = [json.loads(line) for line in self.call("GET", "/v1/audit/export").text.splitlines()]
        return [row["details"] for row in rows if (row["subject"], row["action"]) == (self.session.id, action)]

    def test_an_archive_that_fails_or_breaks_off_is_audited(self):
        before = len(self.rows("file.unpacked"))
        self.call("PUT", f"{self.session.path}/archive?path=refused", b"x" * 1024, status=400)
        rows = self.rows("file.unpacked")[before:]
        self.assertEqual([row["arguments"] for row in rows], [["refused"]])
        self.assertTrue(rows[0]["incomplete"])
        stream = io.BytesIO()
        with tarfile.open(fileobj=stream, mode="w") as tar:
            for name in ("first", "second"):
                entry = tarfile.TarInfo(name)
                entry.size = 100_000
                tar.addfile(entry, io.BytesIO(b"x" * entry.size))
        archive = stream.getvalue()
        with self.broken_off("PUT", f"{self.session.path}/archive?path=broken", archive[:150_000], len(archive)):
            harness.wait_for("its first file", lambda: self.sh("stat -c %s broken/first || true") == "100000\n")
        rows = harness.wait_for("its audit row", lambda: self.rows("file.unpacked")[before + 1:])
        self.assertEqual((rows[0]["arguments"], rows[0]["incomplete"]), (["broken"], "the client broke it off"))
        self.assertEqual(self.listing(path="broken", depth=1)[0]["broken/first"]["size"], 100_000)

    def test_an_archive_that_breaks_off_leaves_the_modes_as_they_were(self):
        self.sh("mkdir -p src/shut; head -c 30000000 /dev/zero > src/shut/large; chmod 0 src/shut/large src/shut")
        with socket.create_connection((self.server.host, self.server.port)) as client:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 16384)
            client.sendall(f"GET {self.session.path}/archive?path=src HTTP/1.1\r\nHost: localhost\r\n"
                           f"Authorization: Bearer {self.server.key}\r\n\r\n".encode())
            self.assertIn(b" 200 ", client.recv(4096))
            self.assertEqual(self.sh("stat -c %a src/shut"), "500\n")
        harness.wait_for("the mode to be as it was", lambda: self.sh("stat -c %a src/shut") == "0\n")
        self.assertEqual(self.sh("chmod 700 src/shut; stat -c %a src/shut/large"), "0\n")

    def test_only_in_a_session_that_runs_and_is_ours(self):
        other = self.new_key("other-tenant")["secret"]
        for method, path in (("GET", "/files"), ("GET", "/files/x"), ("PUT", "/files/x"), ("DELETE", "/files/x"),
                             ("POST", "/files:move"), ("POST", "/files:mkdir"), ("GET", "/archive"), ("PUT", "/archive")):
            body = {"POST": {"from": "a", "to": "b"} if "move" in path else {"path": "a"}, "PUT": b"x"}.get(method)
            with self.subTest(method=method, path=path):
                self.assertProblem(self.call(method, self.session.path + path, body, key=other), 404)
                self.assertProblem(self.call(method, "/v1/sessions/ses_" + "0" * 26 + path, body), 404)
        with Session(self.server, self.call, language="python") as ended:
            ended.end()
            self.assertProblem(ended.call("GET", "/files"), 409)

    def digest(self, path, buffer=None, go_on=None):
        """(size, SHA-256) of an answer's body. `go_on`: an event to wait for after the first piece."""
        sha, size = hashlib.sha256(), 0
        connection = http.client.HTTPConnection(self.server.host, self.server.port, timeout=300)
        try:
            connection.connect()
            if buffer:
                connection.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer)
            connection.request("GET", path, headers={"Authorization": f"Bearer {self.server.key}"})
            answer = connection.getresponse()
            self.assertEqual(answer.status, 200)
            while piece := answer.read(256 << 10):
                sha.update(piece)
                size += len(piece)
                if go_on:
                    go_on.wait(harness.limit(30))
        finally:
            connection.close()
        return size, sha.hexdigest()

    def test_a_slow_reader_loses_nothing_and_holds_up_nobody(self):
        body = os.urandom(MIB) * 24
        with Session(self.server, self.call, language="python", memory_mb=128) as session:
            session.call("PUT", "/files/large", body, status=200)
            go_on = threading.Event()
            with concurrent.futures.ThreadPoolExecutor() as pool:
                slow = pool.submit(self.digest, session.path + "/files/large", 16384, go_on)
                for _ in range(25):
                    self.assertEqual(session.call("GET", "/files/large", headers={"Range": "bytes=0-99"}).status, 206)
                self.assertFalse(slow.done(), "nobody was slow")
                go_on.set()
                self.assertEqual(slow.result(), (len(body), hashlib.sha256(body).hexdigest()))

    @unittest.skipUnless(harness.ROOT, "only root may reset another process's peak")
    @unittest.skipIf(harness.SANITIZED, "the sanitizer holds what was freed for a while")
    def test_large_files_take_little_memory(self):
        pieces = 1024 if harness.LONG else 200
        piece = os.urandom(MIB)
        wanted = hashlib.sha256()
        for _ in range(pieces):
            wanted.update(piece)
        # A tmpfs of three quarters of the memory.
        with Session(self.server, self.call, language="python", memory_mb=2048 if harness.LONG else 1024,
                     disk_mb=1500 if harness.LONG else 700) as large:
            pids = [self.server.pid_of(name) for name in ("cloisterd", "cloister-node")]
            before = [harness.memory_of(pid) for pid in pids]
            for pid in pids:
                with open(f"/proc/{pid}/clear_refs", "w") as peak:
                    peak.write("5")
            large.call("PUT", "/files/large", itertools.repeat(piece, pieces), status=200)
            self.assertEqual(self.digest(large.path + "/files/large"), (pieces * MIB, wanted.hexdigest()))
            for pid, was in zip(pids, before):
                self.assertLess(harness.memory_of(pid, "VmHWM") - was, 32 * MIB)


if __name__ == "__main__":
    unittest.main()
