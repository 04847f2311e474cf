#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""What operators use: `cloister doctor` on any machine, `cloister serve --check`, the dashboard and the alert rules."""

import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import tempfile
import unittest

import yaml

import harness

DEPLOY = harness.REPO / "deploy"
LINE = re.compile(r"  (ok|reduced|missing) +(\S.*?)  +(.*)")
METRIC = re.compile(r"\bcloister_\w+")
# Suffixes of the series of a histogram.
SERIES = re.compile(r"_(bucket|sum|count)$")


def state_of(text, name):
    """The state of a finding in the report of `cloister doctor`."""
    for line in text.splitlines():
        found = LINE.match(line)
        if found and found[2].strip() == name:
            return found[1]
    raise AssertionError(f"no finding {name!r} in:\n{text}")


class Alone(unittest.TestCase):
    """The command line without a server."""

    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="operations-test."))
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        self.folder.chmod(0o777)

    def cloister(self, *arguments, user=False, bin=None, before=(), env=None):
        """→ CompletedProcess. `before`: a command that executes the command line."""
        identity = {"user": harness.USER_ID, "group": harness.USER_ID, "extra_groups": []} if user else {}
        program = (bin or (harness.user_bin() if user else harness.BIN)) / "cloister"
        own = {"PATH": os.environ["PATH"], "HOME": str(self.folder), "TMPDIR": str(self.folder), **(env or {})}
        for name in ("ASAN_OPTIONS", "UBSAN_OPTIONS", "TSAN_OPTIONS"):
            if name in os.environ:
                own[name] = os.environ[name]
        command = [*before, program, *arguments, "--state", self.folder / "none"]
        return subprocess.run([str(word) for word in command], env=own, stdin=subprocess.DEVNULL, capture_output=True,
                              text=True, timeout=90, **identity)

    def config(self, text, name="cloister.yaml"):
        path = self.folder / name
        path.write_text(text)
        return path


class Doctor(Alone):
    def assert_remedies(self, text):
        """Each line about something less than whole is followed by a remedy."""
        lines = text.splitlines()
        for line, following in zip(lines, lines[1:]):
            if re.match(r"  (reduced|missing) ", line):
                self.assertRegex(following, r"^ +-> \S", line)

    def looks(self, *arguments, **options):
        done = self.cloister("doctor", *arguments, **options)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assert_remedies(done.stdout)
        return done.stdout

    def test_needs_no_server_and_leaves_nothing(self):
        with harness.leakcheck():
            text = self.looks()
        self.assertIn("none runs on this account", text)
        self.assertEqual(state_of(text, "python"), "ok")
        self.assertTrue(text.endswith("\nruns are possible here\n"), text[-200:])
        self.assertEqual([p.name for p in self.folder.iterdir() if p.name not in (".cache", "none")], [])
        self.assertFalse((self.folder / "none" / "ledger").exists(), "no server was started")

    @unittest.skipUnless(harness.ROOT, "started by an ordinary user: every other test is this one")
    def test_needs_no_privilege(self):
        text = self.looks(user=True)
        self.assertEqual(state_of(text, "user ids"), "reduced")
        self.assertIn("runs are possible here", text)

    def test_json(self):
        found = json.loads(self.looks("--json"))
        self.assertEqual((found["connected"], found["usable"]), (False, True))
        self.assertIn("process", found["runtimes"])
        for finding in found["findings"]:
            self.assertEqual(set(finding), {"area", "name", "state", "detail", "remedy"})

    def test_strict_fails_for_a_missing_part_alone(self):
        # A root without programs has no language.
        (self.folder / "image" / "usr").mkdir(parents=True)
        config = self.config(f"node:\n  image_root: {self.folder}/image\n")
        text = self.looks("--config", config)
        self.assertEqual(state_of(text, "python"), "missing")
        self.assertEqual(self.cloister("doctor", "--strict", "--config", config).returncode, 1)
        found = json.loads(self.looks("--json"))
        missing = [finding["name"] for finding in found["findings"] if finding["state"] == "missing"]
        self.assertEqual(self.cloister("doctor", "--strict").returncode, 1 if missing else 0, missing)

    def test_without_namespaces(self):
        """A machine that gives no user namespace: the command still answers."""
        if not harness.ROOT:
            self.skipTest("needs root: it forbids namespaces")
        # The limit holds in a new user namespace, and for its descendants (namespaces(7)).
        forbid = ["unshare", "--user", "--map-root-user", "sh", "-c",
                  'echo 0 > /proc/sys/user/max_user_namespaces; echo 0 > /proc/sys/user/max_pid_namespaces; exec "$@"', "sh"]
        text = self.looks(before=forbid)
        self.assertEqual(state_of(text, "namespaces"), "missing")
        self.assertTrue(text.endswith("\nruns are not possible here\n"), text[-200:])
        self.assertEqual(self.cloister("doctor", "--strict", before=forbid).returncode, 1)

    def test_of_a_broken_installation(self):
        (self.folder / "bin").mkdir()
        shutil.copy2(harness.BIN / "cloister", self.folder / "bin" / "cloister")
        text = self.looks(bin=self.folder / "bin")
        self.assertEqual(state_of(text, "node"), "missing")
        self.assertIn("cloister-node: No such file", text)
        self.assertIn("runs are not possible here", text)

    def test_a_node_that_hangs_or_dies(self):
        (self.folder / "bin").mkdir()
        shutil.copy2(harness.BIN / "cloister", self.folder / "bin" / "cloister")
        node = self.folder / "bin" / "cloister-node"
        for script, words in (("kill -SEGV $$", "was killed by SIGSEGV"), ("echo '{'; exit 0", "cloister-node"),
                              ("echo no policy >&2; exit 3", "exited with status 3: no policy")):
            node.write_text(f"#!/bin/sh\n{script}\n")
            node.chmod(0o755)
            self.assertIn(words, self.looks(bin=self.folder / "bin"))

    def test_an_error_of_the_configuration_is_a_line(self):
        text = self.looks("--config", self.config("node:\n  max_sandboxes: none\n"))
        self.assertEqual(state_of(text, "node"), "missing")
        self.assertIn("node.max_sandboxes: must be", text)

    def test_a_named_server_must_answer(self):
        done = self.cloister("doctor", "--url", "http://127.0.0.1:1")
        self.assertEqual(done.returncode, 125, done.stdout)
        self.assertIn("127.0.0.1:1", done.stderr)

    def test_asks_a_server(self):
        with harness.Server("node:\n  silence_seconds: 3\n") as server:
            done = server.cli("doctor")
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assert_remedies(done.stdout)
            self.assertNotIn("none runs on this account", done.stdout)
            found = json.loads(server.cli("doctor", "--json").stdout)
            self.assertEqual((found["connected"], found["usable"]), (True, True))
            self.assertEqual(server.cli("doctor", env={"CLOISTER_API_KEY": "clo_wrong"}).returncode, 125)
            # Without a node the server answers that nothing runs.
            os.kill(server.pid_of("cloister-node"), signal.SIGSTOP)
            harness.wait_for("the node to be lost", lambda: server.request("GET", "/readyz").status == 503, 60)
            done = server.cli("doctor")
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn("runs are", done.stdout)


class Check(Alone):
    """`cloister serve --check`."""

    def refused(self, text, key, words):
        path = self.config(text)
        done = self.cloister("serve", "--check", "--config", path)
        self.assertEqual(done.returncode, 1, done.stdout)
        self.assertIn(key, done.stderr)
        self.assertRegex(done.stderr, words)
        answer = json.loads(self.cloister("serve", "--check", "--json", "--config", path).stdout)
        self.assertEqual((answer["valid"], answer["key"]), (False, key), answer)

    def test_a_valid_one(self):
        path = self.config("limits:\n  memory_mb: 512\n")
        done = self.cloister("serve", "--check", "--config", path)
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, f"{path} is valid\n", ""))
        self.assertEqual(self.cloister("serve", "--check").returncode, 0)
        self.assertEqual(sorted(p.name for p in self.folder.iterdir()), ["cloister.yaml"], "nothing is made")

    def test_each_error_names_its_key(self):
        self.refused("limits:\n  memory_mbs: 512\n", "limits.memory_mbs", r"did you mean limits\.memory_mb\?")
        self.refused("node:\n  max_sandboxes: 0\n", "node.max_sandboxes", r"a whole number from 1 to 4096")
        self.refused("listen: nowhere\n", "listen", r"must be ADDRESS:PORT")
        self.refused(f"policy: {self.folder}/absent.yaml\n", "policy", r"absent\.yaml")
        self.refused("escalation:\n  roles: [approver, boss]\n", "escalation.roles", r"there is no role boss")
        self.refused("escalation:\n  roles: [agent]\n", "escalation.roles", r"\(agent\) never decides; name one of operator, approver")
        self.refused("escalation:\n  roles: [viewer]\n", "escalation.roles", r"the role viewer alone never decides")
        self.refused("audit:\n  publish: {file: pub.checkpoints}\n", "audit.publish.file", r"must be an absolute path")
        self.refused("agents:\n  default_level: absent\n", "agents.default_level", r'no level "absent"')
        self.refused(f"tls:\n  certificate: {self.folder}/c.pem\n  key: {self.folder}/k.pem\n", "tls.certificate", r"c\.pem")
        self.refused(f"packages:\n  advisories: {self.folder}/absent\n", "packages.advisories", r"no folder")
        self.refused("egress:\n  pool: 10.0.0.0/40\n", "egress.pool", r"egress\.pool: ")
        self.refused(f"egress:\n  ca_file: {self.folder}/absent.pem\n", "egress.ca_file", r"egress\.ca_file: ")

    def test_a_policy_that_cannot_be_read(self):
        policy = self.config("rules:\n  - name: x\n    allow: [everything]\n", "policy.yaml")
        done = self.cloister("serve", "--check", "--config", self.config(f"policy: {policy}\n"))
        self.assertEqual(done.returncode, 1, done.stdout)
        self.assertIn("policy", done.stderr)

    def test_a_file_that_cannot_be_read(self):
        for path in (self.folder / "absent.yaml", self.folder):
            done = self.cloister("serve", "--check", "--config", path)
            self.assertEqual(done.returncode, 1, done.stderr)
            self.assertIn("cloister: ", done.stderr)
            self.assertIn(str(path), done.stderr)
            told = self.cloister("serve", "--check", "--json", "--config", path)
            self.assertEqual((told.returncode, json.loads(told.stdout)["valid"]), (1, False))
        self.assertEqual(self.cloister("serve", "--check", "--wrong").returncode, 2, "the command line is wrong")

    def test_warns_of_plain_http_for_other_machines(self):
        for address, warned in (("0.0.0.0:8750", True), ("[::]:8750", True), ("192.0.2.1:8750", True),
                                ("127.0.0.1:8750", False), ("[::1]:8750", False)):
            done = self.cloister("serve", "--check", "--config", self.config(f'listen: "{address}"\n'))
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual("warning: plain HTTP on " + address in done.stderr, warned, done.stderr)
        answer = json.loads(self.cloister("serve", "--check", "--json", "--listen", "0.0.0.0:1").stdout)
        self.assertRegex(answer["warnings"][0], r"set tls\.certificate and tls\.key")

    def test_the_service_warns_as_well(self):
        with harness.Server(args=["--listen", "0.0.0.0:0"]) as server:
            self.assertRegex(server.log.read_text(), r"warning +plain HTTP on 0\.0\.0\.0:\d+")
        with harness.Server() as server:
            self.assertNotIn("plain HTTP", server.log.read_text())
            self.assertIn(f" {server.url}/ui/ ", server.log.read_text())


class Greeting(unittest.TestCase):
    def test_the_proposed_command_runs_on_this_server(self):
        """And not on a private one, which prints the same and keeps nothing."""
        with harness.Server() as server, tempfile.TemporaryDirectory(prefix="cloister-home.") as home:
            line = harness.wait_for("the greeting", lambda: re.search(r"^  try +(.+)$", server.log.read_text(), re.MULTILINE))
            env = {**server._environment(), "HOME": home, "PATH": f"{server.bin}:{os.environ['PATH']}"}
            done = subprocess.run(["bash", "-c", line[1]], env=env, capture_output=True, text=True, timeout=120, check=False)
            self.assertEqual((done.returncode, done.stdout), (0, "hello\n"), done.stderr)
            self.assertEqual(len(server.request("GET", "/v1/executions").json()["executions"]), 1)


class Watching(unittest.TestCase):
    """The dashboard and the alert rules name metrics of a real server."""

    # Metrics of features that the server of this suite lacks; docs/METRICS.md has them, and test_api.py compares that page.
    ELSEWHERE = {"cloister_certificate_expiry_timestamp_seconds", "cloister_package_refusals_total",
                 "cloister_audit_publish_failures_total", "cloister_network_attempts_total", "cloister_network_bytes_total"}

    @classmethod
    def setUpClass(cls):
        with harness.Server("images:\n  require_verified: false\n") as server:
            server.run("print(1)")
            server.run("raise SystemExit(1)")
            session = server.request("POST", "/v1/sessions", {}).json()["id"]
            server.request("DELETE", f"/v1/sessions/{session}")
            server.request("POST", "/v1/executions", {"command": "true", "network_policy": {"tier": "full"}})
            server.request("GET", "/v1/whoami", key="clo_wrong")
            cls.text = server.request("GET", "/metrics").text
        cls.names = set(re.findall(r"^# TYPE (\w+) ", cls.text, re.MULTILINE)) | cls.ELSEWHERE
        cls.documented = set(METRIC.findall((harness.REPO / "docs" / "METRICS.md").read_text()))

    def known(self, expression):
        for name in METRIC.findall(expression):
            self.assertTrue({name, SERIES.sub("", name)} & (self.names & self.documented), f"{name} in {expression}")

    def alerts(self):
        rules = yaml.safe_load((DEPLOY / "prometheus" / "alerts.yaml").read_text())
        return [rule for group in rules["groups"] for rule in group["rules"]]

    def test_alert_rules(self):
        names = [rule["alert"] for rule in self.alerts()]
        self.assertEqual(len(names), len(set(names)))
        for rule in self.alerts():
            self.known(rule["expr"])
            self.assertIn(rule["labels"]["severity"], ("page", "ticket"))
            self.assertTrue(rule["annotations"]["summary"] and rule["annotations"]["remedy"], rule["alert"])
            self.assertLessEqual(set(rule), {"alert", "expr", "for", "labels", "annotations"})
            for page in re.findall(r"docs/[\w/.-]+\.md", rule["annotations"]["remedy"]):
                self.assertTrue((harness.REPO / page).is_file(), page)

    def test_prometheus_takes_the_rules(self):
        promtool = shutil.which("promtool")
        if promtool is None:
            self.skipTest("no promtool here: Debian's package prometheus has it")
        done = subprocess.run([promtool, "check", "rules", DEPLOY / "prometheus" / "alerts.yaml"], capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_commands_of_remedies_exist(self):
        for rule in self.alerts():
            for words in re.findall(r"\bcloister ([a-z][a-z -]*[a-z])", rule["annotations"]["remedy"]):
                done = harness.cli(*[word for word in words.split() if not word.startswith("-")][:2], "--help")
                self.assertEqual(done.returncode, 0, f"{rule['alert']}: cloister {words}: {done.stderr}")

    def test_dashboard(self):
        dashboard = json.loads((DEPLOY / "grafana" / "dashboard.json").read_text())
        panels = [panel for panel in dashboard["panels"] if panel["type"] != "row"]
        self.assertGreater(len(panels), 20)
        self.assertEqual(len({panel["id"] for panel in dashboard["panels"]}), len(dashboard["panels"]))
        places = set()
        for panel in panels:
            self.assertTrue(panel["title"] and panel["description"] and panel["fieldConfig"]["defaults"]["unit"])
            self.assertTrue(panel["targets"], panel["title"])
            for target in panel["targets"]:
                self.known(target["expr"])
                self.labels(target["expr"])
            place = panel["gridPos"]
            self.assertLessEqual(place["x"] + place["w"], 24)
            cells = {(x, y) for x in range(place["x"], place["x"] + place["w"]) for y in range(place["y"], place["y"] + place["h"])}
            self.assertFalse(cells & places, f"{panel['title']} covers another panel")
            places |= cells

    def labels(self, expression):
        """Each label of a `sum by` is one of its metric."""
        for labels, name in re.findall(r"sum by \(([\w, ]+)\) \((?:rate\(|increase\()?(cloister_\w+)", expression):
            base = SERIES.sub("", name)
            lines = [line for line in self.text.splitlines() if re.match(rf"{base}(_bucket)?\{{", line)]
            for label in labels.split(", "):
                if lines and label != "instance":
                    self.assertTrue(any(f'{label}="' in line for line in lines), f"{label} of {base}: {lines[:2]}")


if __name__ == "__main__":
    unittest.main()
