# SPDX-License-Identifier: Apache-2.0
"""The disk of the state directory is full: writes are refused with the reason, reads work, and when
space returns everything goes on without a restart."""
import contextlib
import ctypes
import http.client
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "integration"))
import disk_case  # noqa: E402
import harness  # noqa: E402
from session_case import Session  # noqa: E402

CLONE_NEWNS = 0x20000
# A second run of the suite in ready sandboxes, copies of a zygote.
WARM = os.environ.get("CLOISTER_WARM") == "1"
POOL = "pool:\n  ready: 4\n  idle_ms: 2000\n" + harness.CALM if WARM else None
LANGUAGE, ECHO = ("python", "print('{}')") if WARM else ("bash", "echo {}")


@unittest.skipUnless(harness.ROOT, "a small file system can only be mounted by root")
class DiskFull(unittest.TestCase):
    def setUp(self):
        # The mount is visible to this process and its children alone.
        self.assertEqual(ctypes.CDLL(None, use_errno=True).unshare(CLONE_NEWNS), 0)
        subprocess.run(["mount", "--make-rprivate", "/"], check=True)
        self.state = tempfile.mkdtemp(prefix="cloister-full.")
        self.addCleanup(os.rmdir, self.state)
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=24m,mode=755", "none", self.state], check=True)
        self.addCleanup(subprocess.run, ["umount", self.state], check=True)
        self.server = self.enterContext(harness.Server(POOL, state=self.state))
        if WARM:
            harness.await_copies(self.server)
        self.before = self.server.run(ECHO.format("before"), LANGUAGE)

    def fill(self):
        """Takes all the space, down to the last byte available to a writer."""
        ballast = pathlib.Path(self.state) / "ballast"
        with open(ballast, "ab", buffering=0) as out:
            for size in (1 << 20, 1 << 12, 1):
                try:
                    while True:
                        out.write(b"\0" * size)
                except OSError:
                    pass
        return ballast

    def test_disk_full_is_refused_clearly_and_recovers(self):
        ballast = self.fill()

        def refused():
            # An entry that fits into pages of the ledger may still be accepted.
            answer = self.server.submit(ECHO.format("no"), LANGUAGE, wait=0)
            return answer if answer.status == 507 else None

        answer = harness.wait_for("a refusal", refused, 30)
        problem = answer.json()
        self.assertEqual(answer.headers["content-type"], "application/problem+json")
        self.assertIn("full", (problem["detail"] + problem["error"]["message"]).lower())
        self.assertEqual(self.server.get(self.before["id"])["stdout"], "before\n")
        self.assertEqual(self.server.request("GET", "/readyz").status, 503)
        self.assertEqual(self.server.request("GET", "/healthz").status, 200)
        os.unlink(ballast)
        harness.wait_for("readiness", lambda: self.server.request("GET", "/readyz").status == 200, 30)
        self.assertEqual(self.server.run(ECHO.format("after"), LANGUAGE)["stdout"], "after\n")
        report = self.server.request("GET", "/v1/audit/verify").json()
        self.assertTrue(report["ok"], report)
        for execution in self.server.request("GET", "/v1/executions?limit=200").json()["executions"]:
            self.server.wait_end(execution["id"])

    def test_a_control_plane_that_dies_meanwhile_serves_what_there_is(self):
        running = self.server.submit("sleep 300", "bash", wait=0, timeout_seconds=600).json()["id"]
        self.server.wait_status(running, "running")
        ballast = self.fill()
        harness.wait_for("a refusal", lambda: self.server.submit(ECHO.format("no"), LANGUAGE, wait=0).status == 507, 30)
        os.kill(self.server.pid_of("cloisterd"), signal.SIGKILL)

        def read():
            with contextlib.suppress(OSError, http.client.HTTPException):
                return self.server.request("GET", f"/v1/executions/{self.before['id']}", timeout=5).status == 200

        harness.wait_for("reads", read, 20)
        os.unlink(ballast)
        self.assertEqual(self.server.wait_end(running, 30)["error"]["type"], "SERVER_RESTART")
        harness.wait_for("readiness", lambda: self.server.request("GET", "/readyz").status == 200, 30)
        self.assertEqual(self.server.run(ECHO.format("after"), LANGUAGE)["stdout"], "after\n")
        self.assertTrue(self.server.request("GET", "/v1/audit/verify").json()["ok"])


@unittest.skipUnless(harness.ROOT, "a small file system can only be mounted by root")
@unittest.skipIf(WARM, "no copy of a zygote has its workspace on disk")
class WorkspaceVolumeFull(unittest.TestCase):
    """The disk with the workspaces, separate from the disk with the state."""
    LARGE = {"memory_mb": 32, "disk_mb": 60}
    SMALL = {"memory_mb": 64, "disk_mb": 8}

    def setUp(self):
        self.assertEqual(ctypes.CDLL(None, use_errno=True).unshare(CLONE_NEWNS), 0)
        subprocess.run(["mount", "--make-rprivate", "/"], check=True)
        self.volume = tempfile.mkdtemp(prefix="cloister-volume.")
        self.addCleanup(os.rmdir, self.volume)
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=100m,mode=755", "none", self.volume], check=True)
        self.addCleanup(subprocess.run, ["umount", self.volume], check=True)
        self.server = self.enterContext(harness.Server(
            f"workspace:\n  disk:\n    directory: {self.volume}\n    over_mb: 8\n    keep_free_mb: 16\n"))
        if lack := disk_case.lack(self.server):
            self.skipTest(f"no workspaces on disk here: {lack}")

    def test_it_is_refused_clearly_and_recovers(self):
        self.assertEqual(self.server.run("echo before", "bash", **self.LARGE)["stdout"], "before\n")
        harness.wait_for("its disk to go", lambda: self.server.metrics()["cloister_disk_workspace_bytes"] == 0)
        with Session(self.server, language="bash", **self.LARGE) as session:
            answer = self.server.request("POST", "/v1/sessions", {"language": "bash", **self.LARGE})
            self.assertEqual(answer.status, 507, answer.body)
            self.assertIn("are free where it would be", answer.json()["error"]["message"])
            run = self.server.run("echo no", "bash", **self.LARGE)
            self.assertEqual((run["status"], run["error"]["type"], run["error"]["retryable"]),
                             ("failed", "SANDBOX_STARTUP_FAILED", True), run)
            self.assertIn("are free where it would be", run["error"]["message"])
            # The session's memory is its own: all of it was available at the start.
            self.assertEqual(session.exec("head -c 30M /dev/zero >x && stat -c %s x")["stdout"], "31457280\n")
            self.assertEqual(self.server.run("echo small", "bash", **self.SMALL)["stdout"], "small\n")
        after = harness.wait_for("room", lambda: self.after("echo after"), 20)
        self.assertEqual(after["stdout"], "after\n")
        self.assertTrue(self.server.request("GET", "/v1/audit/verify").json()["ok"])
        self.assertEqual(os.listdir(self.volume), [])

    def after(self, command):
        done = self.server.run(command, "bash", **self.LARGE)
        return done if done["status"] == "completed" else None


if __name__ == "__main__":
    unittest.main()
