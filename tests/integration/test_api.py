# SPDX-License-Identifier: Apache-2.0
"""The HTTP API, every answer held to spec/openapi.yaml: executions, events, artifacts, operations."""

import base64
import contextlib
import http.client
import json
import os
import pathlib
import re
import signal
import socket
import urllib.parse
import unittest

import disk_case
import harness
import websocket
from api_case import DOCUMENT, ApiTest, start_server
from session_case import Session

setUpModule = start_server


class Document(ApiTest):
    def test_document_is_served_and_whole(self):
        answer = self.server.request("GET", "/openapi.yaml", key=False)
        self.assertEqual(answer.text, (harness.REPO / "spec" / "openapi.yaml").read_text())

    def test_documents_every_route(self):
        written = set()
        api = harness.REPO / "src" / "api"
        for source in [path for folder in ("rest", "mcp", "ui") for path in (api / folder).glob("*.cc")]:
            if source.stem.endswith("_test"):
                continue
            written |= set(re.findall(r'"(/(?:v1/|\.well-known/|healthz|readyz|metrics|openapi|mcp)[^"]*)"',
                                      source.read_text()))
            if source.parent.name == "ui":
                written |= set(re.findall(r'(?:(?:route|get)\((?:"[A-Z]+", )?|\.pattern = )"(/[^"]*)"', source.read_text()))
        written = {path for path in written if path == "/" or not path.endswith("/")}
        self.assertEqual(written, set(DOCUMENT.root["paths"]))

    def test_offers_every_documented_method(self):
        for template in DOCUMENT.root["paths"]:
            if "/ports/{port}/" in template:
                continue  # goes to the server inside
            answer = self.server.request("OPTIONS", template.replace("{id}", "x").replace("{path}", "x"))
            self.assertEqual(answer.status, 405, template)
            documented = {method for method, path in DOCUMENT.operations() if path == template}
            self.assertEqual(set(answer.headers["allow"].split(", ")), documented, template)


class Executions(ApiTest):
    def test_contract_field_by_field(self):
        done = self.run_code(
            "import sys\nprint(input())\nopen('plot.txt','w').write('art')\nprint('e', file=sys.stderr)",
            input="hi", args=["a"], env={"A": "b"},
            files=[{"path": "a.txt", "content": "x", "encoding": "utf8"}], timeout_seconds=30,
            cpu_millis=800, memory_mb=256, disk_mb=1024, pids=64, max_output_bytes=1048576,
            network_policy={"tier": "none"}, runtime=None, tier=None, artifacts=["**"],
            metadata={"note": "n"}, deps=[])
        self.assertEqual((done["status"], done["exit_code"], done["signal"], done["error"]),
                         ("completed", 0, None, None))
        self.assertEqual((done["stdout"], done["stderr"]), ("hi\n", "e\n"))
        self.assertFalse(done["stdout_truncated"] or done["stderr_truncated"])
        self.assertEqual([(a["path"], a["size"]) for a in done["artifacts"]], [("plot.txt", 3)])
        self.assertEqual(done["provenance"]["runtime"], "process")
        self.assertRegex(done["provenance"]["image_digest"], "^sha256:")
        self.assertEqual(done["metadata"], {"note": "n"})
        self.assertLessEqual(done["created_at"], done["started_at"])
        self.assertLessEqual(done["started_at"], done["finished_at"])
        again = self.call("GET", f"/v1/executions/{done['id']}", status=200).json()
        self.assertEqual(again, done)

    def test_exit_codes_and_signals(self):
        self.assertEqual(self.run_code("exit 3", "bash")["exit_code"], 3)
        crashed = self.run_code("kill -SEGV $$", "bash")
        self.assertEqual((crashed["status"], crashed["signal"]), ("completed", "SIGSEGV"))
        late = self.run_code("sleep 60", "bash", timeout_seconds=0.3)
        self.assertEqual((late["status"], late["error"]["type"]), ("timed_out", "TIMEOUT"))

    def test_the_limits_are_told_from_the_start(self):
        asked = {"timeout_seconds": 40, "memory_mb": 96, "pids": 17, "disk_mb": 33, "cpu_millis": 700, "max_output_bytes": 5000}
        made = self.start("sleep 30", **asked)
        running = harness.wait_for("the start", lambda: (now := self.server.get(made["id"]))["status"] == "running" and now, 20)
        self.assertEqual({name: running["limits"][name] for name in asked}, asked)
        self.assertEqual(running["limits"]["cpu_seconds"], 41, "a second more than the time, on one core")
        self.assertEqual(self.cancel(made)["limits"], running["limits"])
        self.assertIsNone(self.run_code(":", "bash", network_policy={"tier": "full"})["limits"], "it did not start")

    def test_a_file_at_its_limit_that_the_program_met_itself(self):
        """Python ignores SIGXFSZ: the write fails, and leaves a file of the largest allowed size."""
        write = "open('/workspace/big', 'wb', 0).write(b'x' * (3 << 20))"
        twice = f"import sys\nfor _ in range(2):\n    if {write} < 3 << 20: sys.exit(4)"
        met = self.run_code(twice.replace("'wb'", "'ab'"), "python", file_size_mb=2)
        self.assertEqual((met["status"], met["exit_code"]), ("completed", 4), met)
        self.assertEqual((met["error"]["type"], met["error"]["details"]["limit"], met["error"]["details"]["value"]),
                         ("RESOURCE_LIMIT_EXCEEDED", "file_size_mb", 2 << 20))
        fits = self.run_code(twice + "\nsys.exit(4)", "python", file_size_mb=4)
        self.assertEqual((fits["exit_code"], fits["error"]), (4, None))
        well = self.run_code(f"import os\nassert {write} == 2 << 20", "python", file_size_mb=2)
        self.assertEqual((well["exit_code"], well["error"]), (0, None), "a program that did well met nothing")

    def test_a_full_workspace(self):
        message = self.assertTellsItsWorkspace()
        self.assertEqual("a disk_mb above 1024 (workspace.disk.over_mb)" in message,
                         disk_case.lack(self.server) is None, "where the node has disks, that helps too")

    def test_open_files(self):
        self.assertNamesItsOpenFiles()
        closed = "import os\nos.write(2, b'Too many open files\\n'); os._exit(1)"
        guess = self.run_code(closed, open_files=32)["error"]["details"]
        self.assertEqual((guess["limit"], guess["value"], guess["probable"]), ("open_files", 32, True))
        self.assertNotEqual(guess["used"], 32, "nobody saw it there")
        opens = "files = [open('/dev/null') for _ in range(100)]"
        for hold in (0.05, 0.4, 3.2):  # for ended processes, the sampled figures
            body = {"command": ["python3", "-c", f"{opens}\nimport time; time.sleep({hold})"]}
            seen = self.call("POST", "/v1/executions?wait=60", body, status=200).json()["resource_usage"]["open_files"]
            if seen == 103: break
        self.assertEqual(seen, 103)

    def test_wait(self):
        answer = self.call("POST", "/v1/executions", {"language": "bash", "code": "sleep 30"},
                           status=201)
        execution = answer.json()
        self.assertEqual(answer.headers["location"], f"/v1/executions/{execution['id']}")
        self.assertIn(execution["status"], ("queued", "running"))
        waiting = self.call("POST", "/v1/executions?wait=1", {"language": "bash", "code": "sleep 30"},
                            status=202).json()
        self.assertEqual(self.cancel(execution)["status"], "cancelled")
        self.assertEqual(self.cancel(waiting)["error"]["type"], "CANCELLED")
        for wait in ("301", "-1", "x", "1.5", ""):
            with self.subTest(wait):
                self.assertProblem(self.call("POST", f"/v1/executions?wait={wait}",
                                             {"language": "bash", "code": ":"}), 400,
                                   field="query.wait")

    def test_denied_is_a_record(self):
        denied = self.run_code(":", "bash", network_policy={"tier": "full"})
        self.assertEqual((denied["status"], denied["error"]["type"]), ("denied", "PERMISSION_DENIED"))
        self.assertIsNone(denied["started_at"])
        stored = self.call("GET", f"/v1/executions/{denied['id']}", status=200).json()
        self.assertEqual(stored["status"], "denied")

    def test_dry_run_records_nothing(self):
        before = self.call("GET", "/v1/executions?limit=1").json()["executions"]
        plan = self.call("POST", "/v1/executions?dry_run=true",
                         {"language": "python", "code": "print(1)"}, status=200).json()
        self.assertNotIn("status", plan)
        self.assertEqual(self.call("GET", "/v1/executions?limit=1").json()["executions"], before)

    def test_refusals_name_the_field(self):
        def post(body, headers=None):
            return self.call("POST", "/v1/executions", body, headers)

        good = {"language": "bash", "code": ":"}
        fields = {
            "unknown": {**good, "unknown": 1},
            "timeout_seconds": {**good, "timeout_seconds": 1e9},
            "memory_mb": {**good, "memory_mb": "much"},
            "pids": {**good, "pids": 0},
            "files[0].path": {**good, "files": [{"path": "../a", "content": ""}]},
            "network_policy.extra": {**good, "network_policy": {"extra": 1}},
            "encoding": {**good, "encoding": "gzip"},
            "code": {"language": "bash"},
            "language": {"language": "klingon", "code": ":"},
        }
        for field, body in fields.items():
            with self.subTest(field):
                self.assertProblem(post(body), 422, field=field)
        for body in (b"", b"{", b"[]", b'"text"', b'{"code":"\xff"}', b'{"a":1,"a":2}', b"nul"):
            with self.subTest(body):
                self.assertProblem(post(body, {"Content-Type": "application/json"}), 400)
        self.assertProblem(post({**good, "code": "x" * (5 << 20)}), 413, field="code")
        self.assertProblem(self.call("POST", "/v1/executions?nope=1", good), 400, field="query.nope")
        self.assertProblem(post(json.dumps(good).encode(), {"Content-Type": "text/plain"}), 415)
        self.assertProblem(post(good, {"Content-Encoding": "gzip"}), 415)

    def test_idempotency(self):
        body = {"language": "bash", "code": "echo once"}
        first = self.call("POST", "/v1/executions?wait=30", body, {"Idempotency-Key": "k1"})
        second = self.call("POST", "/v1/executions?wait=30", body, {"Idempotency-Key": "k1"})
        self.assertEqual(first.json(), second.json())
        other = self.call("POST", "/v1/executions", {**body, "code": "echo two"},
                          {"Idempotency-Key": "k1"})
        self.assertProblem(other, 409)
        for bad in ("", "a b", "x" * 256, "é".encode().decode("latin-1")):
            with self.subTest(bad):
                answer = self.call("POST", "/v1/executions", body, {"Idempotency-Key": bad})
                self.assertProblem(answer, 400, field="header.Idempotency-Key")

    def request_of(self, execution, key=None):
        return self.call("GET", f"/v1/executions/{execution}/request", key=key, status=200).json()

    def test_the_request_makes_it_again(self):
        sent = {"language": "python", "code": "import sys; print(sys.argv[1:], sys.stdin.read(), open('f').read())",
                "args": ["a b"], "input": "in", "files": [{"path": "f", "content": "file"}], "memory_mb": 256,
                "timeout_seconds": 7, "metadata": {"task": "t"}}
        first = self.call("POST", "/v1/executions?wait=60", sent, status=200).json()
        kept = self.request_of(first["id"])
        self.assertEqual((kept["execution_id"], kept["session_id"], kept["withheld"]), (first["id"], None, []))
        body = kept["request"]
        self.assertEqual({name: body[name] for name in sent if name != "files"}, {name: sent[name] for name in sent if name != "files"})
        self.assertEqual((body["files"][0]["path"], body["files"][0]["content"]), ("f", "file"))
        self.assertLessEqual({"pids", "disk_mb", "named_limits", "approval"} & set(body), set(), "nobody named these")
        again = self.call("POST", "/v1/executions?wait=60", body, status=200).json()
        self.assertEqual((again["stdout"], again["provenance"]["code_sha256"]), (first["stdout"], first["provenance"]["code_sha256"]))
        self.assertEqual(self.request_of(again["id"])["request"], body)

    def test_the_request_of_a_cell_makes_it_again(self):
        session = self.call("POST", "/v1/sessions", {"language": "python", "memory_mb": 300, "env": {"A": "1"}}, status=201).json()["id"]
        exec_ = lambda body: self.call("POST", f"/v1/sessions/{session}/exec?wait=60", body, status=200).json()  # noqa: E731
        first = exec_({"code": "import os; print(os.getcwd(), os.environ['A'], os.environ['B'])", "env": {"B": "2"}, "cwd": "/tmp", "command": None})
        kept = self.request_of(first["id"])
        self.assertEqual(kept["session_id"], session)
        self.assertEqual(exec_(kept["request"])["stdout"], first["stdout"])
        self.assertEqual(first["stdout"], "/tmp 1 2\n")
        self.call("DELETE", f"/v1/sessions/{session}", status=200)

    def test_only_the_requester_sees_the_values_of_the_environment(self):
        mine = self.new_key("shared", agent="coder", user="ann")["secret"]
        another = self.new_key("shared", agent="coder", user="bob")["secret"]
        viewer = self.new_key("shared", role="viewer", user="ann")["secret"]
        done = self.run_code("print('ran')", key=mine, env={"TOKEN": "planted-value"})
        self.assertEqual(self.request_of(done["id"], mine)["request"]["env"], {"TOKEN": "planted-value"})
        kept = self.request_of(done["id"], another)
        self.assertEqual((kept["request"]["env"], kept["withheld"]), ({"TOKEN": None}, ["env"]))
        path = f"/v1/executions/{done['id']}/request"
        self.assertProblem(self.call("GET", path, key=viewer), 403, "PERMISSION_DENIED")
        self.assertProblem(self.call("GET", "/v1/executions/exec_none/request"), 404)

    def test_list_pages_and_filters(self):
        key = self.new_key("lister", agent="lister-agent")["secret"]
        made = [self.run_code(f"exit {n}", "bash", key=key)["id"] for n in range(5)]
        seen, cursor = [], ""
        while cursor is not None:
            page = self.call("GET", f"/v1/executions?limit=2{cursor}", key=key, status=200).json()
            seen += [execution["id"] for execution in page["executions"]]
            cursor = page["next_cursor"]
            cursor = cursor and "&cursor=" + urllib.parse.quote(cursor)
        self.assertEqual(seen, made[::-1])

        def ids(query):
            page = self.call("GET", f"/v1/executions?limit=500&{query}", status=200).json()
            return {execution["id"] for execution in page["executions"]}

        self.assertEqual(ids("agent=lister-agent"), set(made))
        self.assertEqual(ids("agent=lister-agent&status=failed"), set())
        self.assertEqual(ids("session_id=sess_none"), set())
        for query in ("limit=0", "limit=501", "status=odd", "cursor=x", "cursor=YmVmb3JlOg=="):
            with self.subTest(query):
                self.assertProblem(self.call("GET", f"/v1/executions?{query}"), 400)

    def test_logs(self):
        done = self.run_code("for i in 1 2 3; do echo out$i; done; printf '\\377\\n' >&2", "bash")
        path = f"/v1/executions/{done['id']}/logs"
        whole = self.call("GET", path, status=200)
        self.assertEqual(whole.body, b"out1\nout2\nout3\n")
        self.assertEqual((whole.headers["x-cloister-next-offset"],
                          whole.headers["x-cloister-total-bytes"],
                          whole.headers["x-cloister-complete"]), ("15", "15", "true"))
        self.assertEqual(self.call("GET", path + "?offset=5").body, b"out2\nout3\n")
        self.assertEqual(self.call("GET", path + "?offset=99").body, b"")
        for lines, expected in ((1, b"out3\n"), (2, b"out2\nout3\n"), (9, whole.body)):
            self.assertEqual(self.call("GET", f"{path}?tail_lines={lines}").body, expected)
        self.assertEqual(self.call("GET", path + "?stream=stderr").body, b"\xff\n")
        self.assertProblem(self.call("GET", path + "?stream=both"), 400, field="query.stream")
        self.assertProblem(self.call("GET", path + "?offset=1&tail_lines=1"), 400)

    def logged(self, request):
        """The lines of the service's log with this request's id, by their event."""
        lines = [json.loads(line) for line in self.server.log_tail(300).splitlines() if line.startswith("{")]
        return {line["event"]: line for line in lines if line.get("request") == request}

    def test_the_log_says_what_changed_and_by_which_request(self):
        answer = self.call("POST", "/v1/executions?wait=60", {"language": "bash", "code": "echo not-in-the-log; exit 3"}, status=200)
        done, request = answer.json(), answer.headers["x-request-id"]
        logged = harness.wait_for("the lines", lambda: "execution.finished" in (all := self.logged(request)) and all)
        self.assertLessEqual({"execution.accepted", "execution.started"}, set(logged))
        for line in logged.values():
            self.assertEqual((line["level"], line["execution"], line["tenant"]), ("info", done["id"], "default"), line)
        self.assertEqual(logged["execution.finished"]["status"], "completed")
        self.assertNotIn("not-in-the-log", self.server.log_tail(2000))
        made = self.call("POST", "/v1/sessions", {"language": "bash"}, status=201)
        session = made.json()["id"]
        ran = self.call("POST", f"/v1/sessions/{session}/exec?wait=60", {"code": "true"}, status=200)
        self.call("DELETE", f"/v1/sessions/{session}", status=200)
        for each, event in ((made, "session.created"), (ran, "execution.finished")):
            logged = harness.wait_for(event, lambda: self.logged(each.headers["x-request-id"]))
            self.assertIn(event, logged)
            self.assertEqual({line["session"] for line in logged.values()}, {session}, logged)

    def test_binary_output(self):
        done = self.run_code("import os; os.write(1, bytes(range(256)))")
        self.assertEqual(done["stdout_encoding"], "base64")
        self.assertEqual(base64.b64decode(done["stdout"]), bytes(range(256)))


class Events(ApiTest):
    def events(self, execution_id, last=None):
        found = []
        for event, position, data in self.server.events(execution_id, last):
            schema = {"status": "ExecutionSummary", "stdout": "Output", "stderr": "Output",
                      "usage": "ResourceUsage", "artifact": "Artifact", "heartbeat": "Heartbeat"}
            DOCUMENT.validate(data, schema[event])
            found.append((event, position, data))
        return found

    @staticmethod
    def output(events, stream):
        text = b""
        for event, _, data in events:
            if event == stream:
                text += base64.b64decode(data["data"])
        return text

    def test_follows_a_run_to_its_end(self):
        execution = self.start("echo a; sleep 2.2; echo b >&2; echo c > f")
        events = self.events(execution["id"])
        names = [event for event, _, _ in events]
        self.assertIn("heartbeat", names)
        self.assertEqual(names[-1], "status")
        self.assertEqual(events[-1][2]["status"], "completed")
        self.assertEqual((self.output(events, "stdout"), self.output(events, "stderr")),
                         (b"a\n", b"b\n"))
        self.assertEqual([data["path"] for event, _, data in events if event == "artifact"], ["f"])
        later = [data["wall_ms"] for event, _, data in self.events(execution["id"]) if event == "usage"]
        self.assertEqual(later, sorted(later), "the use over time of an ended run")
        self.assertGreaterEqual(len([wall for wall in later if 1000 <= wall < later[-1]]), 2, later)
        seen = next(position for event, position, _ in events if event == "stdout")
        resumed = [data for event, _, data in self.events(execution["id"], seen) if event == "usage"]
        self.assertEqual(len(resumed), 1, "a reader that goes on has the use over time already")

    def test_resumes_from_every_event(self):
        done = self.run_code("print('x' * 100000)")
        whole = self.events(done["id"])
        everything = self.output(whole, "stdout")
        self.assertEqual(len(everything), 100_001)
        for event, position, _ in whole[:-1]:
            rest = self.events(done["id"], position)
            offset = int(position.split(".")[1])
            self.assertEqual(everything[:offset] + self.output(rest, "stdout"), everything)
            self.assertEqual(rest[-1][0], "status")
        path = f"/v1/executions/{done['id']}/events"
        self.call("GET", path, headers={"Last-Event-ID": whole[-1][1]}, status=204)
        self.call("GET", f"{path}?last_event_id={whole[-1][1]}", status=204)
        self.assertProblem(self.call("GET", path, headers={"Last-Event-ID": "x"}), 400)

    def test_positions_outlive_the_live_log(self):
        """A record read back from the ledger gives the same events as the run did."""
        server = harness.Server(config="run:\n  finished_in_memory: 1\n")
        with server:
            done = server.run("print('y' * 50000)")
            live = [(event, position) for event, position, _ in server.events(done["id"])]
            for _ in range(3):
                server.run(":", "bash")
            stored = [(event, position) for event, position, _ in server.events(done["id"])]
        self.assertEqual(live, stored)

    def open_socket(self, execution_id, headers=None, query=""):
        return websocket.WebSocket(self.server.host, self.server.port,
                                   f"/v1/executions/{execution_id}/events{query}",
                                   {"Authorization": f"Bearer {self.server.key}", **(headers or {})})

    def test_websocket_tells_the_same(self):
        execution = self.start("echo a; sleep 1.2; echo b >&2; echo c > f")
        with self.open_socket(execution["id"]) as socket_:
            messages = [json.loads(text) for text in socket_.messages()]
            self.assertEqual(socket_.closed, 1000)
        for message in messages:
            DOCUMENT.validate(message, "WebSocketMessage")
        self.assertEqual(messages[-1]["status"], "completed")
        out = b"".join(base64.b64decode(m["data"]) for m in messages if m["type"] == "stdout")
        self.assertEqual(out, b"a\n")
        middle = next(m for m in messages if m["type"] == "stdout")["id"]
        with self.open_socket(execution["id"], query=f"?last_event_id={middle}") as socket_:
            rest = [json.loads(text) for text in socket_.messages()]
        self.assertNotIn("stdout", [m["type"] for m in rest])
        self.assertEqual(rest[-1]["status"], "completed")

    def test_websocket_keeps_its_side(self):
        execution = self.start("sleep 30")
        with self.open_socket(execution["id"]) as socket_:
            socket_.send(websocket.PING, b"are you there")
            while True:
                opcode, payload = socket_.receive()
                if opcode == websocket.PONG:
                    break
            self.assertEqual(payload, b"are you there")
            socket_.send(websocket.TEXT, b"data")
            list(socket_.messages())
            self.assertEqual(socket_.closed, 1008)
        for headers, status in (({"Authorization": "Bearer no"}, 401),
                                ({"Origin": "https://evil.test"}, 403)):
            with self.open_socket(execution["id"], headers) as socket_:
                self.assertEqual(socket_.status, status)
        self.cancel(execution)


class Artifacts(ApiTest):
    def test_download(self):
        done = self.run_code("open('é \"x\".html','w').write('<script>' + '0123456789' * 10)")
        artifact = done["artifacts"][0]
        shown = self.call("GET", f"/v1/artifacts/{artifact['id']}", status=200).json()
        self.assertEqual(shown, {**shown, **artifact, "execution_id": done["id"]})
        path = f"/v1/artifacts/{artifact['id']}/content"
        whole = self.call("GET", path, status=200)
        self.assertEqual(len(whole.body), artifact["size"])
        self.assertTrue(whole.headers["content-disposition"].startswith("attachment;"))
        self.assertNotIn("html", whole.headers["content-type"])
        self.assertNotIn("\n", whole.headers["content-disposition"])
        etag = whole.headers["etag"]
        self.call("GET", path, headers={"If-None-Match": etag}, status=304)
        size = artifact["size"]
        for header, (start, end) in {"bytes=0-3": (0, 4), "bytes=8-": (8, size),
                                     "bytes=-5": (size - 5, size), "bytes=5-999999": (5, size),
                                     "bytes=-999999": (0, size)}.items():
            with self.subTest(header):
                part = self.call("GET", path, headers={"Range": header}, status=206)
                self.assertEqual(part.body, whole.body[start:end])
                self.assertEqual(part.headers["content-range"], f"bytes {start}-{end - 1}/{size}")
        for header in ("bytes=a-b", "bytes=3-1", "bytes=0-1,3-4", "lines=0-1", "bytes=--1"):
            with self.subTest(header):
                self.assertEqual(self.call("GET", path, headers={"Range": header}, status=200).body,
                                 whole.body)
        for header in (f"bytes={size}-", "bytes=-0"):
            self.call("GET", path, headers={"Range": header}, status=416)
        self.assertEqual(self.call("GET", path, headers={"Range": "bytes=0-1", "If-Range": '"x"'},
                                   status=200).body, whole.body)
        self.call("GET", path, headers={"Range": "bytes=0-1", "If-Range": etag}, status=206)


class Operations(ApiTest):
    def test_health_node_languages(self):
        self.call("GET", "/healthz", status=200)
        self.assertEqual(self.call("GET", "/readyz", status=200).json()["reasons"], [])
        node = self.call("GET", "/v1/node", status=200).json()
        self.assertTrue(node["connected"])
        self.assertIn("process", node["runtimes"])
        languages = self.call("GET", "/v1/languages", status=200).json()["languages"]
        usable = {language["name"] for language in languages if language["usable"]}
        self.assertIn("bash", usable)
        self.assertEqual(usable, set(node["languages"]))

    def test_metrics(self):
        before = self.server.metrics()
        self.run_code("exit 1", "bash")
        after = self.server.metrics()

        def grown(name):
            return after.get(name, 0) - before.get(name, 0)

        self.assertEqual(grown('cloister_executions_total{reason="none",runtime="process",status="completed"}'), 1)
        self.assertEqual(grown('cloister_start_seconds_count{runtime="process"}'), 1)
        self.assertEqual(grown('cloister_run_seconds_count{runtime="process"}'), 1)
        self.assertIn("cloister_queue_depth", after)
        self.assertIn("cloister_running", after)
        self.assertEqual(grown('cloister_http_requests_total{method="POST",'
                               'route="/v1/executions",status="200"}'), 1)

    def test_metrics_of_what_there_is(self):
        """Memory, disk, denials and escalations: each follows the actions."""
        def now(name):
            return self.server.metrics().get(name, 0)

        self.assertEqual(now("cloister_state_disk_bytes"), self.disk().f_blocks * self.disk().f_frsize)
        self.assertLessEqual(now("cloister_state_disk_available_bytes"), now("cloister_state_disk_bytes"))
        denied = now('cloister_denied_total{operation="run"}')
        self.call("POST", "/v1/executions", {"command": "true", "network_policy": {"tier": "full"}})
        self.assertEqual(now('cloister_denied_total{operation="run"}'), denied + 1)
        reserved = now("cloister_memory_reserved_bytes")
        pending = now('cloister_escalations{status="pending"}')
        run = self.call("POST", "/v1/executions", {"language": "python", "memory_mb": 300, "timeout_seconds": 600,
                        "code": "import time\nblock = b'x' * (200 << 20)\ntime.sleep(600)"}, status=201).json()
        self.assertEqual(now("cloister_memory_reserved_bytes"), reserved + (300 << 20))
        harness.wait_for("its memory to be seen",
                         lambda: 190 << 20 < now("cloister_memory_used_bytes") < 300 << 20, 60)
        self.call("DELETE", f"/v1/executions/{run['id']}")
        self.server.wait_end(run["id"])
        self.assertEqual(now("cloister_memory_reserved_bytes"), reserved)
        self.call("POST", "/v1/escalations", {"operation": "run", "reason": "please",
                  "request": {"language": "bash", "code": "echo x"}}, status=201)
        self.assertEqual(now('cloister_escalations{status="pending"}'), pending + 1)

    def disk(self):
        return os.statvfs(self.server.state)

    def test_metrics_are_listed(self):
        """docs/METRICS.md has each metric, and no other, except metrics of features that this server lacks."""
        self.call("POST", "/v1/executions", {"command": "true", "network_policy": {"tier": "full"}})
        self.run_code(":", "bash")
        with Session(self.server, language="bash"):
            pass
        text = (harness.REPO / "docs" / "METRICS.md").read_text()
        rows = re.findall(r"^\| `(cloister_\w+)` \| (\w+) \|([^|]*)\|", text, re.MULTILINE)
        listed = {name: kind for name, kind, _ in rows}
        kinds = dict(re.findall(r"^# TYPE (\w+) (\w+)$", self.server.request("GET", "/metrics").text, re.MULTILINE))
        own = {name: kind for name, kind in kinds.items() if name.startswith("cloister_")}
        self.assertEqual({name: listed.get(name) for name in own}, own)
        elsewhere = {"cloister_certificate_expiry_timestamp_seconds", "cloister_audit_published_entry",
                     "cloister_audit_publish_failures_total", "cloister_network_plans_total",
                     "cloister_network_attempts_total", "cloister_network_bytes_total",
                     "cloister_package_refusals_total"}
        self.assertLessEqual(set(listed) - set(own), elsewhere)

    def test_pool(self):
        def pool_when(condition):
            def look():
                answer = self.call("GET", "/v1/pool")  # 503 until the node has told
                return answer.status == 200 and condition(answer.json()) and answer.json()
            return harness.wait_for("the pool to be told", look)

        claims = sum(pool_when(lambda pool: True)["claims"].values())
        for _ in range(2):
            self.run_code("print(1)", memory_mb=300)
        pool = pool_when(lambda pool: sum(pool["claims"].values()) >= claims + 2)
        self.assertEqual(pool["claim_us"]["count"], sum(pool["claims"].values()) - pool["claims"]["none"])
        self.assertGreaterEqual(pool["claim_us"]["count"], pool["claim_us"]["buckets"][-1]["count"])
        self.assertTrue({kind["language"] for kind in pool["kinds"]} <= {"any", "other", "python", "node", "bash"})
        metrics = self.server.metrics()
        self.assertGreaterEqual(sum(count for name, count in metrics.items()
                                    if name.startswith("cloister_pool_claims_total")), claims + 2)
        self.assertGreaterEqual(metrics["cloister_pool_claim_seconds_count"], claims + 2)
        for name in ("refill_seconds_sum", "teardown_backlog", "zygotes", "copies_total", "dead_total",
                     "drained_total", 'held{by="memory"}', 'held{by="cpu"}'):
            self.assertIn(f"cloister_pool_{name}", metrics)

    def test_not_ready_without_a_node(self):
        with harness.Server() as server:
            os.kill(server.pid_of("cloister-node"), signal.SIGKILL)
            seen = set()

            def back():
                answer = server.request("GET", "/readyz", key=False)
                DOCUMENT.check("GET", "/readyz", answer)
                seen.add(answer.status)
                return answer.status == 200 and 503 in seen
            harness.wait_for("readiness to go and come back", back, 20, every=0.001)

    def test_unknown_paths(self):
        for path in ("/", "/v1", "/v2/executions", "/v1/executions/", "//healthz", "/v1/../healthz"):
            with self.subTest(path):
                self.assertProblem(self.server.request("GET", path), 404)

    def test_head(self):
        connection = http.client.HTTPConnection(self.server.host, self.server.port)
        with contextlib.closing(connection):
            for path in ("/healthz", "/metrics"):  # in turn on the same connection
                connection.request("HEAD", path, headers={"Authorization": f"Bearer {self.server.key}"})
                answer = connection.getresponse()
                self.assertEqual((answer.status, answer.read()), (200, b""))

    def test_unprivileged(self):
        """The control plane has no capability, no way to gain any, a filter, and no readable memory."""
        pid = self.server.pid_of("cloisterd")
        status = dict(line.split(":\t", 1) for line in
                      pathlib.Path(f"/proc/{pid}/status").read_text().splitlines() if ":\t" in line)
        # An ordinary user cannot empty the bounding set, and without set-id programs nothing in the set can be gained.
        for name in ("CapInh", "CapPrm", "CapEff", "CapAmb", *(["CapBnd"] if harness.ROOT else [])):
            self.assertEqual(int(status[name], 16), 0, name)
        self.assertEqual((status["NoNewPrivs"], status["Seccomp"]), ("1", "2"))
        if harness.ROOT:
            self.assertNotIn("0", status["Uid"].split())
            self.assertNotIn("0", status["Gid"].split())
            self.assertEqual(status["Groups"].split(), [])

    def test_state_directory_is_closed(self):
        mode = {path: (self.server.state / path).stat().st_mode & 0o777
                for path in ("admin.key", "keys/permit.key", "keys/audit.key", "ledger", "blobs", "run")}
        self.assertEqual(mode, {"admin.key": 0o600, "keys/permit.key": 0o600, "keys/audit.key": 0o600,
                                "ledger": 0o700, "blobs": 0o700, "run": 0o750})


class Connections(ApiTest):
    def test_pipelining_and_reuse(self):
        request = (f"GET /healthz HTTP/1.1\r\nHost: {self.server.host}\r\n\r\n").encode()
        with socket.create_connection((self.server.host, self.server.port), timeout=10) as connection:
            connection.sendall(request * 50)
            received = b""
            while received.count(b"HTTP/1.1 200") < 50:
                received += connection.recv(65536)

    def test_a_client_that_leaves_does_not_end_its_run(self):
        body = json.dumps({"language": "bash", "code": "sleep 1; echo end", "metadata": {"m": "left"}})
        with socket.create_connection((self.server.host, self.server.port)) as connection:
            connection.sendall((f"POST /v1/executions?wait=60 HTTP/1.1\r\nHost: {self.server.host}\r\n"
                                f"Authorization: Bearer {self.server.key}\r\n"
                                f"Content-Length: {len(body)}\r\n\r\n{body}").encode())
            harness.wait_for("the run", lambda: self.mine(), 10)
        self.assertEqual(self.server.wait_end(self.mine()[0])["stdout"], "end\n")

    def mine(self):
        page = self.call("GET", "/v1/executions?limit=5").json()["executions"]
        return [e["id"] for e in page if e["metadata"] == {"m": "left"}]


if __name__ == "__main__":
    unittest.main()
