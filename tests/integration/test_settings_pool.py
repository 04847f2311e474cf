# SPDX-License-Identifier: Apache-2.0
"""Ready sandboxes, and the reasons against making them: settings of the pool, each by the answer of /v1/pool
(docs/EFFECTS.md, tests/mutate_settings.py)."""

import contextlib
import os
import pathlib
import subprocess
import unittest

import harness
import pool_counts

SECONDS = 8  # longer than the tests' settings, and shorter than the defaults


def memory_group():
    """The control group of this process and of its servers: the file of its memory limit, and the bytes in use,
    without the bytes that the kernel can drop. None if there is no such group."""
    for line in pathlib.Path("/proc/self/cgroup").read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        folder = pathlib.Path("/sys/fs/cgroup", controllers, path.lstrip("/"))
        for limit, usage, prefix in (("memory.limit_in_bytes", "memory.usage_in_bytes", "total_"), ("memory.max", "memory.current", "")):
            if (folder / limit).exists():
                words = (folder / "memory.stat").read_text().split()
                cached = sum(int(words[words.index(f"{prefix}{kind}_file") + 1]) for kind in ("active", "inactive"))
                return folder / limit, int((folder / usage).read_text()) - cached
    return None


# From a copy; nothing from an interpreter started for the program.
SEED = "import sys\nif 'statistics' in sys.modules: print(hash('a'))"


class Pool(unittest.TestCase):
    def serve(self, settings, more=""):
        return self.enterContext(harness.Server(f"pool:\n{settings}{harness.CALM}{more}"))

    def told(self, server):
        """The node's figures of its pool, once they include all ended executions."""
        pool_counts.settled(server)
        return server.request("GET", "/v1/pool").json()

    def total(self, server, what):
        return sum(kind[what] for kind in self.told(server)["kinds"])

    def burst(self, server):
        """Four runs at the same time."""
        made = [server.submit("sleep 0.3", "bash", wait=0).json()["id"] for _ in range(4)]
        for each in made:
            server.wait_end(each)

    def test_how_many_stand_ready(self):
        """Both servers have the same work."""
        one, three = (self.serve(f"  ready: {most}\n") for most in (1, 3))
        def wanted():
            for server in (one, three):
                self.burst(server)
            return self.total(three, "wanted") == 3
        harness.wait_for("three to be wanted", wanted, 20)
        self.assertEqual(self.total(one, "wanted"), 1)

    @unittest.skipUnless(os.path.exists("/usr/bin/runsc"), "no /usr/bin/runsc: install Debian's from backports")
    def test_how_many_of_gvisor_stand_ready(self):
        """The floor of the pool wants three."""
        one, three = (self.serve("  ready: 3\n  floor: 3\n", f"gvisor:\n  ready: {most}\n") for most in (1, 3))
        for server in (one, three):
            self.assertEqual(server.run("echo on", "bash", runtime="gvisor", memory_mb=64)["stdout"], "on\n")
        kept = lambda server: [harness.program_of(pid) for pid in server.pids()].count("runsc-sandbox")
        harness.wait_for("three to stand ready", lambda: kept(three) == 3, 20)
        harness.wait_for("one to stand ready", lambda: kept(one) == 1, 20)

    def test_how_long_they_stand(self):
        brief, long = (self.serve(f"  idle_ms: {idle}\n") for idle in (100, 86_400_000))
        def some_made_ahead(server):
            self.burst(server)
            return self.told(server)["refill_us"]["count"]
        for server in (long, brief):
            harness.wait_for("some to be made ahead", lambda: some_made_ahead(server), 20)
        harness.wait_for("those to go", lambda: not self.total(brief, "ready"), SECONDS)
        harness.wait_for("others to stand ready", lambda: self.total(long, "ready"), 20)

    def test_how_many_interpreters_wait_to_be_copied(self):
        none, some = (self.serve(f"  zygotes: {most}\n") for most in (0, 1))
        def copied():
            for server in (none, none, some):
                server.run("1")
            return self.told(some)["copies"]
        harness.wait_for("a copy", copied, 20)
        told = self.told(none)
        self.assertEqual((told["zygotes"], told["copies"]), (0, 0), told)

    def test_how_many_copies_are_made_of_one(self):
        """Copies of the same interpreter have its seed."""
        few, many = (self.serve(f"  zygote_copies: {copies}\n") for copies in (1, 1_000_000))
        seeds = {few: set(), many: set()}
        def of_four():
            for server, seen in seeds.items():
                seen.update(int(word) for word in server.run(SEED)["stdout"].split())
            return len(seeds[few]) >= 4
        harness.wait_for("copies of four", of_four, 10)
        self.assertLess(len(seeds[many]), 4)

    def hold(self, **settings):
        settings = {"floor": 1, "idle_ms": 100, "spare_memory_percent": 0, "cpu_pressure_percent": 100} | settings
        lines = "".join(f"  {name}: {value}\n" for name, value in settings.items())
        return self.enterContext(harness.Server(f"pool:\n{lines}"))

    def held(self, server):
        """The machine's shortage, as reported by the node while a sandbox is to be made."""
        server.run("true", "bash")
        return self.told(server)["held"]

    def test_while_processors_are_busy(self):
        """More programs can run than there are processors."""
        shy, bold = (self.hold(cpu_pressure_percent=percent) for percent in (1, 100))
        with contextlib.ExitStack() as stack:
            for _ in range(os.cpu_count() + 2):
                burner = subprocess.Popen(["/usr/bin/python3", "-c", "while True: pass"])
                stack.callback(burner.wait)
                stack.callback(burner.kill)
            harness.wait_for("it to be held", lambda: self.held(shy) == "cpu", 4)
            self.assertEqual(self.held(bold), "no")

    @unittest.skipUnless(harness.ROOT, "needs root: only root can limit a control group")
    def test_while_memory_is_short(self):
        """The node's control group has 75 % of its memory left."""
        shy, bold = (self.hold(spare_memory_percent=percent) for percent in (90, 0))
        group = memory_group() or self.skipTest("no memory cgroup")
        self.addCleanup(group[0].write_text, group[0].read_text())
        group[0].write_text(str(4 * group[1]))
        harness.wait_for("it to be held", lambda: self.held(shy) == "memory", 10)
        self.assertEqual(self.held(bold), "no")


if __name__ == "__main__":
    unittest.main()
