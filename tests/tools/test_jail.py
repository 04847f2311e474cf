# SPDX-License-Identifier: Apache-2.0
"""A suite's jail (tests/jail.py): its own parts, the ends it causes, and its reports."""

import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import unittest

TESTS = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(TESTS / "integration"))
import harness  # noqa: E402

LOOK = """
import json, os, pathlib, resource
space = os.statvfs("/tmp")
print(json.dumps({
    "processes": sum(name.isdigit() for name in os.listdir("/proc")),
    "interfaces": [line.split(":")[0].strip() for line in open("/proc/self/net/dev").readlines()[2:]],
    "temporary": [os.listdir(place) for place in ("/tmp", "/var/tmp", "/dev/shm")],
    "groups": sorted({line.split(":", 2)[2].strip() for line in open("/proc/self/cgroup")}),
    "namespaces": [os.readlink("/proc/self/ns/" + kind) for kind in ("mnt", "pid", "ipc", "net", "uts", "cgroup")],
    "disk": os.stat("/tmp").st_dev, "used": space.f_blocks - space.f_bfree,
}))
"""


class Jail(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))

    def start(self, *command):
        return subprocess.Popen([sys.executable, str(TESTS / "jail.py"), str(self.folder), *command],
                                stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)

    def run_in(self, *command):
        """→ (exit code, output)."""
        process = self.start(*command)
        _, said = process.communicate(timeout=60)
        self.assertEqual(said, "")
        return process.returncode, (self.folder / "output").read_text()

    def usage(self):
        return json.loads((self.folder / "usage.json").read_text())

    def test_it_has_its_own_of_everything(self):
        code, output = self.run_in(sys.executable, "-c", LOOK)
        self.assertEqual(code, 0, output)
        seen = json.loads(output)
        self.assertEqual(seen["processes"], 2)  # the jail's process 1, and the command
        self.assertEqual(seen["interfaces"], ["lo"])
        kept = [[TESTS.relative_to(place).parts[0]] if TESTS.is_relative_to(place) else [] for place in ("/tmp", "/var/tmp")]
        self.assertEqual(seen["temporary"], [[*kept[0], "results"], kept[1], []])
        for kind, own in zip(("mnt", "pid", "ipc", "net", "uts", "cgroup"), seen["namespaces"]):
            self.assertNotEqual(own, os.readlink(f"/proc/self/ns/{kind}"), kind)
        if harness.ROOT:
            self.assertLessEqual(set(seen["groups"]), {"/", "/jail"})
        if harness.ROOT and os.path.exists("/dev/loop-control"):
            self.assertNotEqual(seen["disk"], os.stat("/tmp").st_dev)
            self.assertLess(seen["used"], 1000)

    def test_it_has_the_exit_code_of_its_command(self):
        self.assertEqual(self.run_in("sh", "-c", "exit 7")[0], 7)

    def test_it_reports_the_signal_that_ended_its_command(self):
        self.assertEqual(self.run_in("sh", "-c", "kill -KILL $$")[0], 128 + signal.SIGKILL)

    def test_it_ends_with_125_without_a_command_to_run(self):
        process = self.start("/nonexistent/program")
        _, said = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 125)
        self.assertIn("/nonexistent/program", said)

    @unittest.skipUnless(harness.ROOT, "needs root: an ordinary user's jail has no cgroups of its own")
    def test_it_counts_the_processor_time_of_all_its_processes(self):
        work = "import time\nend = time.process_time() + 0.3\nwhile time.process_time() < end: pass"
        orphan = f"setsid {sys.executable} -c '{work}' & wait"
        self.assertEqual(self.run_in("sh", "-c", orphan)[0], 0)
        self.assertGreater(self.usage()["cpu_seconds"], 0.3)

    @unittest.skipUnless(harness.ROOT, "needs root: an ordinary user's jail has no cgroups of its own")
    def test_it_names_the_cgroups_that_were_left(self):
        places = "for top in /sys/fs/cgroup/memory /sys/fs/cgroup; do [ -e $top/cgroup.procs ] && mkdir $top/left && break; done"
        self.assertEqual(self.run_in("sh", "-c", places)[0], 0)
        self.assertEqual([name.split(":")[1] for name in self.usage()["cgroups"]], ["left"])

    def begin(self, starter):
        """Starts `starter` and waits for the jail's command → (process, pids of all processes below)."""
        command = "setsid sleep 1000 & echo here > /tmp/results/begun; sleep 1000"
        process = subprocess.Popen([*starter, sys.executable, str(TESTS / "jail.py"), str(self.folder), "sh", "-c", command],
                                   stdin=subprocess.DEVNULL)
        harness.wait_for("the command to begin", (self.folder / "begun").exists, 60)
        below = harness.descendants(process.pid)
        self.assertGreaterEqual(len(below), 4)
        return process, below

    def assert_gone(self, pids):
        harness.wait_for("its processes to end", lambda: not harness.alive(pids), 60)

    def test_it_ends_with_all_its_processes(self):
        process, below = self.begin([])
        process.terminate()
        self.assertEqual(process.wait(30), 128 + signal.SIGKILL)
        self.assert_gone(below)

    def test_it_ends_with_its_caller(self):
        caller = [sys.executable, "-c", "import subprocess, sys; subprocess.run(sys.argv[1:])"]
        process, below = self.begin(caller)
        process.kill()
        process.wait()
        self.assert_gone(below[1:])

    def test_nothing_of_it_stays_on_the_host(self):
        self.assertEqual(self.run_in("sh", "-c", "echo > /tmp/mine; echo > /dev/shm/mine")[0], 0)
        self.assertFalse(os.path.exists("/tmp/mine") or os.path.exists("/dev/shm/mine"))


if __name__ == "__main__":
    unittest.main()
