#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Dependencies of runs and sessions: installed once from a folder of wheels, shared, attached to sandboxes that were ready,
listed in a bill of materials, and refused where the layer was changed."""

import hashlib
import json
import os
import pathlib
import shutil
import tempfile
import unittest
import zipfile

import harness
from session_case import Session

CONFIG = """node:
  images: {images}
packages:
  pypi:
    index: {wheels}
  rules:
    undated: allow
    deny: [forbidden]
"""
SHOW = "import importlib.metadata as m, sys; print(sorted(d.metadata['Name'] + '==' + d.version for d in m.distributions(path=['/run/deps/python'])))"


def wheel(folder, name, version, requires=(), body="", files=1):
    """A wheel of pure Python, as pip wants it: PEP 427."""
    info = f"{name}-{version}.dist-info"
    content = {f"{name}/__init__.py": f"VERSION = {version!r}\n{body}"}
    content.update({f"{name}/part{i}.py": f"PART = {i}\n" for i in range(1, files)})
    content[f"{info}/METADATA"] = "".join([f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\nLicense: MIT\n",
                                           *(f"Requires-Dist: {each}\n" for each in requires)])
    content[f"{info}/WHEEL"] = "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    record = "".join(f"{path},," + "\n" for path in content) + f"{info}/RECORD,,\n"
    path = folder / f"{name}-{version}-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for each, text in {**content, f"{info}/RECORD": record}.items():
            archive.writestr(each, text)
    return path


class Deps(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(tempfile.mkdtemp(prefix="cloister-test-deps."))
        cls.addClassCleanup(shutil.rmtree, cls.folder)
        cls.folder.chmod(0o755)
        cls.wheels = cls.folder / "wheels"
        cls.wheels.mkdir()
        cls.alpha = wheel(cls.wheels, "alpha", "1.0", requires=["beta>=2"], body="import beta\n")
        wheel(cls.wheels, "beta", "1.0")
        cls.beta = wheel(cls.wheels, "beta", "2.1", files=40)
        wheel(cls.wheels, "forbidden", "1.0")
        config = cls.folder / "config.yaml"
        config.write_text(CONFIG.format(images=cls.folder / "images", wheels=cls.wheels))
        cls.server = harness.Server(config=config)
        cls.addClassCleanup(cls.server.stop)

    def run_code(self, code, **request):
        return self.server.run(language=request.pop("language", "python"), code=code, artifacts=[], **request)

    def test_a_run_has_what_it_asks_for_and_what_that_needs(self):
        done = self.run_code("import alpha, beta; print(alpha.VERSION, beta.VERSION)", deps=["Alpha == 1.0"])
        self.assertEqual((done["status"], done["stdout"]), ("completed", "1.0 2.1\n"), done)
        layer, = done["provenance"]["layers"]
        self.assertEqual(layer["place"], "python")
        self.assertRegex(layer["digest"], r"^sha256:[0-9a-f]{64}$")
        without = self.run_code("import alpha")
        self.assertIn("No module named 'alpha'", without["stderr"])
        self.assertNotIn("layers", without["provenance"])

    def test_equal_requests_share_a_layer_that_is_read_only(self):
        code = ("import alpha, errno, os\n"
                "for path in (alpha.__file__, '/run/deps/python/new'):\n"
                "    try: open(path, 'a'); print('WRITTEN')\n"
                "    except OSError as e: print(errno.errorcode[e.errno])\n"
                "print([l for l in open('/proc/self/mountinfo') if '/run/deps/python ' in l][0].split()[3:5])")
        first, second = (self.run_code(code, deps=["alpha"]) for _ in range(2))
        self.assertEqual(first["stdout"], "EROFS\nEROFS\n['/', '/run/deps/python']\n", first["stderr"])
        self.assertEqual(first["provenance"]["layers"], second["provenance"]["layers"])
        listed = self.server.request("GET", "/v1/deps").json()["layers"]
        digests = [each["digest"] for each in listed if each["deps"] == ["alpha"]]
        self.assertEqual(digests, [first["provenance"]["layers"][0]["digest"]])

    def test_a_session_and_its_interpreter_have_them(self):
        with Session(self.server, language="python", deps=["alpha"]) as session:
            self.assertEqual(session.exec("import alpha; print(alpha.VERSION)", language="python")["stdout"], "1.0\n")
            self.assertEqual(session.exec("python3 -c 'import beta; print(beta.VERSION)'", language="bash")["stdout"], "2.1\n")
            self.assertEqual(session.show()["deps"], ["alpha"])

    def test_the_bill_of_materials_lists_exactly_what_is_there(self):
        done = self.run_code(SHOW, deps=["alpha"])
        self.assertEqual(done["stdout"], "['alpha==1.0', 'beta==2.1']\n")
        answer = self.server.request("GET", f"/v1/executions/{done['id']}/sbom")
        self.assertEqual((answer.status, answer.headers["Content-Type"]), (200, "application/vnd.cyclonedx+json"))
        bill = answer.json()
        self.assertEqual((bill["bomFormat"], bill["specVersion"]), ("CycloneDX", "1.5"))
        self.assertEqual([each["purl"] for each in bill["components"]], ["pkg:pypi/alpha@1.0", "pkg:pypi/beta@2.1"])
        hashes = [each["hashes"][0]["content"] for each in bill["components"]]
        self.assertEqual(hashes, [hashlib.sha256(path.read_bytes()).hexdigest() for path in (self.alpha, self.beta)])
        self.assertEqual(hashlib.sha256(answer.body).hexdigest(), done["provenance"]["layers"][0]["sbom_sha256"])
        said = self.server.cli("execution", "sbom", done["id"]).stdout
        self.assertEqual(json.loads(said), bill)
        without = self.run_code("pass")
        missing = self.server.request("GET", f"/v1/executions/{without['id']}/sbom")
        self.assertEqual(missing.status, 404)
        self.assertIn("no dependencies", missing.json()["error"]["message"])

    def test_what_cannot_be_had_says_why(self):
        denied = self.run_code("pass", deps=["forbidden"])
        self.assertEqual((denied["status"], denied["error"]["type"]), ("denied", "PERMISSION_DENIED"), denied)
        self.assertIn("deny", denied["error"]["message"])
        unknown = self.run_code("pass", deps=["nobody-has-this==3"])
        self.assertEqual(unknown["status"], "failed", unknown)
        self.assertIn("nobody-has-this", unknown["error"]["message"])
        for deps, language in ((["-r x"], "python"), (["a @ http://evil.test/a.whl"], "python"), (["alpha"], "ruby")):
            answer = self.server.request("POST", "/v1/executions", {"language": language, "code": "", "deps": deps})
            self.assertEqual((answer.status, answer.json()["error"]["details"]["field"]), (400, "deps"), answer.body)
        refused = self.run_code("", language="node", deps=["left-pad"])
        self.assertEqual((refused["status"], refused["error"]["type"]), ("denied", "PERMISSION_DENIED"), refused)
        self.assertIn("packages.npm.registry", json.dumps(refused["error"]))

    def test_a_script_names_its_own(self):
        code = "# /// script\n# dependencies = ['beta']\n# ///\nimport beta; print(beta.VERSION)"
        done = self.run_code(code, deps_from="script")
        self.assertEqual(done["stdout"], "2.1\n", done)
        done = self.run_code("import beta; print(beta.VERSION)", deps_from="files",
                             files=[{"path": "requirements.txt", "content": "beta<2\n"}])
        self.assertEqual(done["stdout"], "1.0\n", done)

    def test_a_layer_that_was_changed_on_the_disk_is_not_used(self):
        done = self.run_code("import beta", deps=["beta==2.1"])
        digest = done["provenance"]["layers"][0]["digest"].removeprefix("sha256:")
        file = self.folder / "images" / "layers" / f"sha256-{digest}" / "root" / "python" / "beta" / "part3.py"
        content, status = file.read_bytes(), file.stat()
        file.write_bytes(content.replace(b"3", b"4"))
        os.utime(file, ns=(status.st_atime_ns, status.st_mtime_ns))
        self.addCleanup(self.server.cli, "deps", "prune")
        refused = harness.wait_for("the next look at the layer", lambda: (
            run := self.run_code("import beta", deps=["beta==2.1"]))["status"] != "completed" and run)
        self.assertIn("was changed on the node's disk", refused["error"]["message"])

    def test_what_is_forgotten_is_made_anew(self):
        self.run_code("import beta", deps=["beta==1.0"])
        said = self.server.cli("deps", "list").stdout
        self.assertIn("beta==1.0", said)
        self.assertIn("beta==1.0", self.server.cli("deps", "prune").stdout)
        self.assertIn("There are no dependency layers", self.server.cli("deps", "list").stdout)
        self.assertEqual(self.run_code("import beta; print(1)", deps=["beta==1.0"])["stdout"], "1\n")

    def test_the_nodes_space_for_layers_is_bounded(self):
        folder = pathlib.Path(tempfile.mkdtemp(prefix="cloister-test-deps."))
        self.addCleanup(shutil.rmtree, folder)
        folder.chmod(0o755)
        (folder / "wheels").mkdir()
        for name in ("one", "two"):
            wheel(folder / "wheels", name, "1.0", body=f"DATA = {os.urandom(400_000).hex()!r}\n")
        config = folder / "config.yaml"
        config.write_text(CONFIG.format(images=folder / "images", wheels=folder / "wheels").replace(
            "node:\n", "node:\n  layers_mb: 1\n"))
        server = harness.Server(config=config)
        self.addCleanup(server.stop)
        layers = folder / "images" / "layers"

        def kept():
            return [each.name for each in layers.glob("sha256-*")]

        def ran(name):
            done = server.run(f"import {name}; print(len({name}.DATA))", deps=[name], artifacts=[])
            self.assertEqual(done["stdout"], "800000\n", done)
            return "sha256-" + done["provenance"]["layers"][0]["digest"].removeprefix("sha256:")

        first = ran("one")
        self.assertEqual(kept(), [first])
        second = ran("two")
        self.assertEqual(kept(), [second])
        self.assertEqual(ran("one"), first)


if __name__ == "__main__":
    unittest.main()
