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
import threading
import unittest
import zipfile

import harness
from package_case import POLICY
from package_registry import JSON, Registry, tarball_bytes
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


def wheel(folder, name, version, requires=(), body="", files=1, compressed=False):
    """A wheel of pure Python, as pip wants it: PEP 427."""
    info = f"{name}-{version}.dist-info"
    content = {f"{name}/__init__.py": f"VERSION = {version!r}\n{body}"}
    content.update({f"{name}/part{i}.py": f"PART = {i}\n" for i in range(1, files)})
    content[f"{info}/METADATA"] = "".join([f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\nLicense: MIT\n",
                                           *(f"Requires-Dist: {each}\n" for each in requires)])
    content[f"{info}/WHEEL"] = "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    record = "".join(f"{path},," + "\n" for path in content) + f"{info}/RECORD,,\n"
    path = folder / f"{name}-{version}-py3-none-any.whl"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED if compressed else zipfile.ZIP_STORED) as archive:
        for each, text in {**content, f"{info}/RECORD": record}.items():
            archive.writestr(each, text)
    return path


def serve(case, config):
    """A service for the class of this case. Its policy grants a network that leads to packages alone."""
    server = case.enterClassContext(harness.Server(config))
    answer = server.request("POST", "/v1/policies", {"document": POLICY})
    assert answer.status == 201, answer.body
    return server


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
        cls.server = serve(cls, CONFIG.format(images=cls.folder / "images", wheels=cls.wheels))

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

    def test_a_network_takes_no_path_away(self):
        """The paths of a layer come before those of installations, which come before the image's."""
        with Session(self.server, language="python", deps=["alpha"], network_policy={"tier": "restricted"}) as session:
            seen = session.exec("echo $PATH; echo $PYTHONPATH; python3 -c 'import alpha; print(alpha.VERSION)'", language="bash")
            self.assertEqual(seen["stdout"], "/run/deps/python/bin:/usr/local/bin:/usr/bin:/bin:/home/user/.local/bin\n"
                                             "/run/deps/python\n1.0\n", seen["stderr"])
            self.assertEqual(session.exec("import os; print(os.environ['PATH'])", kernel=None)["stdout"].split(":")[-1],
                             "/home/user/.local/bin\n")
            self.assertEqual(session.exec("echo $PYTHONPATH", language="bash", kernel=None)["stdout"], "/run/deps/python\n")
            self.assertEqual(session.exec("echo $PATH", language="bash", env={"PATH": "/bin"})["stdout"], "/run/deps/python/bin:/bin\n")
            self.assertEqual(session.show()["env"], {})

    def test_the_bill_of_materials_lists_exactly_what_is_there(self):
        done = self.run_code(SHOW, deps=["alpha"])
        self.assertEqual(done["stdout"], "['alpha==1.0', 'beta==2.1']\n")
        answer = self.server.request("GET", f"/v1/executions/{done['id']}/sbom")
        self.assertEqual((answer.status, answer.headers["content-type"]), (200, "application/vnd.cyclonedx+json"))
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

    def no_session_is_left(self):
        listed = self.server.request("GET", "/v1/sessions?limit=100").json()["sessions"]
        mine = [each for each in listed if each["principal"]["tenant"] == "cloister.deps"]
        self.assertTrue(mine)
        self.assertEqual({each["status"] for each in mine}, {"ended"}, mine)

    def test_what_cannot_be_had_says_why(self):
        denied = self.run_code("pass", deps=["forbidden"])
        self.assertEqual((denied["status"], denied["error"]["type"]), ("denied", "PERMISSION_DENIED"), denied)
        self.assertIn("deny", denied["error"]["message"])
        unknown = self.run_code("pass", deps=["nobody-has-this==3"])
        self.assertEqual(unknown["status"], "failed", unknown)
        self.assertIn("nobody-has-this", unknown["error"]["message"])
        self.no_session_is_left()
        for deps, language in ((["-r x"], "python"), (["a @ http://evil.test/a.whl"], "python"), (["alpha"], "bash")):
            answer = self.server.request("POST", "/v1/executions", {"language": language, "code": "", "deps": deps})
            self.assertEqual((answer.status, answer.json()["error"]["details"]["field"]), (422, "deps"), answer.body)
        refused = self.run_code("", language="node", deps=["left-pad"])
        self.assertEqual((refused["status"], refused["error"]["type"]), ("denied", "PERMISSION_DENIED"), refused)
        self.assertIn("packages.npm.registry", json.dumps(refused["error"]))

    def test_requirements_of_another_python_install_nothing(self):
        done = self.run_code("import sys; print('/run/deps/python' in sys.path, 'alpha' in sys.modules)", deps=["alpha; python_version < '3'"])
        self.assertEqual((done["status"], done["stdout"]), ("completed", "True False\n"), done)
        self.assertEqual(self.server.request("GET", f"/v1/executions/{done['id']}/sbom").json().get("components", []), [])

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
        digest = self.run_code("import alpha", deps=["alpha"])["provenance"]["layers"][0]["digest"].removeprefix("sha256:")
        for command in ("list", "prune"):
            self.assertRegex(self.server.cli("deps", command).stdout, rf"(?m)^{digest[:12]}\b.* alpha$")
        self.assertIn("There are no dependency layers", self.server.cli("deps", "list").stdout)
        self.assertEqual(self.run_code("import alpha; print(1)", deps=["alpha"])["stdout"], "1\n")

    def test_the_nodes_space_for_layers_is_bounded(self):
        folder = pathlib.Path(tempfile.mkdtemp(prefix="cloister-test-deps."))
        self.addCleanup(shutil.rmtree, folder)
        folder.chmod(0o755)
        (folder / "wheels").mkdir()
        for name in ("one", "two"):
            wheel(folder / "wheels", name, "1.0", body=f"DATA = {os.urandom(400_000).hex()!r}\n")
        config = CONFIG.format(images=folder / "images", wheels=folder / "wheels").replace("node:\n", "node:\n  layers_mb: 1\n")
        server = self.enterContext(harness.Server(config))
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

    def test_the_installer_is_out_of_reach(self):
        done = self.run_code("import beta", deps=["alpha"])
        self.assertEqual(done["status"], "completed", done)
        rows = [json.loads(line) for line in self.server.request("GET", "/v1/audit/export").text.splitlines()]
        made = [row for row in rows if row["action"] == "session.created" and row["tenant"] == "cloister.deps"]
        self.assertTrue(made)
        self.assertEqual({row["app"] for row in made}, {"default"})
        for member in ({"tenant": "cloister.deps"}, {"tenant": "default", "agent": "cloister.deps"}):
            answer = self.server.request("POST", "/v1/keys", {"name": "x", "roles": ["agent"], **member})
            self.assertEqual(answer.status, 422, answer.body)
            self.assertIn("the service's own", answer.json()["error"]["message"])

    def test_a_tenant_sees_the_layers_that_it_had(self):
        """The packages of others are theirs to know, also where a layer is shared."""
        key = self.server.request("POST", "/v1/keys", {"tenant": "other", "name": "test", "roles": ["agent"]}).json()["secret"]
        mine = self.run_code("import beta", deps=["alpha"])["provenance"]["layers"][0]["digest"]
        listed = lambda: {layer["digest"] for layer in self.server.request("GET", "/v1/deps", key=key).json()["layers"]}  # noqa: E731
        found = lambda: self.server.request("GET", f"/v1/deps/{mine}", key=key)  # noqa: E731
        unknown = self.server.request("GET", "/v1/deps/sha256:" + "0" * 64, key=key)
        self.assertEqual((listed(), found().status, found().json()["error"]["message"]), (set(), 404, unknown.json()["error"]["message"]))
        answer = self.server.request("POST", "/v1/executions?wait=30", {"language": "python", "code": "import beta", "deps": ["alpha"]}, key=key)
        self.assertEqual(answer.json()["provenance"]["layers"][0]["digest"], mine, "the layer is shared")
        self.assertEqual((listed(), found().status), ({mine}, 200))
        self.assertNotIn("users", found().json())


class Npm(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(cls.enterClassContext(tempfile.TemporaryDirectory()))
        cls.folder.chmod(0o755)
        cls.registry = cls.enterClassContext(Registry())
        cls.registry.npm("hello", "1.0.0", {"cli.js": "#!/usr/bin/env node\nconsole.log('ran')\n", "index.js": "module.exports = '1.0.0'"},
                         manifest={"bin": {"hello": "cli.js"}})
        cls.registry.npm("needs-hello", "1.0.0", {"index.js": "module.exports = 'needs ' + require('hello')"},
                         manifest={"dependencies": {"hello": "^1.0.0"}})
        cls.server = serve(cls, f"node:\n  images: {cls.folder}/images\npackages:\n  npm: {{registry: {cls.registry.url}/npm}}\n")

    def run_code(self, code, language="node", **request):
        return self.server.run(language=language, code=code, artifacts=[], **request)

    def test_both_kinds_of_modules_find_packages(self):
        done = self.run_code("console.log(require('needs-hello'))", deps=["needs-hello"])
        self.assertEqual(done["stdout"], "needs 1.0.0\n", done)
        code = "import('needs-hello').then(each => console.log(each.default))"
        self.assertEqual(self.run_code(code, deps=["needs-hello"])["stdout"], "needs 1.0.0\n")
        self.assertEqual([each["purl"] for each in self.server.request("GET", f"/v1/executions/{done['id']}/sbom").json()["components"]],
                         ["pkg:npm/hello@1.0.0", "pkg:npm/needs-hello@1.0.0"])
        self.assertNotEqual(self.run_code("require('hello')")["exit_code"], 0)

    def test_programs_of_packages_are_on_the_path(self):
        with Session(self.server, language="node", deps=["hello"]) as session:
            self.assertEqual(session.exec(command="hello")["stdout"], "ran\n")
            self.assertEqual(session.exec(command="ls /node_modules")["stdout"], "hello\n")
        with Session(self.server, language="node", deps=["hello"], network_policy={"tier": "restricted"}) as session:
            self.assertEqual(session.exec(command="hello; echo $NODE_PATH")["stdout"],
                             "ran\n/node_modules:/home/user/.local/lib/node_modules\n")


class NoCode(unittest.TestCase):
    """pip follows addresses in the requirements of wheels. No code of a package runs in the installer, whatever the rules allow to
    programs: the layer may be shared, and its bill of materials is made there."""

    def test_addresses_lead_to_no_source_distribution(self):
        source = {"pyproject.toml": "[build-system]\nrequires = []\nbuild-backend = 'back'\nbackend-path = ['.']\n",
                  "back.py": "raise SystemExit('CODE ' + 'RAN')\n", "index.js": "", "PKG-INFO": "Metadata-Version: 2.1\nName: source\nVersion: 1.0\n"}
        registry = self.enterContext(Registry())
        registry.npm("source", "1.0.0", source)
        registry.file("source", "source-1.0.tar.gz", tarball_bytes(source, "source-1.0"))
        addresses = {"by-npm": "http://npm.cloister.internal/source/-/source-1.0.0.tgz",
                     "by-pypi": "http://pypi.cloister.internal/files/source/source-1.0.tar.gz"}
        for name, address in addresses.items():
            registry.wheel(name, "1.0", requires=[f"source @ {address}"])
        folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        folder.chmod(0o755)
        server = self.enterContext(harness.Server(
            f"node:\n  images: {folder}\npackages:\n  pypi: {{index: {registry.url}/simple/}}\n  npm: {{registry: {registry.url}/npm}}\n"
            "  rules: {undated: allow, sdists: allow, scripts: allow}\n"))
        for name in addresses:
            done = server.run("pass", deps=[name], artifacts=[])
            self.assertIn(done["status"], ("failed", "denied"), done)
            self.assertNotIn("CODE RAN", json.dumps(done), "a package's code ran in the installer")
        registry.wheel("fine", "1.0")
        self.assertEqual(server.run("import fine; print(1)", deps=["fine"], artifacts=[])["stdout"], "1\n")


class Bounds(unittest.TestCase):
    """What an installation may take."""

    def setUp(self):
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.folder.chmod(0o755)

    def serve(self, setting, index=None):
        """A service with this setting of packages, and a folder of wheels as the index."""
        wheels = self.folder / "wheels"
        wheels.mkdir()
        config = CONFIG.format(images=self.folder / "images", wheels=index or wheels)
        self.server = self.enterContext(harness.Server(config.replace("packages:\n", f"packages:\n  {setting}\n")))
        return wheels

    def refused(self, dep):
        done = self.server.run("pass", deps=[dep], artifacts=[])
        self.assertEqual(done["status"], "failed", done)
        return done["error"]["message"]

    def test_files_of_an_installation(self):
        wheels = self.serve("build_disk_mb: 64")
        wheel(wheels, "small", "1.0")
        wheel(wheels, "large", "1.0", body="#" * (100 << 20), compressed=True)
        self.assertIn("space", self.refused("large"))
        self.assertEqual(self.server.run("import small; print(1)", deps=["small"], artifacts=[])["stdout"], "1\n")

    def test_memory_of_an_installation(self):
        wheels = self.serve("build_memory_mb: 64")
        wheel(wheels, "large", "1.0", body="#" * (100 << 20), compressed=True)
        self.assertIn("memory", self.refused("large"))

    def test_time_of_an_installation(self):
        registry = self.enterContext(Registry())
        registry.special["/simple/slow/"] = Registry.slow
        self.serve("build_seconds: 2", registry.url + "/simple/")
        self.assertIn("still running after 2 s", self.refused("slow"))

    def test_installations_at_once(self):
        registry = self.enterContext(Registry())
        registry.wheel("demo", "1.0", {"demo.py": ""})
        asked, gate = threading.Event(), threading.Event()

        def held(handler):
            asked.set()
            gate.wait(60)
            Registry.send(handler, b'{"files":[]}', JSON)

        registry.special["/simple/held/"] = held
        self.addCleanup(gate.set)
        self.serve("max_building: 1", registry.url + "/simple/")
        first = self.server.submit("pass", deps=["held"], artifacts=[]).json()
        self.assertTrue(asked.wait(60))
        self.assertIn("packages.max_building", self.refused("demo"))
        gate.set()
        self.assertEqual(self.server.wait_end(first["id"])["status"], "failed")
        self.assertEqual(self.server.run("import demo; print(1)", deps=["demo"], artifacts=[])["stdout"], "1\n")


if __name__ == "__main__":
    unittest.main()
