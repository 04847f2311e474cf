# SPDX-License-Identifier: Apache-2.0
"""Sandboxes of agents: every command line, every route, runs and sessions under their rules, tenants that do not see
each other's, and denied ways around the filter."""

import io
import json
import os
import re
import signal
import subprocess
import tarfile
import unittest

import harness
from agent_case import NAMES, AgentCase
from api_case import CONFIG, ApiTest

# The same action in other words: none of them may run at a level that forbids sudo and rm -rf /.
BYPASSES = (
    "sudo ls", "s''udo ls", "\\sudo ls", "/usr/bin/sudo ls", "env sudo ls", "command sudo ls", "exec sudo ls",
    "true && sudo ls", "true;sudo ls", "(sudo ls)", "{ sudo ls; }", "echo $(sudo ls)", "echo `sudo ls`",
    "bash -c 'sudo ls'", "sh -c \"sh -c 'sudo ls'\"", "eval sudo ls", "x=sudo; $x ls", "xargs sudo ls",
    "find . -exec sudo ls {} +", "timeout 1 sudo ls", "nohup sudo ls", "nice -n 5 sudo ls", "time sudo ls",
    "echo c3VkbyBscwo= | base64 -d | sh", "printf 'sudo ls' | bash", "bash <<< 'sudo ls'", "bash <<'E'\nsudo ls\nE",
    "f() { sudo ls; }; f", "alias l=sudo; l ls", "trap 'sudo ls' EXIT", "coproc sudo ls", "git -c alias.x='!sudo ls' x",
    "tar --checkpoint=1 --checkpoint-action=exec='sudo ls' -cf a b", "rm -rf /", "rm -r -f /", "rm -fr //",
    "rm --recursive --force /", "rm -rf /./", "rm -rf /tmp/..", "busybox sudo ls", "awk 'BEGIN{system(\"sudo ls\")}'",
    "perl -e 'system(\"sudo ls\")'", "python3 -c 'import os; os.system(\"sudo ls\")'", "ｓｕｄｏ ls", "sudo\u00a0ls",
)


def setUpModule():
    ApiTest.server = harness.Server(config=CONFIG)
    unittest.enterModuleContext(ApiTest.server)


class CommandLine(AgentCase):
    def cli(self, *args, status=0, env=None):
        done = self.server.cli("sandbox", *args, env=env)
        self.assertEqual(done.returncode, status, done.stderr + done.stdout)
        return done.stdout if status == 0 else done.stderr

    def show(self):
        return json.loads(self.cli("show", "--agent", self.agent, "--json"))

    def test_every_line(self):
        who = ("--agent", self.agent)
        self.assertIn(f"✓ Sandbox created for agent {self.agent} (level: restricted)",
                      self.cli("create", *who, "--level", "restricted"))
        self.assertIn("level standard now", self.cli("update", *who, "--level", "standard"))
        self.assertIn("Level: standard (Normal development access)", self.cli("show", *who))
        self.assertIn('✓ Allowed for agent', self.cli("allow", *who, "--command", "cargo build"))
        self.assertIn('path "/srv/*"', self.cli("forbid", *who, "--path", "/srv/*"))
        self.assertIn("✓ Granted to agent", self.cli("grant", *who, "--operation", "file_write"))
        self.assertIn("✓ Revoked from agent", self.cli("revoke", *who, "--operation", "network"))
        self.assertIn("memory 2.0GB", self.cli("limit", *who, "--memory", "2GB"))
        self.assertIn("CPU 50%", self.cli("limit", *who, "--cpu", "50%"))
        self.assertIn("time 30min", self.cli("limit", *who, "--time", "30min"))
        shown = self.show()
        self.assertEqual((shown["allowed_commands"], shown["forbidden_paths"]), (["cargo build"], ["/srv/*"]))
        self.assertEqual((shown["granted_operations"], shown["revoked_operations"]), (["file_write"], ["network"]))
        self.assertEqual(shown["limits"], {"memory_mb": 2048, "cpu_percent": 50, "time_seconds": 1800})
        self.assertRegex(self.cli("monitor", *who), r"→ Agent \S+ resource usage:\n   Memory: 0MB / 2\.0GB\n"
                                                    r"   CPU: 0% / 50%\n   Runtime: 0s / 30min\n")
        self.assertIn("✓ No violations", self.cli("violations", *who))
        self.assertIn("agent.updated", self.cli("audit", *who, "--period", "7d"))
        self.assertIn(self.agent, self.cli("stats", "--all-agents"))
        self.assertIn("✓ A node is connected", self.cli("health-check"))
        self.assertIn("No longer allowed", self.cli("allow", *who, "--command", "cargo build", "--undo"))
        self.assertEqual(self.show()["allowed_commands"], [])
        self.assertIn("deleted", self.cli("delete", *who))
        self.assertIn("has no sandbox", self.cli("show", *who, status=4))

    def test_monitor_goes_on_until_it_is_interrupted(self):
        self.give("standard")
        watching = subprocess.Popen(
            [harness.BIN / "cloister", "sandbox", "monitor", "--agent", self.agent, "--watch"],
            stdout=subprocess.PIPE, text=True,
            env={"PATH": "/usr/bin:/bin", "CLOISTER_URL": self.server.url, "CLOISTER_API_KEY": self.server.key})
        self.addCleanup(watching.stdout.close)
        self.addCleanup(watching.wait)
        self.addCleanup(watching.kill)
        for _ in range(2):
            self.assertEqual(watching.stdout.readline(), f"→ Agent {self.agent} resource usage:\n")
            self.assertRegex(watching.stdout.readline(), r"   Memory: 0MB / 4\.0GB\n")
            for _ in range(3):
                watching.stdout.readline()
        watching.send_signal(signal.SIGINT)
        self.assertIn(watching.wait(30), (-signal.SIGINT, 130))

    def test_json(self):
        who = ("--agent", self.agent)
        self.assertEqual(json.loads(self.cli("create", *who, "--level", "training", "--json"))["level"], "training")
        for args, member in ((("monitor", *who), "memory_mb"), (("violations", *who), "violations"),
                             (("audit", *who), "entries"), (("stats", *who), "agents"), (("health-check",), "ok")):
            self.assertIn(member, json.loads(self.cli(*args, "--json")))

    def test_mistakes_name_the_remedy(self):
        for args, words in ((("create", "--level", "standard"), "--agent"),
                            (("create", "--agent", self.agent), "--level"),
                            (("create", "--agent", self.agent, "--level", "x"), "isolated, restricted"),
                            (("limit", "--agent", self.agent, "--memory", "much"), "512MB or 2g"),
                            (("limit", "--agent", self.agent), "--memory"),
                            (("audit", "--agent", self.agent, "--period", "week"), "7d"),
                            (("stats",), "--all-agents")):
            self.assertIn(words, self.cli(*args, status=2))

    def test_a_refused_run_says_what_can_be_done(self):
        self.give("restricted")
        done = self.server.cli("run", "-c", "print(1)", env={"CLOISTER_API_KEY": self.secret()})
        self.assertEqual(done.returncode, 125)
        self.assertIn("cloister: blocked: ", done.stderr)
        self.call("POST", self.path + ":update", {"level": "standard"}, status=200)
        wrong = self.server.cli("run", "-l", "bash", "-c", "sudo ls", env={"CLOISTER_API_KEY": self.secret()})
        self.assertIn("❌ Operation blocked: command_execution", wrong.stderr)


class Rules(AgentCase):
    def test_made_once(self):
        self.assertEqual(self.give("standard")["effective"]["limits"]["memory_mb"], 4096)
        self.assertIn("update it (cloister agent update)", self.call("POST", self.path, {"level": "standard"}, status=409).text)
        self.call("DELETE", self.path, status=204)
        self.assertProblem(self.call("DELETE", self.path), 404)
        self.assertEqual(self.give("isolated")["version"], 1)

    def test_bad_bodies(self):
        for field, body in (("level", {}), ("level", {"level": "x"}), ("x", {"level": "standard", "x": 1}),
                            ("granted_operations", {"level": "standard", "granted_operations": ["fly"]}),
                            ("limits.memory_mb", {"level": "standard", "limits": {"memory_mb": 0}}),
                            ("allowed_commands", {"level": "standard", "allowed_commands": [""]}),
                            ("escalation.fallback_action",
                             {"level": "standard", "escalation": {"fallback_action": "allow"}})):
            self.assertProblem(self.call("POST", self.path, body), 422, field=field)
        self.give("standard")
        self.assertProblem(self.call("POST", self.path + ":update", {"grant": ["network"], "revoke": ["network"]}),
                           422, field="grant")
        self.assertProblem(self.call("POST", self.path + ":update", {"remove": {"allowed_commands": ["none"]}}), 422,
                           field="remove.allowed_commands")

    def test_an_agent_cannot_change_its_own(self):
        self.give("restricted")
        key = self.secret()
        self.call("GET", self.path, key=key, status=200)
        self.call("POST", self.path + ":update", {"level": "unrestricted"}, key=key, status=403)
        self.call("DELETE", self.path, key=key, status=403)

    def test_tenants_are_apart(self):
        self.give("standard")
        rival = self.secret("rival", "tenant-admin")
        unknown = self.path.replace(self.agent, self.agent + "x")
        for method, rest, body in (("GET", "", None), ("DELETE", "", None), ("GET", "/violations", None),
                                   ("GET", "/usage", None), ("GET", "/stats", None), ("GET", "/audit", None),
                                   ("POST", ":update", {"level": "standard"}),
                                   ("POST", ":validate", {"operation": {"type": "command", "command": "ls"}})):
            answers = {self.call(method, path + rest + tenant, body, key=rival, status=404).json()["detail"]
                       .replace(self.agent + "x", "A").replace(self.agent, "A")
                       for path in (self.path, unknown) for tenant in ("", "?tenant=default")}
            self.assertEqual(len(answers), 1, (rest, answers))
        self.call("POST", self.path + "?tenant=default", {"level": "standard"}, key=rival, status=404)
        self.assertEqual(self.call("GET", "/v1/agents", key=rival, status=200).json()["agents"], [])
        self.assertEqual(self.call("POST", self.path, {"level": "isolated"}, key=rival, status=201).json()["tenant"],
                         "rival")
        self.assertEqual(self.call("GET", self.path, status=200).json()["level"], "standard")

    def test_list_is_paged(self):
        for letter in "abc":
            self.give("standard", agent=f"{self.agent}-{letter}")
        seen, cursor = [], ""
        while cursor is not None:
            page = self.call("GET", "/v1/agents?" + harness.query(limit=2, **({"cursor": cursor} if cursor else {})),
                             status=200).json()
            seen += [one["agent"] for one in page["agents"]]
            cursor = page["next_cursor"]
        self.assertEqual([name for name in seen if name.startswith(self.agent + "-")],
                         [f"{self.agent}-{letter}" for letter in "abc"])
        self.assertEqual(len(seen), len(set(seen)))


class Plans(AgentCase):
    def validate(self, *operations):
        return self.call("POST", self.path + ":validate", {"operations": list(operations)}, status=200).json()

    def test_four_outcomes(self):
        self.give("restricted", limits={"memory_mb": 512})
        plan = self.validate(
            {"type": "command", "command": "git status"},
            {"type": "file", "operation": "write", "path": "/src/db/migrations/1.sql"},
            {"type": "command", "command": "git log", "resources": {"memory_mb": 1024}},
            {"type": "command", "command": "git status; $x"},
            {"type": "network", "url": "https://example.org/"},
            {"type": "quality_gate", "gate": "tests"},
            {"type": "workflow", "workflow": "release", "action": "delete"})
        self.assertEqual([each["outcome"] for each in plan["results"]],
                         ["approved", "denied", "resource_exceeded", "unsafe_command", "denied", "approved", "denied"])
        self.assertFalse(plan["approved"])
        self.assertEqual(plan["results"][1]["rule"], "*/migrations/*")
        self.assertTrue(plan["results"][1]["human_approval"])
        self.assertEqual(plan["results"][2]["exceeded_limits"],
                         [{"limit": "memory_mb", "value": 512, "used": 0, "wanted": 1024}])
        self.assertTrue(plan["results"][3]["risk_factors"])
        self.assertEqual(self.violations(), [], "asking is no violation")

    def test_a_network_grant_is_for_its_host(self):
        self.give("training")
        key, boss = self.secret(), self.new_key("default", roles=["approver"], user="lead")["secret"]
        asked = self.call("POST", "/v1/escalations", {"operation": "network", "host": "pypi.org", "reason": "wheels"},
                          key=key, status=201).json()
        urls = ("https://pypi.org/simple", "https://files.pypi.org/x", "https://evil.example/pypi.org")
        plan = [{"type": "network", "url": url} for url in urls]
        self.assertEqual([each["outcome"] for each in self.validate(*plan)["results"]], ["denied"] * 3)
        self.call("POST", f"/v1/escalations/{asked['id']}:approve", {}, key=boss, status=200)
        self.assertEqual([each["outcome"] for each in self.validate(*plan)["results"]],
                         ["approved", "denied", "denied"])

    def test_a_long_plan(self):
        self.give("standard")
        plan = self.validate(*[{"type": "command", "command": f"echo {n}"} for n in range(1000)])
        self.assertTrue(plan["approved"])
        self.assertProblem(self.call("POST", self.path + ":validate", {"operations": []}), 422, field="operations")
        self.assertProblem(self.call("POST", self.path + ":validate", {"operations": [{"type": "x"}]}), 422,
                           field="operations[0].type")


# Prints the result of each attempt, a line each: "ok" or the error's name.


class Walls(AgentCase):
    """Refusals by the kernel, independent of the filter: Python does by itself the actions forbidden to its agent."""

    def test_forbidden_paths_and_programs(self):
        asks = (("dd", "run('dd', '--version')"), ("by path", "run('/usr/bin/dd', '--version')"),
                ("loader", "run('/lib64/ld-linux-x86-64.so.2', '/usr/bin/dd', '--version')"),
                ("copy", "read('/usr/bin/dd')"), ("ssl", "read('/etc/ssl/openssl.cnf')"),
                ("around", "read('/proc/self/root/etc/../etc/ssl/openssl.cnf')"), ("tac", "run('tac', '/etc/hostname')"),
                ("cat", "run('cat', '/etc/hostname')"), ("write", "write('/workspace/x')"), ("own", "own"))
        asks = tuple((name.replace(" ", "_"), what) for name, what in asks)
        free = self.tries(self.secret(agent=next(NAMES)), *asks)
        self.assertEqual(set(free.values()), {"ok"}, free)
        self.give("standard", forbidden_paths=["/etc/ssl/*"], forbidden_commands=["tac *"])
        for _ in range(3):  # made for the run, and then from the pool
            held = self.tries(self.secret(), *asks)
            self.assertEqual({name for name, what in held.items() if what == "ok"}, {"cat", "write", "own"}, held)
        self.assertEqual(self.violations(), [], "the filter saw nothing")

    def test_a_level_that_lists_its_programs(self):
        self.give("training", allowed_commands=["python3 *"])
        held = self.tries(self.secret(), ("sh", "run('sh', '-c', ':')"), ("cat", "run('cat', '/etc/hostname')"),
                          ("perl", "run('perl', '-e', '1')"), ("write", "write('/workspace/x')"),
                          ("temporary", "write('/tmp/x')"), ("null", "write('/dev/null')"), ("own", "own"),
                          ("remove", "lambda: os.remove('/workspace/main.py')"), ("move", "lambda: os.rename('main.py', 'x')"),
                          ("directory", "lambda: os.mkdir('/tmp/d')"))
        self.assertEqual({name for name, what in held.items() if what == "ok"},
                         {"sh", "temporary", "null", "own", "directory"}, held)

    def test_a_session_that_only_reads(self):
        self.give("isolated")
        key = self.secret()
        session = self.call("POST", "/v1/sessions", {"language": "bash"}, key=key, status=201).json()["id"]
        path = f"/v1/sessions/{session}/exec?wait=60"
        look = "ls /usr/bin/ls /bin/bash; test -e /usr/bin/rm || test -e /usr/bin/python3 || echo held"
        for ask in ({"command": look}, {"code": look, "kernel": "none"}, {"code": look}, {"code": look}):
            done = self.call("POST", path, ask, key=key, status=200).json()
            self.assertEqual(done["stdout"], "/bin/bash\n/usr/bin/ls\nheld\n", done)
        self.call("POST", path, {"code": "x=5"}, key=key, status=200)
        self.assertEqual(self.call("POST", path, {"code": "echo $x"}, key=key, status=200).json()["stdout"], "5\n")
        self.call("DELETE", f"/v1/sessions/{session}", key=key)

    def test_a_kernels_directory_that_is_a_link_opens_nothing(self):
        self.give("training", allowed_commands=["python3 *"])
        key = self.secret()
        session = self.call("POST", "/v1/sessions", {"language": "python"}, key=key, status=201).json()["id"]

        def run(code, **more):
            return self.call("POST", f"/v1/sessions/{session}/exec?wait=60", {"code": code, **more}, key=key).json()

        made = run("import os; os.symlink('/workspace', '/tmp/.cloister-kernel-python'); print('made')", kernel="none")
        self.assertEqual(made["stdout"], "made\n", made)
        run("1 + 1")
        done = run("import os; print(os.path.exists('report')); open('/workspace/taken', 'w').write('x')", kernel="none")
        self.assertIn("PermissionError", done.get("stderr", ""), done)
        self.assertEqual(done["stdout"], "False\n", "nothing was made where the link leads")
        self.call("DELETE", f"/v1/sessions/{session}", key=key)

    def test_limits_lower_what_is_not_named(self):
        self.give("standard", limits={"memory_mb": 96, "time_seconds": 2})
        key = self.secret()
        self.assertEqual(self.run_as(key, language="bash", code="sleep 30")["status"], "timed_out")
        self.assertEqual(self.run_as(key, language="bash", code="true", timeout_seconds=3)["status"], "denied")
        session = self.call("POST", "/v1/sessions", {"language": "bash"}, key=key, status=201).json()
        self.assertEqual(session["limits"]["memory_mb"], 96)
        ask = {"command": ["sleep", "30"], "background": True}
        path = self.call("POST", f"/v1/sessions/{session['id']}/exec", ask, key=key, status=202).headers["location"]
        ended = harness.wait_for("its end", lambda: (now := self.call("GET", path, key=key).json())["finished_at"] and now)
        self.assertEqual(ended["status"], "timed_out", "in the background, too")

    def test_artifacts_are_what_the_agent_may_read(self):
        self.give("standard", forbidden_paths=["/workspace/secrets/*"])
        key = self.secret()
        session = self.call("POST", "/v1/sessions", {"language": "bash"}, key=key, status=201).json()["id"]
        # An administrator without rules is under the rules of the session's agent.
        self.call("PUT", f"/v1/sessions/{session}/files/secrets/key", b"secret", status=403)
        code = "import os\nos.mkdir('secrets')\nfor name in ('secrets/key', 'open'): open(name, 'w').write('x')"
        ask = {"language": "python", "kernel": "none", "code": code, "artifacts": ["**"]}
        done = self.call("POST", f"/v1/sessions/{session}/exec?wait=60", ask, key=key, status=200).json()
        self.assertEqual([each["path"] for each in done["artifacts"]], ["open"], done)

    def test_the_plan_says_what_is_held_and_what_is_text(self):
        self.give("standard", forbidden_paths=["*/secrets/*"])
        plan = self.call("POST", "/v1/executions?dry_run=true", {"language": "bash", "code": "ls"}, key=self.secret(),
                         status=200).json()
        self.assertIn("dd", plan["walls"]["programs_without"])
        self.assertIn("/root/*", plan["walls"]["hidden"])
        self.assertIsNone(plan["walls"]["programs_only"])
        self.assertIn("path */secrets/*", plan["walls"]["by_text"])
        self.assertIn("command rm -rf /*", plan["walls"]["by_text"])

    def test_the_five_levels(self):
        self.levels_are_held(runtime="process")

    def test_an_approval_opens_the_path_that_it_names(self):
        self.give("isolated", allowed_commands=["python3 *"])
        key = self.secret()
        self.approve_python(key)
        asks = (("only", "write('/workspace/only-this')"), ("other", "write('/workspace/other')"),
                ("main", "write('/workspace/main.py')"), ("remove", "lambda: os.remove('/workspace/only-this')"),
                ("move", "lambda: os.rename('/workspace/only-this', '/workspace/x')"),
                ("directory", "lambda: os.mkdir('/workspace/d')"), ("tmp", "write('/tmp/x')"),
                ("out", "write('/workspace/out/x')"), ("deep", "lambda: os.mkdir('/workspace/out/d')"),
                ("kept", "lambda: os.remove('/workspace/out/x')"))

        def opened():
            return {name for name, what in self.tries(key, *asks).items() if what == "ok"}

        self.assertEqual(opened(), set())
        escalation, approver = self.approve(key, "file_write", "/workspace/only-this")
        self.assertEqual(opened(), {"only"})
        request = {"language": "python", "code": "print(open('only-this').read())"}
        plan = self.call("POST", "/v1/executions?dry_run=true", request, key=key, status=200).json()
        self.assertEqual(plan["walls"]["writable"], [{"path": "/workspace/only-this", "operations": ["write", "create"],
                                                      "made_if_missing": "file"}])
        done = self.run_as(key, **request)
        self.assertEqual(done["stdout"], "\n", "it is there, and empty")
        self.assertIn("approved: programs may change /workspace/only-this (the file is made if it is missing)",
                      done["provenance"]["weakened"])
        self.approve(key, "file_write", "/workspace/out/*")
        self.assertEqual(opened(), {"only", "out", "deep"})
        self.call("POST", f"/v1/escalations/{escalation}:deny", {"reason": "done with it"}, key=approver, status=200)
        self.assertEqual(opened(), {"out", "deep"})
        self.assertProblem(self.call("POST", "/v1/escalations", {"operation": "file_write", "path": "/workspace/*.md",
                                                                 "reason": "why"}, key=key), 422, field="path")

    def test_an_approval_takes_its_wall_away(self):
        self.give("restricted", escalation={"auto_approve_safe": False})
        key, command = self.secret(), "tac /etc/hostname"
        self.denied(self.run_as(key, command=command))
        asked = self.call("POST", "/v1/escalations", {"operation": "command", "command": command, "reason": "why"},
                          key=key, status=201).json()
        approver = self.new_key("default", roles=["approver"])["secret"]
        self.call("POST", f"/v1/escalations/{asked['id']}:approve", {"reason": "looked at it"}, key=approver, status=200)
        self.assertEqual(self.run_as(key, command=command)["stdout"], "cloister\n")


class Names(AgentCase):
    """An allowed program is the program of the name in the image, not any file of the same name."""

    def test_another_by_the_same_name(self):
        self.give("isolated")
        key = self.secret()
        self.assertEqual(self.run_as(key, command="ls /etc/hostname")["stdout"], "/etc/hostname\n")
        for command in ("PATH=/tmp ls", "PATH=.:$PATH; ls", "export PATH=/workspace; ls", "env PATH=/tmp ls", "./ls",
                        "/workspace/ls", "/tmp/ls", "cd /tmp && ./ls", "hash -p /tmp/ls ls; ls", "alias ls=/tmp/x; ls",
                        "ls() { rm x; }; ls", "enable -f /tmp/x.so ls; ls", "ln -s /usr/bin/rm ls; ./ls x",
                        "LD_PRELOAD=/tmp/x.so ls", "typeset -n PATH=x; x=/tmp; ls", "read PATH < x; ls",
                        "printf -v PATH /tmp; ls"):
            with self.subTest(command):
                self.denied(self.run_as(key, command=command))
                self.forgive("isolated")
        self.denied(changed := self.run_as(key, command="ls", env={"PATH": "/workspace:/usr/bin"}))
        self.assertFalse(changed["error"]["details"]["escalation_available"], "no approval lifts a variable")
        self.denied(self.run_as(key, command=["/workspace/ls"]))

    def test_a_rule_holds_by_each_name_of_the_image(self):
        real = os.path.basename(os.path.realpath("/usr/bin/awk"))
        self.assertNotEqual(real, "awk", "an alternative of Debian's is a link")
        self.give("standard", forbidden_commands=[f"{real} *"])
        for command in ("awk 'BEGIN {}'", "/usr/bin/awk 'BEGIN {}'", "true | env awk 1", ["awk", "1"]):
            details = self.denied(self.run_as(self.secret(), command=command))
            self.assertEqual(details["rule"], f"{real} *")

    def test_a_link_is_what_it_leads_to(self):
        self.give("training", allowed_commands=["python3 *"])
        links = ("cat", "link('/usr/bin/cat', '/tmp/python3')"), ("tac", "link('/usr/bin/tac', '/tmp/sh')")
        self.assertEqual(set(self.tries(self.secret(agent=next(NAMES)), *links).values()), {"ok"})
        held = self.tries(self.secret(), *links)
        self.assertEqual(set(held.values()), {"FileNotFoundError"}, held)  # unlisted files do not exist

    def test_doubt_is_no(self):
        self.give("isolated")
        key = self.secret()
        for command in ("ls 'x", 'ls "$(', "ls <<E", "ls `", "(" * 5000 + "ls", "ls;" * 10_000, "ls " + "x " * 30_000,
                        "$(" * 200 + "ls" + ")" * 200, "ls \x00", "ls \u202e"):
            answer = self.call("POST", "/v1/executions?wait=60", {"command": command}, key=key)
            with self.subTest(command[:20]):
                if answer.status in (200, 202):
                    self.denied(answer.json())
                    self.forgive("isolated")
                else:
                    self.assertIn(answer.status, (400, 413, 422))
        for body in (b'{"command": "ls \xff"}', b'{"command": "ls ' + b"x" * (1 << 20) + b'"}'):
            answer = self.server.request("POST", "/v1/executions", body, key=key,
                                         headers={"Content-Type": "application/json"})
            self.assertTrue(answer.status in (400, 413, 422) or answer.json()["status"] == "denied", answer.text)
        self.assertEqual(self.run_as(key, command="ls /etc/hostname")["status"], "completed")


class Runs(AgentCase):
    def test_commands_and_code(self):
        self.give("standard")
        key = self.secret()
        self.assertEqual(self.run_as(key, command="echo hi")["stdout"], "hi\n")
        self.assertEqual(self.run_as(key, language="python", code="print(6*7)")["stdout"], "42\n")
        details = self.denied(self.run_as(key, language="bash", code="echo a\nsudo ls\n"))
        self.assertEqual((details["rule"], details["words"], details["level"]), ("sudo *", "sudo ls", "standard"))
        self.assertEqual(details["mitigation"], "run the command without sudo")
        self.assertFalse(details["escalation_available"])
        violation = self.violations()[0]
        self.assertEqual((violation["rule"], violation["outcome"]), ("sudo *", "unsafe_command"))
        self.assertEqual(self.call("GET", f"/v1/executions/{violation['subject']}", status=200).json()["status"],
                         "denied")
        stats = self.call("GET", self.path + "/stats", status=200).json()
        self.assertEqual((stats["violations"], stats["executions"]["denied"]), (1, 1))

    def test_ways_round_the_filter(self):
        self.give("standard")
        key = self.secret()
        for command in BYPASSES:
            with self.subTest(command):
                self.denied(self.run_as(key, command=command))
                self.forgive("standard")
        self.denied(self.run_as(key, command=["sudo", "ls"]))
        self.denied(self.run_as(key, command=["env", "sudo", "ls"]))
        self.denied(self.run_as(key, command="true", env={"LD_PRELOAD": "/workspace/x.so"}))
        self.denied(self.run_as(key, command="true", env={"BASH_ENV": "/workspace/x"}))
        self.assertGreaterEqual(len(self.violations(limit=500)), len(BYPASSES))

    def test_languages_by_the_program_that_runs_them(self):
        self.give("restricted")
        key = self.secret()
        self.assertEqual(self.denied(self.run_as(key, language="python", code="print(1)"))["outcome"], "denied")
        self.call("POST", self.path + ":update", {"add": {"allowed_commands": ["python3 *"]}}, status=200)
        self.assertEqual(self.run_as(key, language="python", code="print(1)")["stdout"], "1\n")

    def test_limits(self):
        self.give("standard", limits={"memory_mb": 512, "time_seconds": 60, "cpu_percent": 50})
        key = self.secret()
        details = self.denied(self.run_as(key, command="true", memory_mb=1024))
        self.assertEqual(details["outcome"], "resource_exceeded")
        self.assertIn("512", details["suggestion"])
        long = self.denied(self.run_as(key, command="true", timeout_seconds=90))
        self.assertEqual(long["exceeded_limits"][0]["limit"], "time_seconds")
        first = self.call("POST", "/v1/executions", {"command": "sleep 60", "memory_mb": 400, "timeout_seconds": 60},
                          key=key, status=201).json()
        usage = self.call("GET", self.path + "/usage", status=200).json()
        self.assertEqual([usage[name]["reserved"] for name in ("memory_mb", "cpu_percent")], [400, 50])
        more = self.denied(self.run_as(key, command="true", memory_mb=200))
        self.assertEqual(more["exceeded_limits"][0]["used"], 400)
        self.call("DELETE", f"/v1/executions/{first['id']}", key=key)
        self.server.wait_end(first["id"])
        self.assertEqual(self.run_as(key, command="true", memory_mb=200)["status"], "completed")

    def test_violations_lower_the_level(self):
        self.give("standard")
        key = self.secret()
        for _ in range(10):
            self.denied(self.run_as(key, command="sudo ls"))
        self.assertEqual(self.call("GET", self.path, status=200).json()["level"], "restricted")
        actions = [entry["action"] for entry in
                   self.call("GET", self.path + "/audit?limit=500", status=200).json()["entries"]]
        self.assertEqual((actions.count("agent.violation"), actions.count("agent.lowered")), (10, 1))
        self.assertTrue(self.call("GET", "/v1/audit/verify", status=200).json()["ok"])

    def test_without_a_sandbox_as_before(self):
        self.assertEqual(self.run_as(self.secret(), command="sudo --version || echo none")["status"], "completed")


class InSessions(AgentCase):
    def test_programs_cells_and_files(self):
        self.give("standard", forbidden_paths=["/workspace/secrets/*"])
        key = self.secret()
        session = self.call("POST", "/v1/sessions", {"language": "bash"}, key=key, status=201).json()["id"]
        path = f"/v1/sessions/{session}"
        cell = self.call("POST", path + "/exec?wait=60", {"code": "sudo ls"}, key=key).json()
        self.denied(cell)
        self.assertEqual(self.call("POST", path + "/exec?wait=60", {"code": "echo 1"}, key=key).json()["stdout"], "1\n")
        self.call("PUT", path + "/files/a", b"x", key=key, status=200)
        for method, rest, body in (("PUT", "/files/secrets/a", b"x"), ("GET", "/files/secrets/a", None),
                                   ("DELETE", "/files/secrets", None), ("GET", "/archive", None),
                                   ("POST", "/files:move", {"from": "secrets", "to": "b"})):
            self.assertProblem(self.call(method, path + rest, body, key=key), 403, "PERMISSION_DENIED")
        archive = io.BytesIO()
        with tarfile.open(fileobj=archive, mode="w") as tar:
            tar.addfile(tarfile.TarInfo("secrets/a"))
        self.assertProblem(self.call("PUT", path + "/archive", archive.getvalue(), key=key), 403, "PERMISSION_DENIED")
        self.assertEqual({each["subject"] for each in self.violations()} - {cell["id"]}, {session})
        self.call("DELETE", path, key=key)

    def test_a_refused_cell_takes_no_kernel(self):
        self.give("standard")
        key = self.secret()
        session = self.call("POST", "/v1/sessions", {"language": "bash"}, key=key, status=201).json()["id"]
        path = f"/v1/sessions/{session}/exec?wait=60"
        for name in ("a", "b", "c", "d", "e"):
            self.denied(self.call("POST", path, {"code": "sudo ls", "kernel": name}, key=key).json())
        done = self.call("POST", path, {"code": "echo 1", "kernel": "f"}, key=key, status=200).json()
        self.assertEqual(done["stdout"], "1\n", done)
        self.call("DELETE", f"/v1/sessions/{session}", key=key)

    def test_an_approval_lets_it_for_a_time(self):
        self.give("standard", forbidden_paths=["/workspace/security/*"])
        key, boss = self.secret(), self.new_key("default", roles=["approver"], user="security-lead")["secret"]
        session = self.call("POST", "/v1/sessions", {"language": "bash"}, key=key, status=201).json()["id"]
        path = f"/v1/sessions/{session}"

        def write(name):
            return self.call("PUT", f"{path}/files/security/{name}", b"x", key=key)

        def cli(secret, *args):
            done = self.server.cli("escalation", *args, env={"CLOISTER_API_KEY": secret})
            self.assertEqual(done.returncode, 0, done.stderr)
            return done.stdout

        self.assertProblem(write("auth.rs"), 403, "PERMISSION_DENIED")
        made = cli(key, "request", "--operation", "file_write", "--path", "/workspace/security/auth.rs", "--reason",
                   "auth refactoring task")
        escalation = re.search(r"ESC-\d{4}-\d{3}", made).group()
        self.assertProblem(write("auth.rs"), 403, "PERMISSION_DENIED")
        self.assertEqual(cli(boss, "approve", escalation, "--approver", "security-lead"),
                         f"✓ Escalation approved\n   Agent: {self.agent}\n"
                         "   Operation: file_write to /workspace/security/auth.rs\n"
                         "   Temporary permission granted (expires in 2 hours)\n")
        self.call("POST", f"{path}/exec?wait=60", {"code": "mkdir security"}, key=key)
        self.assertEqual(write("auth.rs").status, 200)
        self.assertProblem(write("other.rs"), 403, "PERMISSION_DENIED")
        shown = self.call("GET", self.path, status=200).json()["temporary_permissions"]
        self.assertEqual({(each["operation"], each["pattern"], each["escalation_id"]) for each in shown},
                         {(name, "/workspace/security/auth.rs", escalation) for name in ("file_write", "file_create")})
        judged = self.call("POST", self.path + ":validate", {"operations": [
            {"type": "file", "operation": "write", "path": "/workspace/security/auth.rs"}]}, status=200).json()
        self.assertIn(escalation, json.dumps(judged))
        cli(boss, "deny", "--request", escalation, "--reason", "done with it")
        self.assertProblem(write("auth.rs"), 403, "PERMISSION_DENIED")
        self.assertEqual(self.call("GET", self.path, status=200).json()["temporary_permissions"], [])
        self.call("DELETE", path, key=key)

    def test_a_rule_approves_what_is_safe(self):
        self.give("restricted")
        key = self.secret()

        def ask(command):
            body = {"operation": "command", "command": command, "reason": "look"}
            return self.call("POST", "/v1/escalations", body, key=key, status=201).json()["status"]

        self.assertEqual(ask("ls -la /workspace"), "approved")
        self.assertEqual(self.run_as(key, command="ls -la /workspace")["status"], "completed")
        self.assertEqual(ask("touch x"), "pending", "it writes")
        self.denied(self.run_as(key, command="touch x"))
        self.call("POST", self.path + ":update", {"escalation": {"require_human_approval": ["command_execution"]}},
                  status=200)
        self.assertEqual(ask("ls -l"), "pending")
        self.denied(self.run_as(key, command="ls -la /workspace"))
        self.assertProblem(self.call("POST", self.path + ":update", {
            "escalation": {"require_human_approval": ["comand_execution"]}}), 422,
            field="escalation.require_human_approval")

    def test_a_session_takes_of_the_memory(self):
        self.give("standard", limits={"memory_mb": 512})
        key = self.secret()
        self.assertProblem(self.call("POST", "/v1/sessions", {"memory_mb": 1024}, key=key), 403, "PERMISSION_DENIED")
        session = self.call("POST", "/v1/sessions", {"memory_mb": 400}, key=key, status=201).json()["id"]
        self.assertEqual(self.call("GET", self.path + "/usage", status=200).json()["memory_mb"]["reserved"], 400)
        self.denied(self.run_as(key, command="true"))
        self.call("DELETE", f"/v1/sessions/{session}", key=key)


class DefaultLevel(unittest.TestCase):
    def test_whoever_has_none(self):
        with harness.Server(config="agents:\n  default_level: restricted\n") as server:
            self.assertEqual(server.run("print(1)")["stdout"], "1\n", "administrators are not held")
            key = server.request("POST", "/v1/keys", {"tenant": "t", "roles": ["agent"]}).json()["secret"]
            answer = server.submit("print(1)", key=key).json()
            self.assertEqual((answer["status"], answer["error"]["details"]["level"]), ("blocked", "restricted"))

    def test_an_unknown_level_stops_the_start(self):
        server = harness.Server(config="agents:\n  default_level: lax\n")
        with self.assertRaisesRegex(AssertionError, "agents.default_level: there is no level"):
            server.__enter__()


if __name__ == "__main__":
    unittest.main()
