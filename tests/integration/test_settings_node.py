# SPDX-License-Identifier: Apache-2.0
"""Settings of the node, its kernels and its disk without another suite, each by its effect (docs/EFFECTS.md,
tests/mutate_settings.py)."""

import contextlib
import os
import pathlib
import signal
import socket
import tempfile
import unittest

import disk_case
import harness
import kvm_case
from session_case import Session

SECONDS = 8  # longer than the tests' settings, and shorter than the defaults
PLACE = "print([line.split()[2] for line in open('/proc/mounts') if line.split()[1] == '/workspace'][0])"
# Yields to its interrupt, but takes a while.
SLOW = "import time\ntry: time.sleep(60)\nexcept KeyboardInterrupt: time.sleep(0.5)"


class Case(unittest.TestCase):
    def serve(self, config):
        return self.enterContext(harness.Server(config))


class Node(Case):
    def test_how_long_a_runner_may_take(self):
        """The node kills one of two runners without an answer, and waits for the other."""
        brief, patient = (self.serve(f"node:\n  runner_seconds: {seconds}\n") for seconds in (1, 600))
        runs, stopped = [], []
        try:
            for server in (patient, brief):
                session = self.enterContext(Session(server, language="bash"))
                (runner,) = [pid for pid in server.pids() if harness.program_of(pid) == "cloister-runner"]
                os.kill(runner, signal.SIGSTOP)
                stopped.append(runner)
                runs.append((session, session.start("true", timeout_seconds=1)))
            waits, lost = runs
            error = lost[0].wait(lost[1], SECONDS)["error"]
            self.assertEqual(error["type"], "RUNNER_LOST")
            self.assertFalse(harness.finished(waits[0].get(waits[1])))
        finally:
            for pid in stopped[:1]:
                os.kill(pid, signal.SIGCONT)
        self.assertEqual(waits[0].wait(waits[1])["status"], "completed")

    def test_where_firecracker_is(self):
        for path, said in (("''", "turned off"), ("/usr/none/firecracker", "/usr/none/firecracker")):
            server = self.serve(f"microvm:\n  vmm: firecracker\n  firecracker: {path}\n")
            self.assertIn(said, kvm_case.finding(server))


class Kernels(Case):
    def test_how_long_a_cell_has_to_yield(self):
        for time, lost in ((1, True), (20_000, False)):
            server = self.serve(f"kernels:\n  interrupt_ms: {time}\n")
            with Session(server, language="python") as session:
                done = session.exec(SLOW, kernel="python", timeout_seconds=2)
                self.assertEqual(done["error"]["details"]["state_lost"], lost, done)


class Watches(Case):
    """Watches of a session's directories."""

    def session(self, **settings):
        lines = "".join(f"  {name}: {value}\n" for name, value in settings.items())
        server = self.serve(f"http:\n  heartbeat_seconds: 1\nsession:\n{lines}")
        session = self.enterContext(Session(server, language="bash", memory_mb=64))
        session.exec("mkdir a b")
        return session

    def watch(self, session, path):
        """→ (the connection, the status)."""
        client = socket.create_connection((session.server.host, session.server.port), timeout=20)
        client.sendall(f"GET {session.path}/files:watch?path={path} HTTP/1.1\r\nHost: {session.server.host}\r\n"
                       f"X-API-Key: {session.server.key}\r\n\r\n".encode())
        return client, int(client.recv(4096).split()[1])

    def status(self, session, path):
        client, status = self.watch(session, path)
        client.close()
        return status

    def test_how_many(self):
        for most, second in ((1, 429), (2, 200)):
            session = self.session(max_watches=most)
            with self.watch(session, "a")[0]:
                self.assertEqual(self.status(session, "b"), second)

    def test_how_long_without_a_reader(self):
        """The watch takes the place of a program until then."""
        brief, long = (self.session(max_execs=1, watch_linger_seconds=seconds) for seconds in (1, 600))
        for session in (long, brief):
            self.assertEqual(self.status(session, "a"), 200)
        self.assertEqual([session.post("true").status for session in (long, brief)], [429, 429])
        harness.wait_for("a place", lambda: brief.post("true").status != 429, SECONDS)
        self.assertEqual(long.post("true").status, 429)

    def test_how_much_is_kept_of_it(self):
        """A returning reader gets all changes, or a notice that some are lost."""
        for kept, first in ((65_536, "overflow"), (64 << 20, "created")):
            session = self.session(watch_bytes=kept)
            stream = lambda last=None: session.server.events(f"{session.path}/files:watch", last)
            with contextlib.closing(stream()) as early:
                self.until(early, "ready")
                session.exec("touch one")
                seen = self.until(early, "created")
                session.exec("name=$(printf 'x%.0s' {1..200}); for n in {1..600}; do ln -s x $name$n; done")
                with contextlib.closing(stream()) as late:
                    self.until(late, "ready")
                    session.exec("touch last")
                    self.until(late, "created", "last")
            with contextlib.closing(stream(seen)) as again:
                names = ("overflow", "created")
                self.assertEqual(next(event for event, _, data in again if event in names), first)

    def until(self, stream, *wanted):
        """The id of the first such event, for this path if given."""
        return next(number for event, number, data in stream if (event, data.get("path"))[:len(wanted)] == wanted)


class OnDisk(Case):
    """A workspace too large for memory."""

    LARGE = {"memory_mb": 96, "disk_mb": 200}

    def serve(self, **settings):
        server = super().serve("workspace:\n  disk:\n" + "".join(f"    {name}: {value}\n" for name, value in settings.items()))
        if lack := disk_case.lack(server):
            self.skipTest(f"no workspaces on disk here: {lack}")
        return server

    def test_which_are_on_disk(self):
        for over, kind in ((199, "ext4\n"), (200, "tmpfs\n")):
            self.assertEqual(self.serve(over_mb=over).run(PLACE, **self.LARGE)["stdout"], kind)

    def test_where_the_disk_is(self):
        with tempfile.TemporaryDirectory(prefix="cloister-disks.") as folder:
            own, state = self.serve(over_mb=100, directory=folder), self.serve(over_mb=100)
            for server, place in ((own, pathlib.Path(folder)), (state, state.state)):
                with Session(server, language="bash", **self.LARGE):
                    self.assertEqual(len(disk_case.devices_in(place)), 1)

    def test_what_stays_free(self):
        state = os.statvfs(tempfile.gettempdir())
        free = state.f_bavail * state.f_frsize // disk_case.MIB
        for keep, done in ((0, True), (free, False)):
            run = self.serve(over_mb=100, keep_free_mb=keep).run("1", **self.LARGE)
            self.assertEqual(run["status"] == "completed", done, run)


if __name__ == "__main__":
    unittest.main()
