# SPDX-License-Identifier: Apache-2.0
"""`cloister mcp install`: its output, its changes, the files it leaves alone, and its page."""

import json
import os
import pathlib
import re
import tempfile
import unittest

import harness

CLIENTS = ("claude-desktop", "claude-code", "vscode", "cursor", "openai-agents", "inspector")
FILES = {"claude-desktop": ".config/Claude/claude_desktop_config.json", "claude-code": ".mcp.json",
         "vscode": ".vscode/mcp.json", "cursor": ".cursor/mcp.json", "inspector": ".mcp-inspector/mcp.json"}
GROUP = {"vscode": "servers"}
PAGE = harness.REPO / "docs" / "howto" / "connect-an-agent.md"
PROGRAM = str(harness.BIN / "cloister")


class Install(unittest.TestCase):
    def setUp(self):
        self.home = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory(prefix="cloister-home.")))

    def install(self, *args, code=0, **env):
        done = harness.cli("mcp", "install", *args, cwd=self.home, env={
            "HOME": str(self.home), "XDG_STATE_HOME": "", **env})
        self.assertEqual(done.returncode, code, done.stderr)
        return done

    def entry(self, client, path=None):
        data = json.loads((path or self.home / FILES[client]).read_text())
        return data[GROUP.get(client, "mcpServers")]["cloister"]

    def test_every_client_is_written_once(self):
        for client in FILES:
            with self.subTest(client=client):
                self.install("--client", client, "--write")
                path = self.home / FILES[client]
                self.assertEqual((self.entry(client)["command"], self.entry(client)["args"]), (PROGRAM, ["mcp"]))
                self.assertEqual(path.stat().st_mode & 0o777, 0o600)
                first = path.stat()
                told = json.loads(self.install("--client", client, "--write", "--json").stdout)
                self.assertEqual((told["changed"], told["file"]), (False, str(path)))
                self.assertEqual(path.stat().st_ino, first.st_ino, "it was written again")

    def test_printing_is_what_writing_does(self):
        for client in FILES:
            with self.subTest(client=client):
                printed = self.install("--client", client, "--print").stdout
                self.assertFalse((self.home / FILES[client]).exists())
                self.install("--client", client, "--write")
                self.assertEqual((self.home / FILES[client]).read_text(), printed)
        everything = self.install().stdout
        for client in json.loads(self.install("--json").stdout)["clients"]:
            self.assertIn(client["text"], everything)
            self.assertIn(client["client"], CLIENTS)

    def test_nothing_is_lost(self):
        path = self.home / "settings.json"
        before = '// mine\n{\n\t"big": 123456789012345678901234567890,\n\t"mcpServers": {\n' \
                 '\t\t"other": {"command": "x"}, // keep\n\t},\n\t"é": "\\u00e9"\n}\n'
        path.write_text(before)
        path.chmod(0o640)
        self.install("--client", "cursor", "--write", "--file", path)
        after = path.read_text()
        added = re.search(r'\n\t\t"cloister": \{.*?\n\t\t\},', after, re.DOTALL)
        self.assertEqual(after.replace(added.group(), ""), before)
        self.assertEqual(path.stat().st_mode & 0o777, 0o640)
        self.assertEqual(os.listdir(self.home), ["settings.json"], "no temporary file stays")

    def test_an_older_entry_is_renewed(self):
        path = self.home / "settings.json"
        path.write_text(json.dumps({"mcpServers": {"a": {}, "cloister": {"command": "/old", "args": []}, "z": 1}}))
        self.install("--client", "claude-code", "--write", "--file", path)
        data = json.loads(path.read_text())
        self.assertEqual(list(data["mcpServers"]), ["a", "cloister", "z"])
        self.assertEqual(self.entry("claude-code", path)["command"], PROGRAM)

    def test_a_link_stays_a_link(self):
        real, path = self.home / "dotfiles.json", self.home / ".mcp.json"
        real.write_text("{}")
        path.symlink_to("dotfiles.json")
        self.install("--client", "claude-code", "--write")
        self.assertTrue(path.is_symlink())
        self.assertEqual(self.entry("claude-code", real)["command"], PROGRAM)

    def test_what_cannot_be_read_is_left_alone(self):
        path = self.home / "settings.json"
        for text in ("{", "[]", '{"mcpServers": 7}', '{"mcpServers": {}, "mcpServers": {}}', "\0\0"):
            path.write_text(text)
            done = self.install("--client", "cursor", "--write", "--file", path, code=2)
            self.assertIn(str(path), done.stderr)
            self.assertEqual(path.read_text(), text)
        path.unlink()
        path.mkdir()
        self.assertIn("not a regular file",
                      self.install("--client", "cursor", "--write", "--file", path, code=2).stderr)

    def test_keys_stay_out(self):
        key = self.home / "key"
        key.write_text("clo_canarykey\n")
        key.chmod(0o600)
        self.install("--client", "cursor", "--write", "--url", "http://10.0.0.5:8750", "--key-file", "key")
        self.assertEqual(self.entry("cursor")["args"],
                         ["mcp", "--url", "http://10.0.0.5:8750", "--key-file", str(key)])
        self.assertNotIn("canarykey", (self.home / FILES["cursor"]).read_text())
        done = self.install("--client", "vscode", "--write", code=2, CLOISTER_API_KEY="clo_canarykey")
        self.assertIn("--key-file", done.stderr)
        self.assertFalse((self.home / FILES["vscode"]).exists())
        done = self.install("--client", "vscode", CLOISTER_API_KEY="clo_canarykey", CLOISTER_URL="http://10.0.0.5:8750")
        self.assertNotIn("canarykey", done.stdout + done.stderr)
        self.assertIn('["mcp", "--url", "http://10.0.0.5:8750"]', done.stdout)
        self.assertIn("--key-file", done.stderr)

    def test_which_server_is_said(self):
        done = self.install("--client", "cursor", "--state", "here")
        self.assertIn(f'["mcp", "--state", "{self.home}/here"]', done.stdout)

    def test_mistakes(self):
        for args, remedy in ((("--client", "curser"), "did you mean cursor"), (("--client", "x"), "claude-code"),
                             (("--write",), "--client"), (("--print", "--write", "--client", "cursor"), "one"),
                             (("--client", "openai-agents", "--write"), "--print"),
                             (("--client", "cursor", "--url", "ftp://x"), "ftp")):
            self.assertIn(remedy, self.install(*args, code=2).stderr, args)
        self.assertIn("none", self.install("--client", "cursor", "--key-file", "none", code=4).stderr)


class Page(unittest.TestCase):
    """docs/howto/connect-an-agent.md shows the command's output."""

    def test_blocks(self):
        text = PAGE.read_text()
        blocks = re.findall(r"^```(json|python)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
        printed = []
        for client in CLIENTS:
            done = harness.cli("mcp", "install", "--client", client, env={"XDG_STATE_HOME": ""})
            self.assertEqual(done.returncode, 0, done.stderr)
            printed.append(done.stdout.replace(PROGRAM, "/usr/local/bin/cloister"))
        self.assertEqual([block for _, block in blocks], printed)
        for language, block in blocks:
            compile(block, PAGE.name, "exec") if language == "python" else json.loads(block)
        for path in FILES.values():
            self.assertIn(path, text)

    def test_entries_over_http_parse(self):
        cells = re.findall(r"^\| [^|]+ \| `(\{.*?\})`", PAGE.read_text(), re.MULTILINE)
        self.assertEqual(len(cells), 3)
        for cell in cells:
            self.assertTrue(json.loads(cell)["url"].endswith(":8750/mcp"))
            self.assertIn("${", json.loads(cell)["headers"]["Authorization"])


if __name__ == "__main__":
    unittest.main()
