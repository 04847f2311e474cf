# SPDX-License-Identifier: Apache-2.0
"""The official MCP suite and clients, and a Node.js to run them, all from npm.

tests/mcp/package-lock.json pins every package by its digest. They are installed once per lock into
build/mcp/, without running any package's own scripts. A machine that cannot have them skips the
suites that need them, with the reason.
"""

import fcntl
import functools
import hashlib
import json
import os
import pathlib
import platform
import shutil
import subprocess
import unittest

import harness

HERE = harness.REPO / "tests" / "mcp"
BUILD = pathlib.Path(os.environ.get("CLOISTER_BUILD", harness.REPO / "build")) / "mcp"
PINS = ("package.json", "package-lock.json", ".npmrc")
INSTALL_SECONDS = 420
ARCHITECTURES = {"x86_64": "x64", "aarch64": "arm64"}
# What npm says when the packages are not to be had, in contrast to a lock that is wrong.
UNREACHABLE = ("ENOTFOUND", "EAI_AGAIN", "ECONNREFUSED", "ECONNRESET", "ETIMEDOUT", "ENETUNREACH",
               "ERR_SOCKET_TIMEOUT", "CERT", "E401", "E403", "E404", "E407", "E5")


def _digest():
    total = hashlib.sha256()
    for name in PINS:
        total.update((HERE / name).read_bytes())
    return total.hexdigest()[:16]


def _npm_ci(folder):
    """`npm ci` in `folder`; "" or why not."""
    folder.mkdir(parents=True)
    for name in PINS:
        shutil.copy2(HERE / name, folder / name)
    kept = {k: v for k, v in os.environ.items() if not k.startswith("CLOISTER_")}
    command = ["npm", "ci", "--no-audit", "--no-fund", "--ignore-scripts", "--loglevel=error",
               "--fetch-retries=2", "--fetch-timeout=60000"]
    try:
        done = subprocess.run(command, cwd=folder, env=kept, stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, timeout=INSTALL_SECONDS)
    except subprocess.TimeoutExpired:
        return f"npm ci took over {INSTALL_SECONDS} s"
    if done.returncode == 0:
        return ""
    if not any(mark in done.stderr for mark in UNREACHABLE):
        raise AssertionError(f"npm ci failed:\n{done.stderr[-3000:]}")
    lines = [line for line in done.stderr.splitlines() if line.strip()] or ["no reason given"]
    return f"npm's packages cannot be had here: {lines[0][:160]}"


@functools.cache
def _installed():
    """(directory, "") or (None, reason)."""
    if platform.machine() not in ARCHITECTURES:
        return None, f"npm has no Node.js 24 for {platform.machine()}"
    if shutil.which("npm") is None:
        return None, "npm is not installed"
    BUILD.mkdir(parents=True, exist_ok=True)
    with open(BUILD / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        target = BUILD / _digest()
        if target.exists():
            return target, ""
        fresh = BUILD / "fresh"
        shutil.rmtree(fresh, ignore_errors=True)
        why = _npm_ci(fresh)
        if why:
            return None, why
        for old in BUILD.iterdir():  # those of earlier locks
            if old.is_dir() and old != fresh:
                shutil.rmtree(old)
        fresh.rename(target)
        return target, ""


class Npm:
    """The installed packages. Made by `need()`."""

    def __init__(self, root):
        self.root = root
        self.modules = root / "node_modules"
        self.node = self.modules / f"node-linux-{ARCHITECTURES[platform.machine()]}" / "bin" / "node"

    def environment(self, home):
        return {"PATH": f"{self.node.parent}:/usr/local/bin:/usr/bin:/bin", "HOME": str(home),
                "LANG": "C.UTF-8", "NO_COLOR": "1"}

    def run(self, *args, home="/nonexistent", timeout=60, env=None, cwd=None):
        """node ARGS → CompletedProcess; never reads a terminal."""
        return subprocess.run([str(self.node), *map(str, args)], stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, timeout=timeout,
                              cwd=cwd or self.root, env={**self.environment(home), **(env or {})})

    def script(self, name):
        """A program of tests/mcp as a copy beside the packages, where its imports are found."""
        copy = self.root / name
        text = (HERE / name).read_bytes()
        if not copy.exists() or copy.read_bytes() != text:
            copy.write_bytes(text)
        return copy

    @property
    def conformance(self):
        return self.modules / "@modelcontextprotocol/conformance/dist/index.js"

    @property
    def inspector(self):
        return self.modules / "@modelcontextprotocol/inspector/clients/launcher/build/index.js"

    def schemas(self):
        """{protocol version: its JSON Schema}, as the official suite carries them."""
        done = self.run(self.script("schemas.mjs"), self.conformance)
        assert done.returncode == 0, done.stderr[-2000:]
        return json.loads(done.stdout)


def need():
    """The packages, or the module or test is skipped with the reason."""
    root, why = _installed()
    if root is None:
        raise unittest.SkipTest(why)
    return Npm(root)
