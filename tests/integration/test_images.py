#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Runs and sessions in imported images: the choice, the content, and the fixed image of a session."""

import json
import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import unittest

import harness
import test_image_import

WALLS = "gvisor:\n  runsc: ''\n"  # for tests without the other runtimes
# By default an image could be removed no earlier than 30 seconds after its last sandbox.
CONFIG = "node:\n  images: {store}\nimages:\n  idle_seconds: 2\npolicy: {policy}\n"
POLICY = """version: 2
rules:
  - {{name: fixed, why: for tests, match: {{agents: [fixed]}}, effect: allow, tier: Auto, image: tools}}
  - {{name: closed, why: for tests, match: {{agents: [closed]}}, effect: allow, tier: Auto}}
  - {{name: all, why: for tests, effect: allow, tier: Auto, images: ["*"]}}
"""


def libraries(program):
    """The files needed to execute a program."""
    said = subprocess.run(["ldd", program], capture_output=True, text=True, check=False).stdout
    return re.findall(r"(/\S+)", said)


def put(root, path, at=None):
    """Copies a file of the host into a root, at its own path or at `at`."""
    target = root / (at or path).lstrip("/")
    target.parent.mkdir(parents=True, exist_ok=True)
    if not target.exists():
        shutil.copy(os.path.realpath(path), target)


def small_root(directory, marker):
    """bash, cat and ls with their libraries, and Python without its packages, at the paths of Docker's images."""
    for program in ("/bin/bash", "/bin/cat", "/bin/ls", "/usr/bin/env"):
        put(directory, program)
        for library in libraries(program):
            put(directory, library)
    put(directory, "/usr/bin/python3", "/usr/local/bin/python3")
    for library in libraries("/usr/bin/python3"):
        put(directory, library)
    version = subprocess.run(["/usr/bin/python3", "-c", "import sys; print('%d.%d' % sys.version_info[:2])"],
                             capture_output=True, text=True, check=True).stdout.strip()
    shutil.copytree(f"/usr/lib/python{version}", directory / f"usr/lib/python{version}",
                    ignore=shutil.ignore_patterns("test", "__pycache__", "ensurepip", "idlelib"), symlinks=True,
                    ignore_dangling_symlinks=True)
    (directory / "opt/tools").mkdir(parents=True)
    (directory / "opt/tools/marker").write_text(marker)
    hello = directory / "opt/tools/hello"
    hello.write_text("#!/bin/bash\necho hello from " + marker + "\n")
    hello.chmod(0o755)
    (directory / "etc").mkdir()
    (directory / "etc/tools.conf").write_text("configured\n")
    (directory / "etc/passwd").symlink_to("/etc/shadow")  # must lead nowhere


class Images(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(tempfile.mkdtemp(prefix="cloister-test-images."))
        cls.addClassCleanup(shutil.rmtree, cls.folder)
        cls.store = cls.folder / "store"
        cls.root = cls.folder / "root"
        small_root(cls.root, "tools-1")
        cls.do("import", "tools", cls.root)
        layout = cls.folder / "layout"
        test_image_import.oci_layout(layout, cls.layer(), env=[
            "PATH=/opt/tools:/usr/local/bin:/usr/bin:/bin", "TOOLS=yes", "HOME=/root"])
        cls.do("import", "oci", layout)
        policy = cls.folder / "policy.yaml"
        policy.write_text(POLICY.format())
        cls.server = harness.Server(WALLS + CONFIG.format(store=cls.store, policy=policy))
        cls.server.__enter__()
        cls.addClassCleanup(cls.server.__exit__, None, None, None)

    @classmethod
    def layer(cls):
        done = subprocess.run(["tar", "-C", cls.root, "-cf", "-", "."], capture_output=True, check=True)
        return done.stdout

    @classmethod
    def do(cls, command, *arguments):
        return subprocess.run([harness.BIN / "cloister", "image", command, "--images", cls.store, *arguments],
                              capture_output=True, text=True, timeout=harness.ANSWER_SECONDS, check=True)

    def offered(self):
        return {image["name"]: image for image in self.server.request("GET", "/v1/images").json()["images"]}

    def test_what_is_offered(self):
        images = self.offered()
        self.assertEqual(set(images), {"host", "tools", "oci"})
        self.assertRegex(images["tools"]["digest"], "^sha256:[0-9a-f]{64}$")
        self.assertEqual(images["tools"]["digest"], images["oci"]["digest"], "the same content")
        self.assertEqual(sorted(images["tools"]["languages"]), ["bash", "python"])
        self.assertEqual((images["tools"]["source"], images["oci"]["source"]), ("directory", "oci"))
        listed = self.server.cli("image", "list").stdout
        self.assertRegex(listed, r"(?m)^tools +sha256:[0-9a-f]{12} .* bash,python ")
        stored = json.loads(self.do("list", "--json").stdout)
        self.assertEqual(({image["name"] for image in stored["images"]}, stored["broken"]), ({"tools", "oci"}, []))
        none = self.server.cli("image", "verify", "--images", str(self.store), "none")
        self.assertIn("`cloister image list --local` lists the images of this machine", none.stderr)
        shown = json.loads(self.server.cli("image", "show", "oci", "--json").stdout)
        self.assertEqual(shown, images["oci"])

    def test_a_run_sees_the_image_and_nothing_of_the_host(self):
        done = self.server.run("cat /opt/tools/marker /etc/tools.conf; ls /usr/bin; cat /etc/passwd; ls -A /",
                               "bash", image="tools")
        self.assertEqual(done["exit_code"], 0, done)
        self.assertTrue(done["stdout"].startswith("tools-1configured\n"), done["stdout"])
        self.assertNotIn("python3", done["stdout"].split())
        self.assertIn("sandbox:x:1000", done["stdout"])
        self.assertNotIn("root:$", done["stdout"])
        provenance = done["provenance"]
        self.assertEqual((provenance["image"], provenance["image_digest"]), ("tools", self.offered()["tools"]["digest"]))
        self.assertEqual(self.server.run("print(1)", image="host")["provenance"]["image"], "host")

    def test_python_where_other_images_have_it(self):
        done = self.server.run("import sys; print(sys.executable, open('/opt/tools/marker').read())", image="tools")
        self.assertEqual(done["stdout"].strip(), "/usr/local/bin/python3 tools-1", done)

    def test_nothing_can_be_written_but_what_always_can(self):
        done = self.server.run("for d in / /opt /opt/tools /etc /usr /var; do echo x > $d/new && echo wrote $d; done; "
                               "echo x > /workspace/a && echo x > /tmp/b && cat /workspace/a", "bash", image="tools")
        self.assertEqual(done["stdout"], "x\n", done)

    def test_its_variables_yield_to_the_requests(self):
        code = "hello; echo $TOOLS $HOME"
        self.assertEqual(self.server.run(code, "bash", image="oci")["stdout"], "hello from tools-1\nyes /home/user\n")
        other = self.server.run("echo $TOOLS; hello", "bash", image="oci", env={"TOOLS": "mine", "PATH": "/bin"})
        self.assertEqual((other["stdout"], other["exit_code"]), ("mine\n", 127))

    def test_what_shares_its_files_has_its_own_variables(self):
        """Images with the same files have the same tree; variables belong to the name."""
        at = {each["name"]: each["digest"] for each in self.server.request("GET", "/v1/images").json()["images"]}
        self.assertEqual(at["oci"], at["tools"])
        for first, then in (("oci", "tools"), ("tools", "oci")):
            for name in (first, then):
                said = {"oci": "yes", "tools": "none"}[name]
                done = self.server.run("echo ${TOOLS-none}", "bash", image=name)
                self.assertEqual(done["stdout"], said + "\n", name)

    def test_what_policy_says(self):
        admin = self.server
        for agent, asked, got in (("fixed", {}, "tools"), ("fixed", {"image": "host"}, None), ("closed", {}, "host"),
                                  ("closed", {"image": "tools"}, None), ("other", {"image": "oci"}, "oci")):
            with self.subTest(agent=agent, asked=asked):
                key = admin.request("POST", "/v1/keys", {
                    "tenant": "default", "name": agent, "agent": agent, "roles": ["agent"]}).json()["secret"]
                body = {"command": ["cat", "/proc/version"], "artifacts": [], **asked}
                done = admin.request("POST", "/v1/executions?wait=30", body, key=key).json()
                if got is None:
                    self.assertEqual((done["status"], done["error"]["type"]), ("denied", "PERMISSION_DENIED"), done)
                    self.assertIn("image", done["error"]["message"])
                else:
                    self.assertEqual((done["status"], done["provenance"]["image"]), ("completed", got), done)

    def test_one_that_is_not_there(self):
        done = self.server.submit("echo", "bash", image="gone").json()
        self.assertEqual(done["status"], "denied")
        self.assertIn("cloister image import", done["error"]["message"])
        refused = self.server.request("POST", "/v1/executions", {"language": "bash", "code": "1", "image": "../x"})
        self.assertEqual(refused.status, 422, refused.text)
        self.assertIn("image: must be the name of an image", refused.json()["error"]["message"])

    def test_a_session_has_one_and_keeps_it(self):
        made = self.server.request("POST", "/v1/sessions", {"language": "python", "image": "oci"})
        self.assertEqual(made.status, 201, made.text)
        session = made.json()
        self.assertEqual(session["provenance"]["image"], "oci")
        path = f"/v1/sessions/{session['id']}"
        self.addCleanup(self.server.request, "DELETE", path)
        self.assertEqual(self.server.request("PUT", path + "/files/a.txt", b"kept").status // 100, 2)
        told = self.server.request("POST", path + "/exec?wait=30", {"command": "hello; cat a.txt"}).json()
        self.assertEqual(told["stdout"], "hello from tools-1\nkept", told)
        cell = self.server.request("POST", path + "/exec?wait=30", {"code": "import os; x = os.environ['TOOLS']; x"}).json()
        self.assertEqual(cell["results"][0]["text/plain"], "'yes'", cell)
        other = self.server.request("POST", path + "/exec?wait=30", {"command": "true", "image": "host"})
        self.assertEqual(other.status, 422, other.text)

    def test_the_plan_says_it(self):
        told = self.server.cli("run", "--json", "--dry-run", "--image", "tools", "-l", "bash", "-c", "echo")
        self.assertEqual(told.returncode, 0, told.stderr)
        plan = json.loads(told.stdout)
        self.assertEqual((plan["image"], plan["image_digest"]), ("tools", self.offered()["tools"]["digest"]))
        self.assertIn("/opt", [step["target"] for step in plan["root"]])

    def test_comes_and_goes_while_the_server_runs(self):
        tree = self.folder / "late"
        small_root(tree, "late-1")
        self.do("import", "late", tree)
        harness.wait_for("the new image", lambda: "late" in self.offered(), seconds=20)
        first = self.server.run("cat /opt/tools/marker", "bash", image="late")
        self.assertEqual(first["stdout"], "late-1", first)
        (tree / "opt/tools/marker").write_text("late-2")
        before = self.offered()["late"]["digest"]
        self.do("import", "--replace", "late", tree)
        harness.wait_for("the replaced image", lambda: self.offered()["late"]["digest"] != before, seconds=20)
        self.assertEqual(self.server.run("cat /opt/tools/marker", "bash", image="late")["stdout"], "late-2")

        def removed():
            done = subprocess.run([harness.BIN / "cloister", "image", "remove", "--images", self.store, "late"],
                                  capture_output=True, text=True, timeout=60, check=False)
            self.assertTrue(done.returncode == 0 or "in use" in done.stderr, done.stderr)
            return done.returncode == 0
        harness.wait_for("the image is used no more", removed, seconds=10, every=0.2)  # by default, half a minute
        harness.wait_for("the image is gone", lambda: "late" not in self.offered(), seconds=20)
        self.assertEqual(self.server.submit("echo", "bash", image="late").json()["status"], "denied")


if __name__ == "__main__":
    unittest.main()
