# SPDX-License-Identifier: Apache-2.0
"""The Jupyter kernel of the SDK for Python, by the messages that a notebook sends. Needs Debian's python3-zmq."""

import hashlib
import hmac
import json
import pathlib
import subprocess
import sys
import tempfile
import time
import unittest
import uuid

import harness
import sdk_case

KEY = "0123456789abcdef"
NAMES = ("shell", "iopub", "stdin", "control", "hb")


class Notebook:
    """A kernel by its installed description, and the other end of its sockets."""

    def __init__(self, server, folder):
        import zmq

        environment = sdk_case.environment(server, JUPYTER_DATA_DIR=str(folder), CLOISTER_SANDBOX='{"memory": "96MB"}')
        environment["PYTHONPATH"] = ":".join(filter(None, [environment["PYTHONPATH"], *sys.path]))
        subprocess.run([sys.executable, "-m", "cloister.jupyter", "install"], env=environment, check=True, stdout=subprocess.DEVNULL)
        described = json.loads((folder / "kernels/cloister-python/kernel.json").read_text())
        assert described["display_name"] == "Cloister Python", described
        connection = {"transport": "ipc", "ip": f"{folder}/socket", "key": KEY, "signature_scheme": "hmac-sha256",
                      **{f"{name}_port": port for port, name in enumerate(NAMES, 1)}}
        (folder / "connection.json").write_text(json.dumps(connection))
        argv = [word.format(connection_file=folder / "connection.json") for word in described["argv"]]
        self.process = subprocess.Popen(argv, env=environment)
        self._zmq, self._context, self.sockets = zmq, zmq.Context(), {}
        for name, kind in (("shell", zmq.DEALER), ("control", zmq.DEALER), ("iopub", zmq.SUB), ("hb", zmq.REQ)):
            self.sockets[name] = self._context.socket(kind)
            self.sockets[name].connect(f"ipc://{folder}/socket-{connection[f'{name}_port']}")
        self.sockets["iopub"].setsockopt(zmq.SUBSCRIBE, b"")

    def close(self):
        self.process.terminate()
        assert self.process.wait(30 * harness.PATIENCE) == 0, self.process.returncode
        self._context.destroy(linger=0)

    def send(self, name, kind, key=KEY, **content):
        header = {"msg_id": uuid.uuid4().hex, "session": "s", "username": "u", "msg_type": kind, "version": "5.3", "date": ""}
        frames = [json.dumps(part).encode() for part in (header, {}, {}, content)]
        sign = hmac.new(key.encode(), b"".join(frames), hashlib.sha256).hexdigest().encode()
        self.sockets[name].send_multipart([b"<IDS|MSG>", sign, *frames])
        return header["msg_id"]

    def receive(self, name, seconds=30):
        assert self.sockets[name].poll(seconds * 1000 * harness.PATIENCE), f"nothing on {name}"
        frames = self.sockets[name].recv_multipart()
        at = frames.index(b"<IDS|MSG>")
        expected = hmac.new(KEY.encode(), b"".join(frames[at + 2:at + 6]), hashlib.sha256).hexdigest().encode()
        assert frames[at + 1] == expected, "the signature"
        header, parent, _, content = map(json.loads, frames[at + 2:at + 6])
        return header["msg_type"], parent.get("msg_id"), content

    def ask(self, kind, name="shell", **content):
        """The reply, and what was published meanwhile."""
        sent, published = self.send(name, kind, **content), []
        while ("status", {"execution_state": "idle"}) not in published:
            told, parent, content = self.receive("iopub")
            published += [(told, content)] if parent == sent else []
        reply = self.receive(name)
        assert reply[:2] == (kind.replace("_request", "_reply"), sent), reply
        return reply[2], [each for each in published if each[0] != "status"]


@unittest.skipIf(harness.SLOW, "not in the guest's image: python3-zmq")
class Jupyter(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = sdk_case.server(cls)

    def setUp(self):
        self.notebook = Notebook(self.server, pathlib.Path(self.enterContext(tempfile.TemporaryDirectory())))
        self.addCleanup(self.notebook.close)
        harness.wait_for("the subscription", self.subscribed, 20)

    def subscribed(self):
        assert self.notebook.process.poll() is None, "the kernel has ended"
        self.notebook.send("shell", "kernel_info_request")
        self.info = self.notebook.receive("shell")[2]
        time.sleep(0.05)
        heard = self.notebook.sockets["iopub"].poll(100)
        while self.notebook.sockets["iopub"].poll(50):
            self.notebook.sockets["iopub"].recv_multipart()
        return heard

    def run_cell(self, code):
        return self.notebook.ask("execute_request", code=code, silent=False)

    def test_a_notebook(self):
        self.assertEqual((self.info["status"], self.info["language_info"]["name"]), ("ok", "python"))
        self.notebook.sockets["hb"].send(b"alive")
        self.assertEqual(self.notebook.sockets["hb"].recv(), b"alive")
        reply, told = self.run_cell("x = 20; print('out'); x + 1")
        self.assertEqual((reply["status"], reply["execution_count"]), ("ok", 1))
        self.assertEqual((told[0][0], {content["name"] for kind, content in told if kind == "stream"}), ("execute_input", {"stdout"}))
        self.assertEqual("".join(content["text"] for kind, content in told if kind == "stream"), "out\n")
        self.assertEqual((told[-1][0], told[-1][1]["data"]["text/plain"]), ("display_data", "21"))
        reply, told = self.run_cell("display(x)\nimport sys\nprint('err', file=sys.stderr)")
        self.assertEqual({(kind, content.get("name")) for kind, content in told[1:]}, {("stream", "stderr"), ("display_data", None)})
        reply, told = self.run_cell("{}['k']")
        self.assertEqual((reply["status"], reply["ename"], told[-1][0]), ("error", "KeyError", "error"))
        self.assertIn("Traceback", "".join(content["text"] for kind, content in told if kind == "stream"))
        self.assertEqual(self.notebook.ask("is_complete_request", code="1")[0]["status"], "unknown")
        self.assertEqual(self.notebook.ask("complete_request", code="x", cursor_pos=1)[0]["matches"], [])
        self.assertEqual([each["limits"]["memory_mb"] for each in self.sandboxes()], [96])
        self.notebook.process.terminate()
        self.notebook.process.wait(30 * harness.PATIENCE)
        self.assertEqual(self.sandboxes(), [], "SIGTERM ends the sandbox too")

    def sandboxes(self):
        return self.server.request("GET", "/v1/sessions?status=running").json()["sessions"]

    def test_interrupts_and_the_end(self):
        notebook = self.notebook
        self.run_cell("y = 5;")
        began = time.monotonic()
        sent = notebook.send("shell", "execute_request", code="import time\nprint('up')\ntime.sleep(60)", silent=False)
        while notebook.receive("iopub")[0] != "stream":
            pass
        notebook.send("control", "interrupt_request")
        kind, parent, content = notebook.receive("shell")
        self.assertEqual((kind, parent, content["ename"]), ("execute_reply", sent, "KeyboardInterrupt"))
        self.assertLess(time.monotonic() - began, 20 * harness.PATIENCE)
        notebook.receive("control")
        self.assertEqual(self.run_cell("y")[1][-1][1]["data"]["text/plain"], "5", "the variables stay")
        notebook.send("shell", "execute_request", key="wrong", code="open('bad', 'w')", silent=False)
        self.assertEqual(self.run_cell("import os; os.path.exists('bad')")[1][-1][1]["data"]["text/plain"], "False", "an unsigned message")
        self.assertEqual(notebook.ask("shutdown_request", "control", restart=False)[0], {"status": "ok", "restart": False})
        self.assertEqual(notebook.process.wait(20 * harness.PATIENCE), 0)
        self.assertEqual(self.sandboxes(), [])


if __name__ == "__main__":
    unittest.main()
