# SPDX-License-Identifier: Apache-2.0
"""The npm packages for tests, below build/: tests/fetch_npm.py installs them, suites only look.

A suite runs in a network of its own, and so cannot fetch. Each set of packages is a folder of tests/, or the SDK, whose
package-lock.json pins every package by its digest. The set is installed once per lock, into build/NAME/DIGEST,
without running any package's own scripts.
"""

import fcntl
import hashlib
import os
import pathlib
import platform
import shutil
import subprocess
import tempfile
import unittest

TESTS = pathlib.Path(__file__).resolve().parents[1]
BUILD = pathlib.Path(os.environ.get("CLOISTER_BUILD", TESTS.parent / "build"))
NAMES = ("browser", "compat", "letta", "mcp", "oidc", "otlp", "sbom", "sdk")
OTHER_FOLDERS = {"browser": TESTS / "web", "sdk": TESTS.parent / "sdk/typescript"}  # build/web is the web interface
PINS = ("package.json", "package-lock.json", ".npmrc")
INSTALL_SECONDS = 420
ARCHITECTURES = {"x86_64": "x64", "aarch64": "arm64"}  # with a Node.js among the packages of mcp


class Absent(Exception):
    """A set of packages is not there; the message names the remedy."""


class Packages:
    """A set: its pins in tests/NAME or OTHER_FOLDERS, the packages in build/NAME/DIGEST."""

    def __init__(self, name):
        self.name, self.source = name, OTHER_FOLDERS.get(name, TESTS / name)
        digest = hashlib.sha256()
        for path in self._pins():
            digest.update(path.read_bytes())
        self.root = BUILD / name / digest.hexdigest()[:16]

    def _pins(self):
        return [self.source / name for name in PINS if (self.source / name).exists()]

    def need(self):
        """→ self; raises Absent if the lock's packages are not fetched. The guest's image has none."""
        if os.environ.get("CLOISTER_SLOW") == "1":
            raise unittest.SkipTest("not in the guest's image: npm's packages")
        if not self.root.is_dir():
            raise Absent(f"no npm packages in {self.root}: run tests/fetch_npm.py, with a network")
        return self

    def script(self, name):
        """A program of tests/NAME as a copy beside the packages, where its imports are found."""
        copy, text = self.root / name, (self.source / name).read_bytes()
        if not copy.exists() or copy.read_bytes() != text:
            with tempfile.NamedTemporaryFile(dir=self.root, delete=False) as fresh:
                fresh.write(text)
            os.chmod(fresh.name, 0o644)
            os.rename(fresh.name, copy)  # another suite may be reading the copy
        return copy

    def fetch(self):
        """Installs the lock's packages, unless installed. Raises Absent if npm fails."""
        self.root.parent.mkdir(parents=True, exist_ok=True)
        with open(self.root.parent / "lock", "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if self.root.is_dir():
                return
            fresh = self.root.parent / "fresh"
            shutil.rmtree(fresh, ignore_errors=True)
            fresh.mkdir()
            for path in self._pins():
                shutil.copy2(path, fresh)
            _npm_ci(fresh)
            for old in self.root.parent.iterdir():  # of earlier locks
                if old.is_dir() and old != fresh:
                    shutil.rmtree(old)
            fresh.rename(self.root)


def _npm_ci(folder):
    if shutil.which("npm") is None:
        raise Absent("npm is not installed: apt-get install npm")
    kept = {k: v for k, v in os.environ.items() if not k.startswith("CLOISTER_")}
    command = ["npm", "ci", "--no-audit", "--no-fund", "--ignore-scripts", "--loglevel=error",
               "--fetch-retries=2", "--fetch-timeout=60000"]
    try:
        done = subprocess.run(command, cwd=folder, env=kept, stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, timeout=INSTALL_SECONDS)
    except subprocess.TimeoutExpired:
        raise Absent(f"npm ci took over {INSTALL_SECONDS} s") from None
    if done.returncode != 0:
        raise Absent(f"npm ci failed:\n{done.stderr[-3000:]}")


def node_here():
    """The name of this machine's Node.js in the packages of mcp. Raises Absent if there is none."""
    if platform.machine() not in ARCHITECTURES:
        raise Absent(f"npm has no Node.js 24 for {platform.machine()}")
    return f"node-linux-{ARCHITECTURES[platform.machine()]}"
