# SPDX-License-Identifier: Apache-2.0
"""An agent's conversation from the first word to the last, in both eras over both transports: make a session, put
data in, plot, look at the figure, fetch the figure, end. Every message of the server is checked against the
protocol's own JSON Schema."""

import base64
import json
import struct
import unittest
import zlib

import harness
import mcp_client
import mcp_npm
import mcp_schema
from mcp_client import META, text_of

CSV = "month,rain\n" + "".join(f"{month},{(month * 37) % 90}\n" for month in range(1, 13))
RAIN = [(month * 37) % 90 for month in range(1, 13)]
WIDTH, HEIGHT = 12 * 8, 100
# A bar chart by hand: Debian's Python has no matplotlib.
PLOT = """
import csv, struct, zlib
rain = [int(row["rain"]) for row in csv.DictReader(open("data/rain.csv"))]
width, height = 12 * 8, 100
rows = b"".join(b"\\0" + bytes(0 if height - y <= rain[x // 8] else 255 for x in range(width)) for y in range(height))
def chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
with open("plot.png", "wb") as out:
    out.write(b"\\x89PNG\\r\\n\\x1a\\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0))
              + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))
print("total", sum(rain))
"""


def setUpModule():
    Conversation.schemas = mcp_schema.load(mcp_npm.need())
    Conversation.server = harness.Server()
    unittest.enterModuleContext(Conversation.server)


def bars(png):
    """The heights of the bars in a figure of PLOT's; fails on another PNG."""
    assert png.startswith(b"\x89PNG\r\n\x1a\n"), png[:16]
    at, data, size = 8, b"", None
    while at < len(png):
        length, kind = struct.unpack_from(">I4s", png, at)
        body = png[at + 8:at + 8 + length]
        assert zlib.crc32(kind + body) == struct.unpack_from(">I", png, at + 8 + length)[0], kind
        if kind == b"IHDR":
            size = struct.unpack_from(">II", body)
        data += body if kind == b"IDAT" else b""
        at += 12 + length
    assert size == (WIDTH, HEIGHT), size
    pixels = zlib.decompress(data)
    rows = [pixels[y * (WIDTH + 1) + 1:(y + 1) * (WIDTH + 1)] for y in range(HEIGHT)]
    return [sum(row[x * 8] == 0 for row in rows) for x in range(12)]


class Conversation(unittest.TestCase):
    server = schemas = None

    def converse(self, era, transport):
        with harness.leakcheck(self.server), mcp_client.connect(
                self.server, era, transport, schemas=self.schemas) as client:
            self.look_around(client)
            session = self.make_session(client)
            self.upload(client, session)
            execution = self.plot(client, session)
            self.find_the_figure(client, session, execution)
            self.terminate(client, session)
            self.assertGreater(len(client.received), 10)

    def look_around(self, client):
        about = client.call("server/discover") if client.era == "modern" else client.initialized
        self.assertIn("create_session", about["instructions"])
        listed = client.call("tools/list")
        names = [tool["name"] for tool in listed["tools"]]
        self.assertLessEqual({"create_session", "upload", "run", "list_artifacts", "download", "terminate"},
                             set(names))
        self.outputs = {tool["name"]: tool["outputSchema"] for tool in listed["tools"]}
        for method in ("resources/list", "resources/templates/list", "prompts/list"):
            client.call(method)

    def called(self, client, name, **arguments):
        """A successful call, whose structured content fits the tool's own schema."""
        result = client.tool(name, **arguments)
        self.assertFalse(result.get("isError"), (name, result))
        mcp_schema.jsonschema.validate(result["structuredContent"], self.outputs[name])
        self.assertTrue(text_of(result).strip(), "a text that stands alone")
        if client.era == "modern":
            self.assertEqual(result["_meta"][META + "serverInfo"]["name"], "cloister")
        return result

    def make_session(self, client):
        result = self.called(client, "create_session", language="python", ttl_seconds=600)
        session = result["structuredContent"]["session_id"]
        self.assertIn(session, text_of(result))
        self.assertEqual(self.server.request("GET", f"/v1/sessions/{session}").json()["status"], "running")
        return session

    def upload(self, client, session):
        result = self.called(client, "upload", session_id=session, path="data/rain.csv", content=CSV)
        self.assertEqual(result["structuredContent"]["size"], len(CSV))
        stored = self.server.request("GET", f"/v1/sessions/{session}/files/data/rain.csv")
        self.assertEqual(stored.text, CSV)

    def plot(self, client, session):
        pending = client.start_tool("run", {"session_id": session, "code": PLOT}, token="plot")
        result = pending.result()
        self.assertFalse(result.get("isError"), result)
        mcp_schema.jsonschema.validate(result["structuredContent"], self.outputs["run"])
        told = result["structuredContent"]
        self.assertEqual((told["status"], told["exit_code"], told["stdout"]),
                         ("completed", 0, f"total {sum(RAIN)}\n"), result)
        self.assertIn(f"total {sum(RAIN)}", text_of(result))
        self.assertIn("plot.png", text_of(result), "clients that show only text hear of the file")
        self.assertIn("plot.png", [each["path"] for each in told["artifacts"]])
        (image,) = [block for block in result["content"] if block["type"] == "image"]
        self.assertEqual(image["mimeType"], "image/png")
        self.assertEqual(bars(base64.b64decode(image["data"], validate=True)), RAIN)
        self.assertNotIn(image["data"][:64], json.dumps(told) + text_of(result), "base64 nowhere else")
        (link,) = [block for block in result["content"] if block["type"] == "resource_link"
                   and block["uri"].endswith("plot.png") or block.get("name") == "plot.png"]
        (content,) = client.call("resources/read", {"uri": link["uri"]})["contents"]
        self.assertEqual(bars(base64.b64decode(content["blob"])), RAIN)
        return told["execution_id"]

    def find_the_figure(self, client, session, execution):
        result = self.called(client, "list_artifacts", session_id=session)
        files = {each["path"]: each for each in result["structuredContent"]["artifacts"]}
        self.assertEqual({"data/rain.csv", "plot.png"}, set(files), "nothing of the service's own")
        self.assertEqual(files["data/rain.csv"]["size"], len(CSV))
        self.assertIn("plot.png", text_of(result))
        result = self.called(client, "download", session_id=session, path="plot.png")
        (image,) = [block for block in result["content"] if block["type"] == "image"]
        png = base64.b64decode(image["data"])
        self.assertEqual((len(png), bars(png)), (files["plot.png"]["size"], RAIN))
        result = self.called(client, "download", session_id=session, path="data/rain.csv")
        self.assertIn(CSV, text_of(result) + "".join(
            block["resource"].get("text", "") for block in result["content"] if block["type"] == "resource"))
        result = self.called(client, "download", session_id=session, path="data/rain.csv", offset=6, length=4)
        self.assertEqual(result["structuredContent"]["next_offset"], 10)
        self.assertEqual(result["structuredContent"]["length"], 4)
        result = self.called(client, "get_logs", execution_id=execution)
        self.assertEqual(result["structuredContent"]["text"], f"total {sum(RAIN)}\n")

    def terminate(self, client, session):
        self.assertEqual(self.called(client, "terminate", session_id=session)["structuredContent"]["status"], "ended")
        self.assertEqual(self.server.request("GET", f"/v1/sessions/{session}").json()["status"], "ended")
        result = client.tool("exec", session_id=session, command="true")
        self.assertTrue(result["isError"])
        mcp_schema.jsonschema.validate(result["structuredContent"], self.outputs["exec"])
        self.assertIn("create_session", text_of(result))

    def test_modern_over_http(self):
        self.converse("modern", "http")

    def test_modern_over_stdio(self):
        self.converse("modern", "stdio")

    def test_legacy_over_http(self):
        self.converse("legacy", "http")

    def test_legacy_over_stdio(self):
        self.converse("legacy", "stdio")

    def test_one_shot_figures(self):
        """Figures of a run without a session: artifacts that outlive the run."""
        code = PLOT.replace("data/rain.csv", "rain.csv").replace('open("rain.csv")', "CSV.splitlines()")
        code = f"CSV = {CSV!r}\n" + code + "import shutil\nfor n in range(5): shutil.copy('plot.png', f'copy{n}.png')\n"
        with mcp_client.connect(self.server, "modern", "http", schemas=self.schemas) as client:
            result = client.tool("run", language="python", code=code)
            self.assertEqual(result["structuredContent"]["exit_code"], 0, result)
            images = [block for block in result["content"] if block["type"] == "image"]
            self.assertEqual(len(images), 4, "at most four inline")
            told = result["structuredContent"]["artifacts"]
            self.assertEqual(len(told), 6)
            for each in told:
                (content,) = client.call("resources/read", {"uri": each["uri"]})["contents"]
                self.assertEqual(bars(base64.b64decode(content["blob"])), RAIN)
            got = client.tool("download", artifact_id=told[0]["id"])
            self.assertIn("image", [block["type"] for block in got["content"]])
            big = client.tool("run", language="python", code="import os\nopen('big.png', 'wb').write("
                              "b'\\x89PNG\\r\\n\\x1a\\n' + os.urandom(400_000))")
            self.assertNotIn("image", [block["type"] for block in big["content"]], "too large to be inline")
            self.assertEqual(big["structuredContent"]["artifacts"][0]["path"], "big.png")


if __name__ == "__main__":
    unittest.main()
