# SPDX-License-Identifier: Apache-2.0
"""The official MCP suite and clients, and a Node.js to run them: the npm packages of tests/mcp."""

import json
import subprocess

import npm_packages


class Npm:
    """The installed packages. Made by `need()`."""

    def __init__(self, packages):
        self.script = packages.script
        self.root = packages.root
        self.modules = packages.root / "node_modules"
        self.node = self.modules / npm_packages.node_here() / "bin" / "node"

    def environment(self, home):
        return {"PATH": f"{self.node.parent}:/usr/local/bin:/usr/bin:/bin", "HOME": str(home),
                "LANG": "C.UTF-8", "NO_COLOR": "1"}

    def run(self, *args, home="/nonexistent", timeout=60, env=None, cwd=None):
        """node ARGS → CompletedProcess; never reads a terminal."""
        return subprocess.run([str(self.node), *map(str, args)], stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, timeout=timeout,
                              cwd=cwd or self.root, env={**self.environment(home), **(env or {})})

    @property
    def conformance(self):
        return self.modules / "@modelcontextprotocol/conformance/dist/index.js"

    @property
    def inspector(self):
        return self.modules / "@modelcontextprotocol/inspector/clients/launcher/build/index.js"

    def schemas(self):
        """{protocol version: its JSON Schema}, from the official suite."""
        done = self.run(self.script("schemas.mjs"), self.conformance)
        assert done.returncode == 0, done.stderr[-2000:]
        return json.loads(done.stdout)


def need():
    """The packages; raises npm_packages.Absent if not fetched."""
    return Npm(npm_packages.Packages("mcp").need())
