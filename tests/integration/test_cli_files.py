# SPDX-License-Identifier: Apache-2.0
"""`cloister cp` and `cloister session files`: round trips, refusals, and interrupted copies."""

import contextlib
import io
import json
import os
import pathlib
import pty
import select
import signal
import stat
import subprocess
import tarfile
import time
import unittest

from harness import wait_for
from proxy import BreakingProxy
from test_cli_sessions import SessionCase

MIB = 1 << 20


class FilesCase(SessionCase):
    def refused(self, *args, word, status, **options):
        """The command ends with `status` and prints `word`."""
        done = self.cli(*args, **options)
        self.assertEqual(done.returncode, status, done.stderr)
        self.assertTrue(done.stderr.startswith("cloister: "), done.stderr)
        self.assertIn(word, done.stderr)

    def inside(self, session, command):
        return self.good("exec", session, "--", "sh", "-c", command)

    def local(self, name, data, mode=0o644):
        path = self.folder / name
        path.write_bytes(data)
        path.chmod(mode)
        return path

    def left(self):
        """All files in the folder, hidden or not."""
        return sorted(str(path.relative_to(self.folder)) for path in self.folder.rglob("*"))


class Files(FilesCase):
    def test_round_trips(self):
        session = self.session()
        for name, size, mode in (("empty", 0, 0o644), ("one piece", 65_536, 0o600), ("large", 5 * MIB, 0o751), ("-x?#%ü", 9, 0o444)):
            with self.subTest(name):
                data = os.urandom(size)
                source, target = self.local(name, data, mode), self.folder / "back"
                up = json.loads(self.good("cp", "--json", source, f"{session}:in/{name}"))
                self.assertEqual(up, {"from": str(source), "to": f"{session}:/workspace/in/{name}", "bytes": size})
                self.assertEqual(self.inside(session, f"stat -c '%a %s' 'in/{name}'"), f"{mode:o} {size}\n")
                down = json.loads(self.good("cp", "--json", f"{session}:/workspace/in/{name}", target))
                self.assertEqual((down["to"], down["bytes"]), (str(target), size))
                self.assertTrue(target.read_bytes() == data, "other bytes came back")
                self.assertEqual(stat.S_IMODE(target.stat().st_mode), mode)
                target.unlink()
                source.unlink()
        self.assertEqual(self.left(), [])

    def test_the_target_takes_the_name(self):
        session = self.session()
        source = self.local("a.txt", b"a")
        self.good("cp", source, f"{session}:")
        self.good("cp", source, f"{session}:d/e/")
        self.assertEqual(self.inside(session, "find . -type f | sort"), "./a.txt\n./d/e/a.txt\n")
        source.unlink()
        for target in (self.folder, f"{self.folder}/", self.folder / "other"):
            self.assertEqual(self.good("cp", f"{session}:a.txt", target), "")
        self.assertEqual(self.left(), ["a.txt", "other"])

    def test_a_file_is_replaced_a_link_followed_a_device_written(self):
        session = self.session()
        self.inside(session, "printf new > f")
        old = self.local("old", b"older than that")
        link = self.folder / "link"
        link.symlink_to("old")
        self.good("cp", f"{session}:f", link)
        self.assertTrue(link.is_symlink())
        self.assertEqual(old.read_bytes(), b"new")
        self.good("cp", f"{session}:f", "/dev/null")
        self.assertTrue(pathlib.Path("/dev/null").is_char_device())
        self.assertEqual(self.left(), ["link", "old"])

    def test_standard_input_and_output(self):
        session = self.session()
        data = os.urandom(3 * MIB)
        self.good("cp", "-", f"{session}:x", input=data, text=False)
        done = self.cli("cp", f"{session}:x", "-", text=False)
        self.assertEqual((done.returncode, done.stderr), (0, b""))
        self.assertTrue(done.stdout == data, "other bytes came back")
        done = self.cli("cp", "--json", f"{session}:x", "-", text=False)
        self.assertEqual(json.loads(done.stderr)["bytes"], len(data))
        self.refused("cp", "-", f"{session}:d/", word="say what the file is to be called", status=2)

    def test_archives_on_standard_input_and_output(self):
        session = self.session()
        buffer = io.BytesIO()
        with tarfile.open(fileobj=buffer, mode="w") as archive:
            for name in ("a", "d/b"):
                info = tarfile.TarInfo(name)
                info.size = 2
                archive.addfile(info, io.BytesIO(b"x\n"))
            fifo = tarfile.TarInfo("fifo")
            fifo.type = tarfile.FIFOTYPE
            archive.addfile(fifo)
        done = self.cli("cp", "-r", "-", f"{session}:in", input=buffer.getvalue(), text=False)
        self.assertEqual((done.returncode, done.stderr), (0, b"cloister: left out 1, which are no files, directories or links\n"))
        self.assertEqual(self.inside(session, "cat in/a in/d/b"), "x\nx\n")
        with tarfile.open(fileobj=io.BytesIO(self.good("cp", "-r", f"{session}:in", "-", text=False))) as back:
            self.assertEqual(sorted(back.getnames()), ["a", "d", "d/b"])
        self.refused("cp", "-r", "-", f"{session}:in", input="this is no archive" * 100, word="unpacking", status=2)

    def test_listing(self):
        session = self.session()
        self.inside(session, "mkdir -p d/e; printf 12345 > d/f; chmod 640 d/f; ln -s f d/l; mkfifo d/p; touch d/e/deep")
        rows = [line.split() for line in self.good("session", "files", session, "d").splitlines()]
        self.assertEqual(rows[0], ["TYPE", "MODE", "SIZE", "AGE", "PATH"])
        self.assertEqual([(row[0], row[-1]) for row in rows[1:]],
                         [("directory", "d/e"), ("file", "d/f"), ("link", "d/l"), ("other", "d/p")])
        self.assertEqual(rows[2][1:4], ["0640", "5", "B"])
        deep = json.loads(self.good("session", "files", session, "/workspace/d", "--depth", "2", "--json"))
        self.assertIn("d/e/deep", [entry["path"] for entry in deep["entries"]])
        only = json.loads(self.good("session", "files", session, "d/f", "--depth", "0", "--json"))["entries"]
        self.assertEqual([(entry["path"], entry["size"]) for entry in only], [("d/f", 5)])
        few = self.cli("session", "files", session, "--depth", "9", "--limit", "2")
        self.assertEqual((few.returncode, len(few.stdout.splitlines())), (0, 3))
        self.assertIn("raise --limit", few.stderr)
        self.refused("session", "files", session, "missing", word="no such file", status=4)
        self.refused("session", "files", session, "/etc", word="/workspace", status=2)
        self.refused("session", "files", "ses_x", word="there is no session", status=4)
        self.refused("session", "files", word="which session", status=2)

    def test_refusals_say_what_to_do(self):
        session = self.session()
        self.inside(session, "mkdir d; ln -s /etc/passwd l")
        here = self.local("here", b"here")
        for args, word, status in (
                (("a", "b"), "write SESSION:PATH", 2), ((f"{session}:a", f"{session}:b"), "both are in a session", 2),
                ((here,), "give SRC and DST", 2), ((here, f"{session}:/etc/x"), "only what is in /workspace", 2),
                ((here, f"{session}:../x"), "..", 2), ((here, "ses_x:x"), "there is no session ses_x", 4),
                ((f"{session}:missing", here), "no such file", 4), ((f"{session}:l", here), "link", 3),
                ((f"{session}:d", self.folder / "new"), "give -r", 2), ((self.folder, f"{session}:x"), "give -r", 2),
                ((self.folder / "missing", f"{session}:x"), "No such file", 4), ((here, f"{session}:d"), "directory", 3),
                (("-r", f"{session}:d", here), "there already", 3), ((f"{session}:d/../x", here), "..", 2),
                ((f"{session}:l", self.folder / "no" / "x"), "No such file", 4)):
            with self.subTest(args):
                self.refused("cp", *args, word=word, status=status)
        self.refused("cp", "a", "b", "c", word="what is", status=2)
        self.assertEqual(here.read_bytes(), b"here")
        self.assertEqual(self.left(), ["here"])


class Directories(FilesCase):
    def tree(self):
        """A directory with odd names and links."""
        root = self.folder / "tree"
        (root / "sub dir" / "empty").mkdir(parents=True)
        for number, name in enumerate(("a", "-rf", "new\nline", "ü ☃", "x" * 200, ".hidden", "sub dir/b", "back\\slash")):
            (root / name).write_text(f"{number}" * number)
        (root / "a").chmod(0o750)
        (root / "to a").symlink_to("a")
        (root / "out").symlink_to("/etc/passwd")
        (root / "dangling").symlink_to("nowhere/at all")
        return root

    @staticmethod
    def shape(root):
        """{name: kind} of everything beneath the folder."""
        def one(path):
            if path.is_symlink():
                return os.readlink(path)
            return None if path.is_dir() else (path.read_bytes(), stat.S_IMODE(path.stat().st_mode))
        return {os.fsencode(path.relative_to(root)): one(path) for path in root.rglob("*")}

    def test_round_trip(self):
        session = self.session()
        root = self.tree()
        up = json.loads(self.good("cp", "-r", "--json", root, f"{session}:"))
        self.assertEqual(up["to"], f"{session}:/workspace/tree")
        self.assertEqual(self.inside(session, "cat tree/'sub dir'/b"), "666666\n".strip())
        back = self.folder / "back"
        self.good("cp", "-r", f"{session}:tree", back)
        self.assertEqual(self.shape(back), self.shape(root))
        self.good("cp", "-r", f"{session}:tree/", back)  # is there: takes the name
        self.assertEqual(self.shape(back / "tree"), self.shape(root))
        self.refused("cp", "-r", f"{session}:tree", back, word="there already", status=3)
        empty = self.folder / "empty"
        empty.mkdir(0o711)
        before = empty.stat()
        self.good("cp", "-r", f"{session}:", empty)
        self.assertEqual(self.shape(empty / "tree"), self.shape(root))
        self.assertEqual((empty.stat().st_ino, empty.stat().st_mode), (before.st_ino, before.st_mode))
        self.assertEqual(sorted(os.listdir(self.folder)), ["back", "empty", "tree"])

    def test_contents_without_a_name(self):
        session = self.session()
        self.good("cp", "-r", f"{self.tree()}/.", f"{session}:")
        self.assertEqual(self.inside(session, "cat 'sub dir/b'"), "666666")
        self.good("cp", "-r", f"{session}:a", self.folder)  # -r of a file is a plain copy
        self.assertEqual((self.folder / "a").read_bytes(), b"")

    def test_what_a_session_makes_of_its_files(self):
        """FIFOs do not come along, set-user-ID does not stay, and links lead nowhere during unpacking."""
        session = self.session()
        self.inside(session, "mkdir d; cd d; mkfifo p; touch s; chmod 4755 s; ln -s /tmp up; mkdir e; touch e/f")
        self.good("cp", "-r", f"{session}:d", self.folder)
        self.assertEqual(self.left(), ["d", "d/e", "d/e/f", "d/s", "d/up"])
        self.assertEqual(stat.S_IMODE((self.folder / "d/s").stat().st_mode), 0o755)

    def test_without_tar(self):
        session = self.session()
        self.inside(session, "mkdir d")
        for args in ((self.tree(), f"{session}:x"), (f"{session}:d", self.folder / "d")):
            self.refused("cp", "-r", *args, word="install the package tar", status=125, env={"PATH": "/nonexistent"})
        self.assertEqual(os.listdir(self.folder), ["tree"])

    def test_options_of_the_environment_are_not_tars(self):
        session = self.session()
        self.inside(session, "mkdir d; touch d/f")
        self.good("cp", "-r", f"{session}:d", self.folder / "d", env={"TAR_OPTIONS": "--exclude=f"})
        self.assertEqual(self.left(), ["d", "d/f"])


class BrokenOff(FilesCase):
    def begun(self, *args):
        """A copy that has received some bytes, and is stopped there."""
        process = self.start("cp", *args)

        def some():
            if process.poll() is not None:
                raise AssertionError(f"it has ended: {process.stderr.read()}")
            with contextlib.suppress(OSError):
                return any(path.stat().st_size > 0 for path in self.folder.rglob("*") if path.is_file())

        wait_for("the first bytes", some, every=0.001)
        process.send_signal(signal.SIGSTOP)
        return process

    def large(self):
        session = self.good("session", "create", "--language", "bash", "--memory", "512").strip()
        self.addCleanup(self.cli, "session", "end", session)
        self.inside(session, "mkdir d; head -c 200M /dev/zero > d/large")
        return session

    def test_by_the_end_of_the_session(self):
        for args in (("d/large",), ("d", "-r")):
            with self.subTest(args):
                session = self.large()
                process = self.begun(f"{session}:{args[0]}", self.folder / "got", *args[1:])
                self.good("session", "end", session)
                process.send_signal(signal.SIGCONT)
                self.assertEqual(process.wait(30), 125)
                self.assertIn(b"broke off", process.stderr.read())
                self.assertEqual(self.left(), [])

    def test_by_a_signal(self):
        session = self.large()
        for args, number, status in ((("d/large",), signal.SIGINT, 130), (("d", "-r"), signal.SIGTERM, 143)):
            with self.subTest(args):
                process = self.begun(f"{session}:{args[0]}", self.folder / "got", *args[1:])
                process.send_signal(number)
                process.send_signal(signal.SIGCONT)
                self.assertEqual(process.wait(30), status)
                self.assertEqual(self.left(), [])

    def test_by_the_connection(self):
        session = self.session()
        source = self.local("f", os.urandom(MIB))
        self.good("cp", source, f"{session}:d/f")
        source.unlink()
        with BreakingProxy(self.server, 50_000) as proxy:
            env = {"CLOISTER_URL": f"http://127.0.0.1:{proxy.port}"}
            self.refused("cp", f"{session}:d/f", self.folder / "f", word="broke off", status=125, env=env)
            self.refused("cp", "-r", f"{session}:d", self.folder / "d", word="broke off", status=125, env=env)
        self.assertEqual(self.left(), [])

    def test_an_upload_changes_nothing(self):
        session = self.session()
        self.inside(session, "printf old > f")
        process = self.start("cp", "-", f"{session}:f", stdin=subprocess.PIPE)
        process.stdin.write(b"x" * 300_000)
        process.stdin.flush()
        self.end(process)
        self.assertEqual(self.inside(session, "cat f; ls -A"), "oldf\n")


class Progress(FilesCase):
    def test_a_bar_on_a_terminal(self):
        session = self.session()
        for flags, wanted in (((), True), (("--quiet",), False)):
            with self.subTest(flags):
                main, side = pty.openpty()
                self.addCleanup(os.close, main)
                process = self.start("cp", *flags, "-", f"{session}:f", stdin=subprocess.PIPE, stderr=side)
                os.close(side)
                said, end = b"", time.monotonic() + (20 if wanted else 1.5)
                while b"/s" not in said and time.monotonic() < end:  # a piece at a time: progress is drawn after each
                    process.stdin.write(b"x" * 1024)
                    process.stdin.flush()
                    if select.select([main], [], [], 0.05)[0]:
                        said += os.read(main, 4096)
                process.stdin.close()
                process.stdin = None
                self.assertEqual(process.wait(20), 0)
                self.assertEqual(b"KiB/s" in said, wanted, said)


if __name__ == "__main__":
    unittest.main()
