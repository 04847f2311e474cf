# SPDX-License-Identifier: Apache-2.0
"""The digest of the node's own image: no run waits for the digest, and the audit log binds it to earlier runs."""

import json
import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import unittest

import harness
import test_images
from session_case import Session

UNVERIFIED = "image not verified yet"
DIGEST = r"^sha256:[0-9a-f]{64}$"
CONFIG = """node:
  image_root: {root}
images:
  read_after_seconds: {after}
  verify_seconds: 1
  require_verified: {required}
"""


class ImageDigest(unittest.TestCase):
    """A small image, and a cache owned by the test."""

    def setUp(self):
        folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory(prefix="cloister-test-digest.")))
        folder.chmod(0o755)
        self.root, self.cache, self.state = folder / "root", folder / "cache", folder / "state"
        test_images.put(self.root, "/bin/bash", "/usr/bin/bash")
        for library in test_images.libraries("/bin/bash"):
            test_images.put(self.root, library)
        (self.root / "usr/bin/tool").write_text("a tool\n")
        self.state.mkdir(mode=0o755)

    def server(self, after=0, required="false"):
        config = test_images.WALLS + CONFIG.format(root=self.root, after=after, required=required)
        return harness.Server(config, env={"CACHE_DIRECTORY": str(self.cache)}, state=self.state)

    def run_in(self, server):
        done = server.run(language=None, command=["/usr/bin/bash", "-c", "echo hi"])
        self.assertEqual(done["stdout"], "hi\n", done)
        return done

    def digest(self, server):
        """The node's digest, once verified."""
        return harness.wait_for("the image to be verified",
                                lambda: server.request("GET", "/v1/node").json()["image_digest"], 60)

    def finding(self, server):
        findings = server.request("GET", "/v1/node").json()["findings"]
        return next(each for each in findings if each["area"] == "image")

    def entries(self, server, action):
        rows = (json.loads(line) for line in server.request("GET", "/v1/audit/export").text.splitlines())
        return [row for row in rows if row["action"] == action]

    def metric(self, server, name):
        return float(re.search(rf"(?m)^{name} (\S+)$", server.request("GET", "/metrics").text)[1])

    def verify_receipt(self, server, receipt):
        folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        (folder / "receipt.json").write_text(json.dumps(receipt))
        key = server.request("GET", "/v1/audit/public-key").json()["public_key"]
        (folder / "audit.pub").write_text(key + "\n")
        return subprocess.run([harness.BIN / "cloister", "audit", "verify-receipt", "receipt.json", "--key", "audit.pub"],
                              cwd=folder, env={}, capture_output=True, text=True, timeout=60)

    def test_no_run_waits_and_the_log_binds_the_digest_later(self):
        with self.server(after=3600) as server:  # never read in this test
            done = self.run_in(server)
            self.assertIsNone(done["provenance"]["image_digest"])
            self.assertIn(UNVERIFIED, done["provenance"]["weakened"])
            receipt = server.request("GET", f"/v1/executions/{done['id']}/receipt").json()
            self.assertEqual(receipt["sandbox"]["image_digest"], "")
            self.assertNotIn("image_verified", receipt["audit"])
            self.assertTrue(self.verify_receipt(server, receipt).stdout.endswith(", image not verified\n"))
            self.assertEqual((self.finding(server)["state"], self.finding(server)["remedy"]),
                             ("reduced", "No action needed. The node is reading the image; the audit log will then record "
                                         "the digest for earlier runs."))
            self.assertIn(UNVERIFIED, server.cli("doctor").stdout)
            self.assertEqual(self.metric(server, "cloister_image_verified"), 0)
        with self.server() as server:
            digest = self.digest(server)
            self.assertRegex(digest, DIGEST)
            entry = harness.wait_for("the entry", lambda: self.entries(server, "image.verified"))[0]
            self.assertEqual((entry["details"]["digest"], entry["details"]["executions"]), (digest, [done["id"]]))
            now = server.get(done["id"])
            self.assertEqual(now["provenance"]["image_digest"], digest)
            self.assertIn(UNVERIFIED, now["provenance"]["weakened"], "the record is sealed")
            receipt = server.request("GET", f"/v1/executions/{done['id']}/receipt").json()
            self.assertEqual(receipt["sandbox"]["image_digest"], digest)
            self.assertEqual(receipt["audit"]["image_verified"],
                             {name: entry[name] for name in ("seq", "prev", "hash")})
            verified = self.verify_receipt(server, receipt)
            self.assertEqual((verified.returncode, verified.stderr), (0, ""), verified.stdout)
            self.assertIn(f", image {digest} (recorded by audit entry {entry['seq']})\n", verified.stdout)
            receipt["sandbox"]["image_digest"] = "sha256:" + "0" * 64
            self.assertIn("/sandbox/image_digest", self.verify_receipt(server, receipt).stdout)
            report = server.cli("audit", "verify")
            self.assertEqual(report.returncode, 0, report.stdout)
            later = self.run_in(server)["provenance"]
            self.assertEqual((later["image_digest"], UNVERIFIED in later["weakened"]), (digest, False))
            self.assertIn("verified: " + digest, server.cli("doctor").stdout)

    def test_when_it_is_read(self):
        """A node starts earlier and reads later than another. By default each waits two seconds."""
        with self.server(after=3600) as late:
            harness.wait_for("the node", lambda: late.request("GET", "/v1/node").status == 200)
            self.state, self.cache = self.state.with_name("other"), self.cache.with_name("other cache")
            self.state.mkdir(mode=0o755)
            with self.server(after=3) as early:
                self.digest(early)
            self.assertFalse(late.request("GET", "/v1/node").json()["image_digest"])

    def test_it_is_kept_across_restarts(self):
        with self.server() as server:
            digest = self.digest(server)
            self.assertGreater(self.metric(server, "cloister_image_files_read"), 1)
        with self.server(after=3600) as server:
            self.assertEqual(self.run_in(server)["provenance"]["image_digest"], digest, "at once")
            self.assertEqual(self.metric(server, "cloister_image_files_read"), 0, "no file is read again")
            self.assertEqual(self.metric(server, "cloister_image_verified"), 1)

    def test_a_byte_gives_another_digest_and_the_file_is_named(self):
        with self.server() as server:
            before = self.digest(server)
            with open(self.root / "usr/bin/tool", "r+b") as file:  # neither its size nor its directory changes
                file.write(b"A")
            after = harness.wait_for("another digest", lambda: self.digest(server) != before and self.digest(server))
            self.assertRegex(after, DIGEST)
            self.assertEqual(self.run_in(server)["provenance"]["image_digest"], after)
            entry = harness.wait_for("the entry", lambda: self.entries(server, "image.changed"))[0]
            self.assertEqual((entry["details"]["from"], entry["details"]["to"]), (before, after))
            self.assertEqual(entry["details"]["changed"], ["/usr/bin/tool"])
            self.assertIn("/usr/bin/tool", self.finding(server)["detail"])
            self.assertIn("/usr/bin/tool", server.log_tail(200))
            # The others are not; a file changed just now is read again.
            self.assertIn(self.metric(server, "cloister_image_files_read"), (1, 2))
            self.assertGreater(self.metric(server, "cloister_image_files"), 2)
        with open(self.root / "usr/bin/tool", "r+b") as file:
            file.write(b"a")
        os.utime(self.root / "usr/bin/tool")
        with self.server() as server:
            harness.wait_for("the digest of before", lambda: self.digest(server) == before)

    def test_configuration_of_the_host_is_not_in_it(self):
        """/usr/local/etc belongs to the machine and may hold secrets: no sandbox sees the directory, and no digest
        counts it."""
        look = ("cd /usr/local/etc && shopt -s dotglob nullglob && echo * && cat() { while read -r l; do echo $l; done < $1; };"
                " cat token; cat deeper/token; cat ../etc/token; cat /usr/../usr/local/etc/token; echo looked")
        planted = self.root / "usr/local/etc"
        (planted / "deeper").mkdir(parents=True)
        with self.server() as server:
            before = self.digest(server)
            for name in ("token", "deeper/token"):
                (planted / name).write_text("hunter2\n")
            done = server.run(language=None, command=["/usr/bin/bash", "-c", look])
            self.assertEqual(done["stdout"], "\nlooked\n", done)
            self.assertIn("No such file", done["stderr"])
            self.assertNotIn("hunter2", done["stdout"] + done["stderr"])
            with Session(server) as session:
                self.assertEqual(session.exec(command=["/usr/bin/bash", "-c", look])["stdout"], "\nlooked\n")
        self.cache = self.cache.with_name("no cache")
        with self.server() as server:
            self.assertEqual(self.digest(server), before)

    def test_what_ran_before_a_change_is_bound_to_nothing(self):
        with self.server(after=3600) as server:
            done = self.run_in(server)
        (self.root / "usr/bin/tool").write_text("another tool\n")
        with self.server() as server:
            entry = harness.wait_for("the entry", lambda: self.entries(server, "image.not_verified"))[0]
            self.assertEqual(entry["details"]["executions"], [done["id"]])
            self.assertEqual(entry["details"]["changed"], ["/usr/bin/tool"])
            self.assertIsNone(server.get(done["id"])["provenance"]["image_digest"])
            receipt = server.request("GET", f"/v1/executions/{done['id']}/receipt").json()
            self.assertTrue(self.verify_receipt(server, receipt).stdout.endswith(", image not verified\n"))

    def test_nothing_is_bound_that_may_have_waited_through_a_change(self):
        with self.server(after=3) as server:
            before = self.run_in(server)
            (self.root / "usr/bin/tool").write_text("another tool\n")
            after = self.run_in(server)  # in a sandbox perhaps older than the change
            digest = self.digest(server)
            entry = harness.wait_for("the entry", lambda: self.entries(server, "image.not_verified"))[0]
            self.assertEqual(entry["details"]["executions"], [before["id"], after["id"]])
            self.assertEqual(entry["details"]["changed"], ["/usr/bin/tool"])
            self.assertEqual(self.entries(server, "image.verified"), [])
            self.assertIn("image changed, making a new root", server.log_tail(200))
            self.assertEqual(self.run_in(server)["provenance"]["image_digest"], digest)

    def test_a_run_waits_where_that_is_required(self):
        with self.server(after=3600, required="true") as server:
            provenance = self.run_in(server)["provenance"]
            self.assertRegex(provenance["image_digest"], DIGEST)
            self.assertNotIn(UNVERIFIED, provenance["weakened"])

    def test_a_session_has_it_once_it_is_known(self):
        with self.server(after=3) as server:
            made = server.request("POST", "/v1/sessions", {}).json()
            self.assertIn("id", made, made)
            digest = self.digest(server)
            path = f"/v1/sessions/{made['id']}"
            harness.wait_for("the session's digest", lambda: server.request("GET", path).json()["provenance"]
                             ["image_digest"] == digest)
            done = server.request("POST", f"{path}/exec?wait=30", {"command": ["/usr/bin/bash", "-c", "echo hi"]}).json()
            self.assertEqual(done["provenance"]["image_digest"], digest)

    def test_it_is_kept_in_the_state_where_no_cache_can_be_written(self):
        self.root.chmod(0o755)
        config = CONFIG.format(root=self.root, after=0, required="false")
        with harness.Server(config, user=True, env={"HOME": "/nonexistent"}) as server:
            self.digest(server)
            self.assertTrue(list(server.state.glob("cache/image-*.digest")))


if __name__ == "__main__":
    unittest.main()
