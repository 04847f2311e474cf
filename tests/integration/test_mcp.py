# SPDX-License-Identifier: Apache-2.0
"""The MCP server on the wire: both eras, both transports, every rule visible to a client. Needs no Node.js; the
test_mcp_*.py beside this file have the official suite and clients."""

import json
import tempfile
import unittest

import harness
import mcp_client
from mcp_client import META, MODERN, McpError, text_of

TOOLS = ["run", "create_session", "exec", "get_logs", "cancel", "upload", "download", "list_artifacts",
         "set_memory", "get_memory", "list_memory", "delete_memory", "list_sessions", "terminate"]
LEGACY_VERSIONS = ("2025-11-25", "2025-06-18", "2025-03-26")
# A program whose whole process tree has the marker as an argument.
TREE = "import subprocess, sys, time\nfor _ in range(3): subprocess.Popen(['sleep', '{0}'])\n" \
       "print('up', flush=True)\nsubprocess.run(['sleep', '{0}'])\n"


def setUpModule():
    Mcp.server = harness.Server()
    unittest.enterModuleContext(Mcp.server)
    Mcp.server.run("pass")


class Mcp(unittest.TestCase):
    server = None

    def client(self, era="modern", transport="http", **options):
        return self.enterContext(mcp_client.connect(self.server, era, transport, **options))

    def assertError(self, code, client, method, params=None, **options):
        with self.assertRaises(McpError) as caught:
            client.call(method, params, **options)
        self.assertEqual(caught.exception.code, code, caught.exception)
        return caught.exception


class Everywhere:
    """Tests for each era over each transport."""

    era, transport = None, None
    number = 0  # distinguishes concurrent runs

    def test_what_the_server_says_of_itself(self):
        client = self.client(self.era, self.transport)
        if client.era == "modern":
            about = client.call("server/discover")
            self.assertIn(MODERN, about["supportedVersions"])
            self.assertEqual(about["resultType"], "complete")
            self.assertGreaterEqual(about["ttlMs"], 0)
            self.assertIn(about["cacheScope"], ("public", "private"))
            self.assertEqual(about["_meta"][META + "serverInfo"]["name"], "cloister")
        else:
            about = client.initialized
            self.assertEqual(about["serverInfo"]["name"], "cloister")
            self.assertNotIn("resultType", about)
        self.assertIn("tools", about["capabilities"])
        self.assertIn("create_session", about["instructions"])

    def test_tools(self):
        client = self.client(self.era, self.transport)
        listed = client.call("tools/list")
        self.assertEqual([tool["name"] for tool in listed["tools"]], TOOLS)
        self.assertEqual("ttlMs" in listed, client.era == "modern")
        self.assertEqual(client.call("tools/list")["tools"], listed["tools"])
        self.assertEqual(self.client().call("tools/list")["tools"], listed["tools"], "the same everywhere")
        for tool in listed["tools"]:
            with self.subTest(tool=tool["name"]):
                self.assertGreater(len(tool["description"]), 60)
                for schema in (tool["inputSchema"], tool["outputSchema"]):
                    self.assertEqual(schema["type"], "object")
                    self.assertNotRegex(json.dumps(schema), r'"(anyOf|oneOf|allOf|\$ref)"')
                    self.assertNotIn("%", json.dumps(schema))
                self.assertLessEqual({"readOnlyHint", "destructiveHint"}, set(tool["annotations"]))

    def test_schemas_are_what_every_model_provider_takes(self):
        """OpenAI's strict mode, Gemini and Anthropic: closed sets of members, a single type each, no maps."""
        known = {"type", "description", "properties", "required", "items", "enum"}

        def check(schema, where):
            self.assertLessEqual(set(schema), known, where)
            self.assertIn(schema.get("type"), {"object", "array", "string", "integer", "number", "boolean"}, where)
            self.assertEqual(schema["type"] == "object", "properties" in schema, where)
            self.assertEqual(schema["type"] == "array", "items" in schema, where)
            self.assertLessEqual(set(schema.get("required", [])), set(schema.get("properties", {})), where)
            self.assertTrue(all(isinstance(each, str) for each in schema.get("enum", [])), where)
            for name, inner in schema.get("properties", {}).items():
                self.assertRegex(name, r"^[a-z_]{1,64}$")
                check(inner, f"{where}.{name}")
            if "items" in schema:
                check(schema["items"], where + "[]")

        tools = self.client(self.era, self.transport).call("tools/list")["tools"]
        for tool in tools:
            self.assertRegex(tool["name"], r"^[a-z_]{1,64}$")
            self.assertLessEqual(len(tool["description"]), 1024)
            check(tool["inputSchema"], tool["name"])
        self.assertLessEqual(sum(len(tool["inputSchema"]["properties"]) for tool in tools), 100)

    def test_what_is_empty_is_absent(self):
        client = self.client(self.era, self.transport)
        absent = {"command": None, "argv": [], "args": None, "input": "", "env": [], "network_policy": "", "session_id": "",
                  "timeout_seconds": None, "background": None, "idempotency_key": "", "deps": [], "approval": None}
        run = client.tool("run", language="python", code="print(1)", **absent)
        self.assertEqual((run["isError"], run["structuredContent"]["stdout"]), (False, "1\n"), run)
        made = client.tool("create_session", language="python", base_image="", env=None, cwd="", memory_mb=None)
        self.assertFalse(made["isError"], made)
        session = made["structuredContent"]["session_id"]
        done = client.tool("exec", session_id=session, command="echo $A$B", argv=[], cwd=None, env=["A=1", "B=x=y"])
        self.assertEqual(done["structuredContent"]["stdout"], "1x=y\n")
        as_map = client.tool("exec", session_id=session, argv=["sh", "-c", "echo $A"], command="", env={"A": "2"})
        self.assertEqual(as_map["structuredContent"]["stdout"], "2\n")
        for env, field in ((["A"], "env[0]"), (["A=1", "=2"], "env[1]"), (["A=1", "A=2"], "env[1]"), ([1], "env[0]")):
            refused = client.tool("exec", session_id=session, command="true", env=env)
            self.assertEqual((refused["isError"], refused["structuredContent"]["error"]["field"]), (True, field), refused)
        self.assertFalse(client.tool("upload", session_id=session, path="empty", content="", bytes="")["isError"])
        self.assertFalse(client.tool("upload", session_id=session, path="full", content="", bytes="eA==")["isError"])
        sizes = client.tool("exec", session_id=session, command="stat -c %s empty full")["structuredContent"]["stdout"]
        self.assertEqual(sizes, "0\n1\n")
        none = client.tool("run", language="bash", code="echo > left", artifacts=[])
        self.assertEqual(none["structuredContent"]["artifacts"], [])
        nothing = client.tool("run", language="python", code="")
        self.assertTrue(nothing["isError"])
        client.tool("terminate", session_id=session, execution_id="")

    def test_results_are_shown_kept_or_named(self):
        client = self.client(self.era, self.transport)
        session = client.tool("create_session", language="python", memory_mb=512)["structuredContent"]["session_id"]
        png = "import base64, os\nclass F:\n  def __init__(s, n): s.n = n\n  def __repr__(s): return 'F'\n" \
              "  def _repr_png_(s): return b'\\x89PNG\\r\\n\\x1a\\n' + os.urandom(s.n)\n"
        bound = 256 << 10
        run = client.tool("run", session_id=session, language="python",
                          code=png + f"for n in (40, {bound - 8}, {bound - 7}, 600_000, 1, 1, 1): display(F(n))")
        told = run["structuredContent"]["figures"]
        self.assertEqual([(each["size"], each["shown"], "id" in each) for each in told],
                         [(48, True, False), (bound, True, False), (bound + 1, False, True), (600_008, False, True),
                          (9, True, False), (9, True, False), (9, False, True)])
        self.assertEqual({each["content_type"] for each in told}, {"image/png"})
        self.assertEqual([each["type"] for each in run["content"]].count("image"), 4)
        for each in (told[2], told[3], told[6]):
            got = client.tool("download", artifact_id=each["id"], length=8)
            self.assertEqual(got["structuredContent"]["size"], each["size"])
            self.assertIn(each["id"], text_of(run))
        large = client.tool("run", session_id=session, language="python", code="list(range(1_000_000))")
        self.assertIn("--- value\n[0, 1, 2", text_of(large))
        self.assertRegex(text_of(large), r"--- left out\ntext/plain of 7888892 bytes was over a bound and is cut to \d+")
        self.assertEqual([each["type"] for each in large["structuredContent"]["left_out"]], ["text/plain"])
        gone = client.tool("exec", session_id=session, argv=["nosuchprogram"])
        self.assertEqual((gone["isError"], gone["structuredContent"]["exit_code"]), (False, 127))
        self.assertIn("nosuchprogram", text_of(gone))
        kept = client.tool("exec", session_id=session, command="echo kept > kept.txt", artifacts=["*.txt"])
        self.assertIn("kept.txt", [each["path"] for each in kept["structuredContent"]["artifacts"] if each.get("id")])
        client.tool("terminate", session_id=session)

    def test_run(self):
        client = self.client(self.era, self.transport)
        result = client.tool("run", language="python", code="print(6 * 7); raise SystemExit(3)")
        self.assertFalse(result.get("isError"), result)
        told = result["structuredContent"]
        self.assertEqual((told["status"], told["exit_code"], told["stdout"]), ("completed", 3, "42\n"))
        self.assertEqual(self.server.get(told["execution_id"])["exit_code"], 3)
        self.assertIn("42", text_of(result))
        self.assertIn("3", text_of(result))
        self.assertEqual(result.get("resultType"), "complete" if client.era == "modern" else None)

    def test_our_failure_says_what_to_do(self):
        client = self.client(self.era, self.transport)
        for arguments in ({"language": "klingon", "code": "x"}, {"language": "python"},
                          {"language": "python", "code": "1", "timeout_seconds": "soon"},
                          {"language": "python", "code": "1", "surprise": 1},
                          {"session_id": "ses_none", "code": "1"}):
            result = client.tool("run", **arguments)
            self.assertTrue(result.get("isError"), (arguments, result))
            self.assertEqual(result["structuredContent"]["status"], "error")
            self.assertTrue(result["structuredContent"]["error"]["message"], result)
            self.assertIn(result["structuredContent"]["error"]["message"], text_of(result))

    def test_what_is_unknown(self):
        client = self.client(self.era, self.transport)
        error = self.assertError(-32601, client, "tools/fetch")
        if isinstance(client, mcp_client.Http) and client.era == "modern":
            self.assertEqual(error.status, 404)
        self.assertError(-32602, client, "tools/call", {"name": "rm", "arguments": {}})
        self.assertError(-32602, client, "tools/call", {"name": "run", "arguments": []})
        error = self.assertError(-32602, client, "resources/read", {"uri": "cloister://artifacts/art_none"})
        self.assertEqual(error.data["uri"], "cloister://artifacts/art_none")
        self.assertError(-32602, client, "prompts/get", {"name": "none"})
        self.assertError(-32602, client, "tools/list", {"cursor": "made-up"})

    def test_progress(self):
        code = "import time\nfor i in range(4):\n    print('line', i, flush=True)\n    time.sleep(0.4)\n"
        client = self.client(self.era, self.transport)
        pending = client.start_tool("run", {"language": "python", "code": code}, token="p7")
        result = pending.result()
        self.assertEqual(result["structuredContent"]["exit_code"], 0)
        told = [n["params"] for n in pending.notifications if n["method"] == "notifications/progress"]
        self.assertTrue(told, "no progress")
        self.assertEqual({each["progressToken"] for each in told}, {"p7"})
        steps = [each["progress"] for each in told]
        self.assertEqual(steps, sorted(set(steps)), "progress grows")
        self.assertTrue(any("line" in each.get("message", "") for each in told), told)
        quiet = client.start_tool("run", {"language": "python", "code": code})
        quiet.result()
        self.assertEqual(quiet.notifications, [], "nobody asked for progress")

    def test_cancel_ends_the_tree(self):
        client = self.client(self.era, self.transport)
        marker = f"86{self.number}.4321"
        pending = client.start_tool("run", {"language": "python", "code": TREE.format(marker)}, token="t")
        harness.wait_for("the tree", lambda: len(mcp_client.alive(marker)) == 4)
        pending.cancel()
        mcp_client.assert_dies(marker)
        if isinstance(client, mcp_client.Http):
            while True:  # nothing but messages already under way
                message = pending.next()
                if message is None:
                    break
                self.assertIn("method", message, "an answer to a cancelled request")
        else:
            client.tool("run", language="python", code="1")
            self.assertIn(pending.id, client._pending, "an answer to a cancelled request")
            client._pending.pop(pending.id)

    def test_cancel_leaves_the_session(self):
        client = self.client(self.era, self.transport)
        marker = f"87{self.number}.4321"
        session = client.ok("create_session", language="bash")["session_id"]
        pending = client.start_tool("exec", {"session_id": session, "command": f"sleep {marker}"})
        harness.wait_for("the program", lambda: mcp_client.alive(marker))
        pending.cancel()
        mcp_client.assert_dies(marker)
        self.assertEqual(client.ok("exec", session_id=session, command="echo still")["stdout"], "still\n")
        self.assertEqual(client.ok("terminate", session_id=session)["status"], "ended")

    def test_output_past_the_cap(self):
        code = "for i in range(20000): print('row', i)"
        whole = "".join(f"row {i}\n" for i in range(20000))
        client = self.client(self.era, self.transport)
        result = client.tool("run", language="python", code=code)
        told = result["structuredContent"]
        self.assertTrue(told["truncated"])
        self.assertEqual(told["stdout_bytes"], len(whole))
        self.assertLess(len(json.dumps(result)), 80_000)
        self.assertTrue(told["stdout"].startswith("row 0\n"))
        self.assertTrue(told["stdout"].endswith("row 19999\n"))
        self.assertIn("get_logs", text_of(result))
        pieces, offset = [], 0
        while offset is not None:
            page = client.ok("get_logs", execution_id=told["execution_id"], offset=offset, max_bytes=65536)
            pieces.append(page["text"])
            offset = page.get("next_offset") if page.get("next_offset", 0) < len(whole) else None
        self.assertEqual("".join(pieces), whole)
        tail = client.ok("get_logs", execution_id=told["execution_id"], tail_lines=2)
        self.assertEqual(tail["text"], "row 19998\nrow 19999\n")

    def test_code_in_a_session_keeps_its_state(self):
        client = self.client(self.era, self.transport)
        session = client.tool("create_session", language="python")["structuredContent"]["session_id"]
        figure = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
        client.tool("run", language="python", code="x = 41", session_id=session)
        done = client.tool("run", language="python", code="x + 1", session_id=session)
        self.assertEqual(done["structuredContent"]["value"], "42")
        self.assertIn("--- value\n42", text_of(done))
        code = f"display({{'image/png': '{figure}'}}, raw=True)\ndisplay({{'image/png': 'bm9uZQ=='}}, raw=True)"
        done = client.tool("run", language="python", code=code, session_id=session)
        images = [block for block in done["content"] if block["type"] == "image"]
        self.assertEqual([(block["mimeType"], block["data"]) for block in images], [("image/png", figure)])
        client.tool("terminate", session_id=session)

    def test_background_and_cancel_by_tool(self):
        client = self.client(self.era, self.transport)
        marker = f"88{self.number}.4321"
        told = client.ok("run", language="python", code=TREE.format(marker), background=True)
        self.assertIn(told["status"], ("queued", "running"))
        harness.wait_for("the tree", lambda: len(mcp_client.alive(marker)) == 4)
        harness.wait_for("its output", lambda: client.ok("get_logs", execution_id=told["execution_id"])["text"])
        self.assertEqual(client.ok("cancel", execution_id=told["execution_id"])["execution_id"],
                         told["execution_id"])
        mcp_client.assert_dies(marker)
        ended = client.ok("get_logs", execution_id=told["execution_id"], wait_seconds=20)
        self.assertEqual((ended["status"], ended["text"]), ("cancelled", "up\n"))

    def test_resources_prompts_completion(self):
        client = self.client(self.era, self.transport)
        uris = [each["uri"] for each in client.call("resources/list")["resources"]]
        self.assertLessEqual({"cloister://languages", "cloister://limits"}, set(uris))
        for uri in ("cloister://languages", "cloister://limits"):
            (content,) = client.call("resources/read", {"uri": uri})["contents"]
            self.assertEqual((content["uri"], content["mimeType"]), (uri, "application/json"))
            self.assertTrue(json.loads(content["text"]))
        templates = client.call("resources/templates/list")["resourceTemplates"]
        self.assertGreaterEqual(len(templates), 2)
        prompts = [each["name"] for each in client.call("prompts/list")["prompts"]]
        self.assertEqual(prompts, ["analyse_file", "fix_until_tests_pass"])
        got = client.call("prompts/get", {"name": "analyse_file", "arguments": {"path": "a b.csv"}})
        self.assertIn("a b.csv", got["messages"][0]["content"]["text"])
        self.assertError(-32602, client, "prompts/get", {"name": "analyse_file", "arguments": {}})
        session = client.ok("create_session", language="python")["session_id"]
        values = client.call("completion/complete", {
            "ref": {"type": "ref/prompt", "name": "fix_until_tests_pass"},
            "argument": {"name": "session_id", "value": session[:8]}})["completion"]["values"]
        self.assertIn(session, values)
        client.ok("terminate", session_id=session)

    def test_a_file_in_a_session_is_a_resource(self):
        client = self.client(self.era, self.transport)
        session = client.ok("create_session", language="bash")["session_id"]
        told = client.ok("upload", session_id=session, path="d/a b.txt", content="héllo\n")
        (content,) = client.call("resources/read", {"uri": told["uri"]})["contents"]
        self.assertEqual(content["text"], "héllo\n")
        client.ok("upload", session_id=session, path="raw", content="AAH/gA==", encoding="base64")
        uri = f"cloister://sessions/{session}/files/raw"
        (content,) = client.call("resources/read", {"uri": uri})["contents"]
        self.assertEqual(content["blob"], "AAH/gA==")
        for path in ("../../etc/passwd", "%2e%2e/%2e%2e/etc/passwd", "nothing"):
            self.assertError(-32602, client, "resources/read",
                             {"uri": f"cloister://sessions/{session}/files/{path}"})
        client.ok("terminate", session_id=session)

    def test_an_ended_session_says_so(self):
        client = self.client(self.era, self.transport)
        session = client.ok("create_session", language="bash")["session_id"]
        client.ok("terminate", session_id=session)
        for tool, arguments in (("exec", {"command": "true"}), ("upload", {"path": "a", "content": ""}),
                                ("download", {"path": "a"}), ("run", {"language": "bash", "code": "true"})):
            result = client.tool(tool, session_id=session, **arguments)
            self.assertTrue(result.get("isError"), (tool, result))
            self.assertIn("create_session", text_of(result))

    def test_listing_sessions(self):
        client = self.client(self.era, self.transport)
        session = client.ok("create_session", language="bash", ttl_seconds=300)["session_id"]
        running = client.ok("list_sessions", state="running", limit=100)["sessions"]
        self.assertIn(session, [each["session_id"] for each in running])
        client.ok("terminate", session_id=session)
        running = client.ok("list_sessions", state="running", limit=100)["sessions"]
        self.assertNotIn(session, [each["session_id"] for each in running])


class ModernOverHttp(Everywhere, Mcp):
    era, transport, number = "modern", "http", 1


class ModernOverStdio(Everywhere, Mcp):
    era, transport, number = "modern", "stdio", 2


class LegacyOverHttp(Everywhere, Mcp):
    era, transport, number = "legacy", "http", 3


class LegacyOverStdio(Everywhere, Mcp):
    era, transport, number = "legacy", "stdio", 4


class ModernHttp(Mcp):
    """The Streamable HTTP transport of 2026-07-28."""

    def refused(self, answer, status, code):
        self.assertEqual(answer.status, status, answer.body[:500])
        body = answer.json()
        self.assertEqual((body["jsonrpc"], body["error"]["code"]), ("2.0", code), body)
        return body

    def list_tools(self, client, ident=1, **params):
        return client._body("tools/list", params, None, None, ident)

    def test_what_every_request_must_carry(self):
        client = self.client()
        body = self.list_tools(client)
        self.assertEqual(client.raw(body).status, 200)
        for missing in ("protocolVersion", "clientCapabilities"):
            broken = json.loads(json.dumps(body))
            del broken["params"]["_meta"][META + missing]
            if missing == "clientCapabilities":
                self.assertEqual(self.refused(client.raw(broken), 400, -32602)["id"], 1)
        without = json.loads(json.dumps(body))
        del without["params"]["_meta"][META + "clientInfo"]
        self.assertEqual(client.raw(without).status, 200)
        other = json.loads(json.dumps(body))
        other["params"]["_meta"][META + "protocolVersion"] = "2031-01-01"
        error = self.refused(client.raw(other, {"MCP-Protocol-Version": "2031-01-01"}), 400, -32022)["error"]
        self.assertEqual(error["data"]["requested"], "2031-01-01")
        self.assertIn(MODERN, error["data"]["supported"])

    def test_what_is_no_request(self):
        client = self.client()
        body = self.list_tools(client)
        self.refused(client.raw([body, body], {"Mcp-Method": "tools/list"}), 400, -32600)
        self.refused(client.raw(b"{", {"Mcp-Method": "tools/list"}), 400, -32700)
        for change in ({"id": None}, {"id": 1.5}, {"id": []}, {"jsonrpc": "1.0"}, {"method": 7}):
            self.refused(client.raw({**body, **change}, {"Mcp-Method": "tools/list"}), 400, -32600)
        self.refused(client.raw({**body, "params": []}), 400, -32600)

    def test_headers(self):
        client = self.client()
        body = client._body("tools/call", {"name": "list_sessions", "arguments": {}}, None, None, 5)
        self.assertEqual(client.raw(body).status, 200)
        self.assertEqual(client.raw(body, {"Mcp-Name": None, "mCP-nAME": " list_sessions "}).status, 200)
        self.assertEqual(client.raw(body, {"Mcp-Name": "=?base64?bGlzdF9zZXNzaW9ucw==?="}).status, 200)
        for headers in ({"Mcp-Method": None}, {"Mcp-Method": "tools/list"}, {"Mcp-Method": "Tools/call"},
                        {"Mcp-Name": None}, {"Mcp-Name": "run"}, {"Mcp-Name": "=?base64?bGlzd*?="},
                        {"MCP-Protocol-Version": None}, {"MCP-Protocol-Version": "2025-11-25"}):
            with self.subTest(headers=headers):
                self.assertEqual(self.refused(client.raw(body, headers), 400, -32020)["id"], 5)

    def test_other_methods_and_ids_of_the_past(self):
        client = self.client()
        for method in ("GET", "DELETE"):
            answer = self.server.request(method, "/mcp", headers={"MCP-Protocol-Version": MODERN})
            self.assertEqual(answer.status, 405, method)
        body = self.list_tools(client)
        self.assertEqual(client.raw(body, {"Mcp-Session-Id": "x", "Last-Event-ID": "1.2"}).status, 200)
        for method in ("initialize", "ping", "logging/setLevel", "resources/subscribe"):
            self.assertEqual(self.assertError(-32601, client, method).status, 404)
        answer = client.raw({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {
            "requestId": "none", "_meta": mcp_client.era_meta()}})
        self.assertEqual((answer.status, answer.body), (202, b""))

    def test_origin_and_host(self):
        client = self.client()
        body = self.list_tools(client)
        for headers in ({"Origin": "http://evil.example"}, {"Origin": "null"}, {"Host": "evil.example"},
                        {"Host": "evil.example", "Origin": "http://evil.example"}):
            with self.subTest(headers=headers):
                self.assertEqual(client.raw(body, headers).status, 421 if "Host" in headers else 403)
        self.assertEqual(client.raw(body, {"Origin": self.server.url}).status, 200)

    def test_credentials(self):
        client = self.client()
        body = self.list_tools(client)
        for header in (None, "Bearer clo_wrong", "Basic YTpi"):
            answer = client.raw(body, {"Authorization": header})
            self.assertEqual(answer.status, 401)
            self.assertIn("Bearer", answer.headers["www-authenticate"])
        answer = harness.http_request(self.server.host, self.server.port, "POST",
                                      f"/mcp?access_token={self.server.key}", body,
                                      {**client._headers(body), "Authorization": ""})
        self.assertEqual(answer.status, 401, "a key in the query is none")
        self.assertEqual(client.raw(body, {"Authorization": None, "X-API-Key": self.server.key}).status, 200)

    def test_streams_only_where_something_is_told(self):
        client = self.client()
        plain = client.start_tool("run", {"language": "bash", "code": "true"})
        plain.result()
        self.assertEqual(plain.headers["content-type"].split(";")[0], "application/json")
        told = client.start_tool("run", {"language": "bash", "code": "echo a; sleep 0.6; echo b"}, token=3)
        told.result()
        self.assertEqual(told.headers["content-type"].split(";")[0], "text/event-stream")
        self.assertEqual(told.headers.get("x-accel-buffering"), "no")
        self.assertIsNone(told.next(), "the stream ends with the response")

    def test_subscriptions(self):
        client = self.client()
        wanted = {"toolsListChanged": True, "resourceSubscriptions": ["cloister://limits"]}
        pending = client.start("subscriptions/listen", {"notifications": wanted})
        first = pending.next()
        self.assertEqual(first["method"], "notifications/subscriptions/acknowledged")
        self.assertEqual(first["params"]["_meta"][META + "subscriptionId"], pending.id)
        self.assertLessEqual(set(first["params"]["notifications"]), set(wanted))
        pending.cancel()


class LegacyHttp(Mcp):
    """The Streamable HTTP transport up to 2025-11-25."""

    def test_versions(self):
        for version in LEGACY_VERSIONS:
            with self.subTest(version=version), mcp_client.connect(
                    self.server, "legacy", "http", version=version) as client:
                self.assertEqual(len(client.call("tools/list")["tools"]), len(TOOLS))
        client = mcp_client.Http(self.server, "legacy")
        answer = client.raw({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
            "protocolVersion": "1999-01-01", "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}}})
        self.assertEqual(answer.json()["result"]["protocolVersion"], LEGACY_VERSIONS[0])

    def test_sessions(self):
        client = self.client("legacy")
        self.assertRegex(client.session, r"^[!-~]{16,}$")
        body = {"jsonrpc": "2.0", "id": 9, "method": "tools/list"}
        self.assertEqual(client.raw(body).status, 200)
        self.assertEqual(client.raw(body, {"MCP-Protocol-Version": None}).status, 200)
        self.assertEqual(client.raw(body, {"MCP-Protocol-Version": "1999-01-01"}).status, 400)
        self.assertEqual(client.raw(body, {"Mcp-Session-Id": None}).status, 400)
        self.assertEqual(client.raw(body, {"Mcp-Session-Id": "made-up"}).status, 404)
        session = client.ok("create_session", language="bash")["session_id"]
        gone = self.server.request("DELETE", "/mcp", headers=client._headers(body))
        self.assertIn(gone.status, (200, 204))
        self.assertEqual(client.raw(body).status, 404)
        client.session = None
        again = self.client("legacy")
        self.assertEqual(again.ok("exec", session_id=session, command="echo here")["stdout"], "here\n",
                         "a sandbox outlives the protocol's session")
        again.ok("terminate", session_id=session)

    def test_disconnect_is_no_cancel(self):
        client = self.client("legacy")
        session = client.ok("create_session", language="bash")["session_id"]
        pending = client.start_tool("exec", {"session_id": session, "command": "sleep 0.7; echo done > mark"},
                                    token="t")
        harness.wait_for("the program", lambda: mcp_client.alive("0.7"))
        pending.socket.shutdown(2)
        harness.wait_for("what it writes", lambda: client.ok(
            "exec", session_id=session, command="cat mark 2>&1")["stdout"] == "done\n")
        client.ok("terminate", session_id=session)

    def test_ping(self):
        for client in (self.client("legacy"), self.client("legacy", "stdio")):
            self.assertEqual(client.call("ping"), {})


class Stdio(Mcp):
    """`cloister mcp`."""

    def test_no_server_no_problem(self):
        """The command starts a private server for its own lifetime."""
        with tempfile.TemporaryDirectory(prefix="cloister-home.") as home:
            env = {"HOME": home, "XDG_STATE_HOME": f"{home}/state", "CLOISTER_URL": "", "CLOISTER_API_KEY": ""}
            args = ["--state", f"{home}/state"]
            with mcp_client.Stdio(self.server, "modern", env=env, args=args) as client:
                told = client.ok("run", language="python", code="print(2 ** 10)")
                self.assertEqual(told["stdout"], "1024\n")
                tree = harness.descendants(client.process.pid)
            harness.wait_for("its server to end", lambda: not [pid for pid in tree if harness.program_of(pid)])

    def test_a_pipe(self):
        """Requests before the end of input are answered, if they do not take long."""
        done = self.server.cli("mcp", input=json.dumps({
            "jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {"_meta": mcp_client.era_meta()}}) + "\n")
        self.assertEqual(done.returncode, 0, done.stderr)
        (answer,) = map(json.loads, done.stdout.splitlines())
        self.assertEqual(len(answer["result"]["tools"]), len(TOOLS))

    def test_nobody_there(self):
        client = mcp_client.Stdio(self.server, "modern", env={"CLOISTER_URL": "http://127.0.0.1:1"})
        with client, self.assertRaises((McpError, mcp_client.Closed)) as caught:
            client.call("tools/list", seconds=30)
        self.assertIn("127.0.0.1:1", str(caught.exception))

    def test_what_is_no_message(self):
        with mcp_client.connect(self.server, "modern", "stdio") as client:
            for line, code in ((b"{", -32700), (b"[]", -32600), (b"7", -32600), (b'{"jsonrpc":"2.0","id":1}', -32600),
                               (b"\xff\xfe", -32700)):
                client.write(line)
                self.assertEqual(client.stray.get(timeout=20)["error"]["code"], code, line)
            client.write(b"")
            self.assertEqual(client.ok("run", language="bash", code="echo on")["stdout"], "on\n")

    def test_the_end_of_input_ends_what_runs(self):
        marker = "891.4321"
        with mcp_client.connect(self.server, "legacy", "stdio") as client:
            client.start_tool("run", {"language": "python", "code": TREE.format(marker)})
            harness.wait_for("the tree", lambda: len(mcp_client.alive(marker)) == 4)
        harness.wait_for("the end of the tree", lambda: not mcp_client.alive(marker))

    def test_calls_side_by_side(self):
        with mcp_client.connect(self.server, "modern", "stdio") as client:
            session = client.ok("create_session", language="bash")["session_id"]
            slow = client.start_tool("exec", {"session_id": session, "command":
                                              "until [ -e go ]; do sleep 0.05; done; echo went"})
            client.ok("upload", session_id=session, path="go", content="")
            self.assertEqual(slow.result()["structuredContent"]["stdout"], "went\n")
            client.ok("terminate", session_id=session)


if __name__ == "__main__":
    unittest.main()
