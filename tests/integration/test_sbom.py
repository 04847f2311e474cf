#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The bill of materials of dependencies: valid by the schema of CycloneDX 1.5, and exactly the packages that `pip list` and
`npm ls` find in the sandbox."""

import json
import pathlib
import tempfile
import unittest

import harness
from package_registry import Registry
from sbom_schema import validate
from test_deps import wheel

PIP_LIST = "import subprocess, sys\nsubprocess.run([sys.executable, '-m', 'pip', 'list', '--path', '/run/deps/python', '--format', 'json'])"
NPM_LS = "process.stdout.write(require('child_process').spawnSync('npm', ['ls', '--all', '--parseable', '--long'], {cwd: '/run/deps/node'}).stdout)"


class Bill(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(cls.enterClassContext(tempfile.TemporaryDirectory()))
        cls.folder.chmod(0o755)
        (cls.folder / "wheels").mkdir()
        wheel(cls.folder / "wheels", "Al_pha", "1.0", requires=["beta>=2", "Nested.Name; python_version < '4'"])
        wheel(cls.folder / "wheels", "beta", "2.1")
        wheel(cls.folder / "wheels", "nested_name", "3.0.post1")
        registry = cls.enterClassContext(Registry())
        registry.npm("hello", "1.0.0")
        registry.npm("hello", "2.0.0", manifest={"license": "(MIT OR Apache-2.0)"})
        registry.npm("@scope/inner", "1.0.0", manifest={"dependencies": {"hello": "^1.0.0"}, "license": "MIT"})
        registry.npm("renamed", "4.0.0")
        registry.npm("for-another-machine", "1.0.0", manifest={"os": ["darwin"]})
        registry.npm("outer", "1.0.0", manifest={
            "dependencies": {"@scope/inner": "^1.0.0", "hello": "^2.0.0", "alias": "npm:renamed@4.0.0"},
            "optionalDependencies": {"for-another-machine": "1.0.0"}})
        cls.server = cls.enterClassContext(harness.Server(
            f"node:\n  images: {cls.folder}/images\npackages:\n  pypi: {{index: {cls.folder}/wheels}}\n"
            f"  npm: {{registry: {registry.url}/npm}}\n  rules: {{undated: allow}}\n"))

    def bill(self, code, **request):
        """→ the output of the code, and the parsed bill, which is valid."""
        done = self.server.run(code=code, artifacts=[], **request)
        self.assertEqual(done["status"], "completed", done)
        answer = self.server.request("GET", f"/v1/executions/{done['id']}/sbom")
        self.assertEqual(answer.status, 200, answer.body)
        self.assertIsNone(validate(answer.text))
        return done["stdout"], answer.json()

    @staticmethod
    def packages(bill):
        return {("/".join(filter(None, (each.get("group"), each["name"]))), each["version"]) for each in bill["components"]}

    def test_python(self):
        said, bill = self.bill(PIP_LIST, language="python", deps=["al-pha"])
        installed = {(each["name"].lower().replace("_", "-").replace(".", "-"), each["version"]) for each in json.loads(said)}
        self.assertEqual(len(installed), 3, said)
        self.assertEqual(self.packages(bill), installed)

    def test_node(self):
        said, bill = self.bill(NPM_LS, language="node", deps=["outer"])
        installed = set()
        for line in said.splitlines()[1:]:  # behind the folder itself
            spec = line.split(":", 1)[1].removesuffix(":EXTRANEOUS").removeprefix("alias@npm:")
            installed.add(tuple(spec.rsplit("@", 1)))
        self.assertEqual(installed, {("outer", "1.0.0"), ("hello", "1.0.0"), ("hello", "2.0.0"), ("@scope/inner", "1.0.0"),
                                     ("renamed", "4.0.0")}, said)
        self.assertEqual(self.packages(bill), installed)
        self.assertEqual(len({each["bom-ref"] for each in bill["components"]}), 5)

    def test_the_validator_finds_faults(self):
        _, bill = self.bill("pass", language="python", deps=["beta"])
        bill["components"][0]["type"] = "nonsense"
        self.assertTrue(validate(json.dumps(bill)))


if __name__ == "__main__":
    unittest.main()
