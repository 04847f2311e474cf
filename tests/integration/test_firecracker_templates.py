# SPDX-License-Identifier: Apache-2.0
"""Machines of Firecracker that begin from a kept machine, with the double of tests/microvm: its driver has a machine
kept and restored, and the node begins ready machines so."""

import contextlib
import fcntl
import hashlib
import itertools
import os
import pathlib
import re
import shutil
import signal
import socket
import tempfile
import time
import unittest

import firecracker_case
import harness
import kvm_case
from api_case import ApiTest, CONFIG
from firecracker_case import ANSWERS, HELLO, Driver, gone

SLEEPS = firecracker_case.BOOT + " cloister_sleeps=1"
ROOT = "" if harness.ROOT else "needs root: the double gives its runner namespaces"
F_ADD_SEALS, SEALS = 1033, 0xF  # seal, shrink, grow, write
MEBIBYTES = 64


class Case(unittest.TestCase):
    def setUp(self):
        self.directory = tempfile.mkdtemp(prefix="cloister-fc-")
        self.addCleanup(shutil.rmtree, self.directory, ignore_errors=True)
        self.files = [os.memfd_create(name, os.MFD_ALLOW_SEALING) for name in ("memory", "state")]
        os.ftruncate(self.files[0], self.MEBIBYTES << 20)
        for each in self.files:
            self.addCleanup(os.close, each)

    MEBIBYTES = MEBIBYTES

    @contextlib.contextmanager
    def driver(self, begins, **how):
        # Always the same, as the kept machine has its path, and always without another machine's files.
        directory = pathlib.Path(self.directory) / "run"
        shutil.rmtree(directory, ignore_errors=True)
        directory.mkdir()
        how = {"boot": SLEEPS} | how
        with Driver(directory, begins=(begins, *self.files), mebibytes=str(self.MEBIBYTES), **how) as driver:
            yield driver

    def keep(self):
        with self.driver("to-be-kept") as driver:
            self.assertEqual(driver.frame()[0], HELLO, driver.said())
            tree = driver.tree()
            self.assertEqual(driver.keep(), "")
            self.assertTrue(gone(tree), "something is left")
            pool = self.pool(driver)
        for each in self.files:
            fcntl.fcntl(each, F_ADD_SEALS, SEALS)
        return pool

    @staticmethod
    def pool(driver):
        return re.search(r"random numbers are (\w+)", driver.said()).group(1)

    def digests(self):
        return [hashlib.sha256(os.pread(each, os.fstat(each).st_size, 0)).hexdigest() for each in self.files]


@unittest.skipIf(ROOT, ROOT)
class Machine(Case):
    def test_machines_begin_as_one_that_was_kept_each_with_its_own_entropy(self):
        pool = self.keep()
        before = self.digests()
        # Firecracker has written the whole file; empty parts take no memory.
        self.assertEqual(os.fstat(self.files[0]).st_size, MEBIBYTES << 20)
        self.assertLess(os.fstat(self.files[0]).st_blocks * 512, 16 << 20)
        woken = set()
        for _ in range(3):
            with self.driver("as-kept") as driver:
                entropy = hashlib.sha256(driver.wake()).hexdigest()
                said = re.search(r"woken with (\w+) at (\d+)", driver.said())
                self.assertEqual(said.group(1), entropy)
                self.assertLess(abs(int(said.group(2)) - time.time()), 60)
                self.assertEqual(self.pool(driver), pool)
                woken.add(entropy)
                self.assertEqual(driver.run("/bin/sh", "-c", "echo hi; exit 3"), (b"hi\n", 3))
                tree = driver.tree()
                driver.node.close()
                self.assertTrue(gone(tree), "something is left")
        self.assertEqual(len(woken), 3)
        self.assertEqual(self.digests(), before)

    def test_a_connection_that_the_transport_resets_is_not_the_last(self):
        self.keep()
        with self.driver("as-kept", mischief="reset") as driver:
            driver.wake()
            self.assertEqual(driver.run("/bin/true"), (b"", 0))

    def test_one_to_be_kept_that_is_ordered_nothing_ends_with_the_node(self):
        for hang_up in ("node", "orders"):
            with self.driver("to-be-kept") as driver:
                self.assertEqual(driver.frame()[0], HELLO)
                tree = driver.tree()
                time.sleep(0.2)
                self.assertFalse(driver.ended())
                getattr(driver, hang_up).close()
                self.assertTrue(gone(tree), "something is left")

    def test_what_is_no_order_ends_it(self):
        for order in (b"\0" * 12, firecracker_case.HEAD.pack(0, 1, 0, 35, 0), firecracker_case.HEAD.pack(1, 1, 0, 34, 0) + b"x",
                      firecracker_case.HEAD.pack(0, 2, 0, 34, 0), firecracker_case.HEAD.pack(0, 1, 0, 34, 7)):
            with self.driver("to-be-kept") as driver:
                self.assertEqual(driver.frame()[0], HELLO)
                driver.orders.sendall(order)
                with contextlib.suppress(ConnectionResetError):
                    self.assertEqual(driver.orders.recv(100), b"")
                self.assertTrue(gone({driver.pid}))
        self.assertEqual(os.fstat(self.files[1]).st_size, 0)


class Faults(Case):
    def test_whatever_answers_while_one_is_kept_is_a_fault_in_words(self):
        for at, method in (("/vm", "PATCH"), ("/snapshot/create", "PUT")):
            for mischief, words in ANSWERS.items():
                with self.subTest(mischief=mischief, at=at), self.driver("to-be-kept", mischief=mischief, at=at) as driver:
                    self.assertEqual(driver.frame()[0], HELLO, driver.said())
                    tree = driver.tree()
                    self.assertTrue(driver.keep().startswith(f"{method} {at}: {words}"))
                    self.assertTrue(gone(tree), "something is left")

    def test_whatever_answers_where_one_begins_so_is_a_fault_in_words(self):
        for mischief, words in ANSWERS.items():
            with self.subTest(mischief=mischief), \
                    self.driver("as-kept", mischief=mischief, at="/snapshot/load") as driver:
                # Earlier than the double's own refusal: the files are empty.
                tree = driver.tree()
                fault = driver.fault()
                self.assertIn("PUT /snapshot/load: ", fault)
                if mischief not in ("refuse", "lie"):
                    self.assertRegex(fault, words + "|Failed to restore from snapshot")
                self.assertTrue(gone(tree), "something is left")

    def test_one_that_was_changed_or_cut_is_refused(self):
        with self.driver("to-be-kept") as driver:
            self.assertEqual(driver.frame()[0], HELLO)
            self.assertEqual(driver.keep(), "")
        state = os.pread(self.files[1], 1 << 20, 0)
        memory = os.pread(self.files[0], 4096, 0)

        def change(file, at, byte):
            return lambda: os.pwrite(self.files[file], bytes((byte ^ 1,)), at)
        for name, harm in (("state", change(1, 10, state[10])), ("memory", change(0, 100, memory[100])),
                           ("cut state", lambda: os.ftruncate(self.files[1], len(state) - 1)),
                           ("cut memory", lambda: os.ftruncate(self.files[0], (MEBIBYTES << 20) - 4096)),
                           ("empty", lambda: os.ftruncate(self.files[1], 0))):
            with self.subTest(harm=name):
                harm()
                with self.driver("as-kept") as driver:
                    tree = driver.tree()
                    self.assertIn("Failed to restore from snapshot: ", driver.fault())
                    self.assertTrue(gone(tree), "something is left")
                os.ftruncate(self.files[1], 0)
                os.pwrite(self.files[1], state, 0)
                os.ftruncate(self.files[0], MEBIBYTES << 20)
                os.pwrite(self.files[0], memory, 0)

    def test_a_driver_or_firecracker_that_is_killed_leaves_nothing(self):
        for at in ("/vm", "/snapshot/create"):
            for victim in (0, 1):
                with self.subTest(at=at, victim=victim), self.driver("to-be-kept", mischief="silent", at=at) as driver:
                    self.assertEqual(driver.frame()[0], HELLO)
                    tree = driver.tree()
                    driver.orders.sendall(firecracker_case.HEAD.pack(0, 1, 0, 34, 0))
                    time.sleep(0.2)
                    (firecracker,) = harness.children(driver.pid)
                    os.kill((driver.pid, firecracker)[victim], signal.SIGKILL)
                    driver.ended()
                    self.assertTrue(gone(tree), "something is left")


IMAGE = pathlib.Path(os.environ.get("CLOISTER_MICROVM", "/nonexistent"))
NO_GUEST = ("" if (IMAGE / "vmlinux").exists() and os.path.exists(kvm_case.QEMU) else
            f"no {kvm_case.QEMU}, or no image with a vmlinux: CLOISTER_MICROVM names none")


@unittest.skipIf(NO_GUEST, NO_GUEST)
class Guest(Case):
    """Linux with our pid 1, in a machine that QEMU emulates for the double. QEMU 7.2 saves no machine with a vsock
    in another process ("non-migratable device"), so the machine only waits for the wake-up: the test plays the
    driver, and hangs up like the transport."""

    MEBIBYTES = 256

    def connection(self, driver, listener):
        try:
            return listener.accept()[0]
        except TimeoutError:
            raise AssertionError(f"nobody connects; the machine said: {driver.said()[-4000:]}") from None

    def wake(self, driver, listener):
        """Like the driver: a slow machine may have given up the next accepted connection."""
        for _ in range(100):
            driver.node = self.connection(driver, listener)
            driver.node.settimeout(120)
            try:
                return driver.wake()
            except ConnectionError:
                driver.node.close()
        raise AssertionError(driver.said())

    def test_connects_until_it_is_woken(self):
        boot = (f"{SLEEPS} panic=-1 random.trust_cpu=on cloister_memory={64 << 20} cloister_pids=32"
                " cloister_scratch=1048576 cloister_inodes=64 cloister_noexec=0 cloister_writes=0 cloister_limits=")
        with self.driver("to-be-kept", machine="qemu", boot=boot, kernel=(IMAGE / "vmlinux").read_bytes(),
                         initrd=firecracker_case.initrd(harness.BIN, (IMAGE / "modules.cpio").read_bytes()),
                         disk=(IMAGE / "root.squashfs").read_bytes()) as driver:
            driver.node.settimeout(harness.limit(120))
            self.assertEqual(driver.frame()[0], HELLO, driver.said())
            path = driver.directory / "v.sock_1024"
            path.unlink()
            time.sleep(1)  # there is nobody
            with socket.socket(socket.AF_UNIX) as listener, driver.node:
                listener.bind(str(path))
                listener.listen()
                listener.settimeout(harness.limit(120))
                for _ in range(3):
                    self.connection(driver, listener).close()
                self.wake(driver, listener)
                out, code = driver.run("/bin/sh", "-c", "id -u; date +%s; exit 5")
                user, now = out.decode().split()
                self.assertEqual((user, code), ("1000", 5))
                self.assertLess(abs(int(now) - time.time()), 20)
                # After the wake-up, the end of the machine's connection is the machine's end.
                driver.node.close()
                harness.wait_for("the machine's end", driver.ended, 20)

LACKS = ROOT or kvm_case.lacks_device() or kvm_case.lacks_compiler()
WEAKER = "begun from a template"


@unittest.skipIf(LACKS, LACKS)
class Node(ApiTest):
    """The whole way: a ready machine is the first to begin from its template, and a machine that cannot be kept, or
    is refused, boots."""

    @classmethod
    def setUpClass(cls):
        cls.directory = pathlib.Path(cls.enterClassContext(tempfile.TemporaryDirectory(prefix="cloister-fc-")))
        cls.directory.chmod(0o755)
        for name in ("image", "root"):
            (cls.directory / name).mkdir()
        cls.image = firecracker_case.make_image(cls.directory / "image")
        cls.root = firecracker_case.make_root(cls.directory / "root")

    def serve(self, mischief="", at=""):
        """The mischief is only in keeping and in restoring: a proof boots."""
        firecracker_case.compile_launcher(f"/usr/lib/double/{firecracker_case.DOUBLE.name}",
                                          self.root / "usr" / "bin" / "firecracker", mischief=mischief, at=at)
        config = kvm_case.config(self.image, vmm="firecracker", firecracker="/usr/bin/firecracker", ready=1)
        return harness.Server(config=f"{CONFIG}node:\n  image_root: {self.root}\n{config}"
                                     f"pool:\n  ready: 1\n  floor: 1\n{harness.CALM}")

    def run_one(self, server):
        done = server.run(command=["/bin/sh", "-c", "id -u"], runtime="microvm")
        self.assertEqual((done["status"], done["stdout"]), ("completed", "1000\n"), done)
        return any(WEAKER in each for each in done["provenance"]["weakened"])

    def logged(self, server, words):
        harness.wait_for(words, lambda: words in server.log.read_text(), 15)

    def test_ready_machines_begin_as_a_template(self):
        with self.serve() as server:
            self.assertFalse(self.run_one(server))
            self.run_one(server)
            self.logged(server, "template made")
            harness.wait_for("a machine from it", lambda: self.run_one(server), 60)
            self.assertTrue(self.run_one(server))  # with another ready machine, or none
            self.assertNotIn("no template made", server.log.read_text())
            self.assertNotIn("nothing begun", server.log.read_text())
            plan = server.request("POST", "/v1/executions?dry_run=true", {"command": ["true"], "runtime": "microvm"}).text
            self.assertIn("KVM_SET_IRQCHIP", plan)

    def test_what_cannot_be_kept_boots_and_is_not_tried_again(self):
        # Each server proves KVM and boots five machines; Faults tests the same cases at the driver.
        faults = [("refuse", "/vm"), ("die", "/snapshot/create")]
        if harness.LONG:
            faults = itertools.product(("refuse", "die", "garbage"), ("/vm", "/snapshot/create"))
        for mischief, at in faults:
            with self.subTest(mischief=mischief, at=at), self.serve(mischief, at) as server:
                for _ in range(2):
                    self.assertFalse(self.run_one(server))
                self.logged(server, "no template made")
                self.assertIn(at, server.log.read_text())
                for _ in range(3):
                    self.assertFalse(self.run_one(server))
                self.assertEqual(server.log.read_text().count("no template made"), 1)

    def test_what_is_kept_wrong_begins_nothing(self):
        # The double claims success and leaves nothing; or refuses to begin from the template.
        for mischief, at in (("lie", "/snapshot/create"), ("refuse", "/snapshot/load"), ("die", "/snapshot/load")):
            with self.subTest(mischief=mischief, at=at), self.serve(mischief, at) as server:
                for _ in range(2):
                    self.assertFalse(self.run_one(server))
                self.logged(server, "nothing begun from a template")
                self.assertIn("/snapshot/load", server.log.read_text())
                self.assertFalse(self.run_one(server))


if __name__ == "__main__":
    unittest.main()
