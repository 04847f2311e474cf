# SPDX-License-Identifier: Apache-2.0
"""S22 to S32: attempts to run something other than the approved effect, in a session: over the API, from a running
program beside, from a program that waits for the release, by ways to run on that no signal stops, and by files that
lie behind, choose or feed the approved bytes. The approved bytes run, or nothing."""

import pathlib
import tempfile
import time
import unittest

from hostile import AS_USER, harness
import machine
from escalation_case import POLICY
from rules_case import RulesTest, at_once

FREEZES = not AS_USER and machine.can_freeze()
TENANT = "mixed"  # commands of its sessions are approved by a person, code is not
CODE = {"language": "bash", "kernel": "none"}
GOOD, EVIL = "good\n", "evil\n"
# With the time of the good file, by which the state would distinguish them.
SWAP = "swapped() { printf 'echo evil' > .new; touch -d @1 .new; mv .new deploy.sh; }\n"
# Reacts to each opening of the file except the first, by the request for approval; never rests.
WATCHER = r"""
import ctypes, os, struct
libc = ctypes.CDLL(None, use_errno=True)
fd = libc.inotify_init1(0)
libc.inotify_add_watch(fd, b"/workspace/deploy.sh", 0x20)  # IN_OPEN
open("/tmp/ready", "w").close()
opened = 0
while True:
    data = os.read(fd, 65536)
    while data:
        size = struct.unpack_from("iIII", data)[3]
        data = data[16 + size:]
        opened += 1
    if opened >= 2:
        with open("/workspace/deploy.sh", "r+") as file: file.write("echo evil")
        open("/tmp/reacted", "w").close()
        break
"""
# Each of these wakes a process stopped by SIGSTOP: a timer, and a descriptor or a parent's end that sends SIGCONT.
WAKES = r"""
import ctypes, fcntl, os, signal, threading, time
libc = ctypes.CDLL(None, use_errno=True)
class Event(ctypes.Structure):
    _fields_ = [("value", ctypes.c_void_p), ("signo", ctypes.c_int), ("notify", ctypes.c_int), ("pad", ctypes.c_int * 12)]
class Spec(ctypes.Structure):
    _fields_ = [("every", ctypes.c_long * 2), ("first", ctypes.c_long * 2)]
timer = ctypes.c_void_p()
libc.timer_create(1, ctypes.byref(Event(None, signal.SIGCONT, 0)), ctypes.byref(timer))
libc.timer_settime(timer, 0, ctypes.byref(Spec((0, 1000000), (0, 1000000))), None)
ours, theirs = os.pipe()
fcntl.fcntl(ours, 10, signal.SIGCONT)  # F_SETSIG
fcntl.fcntl(ours, fcntl.F_SETOWN, os.getpid())
fcntl.fcntl(ours, fcntl.F_SETFL, os.O_ASYNC | os.O_NONBLOCK)
for each in (signal.SIGHUP, signal.SIGTERM, signal.SIGCONT): signal.signal(each, lambda *_: None)
open("/tmp/ready", "w").close()
number = 0
while True:
    number += 1
    with open("/tmp/beat", "w") as file: file.write(str(number))
    if number % 200 == 0:  # a moment of each is as long as a release takes
        with open("/workspace/.flip", "w") as file: file.write("echo evil" if number % 400 else "echo good")
        os.utime("/workspace/.flip", (1, 1))
        os.rename("/workspace/.flip", "/workspace/deploy.sh")
    time.sleep(0.0005)
"""


# The program replaces its own code's file by a directory, which the approved program reads through a link with
# another module behind.
PLACE = r"""
import os, sys, time
me = os.path.realpath(sys.argv[0])
os.unlink(me)
os.mkdir(me)
with open(me + "/conf.py", "w") as file: file.write("print('good')")
os.symlink(os.path.basename(me) + "/conf.py", "conf.py")
os.mkdir("other")
with open("other/conf.py", "w") as file: file.write("print('evil')")
open("/tmp/ready", "w").close()
time.sleep(600)
"""


class ApprovedEffect(RulesTest):
    @classmethod
    def setUpClass(cls):
        folder = pathlib.Path(cls.enterClassContext(tempfile.TemporaryDirectory()))
        folder.chmod(0o755)
        (folder / "policy.yaml").write_text(POLICY)
        cls.CONFIG = f"policy: {folder}/policy.yaml\n"
        super().setUpClass()

    def setUp(self):
        super().setUp()
        self.ours = self.key(tenant=TENANT)
        self.boss = self.key("approver", TENANT, user="boss")
        self.session = self.open(self.ours).path

    def put(self, name, content):
        answer = self.ask("PUT", f"{self.session}/files/{name}", content, self.ours)
        self.assertIn(answer.status, (200, 201, 503), answer.body[:500])
        return answer.status

    def code(self, code, wait=30, status=(200, 201, 202), **more):
        query = f"?wait={wait}" if wait else ""
        answer = self.ask("POST", f"{self.session}/exec{query}", {**CODE, "code": code, **more}, self.ours)
        self.assertIn(answer.status, status, answer.body[:500])
        return answer.json()

    def python(self, code):
        """A program that runs on after reporting ready."""
        begun = self.code(code, wait=0, language="python")
        harness.wait_for("the program", lambda: self.code("ls /tmp/ready")["exit_code"] == 0, 20)
        return begun

    def blocked(self, command="bash deploy.sh", **more):
        held = self.ask("POST", f"{self.session}/exec", {"command": command, **more}, self.ours, 201).json()
        self.escalation_of(held)
        return held

    def release(self, held):
        self.vote(self.escalation_of(held), key=self.boss)

    def ended(self, held):
        done = self.server.wait_end(held["id"], 60)
        if done["status"] == "denied":
            self.assertEqual(done["error"]["details"]["reason"], "approval_mismatch", done["error"])
            self.assertIsNone(done["started_at"])
        else:
            self.assertEqual(done["status"], "completed", done)
        return done

    def assertStopped(self, done):
        """As an ordinary user the node has no groups to stop: then none of these programs runs."""
        if not FREEZES:
            self.assertEqual(done["status"], "denied", done)
            self.assertIn("cannot be stopped", done["error"]["message"])
        return FREEZES

    def test_S22_swaps_over_the_api(self):
        """Many requests write the file during its release."""
        for _ in range(6):
            self.put("deploy.sh", b"echo good")
            held = self.blocked()

            def race(number):
                if number == 0:
                    return self.release(held)
                return [self.put("deploy.sh", b"echo evil") for _ in range(5)]

            at_once(race, range(6))
            done = self.ended(held)
            self.assertIn((done["status"], done["stdout"]), {("denied", ""), ("completed", GOOD)})
        self.put("deploy.sh", b"echo good")
        held = self.blocked()
        self.assertEqual(self.put("deploy.sh", b"echo evil"), 200)
        self.release(held)
        self.assertEqual(self.ended(held)["status"], "denied")
        # A module that the program imports, and a module that shadows another.
        for name in ("helper.py", "json.py"):
            self.put("helper.py", b"print('good')")
            self.put("main.py", b"import json, helper")
            held = self.blocked("python3 main.py")
            self.put(name, b"print('evil')")
            self.release(held)
            done = self.ended(held)
            self.assertEqual(done["status"], "denied", done)
            self.assertIn(name, done["error"]["message"])
            self.ask("DELETE", f"{self.session}/files/{name}", None, self.ours)

    def test_S23_a_program_beside_it_swaps(self):
        self.put("deploy.sh", b"echo good")
        flips = self.code(SWAP + "while :; do swapped; sleep 0.2; printf 'echo good' > .new; touch -d @1 .new; mv .new deploy.sh; sleep 0.2; done", wait=0)
        ran = 0
        for _ in range(40):
            if ran == 3:
                break
            held = self.blocked("for i in $(seq 40); do cat deploy.sh; echo; sleep 0.01; done")
            self.release(held)
            done = self.ended(held)
            if not self.assertStopped(done):
                break
            if done["status"] == "denied":
                continue
            ran += 1
            self.assertEqual(len(set(done["stdout"].split("\n")) - {""}), 1, "it changed while the program ran")
        self.assertTrue(ran > 0 or not FREEZES, "each was denied")
        self.assertEqual(self.server.get(flips["id"])["status"], "running")
        self.ask("DELETE", f"/v1/executions/{flips['id']}", None, self.ours, 202)

    def test_S24_a_watcher_reacts_to_the_release(self):
        self.put("deploy.sh", b"echo good")
        self.python(WATCHER)
        held = self.blocked()
        self.assertNotEqual(self.code("ls /tmp/reacted")["exit_code"], 0)
        self.release(held)
        done = self.ended(held)
        if self.assertStopped(done):
            self.assertEqual((done["status"], done["stdout"]), ("completed", GOOD), done)
            harness.wait_for("the watcher", lambda: self.code("ls /tmp/reacted")["exit_code"] == 0, 20)

    def test_S25_no_signal_lets_it_go_on(self):
        self.put("deploy.sh", b"echo good")
        wakes = self.python(WAKES)
        ran = 0
        for _ in range(40):
            if ran == 3:
                break
            held = self.blocked("cat /tmp/beat; echo; sleep 0.5; cat /tmp/beat; echo; bash deploy.sh; bash deploy.sh")
            self.release(held)

            def prod(number):
                for _ in range(20):
                    self.ask("POST", f"/v1/executions/{wakes['id']}:signal", {"signal": "SIGCONT"}, self.ours)

            at_once(prod, range(2))
            done = self.ended(held)
            if not self.assertStopped(done):
                return
            if done["status"] == "completed":
                ran += 1
                first, second, *said = done["stdout"].split("\n")[:4]
                self.assertEqual(first, second, "it went on")
                self.assertEqual(len(set(said)), 1, said)
        self.assertGreater(ran, 0, "each was denied")

    def test_S26_what_was_let_in_before_waits(self):
        """Programs that start while the workspace is held write nothing into the workspace."""
        self.put("deploy.sh", b"sleep 1; echo good")
        for _ in range(4):
            held = self.blocked("bash deploy.sh; ls")

            def race(number):
                if number == 3:
                    return self.release(held)
                return [self.code("touch late-$$", status=(200, 201, 202, 503)) for _ in range(3)]

            at_once(race, range(8))
            done = self.ended(held)
            if done["status"] == "completed":
                self.assertTrue(done["stdout"].startswith(GOOD), done)
                self.assertNotIn("late", done["stdout"])
            self.code("rm -f late-*", status=(200, 503))
        started = time.monotonic()
        self.assertEqual(self.code("echo free")["stdout"], "free\n")
        self.assertLess(time.monotonic() - started, 20)

    def test_S27_what_lies_behind_a_link(self):
        """Each place outside of the workspace that the session can write, by each way there, is refused or stays
        unchanged."""
        keeps = self.python("import os, time\nos.open('/tmp/real.sh', os.O_RDWR | os.O_CREAT)\n"
                            "with open('/tmp/.ready', 'w') as file: file.write(str(os.getpid()))\n"
                            "os.rename('/tmp/.ready', '/tmp/ready')\ntime.sleep(600)")
        number = self.code("cat /tmp/ready")["stdout"]
        for where, link in (("/tmp/real.sh", "deploy.sh"), ("/dev/shm/real.sh", "deploy.sh"), ("/tmp", "d"), ("/tmp/", "d"), ("/dev/shm", "d"),
                            ("../tmp/real.sh", "deploy.sh"), ("/var/tmp/real.sh", "deploy.sh"), ("/", "d"), ("..", "d"), ("/dev", "d"),
                            (f"/proc/{number}/fd/3", "deploy.sh"), (f"/proc/{number}/root/tmp", "d"), ("/proc/self/cwd", "d"), ("/dev/fd/3", "deploy.sh"),
                            ("/usr/lib/../../tmp/real.sh", "deploy.sh"), ("e/../../tmp/real.sh", "deploy.sh")):
            with self.subTest(where):
                self.code(f"rm -rf deploy.sh d e; mkdir -p x; ln -s x e; ln -s {where} {link}; echo 'echo good' > /tmp/real.sh; echo 'echo good' > /dev/shm/real.sh")
                refused = self.ask("POST", f"{self.session}/exec", {"command": "bash deploy.sh"}, self.ours)
                self.assertEqual(refused.status, 422, refused.body[:500])
                self.assertIn(f"the link {link} in the workspace leads to ", refused.json()["detail"])
        # A fresh sandbox has nothing behind the link.
        self.code("rm -rf deploy.sh d e x; ln -s /tmp/real.sh deploy.sh; echo 'echo good' > /tmp/real.sh")
        held = self.blocked(sandbox="fresh")
        self.code("echo 'echo evil' > /tmp/real.sh")
        self.release(held)
        done = self.server.wait_end(held["id"], 60)
        self.assertNotIn("evil", done["stdout"])
        self.assertNotEqual(done.get("exit_code"), 0, done)
        self.ask("DELETE", f"/v1/executions/{keeps['id']}", None, self.ours, 202)

    def test_S28_times_choose_what_runs(self):
        """Bytecode is valid if it names the time of its source; make rebuilds older targets."""
        self.put("main.py", b"import helper")
        self.code("echo 'print(\"evil\")' > helper.py; touch -d @1000000000 helper.py; python3 -c 'import helper' > .out;"
                  " echo 'print(\"good\")' > helper.py; touch -d @1500000000 helper.py")
        self.assertEqual(self.code("python3 -B main.py")["stdout"], GOOD)
        held = self.blocked("python3 main.py")
        self.code("touch -d @1000000000 helper.py")
        self.assertEqual(self.code("python3 -B main.py")["stdout"], EVIL)
        self.release(held)
        done = self.ended(held)
        self.assertEqual(done["status"], "denied", done)
        self.assertIn("helper.py has another modification time", done["error"]["message"])
        self.code("printf 'out: src\\n\\techo evil\\n' > Makefile; touch -d @1000000000 src; touch -d @1500000000 out")
        held = self.blocked("make -q || echo evil")
        self.code("touch src")
        self.release(held)
        done = self.ended(held)
        self.assertEqual(done["status"], "denied", done)
        self.assertIn("src has another modification time", done["error"]["message"])
        held = self.blocked("ls -d main.py")
        self.code("cat *.py > /dev/null")
        self.release(held)
        self.assertEqual(self.ended(held)["stdout"], "main.py\n", "to read them is no change")

    def test_S29_pipes_are_refused(self):
        """A pipe's content at the start was not present at the approval."""
        self.put("good.sh", b"echo good")
        for make, what in (("mkfifo deploy.sh", "the FIFO deploy.sh"), ("mkdir d; mkfifo d/p", "the FIFO d/p"),
                           ("python3 -c 'import socket; socket.socket(socket.AF_UNIX).bind(\"s\")'", "the socket s")):
            self.code("rm -rf deploy.sh d s; " + make)
            for sandbox in ("session", "fresh"):
                refused = self.ask("POST", f"{self.session}/exec", {"command": "bash good.sh", "sandbox": sandbox}, self.ours, 422)
                self.assertIn(what + " in the workspace", refused.json()["detail"])
        self.code("rm -rf deploy.sh d s")
        held = self.blocked("bash good.sh")
        self.code("mkfifo deploy.sh")
        self.release(held)
        self.assertEqual(self.ended(held)["status"], "denied")

    def test_S30_hard_links_are_bound(self):
        """The program writes into a file by a name, and runs the file by another."""
        for name, content in (("deploy.sh", b"cat note > log\n. ./hooks.sh\necho good\n"), ("note", b"echo evil\n"), ("log", b""), ("hooks.sh", b"")):
            self.put(name, content)
        self.code("touch -d @1 log hooks.sh")
        held = self.blocked()
        self.code("ln -f hooks.sh log")
        self.release(held)
        done = self.ended(held)
        self.assertEqual(done["status"], "denied", done)
        self.assertIn("hooks.sh has other hard links", done["error"]["message"])
        held = self.blocked("ls log")
        self.release(held)
        self.assertEqual(self.ended(held)["stdout"], "log\n", "those that were there are no matter")

    def test_S31_nothing_is_removed_while_it_runs(self):
        """An earlier program is cancelled: the service removes its code only afterwards, and no other file of the
        same name."""
        self.put("deploy.sh", b"trap : USR1; python3 -B -c 'import conf'; sleep 6031 & wait; PYTHONPATH=other python3 -B -c 'import conf'; kill %1")
        beside = self.python(PLACE)
        held = self.blocked()
        self.release(held)
        if not FREEZES:
            return self.assertStopped(self.ended(held))
        harness.wait_for("its first part", lambda: machine.processes("6031"), 30)
        self.ask("DELETE", f"/v1/executions/{beside['id']}", None, self.ours, 202)
        self.assertEqual(self.server.wait_end(beside["id"], 20)["status"], "cancelled")
        self.ask("POST", f"/v1/executions/{held['id']}:signal", {"signal": "SIGUSR1"}, self.ours)
        self.assertEqual(self.ended(held)["stdout"], GOOD + GOOD)
        self.assertEqual(self.code("cat .cloister-*/conf.py")["stdout"], "print('good')", "it is no code of the service's")

    def test_S32_variables_that_name_other_places(self):
        """The program `bash`, and its startup files, lie in places writable by others of the session."""
        session = self.open(self.ours, env={"PATH": "/tmp/bin:/usr/bin:/bin"}).path
        for where, env in ((session, {}), *((self.session, each) for each in (
                {"PATH": "/usr/bin:/tmp/bin:/bin"}, {"BASH_ENV": "/tmp/e"}, {"PYTHONPATH": "/dev/shm"}, {"A": "/tmp", "BASH_ENV": "$A/e"},
                {"HOME": "/tmp"}, {"LD_PRELOAD": "/var/tmp/x.so"}, {"PATH": "/proc/self/cwd/../tmp:/usr/bin:/bin"}))):
            refused = self.ask("POST", f"{where}/exec", {"command": "bash deploy.sh", "env": env}, self.ours, 422)
            self.assertIn(f"the variable {next(iter(env), 'PATH')} ", refused.json()["detail"])
            self.assertIn("sandbox: fresh", refused.json()["detail"])
        self.ask("PUT", f"{session}/files/deploy.sh", b"echo good", self.ours)
        held = self.ask("POST", f"{session}/exec", {"command": "bash deploy.sh", "sandbox": "fresh"}, self.ours, 201).json()
        self.ask("POST", f"{session}/exec?wait=30", {**CODE, "code": "mkdir -p /tmp/bin; printf '#!/bin/sh\\necho evil' > /tmp/bin/bash;"
                                                     " chmod +x /tmp/bin/bash"}, self.ours)
        self.release(held)
        self.assertEqual(self.ended(held)["stdout"], GOOD)


if __name__ == "__main__":
    unittest.main()
