# SPDX-License-Identifier: Apache-2.0
"""P01 to P09: processes, limits and lifetime."""
import concurrent.futures
import os
import subprocess
import unittest

from hostile import DEEP, GVISOR, RUNTIME, WARM, HostileTest, harness
import machine

MIB = 1 << 20


SAYS_ENDED = """
import ctypes, os, sys, time
print("copy" if "statistics" in sys.modules else "own", file=sys.stderr)
os.fork()
while True:
    print("x", end="")
    ctypes.CDLL(None).sigqueue(1, 62, ctypes.c_void_p(7))
    time.sleep(0.01)  # within its processor time, to the wall limit
"""

# How many instances of inotify there are to be had; then whether hugetlbfs and BPF in the kernel are.
SHARED_KERNEL = """
import ctypes, mmap, os, socket
libc = ctypes.CDLL(None)
libc.mmap.restype = ctypes.c_long
instances = 0
while libc.inotify_init1(0) >= 0: instances += 1
def worked(act):
    try: return int(act() >= 0)
    except OSError: return 0
filters = ctypes.create_string_buffer((6).to_bytes(8, "little"))
program = bytes((ctypes.c_short * 4)(1)) + ctypes.addressof(filters).to_bytes(8, "little")
flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | 0x4000 | 0x40000  # unreserved, huge
print(instances,
      worked(lambda: libc.mmap(0, ctypes.c_long(2 << 20), 3, flags, -1, ctypes.c_long(0))),
      worked(lambda: os.memfd_create("huge", os.MFD_HUGETLB)),
      worked(lambda: libc.shmget(0, ctypes.c_long(2 << 20), 0o1600 | 0o4000)),
      worked(lambda: socket.socket().setsockopt(socket.SOL_SOCKET, 26, program) or 0))
"""

# Locks of many files, by more than a single process, until the run is ended: 200 bytes of the kernel's memory each.
MANY_LOCKS = """
import fcntl, os, sys, time
each = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
os.fork(), os.fork()
taken = []
for number in range(400):
    taken.append(open(f"{os.getpid()}-{number}", "wb"))
    for at in range(each): fcntl.lockf(taken[-1], fcntl.LOCK_EX, 1, 2 * at)
print("taken", flush=True)
time.sleep(60)
"""
# Ordinary locks of databases, far below the bound; and locks that the kernel does not distinguish.
FEW_LOCKS = """
import fcntl, struct, time
file = open("one", "wb")
for at in range(50): fcntl.lockf(file, fcntl.LOCK_EX, 1, 2 * at)
try: fcntl.fcntl(file, 37, struct.pack("hhqqi4x", fcntl.F_WRLCK, 0, 200, 1, 0))  # F_OFD_SETLK
except OSError as e: print(e.errno, flush=True)
time.sleep(8)
print("there")
"""


class Processes(HostileTest):
    def test_p01_fork_bomb(self):
        """Ten at once, in C and in bash, each held by its pids limit; the host can still fork."""
        with concurrent.futures.ThreadPoolExecutor(10) as pool:
            runs = [pool.submit(self.run_program, "p01_fork_bomb", pids=64, timeout_seconds=3)
                    if i % 2 else
                    pool.submit(self.run_code, "bash", ":(){ :|:& };:; wait; sleep 60", pids=64,
                                timeout_seconds=3)
                    for i in range(10)]
            while not all(run.done() for run in runs):
                self.assertEqual(self.server.request("GET", "/healthz").status, 200)
                self.assertEqual(subprocess.run(["/bin/true"], check=False).returncode, 0)
                concurrent.futures.wait(runs, timeout=0.2)
        for run in runs:
            result = run.result()
            self.assertIn((result["error"] or {}).get("type"), ("TIMEOUT", "RESOURCE_LIMIT_EXCEEDED"), result)
            # The limit plus one at most: the runner does not count as the program's.
            self.assertLessEqual(result["resource_usage"]["processes"] or 0, 65)

    def test_p01_pids_limit_is_named(self):
        """A program that meets the limit and goes on has the limit's name in its result."""
        code = ("import os,time\n"
                "try:\n"
                "  while True:\n"
                "    if os.fork() == 0: time.sleep(30)\n"
                "except OSError as e: print(type(e).__name__)\n")
        result = self.run_code("python", code, pids=16)
        self.assertEqual(result["stdout"], "BlockingIOError\n")
        if GVISOR or machine.lacks_groups(self.server, result):  # there nobody counts refused forks, and the result says so
            self.assertTrue(self.weakened(result, "processes", "without a word"), result["provenance"])
            # The node samples the processes, and may see them at the limit.
            seen = (result["resource_usage"]["processes"] or 0) >= 16
            self.assertEnded(result, "completed", *(("RESOURCE_LIMIT_EXCEEDED", "pids") if seen else ()))
            return
        self.assertEnded(result, "completed", "RESOURCE_LIMIT_EXCEEDED", "pids")
        self.assertEqual(result["error"]["details"]["value"], 16)

    def test_p02_daemon_does_not_survive(self):
        result = self.run_program("p02_daemon")
        self.assertEnded(result, "completed")
        self.assertEqual(result["stdout"], "main is done\n")
        # tearDown finds no process in the sandboxes' uid range.

    def test_p02_says_that_it_has_ended(self):
        """In a copy of a zygote: sends the signal that its runner takes for the end, and goes on."""
        result = self.run_code("python", SAYS_ENDED, timeout_seconds=harness.limit(2))
        told = (result["status"], result["exit_code"], result["stdout"][:1], result["error"])
        if "copy" in result["stderr"]:
            self.assertEqual(told, ("completed", 7, "x", None))
        else:  # its runner started the process, and waits for its end
            self.assertFalse(WARM)
            self.assertEqual(result["status"], "timed_out", told)

    def test_p03_ignores_stops_and_traces(self):
        for how in ("ignore", "stop", "traced"):
            with self.subTest(how):
                result = self.run_program("p03_stubborn", how, timeout_seconds=harness.limit(1))
                self.assertEnded(result, "timed_out", "TIMEOUT")
                self.assertEqual(result["stdout"], "so far\n")
                self.assertIsNone(result["exit_code"])

    def test_p04_sleep_dies_at_the_wall_limit(self):
        result = self.run_code("bash", "sleep 999", timeout_seconds=1)
        self.assertEnded(result, "timed_out", "TIMEOUT", "timeout_seconds")

    def test_p04_spinning_threads_get_one_core(self):
        result = self.run_program("p04_spin", timeout_seconds=4, cpu_millis=500)
        self.assertEnded(result, "timed_out", "TIMEOUT")
        usage = result["resource_usage"]
        if machine.lacks_groups(self.server, result):
            self.skipTest(machine.NO_GROUPS)
        # Without the limit the figure would be twice the wall time. An emulated machine does not keep its clocks
        # together.
        self.assertLessEqual(usage["cpu_ms"], 0.75 * usage["wall_ms"] + 150)

    def test_p04_cpu_time_is_a_limit_of_its_own(self):
        result = self.run_program("p04_spin", timeout_seconds=120, cpu_seconds=1)
        self.assertEnded(result, "failed", "RESOURCE_LIMIT_EXCEEDED", "cpu_seconds")

    def test_p05_held_stdout(self):
        result = self.run_program("p05_stdio", "held", timeout_seconds=harness.limit(10))
        self.assertEnded(result, "completed")
        self.assertEqual(result["exit_code"], 0)
        self.assertEqual(result["stdout"], "parent says goodbye\n")
        self.assertLess(result["resource_usage"]["wall_ms"], 10000)

    def test_p05_closed_stdio(self):
        result = self.run_program("p05_stdio", "closed", timeout_seconds=2)
        self.assertEnded(result, "timed_out", "TIMEOUT")

    def test_p06_memory_hog(self):
        for how in ("one", "many"):
            with self.subTest(how):
                result = self.run_program("p06_memory", how, memory_mb=64, pids=128,
                                          timeout_seconds=harness.limit(10))
                lacks = machine.lacks_groups(self.server, result)
                if how == "many" and lacks:
                    self.skipTest(machine.NO_GROUPS)
                self.assertNotIn("had it all", result["stdout"])
                if not lacks:
                    self.assertEnded(result, "failed", "RESOURCE_LIMIT_EXCEEDED", "memory_mb")

    def test_p06_limits_hold_in_a_ready_sandbox(self):
        """A sandbox made ahead with other limits gets those of the claiming run."""
        code = ("import os, time\ntry:\n  for i in range(200):\n    if os.fork() == 0: time.sleep(60)\n"
                "except OSError: print('refused', i)\nx = b'y' * (200 << 20)\nprint('had it all')\n")
        for _ in range(6):  # the disk is the same, so a sandbox made for either serves both
            ready = self.run_code("python", "print('ready')", memory_mb=512, disk_mb=8, pids=128)
            self.assertEqual(ready["stdout"], "ready\n")
            result = self.run_code("python", code, memory_mb=64, disk_mb=8, pids=16)
            if machine.lacks_groups(self.server, result):
                self.skipTest(machine.NO_GROUPS)
            self.assertNotIn("had it all", result["stdout"])
            self.assertEnded(result, "failed", "RESOURCE_LIMIT_EXCEEDED", "memory_mb")
            self.assertEqual(result["error"]["details"]["value"], 64 * MIB)
            self.assertLessEqual(result["resource_usage"]["processes"] or 0, 17)

    def test_p07_hidden_memory(self):
        for where in ("shm", "tmp", "memfd", "sysv", "pipes", "sockets", "mlock", "tcp", "udp", "lists"):
            with self.subTest(where):
                result = self.run_program("p07_hidden_memory", where, memory_mb=64, disk_mb=1024,
                                          timeout_seconds=harness.limit(15))
                if machine.lacks_groups(self.server, result):
                    self.skipTest(machine.NO_GROUPS)
                beyond = 128 * MIB if GVISOR else 0  # gvisor.overhead_mb: its results say so
                self.assertLessEqual(result["resource_usage"]["max_rss_bytes"], 64 * MIB * 1.1 + beyond)
                if result["status"] != "completed":
                    self.assertEnded(result, "failed", "RESOURCE_LIMIT_EXCEEDED", "memory_mb")
                else:
                    taken = int(result["stdout"].split()[1])
                    self.assertLessEqual(taken, 4096 if where == "sockets" else 72)

    def test_p07_what_the_kernel_has_for_all(self):
        """Of the kernel's resources counted for the sandboxes' user, or reserved for others, a sandbox has a share
        or nothing."""
        result = self.run_code("python", SHARED_KERNEL, timeout_seconds=harness.limit(10))
        instances, *others = map(int, result["stdout"].split())
        self.assertGreater(instances, 0)
        if RUNTIME == "process":  # the other runtimes have a kernel of their own, which programs may use up
            self.assertLessEqual(instances, 16)
        self.assertEqual(others, [0, 0, 0, 0])

    def test_p07_file_locks(self):
        """A program with too many locks is ended within seconds, with the reason; a program with some is not, nor
        are the host's own."""
        if RUNTIME != "process":
            self.skipTest("its locks are in a kernel of its own")
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            neighbour = pool.submit(self.run_code, "python", FEW_LOCKS, timeout_seconds=harness.limit(30))
            result = self.run_code("python", MANY_LOCKS, timeout_seconds=harness.limit(30))
            neighbour = neighbour.result()
        self.assertEnded(result, "failed", "RESOURCE_LIMIT_EXCEEDED", "file_locks")
        details = result["error"]["details"]
        self.assertEqual((details["value"], details["unit"]), (1024, "locks"))
        self.assertGreater(details["used"], 1024)
        self.assertEqual(neighbour["stdout"], "22\nthere\n", neighbour)
        self.assertEnded(neighbour, "completed")

    def test_p08_disk_full(self):
        before = os.statvfs(self.server.state).f_bfree
        result = self.run_program("p08_disk", "full", disk_mb=32)
        self.assertEnded(result, "completed", "RESOURCE_LIMIT_EXCEEDED", "disk_mb")
        written = int(result["stdout"].split()[1])
        self.assertLessEqual(written, 32)
        self.assertGreater(written, 24)
        frsize = os.statvfs(self.server.state).f_frsize
        self.assertLess((before - os.statvfs(self.server.state).f_bfree) * frsize, 24 * MIB)

    def test_p08_inodes(self):
        result = self.run_program("p08_disk", "inodes", inodes=2000, timeout_seconds=harness.limit(60))
        if self.weakened(result, "no limit of their number"):
            self.assertEnded(result, "failed", "RESOURCE_LIMIT_EXCEEDED", "memory_mb")
            return
        self.assertEnded(result, "completed", "RESOURCE_LIMIT_EXCEEDED", "inodes")
        self.assertLessEqual(int(result["stdout"].split()[1]), 2000)

    def test_p08_deep_directories(self):
        result = self.run_program("p08_disk", "deep", str(DEEP), timeout_seconds=harness.limit(30))
        self.assertEnded(result, "completed")
        self.assertEqual(result["stdout"].split()[:2], ["deep", str(DEEP)])
        # tearDown finds the sandbox gone within its time, however deep its tree.

    def test_p08_sparse_terabyte(self):
        result = self.run_program("p08_disk", "sparse", file_size_mb=16)
        self.assertEnded(result, "failed", "RESOURCE_LIMIT_EXCEEDED", "file_size_mb")

    def test_p09_descriptors(self):
        result = self.run_program("p09_fds", open_files=128)
        self.assertEqual(result["status"], "completed")
        files, sockets = int(result["stdout"].split()[1]), int(result["stdout"].split()[3])
        self.assertLess(files + sockets, 128)
        self.assertEqual(int(result["stdout"].split()[5]), 24)  # EMFILE
        self.assertIsNone(result["error"], "it met its limit and went on")
        # tearDown finds the server's own descriptors unchanged.

    def test_p09_fails_at_its_descriptors(self):
        self.assertEnded(self.run_program("p09_fds", "fail", open_files=128),
                         "completed", "RESOURCE_LIMIT_EXCEEDED", "open_files")
        few = self.run_program("p09_fds", "few", open_files=128)
        self.assertEqual((few["exit_code"], few["error"]), (1, None), "it failed far below")

    def test_p09_no_core(self):
        before = set(os.listdir("/"))
        result = self.run_program("p09_fds", "core")
        self.assertEqual(result["signal"], "SIGSEGV")
        self.assertIsNone(result["exit_code"])
        self.assertEqual(set(os.listdir("/")) - before, set())


if __name__ == "__main__":
    unittest.main()
