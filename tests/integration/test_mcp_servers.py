#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""MCP servers hosted in sandboxes: an official server from npm, used through /mcp, and servers that end, flood, hang or look
for a network. Each is contained, and the next call has a fresh one."""

import contextlib
import json
import pathlib
import subprocess
import tempfile
import unittest

import harness
import mcp_client
import npm_packages
from mcp_client import McpError, text_of
from package_registry import Registry

EVERYTHING = "@modelcontextprotocol/server-everything"
CONFIG = """mcp:
  servers:
    per_tenant: 8
    running: 5
    running_per_agent: 3
    start_seconds: {start}
    call_seconds: 3
    idle_seconds: {idle}
    message_bytes: 65536
    tools: 9
    starts_per_minute: 4
packages:
  npm:
    registry: {registry}
  rules:
    undated: allow
"""
# A server in a few lines; CALL answers tools/call with a text.
SERVER = """
import json, os, sys, time
def say(**message): print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)
def text(value): return {"content": [{"type": "text", "text": str(value)}, {"type": "odd"}], "_meta": {"x": 1}}
TOOLS = [{"name": name, "description": "d" * 9000, "inputSchema": {"type": "object"}, "outputSchema": {"type": "object"}} for name in %s]
state = 0
for line in sys.stdin:
    message = json.loads(line)
    method, ident, params = message.get("method"), message.get("id"), message.get("params", {})
    if method == "initialize":
        say(id=ident, result={"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": {"name": "t", "version": "1"}})
    elif method == "tools/list": say(id=ident, result={"tools": TOOLS})
    elif method == "tools/call":
        state += 1
        name, given = params["name"], params["arguments"]
        %s
"""


def program(call, tools=("act",)):
    body = SERVER % (json.dumps(list(tools)), call.replace("\n", "\n        "))
    return ["python3", "-c", body]


def npm_package(registry, root):
    """The official server as one file and its texts, as a package of the test's own registry."""
    package = root / "node_modules" / EVERYTHING
    with tempfile.TemporaryDirectory() as folder:
        whole = pathlib.Path(folder) / "index.js"
        subprocess.run(["esbuild", package / "dist/index.js", "--bundle", "--platform=node", "--format=esm", f"--outfile={whole}",
                        "--log-level=error",
                        "--banner:js=import m from 'node:module'; const require = m.createRequire(import.meta.url);"],
                       check=True, timeout=60)
        files = {"dist/index.js": whole.read_text()}
    for path in (package / "dist/docs").rglob("*.md"):
        files[f"dist/docs/{path.relative_to(package / 'dist/docs')}"] = path.read_text()
    registry.npm(EVERYTHING, "2026.8.31", files,
                 manifest={"bin": {"mcp-server-everything": "dist/index.js"}, "type": "module"})


def setUpModule():
    packages = npm_packages.Packages("letta").need()
    registry = unittest.enterModuleContext(Registry())
    npm_package(registry, packages.root)
    Case.server = unittest.enterModuleContext(harness.Server(CONFIG.format(registry=f"{registry.url}/npm/", idle=600, start=10)))


class Case(unittest.TestCase):
    server = None

    def setUp(self):
        name = self.id().rpartition(".")[2].replace("_", "-")[:50]
        self.key = self.new_key("t-" + name)

    def new_key(self, tenant, **more):
        answer = self.server.request("POST", "/v1/keys", {"tenant": tenant, "name": "test", **more})
        self.assertEqual(answer.status, 201, answer.body)
        return answer.json()["secret"]

    def add(self, name, command, status=201, key=None, **more):
        answer = self.server.request("POST", "/v1/mcp-servers", {"name": name, "command": command, **more}, key=key or self.key)
        self.addCleanup(self.remove, name, key or self.key)
        self.assertEqual(answer.status, status, answer.body)
        return answer.json()

    def remove(self, name, key):
        with contextlib.suppress(OSError):  # a test's own server has ended before
            self.server.request("DELETE", f"/v1/mcp-servers/{name}", key=key)

    def running(self, name, *args, **more):
        made = self.add(name, *args, **more)
        self.assertEqual((made["status"], made["error"]), ("running", None), made)
        return made

    def listed(self, key=None):
        answer = self.server.request("GET", "/v1/mcp-servers", key=key or self.key)
        self.assertEqual(answer.status, 200, answer.body)
        return {each["name"]: each for each in answer.json()["mcp_servers"]}

    def client(self, era="modern", key=None):
        return self.enterContext(mcp_client.connect(self.server, era, "http", key=key or self.key))

    def says(self, client, tool, **arguments):
        done = client.tool(tool, **arguments)
        self.assertFalse(done["isError"], done)
        return text_of(done)

    def fails(self, client, tool, text, **arguments):
        done = client.tool(tool, **arguments)
        self.assertTrue(done["isError"], done)
        self.assertIn(text, text_of(done))


class Official(Case):
    def test_a_server_from_npm_is_used_through_ours(self):
        made = self.running("everything", ["mcp-server-everything"], language="node", deps=[f"{EVERYTHING}@2026.8.31"], pids=128)
        self.assertEqual(len(made["tools"]), 9, "mcp.servers.tools bounds them")
        for era in ("modern", "legacy"):
            client = self.client(era)
            tools = {each["name"]: each for each in client.call("tools/list")["tools"]}
            self.assertIn("run", tools)
            echo = tools["everything__echo"]
            self.assertEqual(list(echo["inputSchema"]["properties"]), ["message"])
            self.assertEqual(self.says(client, "everything__echo", message=f"hello {era}"), f"Echo: hello {era}")
            self.assertIn("42", self.says(client, "everything__get-sum", a=40, b=2))
        environment = json.loads(self.says(client, "everything__get-env"))
        self.assertNotIn(self.key, json.dumps(environment))
        session = self.listed()["everything"]["session_id"]
        answer = self.server.request("GET", f"/v1/sessions/{session}", key=self.key).json()
        self.assertEqual((answer["metadata"]["mcp_server"], answer["metadata"]["tool_type"]), ("everything", "mcp_stdio"))
        rows = self.server.request("GET", "/v1/audit?action=mcp_server.called&limit=100&order=newest").json()["entries"]
        called = [each for each in rows if each["details"]["name"] == "everything"]
        self.assertEqual({each["details"]["tool"] for each in called}, {"echo", "get-sum", "get-env"})
        with self.assertRaises(McpError):
            client.tool("everything__no-such-tool")
        self.assertEqual(self.server.request("DELETE", "/v1/mcp-servers/everything", key=self.key).status, 204)
        self.assertEqual(self.server.request("GET", f"/v1/sessions/{session}", key=self.key).json()["status"], "ended")
        self.assertNotIn("everything__echo", json.dumps(client.call("tools/list")))

    def test_the_command_line(self):
        env = {"CLOISTER_API_KEY": self.key}
        added = self.server.cli("mcp-server", "add", "mine", "--env", "TOKEN=secret-value", "--", *program("say(id=ident, result=text(1))"), env=env)
        self.assertEqual((added.returncode, added.stdout), (0, "mine: running, 1 tools\n"), added)
        shown = self.server.cli("mcp-server", "list", env=env)
        self.assertIn("mine", shown.stdout)
        self.assertNotIn("secret-value", shown.stdout)
        self.assertEqual(self.server.cli("mcp-server", "rm", "mine", env=env).returncode, 0)
        self.assertEqual(self.listed(), {})


class Definitions(Case):
    def test_bad_ones_are_named(self):
        good = program("say(id=ident, result=text(1))")
        for body, field in (({"name": "A", "command": good}, "name"), ({"name": "a_b", "command": good}, "name"),
                            ({"name": "a", "command": []}, "command"), ({"name": "a", "command": "sh"}, "command"),
                            ({"name": "a", "command": [""]}, "command[0]"), ({"name": "a", "command": good, "ttl_seconds": 5}, "ttl_seconds"),
                            ({"name": "a", "command": good, "memory": 5}, "memory")):
            answer = self.server.request("POST", "/v1/mcp-servers", body, key=self.key)
            self.assertEqual((answer.status, answer.json()["error"]["details"].get("field")), (422, field), answer.body)
        self.running("twice", good)
        self.add("twice", good, status=409)
        failed = self.add("absent", ["no-such-program"])
        self.assertEqual((failed["status"], "no program no-such-program" in failed["error"]), ("stopped", True), failed)
        for i in range(6):
            self.add(f"more-{i}", ["no-such-program"])
        self.add("too-many", good, status=429)

    def test_what_is_told_is_reduced(self):
        self.running("plain", program("say(id=ident, result=text(state))", tools=["act", "bad name", "x" * 100]), env={"TOKEN": "secret-value"})
        client = self.client()
        tools = [each for each in client.call("tools/list")["tools"] if "__" in each["name"]]
        self.assertEqual([each["name"] for each in tools], ["plain__act"])
        self.assertEqual((len(tools[0]["description"]), "outputSchema" in tools[0]), (4096, False))
        done = client.tool("plain__act")
        self.assertEqual(done["content"], [{"type": "text", "text": "1"}])
        self.assertNotIn("x", done["_meta"])
        self.assertEqual(self.says(client, "plain__act"), "2", "it keeps its state between calls")
        self.assertEqual(self.listed()["plain"]["env"], {"TOKEN": None})

    def test_tools_may_change(self):
        self.running("grows", program("TOOLS.append({**TOOLS[0], 'name': f'more{state}'})\n"
                                      "say(method='notifications/tools/list_changed')\nsay(id=ident, result=text(state))"))
        client = self.client()
        self.assertEqual(self.says(client, "grows__act"), "1")
        self.assertIn("grows__more1", json.dumps(client.call("tools/list")))
        self.assertEqual(self.says(client, "grows__more1"), "2")

    def test_each_agent_has_its_own(self):
        self.running("shared", program("say(id=ident, result=text(state))"))
        tenant = "t-" + self.id().rpartition(".")[2].replace("_", "-")[:50]
        one, two = (self.new_key(tenant, agent=each) for each in ("one", "two"))
        self.assertEqual([self.says(self.client(key=each), "shared__act") for each in (one, two)], ["1", "1"])
        self.assertEqual(self.says(self.client(key=one), "shared__act"), "2")
        self.running("private", program("say(id=ident, result=text(1))"), key=one)
        self.assertEqual(list(self.listed(two)), ["shared"])
        self.assertEqual(self.server.request("DELETE", "/v1/mcp-servers/private", key=two).status, 404)
        self.assertEqual(self.server.request("DELETE", "/v1/mcp-servers/shared", key=two).status, 404)
        with self.assertRaises(McpError):
            self.client(key=two).tool("private__act")
        other = self.new_key("globex")
        self.assertEqual(self.listed(other), {})
        self.assertEqual(self.server.request("DELETE", "/v1/mcp-servers/shared", key=other).status, 404)


class Hostile(Case):
    def test_a_crash_is_contained_and_the_next_call_has_a_fresh_one(self):
        self.running("crash", program("if given: os._exit(3)\nsay(id=ident, result=text(state))"))
        client = self.client()
        first = self.listed()["crash"]["session_id"]
        self.assertEqual(self.says(client, "crash__act"), "1")
        self.fails(client, "crash__act", "it ended", now=True)
        self.assertEqual(self.says(client, "crash__act"), "1", "a fresh one, without the state of the former")
        after = self.listed()["crash"]
        self.assertEqual((after["status"], after["starts"]), ("running", 2))
        self.assertNotEqual(after["session_id"], first)
        self.assertEqual(self.server.request("GET", f"/v1/sessions/{first}", key=self.key).json()["status"], "ended")
        for _ in range(2):
            self.fails(client, "crash__act", "it ended", now=True)
            self.says(client, "crash__act")
        self.fails(client, "crash__act", "it ended", now=True)
        self.fails(client, "crash__act", "mcp.servers.starts_per_minute")

    def test_floods_end_it(self):
        calls = {"long": "sys.stdout.write('x' * 200000); sys.stdout.flush(); time.sleep(60)",
                 "many": "while True: say(method='notifications/message', params={'data': 'x' * 500})",
                 "noise": "while True: print('x' * 500)",
                 "big": "say(id=ident, result=text('x' * 70000))"}
        for name, call in calls.items():
            with self.subTest(flood=name):
                self.running(name, program(call))
                self.fails(self.client(), f"{name}__act", "message_bytes")
                harness.wait_for("its end", lambda: self.listed()[name]["status"] == "stopped")
        self.assertEqual(self.server.run("print(1)")["stdout"], "1\n")

    def test_one_that_does_not_answer_is_given_up(self):
        self.running("hang", program("if given: time.sleep(60)\nsay(id=ident, result=text(1))"))
        self.fails(self.client(), "hang__act", "no answer to tools/call in time: ", now=True)
        mute = self.add("mute", ["sleep", "60"])
        self.assertEqual((mute["status"], "no answer to initialize in time" in mute["error"]), ("stopped", True), mute)

    def test_it_has_no_network_and_no_secret(self):
        look = ("import socket, urllib.request\n"
                "found = [dict(os.environ)]\n"
                "for address in (('10.0.0.1', 80), ('127.0.0.1', %d)):\n"
                "    try: socket.create_connection(address, 2); found.append('REACHED %%s' %% (address,))\n"
                "    except OSError as e: found.append(str(e))\n"
                "say(id=ident, result=text(json.dumps(found)))") % self.server.port
        self.running("looks", program(look))
        told = self.says(self.client(), "looks__act")
        self.assertNotIn("REACHED", told)
        self.assertNotIn(self.key, told)
        self.assertNotIn("clo_", told)

    def test_its_answers_to_others_requests_count_for_nothing(self):
        self.running("forge", program("for i in range(1, 50): say(id=i + 1000, result=text('forged'))\nsay(id='x', result=text('forged'))\n"
                                      "say(id=7, method='sampling/createMessage', params={})\nsay(id=ident, result=text('true'))"))
        self.assertEqual(self.says(self.client(), "forge__act"), "true")

    def test_places_are_bounded(self):
        call = program("say(id=ident, result=text(state))")
        for i in range(4):
            self.running(f"s{i}", call)
        states = [self.listed()[f"s{i}"]["status"] for i in range(4)]
        self.assertEqual(states, ["stopped", "running", "running", "running"], "mcp.servers.running_per_agent")
        others = [self.new_key(f"others-{i}") for i in range(2)]
        for key in others:
            self.running("one", call, key=key)
        self.assertEqual(self.says(self.client(), "s1__act"), "1")
        third = self.new_key("others-2")
        refused = self.add("one", call, key=third)
        self.assertEqual((refused["status"], "(mcp.servers.running)" in refused["error"]), ("stopped", True), refused)
        self.fails(self.client(key=third), "one__act", "mcp.servers.running")


class Idle(Case):
    def test_it_stops_when_idle_and_starts_again(self):
        with harness.Server(CONFIG.format(registry="http://127.0.0.1:9/", idle=1, start=8)) as server:
            Idle.server = server
            self.key = self.new_key("acme")
            self.running("idle", program("say(id=ident, result=text(state))"))
            harness.wait_for("its stop", lambda: self.listed()["idle"]["status"] == "stopped")
            self.assertIsNone(self.listed()["idle"]["error"])
            self.assertEqual(self.says(self.client(), "idle__act"), "1")
            mute = self.add("mute", ["sleep", "60"])
            self.assertIn("no answer to initialize in time: 8 s by mcp.servers.start_seconds", mute["error"])


if __name__ == "__main__":
    unittest.main()
