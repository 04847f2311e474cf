# SPDX-License-Identifier: Apache-2.0
"""The real OpenID Connect provider of tests/oidc, as a process with a certificate of its own."""

import base64
import fcntl
import json
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

import harness

SOURCE = harness.REPO / "tests" / "oidc"
PLACE = harness.REPO / "build" / "oidc"
FILES = ("package.json", "package-lock.json", "provider.mjs")


def _run(*command, **more):
    return subprocess.run([str(c) for c in command], capture_output=True, text=True, **more)


def install():
    """build/oidc with its packages, as the lock file has them; skips with the reason."""
    node, npm = shutil.which("node"), shutil.which("npm")
    if not node or not npm:
        raise unittest.SkipTest("node and npm are not installed (apt-get install nodejs npm)")
    version = _run(node, "--version").stdout.strip()
    if int(version.removeprefix("v").split(".")[0]) < 18:
        raise unittest.SkipTest(f"oidc-provider needs node 18, this is {version}")
    PLACE.mkdir(parents=True, exist_ok=True)
    with open(PLACE / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        wanted = (SOURCE / "package-lock.json").read_bytes()
        done = PLACE / "installed"
        for name in FILES:
            shutil.copyfile(SOURCE / name, PLACE / name)
        if done.exists() and done.read_bytes() == wanted:
            return node
        try:
            got = _run(npm, "ci", "--ignore-scripts", "--no-audit", "--no-fund", cwd=PLACE,
                       timeout=240)
        except subprocess.TimeoutExpired:
            raise unittest.SkipTest("npm ci did not finish in 240 s") from None
        if got.returncode != 0:
            raise unittest.SkipTest(f"npm ci failed: {got.stderr.strip()[-300:]}")
        done.write_bytes(wanted)
    return node


class Oidc:
    """One provider: an issuer, keys, and clients that get tokens from it."""

    RESOURCE = "https://cloister.test/"

    def __init__(self):
        self._node = install()
        self.dir = pathlib.Path(tempfile.mkdtemp(prefix="oidc-test."))
        self.dir.chmod(0o755)
        self.process = None

    def __enter__(self):
        self.ca = self.dir / "cert.pem"
        made = _run("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256",
                    "-nodes", "-days", "2", "-subj", "/CN=test", "-addext",
                    "subjectAltName=IP:127.0.0.1", "-keyout", self.dir / "key.pem", "-out", self.ca)
        assert made.returncode == 0, made.stderr
        with open(self.dir / "log", "w") as log:
            self.process = subprocess.Popen(
                [self._node, PLACE / "provider.mjs", self.ca, self.dir / "key.pem"], cwd=PLACE,
                text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log)
        line = self._line()
        self.issuer = line["issuer"]
        return self

    def __exit__(self, *_):
        self.stop()
        shutil.rmtree(self.dir, ignore_errors=True)

    def stop(self):
        if self.process and self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        if self.process:
            self.process.stdin.close()
            self.process.stdout.close()

    def _line(self):
        while True:  # the library prints warnings among them
            line = self.process.stdout.readline()
            if not line:
                sys.stderr.write((self.dir / "log").read_text())
                raise AssertionError("the provider ended")
            if line.startswith(("{", "[")):
                return json.loads(line)

    def do(self, name, argument=True):
        self.process.stdin.write(json.dumps({name: argument}) + "\n")
        self.process.stdin.flush()
        return self._line()

    def token(self, client="agent", resource=RESOURCE):
        answer = self.do("token", {"client": client, "resource": resource})
        assert "access_token" in answer, answer
        return answer["access_token"]

    def sign(self, claims, header=None, key="rsa"):
        return self.do("sign", {"header": header or {}, "claims": claims, "key": key})["token"]

    def sign_text(self, header, claims):
        """A token of these texts, whatever they are."""
        parts = (base64.urlsafe_b64encode(each.encode()).rstrip(b"=").decode() for each in (header, claims))
        return self.do("sign", {"text": ".".join(parts), "key": "rsa"})["token"]

    def config(self, **more):
        """`auth.oidc` for this provider, as YAML."""
        settings = {"issuer": self.issuer, "audience": [self.RESOURCE], "ca_file": str(self.ca),
                    "refresh_seconds": 1, "leeway_seconds": 0,
                    "roles": ["runner = agent", "keys = tenant-admin", "root = admin"], **more}
        return "auth:\n  failures_per_minute: 100000\n  oidc: " + json.dumps(settings) + "\n"
