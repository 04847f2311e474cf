# SPDX-License-Identifier: Apache-2.0
"""The parts of the SDK for Python that ask no server: HTTP and events byte by byte, units, and paths."""

import pathlib
import sys
import unittest

REPO = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(REPO / "sdk/python"))
import cloister  # noqa: E402
from cloister import _body, _http1, _sse, _units  # noqa: E402
from cloister._sync import execution  # noqa: E402


class Wire(unittest.TestCase):
    """HTTP and events, byte by byte."""

    def test_bodies(self):
        whole = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4;x=y\r\nabcd\r\nA\r\n0123456789\r\n0\r\nT: 1\r\n\r\n"
        for step in (1, 2, 3, 7, len(whole)):
            status, headers, rest = _http1.parse_head(whole)
            body, content = _http1.Body("GET", status, headers), b""
            for at in range(0, len(rest), step):
                content += body.feed(rest[at:at + step])
            self.assertEqual((content, body.done, body.reusable), (b"abcd0123456789", True, True))
        body = _http1.Body("GET", 200, {"content-length": "3"})
        self.assertEqual((body.feed(b"abcX"), body.done, body.reusable), (b"abc", True, False))
        for headers, bad in (({"transfer-encoding": "chunked"}, b"zz\r\n"), ({"transfer-encoding": "chunked"}, b"2\r\nabc\r\n"), ({"content-length": "x"}, b"")):
            with self.assertRaises(_http1.ProtocolError):
                _http1.Body("GET", 200, headers).feed(bad)
        for cut in ({"content-length": "3"}, {"transfer-encoding": "chunked"}):
            with self.assertRaises(_http1.ProtocolError):
                _http1.Body("GET", 200, cut).end()
        self.assertIsNone(_http1.parse_head(b"HTTP/1.1 200 OK\r\nA: b\r\n"))
        for bad in (b"SSH-2.0\r\n\r\n", b"HTTP/1.1 200 OK\r\nnothing\r\n\r\n", b"x" * 70_000):
            with self.assertRaises(_http1.ProtocolError):
                _http1.parse_head(bad)
        with self.assertRaises(ValueError):
            _http1.head("GET", "/", "h", {"A": "b\r\nC: d"})

    def test_events(self):
        text = b": hi\n\nevent: stdout\nid: 1.2\ndata: {\"a\":\ndata: 1}\n\nevent: x\n\ndata: 3\r\n\r\n"
        for step in (1, 5, len(text)):
            parser, events = _sse.Parser(), []
            for at in range(0, len(text), step):
                events += parser.feed(text[at:at + step])
            self.assertEqual([(each.type, each.id, each.data) for each in events],
                             [("stdout", "1.2", {"a": 1}), ("message", "1.2", {"value": 3})])


class Arguments(unittest.TestCase):
    def refused(self, name, convert, value):
        with self.assertRaises(cloister.InvalidRequest) as caught:
            convert(name, value)
        self.assertEqual(caught.exception.field, name)
        self.assertTrue(caught.exception.remedy)

    def test_units(self):
        for value, wanted in (("512MB", 512), ("2g", 2048), (64, 64), ("1.5GiB", 1536), ("1k", 1), (1.5, 2)):
            self.assertEqual(_units.mebibytes("memory", value), wanted, value)
        for value, wanted in ((3, 3), ("30s", 30), ("1h", 3600), ("250ms", 0.25), ("2m", 120), ("1.5d", 129600), ("7", 7)):
            self.assertEqual(_units.seconds("timeout", value), wanted, value)
        for value in ("x", "-1s", 0, True, None, "1 parsec", float("nan"), [], ""):
            self.refused("timeout", _units.seconds, value)
            self.refused("memory", _units.mebibytes, value)
            self.refused("cpu", _units.cpu_millis, value)
        self.assertEqual((_units.cpu_millis("cpu", 2), _units.cpu_millis("cpu", "250m")), (2000, 250))
        self.assertEqual(_body.network_policy(["a.example:443"]), {"tier": "restricted", "allow": ["a.example:443"]})
        self.assertEqual(_body.network_policy({"tier": "full", "on_denied": "ask"}), {"tier": "full", "on_denied": "ask"})

    def test_paths(self):
        for path, wanted in (("a", "a"), ("/workspace/a/b", "a/b"), ("./a//b/../c", "a/c"), ("", ""), ("/workspace", ""), ("..a", "..a")):
            self.assertEqual(_body.workspace_path(path), wanted, path)
        for path, wanted in (("/home/user/.a", "/home/user/.a"), ("/tmp/./a/../b", "/tmp/b"), ("/workspace/a", "a"), ("/tmp", "/tmp")):
            self.assertEqual(_body.sandbox_path(path), wanted, path)
        for path in ("/home", "/home/user/../other", "/tmpx", "/tmp/../etc", "/etc"):
            self.refused("path", lambda _, value: _body.sandbox_path(value), path)
        for path in ("/tmp", "/home/user/", "", "/workspace"):
            self.refused("path", lambda _, value: _body.needs_name(value), path)
        for path in ("/etc", "..", "../a", "a/../..", "/workspaces/a", "/workspace/../etc"):
            self.refused("path", lambda _, value: _body.workspace_path(value), path)

    def test_output_that_comes_twice_is_passed_on_once(self):
        said = []
        output = execution._Output(said.append)
        for offset, data in ((0, b"abc"), (0, b"abc"), (1, b"bcde"), (2, b"cdefgh"), (8, "ä".encode()[:1]), (8, "äi".encode())):
            output.take(offset, data)
        self.assertEqual(("".join(said), output.offset), ("abcdefghäi", 11))

    def test_bytes(self):
        for content, wanted in (("ä", {"input": "ä"}), ("ä".encode(), {"input": "ä"}), (b"\xff", {"input": "/w==", "encoding": "base64"})):
            body = {}
            _body.put_bytes(body, "input", content)
            self.assertEqual(body, wanted)


if __name__ == "__main__":
    unittest.main()
