# SPDX-License-Identifier: Apache-2.0
"""Mediated network: what a policy grants works for programs that know of no proxy, all else is refused at once and named in
the result, and each setting and member has its effect. The fake internet's log says what arrived."""

import json
import os
import pathlib
import pwd
import signal
import subprocess
import tempfile
import time
import unittest

import harness
import mcp_client
from egress_case import EgressCase, door, start_world, zone
from session_case import Session

FETCH = "attempt('it', fetch, HOST, tls=TLS)"
PLAIN = {"HOST": "allowed.test", "TLS": False}


def setUpModule():
    start_world()


class Door(EgressCase):
    def test_allowed_names_work_without_proxy_variables(self):
        code = r'''
import subprocess, urllib.request
context = ssl.create_default_context(cadata=CA)
open("ca.pem", "w").write(CA)
attempt("urllib", lambda: urllib.request.urlopen("https://allowed.test/", timeout=5, context=context).read())
attempt("plain", lambda: urllib.request.urlopen("http://allowed.test/", timeout=5).read())
attempt("tcp", lambda: answer(dial("neighbour.test", 9000), b"echo"))
attempt("curl", subprocess.check_output, ["curl", "-sSf", "--cacert", "ca.pem", "https://allowed.test/"], timeout=10)
'''
        done, tried = self.reach(code)
        self.assertEqual({name: told["ok"] for name, told in tried.items()}, dict.fromkeys(("urllib", "plain", "tcp", "curl"), True), tried)
        use = done["network"]
        self.assertEqual((use["denied"], use["hint"]), ([], None))
        self.assertEqual(use["connections"], 4)
        self.assertGreater(use["bytes_in"], 100)
        self.assertGreater(use["bytes_out"], 100)
        self.assertEqual({event["sni"] for event in self.world.of(self.events(), "tls")}, {"allowed.test"})

    def test_node_fetch(self):
        if not harness.have_language(self.server, "node"):
            self.skipTest("the toolchain of node is not on this machine")
        done = self.run_code("fetch('https://allowed.test/').then(a => a.text()).then(console.log)", "node",
                             files=[{"path": "ca.pem", "content": self.world.ca}], env={"NODE_EXTRA_CA_CERTS": "/workspace/ca.pem"},
                             network_policy={"tier": "restricted"}, artifacts=[])
        self.assertEqual(done["stdout"], "hello from allowed.test\n\n", done["stderr"])

    def test_all_else_is_refused_at_once_and_named(self):
        code = """
attempt("name", fetch, "evil.test", check=False)
attempt("port", lambda: answer(dial("allowed.test", 22), b"x"))
attempt("literal", lambda: answer(dial(EVIL, 443), b"x"))
attempt("again", lambda: answer(dial(EVIL, 443), b"x"))
attempt("udp", datagram, EVIL, 443, b"x")
"""
        done, tried = self.reach(code, values={"EVIL": zone.EVIL})
        for name, told in tried.items():
            self.assertEqual((told["ok"], told["seconds"] < 1), (False, True), (name, told))
        self.assertEqual(self.world.reached(self.events()), [])
        refused = (("evil.test", 0, "dns"), ("allowed.test", 22, "tcp"), (zone.EVIL, 443, "tcp"), (zone.EVIL, 443, "udp"))
        for destination in refused:
            row = self.denied(done, *destination)
            self.assertTrue(row["reason"] and row["remedy"], row)
        self.assertEqual(self.denied(done, zone.EVIL, 443)["count"], 2)
        self.assertEqual(done["network"]["connections"], 0)

    def test_without_a_network_the_result_says_why(self):
        code = ("start = time.monotonic()\nsys.excepthook = lambda *what: (print(time.monotonic() - start), sys.__excepthook__(*what))\n"
                "fetch('allowed.test')")
        done = self.run_code(self.text(code), artifacts=[])
        self.assertEqual((done["status"], done["exit_code"]), ("completed", 1), done)
        self.assertLess(float(done["stdout"]), 2)
        self.assertIn("network_policy", done["network"]["hint"])
        self.assertEqual((done["network"]["connections"], done["network"]["denied"]), (0, []))
        self.assertEqual(self.world.asked(self.events()), [])
        quiet = self.run_code("print(1)")
        self.assertIsNone(quiet["network"]["hint"])

    def test_the_reason_is_found_in_standard_output_too(self):
        code = "curl -sS http://allowed.test/ 2>&1; exit "
        loud = self.run_code(code + "7", "bash")
        self.assertEqual((loud["exit_code"], loud["stderr"]), (7, ""))
        self.assertIn("network_policy", loud["network"]["hint"])
        self.assertIsNone(self.run_code(code + "0", "bash")["network"]["hint"], "a program that succeeded may print such words")

    def test_without_a_network_package_clients_do_not_wait(self):
        done = self.run_code("echo ${PIP_RETRIES} ${npm_config_fetch_retries}", "bash")
        self.assertEqual(done["stdout"], "0 0\n")
        own = self.run_code("echo ${PIP_RETRIES}", "bash", env={"PIP_RETRIES": "3"})
        self.assertEqual(own["stdout"], "3\n")

    def test_a_request_only_narrows(self):
        asked = {"allow": ["allowed.test:80"]}
        _, tried = self.reach("attempt('http', fetch, 'allowed.test', tls=False)\nattempt('tls', fetch, 'allowed.test')", network_policy=asked)
        self.assertEqual((tried["http"]["ok"], tried["tls"]["ok"]), (True, False), tried)
        for wanted in ("evil.test:443", "allowed.test:22", "*.allowed.test:443"):
            refused = self.run_code("print(1)", network_policy={"tier": "restricted", "allow": [wanted]})
            self.assertEqual((refused["status"], refused["error"]["type"]), ("denied", "PERMISSION_DENIED"), refused)
            self.assertIn(wanted.split(":")[0], refused["error"]["message"])
        for tier in ("full", "internal", "api"):
            self.assertEqual(self.run_code("print(1)", network_policy={"tier": tier})["status"], "denied", tier)
        wrong = self.call("POST", "/v1/executions", {"language": "python", "code": "", "network_policy": {
            "tier": "restricted", "allow": ["allowed.test"]}})
        self.assertIn(wrong.status, (400, 422), wrong.body)
        self.assertIn("network_policy.allow[0]", wrong.text)

    def test_the_default_policy_grants_nothing(self):
        self.apply((harness.REPO / "policies" / "default.yaml").read_text())
        for tier in ("restricted", "internal", "api", "full"):
            self.assertEqual(self.run_code("print(1)", network_policy={"tier": tier})["status"], "denied", tier)

    def test_full_is_every_public_name(self):
        self.apply(door({"name": "*"}, tiers=["full"]))
        _, tried = self.reach("attempt('it', fetch, 'evil.test', check=False)\nattempt('private', fetch, 'ten.trap.test', tls=False)", tier="full")
        self.assertEqual((tried["it"]["ok"], tried["private"]["ok"]), (True, False), tried)

    def test_a_session_keeps_its_door(self):
        with Session(self.server, self.call, language="python", network_policy={"tier": "restricted"}) as session:
            first = session.exec(self.text("attempt('it', fetch, 'allowed.test')"))
            second = session.exec(self.text("attempt('it', fetch, 'evil.test', check=False)"))
            third = session.exec("print(1)")
        self.assertIn('"ok": true', first["stdout"])
        self.assertEqual((first["network"]["connections"], second["network"]["connections"]), (1, 0))
        self.assertEqual([row["host"] for row in second["network"]["denied"]], ["evil.test"])
        self.assertEqual((third["network"]["bytes_in"], third["network"]["denied"]), (0, []))

    def test_sandboxes_leave_nothing(self):
        self.works(FETCH, values=PLAIN)
        with harness.leakcheck(self.server):
            for _ in range(5):
                self.assertTrue(self.works(FETCH, values=PLAIN))

    def test_no_network_costs_no_door(self):
        done = self.run_code("print(sorted(line.split(':')[0].strip() for line in open('/proc/net/route')))")
        self.assertEqual(done["status"], "completed")
        self.assertEqual(self.world.reached(self.events()), [])


class Entries(EgressCase):
    """Each member of an entry of a policy."""

    def test_name(self):
        self.apply(door("*.allowed.test:80"))
        self.assertTrue(self.works(FETCH, values={**PLAIN, "HOST": "sub.allowed.test"}))
        self.assertFalse(self.works(FETCH, values=PLAIN))

    def test_ports(self):
        self.apply(door({"name": "allowed.test", "ports": [80, 8080], "protocol": "http"}))
        code = "attempt('it', fetch, 'allowed.test', PORT, tls=False)"
        self.assertEqual([self.works(code, values={"PORT": port}) for port in (80, 8080, 3128)], [True, True, False])

    def test_protocol(self):
        code = "attempt('it', lambda: answer(dial('neighbour.test', 9000), b'no http'))"
        for protocol, passes in (("tcp", True), ("http", False), ("tls", False)):
            self.apply(door({"name": "neighbour.test", "ports": [9000], "protocol": protocol}))
            self.assertEqual(self.works(code), passes, protocol)

    def test_methods(self):
        self.apply(door({"name": "allowed.test", "ports": [80], "methods": ["GET"]}))
        code = "attempt('it', fetch, 'allowed.test', tls=False, method=METHOD)"
        self.assertEqual([self.works(code, values={"METHOD": method}) for method in ("GET", "DELETE")], [True, False])
        self.assertEqual({event["method"] for event in self.world.of(self.events(), "http")}, {"GET"})

    def test_paths(self):
        self.apply(door({"name": "allowed.test", "ports": [80], "paths": ["/v1/*"]}))
        code = "attempt('it', fetch, 'allowed.test', tls=False, path=PATH)"
        self.assertEqual([self.works(code, values={"PATH": path}) for path in ("/v1/x?y=1", "/v2/x", "/v1/../v2")], [True, False, False])

    def test_methods_need_readable_http(self):
        answer = self.apply(door({"name": "allowed.test", "ports": [443], "methods": ["GET"]}), status=422)
        self.assertIn("methods", answer.text)

    def test_max_bytes(self):
        code = "attempt('it', fetch, 'allowed.test', tls=False, path='/bytes?n=4000000')"
        self.assertTrue(self.works(code))
        self.apply(door({"name": "allowed.test", "ports": [80], "max_bytes": 1_000_000}))
        self.assertFalse(self.works(code))

    def test_dns(self):
        code = "attempt('it', lambda: dns('127.0.0.1', 'allowed.test', 16)[1] or 1 / 0)"
        self.assertFalse(self.works(code))
        self.assertEqual(self.world.asked(self.events()), [])
        self.apply(door({"name": "allowed.test", "ports": [80], "dns": ["TXT"]}))
        self.assertTrue(self.works(code))

    def test_why_is_shown(self):
        self.apply(door({"name": "allowed.test", "ports": [80], "why": "the weather service"}))
        shown = self.call("GET", "/v1/policies/current", status=200).json()["document"]
        self.assertIn("the weather service", shown)


class Asking(EgressCase):
    """Connections that no rule allows: an approver may allow the destination."""

    HOLD = "attempt('it', fetch, 'api.test', tls=False)"

    def setUp(self):
        super().setUp()
        self.agent_key = self.new_key("default", roles=["agent"], agent=f"egress-{id(self)}")["secret"]
        self.boss = self.new_key("default", roles=["approver"])["secret"]

    def session(self, on_denied):
        return Session(self.server, self.call, key=self.agent_key, language="python",
                       network_policy={"tier": "restricted", "on_denied": on_denied})

    def approve(self, escalation):
        self.call("POST", f"/v1/escalations/{escalation['id']}:approve", {"reason": "looked at it"}, key=self.boss, status=200)

    def tries(self, session):
        return '"ok": true' in session.exec(self.text(self.HOLD))["stdout"]

    def test_escalate(self):
        with self.session("escalate") as session:
            self.assertFalse(self.tries(session))
            asked = self.wait_escalation("api.test")
            self.assertEqual(asked["program"], "python3", "the name of the process that has the connection")
            self.assertFalse(self.tries(session))
            self.approve(asked)
            harness.wait_for("the plan to change", lambda: self.tries(session), 2)
        self.assertEqual({event["host"] for event in self.world.of(self.events(), "http")}, {"api.test"})

    def test_ask(self):
        with self.session("ask") as session:
            running = session.start(self.text(self.HOLD.replace("fetch,", "lambda *a, **k: (dial('api.test', 80, 30), fetch(*a, **k))[1],")))
            asked = self.wait_escalation("api.test")
            self.assertFalse(harness.finished(session.get(running)))
            self.approve(asked)
            self.assertIn('"ok": true', session.wait(running)["stdout"])

    def test_escalate_over_mcp(self):
        """The tools that make sandboxes take `on_denied`, and say so in their schemas."""
        with mcp_client.connect(self.server, "modern", "http", key=self.agent_key) as client:
            tools = {tool["name"]: tool["inputSchema"]["properties"] for tool in client.call("tools/list")["tools"]}
            for name in ("run", "create_session"):
                self.assertEqual(tools[name]["on_denied"]["enum"], ["deny", "escalate", "ask"], name)
            done = client.ok("run", language="python", code=self.text(self.HOLD), on_denied="escalate")
            self.assertIn('"ok": false', done["stdout"])
            self.approve(self.wait_escalation("api.test"))
            made = client.ok("create_session", language="python", on_denied="ask")["session_id"]
            kept = self.call("GET", f"/v1/sessions/{made}", key=self.agent_key, status=200).json()["network_policy"]
            self.assertEqual((kept["tier"], kept["on_denied"]), ("restricted", "ask"))
            client.ok("terminate", session_id=made)
            refused = client.tool("run", language="python", code="print(1)", on_denied="perhaps")
            self.assertIn("on_denied", refused["structuredContent"]["error"]["field"])

    def test_deny_asks_nobody(self):
        with self.session("deny") as session:
            self.assertFalse(self.tries(session))
        asked = self.call("GET", "/v1/escalations", key=self.boss, status=200).json()["escalations"]
        self.assertEqual([each for each in asked if each.get("agent") == f"egress-{id(self)}"], [])


class Levels(EgressCase):
    """The network of agents, by their level."""

    EGRESS = '  internal: ["ten.trap.test:80", "10.0.0.0/8"]\n'
    DOCUMENT = door("allowed.test:80", "ten.trap.test:80", "neighbour.test:9000", tiers=["restricted", "internal"])

    def agent(self, level, **rules):
        name = f"level-{level}-{len(self.id())}-{time.monotonic_ns()}"
        self.call("POST", f"/v1/agents/{name}/sandbox", {"level": level, "allowed_commands": ["python3 *"], **rules}, status=201)
        return self.new_key("default", roles=["agent"], agent=name)["secret"]

    def status(self, key, tier):
        answer = self.call("POST", "/v1/executions?wait=30", {"language": "python", "code": "print(1)", "network_policy": {"tier": tier}}, key=key)
        self.assertIn(answer.status, (200, 202), answer.body)
        return answer.json()["status"]

    def test_levels_map_onto_tiers(self):
        standard, restricted, isolated = (self.agent(level) for level in ("standard", "restricted", "isolated"))
        self.assertEqual([self.status(standard, tier) for tier in ("restricted", "internal")], ["completed"] * 2)
        self.assertEqual(self.status(restricted, "internal"), "completed")
        for key, tier in ((restricted, "restricted"), (isolated, "internal"), (isolated, "restricted")):
            self.assertIn(self.status(key, tier), ("denied", "blocked"))

    def test_requests_per_minute(self):
        code = "print('good', sum([attempt(f'n{n}', fetch, 'allowed.test', tls=False) for n in range(12)]))"
        for limits, least, most in (({"requests_per_minute": 4}, 1, 4), ({}, 12, 12)):
            key = self.agent("standard", **({"limits": limits} if limits else {}))
            done, _ = self.reach(code, key=key)
            good = int(done["stdout"].rsplit("good ", 1)[1])
            self.assertTrue(least <= good <= most, (limits, good))

    def test_a_visitor_loses_the_network_of_the_session(self):
        """The door of a session follows the rules of its maker: a program of another agent there has to end with that
        agent's permission. An agent that had none is let into sessions without a network alone."""
        maker, visitor = (f"{part}-{time.monotonic_ns()}" for part in ("maker", "visitor"))
        keys = {}
        for name in (maker, visitor):
            self.call("POST", f"/v1/agents/{name}/sandbox", {"level": "standard", "allowed_commands": ["python3 *"]}, status=201)
            keys[name] = self.new_key("default", roles=["agent", "operator"], agent=name)["secret"]
        asked = {"language": "python", "code": "import time\nprint('begun', flush=True)\ntime.sleep(600)", "background": True, "timeout_seconds": 600}
        with Session(self.server, self.call, key=keys[maker], language="python", network_policy={"tier": "restricted"}) as session, \
                Session(self.server, self.call, key=keys[maker], language="python") as quiet:
            started = [self.call("POST", f"/v1/sessions/{each.id}/exec", asked, key=keys[visitor], status=202).json()["id"]
                       for each in (session, quiet)]
            for run in started:
                harness.wait_for("it to run", lambda: "begun" in self.server.get(run)["stdout"], 30)  # noqa: B023
            self.call("POST", f"/v1/agents/{visitor}/sandbox:update", {"revoke": ["network"]}, status=200)
            ended = self.server.wait_end(started[0], 30)
            self.assertEqual(ended["error"]["details"]["reason"], "revoked", ended)
            self.assertEqual(self.server.get(started[1])["status"], "running", "that session has no network")
            again = self.call("POST", f"/v1/sessions/{session.id}/exec?wait=30", asked | {"background": False}, key=keys[visitor])
            self.assertIn(again.json().get("status", "denied"), ("denied", "blocked"), again.text)

            def goes_on():
                answer = session.post("print(1)", "?wait=60")
                if answer.status == 503:
                    self.assertIn("it is given a sandbox that holds them", answer.text)
                    return False
                self.assertEqual(answer.status, 200, answer.text)
                return answer.json()["stdout"] == "1\n"

            harness.wait_for("the session to go on", goes_on, 30)

    def test_refusals_are_violations(self):
        name = f"level-{time.monotonic_ns()}"
        self.call("POST", f"/v1/agents/{name}/sandbox", {"level": "standard", "allowed_commands": ["python3 *"]}, status=201)
        key = self.new_key("default", roles=["agent"], agent=name)["secret"]
        self.reach("attempt('it', fetch, 'evil.test', tls=False)", key=key)

        def counted():
            rows = self.call("GET", f"/v1/agents/{name}/sandbox/violations", status=200).json()["violations"]
            return [row for row in rows if row["operation"] == "network" and "evil.test" in row["what"]]

        harness.wait_for("the violation", counted, 10)


class Changes(EgressCase):
    def test_an_applied_policy_holds_for_running_programs(self):
        with Session(self.server, self.call, language="python", network_policy={"tier": "restricted"}) as session:
            code = self.text(FETCH, **PLAIN)
            self.assertIn('"ok": true', session.exec(code)["stdout"])
            self.apply(door("api.test:443"))
            harness.wait_for("the refusal", lambda: '"ok": false' in session.exec(code)["stdout"], 3)
            self.apply(self.DOCUMENT)
            harness.wait_for("the door to open", lambda: '"ok": true' in session.exec(code)["stdout"], 3)

    def test_a_refused_document_changes_nothing(self):
        self.apply('{"version": 2, "rules": [', status=422)
        self.assertTrue(self.works(FETCH, values=PLAIN))

    def test_attempts_are_in_the_audit(self):
        done, _ = self.reach("attempt('it', fetch, 'allowed.test')\nattempt('evil', fetch, 'evil.test')")

        def rows():
            text = self.server.request("GET", "/v1/audit/export").text
            found = [json.loads(line) for line in text.splitlines() if '"network.' in line]
            return found if "evil.test" in json.dumps(found) and "allowed.test" in json.dumps(found) else None

        told = json.dumps(harness.wait_for("the audit rows", rows, 10))
        self.assertIn(zone.ALLOWED, told)
        self.assertIn("door", told)
        self.assertTrue(self.call("GET", "/v1/audit/verify", status=200).json()["ok"])
        self.assertEqual(done["status"], "completed")

    def test_metrics_count(self):
        before = sum(value for name, value in self.server.metrics().items() if name.startswith("cloister_network_"))
        self.works(FETCH, values=PLAIN)
        harness.wait_for("the metrics", lambda: sum(
            value for name, value in self.server.metrics().items() if name.startswith("cloister_network_")) > before, 5)


class Explain(EgressCase):
    DOCUMENT = door("allowed.test:443", {"name": "api.test", "ports": [80], "methods": ["GET"], "paths": ["/v1/*"]})
    ASKED = (("https://allowed.test/x", (), True), ("https://evil.test/", (), False), ("http://allowed.test/", (), False),
             ("https://allowed.test:8443/", (), False), ("http://api.test/v1/x", (), True), ("http://api.test/v2/x", (), False),
             ("http://api.test/v1/x", ("--method", "POST"), False), (f"https://{zone.ALLOWED}/", (), False))

    def test_it_agrees_with_the_rules(self):
        for url, more, allowed in self.ASKED:
            with self.subTest(url, more=more):
                done = self.server.cli("egress", "explain", url, *more, "--json")
                self.assertEqual(done.returncode, 0 if allowed else 1, done.stdout + done.stderr)
                told = json.loads(done.stdout)
                self.assertEqual(told["allowed"], allowed, told)
                if allowed:
                    self.assertEqual(told["rule"], "door")
                else:
                    self.assertTrue(told["reason"] and told["remedy"], told)

    def test_words_for_people(self):
        done = self.server.cli("egress", "explain", "https://evil.test/")
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn("evil.test", done.stdout)
        self.assertEqual(self.server.cli("egress", "explain", "https://EVIL..test/").returncode, 1)

    def test_the_command_line_asks_for_destinations(self):
        done = self.server.cli("run", "--allow", "allowed.test:443", "-c", self.text("attempt('it', fetch, 'allowed.test')"))
        self.assertIn('"ok": true', done.stdout, done.stderr)
        denied = self.server.cli("run", "--allow", "allowed.test:443", "-c", self.text("attempt('it', fetch, 'evil.test')"))
        self.assertIn("evil.test", denied.stderr)
        refused = self.server.cli("run", "--allow", "evil.test:443", "-c", "print(1)")
        self.assertEqual(refused.returncode, 125, refused.stderr)


class Settings(EgressCase):
    """Each setting has a service of its own."""

    @classmethod
    def setUpClass(cls):
        pass

    def setUp(self):
        self.start_mark = self.world.mark()

    def serve(self, egress, document=None):
        self.server = self.enterContext(harness.Server("egress:\n" + egress))
        self.apply(document or EgressCase.DOCUMENT)

    def resolved(self, egress, document=None):
        self.serve(f"  resolver: {self.world.resolver}\n{egress}", document)

    def test_resolver(self):
        self.serve(f"  resolver: {self.world.resolver}\n")
        self.assertTrue(self.works(FETCH, values=PLAIN))
        self.assertEqual(self.world.asked(self.events()), ["allowed.test"])
        self.serve("  resolver: 127.0.0.1:9\n")  # nobody listens there, and the host's resolver would answer
        self.assertFalse(self.works(FETCH, values=PLAIN))

    def test_pool(self):
        self.resolved("  pool: 28.0.0.0/16\n")
        code = "attempt('it', lambda: (fetch('allowed.test'), socket.getaddrinfo('allowed.test', 443, socket.AF_INET)[0][4][0])[1])"
        _, tried = self.reach(code)
        self.assertTrue(tried["it"]["ok"] and tried["it"]["said"].startswith("28.0."), tried)

    def test_internal(self):
        self.resolved("  internal: [\"ten.trap.test:80\", \"10.0.0.0/8\"]\n", door("ten.trap.test:80", "private192.trap.test:80", tiers=["internal"]))
        self.assertTrue(self.works(FETCH, tier="internal", values={"HOST": "ten.trap.test", "TLS": False}))
        self.assertFalse(self.works(FETCH, tier="internal", values={"HOST": "private192.trap.test", "TLS": False}))
        self.apply(door("ten.trap.test:80"))
        self.assertFalse(self.works(FETCH, values={"HOST": "ten.trap.test", "TLS": False}))

    def test_user(self):
        self.resolved("  user: daemon\n")
        status = pathlib.Path(f"/proc/{self.server.pid_of('cloister-egress')}/status").read_text()
        uid = pwd.getpwnam("daemon").pw_uid
        self.assertIn(f"Uid:\t{uid}\t{uid}\t{uid}\t{uid}\n", status)
        for field in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"):
            self.assertIn(f"{field}:\t0000000000000000\n", status)
        for field in ("NoNewPrivs:\t1\n", "Seccomp:\t2\n", "Groups:\t \n"):
            self.assertIn(field, status)
        self.assertTrue(self.works(FETCH, values=PLAIN))

    def test_upstream(self):
        with tempfile.NamedTemporaryFile("w", prefix="credentials.") as file:
            file.write("user:secret\n")
            file.flush()
            os.chmod(file.name, 0o644)
            self.resolved(f"  upstream: http://{zone.NEIGHBOUR}:3128\n  upstream_credentials_file: {file.name}\n")
            self.assertTrue(self.works("attempt('it', fetch, 'allowed.test')"))
        asked = self.world.of(self.events(), "connect")
        self.assertEqual([(each["target"], each["credentials"]) for each in asked], [("allowed.test:443", "Basic dXNlcjpzZWNyZXQ=")])

    def through_tls(self, host, ca_file, env=None):
        """A service with a proxy that speaks TLS fetches over http and https → (attempts, what the proxy was asked for)."""
        start = self.world.mark()
        with tempfile.NamedTemporaryFile("w", prefix="credentials.") as file:
            file.write("user:secret\n")
            file.flush()
            settings = {"resolver": self.world.resolver, "upstream": f"https://{host}:3129", "ca_file": str(ca_file),
                        "upstream_credentials_file": file.name}
            with harness.Server("egress: " + json.dumps(settings), env) as self.server:
                self.apply(EgressCase.DOCUMENT)
                _, tried = self.reach("attempt('tls', fetch, 'allowed.test')\nattempt('http', fetch, 'allowed.test', tls=False)")
        return tried, [(each["target"], each["port"]) for each in self.world.of(self.world.since(start), "connect")]

    def test_ca_file(self):
        own = self.world.directory / "ca.pem"
        tried, asked = self.through_tls("proxy.test", own)
        self.assertEqual([each["ok"] for each in tried.values()], [True, True], tried)
        self.assertEqual(asked, [("allowed.test:443", 3129), ("allowed.test:80", 3129)])
        for host, ca_file, fault in (("proxy.test", "", "unable to get local issuer"), (zone.NEIGHBOUR, own, "is not for")):
            with self.subTest(host=host, ca_file=ca_file):
                tried, asked = self.through_tls(host, ca_file)
                self.assertEqual([each["ok"] for each in tried.values()], [False, False], tried)
                self.assertIn(fault, tried["http"]["said"])
                self.assertEqual(asked, [])

    def test_the_systems_authorities(self):
        """OpenSSL reads each of them when it is needed, then under the filter of system calls."""
        with tempfile.TemporaryDirectory(prefix="authorities.") as directory:
            os.chmod(directory, 0o755)
            own = self.world.directory / "ca.pem"
            name = subprocess.run(["openssl", "x509", "-noout", "-subject_hash", "-in", own], check=True, capture_output=True, text=True)
            pathlib.Path(directory, name.stdout.strip() + ".0").write_text(self.world.ca)
            tried, _ = self.through_tls("proxy.test", "", {"SSL_CERT_DIR": directory})
            self.assertEqual([each["ok"] for each in tried.values()], [True, True], tried)

    def test_ca_file_without_a_certificate(self):
        for ca_file in ("/nonexistent", "/dev/null"):
            with self.subTest(ca_file):
                config = "egress: " + json.dumps({"upstream": "https://proxy.test:3129", "ca_file": ca_file})
                with harness.Server(config, ready=False) as server:
                    server.process.wait(30)
                    self.assertNotEqual(server.process.returncode, 0)
                    self.assertIn("egress.ca_file", server.log.read_text())

    def test_ask_seconds(self):
        self.resolved("  ask_seconds: 1\n")
        code = "attempt('it', lambda: answer(dial('api.test', 80, 20), b'x'))"
        _, tried = self.reach(code, network_policy={"on_denied": "ask"})
        self.assertFalse(tried["it"]["ok"])
        self.assertTrue(0.9 < tried["it"]["seconds"] < 5, tried)

    def test_connections_per_second(self):
        self.resolved("  connections_per_second: 5\n")
        code = "print('good', sum([attempt(f'n{n}', lambda: answer(dial('neighbour.test', 9000), b'x')) for n in range(40)]))"
        done, _ = self.reach(code)
        good = int(done["stdout"].rsplit("good ", 1)[1])
        self.assertTrue(1 <= good < 30, good)

    def test_open_connections(self):
        self.resolved("  open_connections: 5\n")
        code = """
held = []
def hold():
    held.append(dial("neighbour.test", 9000)); return answer(held[-1], b"x")
print("good", sum([attempt(f"n{n}", hold) for n in range(12)]))
"""
        done, _ = self.reach(code)
        self.assertIn("good 5\n", done["stdout"])

    def test_idle_seconds(self):
        self.resolved("  idle_seconds: 1\n")
        code = """
connection = dial("neighbour.test", 9000, 8)
attempt("used", answer, connection, b"x")
attempt("it", lambda: (time.sleep(2.5), answer(connection, b"x"))[1])
"""
        _, tried = self.reach(code)
        self.assertEqual((tried["used"]["ok"], tried["it"]["ok"]), (True, False), tried)

    def test_attempts_kept(self):
        """While the control plane takes no attempts, few are kept, and then new connections are refused."""
        self.resolved("  attempts_kept: 256\n")
        code = """
print("begins", flush=True)
while not os.path.exists("go"): time.sleep(0.02)
attempt("before", fetch, "allowed.test", tls=False)
time.sleep(2)  # the control plane stops meanwhile
for number in range(600):  # of a sandbox, few attempts are kept each second
    with contextlib.suppress(OSError): socket.getaddrinfo(f"n{number}.evil.test", 80, socket.AF_INET)
    time.sleep(0.01)
attempt("it", fetch, "allowed.test", tls=False)
open("done", "w").close()
"""
        with Session(self.server, self.call, language="python", network_policy={"tier": "restricted"}) as session:
            running = session.start(self.text(code))
            session.wait_output(running, "begins")
            daemon = self.server.pid_of("cloisterd")
            session.exec("touch go", language="bash")
            harness.wait_for("the first attempt", lambda: "before" in session.get(running)["stdout"], 10)
            os.kill(daemon, signal.SIGSTOP)
            try:
                time.sleep(16)  # the control plane cannot be asked meanwhile
            finally:
                os.kill(daemon, signal.SIGCONT)
            told = session.wait(running)["stdout"]
        self.assertIn('{"try": "it", "ok": false', told)


if __name__ == "__main__":
    unittest.main()
