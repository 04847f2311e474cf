# SPDX-License-Identifier: Apache-2.0
"""P23 to P29 during a snapshot or a restoration: links, swaps, special files, names, bombs; and a program that
fights the stop."""
import os
import pathlib
import unittest

from hostile import AS_USER, HostileTest, harness
from processes import program_of
from session_case import Session

ROUNDS = 400 if harness.LONG else 25
NAMES = ("new\nline", "\x1b]52;c;cm0gLXJm\x07", "\u202egpj.exe", 'quo"te', "per%0d%0aInjected: 1", " ", "-rf", "..\\x")


class Snapshots(HostileTest):
    def setUp(self):
        super().setUp()
        self.sessions = []
        self.session = self.make(memory_mb=512)
        self.canary = str(self.canaries.file)

    def tearDown(self):
        for session in self.sessions:
            session.end()
        for each in self.server.request("GET", "/v1/snapshots?limit=500").json()["snapshots"]:
            self.server.request("DELETE", f"/v1/snapshots/{each['id']}")
        super().tearDown()

    def make(self, **request):
        session = Session(self.server, language="python", **request)
        self.sessions.append(session)
        return session

    def good(self, session, code, **request):
        done = session.exec(command=["python3", "-c", code], **request)  # `code` would leave a file
        self.assertEqual((done["status"], done["exit_code"]), ("completed", 0), done["stderr"])
        return done["stdout"]

    def take(self):
        answer = self.session.call("POST", "/snapshots", {})
        self.assertNotEqual(answer.status, 500, answer.body[:500])
        return answer

    def restored(self, snapshot, **request):
        return self.make(memory_mb=512, from_snapshot=snapshot["id"], **request)

    def test_p23_p24_links_are_kept_and_not_followed(self):
        self.good(self.session, f"""
import os
for n, target in enumerate(({self.canary!r}, "/proc/1/root" + {self.canary!r}, "/etc/passwd", "/proc/self/exe", "loop-4")):
    os.symlink(target, f"loop-{{n}}")
for n, target in enumerate(("/", "/proc/1/root", "/proc/self/cwd", ".", "..")):
    os.symlink(target, f"folder-{{n}}")
for n, target in enumerate(({self.canary!r}, "/etc/passwd", "/bin/sh")):
    try: os.link(target, f"hard-{{n}}")
    except OSError: pass
open("kept", "w").write("mine"); os.link("kept", "twice")
""")
        made = self.take().json()
        self.assertEqual((made["entries"], made["size"]), (12, 8))
        session = self.restored(made)
        self.assertEqual(self.good(session, "import os; print(sorted(n for n in os.listdir() if not os.path.islink(n)), os.readlink('loop-0'))"),
                         f"['kept', 'twice'] {self.canary}\n")

    def test_p25_a_process_that_swaps_until_it_is_stopped(self):
        self.good(self.session, f"""
import ctypes, os
libc = ctypes.CDLL(None)
os.mkdir("d"); open("d/f", "w").write("mine"); os.symlink("/etc", "e")
open("f", "w").write("mine"); os.symlink({self.canary!r}, "g")
if os.fork() == 0:
    os.setsid()
    for n in range(3): os.close(n)
    while True:
        for a, b in ((b"d", b"e"), (b"f", b"g")):
            libc.syscall(316, -100, a, -100, b, 2)  # renameat2, RENAME_EXCHANGE
""")
        for _ in range(ROUNDS):
            made = self.take().json()
            self.assertEqual((made["entries"], made["size"]), (5, 8))
            self.session.call("DELETE", f"/v1/snapshots/{made['id']}", status=204)

    def test_what_works_against_being_stopped(self):
        """Processes that come and go, and that continue each other: a snapshot or a refusal, soon."""
        self.good(self.session, """
import os, signal, time
signal.signal(signal.SIGTSTP, signal.SIG_IGN)
for n in range(4):
    if os.fork() == 0:
        os.setsid()
        for fd in range(3): os.close(fd)
        while True:
            pid = os.fork()
            if pid == 0:
                try: os.kill(-1, signal.SIGCONT)
                except OSError: pass
                os._exit(0)
            os.waitpid(pid, 0)
""")
        for _ in range(5):
            self.assertIn(self.take().status, (201, 503))
        self.assertEqual(self.good(self.session, "print('usable')"), "usable\n")

    def test_a_program_that_kills_what_reads(self):
        self.good(self.session, """
import os, signal
if os.fork() == 0:
    os.setsid()
    for fd in range(3): os.close(fd)
    while os.getppid() != 1: pass
    while True:
        try: os.kill(-1, signal.SIGKILL)
        except OSError: pass
""")
        for _ in range(5):
            self.assertIn(self.take().status, (201, 409, 503))
        self.assertEqual(self.session.show()["status"], "running")

    def test_p26_what_is_no_file_is_left_out(self):
        self.good(self.session, """
import os, socket, stat
os.mkfifo("fifo"); socket.socket(socket.AF_UNIX).bind("socket")
for mode in (stat.S_IFCHR, stat.S_IFBLK):
    try: os.mknod("device", mode | 0o666, os.makedev(1, 5)); print("made a device")
    except PermissionError: pass
open("set-id", "w").write("x"); os.chmod("set-id", 0o6777)
open("kept", "w").write("x")
""")
        made = self.take().json()
        self.assertEqual(made["entries"], 2)
        session = self.restored(made)
        self.assertEqual(self.good(session, "import os; print(sorted(os.listdir()), oct(os.stat('set-id').st_mode))"),
                         "['kept', 'set-id'] 0o100777\n")

    def test_p28_sparse_files_and_many_entries(self):
        daemon = self.server.pid_of("cloisterd")
        before = harness.memory_of(daemon)
        self.good(self.session, "open('sparse', 'wb').truncate(900 << 20)\nopen('again', 'wb').truncate(900 << 20)", timeout_seconds=60)
        made = self.take().json()
        self.assertLess(made["added_bytes"], 16 << 20, "zeros are one chunk")
        answer = self.session.call("POST", "/v1/sessions", {"language": "python", "memory_mb": 256, "from_snapshot": made["id"]})
        self.assertEqual(answer.status, 422, "files that do not fit are refused before anything is made")
        self.session.call("DELETE", f"/v1/snapshots/{made['id']}", status=204)
        self.good(self.session, "import os\nos.unlink('sparse'); os.unlink('again')\nfor n in range(50_000): open(f'{n}' + 'n' * 200, 'w').close()",
                  timeout_seconds=120)
        made = self.take().json()
        self.assertEqual(made["entries"], 50_000)
        if not harness.SANITIZED:  # ASan holds freed memory for a while
            self.assertLess(harness.memory_of(daemon) - before, 64 << 20)

    def test_p29_names_that_break_lines_and_archives(self):
        self.good(self.session, f"""
import os
for name in {NAMES!r}: open(name, "w").write(name)
for name in (b"\\xff\\xfe", b"\\xc0\\xae\\xc0\\xae", b"n" * 255): open(name, "wb").write(name)
deep = "d"
for n in range(100): os.mkdir(deep); deep += "/" + "d" * 30
""")
        names = "import os; print(sorted(os.listdir(b'.')))"
        session = self.restored(self.take().json())
        self.assertEqual(self.good(session, names), self.good(self.session, names))

    def test_deeper_than_a_path_may_be(self):
        self.good(self.session, "import os\nfor n in range(300): os.mkdir('d'); os.chdir('d')")
        self.assertEqual(self.take().status, 422)
        self.assertEqual(self.good(self.session, "print('usable')"), "usable\n")


RUNSC = "/usr/bin/runsc"
# A program that fights a snapshot: forks without end, and stops and ends all processes it can, its runner first.
FIGHTS = """
import os, signal, time
end = time.monotonic() + 60
while time.monotonic() < end:
    for sign in (signal.SIGSTOP, signal.SIGCONT, signal.SIGUSR1):
        try: os.kill(1, sign)
        except OSError: pass
    try:
        if os.fork() == 0: os.kill(os.getpid(), signal.SIGSTOP)
    except OSError: time.sleep(0.01)
"""
# Takes all available memory, page by page, and keeps the pages.
GRABS = """
import time
kept = []
for _ in range(600):
    try: kept.append(bytearray(b"x" * (1 << 20)))
    except MemoryError: pass
    time.sleep(0.01)
"""


@unittest.skipIf(AS_USER or not os.path.exists(RUNSC), "gVisor keeps the memory of sessions, for root's nodes")
class Memory(HostileTest):
    """Snapshots with memory."""

    MEMORY_MB, OVERHEAD_MB = 256, 128  # gvisor.overhead_mb

    def session(self, **request):
        made = Session(self.server, language="python", runtime="gvisor", memory_mb=self.MEMORY_MB, **request)
        self.paths.append(made.path)
        return made

    def setUp(self):
        super().setUp()
        self.paths = []

    def tearDown(self):
        for path in self.paths:
            self.server.request("DELETE", path)
        for each in self.server.request("GET", "/v1/snapshots?limit=500").json()["snapshots"]:
            self.server.request("DELETE", f"/v1/snapshots/{each['id']}")
        super().tearDown()

    def take(self, session):
        answer = session.call("POST", "/snapshots", {"memory": True})
        self.assertNotEqual(answer.status, 500, answer.body[:500])
        return answer

    def limits(self):
        """The memory limits of each sandbox with a kernel of its own, in MiB."""
        found = []
        for pid in self.server.pids():
            if program_of(pid) != "runsc-sandbox":
                continue
            for line in pathlib.Path(f"/proc/{pid}/cgroup").read_text().splitlines():
                _, controllers, path = line.split(":", 2)
                files = {"memory": f"/sys/fs/cgroup/memory{path}/memory.limit_in_bytes", "": f"/sys/fs/cgroup{path}/memory.max"}
                file = pathlib.Path(files.get(controllers, "/nonexistent"))
                if file.exists():
                    found.append(int(file.read_text()) >> 20)
        return found

    def test_programs_that_fight_are_kept_or_refused(self):
        victim, session = self.session(), self.session(pids=32)
        session.start(command=["python3", "-c", FIGHTS], timeout_seconds=60)
        kept = [self.take(session).json() for _ in range(3)]
        for each in kept:
            if "id" not in each:
                continue
            answer = self.server.request("POST", "/v1/sessions", {"from_snapshot": each["id"]})
            self.assertNotEqual(answer.status, 500, answer.body[:500])
            if answer.status == 201:  # and with the bounds of the original
                self.assertEqual(answer.json()["limits"]["pids"], 32)
                self.server.request("DELETE", f"/v1/sessions/{answer.json()['id']}")
        self.assertEqual(victim.exec(command=["echo", "alive"])["stdout"], "alive\n")

    def test_memory_that_was_lent_is_taken_back(self):
        """A program that grabs lent memory is ended, at the latest when it does not give the memory back."""
        session = self.session()
        session.start(command=["python3", "-c", GRABS], timeout_seconds=60)
        for _ in range(3):
            self.take(session)
        usual = self.MEMORY_MB + self.OVERHEAD_MB
        harness.wait_for("the usual limit", lambda: all(each <= usual for each in self.limits()), 30)

    def test_a_copy_has_limits_of_its_own(self):
        session = self.session()
        self.assertEqual(session.exec(code="kept = b'x' * (50 << 20)", kernel="python")["exit_code"], 0)
        made = self.take(session).json()
        with Session(self.server, language="python", from_snapshot=made["id"]) as copy:
            self.assertEqual(sorted(self.limits()), [self.MEMORY_MB + self.OVERHEAD_MB] * 2)
            done = copy.exec(command=["python3", "-c", "kept = [bytearray(b'x' * (1 << 20)) for _ in range(3000)]"])
            self.assertEqual((done["status"], (done["error"] or {}).get("details", {}).get("limit")),
                             ("failed", "memory_mb"), done)
        self.assertEqual(session.exec(code="print(len(kept))", kernel="python")["stdout"], f"{50 << 20}\n")


if __name__ == "__main__":
    unittest.main()
