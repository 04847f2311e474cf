# SPDX-License-Identifier: Apache-2.0
"""Clients as they are, inside a sandbox without any proxy variable: curl with HTTP/2, requests, Node's fetch, git, apt-get, npm, pip,
a program in Go, and a WebSocket."""

import base64
import os
import shutil
import subprocess
import tempfile
import unittest

from egress_case import EgressCase, door, start_world, zone
from egress_files import put_all

DROPBEAR = "/usr/sbin/dropbear"
WEBSOCKET = r'''
import base64
connection = secure(dial("allowed.test", 443), "allowed.test") if TLS else dial("allowed.test", 80)
key = base64.b64encode(os.urandom(16)).decode()
asked = ("Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Version: 13", f"Sec-WebSocket-Key: {key}")
head = answer(connection, request("allowed.test", "/ws", headers=asked))
assert b" 101 " in head, head
for text in (b"first", b"second" * 15):
    mask = os.urandom(4)
    echoed = answer(connection, bytes((0x81, 0x80 | len(text))) + mask + bytes(byte ^ mask[n % 4] for n, byte in enumerate(text)))
    assert echoed[2:] == text, echoed
attempt("it", lambda: "echoed")
'''
GO = r'''package main
import ("crypto/tls"; "crypto/x509"; "fmt"; "io"; "net/http"; "os")
func main() {
	pool := x509.NewCertPool(); pem, _ := os.ReadFile("ca.pem"); pool.AppendCertsFromPEM(pem)
	client := http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}, ForceAttemptHTTP2: true}}
	answer, err := client.Get("https://h2.test/")
	if err != nil { fmt.Println(err); os.Exit(1) }
	text, _ := io.ReadAll(answer.Body); fmt.Print(string(text))
}
'''


def setUpModule():
    start_world(h2=shutil.which("node") is not None, ssh=os.path.exists(DROPBEAR), fill=put_all)


class Clients(EgressCase):
    DOCUMENT = door("allowed.test:443", "allowed.test:80", "h2.test:443", "git.test:443", "ssh.test:22", "packages.test:443", "packages.test:80")

    def shell(self, script, **request):
        """Runs a script with ca.pem in its workspace → its output."""
        done = self.run_code("set -e\nexport HOME=/tmp SSL_CERT_FILE=$PWD/ca.pem\nunset http_proxy https_proxy\n" + script, "bash",
                             files=[{"path": "ca.pem", "content": self.world.ca}], artifacts=[],
                             network_policy={"tier": "restricted"}, timeout_seconds=60, **request)
        self.assertEqual((done["status"], done["exit_code"]), ("completed", 0), (done["stdout"][-2000:], done["stderr"][-2000:], done["network"]))
        return done["stdout"]

    def need(self, program):
        if shutil.which(program) is None:
            self.skipTest(f"no {program} on this machine: integration/egress_clients")

    def test_curl_speaks_http_2(self):
        self.need("node")
        told = self.shell("curl -sSf --cacert ca.pem https://h2.test/")
        self.assertEqual(told, "hello from h2.test by HTTP/2.0\n")

    def test_curl_falls_back_at_once(self):
        told = self.shell("curl -sSf -o /dev/null -w '%{time_total}' --cacert ca.pem https://allowed.test/")
        self.assertLess(float(told), 1.0)

    def test_python_requests(self):
        """The copy of requests that pip carries."""
        self.need("pip3")
        done = self.run_code(self.text(
            "open('ca.pem', 'w').write(CA)\nfrom pip._vendor import requests\n"
            "attempt('it', lambda: requests.get('https://allowed.test/', verify='ca.pem', timeout=5).text)"),
            network_policy={"tier": "restricted"}, artifacts=[])
        self.assertIn("hello from allowed.test", done["stdout"], done["stderr"])

    def test_node_fetch(self):
        self.need("node")
        told = self.shell("NODE_EXTRA_CA_CERTS=$PWD/ca.pem node -e \"fetch('https://allowed.test/').then(a => a.text()).then(console.log)\"")
        self.assertEqual(told.strip(), "hello from allowed.test")

    def test_git_over_https(self):
        self.need("git")
        told = self.shell("export GIT_SSL_CAINFO=$PWD/ca.pem\ngit clone -q https://git.test/git/hello.git cloned\ncat cloned/greeting")
        self.assertEqual(told, "hello by git\n")
        self.assertTrue(self.world.of(self.events(), "http", host="git.test", path="/git/hello.git/git-upload-pack"))

    def test_git_over_ssh(self):
        self.need(DROPBEAR)
        key = (self.world.directory / "client_key").read_text()
        done = self.run_code(
            "export HOME=/tmp GIT_SSH_COMMAND='ssh -i /tmp/key -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null'\n"
            f"install -m 600 key /tmp/key\ngit clone -q ssh://root@ssh.test{self.world.directory}/files/git/hello.git cloned\ncat cloned/greeting",
            "bash", files=[{"path": "key", "content": key}], artifacts=[], network_policy={"tier": "restricted"})
        self.assertEqual(done["stdout"], "hello by git\n", done["stderr"])

    def test_pip(self):
        self.need("pip3")
        told = self.shell("python3 -m pip install -q --no-cache-dir --disable-pip-version-check --target there --cert ca.pem"
                          " --index-url https://packages.test/simple doorhello\nPYTHONPATH=there python3 -c 'import doorhello; print(doorhello.GREETING)'")
        self.assertEqual(told, "hello by pip\n")

    def test_npm(self):
        self.need("npm")
        told = self.shell("export NODE_EXTRA_CA_CERTS=$PWD/ca.pem npm_config_cafile=$PWD/ca.pem npm_config_cache=/tmp/npm\n"
                          "npm install --silent --no-audit --no-fund --registry https://packages.test/npm/ doorhello >&2\n"
                          "node -p \"require('doorhello')\"", memory_mb=1024)
        self.assertEqual(told, "hello by npm\n")

    def test_apt_get(self):
        self.need("apt-get")
        told = self.shell("mkdir -p lists/partial cache/archives/partial etc && touch status\n"
                          "echo 'deb [trusted=yes] http://packages.test/files/debian ./' > sources.list\n"
                          "apt='apt-get -q -o Dir::Etc::SourceList=$PWD/sources.list -o Dir::Etc::SourceParts=/nonexistent"
                          " -o Dir::State::Lists=$PWD/lists -o Dir::State::Status=$PWD/status -o Dir::Cache=$PWD/cache"
                          " -o Debug::NoLocking=1 -o APT::Sandbox::User='\n"
                          "eval $apt update >&2\neval $apt download doorhello >&2\n"
                          "dpkg-deb -x doorhello_*.deb out && cat out/usr/share/doorhello/greeting")
        self.assertEqual(told, "hello by apt\n")

    def test_a_program_in_go(self):
        self.need("go")
        with tempfile.TemporaryDirectory() as folder:
            with open(f"{folder}/main.go", "w") as source:
                source.write(GO)
            subprocess.run(["go", "build", "-o", f"{folder}/main", f"{folder}/main.go"], check=True, env={
                **os.environ, "HOME": folder, "CGO_ENABLED": "0", "GOFLAGS": "-mod=mod", "GOPROXY": "off"})
            with open(f"{folder}/main", "rb") as program:
                content = base64.b64encode(program.read()).decode()
        done = self.run_code("chmod +x main && ./main", "bash", artifacts=[], network_policy={"tier": "restricted"}, files=[
            {"path": "main", "content": content, "encoding": "base64"}, {"path": "ca.pem", "content": self.world.ca}])
        self.assertEqual(done["stdout"], "hello from h2.test by HTTP/2.0\n", done["stderr"])

    def test_websocket(self):
        for tls in (True, False):
            self.assertTrue(self.works(WEBSOCKET, values={"TLS": tls}), tls)

    def test_none_asks_for_more_than_its_names(self):
        self.shell("curl -sSf --cacert ca.pem https://allowed.test/")
        self.assertEqual(self.world.asked(self.events()), ["allowed.test"])
        self.assertEqual({event["address"] for event in self.world.reached(self.events())} - {zone.ALLOWED, zone.ALLOWED6}, set())


if __name__ == "__main__":
    unittest.main()
