#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""/mcp?names=seed: the tools under the names sandbox.run and the like, with the same arguments and results; and uploads by a
link, without a key."""

import unittest
import urllib.parse

import harness
import mcp_client
from test_mcp import TOOLS


def setUpModule():
    Names.server = harness.Server()
    unittest.enterModuleContext(Names.server)


class Seed(mcp_client.Http):
    PATH = "/mcp?names=seed"


class Names(unittest.TestCase):
    server = None

    def client(self, era, kind=Seed):
        return self.enterContext(kind(self.server, era))

    def test_tools_have_the_seed_names_in_both_eras(self):
        for era in mcp_client.ERAS:
            with self.subTest(era=era):
                client = self.client(era)
                self.assertEqual([each["name"] for each in client.call("tools/list")["tools"]], [f"sandbox.{each}" for each in TOOLS])
                ran = client.ok("sandbox.run", language="python", code="print(6 * 7)", timeout_seconds=20, cpu_millis=800,
                                memory_mb=128, network_policy="none", deps=[])
                self.assertEqual((ran["status"], ran["exit_code"], ran["stdout"]), ("completed", 0, "42\n"))
                self.assertEqual(client.ok("run", language="python", code="print(1)")["stdout"], "1\n", "the own name works, too")
                plain = self.client(era, mcp_client.Http)
                self.assertEqual([each["name"] for each in plain.call("tools/list")["tools"]], TOOLS)
                with self.assertRaises(mcp_client.McpError):
                    plain.tool("sandbox.run", language="python", code="1")
        answer = self.server.request("POST", "/mcp?names=other", {"jsonrpc": "2.0", "id": 1, "method": "tools/list"})
        self.assertEqual((answer.status, "own or seed" in answer.text), (400, True), answer.body)

    def test_the_seed_story(self):
        client = self.client("modern")
        session = client.ok("sandbox.create_session", ttl_seconds=300, language="python", env=["NAME=x"])["session_id"]
        given = client.ok("sandbox.upload", session_id=session, path="data/ein gabe.txt", presigned_upload=True)
        link = given["presigned_upload"]
        self.assertEqual(link["method"], "PUT")
        self.assertEqual(self.put(link["url"], b"bytes").status, 200)
        done = client.ok("sandbox.exec", session_id=session, command="cat data/*; echo $NAME", timeout_seconds=10)
        self.assertEqual(done["stdout"], "bytesx\n")
        got = client.ok("sandbox.download", session_id=session, path="data/ein gabe.txt")
        self.assertEqual(got["size"], 5)
        logs = client.ok("sandbox.get_logs", execution_id=done["execution_id"], tail_lines=1)
        self.assertEqual(logs["text"], "bytesx\n")
        self.assertEqual(client.ok("sandbox.terminate", session_id=session)["status"], "ended")
        self.assertIn(self.put(link["url"], b"late").status, (404, 409))

    def put(self, url, body):
        return harness.http_request(self.server.host, self.server.port, "PUT", url, body)

    def test_a_link_is_for_one_file_of_one_session(self):
        client = self.client("modern")
        session, other = (client.ok("sandbox.create_session")["session_id"] for _ in range(2))
        url = client.ok("sandbox.upload", session_id=session, path="a", presigned_upload=True)["presigned_upload"]["url"]
        signature = urllib.parse.urlsplit(url).query
        for path in (f"/v1/sessions/{session}/files/b", f"/v1/sessions/{other}/files/a", f"/v1/sessions/{session}/files/a/b"):
            self.assertEqual(self.put(f"{path}?{signature}", b"x").status, 404, path)
        forged = signature[:-1] + ("1" if signature[-1] == "0" else "0")
        self.assertEqual(self.put(f"/v1/sessions/{session}/files/a?{forged}", b"x").status, 404)
        self.assertEqual(self.put(f"/v1/sessions/{session}/files/a?signature=1-key-00", b"x").status, 404)
        self.assertEqual(self.put(f"/v1/sessions/{session}/files/a", b"x").status, 401)
        got = harness.http_request(self.server.host, self.server.port, "GET", f"/v1/sessions/{session}/files/a?{signature}")
        self.assertEqual(got.status, 401, "the link only writes")
        key = self.server.request("POST", "/v1/keys", {"tenant": "globex", "name": "test"}).json()["secret"]
        stranger = self.enterContext(Seed(self.server, "modern", key=key))
        refused = stranger.tool("sandbox.upload", session_id=session, path="a", presigned_upload=True)
        self.assertTrue(refused["isError"], refused)

    def test_a_link_ends_with_its_credential(self):
        made = self.server.request("POST", "/v1/keys", {"tenant": "acme", "name": "test"}).json()
        client = self.enterContext(Seed(self.server, "modern", key=made["secret"]))
        session = client.ok("sandbox.create_session")["session_id"]
        url = client.ok("sandbox.upload", session_id=session, path="a", presigned_upload=True)["presigned_upload"]["url"]
        self.assertEqual(self.put(url, b"x").status, 200)
        self.assertEqual(self.server.request("DELETE", f"/v1/keys/{made['id']}").status // 100, 2)
        self.assertEqual(self.put(url, b"y").status, 401)


if __name__ == "__main__":
    unittest.main()
