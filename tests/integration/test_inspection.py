# SPDX-License-Identifier: Apache-2.0
"""TLS that is read by rule: ordinary clients work by the sandbox's own trust, each request is judged, and a brokered secret
arrives at its host and nowhere else. The fake internet's log says what arrived."""

import gzip
import hashlib
import json
import os
import shutil
import unittest

import harness
from egress_case import EgressCase, door, start_world, zone
from session_case import Session
from test_at_rest import holders

RUNSC = "/usr/bin/runsc"
READ = {"ports": [443], "inspect": True, "methods": ["GET"]}
DOCUMENT = door({"name": "allowed.test", "paths": ["/", "/v1/*", "/echo"], **READ}, {"name": "h2.test", **READ},
                {"name": "uncertified.test", **READ}, "api.test:443", "sub.allowed.test:443", "api.test:9000",
                secrets=[{"name": "API", "as": ["broker"], "hosts": ["api.test"]}])
HEADER = {"name": "API", "as": "broker", "host": "api.test", "header": "Authorization", "format": "Bearer {}"}
PLACEHOLDER = {"name": "API", "as": "broker", "host": "api.test", "variable": "API_KEY"}

# `ask`: by the trust that the sandbox itself has → (status, head, body); redirects are not followed.
ASK = r'''
import http.client, urllib.error, urllib.request
def ask(host, path="/", method="GET", body=None, **headers):
    connection = http.client.HTTPSConnection(host, timeout=10, context=ssl.create_default_context())
    connection.request(method, path, body=body, headers={name.replace("_", "-"): value for name, value in headers.items()})
    answer = connection.getresponse()
    return answer.status, answer.getheaders(), answer.read().decode("latin-1")
'''


def setUpModule():
    start_world(h2=shutil.which("node") is not None)


def new_value():
    return "v-" + os.urandom(16).hex()


class Inspection(EgressCase):
    DOCUMENT = DOCUMENT

    @classmethod
    def setUpClass(cls):
        cls.EGRESS = f"  ca_file: {cls.world.directory}/ca.pem\n"
        super().setUpClass()

    def ask(self, code, **request):
        """Runs a program that may ask() → (execution, its attempts)."""
        return self.reach(ASK + code, **request)

    def requests(self, host):
        """The requests that arrived at the host: (method, target, headers by name in lower case)."""
        return [(each["method"], each["target"], {name.lower(): value for name, value in each["headers"]})
                for each in self.world.of(self.events(), "http", host=host)]

    def has_none(self, done, value):
        """Neither the result nor anything that the service keeps has the value."""
        self.assertNotIn(value, json.dumps(done))
        self.assertNotIn(value, self.call("GET", f"/v1/executions/{done['id']}", status=200).text)
        self.assertNotIn(value, self.call("GET", "/v1/audit?limit=500", status=200).text)
        self.assertNotIn(value, self.server.log.read_text())
        self.assertEqual(holders(self.server.state, value.encode()), set())

    def test_clients_work_by_the_sandboxs_own_trust(self):
        if shutil.which("node") is None or not harness.have_language(self.server, "node"):
            self.skipTest("the toolchain of node is not on this machine")
        script = ("set -e\ncurl -sSf -w '%{http_version}\\n' https://allowed.test/\ncurl -sSf https://h2.test/\ncurl -sSf --http1.1 https://h2.test/\n"
                  "python3 -c 'import urllib.request as r; print(r.urlopen(\"https://allowed.test/\").read().decode(), end=\"\")'\n"
                  "node -e \"fetch('https://allowed.test/').then(a => a.text()).then(t => process.stdout.write(t))\"\n")
        done = self.run_code(script, "bash", network_policy={"tier": "restricted"}, artifacts=[], timeout_seconds=60)
        self.assertEqual(done["stdout"], "hello from allowed.test\n1.1\nhello from h2.test by HTTP/2.0\nhello from h2.test by HTTP/1.1\n"
                         "hello from allowed.test\nhello from allowed.test\n", (done["stderr"], done["network"]))
        self.assertEqual(done["network"]["denied"], [])
        self.assertEqual(len(self.requests("allowed.test")), 3)

    def test_methods_and_paths_are_judged(self):
        code = ("for name, more in (('good', {'path': '/v1/x?q=1'}), ('method', {'path': '/v1/x', 'method': 'DELETE'}), ('path', {'path': '/v2/x'}),\n"
                "                   ('around', {'path': '/v1/../v2'}), ('other', {'path': '/v1/x', 'Host': 'evil.test'}),\n"
                "                   ('field', {'path': '/v1/x', 'X_HTTP_Method_Override': 'DELETE'})):\n"
                "    attempt(name, lambda: ask('allowed.test', **more)[0])\n")
        done, tried = self.ask(code)
        self.assertEqual({name: told["said"] for name, told in tried.items()},
                         {"good": "200", "method": "403", "path": "403", "around": "403", "other": "421",
                          "field": "403"}, tried)
        self.assertEqual([each[:2] for each in self.requests("allowed.test")], [("GET", "/v1/x?q=1")])
        self.assertEqual(self.world.of(self.events(), "http", host="evil.test"), [])
        self.assertTrue([row for row in done["network"]["denied"] if row["host"] == "allowed.test"], done["network"])

    def test_explain_judges_the_requests_too(self):
        asked = {("GET", "/v1/x"): True, ("DELETE", "/v1/x"): False, ("GET", "/v2/x"): False, ("GET", "/v1/../v2"): False}
        for (method, path), allowed in asked.items():
            told = self.call("POST", "/v1/egress:explain", {"url": f"https://allowed.test{path}", "method": method}, status=200).json()
            self.assertEqual(told["allowed"], allowed, (method, path, told))

    def test_requests_of_http_2_are_judged(self):
        if shutil.which("node") is None:
            self.skipTest("the toolchain of node is not on this machine")
        done = self.run_code("for m in GET DELETE; do curl -sS -o /dev/null -w '%{http_version} %{http_code}\\n' -X $m https://h2.test/; done",
                             "bash", network_policy={"tier": "restricted"}, artifacts=[])
        self.assertEqual(done["stdout"], "2 200\n2 403\n", done["network"])
        self.assertEqual([each["method"] for each in self.world.of(self.events(), "h2", host="h2.test")], ["GET"])

    def test_a_brokered_secret_arrives_at_its_host_alone(self):
        value = new_value()
        self.call("PUT", "/v1/secrets/API", {"value": value}, status=200)
        code = r'''
attempt("there", lambda: ask("api.test", "/v1")[0])
attempt("elsewhere", lambda: ask("allowed.test", "/echo")[0])
attempt("own", lambda: ask("api.test", "/own", Authorization="mine")[0])
for how in ("plain", "base64", "hex", "url"): print("body:", ask("api.test", "/reflect?as=" + how)[2])
print("head:", ask("api.test", "/reflect?in=head")[1])
print("echo:", ask("api.test", "/echo")[2])
print("environment:", dict(os.environ))
for process in os.listdir("/proc"):
    if not process.isdigit(): continue
    for name in ("environ", "cmdline"):
        with contextlib.suppress(OSError): print(open(f"/proc/{process}/{name}", "rb").read())
'''
        done, tried = self.ask(code, secrets=[HEADER])
        self.assertEqual({name: told["said"] for name, told in tried.items()}, dict.fromkeys(("there", "elsewhere", "own"), "200"), tried)
        arrived = self.requests("api.test")
        self.assertEqual({each[2].get("authorization") for each in arrived}, {"Bearer " + value})
        self.assertEqual(len(arrived), 8)
        self.assertEqual([each[2].get("authorization") for each in self.requests("allowed.test")], [None])
        self.assertNotIn(value, json.dumps([each for each in self.events() if each.get("host") != "api.test"]))
        lines = {line.split(": ")[0]: line for line in done["stdout"].splitlines() if line.startswith(("head", "echo"))}
        self.assertEqual(lines["head"].count("[secret API]"), 2, lines)
        self.assertIn("[secret API]", lines["echo"])
        self.assertGreaterEqual(done["stdout"].count("[secret API]"), 7, done["stdout"])
        self.assertNotIn(value.encode().hex(), done["stdout"])
        self.has_none(done, value)

    def test_a_programs_own_redaction_is_not_what_hides_it(self):
        """The value is replaced at the door already: its digest inside is another."""
        value = new_value()
        self.call("PUT", "/v1/secrets/API", {"value": value}, status=200)
        done, _ = self.ask("text = ask('api.test', '/reflect')[2]\nprint([len(line) for line in text.split('\\n') if 'uthorization' in line])",
                           secrets=[HEADER])
        self.assertEqual(done["stdout"], f"[{len('Authorization: Bearer [secret API]')}]\n")

    def test_p49_memory_has_none(self):
        """A program that knows half of the value, and a digest of the rest, searches the memory of every process that it can read."""
        value = new_value()
        self.call("PUT", "/v1/secrets/API", {"value": value}, status=200)
        code = rf'''
import gzip, hashlib, re
for how in ("plain", "base64", "hex", "url"): ask("api.test", "/reflect?as=" + how)
ask("api.test", "/own", Authorization="mine")
half, rest = "{value[:16][::-1]}", "{hashlib.sha256(value[16:].encode()).hexdigest()}"
pattern = re.compile(half[::-1].encode() + rb"([0-9a-z]{{{len(value) - 16}}})")
own = half[::-1].encode() + b"0" * {len(value) - 16}  # so the search is seen to find
looked, matches, hits = 0, 0, 0
for process in filter(str.isdigit, os.listdir("/proc")):
    with contextlib.suppress(OSError), open(f"/proc/{{process}}/maps") as maps, open(f"/proc/{{process}}/mem", "rb", 0) as memory:
        for line in maps:
            begin, end = (int(each, 16) for each in line.split()[0].split("-"))
            if " r" not in line[:40] or end - begin > 1 << 28: continue
            with contextlib.suppress(OSError, ValueError, OverflowError):
                memory.seek(begin)
                data = memory.read(end - begin)
                looked += len(data)
                for found in pattern.findall(data):
                    matches += 1
                    hits += hashlib.sha256(found).hexdigest() == rest
print("looked", looked > 1 << 20, matches > 0, hits)
sys.stdout.flush()
with open("out.gz", "wb") as file: file.write(gzip.compress(ask("api.test", "/reflect")[2].encode()))
'''
        done = self.run_code(self.text(ASK + code), network_policy={"tier": "restricted"}, secrets=[HEADER], artifacts=["out.gz"],
                             timeout_seconds=60)
        self.assertEqual(done["exit_code"], 0, done)
        self.assertIn("looked True True 0\n", done["stdout"])
        kept = self.call("GET", f"/v1/artifacts/{done['artifacts'][0]['id']}/content").body
        self.assertNotIn(value.encode(), gzip.decompress(kept))
        self.has_none(done, value)

    def test_p49_snapshots_have_none(self):
        value = new_value()
        self.call("PUT", "/v1/secrets/API", {"value": value}, status=200)
        with Session(self.server, self.call, language="python", network_policy={"tier": "restricted"}, secrets=[HEADER]) as session:
            session.exec(self.text(ASK + "open('seen.txt', 'w').write(str(ask('api.test', '/echo')))"))
            taken = session.call("POST", "/snapshots", {}, status=201).json()
        self.assertEqual([each[2].get("authorization") for each in self.requests("api.test")], ["Bearer " + value])
        with Session(self.server, self.call, language="python", from_snapshot=taken["id"]) as fork:
            seen = fork.exec("print(open('seen.txt').read())")["stdout"]
        self.assertIn("[secret API]", seen)
        self.assertNotIn(value, seen)
        self.assertEqual(holders(self.server.state, value.encode()), set())

    def test_java_trusts_the_sandboxs_authority(self):
        if shutil.which("javac") is None or not harness.have_language(self.server, "java"):
            self.skipTest("the toolchain of java is not on this machine")
        code = ("import java.net.*; import java.io.*;\npublic class Main { public static void main(String[] a) throws Exception {\n"
                "  try (InputStream in = new URL(\"https://allowed.test/v1/java\").openStream()) { System.out.print(new String(in.readAllBytes())); }\n"
                "} }\n")
        done = self.run_code(code, "java", network_policy={"tier": "restricted"}, artifacts=[], timeout_seconds=60, memory_mb=1024)
        self.assertEqual(done["stdout"], "hello from allowed.test\n", done)
        self.assertEqual([each[:2] for each in self.requests("allowed.test")], [("GET", "/v1/java")])

    def test_a_placeholder_works_at_its_host_and_nowhere_else(self):
        value = new_value()
        self.call("PUT", "/v1/secrets/API", {"value": value}, status=200)
        code = r'''
import base64
sign = os.environ["API_KEY"]
basic = "Basic " + base64.b64encode(("user:" + sign).encode()).decode()
attempt("header", lambda: ask("api.test", X_Key="k " + sign)[0])
attempt("basic", lambda: ask("api.test", Authorization=basic)[0])
attempt("path", lambda: ask("api.test", "/" + sign)[0])
attempt("body", lambda: ask("api.test", "/", "POST", "here: " + sign)[0])
attempt("other", lambda: ask("allowed.test", X_Key=sign)[0])
attempt("tcp", lambda: answer(dial("api.test", 9000), sign.encode()))
attempt("name", lambda: socket.gethostbyname(sign + ".allowed.test"))
'''
        done, tried = self.ask(code, secrets=[PLACEHOLDER])
        self.assertEqual({name: told["said"] for name, told in tried.items() if name not in ("tcp", "name")},
                         {"header": "200", "basic": "200", "path": "403", "body": "403", "other": "403"}, tried)
        self.assertEqual((tried["tcp"]["ok"], tried["name"]["ok"]), (False, False), tried)
        arrived = [each for each in self.requests("api.test") if each[1] == "/" and each[0] == "GET"]
        self.assertEqual(arrived[0][2]["x-key"], "k " + value)
        self.assertEqual(len(arrived), 2)
        self.assertEqual(self.requests("allowed.test"), [])
        rules = [(row["host"], row["rule"]) for row in done["network"]["denied"]]
        for host in ("api.test", "allowed.test"):
            self.assertIn((host, "secret-placeholder"), rules, done["network"])
        self.has_none(done, value)

    def test_a_session_shares_it(self):
        value = new_value()
        self.call("PUT", "/v1/secrets/API", {"value": value}, status=200)
        with Session(self.server, self.call, language="python", network_policy={"tier": "restricted"}, secrets=[HEADER]) as session:
            for _ in range(2):
                told = session.exec(self.text(ASK + "print(ask('api.test', '/echo')[2])"))
                self.assertIn("[secret API]", told["stdout"], told)
                self.assertNotIn(value, json.dumps(told))
        self.assertEqual([each[2].get("authorization") for each in self.requests("api.test")], ["Bearer " + value] * 2)

    def test_a_sandbox_of_gvisor(self):
        if not os.path.exists(RUNSC):
            self.skipTest(f"no {RUNSC}: install Debian's from backports")
        value = new_value()
        self.call("PUT", "/v1/secrets/API", {"value": value}, status=200)
        done, _ = self.ask("print(ask('api.test', '/echo')[2])", secrets=[HEADER], runtime="gvisor", timeout_seconds=30)
        self.assertEqual(done["provenance"]["runtime"], "gvisor")
        self.assertIn("[secret API]", done["stdout"])
        self.assertEqual([each[2].get("authorization") for each in self.requests("api.test")], ["Bearer " + value])
        self.has_none(done, value)

    def test_a_pinned_client_is_named(self):
        done, tried = self.reach("attempt('it', fetch, 'allowed.test')")
        self.assertFalse(tried["it"]["ok"])
        self.assertIn("does not accept the certificate", self.denied(done, "allowed.test", 443)["reason"])
        self.assertEqual(self.requests("allowed.test"), [])

    def test_a_server_with_a_wrong_certificate_is_refused(self):
        done, tried = self.ask("attempt('it', lambda: ask('uncertified.test')[0])")
        self.assertFalse(tried["it"]["ok"])
        self.assertIn("The certificate of uncertified.test is not accepted", self.denied(done, "uncertified.test", 443)["reason"])
        self.assertEqual(self.requests("uncertified.test"), [])
        self.assertEqual(self.world.of(self.events(), "http", address=zone.ALLOWED), [])

    def test_all_else_is_not_read(self):
        """A name without `inspect` has its server's own certificate, and a program without inspected names no other trust."""
        value = new_value()
        self.call("PUT", "/v1/secrets/API", {"value": value}, status=200)
        _, tried = self.reach("attempt('beside', fetch, 'sub.allowed.test')", secrets=[HEADER])
        self.assertTrue(tried["beside"]["ok"], tried)
        self.apply(door("allowed.test:443"))
        done, tried = self.reach("attempt('it', fetch, 'allowed.test')\nprint('trust', os.environ.get('SSL_CERT_FILE'))")
        self.assertTrue(tried["it"]["ok"], tried)
        self.assertIn("trust None", done["stdout"])


if __name__ == "__main__":
    unittest.main()
