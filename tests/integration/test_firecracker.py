# SPDX-License-Identifier: Apache-2.0
"""Firecracker's driver, end to end with the double of tests/microvm: the driver makes a machine by the API, carries
the runner's frames, ends with either side, and copes with all answers. And the kernel for Firecracker, unpacked."""

import gzip
import lzma
import os
import pathlib
import shutil
import signal
import socket
import struct
import subprocess
import tempfile
import time
import unittest

import firecracker_case
import harness
import kvm_case
from api_case import ApiTest, CONFIG
from firecracker_case import ANSWERS, COUNTS, HELLO, Driver, gone

import unpack_kernel

IMAGE = pathlib.Path(os.environ.get("CLOISTER_MICROVM", "/nonexistent"))
ROOT = "" if harness.ROOT else "needs root: the double gives its runner namespaces"


class Case(unittest.TestCase):
    def setUp(self):
        self.directory = tempfile.mkdtemp(prefix="cloister-fc-")
        self.addCleanup(shutil.rmtree, self.directory, ignore_errors=True)

    def drive(self, **how):
        return self.enterContext(Driver(self.directory, **how))

    def assert_fails(self, driver, words):
        fault = driver.fault()
        self.assertTrue(fault.startswith("starting the machine with Firecracker: "), fault)
        self.assertIn(words, fault)
        self.assertTrue(gone({driver.pid}), "the driver stays")


@unittest.skipIf(ROOT, ROOT)
class Machine(Case):
    def test_runs_programs_and_ends_when_the_node_hangs_up(self):
        driver = self.drive()
        self.assertEqual(driver.frame()[0], HELLO)
        self.assertEqual(driver.run("/bin/sh", "-c", "echo hi; exit 3"), (b"hi\n", 3))
        out, code = driver.run("/usr/bin/python3", "-c", "print('x' * 3_000_000)") if harness.LONG else (b"", 0)
        self.assertEqual((len(out), code), (3_000_001, 0) if harness.LONG else (0, 0))
        self.assertIn("double: the guest boots", driver.said())
        tree = driver.tree()
        self.assertGreaterEqual(len(tree), 3, "driver, Firecracker, runner")
        driver.node.close()
        self.assertTrue(gone(tree), "something is left")
        self.assertTrue(driver.ended())

    def test_has_the_network_link_that_is_named(self):
        for address, words in (("02:c1:05:7e:00:01", ""), ("nonsense", "invalid MAC address")):
            with self.subTest(address=address), tempfile.TemporaryDirectory(dir=self.directory) as directory, \
                    Driver(directory, link=("tap7", address)) as driver:
                if words:
                    self.assert_fails(driver, f"PUT /network-interfaces/eth0: refused with 400: {{\"fault_message\": \"{words}")
                else:
                    self.assertEqual(driver.frame()[0], HELLO, driver.said())
                    self.assertIn("tap7", dict(map(reversed, socket.if_nameindex())))
        # It goes with the machine's last process, whose end nobody here is told.
        harness.wait_for("the end of the link", lambda: "tap7" not in dict(map(reversed, socket.if_nameindex())))

    def test_a_slow_answer_is_one(self):
        self.assertEqual(self.drive(mischief="slow").frame()[0], HELLO)

    def test_nothing_is_left_when_either_side_is_killed(self):
        for victim in (0, 1):
            with self.subTest(victim=("the driver", "Firecracker")[victim]), \
                    tempfile.TemporaryDirectory(dir=self.directory) as directory, Driver(directory) as driver:
                self.assertEqual(driver.frame()[0], HELLO)
                tree = driver.tree()
                (firecracker,) = harness.children(driver.pid)
                os.kill((driver.pid, firecracker)[victim], signal.SIGKILL)
                self.assertIsNone(driver.frame())
                driver.ended()
                self.assertTrue(gone(tree), "something is left")


class Faults(Case):
    def test_whatever_answers_is_a_fault_in_words(self):
        for mischief, words in ANSWERS.items():
            for at in ("/machine-config", "/actions"):
                with self.subTest(mischief=mischief, at=at), \
                        tempfile.TemporaryDirectory(dir=self.directory) as directory, \
                        Driver(directory, mischief=mischief, at=at) as driver:
                    begin = time.monotonic()
                    tree = driver.tree()
                    self.assert_fails(driver, f"PUT {at}: {words}")
                    self.assertLess(time.monotonic() - begin, 10)
                    self.assertTrue(gone(tree))

    @unittest.skipUnless(harness.LONG, "takes 20 s: with --long")
    def test_no_answer_is_waited_for_only_so_long(self):
        driver = self.drive(mischief="silent")
        driver.node.settimeout(40)
        self.assert_fails(driver, "PUT /boot-source: no answer")

    def test_one_that_ends_before_its_guest_speaks(self):
        self.assert_fails(self.drive(mischief="die-later"), "it ended with status 9 before the guest spoke")

    def test_a_guest_that_never_speaks_is_the_nodes_to_give_up(self):
        driver = self.drive(mischief="no-guest")
        harness.wait_for("the machine", lambda: "no such" not in driver.said() and len(driver.tree()) > 1)
        time.sleep(0.5)
        self.assertFalse(driver.ended())
        tree = driver.tree()
        driver.node.close()
        self.assertTrue(gone(tree))

    def test_no_firecracker(self):
        self.assert_fails(self.drive(firecracker="/nonexistent"), "executing Firecracker: No such file or directory")
        shutil.rmtree(self.directory)
        os.mkdir(self.directory)
        self.assert_fails(self.drive(firecracker="/bin/false"), "connecting to the API: Firecracker has ended")

    def test_what_a_machine_cannot_boot(self):
        packed = gzip.compress(firecracker_case.kernel())
        high = firecracker_case.kernel(place=1 << 40)
        for words, how in (("Invalid Elf magic", {"kernel": packed}), ("invalid kernel image", {"kernel": high}),
                           ("kernel command line is invalid", {"boot": "x" * 2048}), ("Unable to read", {"disk": b""}),
                           ("invalid value 33", {"cpus": "33"}), ("invalid value 0", {"mebibytes": "0"}),
                           ("it is too long", {"boot": "x" * 5000})):
            with self.subTest(words=words), tempfile.TemporaryDirectory(dir=self.directory) as directory, \
                    Driver(directory, **how) as driver:
                self.assert_fails(driver, words)

    def test_parameters_reach_the_kernel_as_they_are(self):
        # Not JSON of its own making: quotes and backslashes are the kernel's.
        driver = self.drive(boot=firecracker_case.BOOT + ' quoted="a\\b"')
        self.assertEqual(driver.frame()[0], HELLO)


NO_GUEST = ("" if (IMAGE / "vmlinux").exists() and os.path.exists(kvm_case.QEMU) else
            f"no {kvm_case.QEMU}, or no image with a vmlinux: CLOISTER_MICROVM names none")


@unittest.skipIf(NO_GUEST, NO_GUEST)
class Guest(Case):
    """Linux, unpacked as for Firecracker, with our pid 1, in a machine that QEMU emulates for the double."""

    def boot(self, memory):
        boot = (f"{firecracker_case.BOOT} panic=-1 random.trust_cpu=on cloister_memory={memory} cloister_pids=32"
                " cloister_scratch=1048576 cloister_inodes=64 cloister_noexec=0 cloister_writes=0 cloister_limits=")
        driver = self.drive(machine="qemu", mebibytes="256", boot=boot, kernel=(IMAGE / "vmlinux").read_bytes(),
                            initrd=firecracker_case.initrd(harness.BIN, (IMAGE / "modules.cpio").read_bytes()),
                            disk=(IMAGE / "root.squashfs").read_bytes())
        driver.node.settimeout(120)
        return driver

    def test_finds_the_node_by_vsock(self):
        driver = self.boot(memory=64 << 20)
        self.assertEqual(driver.frame()[0], HELLO, driver.said())
        out, code = driver.run("/bin/sh", "-c", "uname -r; id -u; head -c 200000 /dev/zero | tr '\\0' x; exit 4")
        self.assertRegex(out[:100].decode(), r"-cloud-amd64\n1000\nx")
        self.assertEqual((out.count(b"x"), code), (200_000, 4))
        tree = driver.tree()
        driver.node.close()
        self.assertTrue(gone(tree), "something is left")

    def test_its_last_word_is_heard_though_the_machine_ends(self):
        driver = self.boot(memory=4096)  # too little for a runner
        frames = list(iter(driver.frame, None))
        self.assertEqual({frame[0] for frame in frames}, {COUNTS}, driver.said())
        self.assertGreaterEqual(struct.unpack("<QQQ", frames[-1][2])[1], 1, "processes killed for lack of memory")
        self.assertTrue(gone({driver.pid}))


LACKS = ROOT or kvm_case.lacks() or kvm_case.lacks_compiler()


@unittest.skipIf(LACKS, LACKS)
class Node(ApiTest):
    """The whole way with the double as Firecracker, below the sandboxes' root like the real Firecracker: the boot
    that proves KVM, its sandbox, and a program. The double's KVM is only the device."""

    @classmethod
    def setUpClass(cls):
        cls.directory = pathlib.Path(cls.enterClassContext(tempfile.TemporaryDirectory(prefix="cloister-fc-")))
        cls.directory.chmod(0o755)
        for name in ("image", "root"):
            (cls.directory / name).mkdir()
        cls.image = firecracker_case.make_image(cls.directory / "image")
        cls.root = firecracker_case.make_root(cls.directory / "root")
        cls.server = cls.serve(vmm="firecracker")
        cls.enterClassContext(cls.server)

    @classmethod
    def serve(cls, **settings):
        config = kvm_case.config(cls.image, firecracker="/usr/bin/firecracker", **settings)
        return harness.Server(config=f"{CONFIG}node:\n  image_root: {cls.root}\n{config}")

    def test_runs_a_program(self):
        self.assertRegex(kvm_case.finding(self.server), r"ok +microvm +Firecracker 1\.8\.0, KVM, booted in \d+ ms")
        done = self.server.run(command=["/bin/sh", "-c", "id -u; ls /dev; echo x > /workspace/x; echo x > /tmp/x"],
                               runtime="microvm")
        self.assertEqual((done["status"], done["stdout"]), ("completed", "1000\nkvm\nnull\npts\nshm\nurandom\n"), done)
        # The double's programs stand for an escaped guest in the VMM: they write nothing.
        self.assertRegex(done["stderr"], r"(?s)workspace/x: Permission denied.*tmp/x: Permission denied")
        self.assertEqual((done["provenance"]["runtime"], done["provenance"]["weakened"]), ("microvm", []))

    def test_nothing_is_left_of_a_machine_that_is_killed(self):
        body = {"command": ["sleep", "60"], "runtime": "microvm"}
        made = self.call("POST", "/v1/executions", body, status=201).json()
        self.server.wait_status(made["id"], "running")

        def drivers():
            return [pid for pid in self.server.pids() if harness.program_of(pid) == "cloister-firecracker"]

        # Another driver may be ending; and until exec, Firecracker has the driver's name.
        harness.wait_for("the one driver and its machine", lambda: [len(harness.descendants(pid)) for pid in drivers()] == [3])
        (driver,) = drivers()
        status = pathlib.Path(f"/proc/{driver}/status").read_text()
        for held in ("Seccomp:\t2\n", "NoNewPrivs:\t1\n", "CapEff:\t0000000000000000\n", "CapBnd:\t0000000000000000\n"):
            self.assertIn(held, status)
        tree = harness.descendants(driver)
        os.kill(tree[1], signal.SIGKILL)  # Firecracker
        done = self.server.wait_end(made["id"])
        self.assertEqual((done["status"], done["error"]["type"]), ("failed", "RUNNER_LOST"), done)
        self.assertTrue(gone(tree), "something is left")

    def test_the_plan_shows_driver_devices_and_requests(self):
        plan = self.call("POST", "/v1/executions?dry_run=true", {"command": ["true"], "runtime": "microvm"}).json()
        for part in ("cloister-firecracker", "cloister_vsock=1024", "KVM_CREATE_IRQCHIP", "'accelerator': 'kvm'"):
            self.assertIn(part, str(plan))

    def test_what_cannot_be_used_is_said_with_its_remedy(self):
        firecracker = self.root / "usr" / "bin" / "firecracker"
        kept = firecracker.rename(firecracker.with_suffix(".kept"))
        self.addCleanup(kept.rename, firecracker)
        firecracker_case.compile_launcher("/nonexistent", firecracker, version="1.7.9")
        self.assert_missing({"vmm": "firecracker"}, r"Firecracker 1\.7\.9 is too old\n +-> install Firecracker 1\.8")
        firecracker_case.compile_launcher("/nonexistent", firecracker)
        self.assert_missing({"vmm": "firecracker", "probe_seconds": 3},
                            r"boots no kernel: .*Firecracker: connecting to the API: Firecracker has ended; .*No such file")
        self.assert_missing({"vmm": "firecracker", "accelerator": "tcg"}, r"KVM only.*\n +-> set microvm\.accelerator")
        (self.image / "vmlinux").rename(self.image / "away")
        self.addCleanup((self.image / "away").rename, self.image / "vmlinux")
        self.assert_missing({"vmm": "firecracker"}, r"no image: .*vmlinux.*\n +-> run `\./dev images`")

    def assert_missing(self, settings, words):
        with self.serve(**settings) as server:
            self.assertRegex(server.cli("doctor").stdout, r"missing +microvm +.*" + words)
            answer = server.request("POST", "/v1/executions?wait=5", {"command": ["true"], "runtime": "microvm"})
            self.assertNotIn('"completed"', answer.text)


class Double(unittest.TestCase):
    """The driver repeats Firecracker's message."""

    def call(self, *arguments):
        return subprocess.run([firecracker_case.DOUBLE, *arguments], capture_output=True, text=True, timeout=20)

    def test_command_line(self):
        self.assertRegex(self.call("--version").stdout, r"^Firecracker v\d+\.\d+\.\d+\n")
        self.assertEqual(self.call("--unknown").returncode, 153)
        self.assertEqual(self.call("--api-sock").returncode, 153)


class Kernel(unittest.TestCase):
    """tools/unpack_kernel.py, with malformed kernels."""

    ELF = b"\x7fELF" + bytes(range(256)) * 4000

    def image(self, packed, size=None, sectors=1):
        payload = packed + struct.pack("<I", len(self.ELF) if size is None else size)
        head = bytearray((sectors + 1) * 512)
        head[0x1F1], head[0x202:0x206] = sectors, b"HdrS"
        struct.pack_into("<II", head, 0x248, 64, len(payload))
        return bytes(head) + bytes(64) + payload

    def pack(self, *command):
        if shutil.which(command[0]) is None:
            self.skipTest(f"no {command[0]}")
        return subprocess.run(command, input=self.ELF, capture_output=True, check=True).stdout

    def test_every_way_in_which_one_is_packed(self):
        for packed in (gzip.compress(self.ELF), lzma.compress(self.ELF, check=lzma.CHECK_CRC32),
                       self.pack("lz4", "-lqc"), self.pack("zstd", "-qc")):
            self.assertEqual(unpack_kernel.unpack(self.image(packed, sectors=30)), self.ELF)

    def test_what_is_none(self):
        good = gzip.compress(self.ELF)
        for words, image in (("no header", bytes(4096)), ("not known here", self.image(b"\0" * 64)),
                             ("shorter than", self.image(good)[:-1]), ("not what its header", self.image(good, size=5)),
                             ("not what its header", self.image(gzip.compress(b"text" * 99), size=396)),
                             ("not what its header", self.image(good[:200])),
                             ("cannot be unpacked", self.image(good[:2] + b"\xff" * 99)), ("malformed", self.image(
                                 b"\x02\x21\x4c\x18" + struct.pack("<I", 4) + b"\x04\0\0\0"))):
            with self.subTest(words=words), self.assertRaisesRegex(unpack_kernel.Malformed, words):
                unpack_kernel.unpack(image)


if __name__ == "__main__":
    unittest.main()
