#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The service in containers with fewer rights: it runs what it can, and says what is weaker. The containers are made with
unshare(1) and setpriv(1) as engines make them: a pid namespace, covers over parts of /proc, and the engine's default capabilities."""

import json
import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import unittest

import harness

# The default capabilities of Podman. Docker's are these and MKNOD, NET_RAW and AUDIT_WRITE.
DEFAULT = ("chown", "dac_override", "fowner", "fsetid", "kill", "net_bind_service", "setfcap", "setgid", "setpcap", "setuid",
           "sys_chroot")
# Those of deploy/compose.yaml.
COMPOSE = [name.lower() for name in re.findall(r"^      - ([A-Z_]+)$", (harness.REPO / "deploy" / "compose.yaml").read_text(), re.MULTILINE)]
COVER = """
for name in acpi scsi; do [ -d /proc/$name ] && mount -t tmpfs -o ro none /proc/$name; done
for name in kcore keys timer_list sysrq-trigger; do [ -e /proc/$name ] && mount --bind /dev/null /proc/$name; done
for name in bus fs irq sys; do mount --bind /proc/$name /proc/$name && mount -o remount,bind,ro /proc/$name; done
exec "$@"
"""
NO_PROC = "no /proc in sandboxes"
ONE_UID = "one host uid for all sandboxes"
LOOK = "import json, os; print(json.dumps([os.getuid(), os.path.exists('/proc/self'), os.listdir('/workspace')]))"


def only(capabilities):
    return ["setpriv", "--bounding-set", ",".join(["-all", *(f"+{name}" for name in capabilities)]), "--inh-caps", "-all"]


def container(capabilities, covered):
    """The beginning of a command that runs in such a container."""
    before = ["unshare", "--mount", "--pid", "--fork", "--mount-proc"]
    if covered:
        before += ["sh", "-ec", COVER, "sh"]
    return [*before, *only(capabilities)]


@unittest.skipUnless(harness.ROOT, "needs root: it makes containers")
class Containers(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="container-test."))
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        self.folder.chmod(0o777)

    def cloister(self, before, *arguments, bin=harness.BIN):
        env = {"PATH": os.environ["PATH"], "HOME": str(self.folder), "TMPDIR": str(self.folder)}
        for name in ("ASAN_OPTIONS", "UBSAN_OPTIONS", "TSAN_OPTIONS"):
            if name in os.environ:
                env[name] = os.environ[name]
        command = [*before, bin / "cloister", *arguments, "--state", self.folder / "none"]
        return subprocess.run([str(word) for word in command], env=env, stdin=subprocess.DEVNULL, capture_output=True,
                              text=True, timeout=90)

    def look(self, before, **options):
        """The states of `doctor`, what a program sees, and `weakened` of its result."""
        done = self.cloister(before, "doctor", "--json", **options)
        self.assertEqual(done.returncode, 0, done.stderr)
        report = json.loads(done.stdout)
        states = {finding["name"]: finding for finding in report["findings"]}
        done = self.cloister(before, "run", "--json", "-c", LOOK, **options)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        result = json.loads(done.stdout)
        weakened = result["provenance"]["weakened"]
        self.assertEqual(set(report["weakened"]) - set(weakened), set(), "doctor and results agree")
        return states, json.loads(result["stdout"]), weakened

    def assert_reduced(self, states, name):
        self.assertEqual(states[name]["state"], "reduced", states[name])
        self.assertTrue(states[name]["remedy"], states[name])

    def test_with_the_documented_capabilities(self):
        self.assertIn("sys_admin", COMPOSE)
        states, seen, weakened = self.look(container(COMPOSE, covered=False))
        self.assertEqual(seen, [1000, True, ["main.py"]])
        self.assertEqual(states["namespaces"]["state"], "ok", states["namespaces"])
        self.assertEqual(states["user ids"]["state"], "ok", states["user ids"])
        self.assertNotIn("proc", states)
        self.assertFalse([line for line in weakened if line.startswith((NO_PROC, ONE_UID))], weakened)

    def test_with_default_capabilities(self):
        states, seen, weakened = self.look(container(DEFAULT, covered=True))
        self.assertEqual(seen, [1000, False, ["main.py"]])
        self.assert_reduced(states, "namespaces")
        self.assert_reduced(states, "proc")
        self.assertEqual(states["user ids"]["state"], "ok", "CAP_SETUID and CAP_SETGID suffice")
        self.assertTrue([line for line in weakened if line.startswith(NO_PROC)], weakened)

    def test_with_default_capabilities_and_an_open_proc(self):
        states, seen, weakened = self.look(container(DEFAULT, covered=False))
        self.assertEqual(seen, [1000, True, ["main.py"]])
        self.assert_reduced(states, "namespaces")
        self.assertFalse([line for line in weakened if line.startswith(NO_PROC)], weakened)

    def test_as_an_ordinary_user(self):
        before = [*container((), covered=True), "--reuid", "1000", "--regid", "1000", "--clear-groups"]
        states, seen, weakened = self.look(before, bin=harness.user_bin())
        self.assertEqual(seen, [1000, False, ["main.py"]])
        self.assert_reduced(states, "user ids")
        self.assertIn(ONE_UID, weakened)

    def test_root_with_no_capability_is_told_what_to_do(self):
        """The kernel lets no process without CAP_SETFCAP map root (user_namespaces(7))."""
        done = self.cloister(container((), covered=True), "doctor", "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        report = json.loads(done.stdout)
        self.assertFalse(report["usable"])
        found = next(finding for finding in report["findings"] if finding["name"] == "namespaces")
        self.assertEqual(found["state"], "missing")
        self.assertIn("Run in a container", found["remedy"])

    def test_rootless_with_one_id(self):
        before = ["unshare", "--user", "--map-root-user", "--mount", "--pid", "--fork", "--mount-proc"]
        states, seen, weakened = self.look(before)
        self.assertEqual(seen[0], 1000)
        self.assert_reduced(states, "user ids")
        self.assertIn(ONE_UID, weakened)

    def test_rootless_with_one_id_and_a_covered_proc(self):
        before = ["unshare", "--user", "--map-root-user", "--mount", "--pid", "--fork", "--mount-proc",
                  "sh", "-ec", COVER, "sh", *only(DEFAULT)]
        states, seen, weakened = self.look(before)
        self.assertEqual(seen[:2], [1000, False])
        self.assert_reduced(states, "proc")

    def test_sandboxes_without_proc_are_apart(self):
        """Without /proc and without CAP_SYS_ADMIN each sandbox still has a user, processes and files of its own, and no
        descriptor of the service's /proc."""
        program = ("import os\n"
                   "open('/workspace/mine', 'w').close()\n"
                   "held = []\n"
                   "for fd in range(3, 1024):\n"
                   "  try: os.stat(fd); held.append(fd)\n"
                   "  except OSError: pass\n"
                   "others = []\n"
                   "for pid in range(1, 3000):\n"
                   "  try: os.kill(pid, 0); others.append(pid)\n"
                   "  except ProcessLookupError: pass\n"
                   "  except PermissionError: others.append(-pid)\n"
                   "print(held, len(others) < 10, os.getpid() < 100)\n")
        done = self.cloister(container(DEFAULT, covered=True), "run", "-c", program)
        self.assertEqual((done.returncode, done.stdout), (0, "[] True True\n"), done.stderr)


if __name__ == "__main__":
    unittest.main()
