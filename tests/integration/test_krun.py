# SPDX-License-Identifier: Apache-2.0
"""cloister-krun with a strict double of libkrun: the program configures the library by its header, carries a
program's frames, ends with the first side to end, and names the library's failed function."""

import os
import pathlib
import re
import signal
import socket
import tempfile
import unittest

import harness
import krun_case
import kvm_case
from api_case import CONFIG
from harness import children, wait_for
from krun_case import HELLO, Machine

LACKS = krun_case.lacks()
FUNCTIONS = ("set_log_level", "create_ctx", "set_vm_config", "add_virtiofs3", "disable_implicit_vsock", "add_vsock",
             "add_vsock_port", "set_console_output", "set_workdir", "set_exec", "start_enter")


def runs(pid):
    """Whether the process exists, and is not only waiting for its reaper."""
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@unittest.skipIf(LACKS, LACKS)
class Krun(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.directory = pathlib.Path(cls.enterClassContext(tempfile.TemporaryDirectory()))
        cls.library = krun_case.make_double(cls.directory)
        cls.root = krun_case.make_root(cls.directory)

    def machine(self, order="play", library=None, **more):
        return self.enterContext(Machine(library or self.library, self.root, order, **more))

    def started(self):
        machine = self.machine()
        self.assertEqual(machine.receive()[0], HELLO)
        return machine

    def test_a_program_runs_through_the_wire(self):
        machine = self.started()
        with socket.socket(socket.AF_UNIX) as second, self.assertRaises(ConnectionRefusedError):
            second.connect(str(machine.path))
        self.assertEqual(machine.run("sh", "-c", "echo over; exit 3"), (3, b"over\n"))
        many = machine.run("sh", "-c", "head -c 3000000 /dev/zero | tr '\\0' x")
        self.assertEqual((many[0], len(many[1])), (0, 3_000_000))
        machine.node.close()
        code, said = machine.end()
        self.assertEqual(code, 0, said)
        self.assertIn("a machine of /cloister-guest, with limits", said)

    def test_a_library_before_read_only_roots_will_do(self):
        with tempfile.TemporaryDirectory() as place:
            library = krun_case.make_double(pathlib.Path(place), "-DNO_VIRTIOFS3")
            machine = self.machine(library=library)
            self.assertEqual(machine.receive()[0], HELLO)

    def test_nothing_is_left_when_either_side_is_killed(self):
        for victim in ("driver", "machine", "node"):
            with self.subTest(victim=victim):
                machine = self.started()
                machine.start("sleep", "1000")
                self.assertEqual(machine.receive()[0], krun_case.STARTED)
                (vmm,) = wait_for("libkrun's process", lambda: children(machine.process.pid))
                left = {vmm, *harness.descendants(vmm)}
                self.assertGreaterEqual(len(left), 2)
                if victim == "node":
                    machine.node.close()
                else:
                    os.kill(vmm if victim == "machine" else machine.process.pid, signal.SIGKILL)
                code, said = machine.end() if victim != "driver" else (machine.process.wait(timeout=10), "")
                self.assertEqual(code, {"driver": -9, "machine": 1, "node": 0}[victim], said)
                if victim == "machine":
                    self.assertIn("the machine ended by signal 9", said)
                wait_for("the machine's processes to be gone",
                         lambda left=left: not any(map(runs, left)))

    def test_every_function_that_fails_is_named(self):
        for name in FUNCTIONS:
            with self.subTest(function=name):
                code, said = self.machine(f"fail:krun_{name}:22").end()
                self.assertEqual(code, 1, said)
                self.assertRegex(said, rf"^cloister-krun: (configuring libkrun|starting the machine): krun_{name}: "
                                       r"Invalid argument\n$")
                self.assertFalse((self.directory / "port.sock").exists())

    def test_what_the_library_lacks_is_told_with_its_version(self):
        with tempfile.TemporaryDirectory() as place:
            old = krun_case.make_double(pathlib.Path(place), "-DOLD")
            code, said = self.machine(library=old).end()
            self.assertEqual((code, said), (1, "cloister-krun: loading libkrun: it has no krun_add_vsock: install "
                                               "version 1.17 or later\n"))
            old.with_name("libkrunfw.so.5").unlink()
            self.assertIn("install libkrunfw 5", self.machine(library=old).end()[1])
        code, said = self.machine(library="/nonexistent/libkrun.so.1").end()
        self.assertEqual(code, 1)
        self.assertIn("loading libkrun: /nonexistent/libkrun.so.1: cannot open", said)

    def test_how_a_machine_ends_is_told(self):
        for order, code, words in (("exit:0", 0, ""), ("exit:125", 1, "root could not be set up"),
                                   ("exit:127", 1, "first program could not be executed"),
                                   ("exit:9", 1, "ended with 9")):
            with self.subTest(order=order):
                ended, said = self.machine(order).end()
                self.assertEqual(ended, code, said)
                self.assertIn("a machine of /cloister-guest", said)
                self.assertIn(words, said)

    def test_a_machine_that_never_connects_or_speaks_ends_with_the_node(self):
        for order in ("hang", "deaf"):
            with self.subTest(order=order):
                machine = self.machine(order)
                wait_for("its console", lambda machine=machine: machine.process.stderr.peek(1))
                self.assertIsNone(machine.process.poll())
                machine.node.close()
                self.assertEqual(machine.end()[0], 0)

    def test_a_root_that_can_be_written_is_refused(self):
        code, said = self.machine(read_only=False).end()
        self.assertEqual((code, bool(re.search("can be written$", said, re.MULTILINE))), (1, True), said)

    def test_without_the_order_the_double_boots_nothing(self):
        code, said = self.machine(None).end()
        self.assertEqual(code, 1)
        self.assertIn("it boots no machine", said)

    def test_a_setting_cannot_add_to_the_kernels_line(self):
        for bad in ('a="b', "a=b\nc", "=b", "a"):
            with self.subTest(setting=bad):
                code, said = self.machine(settings=(bad,)).end()
                self.assertEqual(code, 64, said)


@unittest.skipIf(LACKS, LACKS)
class Node(unittest.TestCase):
    """The node's verdict, with the double as the library: the double never counts as a booting library."""

    def setUp(self):
        # A machine has a /tmp of its own.
        self.directory = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory(dir="/var/tmp")))
        self.directory.chmod(0o755)

    def finding(self, library):
        config = f"{CONFIG}microvm:\n  vmm: libkrun\n  libkrun: {library}\n"
        with harness.Server(config=config) as server:
            self.assertNotIn("microvm", server.request("GET", "/v1/node").json()["runtimes"])
            return kvm_case.finding(server)

    def test_a_library_that_is_absent(self):
        said = self.finding("/nonexistent/libkrun.so.1")
        self.assertIn("missing", said)
        self.assertIn("opening /nonexistent/libkrun.so.1: No such file", said)

    @unittest.skipIf(kvm_case.lacks_device(), kvm_case.lacks_device())
    def test_a_library_that_is_too_old(self):
        said = self.finding(krun_case.make_double(self.directory, "-DOLD"))
        self.assertIn("missing", said)
        self.assertIn("it has no krun_add_vsock: install version 1.17 or later", said)

    @unittest.skipIf(kvm_case.lacks_device(), kvm_case.lacks_device())
    def test_a_library_that_boots_nothing(self):
        said = self.finding(krun_case.make_double(self.directory))
        self.assertIn("missing", said)
        self.assertIn("boots no kernel", said)
        self.assertIn("libkrun double: krun_start_enter: it boots no machine", said)


if __name__ == "__main__":
    unittest.main()
