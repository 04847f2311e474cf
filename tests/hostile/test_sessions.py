# SPDX-License-Identifier: Apache-2.0
"""S01 to S12: hostile programs in sessions. Harm stays within the session, and is reported; the end of a program
ends all of its processes, and nothing else."""
import base64
import concurrent.futures
import ctypes
import os
import pathlib
import threading
import unittest

from hostile import AS_USER, PROGRAMS, RUNTIME, HostileTest, harness
import machine
from session_case import Session
from websocket import TEXT, WebSocket

MIB = 1 << 20
# Answers each line of input; forks nothing, so that a full pids cgroup does not block the answer.
ECHO = "import sys\nfor line in sys.stdin: print('got', line.strip(), flush=True)"
ESCAPE = r'''
import os, time
def gone(depth):
    if os.fork() == 0:
        os.setsid()
        if depth: gone(depth - 1)
        for fd in range(64):
            try: os.close(fd)
            except OSError: pass
        while True:
            with open("/workspace/heartbeat", "a") as log: log.write("beat\n")
            time.sleep(0.02)
for _ in range(4): gone(2)
print("so far", flush=True)
time.sleep(60)
'''
# Looks at another session: its files, processes, IPC, sockets and ports.
LEAVE = r'''
import ctypes, os, socket, sys
libc = ctypes.CDLL(None, use_errno=True)
for path in ("/tmp/left", "/dev/shm/left", "/workspace/left"): open(path, "w").close()
libc.shmget(0x5e51d, 4096, 0o1666); libc.msgget(0x5e51d, 0o1666)
held = [socket.socket(socket.AF_UNIX), socket.socket()]
held[0].bind("\0left"); held[0].listen()
held[1].bind(("127.0.0.1", 47001)); held[1].listen()
print("left", flush=True)
sys.stdin.read()
'''
SEEN = r'''
import ctypes, os, socket
libc = ctypes.CDLL(None, use_errno=True)
seen = [path for path in ("/tmp/left", "/dev/shm/left", "/workspace/left") if os.path.exists(path)]
if libc.shmget(0x5e51d, 0, 0) >= 0: seen.append("shm")
if libc.msgget(0x5e51d, 0) >= 0: seen.append("msg")
for name, address in (("abstract", "\0left"), ("port", ("127.0.0.1", 47001))):
    with socket.socket(socket.AF_UNIX if name == "abstract" else socket.AF_INET) as client:
        if client.connect_ex(address) == 0: seen.append(name)
others = [p for p in os.listdir("/proc") if p.isdigit() and int(p) not in (1, os.getpid())]
print(len(others), *seen)
'''
# Counts the opened files of the image and the root, until stdin has input; and the program's own locks.
WATCH = r'''
import ctypes, fcntl, json, os, struct, sys
IN_OPEN = 0x20
libc = ctypes.CDLL(None, use_errno=True)
inotify = libc.inotify_init1(os.O_NONBLOCK)
library = os.path.dirname(os.__file__)
tops = ["/", "/etc", "/usr/bin", "/usr/lib", library, os.path.dirname(json.__file__), "/usr/bin/sha1sum"]
places = {libc.inotify_add_watch(inotify, top.encode(), IN_OPEN): top for top in tops}
assert len(places) == len(tops) and min(places) > 0, places
held = [open(path) for path in ("/usr/bin/env", "/etc/passwd")]
for each in held: fcntl.flock(each, fcntl.LOCK_EX)
print("watching", flush=True)
sys.stdin.read()
open("/usr/bin/dirname").close()
events, seen = os.read(inotify, 1 << 20), set()
while events:
    watch, _, _, length = struct.unpack_from("iIII", events)
    seen.add(places[watch] + "/" + events[16:16 + length].rstrip(b"\0").decode())
    events = events[16 + length:]
print(*sorted(seen - {"/usr/bin/env", "/etc/passwd"}))
'''
LOCKS = r'''
import fcntl, json.tool, wave
for path in ("/usr/bin/env", "/etc/passwd"): fcntl.flock(open(path), fcntl.LOCK_EX | fcntl.LOCK_NB)
print("free")
'''
# As many instances of inotify as there are, for as long as nothing comes on stdin.
ALL_INSTANCES = """
import ctypes, sys
libc, count = ctypes.CDLL(None), 0
while libc.inotify_init1(0) >= 0: count += 1
print(count, flush=True)
sys.stdin.read()
"""
LEAVES_SLEEPERS = """
import subprocess
for _ in range(3): subprocess.Popen(["sleep", "29"], start_new_session=True)
print("mine {}", flush=True)
subprocess.run(["sleep", "29"])
"""
KILL_ALL = "import os, signal\nos.kill(-1, signal.SIGKILL)\nprint('survived')"
CHANNEL = r'''
import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
print("own", sorted(map(int, os.listdir("/proc/self/fd")))[:3], len(os.listdir("/proc/self/fd")))
def attempt(what, act):
    try: result = act()
    except OSError as e: result = -e.errno
    print(what, "worked" if not isinstance(result, int) or result >= 0 else "refused")
attempt("list", lambda: os.listdir("/proc/1/fd"))
for fd in range(12):
    attempt(f"open {fd}", lambda: os.open(f"/proc/1/fd/{fd}", os.O_RDWR))
attempt("memory", lambda: os.open("/proc/1/mem", os.O_RDWR))
attempt("attach", lambda: libc.ptrace(16, 1, None, None))
attempt("seize", lambda: libc.ptrace(0x4206, 1, None, None))
pidfd = libc.syscall(434, 1, 0)
attempt("getfd", lambda: libc.syscall(438, pidfd, 3, 0))
attempt("kill", lambda: os.kill(1, 9) or os.stat("/proc/2000000"))
print("end")
'''

# Until the program is ended.
MANY_LOCKS = """
import fcntl, os, time
taken = []
for number in range(40):
    taken.append(open(str(number), "wb"))
    for at in range(1000): fcntl.lockf(taken[-1], fcntl.LOCK_EX, 1, 2 * at)
time.sleep(60)
"""


class Sessions(HostileTest):
    def setUp(self):
        super().setUp()
        self.sessions = []

    def tearDown(self):
        for session in self.sessions:
            session.end()
        super().tearDown()

    def open(self, **request):
        session = Session(self.server, **{"language": "python", "memory_mb": 128, **request})
        self.sessions.append(session)
        return session

    def program(self, session, name, *args, **request):
        """Runs a program of this folder in a session."""
        content = base64.b64encode((PROGRAMS / name).read_bytes()).decode()
        return session.exec(command=["/bin/sh", "-c", 'chmod 700 "$1" && shift && exec "$@"', "sh", name, "./" + name,
                                     *args],
                            files=[{"path": name, "content": content, "encoding": "base64"}], **request)

    def echo(self, session):
        """A program that must come to no harm: each call of the returned function checks an answer."""
        execution, count = session.start(ECHO, keep_input=True, timeout_seconds=300), 0

        def answers():
            nonlocal count
            count += 1
            sent = session.send(execution, f"{count}\n".encode())
            self.assertEqual(sent.status, 200, (sent.body, session.get(execution)))
            session.wait_output(execution, f"got {count}\n")

        answers()
        return answers

    def test_s01_fork_bomb_ends_alone(self):
        session, other = self.open(pids=64), self.open(pids=64)
        beside, elsewhere = self.echo(session), self.echo(other)
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            bomb = pool.submit(self.program, session, "p01_fork_bomb", timeout_seconds=2)
            while not bomb.done():
                beside()
                elsewhere()
        self.assertEnded(bomb.result(), "timed_out", "TIMEOUT")
        beside()
        self.assertEqual(len(session.programs()), 1)  # the answering program
        self.assertEqual(self.program(session, "p01_fork_bomb", timeout_seconds=1)["status"], "timed_out")
        self.assertEqual(len(session.programs()), 1)

    def test_s02_nothing_outlives_its_time_out(self):
        session = self.open()
        done = session.exec(ESCAPE, timeout_seconds=harness.limit(1))
        self.assertEnded(done, "timed_out", "TIMEOUT")
        self.assertEqual(done["stdout"], "so far\n")
        size = session.exec("import os; print(os.stat('/workspace/heartbeat').st_size)")["stdout"]
        self.assertGreater(int(size), 0)
        self.assertEqual(session.programs(), [])
        again = session.exec("import os, time; time.sleep(0.3); print(os.stat('/workspace/heartbeat').st_size)")
        self.assertEqual(again["stdout"], size)
        cancelled = session.start(ESCAPE)
        session.wait_output(cancelled, "so far")
        self.assertEqual(session.cancel(cancelled)["status"], "cancelled")
        self.assertEqual(session.programs(), [])

    def test_s02_stubborn_programs(self):
        session = self.open(pids=128)
        for how in ("ignore", "stop", "traced"):
            with self.subTest(how):
                done = self.program(session, "p03_stubborn", how, timeout_seconds=harness.limit(1))
                self.assertEnded(done, "timed_out", "TIMEOUT")
                self.assertEqual(done["stdout"], "so far\n")
                self.assertEqual(session.programs(), [])

    def test_s03_sessions_do_not_meet(self):
        """Programs of a session share all of it; another session shows nothing."""
        first, second = self.open(), self.open()
        execution = first.start(LEAVE, keep_input=True, timeout_seconds=300)
        first.wait_output(execution, "left")
        self.assertEqual(first.exec(SEEN)["stdout"].split(),
                         ["1", "/tmp/left", "/dev/shm/left", "/workspace/left", "shm", "msg", "abstract", "port"])
        self.assertEqual(second.exec(SEEN)["stdout"], "0\n")
        self.assertEqual(self.server.run(SEEN)["stdout"], "0\n")

    def test_s04_a_flood_stalls_nobody(self):
        session = self.open()
        beside = self.echo(session)
        floods = [session.start(command=["yes", "x" * 1000], timeout_seconds=3) for _ in range(3)]
        rounds = 0
        while any(not harness.finished(session.get(flood)) for flood in floods):
            beside()
            rounds += 1
        self.assertGreater(rounds, 1)
        for flood in floods:
            done = session.wait(flood)
            self.assertEqual((done["status"], done["stdout_truncated"]), ("timed_out", True))
            self.assertEqual(set(done["stdout"]), set("x\n"))

    def test_s01_sandboxes_are_spread_over_the_processors(self):
        """Also sandboxes without uids of their own: a spinning program delays few others."""
        sessions = [self.open() for _ in range(4)]
        look = "grep Cpus_allowed_list /proc/self/status"
        places = {session.exec(command=look)["stdout"] for session in sessions}
        if RUNTIME == "process":
            self.assertEqual(len(places) > 1, (os.cpu_count() or 1) > 1, places)

    def test_s04_a_flood_that_is_left_behind_stalls_nobody(self):
        """Its runner reads on, without end."""
        session = self.open()
        beside = self.echo(session)
        done = session.exec(command="for i in 1 2 3; do yes & done; sleep 0.2")
        self.assertEqual((done["status"], done["exit_code"]), ("completed", 0), done)
        for _ in range(20):
            beside()
        self.assertEqual(session.exec(command="echo here; pkill yes || kill -9 -1")["stdout"], "here\n")

    def test_s05_input_that_nobody_reads(self):
        session = self.open()
        beside = self.echo(session)
        daemon = pathlib.Path(f"/proc/{self.server.pid_of('cloisterd')}/statm")
        before = int(daemon.read_text().split()[1]) * 4096
        execution = session.start(command=["sleep", "29"], keep_input=True)
        answers = []

        def pour():
            while not answers or answers[-1] == 200:
                answers.append(session.send(execution, b"x" * MIB).status)

        senders = [threading.Thread(target=pour) for _ in range(4)]
        for sender in senders:
            sender.start()
        taken = -1
        while taken != len(answers):  # until all requests wait
            taken = len(answers)
            for _ in range(10):
                beside()
        self.assertLess(taken, 16)
        if not harness.SANITIZED:
            self.assertLess(int(daemon.read_text().split()[1]) * 4096 - before, 64 * MIB)
        self.assertEqual(session.cancel(execution)["status"], "cancelled")
        for sender in senders:
            sender.join(30)
            self.assertFalse(sender.is_alive())
        self.assertEqual(set(answers) - {200}, {409})
        beside()

    def test_s05_input_byte_by_byte(self):
        """Many small pieces wait for a program that does not read: their bytes are bounded, not their number."""
        session = self.open()
        beside = self.echo(session)
        execution = session.start(command=["sleep", "600"], keep_input=True, timeout_seconds=600)
        path = f"/v1/executions/{execution}/events"
        with WebSocket(self.server.host, self.server.port, path, {"Authorization": f"Bearer {self.server.key}"}) as client:
            for _ in range(5):  # the size of its pipe and its runner's buffer
                self.assertEqual(session.send(execution, b"x" * (64 << 10)).status, 200)
            for _ in range(5000):
                client.send(TEXT, b'{"type":"input","data":"x"}')
            client.send(TEXT, b'{"type":"signal","signal":"SIGTERM"}')
            self.assertEqual(session.wait(execution)["signal"], "SIGTERM")
        beside()

    def test_s06_many_time_outs(self):
        session = self.open()
        beside = self.echo(session)
        descriptors = self.descriptors()

        def cycle(n):
            return session.exec(LEAVES_SLEEPERS.format(n), timeout_seconds=0.5)

        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            for n, done in enumerate(pool.map(cycle, range(500 if harness.LONG else 100))):
                self.assertEqual(done["status"], "timed_out", done)
                self.assertTrue(f"mine {n}\n".startswith(done["stdout"]), done["stdout"])
        beside()
        self.assertEqual(len(session.programs()), 1)
        harness.wait_for("the runner's descriptors to be as before", lambda: self.descriptors() == descriptors)

    def descriptors(self):
        """The descriptors of the runner of the only sandbox with programs."""
        runners = [pid for pid in self.server.pids() if harness.program_of(pid) == "cloister-runner"
                   and len(harness.descendants(pid)) > 1]
        self.assertEqual(len(runners), 1)
        return len(os.listdir(f"/proc/{runners[0]}/fd"))

    def test_s07_closed_and_held_stdio(self):
        session = self.open()
        held = self.program(session, "p05_stdio", "held", timeout_seconds=harness.limit(10))
        self.assertEqual((held["status"], held["exit_code"], held["stdout"]), ("completed", 0, "parent says goodbye\n"))
        self.assertEqual(len(session.programs()), 1)  # the holder goes on alone
        session = self.open()
        closed = self.program(session, "p05_stdio", "closed", timeout_seconds=1)
        self.assertEnded(closed, "timed_out", "TIMEOUT")
        self.assertEqual(session.exec("print('goes on')")["stdout"], "goes on\n")

    def test_s08_kill_everything(self):
        """The program may kill processes in its sandbox; not the runner, and nothing elsewhere."""
        session, other = self.open(), self.open()
        elsewhere = self.echo(other)
        beside = session.start(command=["sleep", "29"])
        for number in range(5):
            done = session.exec(KILL_ALL)
            self.assertEnded(done, "completed")
            if number == 0 or done["exit_code"] == 0:
                self.assertEqual(done["stdout"], "survived\n", done["stderr"])
            else:  # there is nothing left to kill
                self.assertIn("ProcessLookupError", done["stderr"])
        self.assertEqual(session.wait(beside)["signal"], "SIGKILL")
        elsewhere()
        self.assertEqual(session.exec("print('goes on')")["stdout"], "goes on\n")

    def test_s09_the_runner_and_its_channel(self):
        session = self.open()
        beside = self.echo(session)
        done = session.exec(CHANNEL)
        lines = done["stdout"].splitlines()
        self.assertEqual((lines[0], lines[-1]), ("own [0, 1, 2] 4", "end"), done)  # the fourth is the listing's own
        self.assertEqual([line for line in lines[1:-1] if not line.endswith("refused")], [])
        self.assertRefused(self.program(session, "p21_runner"))
        beside()
        self.assertEqual(session.exec("print('goes on')")["stdout"], "goes on\n")

    def test_s10_memory_and_disk_are_its_own(self):
        other = self.open()
        elsewhere = self.echo(other)
        full = self.open(disk_mb=16)
        self.program(full, "p08_disk", "full")
        self.assertEqual(full.exec(command="rm fill*; echo on")["stdout"], "on\n")
        self.assertEqual(full.exec("print('goes on')")["stdout"], "goes on\n")
        hog = self.open(memory_mb=64)
        beside = hog.start(command=["sleep", "29"])
        execution = hog.start("x = bytearray(1 << 30)\nfor i in range(0, len(x), 4096): x[i] = 1")
        done = hog.wait(execution)
        if not machine.lacks_groups(self.server, hog.made):
            self.assertEnded(done, "failed", "RESOURCE_LIMIT_EXCEEDED", "memory_mb")
            self.assertEqual(hog.get(beside)["status"], "running")
            self.assertEqual(hog.exec("print('goes on')")["stdout"], "goes on\n")
        elsewhere()

    def test_s10_file_locks(self):
        """Too many locks of its programs end a session, and its programs, with the locks as their reason."""
        if RUNTIME != "process":
            self.skipTest("its locks are in a kernel of its own")
        session, other = self.open(), self.open()
        elsewhere = self.echo(other)
        done = session.wait(session.start(MANY_LOCKS, timeout_seconds=harness.limit(30)))
        self.assertEnded(done, "failed", "RESOURCE_LIMIT_EXCEEDED", "file_locks")
        reason = session.wait_ended()["end_reason"]
        self.assertEqual((reason["type"], reason["details"]["limit"]), ("RESOURCE_LIMIT_EXCEEDED", "file_locks"), reason)
        elsewhere()

    def test_s11_the_image_tells_of_no_other(self):
        """Neither by the image files that another session's programs open, nor by locks on them."""
        first, second = self.open(), self.open()
        execution = first.start(WATCH, keep_input=True, timeout_seconds=300)
        first.wait_output(execution, "watching")
        self.assertEqual(second.exec(command=["/usr/bin/sha1sum", "/dev/null"])["exit_code"], 0)
        self.assertEqual(second.exec(LOCKS)["stdout"], "free\n")
        self.assertEqual(self.server.run(LOCKS)["stdout"], "free\n")
        first.send(execution, eof=True)
        self.assertEqual(first.wait(execution)["stdout"], "watching\n/usr/bin/dirname\n")

    @unittest.skipIf(AS_USER or RUNTIME != "process", "without uids of its own, or in a kernel of its own")
    def test_s12_instances_of_inotify_are_its_own(self):
        """The kernel has 128 for each user by default: some users' instances take none from others and root."""
        for _ in range(10):
            session = self.open()
            session.wait_output(session.start(ALL_INSTANCES, keep_input=True, timeout_seconds=300), "16\n")
        libc = ctypes.CDLL(None)
        own = [libc.inotify_init1(0) for _ in range(16)]
        for fd in own:
            self.assertGreaterEqual(fd, 0)
            os.close(fd)


if __name__ == "__main__":
    unittest.main()
