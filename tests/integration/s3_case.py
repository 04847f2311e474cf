# SPDX-License-Identifier: Apache-2.0
"""A bucket for tests: OpenStack Swift's S3 interface (tests/swift/serve.py), behind a proxy with faults (tests/swift/front.py).

    bucket = s3_case.Bucket()                   # one for a module; close() ends it
    front = bucket.front()                      # the proxy, at a port of its own
    config = bucket.config(front, folder)       # the text of artifacts.s3
"""

import json
import pathlib
import subprocess
import sys
import urllib.parse

import harness

sys.path.insert(0, str(harness.REPO / "tests" / "swift"))
import front as fronts  # noqa: E402

PYTHON = "/usr/bin/python3"  # Debian's, which has Swift


class Bucket:
    def __init__(self):
        self.process = subprocess.Popen([PYTHON, harness.REPO / "tests" / "swift" / "serve.py"], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE)
        line = self.process.stdout.readline()
        if not line:
            raise AssertionError("Swift does not start: install the packages of ./dev's list")
        self.told = json.loads(line)

    def close(self):
        self.process.stdin.close()
        self.process.wait(30)
        self.process.stdout.close()

    def front(self, context=None):
        return fronts.Front(self.told["port"], context)

    def config(self, front, folder, scheme="http", **more):
        """With the credentials in a file of `folder`. `more` replaces members; None leaves one out."""
        credentials = pathlib.Path(folder) / "s3-credentials"
        if not credentials.exists():
            credentials.write_text(f"[default]\naws_access_key_id = {self.told['key_id']}\n"
                                   f"aws_secret_access_key = {self.told['secret']}\n")
            credentials.chmod(0o644)
        members = {"endpoint": f"{scheme}://127.0.0.1:{front.port}", "bucket": self.told["bucket"], "region": self.told["region"],
                   "credentials_file": str(credentials), **more}
        text = ", ".join(f"{name}: {json.dumps(value)}" for name, value in members.items() if value is not None)
        return f"artifacts:\n  s3: {{{text}}}\n"

    # - past the service -

    def swift(self, method, path, body=None):
        """By Swift's interface, as the account."""
        port = self.told["port"]
        answer = harness.http_request("127.0.0.1", port, "GET", "/auth/v1.0",
                                      headers={"X-Auth-User": self.told["key_id"], "X-Auth-Key": self.told["secret"]})
        url = urllib.parse.urlsplit(answer.headers["x-storage-url"]).path
        return harness.http_request("127.0.0.1", port, method, url + path, body, {"X-Auth-Token": answer.headers["x-auth-token"]})

    def objects(self, prefix="cloister/"):
        answer = self.swift("GET", f"/{self.told['bucket']}?prefix={prefix}")
        return answer.body.decode().split()

    def content(self, name):
        return self.swift("GET", f"/{self.told['bucket']}/{name}").body

    def uploads(self):
        """The names of uploads in parts under way and of their parts, which Swift keeps in a container of their own."""
        answer = self.swift("GET", f"/{self.told['bucket']}+segments")
        return answer.body.decode().split() if answer.status == 200 else []


def lines(seen, word=""):
    return [line for line, _ in seen["requests"] if word in line]
