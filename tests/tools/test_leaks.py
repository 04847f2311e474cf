# SPDX-License-Identifier: Apache-2.0
"""The leak check bites: each kind of leak, planted, is reported, while other suites run beside this one."""

import contextlib
import ctypes
import os
import pathlib
import socket
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "integration"))
import harness  # noqa: E402

PERSONAL = 0o1600  # IPC_CREAT, readable and writable for its owner
IPC_RMID = 0
LIBC = ctypes.CDLL(None, use_errno=True)


@contextlib.contextmanager
def program(*command, **options):
    """A program that reports its start, and runs until the end of the block."""
    process = subprocess.Popen([*command, "sh", "-c", "echo; exec sleep 60"], stdout=subprocess.PIPE, **options)
    try:
        process.stdout.readline()
        yield process
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


class Leaks(unittest.TestCase):
    @contextlib.contextmanager
    def reported(self, word):
        """The block plants a leak and calls the given function during the leak."""
        before = harness.Snapshot()

        def check():
            with self.assertRaises(AssertionError) as told:
                harness.assert_clean(before, seconds=0.2)
            self.assertIn(f"{word}: ", str(told.exception))

        yield check
        harness.assert_clean(before, seconds=5)

    @unittest.skipUnless(harness.ROOT, "needs root: it makes what only root can leave behind")
    def test_process(self):
        sandboxed = harness.UID_FIRST + 5
        with self.reported("processes") as check, program(user=sandboxed, group=sandboxed, extra_groups=[]):
            check()

    @unittest.skipUnless(harness.ROOT, "needs root: it makes what only root can leave behind")
    def test_cgroup(self):
        group = next(top for top in (pathlib.Path("/sys/fs/cgroup/memory"), pathlib.Path("/sys/fs/cgroup"))
                     if (top / "cgroup.procs").exists()) / "cloister-left"
        with self.reported("cgroups") as check:
            group.mkdir()
            check()
            group.rmdir()

    @unittest.skipUnless(harness.ROOT, "needs root: it makes what only root can leave behind")
    def test_namespace(self):
        with self.reported("namespaces") as check, program("unshare", "-n"):
            check()

    @unittest.skipUnless(harness.ROOT, "needs root: it makes what only root can leave behind")
    def test_mount(self):
        with tempfile.TemporaryDirectory() as folder, self.reported("mounts") as check:
            subprocess.run(["mount", "-t", "tmpfs", "left", folder], check=True)
            check()
            subprocess.run(["umount", folder], check=True)

    def test_ipc(self):
        with self.reported("ipc") as check:
            segment = LIBC.shmget(0x77, 4096, PERSONAL)
            self.assertGreaterEqual(segment, 0)
            check()
            LIBC.shmctl(segment, IPC_RMID, None)

    def test_abstract_socket(self):
        with self.reported("abstract_sockets") as check, socket.socket(socket.AF_UNIX) as left:
            left.bind("\0left-here")
            check()

    def test_file(self):
        with self.reported("files") as check:
            left = pathlib.Path("/dev/shm/cloister-left")
            left.touch()
            check()
            left.unlink()


if __name__ == "__main__":
    unittest.main()
