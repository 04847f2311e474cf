# SPDX-License-Identifier: Apache-2.0
"""P22 to P28 on a session's files: names, links, swaps, special files, and archives."""
import concurrent.futures
import contextlib
import http.client
import io
import pathlib
import tarfile
import time
import unittest
import urllib.parse

from hostile import HostileTest, harness
from session_case import Session

OPERATIONS = 20_000 if harness.LONG else 1_000
# Exchanges a directory with a link, and a file with a link, without end. The links lead to existing files outside of
# the workspace: following a link would find them.
SWAP = r'''
import ctypes, os
libc = ctypes.CDLL(None)
os.mkdir("/tmp/out"); open("/tmp/out/CANARY", "w").write("theirs")
os.mkdir("d"); os.symlink("/tmp/out", "e")
for name, link in (("f", "g"), ("h", "i")):
    open(name, "w").write("mine"); os.symlink("/tmp/out/CANARY", link)
print("swapping", flush=True)
while True:
    for a, b in ((b"d", b"e"), (b"f", b"g"), (b"h", b"i")):
        libc.syscall(316, -100, a, -100, b, 2)  # renameat2, RENAME_EXCHANGE
'''


class Files(HostileTest):
    def setUp(self):
        super().setUp()
        self.session = Session(self.server, language="python", memory_mb=256)
        self.canary = str(self.canaries.file)

    def tearDown(self):
        self.session.end()
        super().tearDown()

    def call(self, method, path, body=None, headers=None):
        answer = self.session.call(method, path, body, headers)
        self.assertNotIn(self.canaries.secret.encode(), answer.body)
        self.assertLess(answer.status, 500, (method, path, answer.body[:500]))
        return answer

    def sh(self, script):
        done = self.session.exec(command=["sh", "-c", script])
        self.assertEqual(done["exit_code"], 0, done["stderr"])
        return done["stdout"]

    def show(self, execution):
        return self.call("GET", f"/v1/executions/{execution['id']}").json()

    def stop(self, execution):
        self.assertIn(self.call("DELETE", f"/v1/executions/{execution['id']}").status, (200, 202))
        self.assertEqual(self.server.wait_end(execution["id"])["status"], "cancelled")

    @unittest.skipUnless(harness.LONG, "waits for longer than a silent node may take, 70 s: with --long")
    def test_what_waits_in_a_quiet_directory_ends_nothing(self):
        deadline = time.monotonic() + 70
        told = None
        with contextlib.closing(self.server.events(f"{self.session.path}/files:watch")) as stream:
            for event, _, data in stream:
                if time.monotonic() < deadline:
                    continue
                told = data.get("path")
                if told == "told":
                    break
                self.sh("echo x > told")
        self.assertEqual(told, "told")
        self.assertEqual(self.sh("cat told"), "x\n")

    def each_way(self, path):
        """Every route with a path, for this already encoded path."""
        yield "GET", f"/files/{path}", None
        yield "PUT", f"/files/{path}", b"x"
        yield "PUT", f"/files/{path}?offset=0", b"x"
        yield "DELETE", f"/files/{path}?recursive=true", None
        yield "GET", f"/files?path={path}", None
        yield "GET", f"/files?depth=0&path={path}", None
        yield "GET", f"/archive?path={path}", None
        yield "PUT", f"/archive?path={path}", tar(("x", b"x"))
        plain = urllib.parse.unquote_to_bytes(path).decode(errors="replace")
        yield "POST", "/files:move", {"from": plain, "to": "moved", "overwrite": True}
        yield "POST", "/files:move", {"from": "kept", "to": plain, "overwrite": True}
        yield "POST", "/files:mkdir", {"path": plain}

    def test_p22_a_path_of_the_host_is_one_of_the_sandbox(self):
        """/tmp is a root of both."""
        canary = pathlib.Path(self.canary)
        self.assertTrue(self.canary.startswith("/tmp/"), self.canary)
        self.assertEqual(self.call("GET", f"/files/{self.canary}").status, 404)
        self.assertEqual(self.call("PUT", f"/files/{self.canary}", b"theirs").status, 200)
        self.assertEqual(self.sh(f"cat {self.canary}"), "theirs")
        self.assertEqual(self.call("DELETE", f"/files/{self.canary}").status, 204)
        self.assertIn(self.canaries.secret, canary.read_text())

    def test_p22_names_that_lead_elsewhere(self):
        self.call("PUT", "/files/kept", b"kept")
        bad = ["..", "../x", "a/../../x", "%2e%2e/x", "..%2fx", "%2fetc%2fpasswd", "/etc/passwd", "a//b", "./x", "a/.",
               "%00", "a%00b", "a/" * 2500 + "x", "/var" + urllib.parse.quote(self.canary)]
        for path in bad:
            for method, target, body in self.each_way(path):
                with self.subTest(method=method, target=target[:80]):
                    answer = self.call(method, target, body)
                    self.assertIn(answer.status, (400, 404, 414, 422), answer.body[:300])
        for path in ("%c0%ae%c0%ae/x", "%ff"):  # overlong, and no UTF-8 at all
            self.assertEqual(self.call("GET", f"/files/{path}").status, 400)
        self.assertEqual(self.call("PUT", "/files/" + "n" * 256, b"x").status, 400)
        self.assertEqual(self.call("PUT", "/files/..%5cx", b"x").status, 200)  # here, a name like any other
        self.assertEqual(set(self.sh("ls -A").split()), {"kept", "..\\x"})

    def rooted(self, path):
        """The routes with a path, for each root but the workspace."""
        for root in ("home", "tmp"):
            for method, target, body in self.each_way(path):
                yield root, method, f"{target}{'&' if '?' in target else '?'}root={root}", body

    def test_p22_names_that_lead_out_of_a_root(self):
        for root in ("home", "tmp"):
            self.assertEqual(self.call("PUT", f"/files/kept?root={root}", b"kept").status, 200)
        self.sh("echo kept > kept; mkdir -p /tmp/user /dev/shm/out")
        bad = ["..", "../x", "../user", "../workspace/kept", "a/../../x", "%2e%2e/x", "..%2fx", "%2fetc%2fpasswd", "/etc/passwd",
               "/home/other", "/home", "/tmpx", "/home/userx/a", "/workspace/../etc", "/home/user/../x", "/tmp/../etc/passwd",
               "/dev/shm/out/x", "a//b", "./x", "a/.", "%00", "/var" + urllib.parse.quote(self.canary)]
        for path in bad:
            for root, method, target, body in self.rooted(path):
                with self.subTest(method=method, target=target[:80]):
                    self.assertIn(self.call(method, target, body).status, (400, 404, 414, 422))
            if path.startswith("/"):  # without a root, an absolute path begins with one
                for method, target, body in self.each_way(path):
                    with self.subTest(method=method, target=target[:80]):
                        self.assertIn(self.call(method, target, body).status, (400, 404, 414, 422))
        self.assertEqual(self.sh("ls -A . ~ /tmp /dev/shm/out"), ".:\nkept\n\n/dev/shm/out:\n\n/home/user:\nkept\n\n/tmp:\nkept\nuser\n")

    def test_p23_links_in_a_root_are_not_followed(self):
        for place in ("/home/user", "/tmp"):
            self.sh(f"cd {place}; ln -s {self.canary} file; ln -s / root; ln -s /etc dir; ln -s .. up; ln -s /workspace ws;"
                    f" echo kept > kept; ln -s kept near; ln -s /proc/1/root proc")
        self.sh("echo kept > kept")
        before = self.sh("ls -l /etc | md5sum; ls -A; cat ~/kept /tmp/kept")
        for path in ("file", f"root{self.canary}", "dir/passwd", "up/x", "ws/kept", "ws/x", "proc/etc/passwd", "near"):
            for root, method, target, body in self.rooted(path):
                if method == "DELETE" or "files:move" in target or (method, target) == ("PUT", f"/files/{path}?root={root}"):
                    if "/" not in path:
                        continue  # these are about the link itself
                if "depth=0" in target and "/" not in path:
                    self.assertEqual(self.call(method, target, body).json()["entries"][0]["type"], "link")
                    continue
                with self.subTest(method=method, target=target):
                    self.assertIn(self.call(method, target, body).status, (404, 409))
        self.assertEqual(self.sh("ls -l /etc | md5sum; ls -A; cat ~/kept /tmp/kept"), before)

    def test_p23_p24_links_are_not_followed(self):
        self.sh(f"ln -s {self.canary} file; ln -s / root; ln -s /etc dir; ln -s .. up; echo kept > kept;"
                " ln -s kept near; ln -s /proc/1/root proc")
        before = self.sh("ls -l /etc | md5sum; ls -A /tmp")
        for path in ("file", "root", f"root{self.canary}", "dir/passwd", "up/x", "proc/etc/passwd", "near"):
            for method, target, body in self.each_way(path):
                if method == "DELETE" or "files:move" in target or (method, target) == ("PUT", f"/files/{path}"):
                    continue  # these are about the link itself
                if "depth=0" in target and "/" not in path:
                    self.assertEqual(self.call(method, target, body).json()["entries"][0]["type"], "link")
                    continue
                with self.subTest(method=method, target=target):
                    self.assertEqual(self.call(method, target, body).status, 409)
        for path in ("file", "near"):
            self.assertEqual(self.call("PUT", f"/files/{path}", b"mine").status, 200)
        for path in ("root", "dir"):
            self.assertEqual(self.call("DELETE", f"/files/{path}?recursive=true").status, 204)
        self.assertEqual(self.sh("cat kept file; test -e /bin/sh && ls -l /etc | md5sum; ls -A /tmp"), "kept\nmine" + before)

    def test_p25_swapped_while_it_is_used(self):
        swap = self.session.post(SWAP, background=True, timeout_seconds=600).json()
        harness.wait_for("it to swap", lambda: "swapping" in self.show(swap)["stdout"])
        name = "CANARY"
        ways = [("GET", f"/files/d/{name}", None), ("PUT", f"/files/d/{name}", b"mine"), ("GET", "/files/f", None),
                ("PUT", "/files/h", b"mine"), ("GET", "/files?path=d&depth=3", None), ("GET", "/archive?path=d", None),
                ("PUT", "/archive?path=d", tar((name, b"mine"))), ("DELETE", f"/files/d/{name}", None)]

        def one(number):
            method, path, body = ways[number % len(ways)]
            answer = self.call(method, path, body)
            self.assertIn(answer.status, (200, 204, 404, 409), (method, path, answer.body[:300]))
            self.assertNotIn(b"theirs", answer.body)
            if path.startswith("/files/") and answer.status == 200 and method == "GET":
                self.assertIn(answer.body, (b"mine", b""))
            return method, path.split("?")[0], answer.status

        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            told = set(pool.map(one, range(OPERATIONS)))
        # The requests met the file and the link.
        self.assertLessEqual({("GET", "/files/f", 200), ("GET", "/files/f", 409), ("PUT", "/files/d/CANARY", 200),
                              ("PUT", "/files/d/CANARY", 409), ("GET", "/archive", 200)}, told)
        self.stop(swap)
        self.assertEqual(self.sh("cd /tmp/out; ls; cat CANARY"), "CANARY\ntheirs")

    def test_p26_what_is_no_file_holds_nothing_up(self):
        self.sh("mkfifo fifo; mkdir dir; python3 -c \"import socket; socket.socket(socket.AF_UNIX).bind('socket')\";"
                " ln -s /dev/zero zero; truncate -s 1T sparse 2>/dev/null || truncate -s 100M sparse")
        for name in ("fifo", "socket", "zero", "dir"):
            self.assertIn(self.call("GET", f"/files/{name}").status, (400, 409), name)
        self.assertEqual(self.call("PUT", "/files/fifo?offset=0", b"x").status, 409)
        self.assertEqual(self.call("PUT", "/files/dir", b"x").status, 409)
        size = next(e["size"] for e in self.call("GET", "/files").json()["entries"] if e["path"] == "sparse")
        self.assertEqual(self.call("GET", "/files/sparse", headers={"Range": f"bytes={size - 5}-"}).body, bytes(5))
        # A growing file is sent with its length at the beginning.
        grows = self.session.post("f = open('grows', 'wb', 0)\nwhile True: f.write(bytes(9999)); f.seek(0)",
                                  background=True).json()
        harness.wait_for("it to grow", lambda: self.call("GET", "/files/grows").status == 200)
        self.stop(grows)
        self.sh("rm sparse")
        with tarfile.open(fileobj=io.BytesIO(self.call("GET", "/archive").body)) as archive:
            self.assertEqual({member.name for member in archive if not member.name.startswith(".cloister-")},
                             {"dir", "zero", "grows"})

    def test_p29_a_list_of_long_paths_is_cut(self):
        """4,000 paths of 2,000 bytes: more than a list holds, and the list says so."""
        self.sh("d=$(printf '%0250d/' 1 2 3 4 5 6 7 8); mkdir -p $d; cd $d; seq -f 'f%g' 4000 | xargs touch")
        daemon = self.server.pid_of("cloisterd")
        before = harness.memory_of(daemon)
        told = self.call("GET", "/files?depth=128&limit=10000").json()
        self.assertEqual(len(told["entries"]) + told["left_out"], 4008)
        self.assertGreater(told["left_out"], 1000)
        if not harness.SANITIZED:
            self.assertLess(harness.memory_of(daemon) - before, 64 << 20)

    def test_p27_archives_that_climb(self):
        link = ("l", b"", {"type": tarfile.SYMTYPE, "linkname": "/tmp"})
        bad = {"climbs": tar(("../x", b"x")), "absolute": tar(("/tmp/x", b"x")), "through a link": tar(link, ("l/x", b"x")),
               "hard link": tar(("h", b"", {"type": tarfile.LNKTYPE, "linkname": "/etc/passwd"})),
               "hard link up": tar(("h", b"", {"type": tarfile.LNKTYPE, "linkname": "../../etc/passwd"})),
               "pax path": tar(("plain", b"x", {"pax_headers": {"path": "../../tmp/x"}})),
               "long name": tar(("../" * 60 + "x", b"x"), format=tarfile.GNU_FORMAT)}
        bad["the home directory"] = tar(("/home/user/x", b"x"))
        for name, archive in bad.items():
            with self.subTest(name):
                answer = self.call("PUT", "/archive?path=t", archive)
                self.assertIn(answer.status, (400, 409), answer.body[:300])
        self.assertEqual(self.sh("ls -A /tmp"), "")
        odd = tar(("dev", b"", {"type": tarfile.CHRTYPE, "devmajor": 1, "devminor": 5}), ("pipe", b"", {"type": tarfile.FIFOTYPE}),
                  ("set-id", b"x", {"mode": 0o6777, "uid": 0, "gid": 0}))
        self.assertEqual(self.call("PUT", "/archive?path=o", odd).json(), {"left_out": 2})
        self.assertEqual(self.sh("ls -A o; stat -c '%a %u' o/set-id; id -u").split(), ["set-id", "777", self.sh("id -u").strip()] +
                         [self.sh("id -u").strip()])

    def test_p28_archives_without_end(self):
        pids = [self.server.pid_of(name) for name in ("cloisterd", "cloister-node")]
        before = [harness.memory_of(pid) for pid in pids]
        for pid in pids if harness.ROOT else []:
            pathlib.Path(f"/proc/{pid}/clear_refs").write_text("5")  # proc(5): resets VmHWM
        huge = tarfile.TarInfo("huge")
        huge.size = 1 << 40
        self.assertEqual(self.call("PUT", "/archive?path=a", huge.tobuf() + bytes(1 << 20)).status, 400)  # a cut archive
        self.assertEqual(self.call("PUT", "/archive?path=b", tar(("x", bytes(240 << 20)))).status, 413)
        many = b"".join(tarfile.TarInfo(f"f{number}").tobuf() for number in range(70_000))
        self.assertEqual(self.call("PUT", "/archive?path=c", many).status, 413)  # by the inodes
        for path in "abc":  # unpacked before the refusal
            answer = self.call("DELETE", f"/files/{path}?recursive=true")
            self.assertEqual(answer.status, 204, (path, answer.body))
        self.assertEqual(self.call("PUT", "/archive?path=d", tar(("d/" * 2000 + "x", b"x"))).status, 200)
        # Deeper than these go; `rm -r` inside does.
        self.assertEqual(self.call("DELETE", "/files/d?recursive=true").status, 400)
        with self.assertRaises(http.client.IncompleteRead):
            self.call("GET", "/archive?path=d")
        bad = bytearray(huge.tobuf())
        bad[124:136] = b"\x80" + b"\xff" * 11  # a size in base 256
        self.assertEqual(self.call("PUT", "/archive?path=e", bytes(bad)).status, 400)
        for pid, was in zip(pids, before):
            if not harness.SANITIZED:  # ASan holds freed memory for a while
                self.assertLess(harness.memory_of(pid, "VmHWM" if harness.ROOT else "VmRSS") - was, 64 << 20)


def tar(*members, format=tarfile.PAX_FORMAT):
    """An archive of (name, content, attributes of TarInfo)."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w", format=format) as archive:
        for name, content, *more in members:
            info = tarfile.TarInfo(name)
            info.size = len(content)
            for attribute, value in (more[0] if more else {}).items():
                setattr(info, attribute, value)
            archive.addfile(info, io.BytesIO(content))
    return packed.getvalue()


if __name__ == "__main__":
    unittest.main()
