# SPDX-License-Identifier: Apache-2.0
"""P08, P23, P24 and P30 on workspaces on disk; and the leftovers after all is killed."""
import os
import unittest

from hostile import AS_USER, DEEP, RUNTIME, WARM, HostileTest, harness
import disk_case
from disk_case import MIB
from session_case import Session

MANY = 200_000 if harness.LONG else 50_000  # inodes, all of which are also removed in time
ON_DISK = {"memory_mb": 64, "disk_mb": 160, "timeout_seconds": 60}

MOVES = "head -c 120M /dev/zero > moved; cat moved | wc -c"

ESCAPES = r'''
import ctypes, errno, os, stat
def attempt(what, make):
    try: make(); print(what, 0)
    except OSError as e: print(what, e.errno)
libc = ctypes.CDLL(None, use_errno=True)
def call(number, *args):
    if libc.syscall(number, *args) < 0: raise OSError(ctypes.get_errno(), "")
attempt("device", lambda: os.mknod("loop", stat.S_IFBLK | 0o666, os.makedev(7, 0)))
attempt("character", lambda: os.mknod("mem", stat.S_IFCHR | 0o666, os.makedev(1, 1)))
attempt("hardlink", lambda: os.link("/etc/passwd", "passwd"))
attempt("hardlink-host", lambda: os.link("/usr/bin/env", "env"))
attempt("up", lambda: os.open("../../workspace/../scratch", os.O_RDONLY))
attempt("root", lambda: os.open("/workspace/lost+found", os.O_RDONLY))
os.symlink("/proc/1/root/etc/shadow", "shadow")
attempt("symlink", lambda: os.open("shadow", os.O_RDONLY))
attempt("xattr", lambda: os.setxattr(".", "user.x", b"x"))
open("f", "w").close()
attempt("xattr-file", lambda: os.setxattr("f", "user.x", b"x"))
attempt("acl", lambda: os.setxattr("f", "system.posix_acl_access", b"\2\0\0\0"))
fd = os.open(".", os.O_RDONLY)
import fcntl
for name, number in (("shutdown", 0x8004587d), ("key", 0xc0506617), ("unkey", 0xc0406618), ("policy", 0x800c6613),
                     ("resize", 0x40086610), ("flags", 0x40086602), ("swap", 0xc0046611)):
    attempt(name, lambda: fcntl.ioctl(fd, number, bytearray(128)))
attempt("remount", lambda: call(165, b"none", b"/workspace", b"ext4", 32, None))
attempt("umount", lambda: call(166, b"/workspace", 2))
print("end")
'''

SUID = r'''
import os, shutil, subprocess
shutil.copy("/usr/bin/id", "id"); os.chmod("id", 0o6755)
print(oct(os.stat("id").st_mode & 0o7777), subprocess.run(["./id", "-u"], capture_output=True, text=True).stdout.strip())
'''


@unittest.skipIf(AS_USER or RUNTIME != "process" or WARM, "workspaces on disk are root's, without a guest and not copied")
class OnDisk(HostileTest):
    CONFIG = "workspace:\n  disk:\n    over_mb: 100\n"

    def setUp(self):
        if lack := disk_case.lack(self.server):
            self.skipTest(f"no workspaces on disk here: {lack}")
        super().setUp()

    def free(self):
        space = os.statvfs(self.server.state)
        return space.f_bfree * space.f_frsize, space.f_ffree

    def test_p08_disk_full(self):
        before, _ = self.free()
        result = self.run_program("p08_disk", "full", **ON_DISK)
        self.assertEnded(result, "completed", "RESOURCE_LIMIT_EXCEEDED", "disk_mb")
        written = int(result["stdout"].split()[1])
        self.assertLess(written, 160)
        self.assertGreater(written, 140)
        harness.wait_for("its space to come back", lambda: before - self.free()[0] < 24 * MIB)

    def test_what_it_reads_and_writes_is_counted(self):
        """The bytes of ended children count too; bytes in memory do not."""
        result = self.run_code("bash", "(" + MOVES + "); cat moved | tail -c 1", **ON_DISK)
        self.assertEnded(result, "completed")
        usage = result["resource_usage"]
        self.assertGreaterEqual(usage["io_write_bytes"], 120 * MIB)
        self.assertLess(usage["io_write_bytes"], 140 * MIB)
        self.assertGreaterEqual(usage["io_read_bytes"], 40 * MIB)  # its memory has room for no more than the rest
        self.assertLess(usage["io_read_bytes"], 400 * MIB)
        usage = self.run_code("bash", "head -c 20M /dev/zero > moved", memory_mb=64, disk_mb=40)["resource_usage"]
        self.assertEqual(usage["io_write_bytes"], 0)

    def test_what_sessions_read_and_write_is_counted(self):
        with Session(self.server, language="python", memory_mb=256, disk_mb=1000) as session:
            writes = "open('moved', 'wb').write(bytes(20 << 20))"
            for request in ({"command": ["sh", "-c", "head -c 20M /dev/zero > moved; true"]}, {"code": writes, "kernel": None}):
                usage = session.exec(**request)["resource_usage"]
                self.assertGreaterEqual(usage["io_write_bytes"], 20 * MIB, request)
                self.assertLess(usage["io_write_bytes"], 30 * MIB, request)
            usage = session.exec("1", kernel=None)["resource_usage"]
            self.assertLess(usage["io_write_bytes"], MIB)
            self.assertGreaterEqual(session.show()["resource_usage"]["io_write_bytes"], 40 * MIB)
            for _ in range(2):
                usage = session.exec(command=["sh", "-c", "head -c 20M /dev/zero > moved; true"], sandbox="fresh")["resource_usage"]
                self.assertGreaterEqual(usage["io_write_bytes"], 20 * MIB)
            harness.wait_for("what its fresh sandboxes wrote", lambda: session.show()["resource_usage"]["io_write_bytes"] >= 80 * MIB)
            self.assertLess(session.show()["resource_usage"]["io_write_bytes"], 120 * MIB)

    def test_p08_inodes(self):
        _, before = self.free()
        result = self.run_program("p08_disk", "inodes", inodes=2000, **ON_DISK)
        self.assertEnded(result, "completed", "RESOURCE_LIMIT_EXCEEDED", "inodes")
        self.assertLessEqual(int(result["stdout"].split()[1]), 2000)
        self.assertLess(before - self.free()[1], 500)

    def test_p08_many_inodes_go_in_time(self):
        result = self.run_program("p08_disk", "inodes", inodes=MANY, memory_mb=256, disk_mb=400, timeout_seconds=120)
        self.assertEnded(result, "completed", "RESOURCE_LIMIT_EXCEEDED", "inodes")
        self.assertGreater(int(result["stdout"].split()[1]), MANY * 3 // 4)
        # tearDown finds the whole workspace removed within its time.

    def test_p08_deep_directories(self):
        result = self.run_program("p08_disk", "deep", str(DEEP), **ON_DISK)
        self.assertEnded(result, "completed")
        self.assertEqual(result["stdout"].split()[:2], ["deep", str(DEEP)])

    def test_p08_sparse_terabyte(self):
        result = self.run_program("p08_disk", "sparse", file_size_mb=16, **ON_DISK)
        self.assertEnded(result, "failed", "RESOURCE_LIMIT_EXCEEDED", "file_size_mb")
        before, _ = self.free()
        result = self.run_program("p08_disk", "sparse", file_size_mb=8192, **ON_DISK)
        self.assertEnded(result, "failed", "RESOURCE_LIMIT_EXCEEDED", "file_size_mb")
        self.assertLess(before - self.free()[0], 200 * MIB)

    def test_p23_p24_ways_out(self):
        result = self.run_code("python", ESCAPES, **ON_DISK)
        self.assertRefused(result)

    def test_p11_set_user_id_means_nothing(self):
        result = self.run_code("python", SUID, **ON_DISK)
        self.assertEqual(result["stdout"].split()[1], "1000", result)

    def test_p30_the_next_has_an_empty_one(self):
        for _ in range(3):
            result = self.run_code("bash", "ls -A /workspace /tmp /dev/shm | grep -v main; echo left > /workspace/left; "
                                   "echo left > /tmp/left", **ON_DISK)
            self.assertEqual(result["stdout"].split(), ["/dev/shm:", "/tmp:", "/workspace:"], result)

    def test_nothing_is_left_when_all_is_killed(self):
        execution = self.server.submit("with open('x', 'wb') as f:\n    for _ in range(100): f.write(bytes(1 << 20))\n"
                                       "print('written', flush=True)\n"
                                       "import time; time.sleep(60)", wait=0, **ON_DISK).json()["id"]
        harness.wait_for("the program", lambda: "written" in self.server.get(execution)["stdout"], 60)
        self.assertEqual(len(disk_case.devices(self.server)), 1)
        self.server.kill()
        harness.wait_for("its device to go", lambda: not disk_case.devices(self.server), 20)
        self.server.start()
        ended = self.server.get(execution)
        self.assertEqual((ended["status"], ended["error"]["type"]), ("failed", "SERVER_RESTART"))
        # A further run, so that leaks are counted against a server in the former state.
        self.assertEqual(self.run_code("bash", "echo on", **ON_DISK)["stdout"], "on\n")
        self.before = harness.Snapshot(self.server)


if __name__ == "__main__":
    unittest.main()
