# SPDX-License-Identifier: Apache-2.0
"""P49, as far as programs have a value: a program with a secret tries to get it past the service into output, artifacts,
errors, records, snapshots, other programs and other tenants."""

import base64
import json
import os
import pathlib
import tempfile
import unittest

from hostile import AS_USER, HostileTest, harness
from session_case import Session
from test_at_rest import holders

POLICY = """
version: 2
rules:
  - {name: work, why: tests, effect: allow, secrets: [{name: "*", as: [env, file]}]}
"""

# Seven codings, in every way of writing: at once, byte by byte, over both streams, and far behind other output.
SPELL = r"""
import base64, json, os, sys, time, urllib.parse
v = os.environ["K"].encode()
t = v.decode()
SPELLINGS = [v, *(base64.b64encode(b"-" * n + v) for n in range(3)), *(base64.urlsafe_b64encode(b"-" * n + v + b"?") for n in range(3)),
             v.hex().encode(), v.hex().upper().encode(), b" ".join(b"%02x" % b for b in v), b"".join(b"\\x%02x" % b for b in v),
             urllib.parse.quote(t, safe="").encode(), urllib.parse.quote_plus(t).encode(), b"".join(b"%%%02x" % b for b in v),
             json.dumps(t).encode(), "".join("\\u%04x" % ord(c) for c in t).encode(), t.encode("utf-16-le"), t.encode("utf-16-be"),
             base64.encodebytes(v * 3), b"\n".join(base64.b64encode(v)[n:n + 7] for n in range(0, 80, 7))]
def write(fd, data):
    while data: data = data[os.write(fd, data):]
"""
SPLIT = SPELL + r"""
for s in SPELLINGS:
    for cut in (1, 5, len(s) // 2, len(s) - 1):
        write(1, b"<" + s[:cut]); time.sleep(0.002); write(1, s[cut:] + b">\n")
    for byte in s: os.write(2, bytes([byte]))
    write(2, b"\n")
"""
FAR = SPELL + r"""
write(1, b"x" * 300_000)
for s in SPELLINGS: write(1, s + b"\n")
write(1, b"y" * 2_000_000 + v)
"""
FILES = SPELL + r"""
for n, s in enumerate(SPELLINGS):
    with open(f"f{n}", "wb") as file: file.write(b"z" * (65_530 * (n % 2)) + s)
os.mkdir("in"); open("in/" + t, "w").write("its name")
"""


class Secrets(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = cls.enterClassContext(tempfile.TemporaryDirectory())
        os.chmod(folder, 0o755)
        policy = pathlib.Path(folder, "policy.yaml")
        policy.write_text(POLICY)
        config = f"policy: {policy}\n" + (HostileTest.CONFIG or "")
        cls.server = cls.enterClassContext(harness.Server(config, user=AS_USER))
        cls.keys = {}
        for name, tenant, role, agent in (("admin", "acme", "tenant-admin", ""), ("alice", "acme", "agent", "alice"),
                                          ("bob", "acme", "agent", "bob"), ("mallory", "rival", "agent", "alice")):
            made = cls.server.request("POST", "/v1/keys", {"tenant": tenant, "name": name, "roles": [role],
                                                           **({"agent": agent} if agent else {})})
            assert made.status == 201, made.text
            cls.keys[name] = made.json()["secret"]

    def setUp(self):
        self.value = "S" + base64.b85encode(os.urandom(24)).decode() + "/+ é"
        answer = self.server.request("PUT", "/v1/secrets/K", {"value": self.value}, key=self.keys["admin"])
        self.assertEqual(answer.status, 200, answer.text)

    def run_with(self, code, **request):
        answer = self.server.request("POST", "/v1/executions?wait=60", HostileTest.in_runtime(
            {"language": "python", "code": code, "secrets": [{"name": "K", "as": "env"}], **request}), key=self.keys["alice"])
        self.assertIn(answer.status, (200, 201), answer.text)
        return answer.json()

    def spellings(self):
        value = self.value.encode()
        yield value
        yield value.hex().encode()
        yield value.hex().upper().encode()
        for skip in range(3):
            yield base64.b64encode(b"-" * skip + value)[4:-4]
        yield self.value.encode("utf-16-le")
        yield self.value.encode("utf-16-be")

    def nowhere_in(self, data, where):
        data = data.encode() if isinstance(data, str) else data
        squeezed = data.replace(b"\n", b"").replace(b" ", b"")
        for each in self.spellings():
            self.assertNotIn(each, data, where)
            self.assertNotIn(each.replace(b" ", b""), squeezed, where)

    def everything_of(self, execution):
        """All that the service shows of an execution: to its agent, and to the administrator."""
        id = execution["id"]
        for path in (f"/v1/executions/{id}", f"/v1/executions/{id}/events", f"/v1/executions/{id}/receipt"):
            yield path, self.server.request("GET", path, key=self.keys["alice"]).body
        for artifact in execution["artifacts"]:
            yield artifact["path"], self.server.request("GET", f"/v1/artifacts/{artifact['id']}/content", key=self.keys["alice"]).body
            yield "a name", artifact["path"].encode()
        yield "the audit log", self.server.request("GET", "/v1/audit?limit=500").body

    def nothing_of_it(self, execution):
        for where, data in self.everything_of(execution):
            self.nowhere_in(data, where)
            self.nowhere_in(json.dumps(json.loads(data), ensure_ascii=False) if data[:1] == b"{" else data, where)
        self.assertEqual(holders(self.server.state, self.value.encode()), set())
        self.nowhere_in("".join(self.server.log_tail(5000)), "the service's log")

    def test_p49_output_in_pieces(self):
        done = self.run_with(SPLIT)
        self.assertEqual(done["exit_code"], 0, done["stderr"][-500:])
        self.assertGreater(done["stdout"].count("[secret K]"), 70)
        self.nothing_of_it(done)

    def test_p49_output_beyond_the_result(self):
        done = self.run_with(FAR)
        self.assertTrue(done["artifacts"], "the whole of the output")
        self.nothing_of_it(done)

    def test_p49_artifacts(self):
        done = self.run_with(FILES, artifacts=["**"])
        self.assertEqual([each["path"] for each in done["artifacts"]], [])
        self.assertIn("has the secret K", done["error"]["message"])
        self.nothing_of_it(done)

    def test_p49_errors(self):
        for code in (SPELL + "os.execvp(t, [t])", SPELL + "raise ValueError(t)", SPELL + "sys.exit(t)"):
            done = self.run_with(code)
            self.assertNotEqual(done["exit_code"], 0)
            self.nothing_of_it(done)

    def test_p49_sessions_and_snapshots(self):
        with Session(self.server, key=self.keys["alice"], language="python") as session:
            uses = [{"name": "K", "as": "env"}, {"name": "K", "as": "file", "path": "/run/secrets/key"}]
            running = session.start("import time; print('up', flush=True); time.sleep(60)", secrets=uses)
            session.wait_output(running, "up")
            spied = session.exec("import glob, sys\nfor p in glob.glob('/proc/[0-9]*/environ') + ['/run/secrets/key']:\n"
                                 "    try: sys.stdout.buffer.write(open(p, 'rb').read())\n    except OSError: pass")
            self.nowhere_in(spied["stdout"], "another program of the session")
            taken = session.call("POST", "/snapshots", {}, status=201).json()
            session.cancel(running)
            self.nowhere_in(json.dumps(taken), "a snapshot's record")
        with Session(self.server, key=self.keys["alice"], language="python", from_snapshot=taken["id"]) as fork:
            found = fork.exec("import os\nfor b, _, n in os.walk('/workspace'):\n    for f in n: print(b, f, open(os.path.join(b, f)).read())\n"
                              "print(os.path.exists('/run/secrets/key'))", artifacts=[])
            self.assertIn("False", found["stdout"])
            self.nowhere_in(found["stdout"], "a session from the snapshot")
        self.assertEqual(holders(self.server.state, self.value.encode()), set())

    def test_p49_others(self):
        done = self.run_with("print(1)")
        for who, status in (("bob", 404), ("mallory", 404)):
            answer = self.server.request("GET", f"/v1/executions/{done['id']}", key=self.keys[who])
            self.assertEqual(answer.status, status)
        answer = self.server.request("POST", "/v1/executions", {"language": "python", "code": "1", "secrets": [{"name": "K", "as": "env"}]},
                                     key=self.keys["mallory"])
        self.assertEqual(answer.status, 422, answer.text)
        self.assertIn("is not there", answer.text)


if __name__ == "__main__":
    unittest.main()
