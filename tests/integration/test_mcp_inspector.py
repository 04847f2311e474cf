# SPDX-License-Identifier: Apache-2.0
"""The official Inspector's command line against the MCP server, in every era over both transports."""

import json
import pathlib
import tempfile
import unittest

import harness
import mcp_client
import mcp_npm


def setUpModule():
    Inspector.npm = mcp_npm.need()
    Inspector.plain = unittest.enterModuleContext(harness.Server())
    Inspector.plain.run("pass")


class Inspector(unittest.TestCase):
    """`mcp-inspector --cli`: each call is a process and a connection of its own, which takes more than a second of a
    processor. test_mcp.py calls each tool in each era over each transport as well."""

    npm = plain = None

    def setUp(self):
        self.home = self.enterContext(tempfile.TemporaryDirectory(prefix="cloister-inspector."))

    def inspect(self, transport, era, *options, code=0):
        if transport == "http":
            target = ["--transport", "http", "--server-url", f"{self.plain.url}/mcp", "--stored-auth-only",
                      "--header", f"Authorization: Bearer {self.plain.key}"]
        else:
            config = pathlib.Path(self.home) / "mcp.json"
            config.write_text(json.dumps({"mcpServers": {"cloister": {
                "command": str(self.plain.bin / "cloister"), "args": ["mcp"],
                "env": {**self.plain._environment(), "CLOISTER_URL": self.plain.url,
                        "CLOISTER_API_KEY": self.plain.key}}}}))
            target = ["--config", config, "--server", "cloister"]
        done = self.npm.run(self.npm.inspector, "--cli", *target, "--protocol-era", era, "--format", "json",
                            *options, home=self.home, timeout=90)
        self.assertEqual(done.returncode, code,
                         f"{transport} {era} {options}\n{done.stdout[-1500:]}\n{done.stderr[-3000:]}")
        return json.loads(done.stdout)["result"] if code == 0 else done

    def tool(self, transport, era, name, **arguments):
        result = self.inspect(transport, era, "-q", "--method", "tools/call", "--tool-name", name,
                              "--tool-args-json", json.dumps(arguments))
        return result["structuredContent"]

    def lists(self, transport):
        for era in ("legacy", "auto", "modern"):
            with self.subTest(era=era):
                done = self.inspect(transport, era, "--method", "tools/list", "--strict")
                self.assertEqual(len(done["tools"]), 14)

    def test_lists_over_http(self):
        self.lists("http")

    def test_lists_over_stdio(self):
        self.lists("stdio")

    def every_tool(self, transport, era):
        session = self.tool(transport, era, "create_session", language="python")["session_id"]
        told = self.tool(transport, era, "upload", session_id=session, path="a.txt", content="1\n2\n")
        self.assertEqual(told["size"], 4)
        told = self.tool(transport, era, "exec", session_id=session, command="wc -l < a.txt")
        self.assertEqual(told["stdout"].strip(), "2")
        told = self.tool(transport, era, "run", language="python", code="print(sum(map(int, open('a.txt'))))",
                         session_id=session)
        self.assertEqual(told["stdout"], "3\n")
        logs = self.tool(transport, era, "get_logs", execution_id=told["execution_id"])
        self.assertEqual(logs["text"], "3\n")
        files = self.tool(transport, era, "list_artifacts", session_id=session)["artifacts"]
        self.assertIn("a.txt", [each["path"] for each in files])
        self.assertEqual(self.tool(transport, era, "download", session_id=session, path="a.txt")["size"], 4)
        found = self.tool(transport, era, "list_sessions", state="running", limit=100)["sessions"]
        self.assertIn(session, [each["session_id"] for each in found])
        told = self.tool(transport, era, "exec", session_id=session, command="sleep 600", background=True)
        self.assertEqual(self.tool(transport, era, "cancel", execution_id=told["execution_id"])["execution_id"],
                         told["execution_id"])
        self.assertEqual(self.tool(transport, era, "terminate", session_id=session)["status"], "ended")

    def test_every_tool_modern_over_http(self):
        self.every_tool("http", "modern")

    @unittest.skipUnless(harness.LONG, "its era and its transport are in other cases: with --long")
    def test_every_tool_legacy_over_http(self):
        self.every_tool("http", "legacy")

    @unittest.skipUnless(harness.LONG, "its era and its transport are in other cases: with --long")
    def test_every_tool_modern_over_stdio(self):
        self.every_tool("stdio", "modern")

    def test_every_tool_legacy_over_stdio(self):
        self.every_tool("stdio", "legacy")

    def test_a_call_in_the_era_it_chooses(self):
        for transport in mcp_client.TRANSPORTS:
            told = self.tool(transport, "auto", "run", language="bash", code="echo chosen")
            self.assertEqual(told["stdout"], "chosen\n")

    def test_our_failure_is_a_tool_error(self):
        self.inspect("http", "modern", "-q", "--method", "tools/call", "--tool-name", "run", "--tool-args-json",
                     '{"language":"klingon","code":"x"}', code=5)


if __name__ == "__main__":
    unittest.main()
