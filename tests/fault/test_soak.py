# SPDX-License-Identifier: Apache-2.0
"""Runs of all sorts for a long time: the service's resources are the same after all of them as after the first
tenth. Prints a row for each tenth; CLOISTER_SOAK_RUNS asks for another number of runs.

After each tenth the load pauses until the pool has given up its ready sandboxes. No count may then be higher than
before; memory may grow by GROWTH in the second half. The ledger is only printed: each run leaves a record until
retention deletes the record, once a minute, and audit rows for good."""
import collections
import concurrent.futures
import contextlib
import os
import pathlib
import re
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "integration"))
import harness  # noqa: E402
import leaks  # noqa: E402

RUNS = int(os.environ.get("CLOISTER_SOAK_RUNS", 50_000 if harness.LONG else 300))
CLIENTS = 8
TENTHS = 10
# Small caches are full early. A single zygote makes all copies of a tenth, so that a copy's cost for the zygote adds
# up.
CONFIG = """
run:
  finished_in_memory: 16
retention:
  keep_at_most: 1000
pool:
  ready: 8
  idle_ms: 300
  zygote_copies: 1000000
"""
# KiB of each process in the second half, and of a zygote over all its copies. In 25,000 runs the bound is 80 bytes for
# each. The ledger's page caches, 8 MiB for each of two connections, are full after 2,000 runs: they grow by 1 MiB in a
# half of 150, by nothing in a half of 2,500, and by more between.
GROWTH = 2048
ROLES = ("cloister", "cloisterd", "egress", "node", "spawner")
NETNS_SLACK = 64  # freed later, or on a processor's list of free ones

Work = collections.namedtuple("Work", "language code status error more", defaults=("completed", None, {}))
PLAIN = Work("python", "print(sum(range(1000)))")
RAISES = Work("python", "def f(): raise ValueError('bad')\nf()")
SHELL = Work("bash", "for i in 1 2 3; do echo $i > f$i; done; cat f*")
NODE = Work("node", "console.log([1, 2, 3].map(x => x * x))")
TIMEOUT = Work("python", "import time\nwhile True: time.sleep(60)", "timed_out", "TIMEOUT", {"timeout_seconds": 1})
MEMORY = Work("python", "print(len(bytearray(256 << 20)))", "failed", "RESOURCE_LIMIT_EXCEEDED", {"memory_mb": 64})


def work(number, node):
    """The work of the run with this number."""
    if number % 1000 in (100, 200):
        return TIMEOUT if number % 1000 == 100 else MEMORY
    if number % 50 == 0 and node:
        return NODE
    return (PLAIN, RAISES, PLAIN, SHELL)[number % 4]


def memory(pid):
    """Resident and proportional memory of a process, in KiB."""
    text = pathlib.Path(f"/proc/{pid}/smaps_rollup").read_text()
    return [int(re.search(rf"^{kind}: *(\d+) kB", text, re.M)[1]) for kind in ("Rss", "Pss")]


def netns_objects():
    """Network namespaces of the whole machine, with or without a process in them; 0 if unknown."""
    with contextlib.suppress(OSError):
        found = re.search(r"^net_namespace +(\d+)", pathlib.Path("/proc/slabinfo").read_text(), re.M)
        return int(found[1]) if found else 0
    return 0


class Sample:
    """The service's resources at a moment without any run."""

    def __init__(self, server, pids, clean):
        self.memory = {role: memory(pid) for role, pid in pids.items()}
        self.counts = {
            "processes": len(server.pids()),
            "network namespaces": len({os.readlink(f"/proc/{pid}/ns/net") for pid in server.pids()}),
            "cgroups": len(leaks.cgroups() - clean.cgroups),
        }
        for role, pid in pids.items():
            self.counts[f"{role} fds"] = len(os.listdir(f"/proc/{pid}/fd"))
            self.counts[f"{role} threads"] = len(os.listdir(f"/proc/{pid}/task"))
            self.counts[f"{role} mounts"] = len(pathlib.Path(f"/proc/{pid}/mountinfo").read_text().splitlines())
        self.netns_objects = netns_objects()
        self.ledger = sum(path.stat().st_size for path in (server.state / "ledger").iterdir()) // 1024

    HEAD = ("runs  " + "".join(f"{role + ' RSS/PSS':>20}" for role in ROLES) + f"{'zygote RSS':>16}{'fds':>14}"
            f"{'threads':>9}{'mounts':>13}  procs netns cgroups net objects ledger (KiB)")

    def row(self, runs, zygotes):
        def joined(name):
            return "+".join(str(self.counts[f"{role} {name}"]) for role in ROLES)

        return (f"{runs:<6}" + "".join(f"{'/'.join(map(str, self.memory[role])):>20}" for role in ROLES)
                + f"{zygotes:>16}{joined('fds'):>14}{joined('threads'):>9}{joined('mounts'):>13}"
                f"{self.counts['processes']:>7}{self.counts['network namespaces']:>6}{self.counts['cgroups']:>8}"
                f"{self.netns_objects:>12}{self.ledger:>7}")


class Soak(unittest.TestCase):
    def setUp(self):
        self.clean = harness.Snapshot()
        self.server = self.enterContext(harness.Server(config=CONFIG))
        self.node = harness.have_language(self.server, "node")
        self.pids = {"cloister": self.server.process.pid, "cloisterd": self.server.pid_of("cloisterd"),
                     "egress": self.server.pid_of("cloister-egress"), "node": self.server.pid_of("cloister-node"),
                     "spawner": self.server.pid_of("cloister-spawner")}
        self.zygotes = {}  # pid → RSS when first seen, and last

    def run_one(self, number):
        """None, or the wrong outcome of the run."""
        asked = work(number, self.node)
        done = self.server.run(asked.code, asked.language, artifacts=[], **asked.more)
        outcome = done["status"], done["error"] and done["error"]["type"]
        return None if outcome == (asked.status, asked.error) else (number, done)

    def watch_zygotes(self):
        """Zygotes go when the load pauses, so the look comes before. A zygote with copies has started."""
        for pid in harness.children(self.pids["spawner"]):
            with contextlib.suppress(OSError):  # the process may end meanwhile
                if harness.program_of(pid) == "python3" and harness.children(pid):
                    rss = memory(pid)[0]
                    self.zygotes[pid] = (self.zygotes.get(pid, (rss,))[0], rss)

    def load(self, pool, numbers):
        """Runs the works; fails on a wrong outcome."""
        futures = [pool.submit(self.run_one, number) for number in numbers]
        pending = futures
        while pending:
            _, pending = concurrent.futures.wait(pending, timeout=0.2)
            self.watch_zygotes()
        wrong = [future.result() for future in futures if future.result()]
        self.assertEqual(wrong[:3], [])

    def settled(self):
        harness.wait_for("the pool to be empty",
                         lambda: set(self.server.pids()) == set(self.pids.values()), 60)
        return Sample(self.server, self.pids, self.clean)

    def test_what_is_held_does_not_grow(self):
        samples, size = [], RUNS // TENTHS
        print(Sample.HEAD, flush=True)
        with concurrent.futures.ThreadPoolExecutor(CLIENTS) as pool:
            for tenth in range(TENTHS):
                self.load(pool, range(tenth * size, (tenth + 1) * size))
                samples.append(self.settled())
                first, last = list(self.zygotes.values())[-1]
                print(samples[-1].row((tenth + 1) * size, f"{first}…{last}"), flush=True)
        self.check(samples)
        self.server.stop()
        harness.assert_clean(self.clean, seconds=30, ignore=[f"files: {self.server.state}"])

    def check(self, samples):
        first, half, last = samples[0], samples[TENTHS // 2 - 1], samples[-1]

        def grown():
            now = Sample(self.server, self.pids, self.clean)
            return ([f"{name}: {first.counts[name]} → {value}" for name, value in now.counts.items()
                     if value > first.counts[name]]
                    + [f"objects: {now.netns_objects}"] * (now.netns_objects > first.netns_objects + NETNS_SLACK))

        # The kernel and the last connections take a moment.
        with contextlib.suppress(AssertionError):
            harness.wait_for("what has grown to go", lambda: not grown(), 10)
        self.assertEqual(grown(), [])
        if harness.SANITIZED:
            return  # the process's allocator keeps freed memory
        for role in ROLES:
            self.assertLess(last.memory[role][0] - half.memory[role][0], GROWTH, f"resident KiB of {role}")
        self.assertTrue(self.zygotes)
        for then, now in self.zygotes.values():
            self.assertLess(now - then, GROWTH, "resident KiB of a zygote")


if __name__ == "__main__":
    unittest.main()
