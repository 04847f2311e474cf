# SPDX-License-Identifier: Apache-2.0
"""Imported images in gVisor and in virtual machines; and sessions that move there."""

import json
import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest

import harness
import machine
from test_images import small_root


class OtherWalls(unittest.TestCase):
    """The same image behind stronger walls."""

    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="cloister-test-images."))
        self.addCleanup(shutil.rmtree, self.folder)
        self.store = self.folder / "store"
        small_root(self.folder / "root", "tools-1")

    def serve(self, more):
        done = subprocess.run([harness.BIN / "cloister", "image", "import", "--images", self.store, "tools",
                               self.folder / "root"], capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        server = self.enterContext(harness.Server(f"node:\n  images: {self.store}\n{more}"))
        return server, server.request("GET", "/v1/node").json()["runtimes"]

    def look(self, server, runtime):
        done = server.run("cat /opt/tools/marker; cat /proc/version", "bash", image="tools", runtime=runtime,
                          wait=100, timeout_seconds=60)
        self.assertTrue(done["stdout"].startswith("tools-1"), done)
        self.assertNotIn(os.uname().release, done["stdout"])
        self.assertEqual((done["provenance"]["runtime"], done["provenance"]["image"]), (runtime, "tools"))

    def test_gvisor(self):
        server, runtimes = self.serve("")
        if "gvisor" not in runtimes:
            self.skipTest("no gvisor here: cloister doctor says why")
        self.look(server, "gvisor")

    def test_microvm(self):
        machine.need_program(self, "mksquashfs")
        image = os.environ.get("CLOISTER_MICROVM", "")
        server, runtimes = self.serve(f"microvm:\n  emulate: true\n  accelerator: tcg\n  image: '{image}'\n")
        if "microvm" not in runtimes:
            self.skipTest("no microvm here: cloister doctor says why")
        self.look(server, "microvm")


class Moves(unittest.TestCase):
    """A session behind stronger walls."""

    def test_files_travel(self):
        server = self.enterContext(harness.Server())
        if "gvisor" not in server.request("GET", "/v1/node").json()["runtimes"]:
            self.skipTest("no gvisor here: cloister doctor says why")
        session = server.cli("session", "create", "--language", "bash").stdout.strip()
        path = f"/v1/sessions/{session}"
        data = os.urandom(3 << 20)
        self.assertEqual(server.request("PUT", path + "/files/deep/data.bin", data).status // 100, 2)
        server.request("POST", path + "/exec?wait=30", {"command": "ln -s data.bin deep/link; chmod 750 deep"})
        server.request("POST", path + "/exec?wait=30", {"code": "kept=1"})
        running = server.request("POST", path + "/exec?wait=0", {"command": "sleep 60"}).json()["id"]
        server.wait_status(running, "running")
        refused = server.cli("session", "move", session, "--runtime", "gvisor")
        self.assertEqual(refused.returncode, 3)
        self.assertIn("--end-programs", refused.stderr)
        moved = server.cli("session", "move", session, "--runtime", "gvisor", "--end-programs")
        self.assertEqual(moved.returncode, 0, moved.stderr)
        self.assertEqual(server.wait_end(running)["status"], "cancelled")
        told = server.request("GET", path).json()
        self.assertEqual((told["status"], told["provenance"]["runtime"]), ("running", "gvisor"))
        self.assertEqual(server.request("GET", path + "/files/deep/data.bin").body, data)
        said = server.request("POST", path + "/exec?wait=30", {
            "command": "cat /proc/version; readlink deep/link; stat -c %a deep"}).json()
        self.assertIn("4.4.0", said["stdout"])
        self.assertTrue(said["stdout"].endswith("data.bin\n750\n"), said)
        cell = server.request("POST", path + "/exec?wait=30", {"code": "echo ${kept-lost}"}).json()
        self.assertEqual((cell["stdout"], cell["cell"]["state_lost_reason"]),
                         ("lost\n", "it was ended for a move of its session to another sandbox"), cell)
        back = server.request("POST", path + ":move", {"runtime": "process"})
        self.assertEqual(back.status, 409, back.text)
        rows = [json.loads(line) for line in server.request("GET", "/v1/audit/export").text.splitlines()]
        moved = next(row for row in rows if row["action"] == "session.moved" and row["subject"] == session)
        self.assertEqual((moved["details"]["from"], moved["details"]["to"]), ("process", "gvisor"))
        self.assertEqual(server.request("DELETE", path).status, 200)


if __name__ == "__main__":
    unittest.main()
