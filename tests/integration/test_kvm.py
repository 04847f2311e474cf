# SPDX-License-Identifier: Apache-2.0
"""The runtime microvm with KVM: the node finds out once whether KVM works, and reports so; a machine under the VMM's
whole confinement runs code on the processor; and no other sandbox has its device. With a kernel of our own, which
boots without Linux support; test_microvm.py has Linux."""

import os
import pathlib
import tempfile
import time
import unittest

import harness
import kvm_case
from api_case import ApiTest, CONFIG
from kvm_case import machines

IMAGE = pathlib.Path(os.environ.get("CLOISTER_MICROVM", "/nonexistent"))
LACKS = kvm_case.lacks() or kvm_case.lacks_compiler()
ROOT = "needs root: its cache is looked at" if os.geteuid() else ""


def opened_by(pid):
    """The open files of the process; nothing after its end."""
    try:
        return {os.readlink(each) for each in pathlib.Path(f"/proc/{pid}/fd").iterdir()}
    except OSError:
        return set()


def temporary_image(case, make):
    directory = pathlib.Path(case.enterClassContext(tempfile.TemporaryDirectory()))
    directory.chmod(0o755)
    case.addClassCleanup(lambda: kvm_case.answer_file(directory).unlink(missing_ok=True))
    return make(directory)


@unittest.skipIf(LACKS or ROOT, LACKS or ROOT)
class OurKernel(ApiTest):
    @classmethod
    def setUpClass(cls):
        image = temporary_image(cls, kvm_case.make_image)
        cls.server = harness.Server(config=CONFIG + kvm_case.config(image, accelerator="kvm"))
        cls.enterClassContext(cls.server)
        said = kvm_case.finding(cls.server)
        if " ok " not in said:
            raise unittest.SkipTest(f"KVM boots no kernel here: {said}")

    def start(self, what):
        return self.call("POST", "/v1/executions", {"command": ["ls", what], "runtime": "microvm"}, status=201).json()

    def test_runs_on_the_processor(self):
        self.assertRegex(kvm_case.finding(self.server), r"ok +microvm +QEMU [\d.]+, KVM, booted in \d+ ms")
        done = self.server.wait_end(self.start("x")["id"])
        self.assertEqual((done["status"], done["stdout"]), ("completed", "a kernel for tests\n"), done)
        self.assertEqual(done["provenance"]["runtime"], "microvm")
        self.assertFalse([each for each in done["provenance"]["weakened"] if "emulated" in each], done)

    def test_its_vmm_is_held_and_alone_has_the_device(self):
        made = self.start("hang")
        harness.wait_for("a processor of a machine", lambda: [
            each for pid in machines(self.server) for each in opened_by(pid) if "kvm-vcpu" in each])
        (machine,) = machines(self.server)
        status = pathlib.Path(f"/proc/{machine}/status").read_text()
        for held in ("Seccomp:\t2\n", "NoNewPrivs:\t1\n", "CapEff:\t0000000000000000\n", "CapBnd:\t0000000000000000\n"):
            self.assertIn(held, status)
        root = pathlib.Path(f"/proc/{machine}/root/dev")
        self.assertEqual(sorted(os.listdir(root)), ["kvm", "null", "pts", "shm", "urandom"])
        self.assertTrue([each for each in opened_by(machine) if each.endswith("/kvm")], opened_by(machine))
        other = self.call("POST", "/v1/executions?wait=30", {"command": ["sh", "-c", "ls /dev; cat /dev/kvm"]},
                          status=200).json()
        self.assertNotIn("kvm", other["stdout"])
        self.assertIn("No such file", other["stderr"])
        self.cancel(made)
        harness.wait_for("the machine to be gone", lambda: not machines(self.server))

    def test_an_error_of_kvm_ends_the_run_and_is_told(self):
        begin = time.monotonic()
        done = self.server.wait_end(self.start("internal-error")["id"])
        self.assertEqual((done["status"], done["error"]["type"]), ("failed", "RUNNER_LOST"), done)
        self.assertLess(time.monotonic() - begin, 10)
        harness.wait_for("the machine to be gone", lambda: not machines(self.server))
        if "KVM internal error" not in done["error"]["message"]:
            self.skipTest("this KVM stops at no instruction of the test's kernel")

    def test_a_machine_that_ends_loses_its_run_with_its_last_words(self):
        done = self.server.wait_end(self.start("reset")["id"])
        self.assertEqual((done["status"], done["error"]["type"]), ("failed", "RUNNER_LOST"), done)
        self.assertIn("kernel: reset", done["error"]["message"])

    def test_the_plan_shows_devices_and_requests(self):
        plan = self.call("POST", "/v1/executions?dry_run=true", {"command": ["true"], "runtime": "microvm"}).json()
        text = str(plan)
        for part in ("'accelerator': 'kvm'", "KVM_RUN", "/kvm", "vmx=off"):
            self.assertIn(part, text)


@unittest.skipIf(LACKS or ROOT, LACKS or ROOT)
class Unproved(ApiTest):
    """A kernel that is silent: the node waits for it once, and no longer than configured."""

    SECONDS = 2

    @classmethod
    def setUpClass(cls):
        cls.image = temporary_image(cls, kvm_case.make_image)
        silent = cls.image / "silent.c"
        silent.write_text(kvm_case.SOURCE.read_text().replace('  say("kernel: begins\\n");', "  for (;;) {\n  }"))
        kvm_case.compile_kernel(silent, cls.image / "vmlinuz")

    def look(self, **settings):
        begin = time.monotonic()
        with harness.Server(config=CONFIG + kvm_case.config(self.image, probe_seconds=self.SECONDS, **settings)) as server:
            took = time.monotonic() - begin
            answer = self.server_call(server)
            return took, kvm_case.finding(server), answer

    def server_call(self, server):
        return server.request("POST", "/v1/executions?wait=5", {"command": ["true"], "runtime": "microvm"})

    def test_is_waited_for_once_and_nothing_else_is_used(self):
        took, said, answer = self.look(accelerator="kvm", emulate="true")
        self.assertIn("/dev/kvm is there, but boot", said)
        if "boots no kernel" not in said:  # this KVM makes no machine that could hang
            self.assertGreaterEqual(took, self.SECONDS)
            self.assertIn(f"booted no kernel within {self.SECONDS} s", said)
        self.assertIn("missing", said)
        self.assertNotIn('"completed"', answer.text)
        self.assertTrue(kvm_case.answer_file(self.image).is_file())
        took, again, _ = self.look(accelerator="kvm", emulate="true")
        self.assertLess(took, self.SECONDS)
        self.assertEqual(again, said)


@unittest.skipIf(LACKS or ROOT, LACKS or ROOT)
@unittest.skipUnless((IMAGE / "root.squashfs").exists(), "no image: CLOISTER_MICROVM names none")
class Linux(ApiTest):
    """The same with Linux, which shows the worth of this machine's KVM."""

    def test_boots_or_doctor_says_why_not_and_does_not_wait_again(self):
        config = CONFIG + kvm_case.config(IMAGE, accelerator="kvm")
        with harness.Server(config=config) as server:
            said = kvm_case.finding(server)
        begin = time.monotonic()
        with harness.Server(config=config) as server:
            self.assertLess(time.monotonic() - begin, 8)
            if " ok " in said:
                done = server.run(command=["uname", "-r"], runtime="microvm")
                self.assertRegex(done["stdout"], r"-cloud-amd64\n$")
                return
            self.assertEqual(kvm_case.finding(server), said)
        self.assertRegex(said, r"missing +microvm +/dev/kvm is there, but (booted no kernel within 10 s|boots no kernel)")


if __name__ == "__main__":
    unittest.main()
