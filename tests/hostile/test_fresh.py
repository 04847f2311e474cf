# SPDX-License-Identifier: Apache-2.0
"""F01 to F13: hostile programs in a session and in fresh sandboxes beside. The workspace is shared, and no object
passed through the workspace lets a sandbox into another."""
import json
import os
import pathlib
import signal
import unittest

from hostile import AS_USER, NEEDED, HostileTest, harness
import disk_case
from session_case import Session

SLEEPS = "import subprocess\nsubprocess.Popen(['sleep', '600'])\nprint('begun', flush=True)\nimport time; time.sleep(600)"
ECHO = "import sys\nfor line in sys.stdin: print('got', line.strip(), flush=True)"
# All possible meeting places of two sandboxes, and each way to look.
MEETS = r'''
import ctypes, os, socket, time
libc = ctypes.CDLL(None, use_errno=True)
PATHS, ADDRESSES = ("/tmp/left", "/dev/shm/left", "/workspace/left"), ("\0left", ("127.0.0.1", 47001))
def make(address): return socket.socket(socket.AF_UNIX if isinstance(address, str) else socket.AF_INET)
'''
LEAVE = MEETS + r'''
for path in PATHS: open(path, "w").close()
libc.shmget(0x5e51d, 4096, 0o1666); libc.msgget(0x5e51d, 0o1666)
held = [make(address) for address in ADDRESSES]
for each, address in zip(held, ADDRESSES): each.bind(address); each.listen()
print("left", flush=True)
time.sleep(600)
'''
SEEN = MEETS + r'''
seen = [path for path in PATHS if os.path.exists(path)]
if libc.shmget(0x5e51d, 0, 0) >= 0: seen.append("shm")
if libc.msgget(0x5e51d, 0) >= 0: seen.append("msg")
for address in ADDRESSES:
    with make(address) as client:
        if client.connect_ex(address) == 0: seen.append(address)
print(len([pid for pid in os.listdir("/proc") if pid.isdigit() and int(pid) not in (1, os.getpid())]), *seen)
'''
# Objects that a sandbox hands to another: its root, processes, namespaces, /tmp and itself.
PASS = r'''
import ctypes, os, socket
libc = ctypes.CDLL(None, use_errno=True)
KINDS = ("user", "mnt", "pid", "net", "ipc")
def give(channel):
    open("/tmp/private", "w").close()
    fds = [os.open(path, os.O_RDONLY) for path in ("/", "/proc", "/proc/self", "/tmp", *("/proc/self/ns/" + k for k in KINDS))]
    socket.send_fds(channel, [b"%d" % os.getpid()], fds + [libc.syscall(434, os.getpid(), 0)])
def probe(channel):
    pid, (root, proc, its, tmp, *rest), _, _ = socket.recv_fds(channel, 16, 16)
    spaces, pidfd = rest[:5], rest[5]
    def attempt(what, make):
        try: code = make()
        except OSError as error: print(what, error.errno); return
        print(what, ctypes.get_errno() if isinstance(code, int) and code < 0 else 0, flush=True)
    def opens(directory, path, flags=os.O_RDONLY): return lambda: os.read(os.open(path, flags, dir_fd=directory), 1)
    for name in ("status", "environ", "maps", "mem", "root/tmp/private", "cwd/meeting", "fd/0", "ns/mnt", "exe"):
        attempt("process-" + name, opens(proc, pid.decode() + "/" + name))
        attempt("self-" + name, opens(its, name))
    attempt("first", opens(proc, "1/status"))
    attempt("link", lambda: os.readlink("exe", dir_fd=its))
    attempt("oom", lambda: os.write(os.open("oom_score_adj", os.O_WRONLY, dir_fd=its), b"1000"))
    attempt("tmp", opens(tmp, "private"))
    attempt("tmp-new", lambda: os.open("new", os.O_CREAT | os.O_WRONLY, dir_fd=tmp))
    attempt("tmp-remove", lambda: os.unlink("private", dir_fd=tmp))
    attempt("root-tmp", opens(root, "tmp/private"))
    attempt("above", lambda: os.open("../..", os.O_RDONLY, dir_fd=root))
    for kind, space in zip(KINDS, spaces): attempt("setns-" + kind, lambda: libc.setns(space, 0))
    attempt("setns-process", lambda: libc.setns(pidfd, 0x20000000))
    attempt("kill", lambda: libc.syscall(424, pidfd, 9, None, 0))
    attempt("getfd", lambda: libc.syscall(438, pidfd, 0, 0))
    attempt("open_tree", lambda: libc.syscall(428, tmp, b"", 0x1001))
    print("end", flush=True)
'''
SERVES = PASS + r'''
meeting = socket.socket(socket.AF_UNIX); meeting.bind("/workspace/meeting"); meeting.listen()
print("ready", flush=True)
channel = meeting.accept()[0]
give(channel); probe(channel); channel.send(b"x")
'''
VISITS = PASS + r'''
channel = socket.socket(socket.AF_UNIX); channel.connect("/workspace/meeting")
probe(channel); give(channel); channel.recv(1)
'''
# Keeps a file and a directory of each new sandbox.
KEEPS = r'''
import socket
meeting = socket.socket(socket.AF_UNIX); meeting.bind("/workspace/meeting"); meeting.listen()
print("ready", flush=True)
kept = []
while True:
    channel = meeting.accept()[0]
    kept.append(socket.recv_fds(channel, 1, 2)); print("kept", len(kept), flush=True); channel.send(b"x")
'''
LEAVES_ITS_TMP = r'''
import os, socket
file = open("/tmp/large", "wb")
for _ in range(20): file.write(b"x" * (1 << 20))
file.flush()
channel = socket.socket(socket.AF_UNIX); channel.connect("/workspace/meeting")
socket.send_fds(channel, [b"x"], [file.fileno(), os.open("/tmp", os.O_RDONLY)]); channel.recv(1)
'''
WAITS = r'''
import os, time
print("begun", flush=True)
while not os.path.exists("/workspace/go"): time.sleep(0.01)
'''
FORKS = WAITS + r'''
count = 0
try:
    while os.fork() != 0: count += 1
    time.sleep(600)
except OSError: print("forks", count, flush=True)
time.sleep(600)
'''
# Puts a link to each of these in the place of a directory, and back, without end.
EXCHANGES = r'''
import ctypes, os
libc = ctypes.CDLL(None)
os.mkdir("sub")
for number, target in enumerate(("/", "/proc/1/root", "/tmp", "..", "/proc/self/fd")): os.symlink(target, f"to{number}")
print("begun", flush=True)
while True:
    for number in range(5):
        for _ in range(2): libc.renameat2(-100, b"sub", -100, b"to%d" % number, 2)
'''
# Puts a program of its own in the place of each new file of code.
FORGES = r'''
import ctypes, os
libc, seen = ctypes.CDLL(None), set(os.listdir("/workspace"))
watch = libc.inotify_init1(0)
libc.inotify_add_watch(watch, b"/workspace", 0x1ca)
print("ready", flush=True)
while True:
    os.read(watch, 1 << 16)
    for name in set(os.listdir("/workspace")) - seen:
        if not name.startswith(".cloister-") or os.path.getsize(name) == 0: continue
        seen.add(name)
        with open("forged", "w") as file: file.write("print('forged')\n")
        os.rename("forged", name)
'''
MOUNTS = r'''
import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
def attempt(what, make):
    try: code = make()
    except OSError as error: print(what, error.errno); return
    print(what, ctypes.get_errno() if isinstance(code, int) and code < 0 else 0)
attempt("rename", lambda: os.rename("/workspace", "/old"))
attempt("remove", lambda: os.rmdir("/workspace"))
attempt("exchange", lambda: libc.renameat2(-100, b"/workspace", -100, b"/tmp", 2))
attempt("unmount", lambda: libc.umount2(b"/workspace", 2))
attempt("bind", lambda: libc.mount(b"/tmp", b"/workspace", None, 4096, None))
attempt("move", lambda: libc.mount(b"/workspace", b"/tmp", None, 8192, None))
attempt("clone", lambda: libc.syscall(428, -100, b"/workspace", 1))
attempt("beneath", lambda: os.open("../etc/shadow", os.O_RDONLY))
print("end")
'''


class FreshCase(HostileTest):
    def setUp(self):
        super().setUp()
        self.sessions = []

    def tearDown(self):
        for session in self.sessions:
            session.call("DELETE", "")
        super().tearDown()

    def open(self, **request):
        session = Session(self.server, **{"language": "python", "memory_mb": 128, **request})
        self.sessions.append(session)
        return session

    def fresh(self, session, code, **request):
        done = session.exec(code, sandbox="fresh", **request)
        self.assertEqual(done["provenance"]["sandbox"], "fresh")
        return done

    def begin(self, session, code, said, **request):
        execution = session.start(code, **request)
        session.wait_output(execution, said)
        return execution

    def ended(self, session, executions):
        return {(done["status"], done["error"]["type"]) for done in map(session.wait, executions)}


class Apart(FreshCase):
    def test_f01_nothing_but_the_workspace_is_seen(self):
        """From a fresh sandbox into the session, from the session into a fresh sandbox, and between two fresh
        sandboxes."""
        ways = (("session", ("fresh",)), ("fresh", ("session", "fresh")))
        for leaves, looks in ways:
            session = self.open()
            self.begin(session, LEAVE, "left", sandbox=leaves, timeout_seconds=300)
            for where in looks:
                self.assertEqual(session.exec(SEEN, sandbox=where)["stdout"], "0 /workspace/left\n", (leaves, where))

    def test_f02_descriptors_that_they_pass_lead_nowhere(self):
        session = self.open()
        there = self.begin(session, SERVES, "ready")
        here = self.fresh(session, VISITS)
        if self.weakened(here, "Landlock"):
            self.skipTest("this kernel has no Landlock")
        self.assertRefused(here)
        seen = session.wait(there)
        seen["stdout"] = seen["stdout"].removeprefix("ready\n")
        self.assertRefused(seen)
        self.assertEqual(seen["exit_code"], 0, "it was killed")

    def test_f03_the_workspace_stays_where_it_is(self):
        session = self.open()
        for where in ("session", "fresh"):
            self.assertRefused(session.exec(MOUNTS, sandbox=where))
        self.begin(session, EXCHANGES, "begun")
        for _ in range(4):
            asked = {"command": ["/bin/cat", "CANARY", str(self.canaries.file)], "artifacts": ["sub/**"],
                     "files": [{"path": "sub/CANARY", "content": "x"}]}
            answer = session.post(query="?wait=60", sandbox="fresh", **asked).json()
            self.assertNotIn(self.canaries.secret, json.dumps(answer))
            self.assertNotIn("passwd", [pathlib.PurePath(each["path"]).name for each in answer["artifacts"]])

    @unittest.expectedFailure  # the code lies in the workspace, where any program of the session can change it
    def test_f04_code_is_what_was_asked_for(self):
        """Also for the approved code, and for `code_sha256`."""
        session = self.open()
        self.begin(session, FORGES, "ready")
        self.assertEqual({self.fresh(session, "print('asked')")["stdout"] for _ in range(3)}, {"asked\n"})


class Limits(FreshCase):
    @unittest.skipIf(AS_USER, "an ordinary user's sandboxes have no control groups: processes count together")
    def test_f05_fork_bombs_have_the_sessions_processes(self):
        session, other = self.open(pids=40), self.open()
        beside = self.begin(other, ECHO + "\n", "", keep_input=True)
        bombs = [self.begin(session, FORKS, "begun", sandbox="fresh") for _ in range(3)]
        session.exec(command="touch go")
        for bomb in bombs:
            session.wait_output(bomb, "forks")
        other.send(beside, b"1\n")
        other.wait_output(beside, "got 1")
        forks = [int(session.get(bomb)["stdout"].split()[-1]) for bomb in bombs]
        self.assertLess(sum(forks), 40, forks)
        self.assertLessEqual(session.show()["resource_usage"]["processes"], 40)
        self.assertEqual({session.cancel(bomb)["status"] for bomb in bombs}, {"cancelled"})
        self.assertEqual(self.fresh(session, "print(1)")["stdout"], "1\n")

    @unittest.skipIf(AS_USER, "an ordinary user's sandboxes have no control groups: memory counts by process")
    def test_f06_what_is_kept_of_one_counts_in_the_session(self):
        session = self.open()
        keeper = self.begin(session, KEEPS, "ready")
        ends = [self.fresh(session, LEAVES_ITS_TMP) for _ in range(6)]
        self.assertEqual(ends[0]["status"], "completed", ends[0])
        self.assertEqual(ends[-1]["error"]["type"], "RESOURCE_LIMIT_EXCEEDED", ends[-1])
        self.assertLessEqual(session.show()["resource_usage"]["memory_bytes"], 128 << 20)
        session.cancel(keeper)
        self.assertEqual(self.fresh(session, LEAVES_ITS_TMP.split("channel")[0])["status"], "completed")

    @unittest.skipIf(AS_USER, "an ordinary user's sandboxes have no control groups: memory counts by process")
    def test_f06_who_takes_the_memory_ends_alone(self):
        session = self.open()
        small = self.begin(session, WAITS, "begun", sandbox="fresh")
        for where in ("session", "fresh"):
            done = session.exec("b = b'x' * (200 << 20)", sandbox=where)
            self.assertEqual(done["error"]["type"], "RESOURCE_LIMIT_EXCEEDED", done)
        session.exec(command="touch go")
        self.assertEqual(session.wait(small)["status"], "completed")

    def test_f07_many_at_once(self):
        session, other = self.open(memory_mb=512, pids=128), self.open()
        answers = [session.post("import time; time.sleep(600)", "?wait=0", sandbox="fresh") for _ in range(26)]
        self.assertEqual([answer.status for answer in answers], [202] * 24 + [429] * 2)
        self.assertEqual(self.fresh(other, "print(1)")["stdout"], "1\n")
        ids = [answer.json()["id"] for answer in answers[:24]]
        self.assertEqual({session.cancel(each)["status"] for each in ids}, {"cancelled"})
        self.assertEqual(self.fresh(session, "print(1)")["stdout"], "1\n")


class Ends(FreshCase):
    def crowd(self, session):
        """A running program, and several that begin."""
        first = self.begin(session, SLEEPS, "begun", sandbox="fresh")
        return [first, *(session.post(SLEEPS, "?wait=0", sandbox="fresh").json()["id"] for _ in range(4))]

    def test_f08_with_the_session(self):
        for _ in range(2):
            session = self.open(memory_mb=256)
            crowd = self.crowd(session)
            session.end()
            self.assertEqual({session.wait(each)["status"] for each in crowd}, {"cancelled"})

    def test_f08_a_snapshot_waits_for_nobody_for_ever(self):
        """A snapshot is refused during a program, and any user of the session can end the program."""
        session = self.open(memory_mb=256)
        crowd = self.crowd(session)
        self.assertEqual(session.call("POST", "/snapshots", {}).status, 409)
        for each in crowd:
            session.cancel(each)
        self.assertEqual(session.call("POST", "/snapshots", {}).status, 201)

    def service_is_back(self):
        harness.wait_for("the node", lambda: self.server.request("GET", "/readyz", key=False).status == 200, 30)
        self.assertEqual(self.fresh(self.open(), "print(1)")["stdout"], "1\n")

    def all_gone(self):
        """No program runs on; the new processes are another node's, or another spawner's."""
        for each in self.sessions:
            each.call("DELETE", "")

        def gone():
            now = harness.Snapshot(self.server)
            left = [name for name in now.cgroups if "beside-" in name]
            return not now.processes and not left and len(now.cgroups) <= len(self.before.cgroups)

        harness.wait_for("the end of all sandboxes", gone, 30)
        self.before = harness.Snapshot(self.server)

    def test_f09_with_the_node(self):
        session = self.open(memory_mb=256)
        crowd = self.crowd(session)
        os.kill(self.server.pid_of("cloister-node"), signal.SIGKILL)
        self.assertEqual(self.ended(session, crowd), {("failed", "NODE_LOST")})
        self.service_is_back()
        self.all_gone()

    def test_f09_with_who_makes_them(self):
        """The spawner is killed while it owes sandboxes of all kinds; the node goes on with a new spawner."""
        session = self.open(memory_mb=256)
        crowd = [self.begin(session, SLEEPS, "begun", sandbox="fresh")]
        node, spawner = self.server.pid_of("cloister-node"), self.server.pid_of("cloister-spawner")
        os.kill(spawner, signal.SIGSTOP)
        runs = []
        for number in range(4):
            asked = {"language": "bash", "code": "echo 1", "memory_mb": 90 + number}  # a kind without a ready sandbox
            runs.append(self.server.request("POST", "/v1/executions?wait=0", asked).json()["id"])
            crowd.append(session.post(SLEEPS, "?wait=0", sandbox="fresh").json()["id"])
        os.kill(spawner, signal.SIGKILL)
        ends, outputs = self.ended(session, crowd), {self.server.wait_end(each)["stdout"] for each in runs}
        self.service_is_back()
        self.all_gone()
        self.assertEqual((ends, outputs), ({("failed", "RUNNER_LOST")}, {"1\n"}))
        self.assertEqual(self.server.pid_of("cloister-node"), node)


@unittest.skipIf(AS_USER, "workspaces on disk are root's, without a guest and not copied")
class OnDisk(FreshCase):
    CONFIG = "workspace:\n  disk:\n    over_mb: 100\n"

    def test_f10_the_disk_goes_while_they_write_to_it(self):
        if lack := disk_case.lack(self.server):
            self.skipTest(f"no workspaces on disk here: {lack}")
        session = self.open(disk_mb=160)
        writes = "file = open('large', 'wb')\nprint('begun', flush=True)\nwhile True: file.seek(0); file.write(b'x' * (1 << 20))"
        executions = [self.begin(session, writes, "begun", sandbox="fresh") for _ in range(2)]
        executions.append(session.post(SLEEPS, "?wait=0", sandbox="fresh").json()["id"])
        session.end()
        self.assertEqual({session.wait(each)["status"] for each in executions}, {"cancelled"})


class Rules(FreshCase):
    WALLS = ("import os, subprocess\ndef end(*argv):\n    try: return subprocess.run(argv, capture_output=True).returncode\n"
             "    except OSError as error: return error.errno\nprint(end('perl', '-v'), end('git', '--version'))")

    def request(self, method, path, body=None, key=None, status=200):
        answer = self.server.request(method, path, body, key=key)
        self.assertEqual(answer.status, status, answer.body[:1000])
        return answer.json()

    def agent(self, name, level, **rules):
        self.request("POST", f"/v1/agents/{name}/sandbox", {"level": level, **rules}, status=201)
        made = {"tenant": "default", "name": name, "roles": ["agent"], "agent": name}
        return self.request("POST", "/v1/keys", made, status=201)["secret"]

    def test_f11_an_agents_walls_are_around_it(self):
        key = self.agent("walled", "restricted", allowed_commands=["python3 *", "git *"])
        with Session(self.server, key=key, language="python") as session:
            asked = {"command": ["python3", "main.py"], "files": [{"path": "main.py", "content": self.WALLS}]}
            found = [session.post(query="?wait=60", sandbox=where, **asked).json()["stdout"] for where in ("session", "fresh")]
        self.assertEqual(found, ["2 0\n"] * 2)

    def test_f11_an_approval_is_for_one_kind_of_sandbox(self):
        key = self.agent("approved", "restricted", escalation={"auto_approve_safe": False})
        made = {"tenant": "default", "name": "approver", "roles": ["approver"]}
        approver = self.request("POST", "/v1/keys", made, status=201)["secret"]
        with Session(self.server, key=key, language="bash") as session:
            held = session.post(query="?wait=60", command="tac /etc/hostname; readlink /proc/self/ns/pid", sandbox="fresh").json()
            asked = held["error"]["details"]["escalation_id"]
            self.request("POST", f"/v1/escalations/{asked}:approve", {"reason": "seen"}, key=approver)
            done = session.wait(held["id"])
            self.assertEqual((done["status"], done["provenance"]["sandbox"]), ("completed", "fresh"))
            again = {"command": "tac /etc/hostname; readlink /proc/self/ns/pid", "approval": asked}
            for where in ("session", "fresh"):
                answer = session.post(query="?wait=60", sandbox=where, **again)
                self.assertNotEqual(answer.json().get("status"), "completed", answer.body)
            rows = self.request("GET", "/v1/audit?limit=1000")["entries"]
            kinds = {row["details"].get("sandbox") for row in rows if row["subject"] == held["id"]}
            self.assertEqual(kinds, {"fresh"})

    def test_f11_another_tenants_session_has_none_for_it(self):
        session = self.open()
        made = {"tenant": "stranger", "name": "s", "roles": ["agent"], "agent": "stranger"}
        key = self.request("POST", "/v1/keys", made, status=201)["secret"]
        for path, body in ((f"{session.path}/exec", {"command": "true", "sandbox": "fresh"}),
                           ("/v1/tool-calls", {"tool_id": "shell.execute", "arguments": {"command": "true"},
                                               "session_id": session.id})):
            real = self.server.request("POST", path, body, key=key)
            text = json.dumps(body).replace(session.id, "ses_" + "0" * 26)
            other = self.server.request("POST", path.replace(session.id, "ses_" + "0" * 26), json.loads(text), key=key)
            self.assertEqual((real.status, other.status), (404, 404), (path, real.body, other.body))


@unittest.skipIf(not NEEDED["gvisor"].exists(), f"no {NEEDED['gvisor']}: gVisor is not on this machine")
class Inside(FreshCase):
    CALLS = r'''
import json, socket
tools = socket.socket(socket.AF_UNIX); tools.connect("\0cloister-tools"); answers = tools.makefile("r")
mine = socket.socket(socket.AF_UNIX); mine.bind("\0mine"); mine.listen()
open("/workspace/kept", "w").close(); open("/tmp/private", "w").close()
LOOKS = """
import os, socket
def reached(name):
    with socket.socket(socket.AF_UNIX) as client: return client.connect_ex(name) == 0
print(os.path.exists("/workspace/kept"), os.listdir("/tmp"), reached("\\0mine"), reached("\\0cloister-tools"),
      len([p for p in os.listdir("/proc") if p.isdigit()]))
"""
for more in ({"sandbox": "fresh"}, {"sandbox": "session"}, {"sandbox": "fresh", "nested": True}, {"nested": False}, {}):
    tools.sendall(json.dumps({"language": "python", "code": LOOKS, **more}).encode() + b"\n")
    answer = json.loads(answers.readline())
    print(answer["stdout"].strip() if "stdout" in answer else "refused")
'''

    def test_f12_calls_from_inside(self):
        """Never in the session's own sandbox, and without a way to call further."""
        session = self.open(runtime="gvisor", nested=True, memory_mb=256, pids=128)
        self.assertEqual(session.exec(self.CALLS, timeout_seconds=60)["stdout"].splitlines(),
                         ["True [] False False 2", "refused", "refused", "refused", "False [] False False 2"])

    BECOMES = "import os, sys\nmine = sys.argv[0]\nos.remove(mine)\n"
    BECOME = {"a link to a directory": "os.symlink('/workspace/kept', mine)",
              "a link in a directory": "os.mkdir(mine); os.symlink('/workspace/kept', mine + '/link')",
              "a FIFO": "os.mkfifo(mine)",
              "a deep tree": "os.mkdir(mine); os.chdir(mine)\nfor _ in range(1000): os.mkdir('d'); os.chdir('d')",
              "many names": "os.mkdir(mine)\nfor name in range(12_000): os.mknod(f'{mine}/{name}')",
              "a closed directory": "os.makedirs(mine + '/in'); os.chmod(mine + '/in', 0); os.chmod(mine, 0)"}

    def test_f13_its_code_becomes_something_else(self):
        """Before the service removes the code. Nothing else is removed, nor the replacement, and the session goes
        on."""
        session = self.open()
        session.exec("import os; os.mkdir('kept'); open('kept/file', 'w').write('kept')")
        for kind in ("session", "fresh"):
            for what, code in self.BECOME.items():
                with self.subTest(kind=kind, becomes=what):
                    self.assertEqual(session.exec(self.BECOMES + code, sandbox=kind)["stderr"], "")
                    left = session.exec(command=["sh", "-c", "cat kept/file; find . -maxdepth 1 -name '.cloister-*' -type f"])
                    self.assertEqual(left["stdout"], "kept")


if __name__ == "__main__":
    unittest.main()
