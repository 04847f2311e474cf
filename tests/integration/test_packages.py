# SPDX-License-Identifier: Apache-2.0
"""Package tools in sandboxes, as a person types them, against an index of the test's own: allowed packages are installed and are
there for later programs and cells; a refused one is named, with its rule, in the tool's own output and in the result."""

import hashlib
import json
import os
import unittest
import urllib.request

import harness
from package_case import INSTALLS, NETWORK, NONE, NPM, PIP, POLICY, PYPI, PackageCase
from package_registry import tarball_bytes, wheel_bytes
from session_case import Session

OTHER = hashlib.sha256(b"other").hexdigest()
INDEX = "import urllib.request as u\nr = u.Request('http://pypi.cloister.internal/simple/{}/', headers={{'Accept': '{}'}})\nprint(u.urlopen(r).read().decode())"


class Pip(PackageCase):
    RULES = f"""cooldown_days: 7
deny: [evil, 'old-demo<2']
pins: ['pypi:pinned==1.0 sha256:{OTHER}']
max_bytes: 100000"""
    MORE = "tenants:\n  strict:\n    rules:\n      allow: [demo, requests]"

    @classmethod
    def fill(cls):
        add = cls.registry
        add.wheel("demo", "1.0")
        add.wheel("demo", "2.0", days=0)
        add.wheel("fresh", "1.0", days=1)
        add.wheel("undated", "1.0", days=None)
        add.sdist("source", "1.0")
        add.wheel("evil", "1.0")
        add.wheel("old-demo", "1.0")
        add.wheel("old-demo", "2.0")
        add.wheel("tampered", "1.0", hashes={"sha256": OTHER})
        add.wheel("pinned", "1.0")
        add.wheel("big", "1.0", {"big.py": "#" * 200_000})
        add.wheel("liar", "1.0", metadata_version="9.9")
        add.wheel("needs-demo", "1.0", requires=["demo>=1"])
        add.wheel("tool", "1.0", {"tool.py": "def main(): print('a tool ran')\n",
                                  "tool-1.0.dist-info/entry_points.txt": "[console_scripts]\nthe-tool = tool:main\n"})

    def setUp(self):
        self.need(PIP)

    def test_an_allowed_package(self):
        done = self.works("pip3 install demo && python3 -c 'import demo; print(demo.VERSION)'")
        self.assertTrue(done["stdout"].endswith("1.0\n"), done["stdout"])
        self.assertEqual(done["network"]["denied"], [])
        self.assertGreater(done["network"]["bytes_in"], 500)

    def test_dependencies(self):
        done = self.works("python3 -m pip install -q needs-demo && python3 -c 'import needs_demo, demo; print(demo.VERSION)'")
        self.assertEqual(done["stdout"].splitlines()[-1], "1.0")

    def test_a_plain_upstream_is_named(self):
        done = self.works("true")
        self.assertEqual([each for each in done["provenance"]["weakened"] if "packages.pypi.index" in each and "packages.npm.registry" in each],
                         [each for each in done["provenance"]["weakened"] if "plain HTTP" in each])
        self.assertEqual(len([each for each in done["provenance"]["weakened"] if "plain HTTP" in each]), 1, done["provenance"]["weakened"])
        self.assertFalse([each for each in self.run_code("print(1)")["provenance"]["weakened"] if "plain HTTP" in each])

    def test_later_programs_and_cells_have_it(self):
        with Session(self.server, self.call, language="python", network_policy=NETWORK, memory_mb=512) as session:
            self.assertEqual(session.exec("x = 1", kernel=None)["status"], "completed")
            done = session.exec(command="pip3 install demo tool")
            self.assertEqual(done["exit_code"], 0, done)
            self.assertEqual(len([each for each in done["provenance"]["weakened"] if "plain HTTP" in each]), 1, done["provenance"]["weakened"])
            self.assertEqual(session.exec("import demo; print(demo.VERSION)")["stdout"], "1.0\n")
            self.assertEqual(session.exec("import demo; print(demo.VERSION)", kernel=None)["stdout"], "1.0\n")
            self.assertEqual(session.exec(command="the-tool")["stdout"], "a tool ran\n")
            self.assertEqual(session.exec(command="ls -A; command -v the-tool")["stdout"], "/home/user/.local/bin/the-tool\n")
            cell = "import subprocess\nsubprocess.run(['pip3', 'install', '-q', 'needs-demo'], check=True)\nimport needs_demo\nprint(needs_demo.VERSION)"
            self.assertEqual(session.exec(cell, kernel=None)["stdout"], "1.0\n")

    def test_too_new(self):
        self.refused("pip3 install demo==2.0", "packages.cooldown", PYPI)
        self.refused("pip3 install fresh", "packages.cooldown", PYPI)
        ranged = self.shell("pip3 install 'demo>=2'")
        self.assertNotEqual(ranged["exit_code"], 0)
        self.assertIn("packages.cooldown", ranged["stderr"])

    def test_undated(self):
        self.refused("pip3 install undated", "packages.undated", PYPI)

    def test_a_source_distribution(self):
        done = self.refused("pip3 install source", "packages.sdists", PYPI)
        self.assertNotIn("code of a source distribution ran", done["stdout"] + done["stderr"])

    def test_denied(self):
        self.refused("pip3 install evil==1.0", "packages.deny", PYPI)  # test_attempts_are_in_the_audit_and_metrics names no version
        self.refused("pip3 install old-demo==1.0", "packages.deny", PYPI)
        self.works("pip3 install old-demo")

    def test_wrong_content(self):
        self.refused("pip3 install tampered", "packages.hash", PYPI)

    def test_pinned_content(self):
        self.refused("pip3 install pinned", "packages.pins", PYPI)

    def test_too_large(self):
        self.refused("pip3 install big", "packages.max_bytes", PYPI)

    def test_a_lockfile_leads_past_no_rule(self):
        names = ("demo-2.0-py3-none-any.whl", "evil-1.0-py3-none-any.whl", "tampered-1.0-py3-none-any.whl", "source-1.0.tar.gz")
        rules = ("packages.cooldown", "packages.deny", "packages.hash", "packages.sdists")
        for name, rule in zip(names, rules):
            project = name.split("-")[0]
            sha256 = next(each for each in self.registry.projects[project] if each["filename"] == name)["hashes"]["sha256"]
            line = f"{project} @ http://{PYPI}/files/{project}/{name} --hash=sha256:{sha256}"
            self.refused(f"echo '{line}' > requirements.txt; pip3 install --no-deps -r requirements.txt", rule, PYPI)

    def test_a_wheel_that_lies_about_its_version(self):
        done = self.shell("pip3 install liar")
        self.assertNotEqual(done["exit_code"], 0, done["stdout"])

    def test_typo_squat(self):
        key = self.new_key("strict")["secret"]
        done = self.refused("pip3 install requets", "packages.allow", PYPI, key=key)
        self.assertIn("requests", self.denied(done, "packages.allow", PYPI)["reason"])
        self.assertNotIn("requets", " ".join(self.registry.paths()))
        self.works("pip3 install demo", key=key)
        self.refused("pip3 install needs-demo", "packages.allow", PYPI, key=key)

    def test_the_users_own_value_wins(self):
        done = self.works("echo $PIP_INDEX_URL; echo $PYTHONUSERBASE", env={"PIP_INDEX_URL": "http://own.test/", "PYTHONUSERBASE": "/tmp/own"})
        self.assertEqual(done["stdout"], "http://own.test/\n/tmp/own\n")

    def test_without_a_network_there_is_no_gateway(self):
        done = self.run_code("echo \"[$PIP_INDEX_URL]\"; curl -sS http://pypi.cloister.internal/simple/demo/", "bash")
        self.assertNotEqual(done["exit_code"], 0)
        self.assertEqual(done["stdout"], "[]\n")

    def test_uv_by_its_wire_form(self):
        """uv asks for JSON, with this header, and reads metadata first where the index has any."""
        accept = "application/vnd.pypi.simple.v1+json, application/vnd.pypi.simple.v1+html;q=0.2, text/html;q=0.01"
        done = self.works("printenv UV_DEFAULT_INDEX UV_INSECURE_HOST")
        self.assertEqual(done["stdout"].split(), [f"http://{PYPI}/simple", PYPI])
        page = json.loads(self.run_code(INDEX.format("demo", accept), network_policy=NETWORK)["stdout"])
        self.assertEqual(page["meta"]["api-version"], "1.1")
        files = {each["filename"]: each for each in page["files"]}
        self.assertIn("upload-time", files["demo-1.0-py3-none-any.whl"])
        self.assertEqual(files["demo-1.0-py3-none-any.whl"]["hashes"], self.registry.projects["demo"][0]["hashes"])
        self.assertIn("packages.cooldown", files["demo-2.0-py3-none-any.whl"]["yanked"])

    def test_attempts_are_in_the_audit_and_metrics(self):
        done = self.refused("pip3 install evil", "packages.deny", PYPI)

        def recorded():
            rows = [line for line in self.server.request("GET", "/v1/audit/export").text.splitlines() if done["id"] in line]
            return any("packages.deny" in line and PYPI in line for line in rows)

        harness.wait_for("the attempt in the audit log", recorded, 15)
        self.assertRegex(self.server.request("GET", "/metrics").text, r'cloister_package_refusals_total\{rule="packages.deny"\} [1-9]')

    def test_a_policy_may_deny_the_gateway(self):
        open_door = {**INSTALLS, "network": ["allowed.test:443"], "packages": False}
        self.call("POST", "/v1/policies", {"document": json.dumps({"version": 2, "rules": [NONE, open_door]})}, status=201)
        try:
            done = self.shell("pip3 install --retries 0 demo")
            self.assertNotEqual(done["exit_code"], 0)
            self.assertTrue([row for row in done["network"]["denied"] if row["host"] == PYPI and "gateway" in row["reason"]], done["network"])
        finally:
            self.call("POST", "/v1/policies", {"document": POLICY}, status=201)


class Npm(PackageCase):
    RULES = "cooldown_days: 7\ndeny: [evil-js]"
    MORE = "tenants:\n  strict:\n    rules:\n      allow: [hello]"

    @classmethod
    def fill(cls):
        add = cls.registry.npm
        add("hello", "1.0.0")
        add("hello", "2.0.0", days=0)
        add("@scope/hello", "1.0.0", manifest={"dependencies": {"hello": "^1.0.0"}})
        add("fresh-js", "1.0.0", days=1)
        add("undated-js", "1.0.0", days=None)
        add("evil-js", "1.0.0")
        add("scripted", "1.0.0", manifest={"scripts": {"postinstall": "touch /workspace/ran"}})
        add("sneaky", "1.0.0", manifest={"scripts": {"postinstall": "touch /workspace/ran"}}, shown={})
        add("native", "1.0.0", {"binding.gyp": "{}", "index.js": ""})
        inner = json.dumps({"name": "inner", "version": "1.0.0", "scripts": {"postinstall": "touch /workspace/ran"}})
        add("bundle", "1.0.0", {"index.js": "", "node_modules/inner/package.json": inner},
            manifest={"dependencies": {"inner": "1.0.0"}, "bundleDependencies": ["inner"]})
        add("tampered-js", "1.0.0", integrity="sha512-" + "A" * 86 + "==")
        add("runner", "1.0.0", {"cli.js": "#!/usr/bin/env node\nconsole.log('a runner ran')\n"}, manifest={"bin": {"runner": "cli.js"}})

    def setUp(self):
        self.need("npm")

    def test_an_allowed_package(self):
        done = self.works("npm install hello >&2 && node -p \"require('hello')\"")
        self.assertEqual(done["stdout"], "1.0.0\n")
        self.assertEqual(done["network"]["denied"], [])

    def test_a_scoped_package_and_its_dependency(self):
        done = self.works("npm install @scope/hello >&2 && node -p \"require('@scope/hello') + require('hello')\"")
        self.assertEqual(done["stdout"], "1.0.01.0.0\n")

    def test_later_programs_have_it(self):
        with Session(self.server, self.call, language="node", network_policy=NETWORK, memory_mb=1024) as session:
            done = session.exec(command="npm install hello && npm install -g runner")
            self.assertEqual(done["exit_code"], 0, done)
            self.assertEqual(session.exec("console.log(require('hello'))")["stdout"], "1.0.0\n")
            self.assertEqual(session.exec(command="runner")["stdout"], "a runner ran\n")
            self.assertEqual(session.exec(command="node -e \"console.log(require.resolve('runner/cli.js'))\"")["stdout"],
                             "/home/user/.local/lib/node_modules/runner/cli.js\n")

    def test_npx(self):
        self.assertEqual(self.works("npx --yes runner")["stdout"], "a runner ran\n")

    def test_too_new(self):
        self.refused("npm install hello@2.0.0", "packages.cooldown", NPM)
        self.refused("npm install 'hello@>=2'", "packages.cooldown", NPM)
        self.refused("npm install fresh-js", "packages.cooldown", NPM)

    def test_undated(self):
        self.refused("npm install undated-js", "packages.undated", NPM)

    def test_denied(self):
        self.refused("npm install evil-js", "packages.deny", NPM)

    def test_scripts(self):
        for name in ("scripted", "sneaky", "native", "bundle"):
            done = self.refused(f"npm install {name}; code=$?; ls ran node_modules/{name}/package.json; exit $code", "packages.scripts", NPM)
            self.assertEqual(done["stdout"].strip(), "", name)

    def test_wrong_content(self):
        self.refused("npm install tampered-js", "packages.hash", NPM)

    def test_a_lockfile_leads_past_no_rule(self):
        for name, version, rule in (("hello", "2.0.0", "packages.cooldown"), ("evil-js", "1.0.0", "packages.deny"), ("sneaky", "1.0.0", "packages.scripts")):
            dist = self.registry.packages[name]["versions"][version]["dist"]
            lock = {"name": "x", "version": "1.0.0", "lockfileVersion": 3, "packages": {
                "": {"name": "x", "version": "1.0.0", "dependencies": {name: version}},
                f"node_modules/{name}": {"version": version, "integrity": dist["integrity"],
                                         "resolved": f"https://registry.npmjs.org/{name}/-/{name}-{version}.tgz"}}}
            package = {"name": "x", "version": "1.0.0", "dependencies": {name: version}}
            files = [{"path": "package.json", "content": json.dumps(package)}, {"path": "package-lock.json", "content": json.dumps(lock)}]
            self.refused("npm ci", rule, NPM, files=files)

    def test_typo_squat(self):
        key = self.new_key("strict")["secret"]
        self.refused("npm install helo", "packages.allow", NPM, key=key)
        self.assertNotIn("helo", " ".join(self.registry.paths()))
        self.works("npm install hello", key=key)

    def test_global_modules_are_on_the_path(self):
        self.assertEqual(self.works("npm config get registry; npm prefix -g")["stdout"], f"http://{NPM}/\n/home/user/.local\n")


class Allowed(PackageCase):
    """The rules that are off by default allow what they refuse otherwise."""

    RULES = "undated: allow\nsdists: allow\nscripts: allow"

    @classmethod
    def fill(cls):
        cls.registry.wheel("undated", "1.0", days=None)
        cls.registry.sdist("source", "1.0")
        cls.registry.npm("scripted", "1.0.0", manifest={"scripts": {"postinstall": "touch /workspace/ran"}})

    def test_undated(self):
        self.need(PIP)
        self.works("pip3 install undated")

    def test_sdists(self):
        self.need(PIP)
        self.works("pip3 download --no-deps --no-build-isolation source || test -e source-1.0.tar.gz || "
                   "curl -sSf -o source-1.0.tar.gz http://pypi.cloister.internal/files/source/source-1.0.tar.gz")

    def test_scripts(self):
        self.need("npm")
        self.works("npm install --foreground-scripts scripted && curl -sSf -o /dev/null http://npm.cloister.internal/scripted/-/scripted-1.0.0.tgz")


class Allowlist(PackageCase):
    RULES = "allow: [demo]"

    @classmethod
    def fill(cls):
        cls.registry.wheel("demo", "1.0")
        cls.registry.wheel("other", "1.0")

    def test_a_name_off_the_list(self):
        self.need(PIP)
        self.refused("pip3 install other", "packages.allow", PYPI)
        self.works("pip3 install demo")


class Html(PackageCase):
    """An index without JSON has no dates."""

    HTML = True
    RULES = "undated: allow"

    @classmethod
    def fill(cls):
        cls.registry.wheel("demo", "1.0")

    def test_it_is_understood(self):
        self.need(PIP)
        self.works("pip3 install demo && python3 -c 'import demo'")


class Credentials(PackageCase):
    USER = "robot:s3cret-of-the-index"
    RULES = "cooldown_days: 0"

    @classmethod
    def fill(cls):
        cls.registry.wheel("demo", "1.0")
        cls.registry.npm("hello", "1.0.0")

    def test_they_reach_the_index_and_nobody_else(self):
        self.need(PIP)
        done = self.works("pip3 install -v demo 2>&1 && env && curl -sSfi http://pypi.cloister.internal/simple/demo/")
        told = json.dumps(done)
        for text in ("s3cret", "cm9ib3Q6czNjcmV0", self.registry.url):
            self.assertNotIn(text, told)
        self.assertNotIn("s3cret", self.server.log.read_text())

    def test_npm(self):
        self.need("npm")
        done = self.works("npm install hello")
        self.assertNotIn("s3cret", json.dumps(done))


class Folder(PackageCase):
    """Packages in a folder, for sites without a network."""

    @classmethod
    def configuration(cls):
        wheels, tarballs = cls.folder / "wheels", cls.folder / "tarballs"
        for each in (wheels, tarballs):
            each.mkdir()
            each.chmod(0o755)
        (wheels / "demo-1.0-py3-none-any.whl").write_bytes(wheel_bytes("demo", "1.0", {"demo.py": "VERSION = '1.0'\n"}))
        (wheels / "demo-2.0-py3-none-any.whl").write_bytes(wheel_bytes("demo", "2.0", {"demo.py": "VERSION = '2.0'\n"}))
        os.utime(wheels / "demo-1.0-py3-none-any.whl", (1_600_000_000, 1_600_000_000))
        (wheels / "secret").symlink_to("/etc/shadow")
        content = tarball_bytes({"package.json": json.dumps({"name": "@s/hello", "version": "1.0.0", "main": "index.js"}),
                                 "index.js": "module.exports = 'from a folder'\n"})
        (tarballs / "s-hello-1.0.0.tgz").write_bytes(content)
        return (f"http:\n  heartbeat_seconds: 1\npackages:\n  pypi:\n    index: {wheels}\n  npm:\n    registry: {tarballs}\n"
                "  rules:\n    cooldown_days: 0\n  tenants:\n    careful:\n      rules:\n        cooldown_days: 7\n")

    def test_wheels(self):
        self.need(PIP)
        done = self.works("pip3 install demo && python3 -c 'import demo; print(demo.VERSION)'")
        self.assertTrue(done["stdout"].endswith("2.0\n"), done["stdout"])
        self.assertFalse([each for each in done["provenance"]["weakened"] if "plain HTTP" in each])

    def test_the_day_of_a_file_is_its_date(self):
        self.need(PIP)
        done = self.works("pip3 install demo && python3 -c 'import demo; print(demo.VERSION)'", key=self.new_key("careful")["secret"])
        self.assertTrue(done["stdout"].endswith("1.0\n"), done["stdout"])

    def test_tarballs(self):
        self.need("npm")
        done = self.works("npm install @s/hello >&2 && node -p \"require('@s/hello')\"")
        self.assertEqual(done["stdout"], "from a folder\n")


class RealRegistry(PackageCase):
    """One package of the registry that the machine's npm uses."""

    URL = os.environ.get("npm_config_registry") or "https://registry.npmjs.org"

    @classmethod
    def setUpClass(cls):
        try:
            urllib.request.urlopen(f"{cls.URL.rstrip('/')}/left-pad", timeout=5).close()
        except OSError:
            raise unittest.SkipTest("no registry of npm can be reached") from None
        super().setUpClass()

    @classmethod
    def configuration(cls):
        return f"packages:\n  npm:\n    registry: {cls.URL}\n"

    def test_a_real_package(self):
        self.need("npm")
        done = self.works("npm install left-pad@1.3.0 >&2 && node -p \"require('left-pad')('x', 3)\"")
        self.assertEqual(done["stdout"], "  x\n")


if __name__ == "__main__":
    unittest.main()
