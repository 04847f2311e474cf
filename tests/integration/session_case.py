# SPDX-License-Identifier: Apache-2.0
"""A session for tests.

    with Session(server, language="bash") as session:
        assert session.exec("echo hi")["stdout"] == "hi\
"
"""

import base64
import time

import harness

LOOK = """
import os
for pid in os.listdir("/proc"):
    if pid.isdigit() and int(pid) not in (1, os.getpid()):
        try: state, line = open(f"/proc/{pid}/stat").read(), open(f"/proc/{pid}/cmdline").read()
        except OSError: continue
        if state[state.rindex(")") + 2] not in "ZX": print(line.replace("\\0", " ").strip())
"""


class Session:
    """`request`: members of POST /v1/sessions. `call` makes the requests: the server's, or a function that checks
    each answer. `with` ends the session."""

    def __init__(self, server, call=None, key=None, headers=None, **request):
        self.server, self.key, self._call = server, key, call or server.request
        answer = self._call("POST", "/v1/sessions", request, headers, key)
        assert answer.status == 201, (answer.status, answer.body[:2000])
        self.made = answer.json()
        self.id = self.made["id"]
        self.path = f"/v1/sessions/{self.id}"

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        self.end()

    def call(self, method, path, body=None, headers=None, status=None):
        """A request below this session's path, or of a path of its own."""
        target = path if path.startswith("/v1/") else self.path + path
        answer = self._call(method, target, body, headers, self.key)
        if status is not None:
            assert answer.status == status, (method, target, answer.status, answer.body[:2000])
        return answer

    # - the session -

    def show(self):
        return self.call("GET", "", status=200).json()

    def end(self):
        return self.call("DELETE", "", status=200).json()

    def renew(self, **times):
        return self.call("POST", "/renew", times, status=200).json()

    def wait_ended(self, seconds=30):
        """The ended session, by its events."""
        end = time.monotonic() + seconds
        for event, _, data in self.server.events(self.path + "/events", timeout=seconds):
            if event == "status" and data["status"] == "ended":
                return data
            if time.monotonic() > end:  # heartbeats come
                break
        raise AssertionError(f"{self.id} has not ended: {self.show()}")

    # - its programs -

    def post(self, code=None, query="", headers=None, **request):
        """POST …/exec → the answer. `code` is the session's language."""
        if code is not None:
            request = {"code": code, "kernel": "none"} | request  # test_kernels.py has cells
        return self.call("POST", f"/exec{query}", request, headers)

    def exec(self, code=None, **request):
        """Runs to its end → the finished execution."""
        answer = self.post(code, "?wait=60", **request)
        assert answer.status == 200, (answer.status, answer.body[:2000])
        return answer.json()

    def start(self, code=None, **request):
        """Runs in the background → its id."""
        answer = self.post(code, background=True, **request)
        assert answer.status == 202, (answer.status, answer.body[:2000])
        return answer.json()["id"]

    def get(self, execution):
        return self.call("GET", f"/v1/executions/{execution}", status=200).json()

    def wait(self, execution, seconds=60):
        """The finished execution."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            now = self.get(execution)
            if harness.finished(now):
                return now
            time.sleep(0.02)
        raise AssertionError(f"{execution} is {now['status']} after {seconds} s")

    def wait_output(self, execution, text, seconds=30):
        def said():
            now = self.get(execution)
            if text in now["stdout"]:
                return True
            if harness.finished(now):
                raise AssertionError(f"without {text!r} it has ended: {now}")

        harness.wait_for(f"{text!r} from {execution}", said, seconds)

    def send(self, execution, data=b"", eof=False):
        """POST …/input → the answer."""
        body = {"eof": True} if eof else {}
        if data:
            body |= {"data": base64.b64encode(data).decode(), "encoding": "base64"}
        return self.call("POST", f"/v1/executions/{execution}/input", body)

    def signal(self, execution, signal):
        return self.call("POST", f"/v1/executions/{execution}:signal", {"signal": signal})

    def cancel(self, execution):
        answer = self.call("DELETE", f"/v1/executions/{execution}")
        assert answer.status in (200, 202), (answer.status, answer.body[:500])
        return self.wait(execution)

    def programs(self):
        """The command lines of the sandbox's processes, without its runner and the looking process."""
        looked = self.exec(LOOK, language="python")
        assert looked["status"] == "completed", looked
        return looked["stdout"].splitlines()

    def sleeping(self, *seconds):
        """The number of programs `sleep N` in the sandbox, for each of `seconds`."""
        lines = [line.split("/")[-1] for line in self.programs()]
        return [lines.count(f"sleep {each}") for each in seconds]
