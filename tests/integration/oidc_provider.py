# SPDX-License-Identifier: Apache-2.0
"""The real OpenID Connect provider of tests/oidc, as a process with a certificate of its own."""

import base64
import json
import pathlib
import shutil
import subprocess
import sys
import tempfile

import npm_packages


def _run(*command):
    return subprocess.run([str(c) for c in command], capture_output=True, text=True)


class Oidc:
    """A provider: an issuer, keys, and clients that get tokens from it."""

    RESOURCE = "https://cloister.test/"

    def __init__(self):
        self._packages = npm_packages.Packages("oidc").need()
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
                ["node", self._packages.script("provider.mjs"), self.ca, self.dir / "key.pem"],
                cwd=self._packages.root, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log)
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
        while True:  # the library prints warnings between the answers
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
        """A token of arbitrary texts."""
        parts = (base64.urlsafe_b64encode(each.encode()).rstrip(b"=").decode() for each in (header, claims))
        return self.do("sign", {"text": ".".join(parts), "key": "rsa"})["token"]

    def config(self, **more):
        """`auth.oidc` for the provider, as YAML."""
        settings = {"issuer": self.issuer, "audience": [self.RESOURCE], "ca_file": str(self.ca),
                    "refresh_seconds": 1, "leeway_seconds": 0,
                    "roles": ["runner = agent", "keys = tenant-admin", "root = admin"], **more}
        return "auth:\n  failures_per_minute: 100000\n  oidc: " + json.dumps(settings) + "\n"
