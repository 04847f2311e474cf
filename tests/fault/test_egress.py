# SPDX-License-Identifier: Apache-2.0
"""The mediator of the network under faults: killed again and again under load, policy documents edited and broken, a ledger that
takes nothing more. In no case does anything reach evil, and what is allowed is back soon."""

import ctypes
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "integration"))
import harness  # noqa: E402
from egress_case import CONFIG, EgressCase, door, start_world, zone  # noqa: E402
from processes import alive, program_of  # noqa: E402
from session_case import Session  # noqa: E402

KILLS = 100 if harness.LONG else 5
EDITS = 200 if harness.LONG else 20
BACK_SECONDS = 2.0  # after a kill, until an allowed connection works
CLONE_NEWNS = 0x20000

# 50 attempts a second toward evil by each way, and as many toward the allowed host.
LOAD = r'''
print("begins", flush=True)
end = time.monotonic() + 600
while time.monotonic() < end and not os.path.exists("stop"):
    for target in (("evil.test", 80), (EVIL, 443)):
        with contextlib.suppress(OSError):
            with contextlib.closing(dial(*target, 1)) as connection:
                connection.settimeout(0.5)
                if answer(connection, request("evil.test")): print("ESCAPED", flush=True)
    with contextlib.suppress(OSError, EOFError, ValueError, IndexError):
        if fetch("allowed.test", tls=False)[0] == 200: print("good", time.time(), flush=True)
    time.sleep(0.02)
print("ends", flush=True)
'''


def setUpModule():
    start_world()


class Loaded(EgressCase):
    """A session whose program tries evil all along."""

    DOCUMENT = door("allowed.test:80", "allowed.test:443")

    def setUp(self):
        super().setUp()
        self.session = self.enterContext(Session(self.server, self.call, language="python", network_policy={"tier": "restricted"}))
        self.running = self.session.start(self.text(LOAD, EVIL=zone.EVIL), timeout_seconds=600)
        self.session.wait_output(self.running, "begins")

    def goods(self):
        lines = self.session.get(self.running)["stdout"].split("\n")[:-1]  # the last may not be whole
        return [float(line.split()[1]) for line in lines if line.startswith("good ")]

    def wait_good(self, after, seconds=10):
        """The time of the first allowed connection after a moment."""
        return harness.wait_for("an allowed connection", lambda: next((good for good in self.goods() if good > after), None), seconds)

    def ends_without_escape(self):
        self.session.exec("touch stop", language="bash")
        told = self.session.wait(self.running)["stdout"]
        self.assertNotIn("ESCAPED", told)
        self.assertEqual(self.world.reached(self.events(), zone.EVIL, zone.EVIL6), [])
        self.assertEqual(self.world.asked(self.events(), "evil"), [])


class Kill(Loaded):
    def test_killed_under_load(self):
        self.wait_good(0)
        slowest = 0.0
        for _ in range(KILLS):
            pid = self.server.pid_of("cloister-egress")
            at = time.time()
            os.kill(pid, signal.SIGKILL)
            harness.wait_for("the death", lambda: not alive([pid]))  # noqa: B023
            slowest = max(slowest, self.wait_good(at + 0.05) - at)
        self.assertLessEqual(slowest, BACK_SECONDS * harness.PATIENCE / 2)
        self.ends_without_escape()
        self.assertEqual(self.server.request("GET", "/readyz").status, 200)

    def parts(self, name):
        return [pid for pid in self.server.pids() if program_of(pid) == name]

    def test_the_node_and_the_control_plane_are_killed(self):
        """Their sandboxes end or go on; none gets out, and new ones work."""
        for part in ("cloisterd", "cloister-node"):
            killed = self.server.pid_of(part)
            os.kill(killed, signal.SIGKILL)
            # Until a successor is there, the service may not have noticed.
            harness.wait_for("its successor", lambda: set(self.parts(part)) - {killed}, 30)  # noqa: B023
            harness.wait_for("readiness", lambda: self.server.read_address() and self.server._answers_ready(), 30)
        self.assertEqual(self.world.reached(self.events(), zone.EVIL, zone.EVIL6), [])
        self.assertTrue(harness.wait_for("a run with a network", lambda: self.works(
            "attempt('it', fetch, 'allowed.test', tls=False)"), 20))


class Edits(Loaded):
    def test_edited_and_broken_documents(self):
        for number in range(EDITS):
            edited = json.loads(self.DOCUMENT)
            edited["rules"].append({"name": f"other-{number}", "why": "unrelated", "effect": "deny", "match": {"languages": ["perl"]}})
            self.apply(json.dumps(edited))
            for broken in ("", self.DOCUMENT[:60], "version: 2\nrules: {}\n"):
                self.assertIn(self.server.request("POST", "/v1/policies", {"document": broken}).status, (400, 422))
        self.wait_good(time.time())
        self.ends_without_escape()

    def test_a_tighter_policy_cuts_tunnels(self):
        code = ("connection = secure(dial('allowed.test', 443), 'allowed.test'); connection.sendall(request('allowed.test', '/stream'))\n"
                "print('open', flush=True)\ntry:\n    while connection.recv(4096): pass\nexcept OSError: pass\nprint('cut', time.time(), flush=True)")
        tunnel = self.session.start(self.text(code), timeout_seconds=60)
        self.session.wait_output(tunnel, "open")
        self.apply(door("allowed.test:80"))
        at = time.time()
        told = self.session.wait(tunnel)["stdout"]
        self.assertLess(float(told.split("cut ")[1]) - at, 1.0 * harness.PATIENCE)
        self.ends_without_escape()


class OwnEtc(EgressCase):
    """The service sees an /etc of its own, whose resolv.conf changes while it runs."""

    DOCUMENT = door("*.wild.test:80")

    @classmethod
    def setUpClass(cls):
        pass

    def setUp(self):
        self.start_mark = self.world.mark()

    @staticmethod
    def has_landlock():
        create_ruleset, version = 444, 1
        return ctypes.CDLL(None, use_errno=True).syscall(create_ruleset, None, ctypes.c_size_t(0), version) > 0

    def own_etc(self):
        """A copy of /etc, which this process and its children see in place of the machine's → a directory beside it."""
        place = tempfile.mkdtemp(prefix="cloister-etc.")
        self.addCleanup(shutil.rmtree, place)
        os.chmod(place, 0o755)
        subprocess.run(["cp", "-a", "/etc", place], check=True)
        self.assertEqual(ctypes.CDLL(None, use_errno=True).unshare(CLONE_NEWNS), 0)
        subprocess.run(["mount", "--make-rprivate", "/"], check=True)
        subprocess.run(["mount", "--bind", f"{place}/etc", "/etc"], check=True)
        self.addCleanup(subprocess.run, ["umount", "-l", "/etc"], check=True)
        return pathlib.Path(place)

    def test_it_reads_no_other_file(self):
        """By effect: resolv.conf is read again when it changes, but not when it leads out of the directories of such files."""
        place = self.own_etc()
        conf, elsewhere = pathlib.Path("/etc/resolv.conf"), place / "resolv.conf"
        text = f"nameserver {zone.RESOLVER}\n"
        conf.unlink(missing_ok=True)
        conf.write_text(text)
        elsewhere.write_text(text + "# another size\n")
        self.server = self.enterContext(harness.Server())
        self.apply(self.DOCUMENT)
        works = lambda name: self.works(f"attempt('it', fetch, '{name}.wild.test', tls=False)")  # noqa: E731
        self.assertTrue(works("a"))
        conf.unlink()
        conf.symlink_to(elsewhere)
        self.assertEqual(works("b"), not self.has_landlock())
        conf.unlink()
        conf.write_text(text + "# a new file\n")
        self.assertTrue(works("c"))


@unittest.skipUnless(harness.ROOT, "a small file system can only be mounted by root")
class LedgerFull(EgressCase):
    DOCUMENT = door("*.wild.test:80", "allowed.test:80")

    @classmethod
    def setUpClass(cls):
        pass

    def setUp(self):
        # The mount is visible to this process and its children alone.
        self.assertEqual(ctypes.CDLL(None, use_errno=True).unshare(CLONE_NEWNS), 0)
        subprocess.run(["mount", "--make-rprivate", "/"], check=True)
        self.state = tempfile.mkdtemp(prefix="cloister-full.")
        self.addCleanup(os.rmdir, self.state)
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=32m,mode=755", "none", self.state], check=True)
        self.addCleanup(subprocess.run, ["umount", self.state], check=True)
        self.server = self.enterContext(harness.Server(f"{CONFIG}egress:\n  resolver: {self.world.resolver}\n", state=self.state))
        super().setUp()

    def fill(self):
        ballast = pathlib.Path(self.state) / "ballast"
        with open(ballast, "ab", buffering=0) as out:
            for size in (1 << 20, 1 << 12, 1):
                try:
                    while True:
                        out.write(b"\0" * size)
                except OSError:
                    pass
        return ballast

    def test_connections_are_refused_until_there_is_space(self):
        code = r'''
print("begins", flush=True)
number = 0
while not os.path.exists("stop"):
    number += 1
    try: fetch(f"n{number}.wild.test", tls=False); print("good", flush=True)
    except (OSError, EOFError, ValueError, IndexError): print("refused", flush=True)
    time.sleep(0.05)
'''
        with Session(self.server, language="python", network_policy={"tier": "restricted"}) as session:
            running = session.start(self.text(code), timeout_seconds=300)
            session.wait_output(running, "good")
            said = lambda: session.get(running)["stdout"].splitlines()  # noqa: E731
            last = lambda: said()[-1]  # noqa: E731
            ballast = self.fill()
            grower = threading.Event()

            def keep_full():
                while not grower.wait(0.2):
                    self.fill()

            thread = threading.Thread(target=keep_full)
            thread.start()
            try:
                # A connection that began before the refusal may still arrive.
                harness.wait_for("refusals alone", lambda: said()[-10:] == ["refused"] * 10, 60)
                before, mark = len(said()), self.world.mark()
                harness.wait_for("further attempts", lambda: len(said()) >= before + 20, 60)
                seen = self.world.since(mark)
                self.assertEqual(set(said()[before:]), {"refused"})
                self.assertEqual(self.world.reached(seen, zone.SUB, zone.ALLOWED), [], "the fake internet was reached")
                self.assertEqual(self.world.asked(seen), [], "its resolver was asked")
            finally:
                grower.set()
                thread.join()
                ballast.unlink()
            harness.wait_for("the door to open again", lambda: last() == "good", 60)
            session.exec("touch stop", language="bash")
            session.wait(running)
        self.assertTrue(self.server.request("GET", "/v1/audit/verify").json()["ok"])


if __name__ == "__main__":
    unittest.main()
