# SPDX-License-Identifier: Apache-2.0
"""The official clients against the MCP server: the two generations of the TypeScript SDK."""

import json
import queue
import subprocess
import tempfile
import threading
import unittest

import harness
import mcp_client
import mcp_npm

TREE = "import subprocess, time\nfor _ in range(3): subprocess.Popen(['sleep', '{0}'])\n" \
       "print('up', flush=True)\nsubprocess.run(['sleep', '{0}'])\n"
LINES = "import time\nfor i in range(4):\n    print('line', i, flush=True)\n    time.sleep(0.4)\n"
ACCEPT = {"action": "accept", "content": {"name": "Ada", "username": "ada", "email": "ada@example.com"}}


def setUpModule():
    Clients.npm = mcp_npm.need()
    Clients.server = unittest.enterModuleContext(harness.Server(args=["--mcp-conformance-fixtures"]))
    Clients.server.run("pass")


class Clients(unittest.TestCase):
    npm = server = None


class Sdk:
    """tests/mcp/client.mjs: an official SDK with a connection."""

    def __init__(self, test, sdk, era, transport, answers=()):
        server, npm = test.server, test.npm
        config = {"sdk": sdk, "era": era, "answers": list(answers)}
        if transport == "http":
            config |= {"url": f"{server.url}/mcp", "key": server.key}
        else:
            config |= {"command": str(server.bin / "cloister"), "args": ["mcp"], "env": {
                **server._environment(), "CLOISTER_URL": server.url, "CLOISTER_API_KEY": server.key}}
        self.errors = tempfile.TemporaryFile("w+")
        self.process = subprocess.Popen(
            [str(npm.node), str(npm.script("client.mjs")), json.dumps(config)], stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, stderr=self.errors, text=True, cwd=npm.root, env=npm.environment("/nonexistent"))
        self.elicited = []
        self._queues, self._ids, self._lock = {}, 0, threading.Lock()
        self._connected = threading.Event()
        threading.Thread(target=self._read, daemon=True).start()

    def __enter__(self):
        if not self._connected.wait(60) or self.process.poll() is not None:
            self.process.kill()
            self.process.wait()
            raise AssertionError(f"no connection\n{self.said()}")
        return self

    def __exit__(self, *exception):
        self._send(op="end")
        try:
            code = self.process.wait(30)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise
        finally:
            self.process.stdin.close()
        assert code == 0, self.said()
        self.errors.close()

    def said(self):
        self.errors.seek(0)
        return self.errors.read()[-4000:]

    def _read(self):
        for line in self.process.stdout:
            event = json.loads(line)
            if "connected" in event:
                self._connected.set()
            elif "elicit" in event:
                self.elicited.append(event["elicit"])
            else:
                with self._lock:
                    found = self._queues[event["id"]]
                found.put(event)
        self._connected.set()
        self.process.stdout.close()

    def _send(self, **command):
        self.process.stdin.write(json.dumps(command) + "\n")
        self.process.stdin.flush()

    def start(self, op, **command):
        with self._lock:
            self._ids += 1
            self._queues[self._ids] = queue.Queue()
        self._send(op=op, id=self._ids, **command)
        return self._ids

    def wait(self, ident):
        """The final event, and the progress before."""
        told = []
        while True:
            try:
                event = self._queues[ident].get(timeout=60)
            except queue.Empty:
                raise AssertionError(f"nothing for 60 s\n{self.said()}") from None
            if "progress" not in event:
                return event, told
            told.append(event["progress"])

    def call(self, name, arguments=None, progress=False, manual=False, **params):
        """→ (result, progress); an error is an AssertionError."""
        ident = self.start("call", params={"name": name, "arguments": arguments or {}, **params},
                           progress=progress, manual=manual)
        event, told = self.wait(ident)
        assert "result" in event, event
        return event["result"], told

    def refused(self, name, arguments=None, manual=False, **params):
        """→ the error of a call that must fail."""
        event, _ = self.wait(self.start("call", params={"name": name, "arguments": arguments or {}, **params},
                                        manual=manual))
        assert "error" in event, event
        return event["error"]


class SdkTests:
    """The abilities of each SDK, over both transports and in its eras."""

    sdk, era, number = 0, "", 0

    def connect(self, transport, **options):
        return self.enterContext(Sdk(self, self.sdk, self.era, transport, **options))

    def each(self, test):
        for transport in mcp_client.TRANSPORTS:
            with self.subTest(transport=transport):
                test(self.connect(transport), transport)

    def test_calls_with_progress(self):
        def test(sdk, _):
            tools, _ = sdk.wait(sdk.start("list"))
            self.assertIn("run", [tool["name"] for tool in tools["result"]["tools"]])
            result, told = sdk.call("run", {"language": "python", "code": LINES}, progress=True)
            self.assertEqual(result["structuredContent"]["stdout"], "line 0\nline 1\nline 2\nline 3\n")
            self.assertTrue(told)
            self.assertEqual([each["progress"] for each in told], sorted({each["progress"] for each in told}))
            result, _ = sdk.call("run", {"language": "klingon", "code": "x"})
            self.assertTrue(result["isError"])

        self.each(test)

    def test_abort_ends_the_tree(self):
        def test(sdk, transport):
            marker = f"9{self.number}{mcp_client.TRANSPORTS.index(transport)}.4321"
            session, _ = sdk.call("create_session", {"language": "python"})
            session = session["structuredContent"]["session_id"]
            ident = sdk.start("call", params={"name": "run", "arguments": {
                "session_id": session, "code": TREE.format(marker)}}, progress=True)
            harness.wait_for("the tree", lambda: len(mcp_client.alive(marker)) == 4)
            sdk.start("abort", call=ident)
            mcp_client.assert_dies(marker)
            event, _ = sdk.wait(ident)
            self.assertIn("error", event)
            result, _ = sdk.call("exec", {"session_id": session, "command": "echo usable"})
            self.assertEqual(result["structuredContent"]["stdout"], "usable\n")
            sdk.call("terminate", {"session_id": session})

        self.each(test)


class LegacyElicitation:
    """The server asks while the call waits."""

    def ask(self, transport, answer):
        sdk = self.connect(transport, answers=[answer])
        result, _ = sdk.call("test_elicitation", {"message": "who?"})
        self.assertEqual([asked["message"] for asked in sdk.elicited], ["who?"])
        return json.dumps(result["content"])

    def test_elicitation(self):
        for transport in mcp_client.TRANSPORTS:
            with self.subTest(transport=transport):
                self.assertIn("accept", self.ask(transport, ACCEPT))
                self.assertIn("decline", self.ask(transport, {"action": "decline"}))


class Sdk1(SdkTests, LegacyElicitation, Clients):
    sdk, era, number = 1, "legacy", 1


class Sdk2Legacy(SdkTests, LegacyElicitation, Clients):
    sdk, era, number = 2, "legacy", 2


class Sdk2Auto(SdkTests, Clients):
    sdk, era, number = 2, "auto", 3


class Sdk2Modern(SdkTests, Clients):
    """The call is answered with the question, and made again with the reply."""

    sdk, era, number = 2, "modern", 4
    TOOL = "test_input_required_result_elicitation"
    STATE = "test_input_required_result_request_state"

    def test_elicitation_accepted_and_declined(self):
        for transport in mcp_client.TRANSPORTS:
            with self.subTest(transport=transport):
                sdk = self.connect(transport, answers=[ACCEPT, {"action": "decline"}])
                result, _ = sdk.call(self.TOOL)
                self.assertEqual(len(sdk.elicited), 1)
                self.assertIn("Ada", json.dumps(result["content"]))
                result, _ = sdk.call(self.TOOL)
                self.assertNotIn("Ada", json.dumps(result["content"]))

    def question(self, sdk):
        """A call by hand → (requestState, inputResponses that fit)."""
        result, _ = sdk.call(self.STATE, manual=True)
        self.assertEqual(result["resultType"], "input_required")
        return result["requestState"], {key: {"action": "accept", "content": {"ok": True, "confirm": True}}
                                        for key in result["inputRequests"]}

    def test_state_tampered_and_replayed(self):
        for transport in mcp_client.TRANSPORTS:
            with self.subTest(transport=transport):
                sdk = self.connect(transport)
                state, responses = self.question(sdk)
                flipped = state[:-6] + ("A" if state[-6] != "A" else "B") + state[-5:]
                for bad in (flipped, state[:-4], "made-up", ""):
                    error = sdk.refused(self.STATE, requestState=bad, inputResponses=responses)
                    self.assertEqual(error["code"], -32602, error)
                error = sdk.refused(self.STATE, {"other": "arguments"}, requestState=state, inputResponses=responses)
                self.assertEqual(error["code"], -32602, error)
                state, responses = self.question(sdk)
                result, _ = sdk.call(self.STATE, requestState=state, inputResponses=responses)
                self.assertIn("state-ok", json.dumps(result["content"]))
                error = sdk.refused(self.STATE, requestState=state, inputResponses=responses)
                self.assertEqual(error["code"], -32602, f"a state is good for one use: {error}")


if __name__ == "__main__":
    unittest.main()
