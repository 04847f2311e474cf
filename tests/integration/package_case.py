# SPDX-License-Identifier: Apache-2.0
"""A service with a package index of the test's own, and package tools in its sandboxes."""

import json
import pathlib
import shutil
import tempfile

import harness
from api_case import CONFIG, ApiTest
from package_registry import Registry

PYPI, NPM = "pypi.cloister.internal", "npm.cloister.internal"
NONE = {"name": "no-network", "why": "code without a network", "effect": "allow", "tier": "Auto", "match": {"network_tiers": ["none"]}}
INSTALLS = {"name": "installs", "why": "packages alone", "effect": "allow", "tier": "Auto", "match": {"network_tiers": ["restricted"]}}
POLICY = json.dumps({"version": 2, "rules": [NONE, INSTALLS]})
NETWORK = {"tier": "restricted"}
PIP = "/usr/bin/pip3"  # Debian's; another of the machine is not in sandboxes


class PackageCase(ApiTest):
    """`RULES`: lines of `packages.rules`. `MORE`: further lines of `packages`. `USER`: the index's credentials. `fill()` puts packages
    into the index."""

    RULES = "cooldown_days: 7"
    MORE = ""
    USER = None
    HTML = False

    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(cls.enterClassContext(tempfile.TemporaryDirectory()))
        cls.folder.chmod(0o755)
        cls.registry = cls.enterClassContext(Registry(cls.USER, cls.HTML))
        cls.fill()
        cls.server = cls.enterClassContext(harness.Server(cls.configuration()))
        answer = cls.server.request("POST", "/v1/policies", {"document": POLICY})
        assert answer.status == 201, answer.body

    @classmethod
    def fill(cls):
        pass

    @classmethod
    def configuration(cls):
        credentials = ""
        if cls.USER:
            file = cls.folder / "credentials"
            file.write_text(cls.USER + "\n")
            credentials = f"    credentials_file: {file}\n"
        rules = "".join(f"    {line}\n" for line in cls.RULES.splitlines())
        more = "".join(f"  {line}\n" for line in cls.MORE.format(folder=cls.folder).splitlines())
        return (f"{CONFIG}packages:\n  pypi:\n    index: {cls.registry.url}/simple/\n{credentials}"
                f"  npm:\n    registry: {cls.registry.url}/npm\n{credentials}  rules:\n{rules}{more}")

    def need(self, program):
        if shutil.which(program) is None:
            self.skipTest(f"no {program} on this machine: integration/packages")

    def shell(self, script, **request):
        """Runs a script of bash with the gateway → the execution."""
        request = {"network_policy": NETWORK, "memory_mb": 1024, "timeout_seconds": 120, "artifacts": [], **request}
        done = self.run_code(script, "bash", **request)
        self.assertEqual(done["status"], "completed", done)
        return done

    def works(self, script, **request):
        done = self.shell(script, **request)
        self.assertEqual(done["exit_code"], 0, (done["stdout"][-3000:], done["stderr"][-3000:], done["network"]))
        return done

    def refused(self, script, rule, host, **request):
        """The tool fails, and its output and the result name the rule → the execution."""
        done = self.shell(script, **request)
        told = done["stdout"] + done["stderr"]
        self.assertNotEqual(done["exit_code"], 0, told)
        self.assertIn(rule, told)
        self.denied(done, rule, host)
        return done

    def denied(self, done, rule, host):
        rows = [row for row in done["network"]["denied"] if row["rule"] == rule]
        self.assertEqual([(row["host"], row["port"]) for row in rows], [(host, 80)], done["network"])
        self.assertTrue(rows[0]["reason"] and rows[0]["remedy"], rows)
        return rows[0]
