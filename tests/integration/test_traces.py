# SPDX-License-Identifier: Apache-2.0
"""Spans by OTLP/HTTP: one trace from the client to the program, read back from a collector, and a collector that fails."""

import http.server
import json
import pathlib
import secrets
import subprocess
import tempfile
import threading
import unittest

import harness
import hooks
import npm_packages
from session_case import Session

SECRET = "planted-in-a-header"


class Collector(http.server.ThreadingHTTPServer):
    """Takes spans at /v1/traces of a loopback port. `answers`: what the next requests get, as (status, body)."""

    daemon_threads = True

    def __init__(self, certificate=None):
        super().__init__(("127.0.0.1", 0), Handler)
        if certificate:
            self.socket = certificate.context.wrap_socket(self.socket, server_side=True)
        self.requests, self.answers, self.lock = [], [], threading.Condition()
        self.held = None  # an event: requests wait for it
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.shutdown()
        self.server_close()

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server_port}"

    def spans(self, trace=None):
        """All spans so far, each with its attributes as a dict."""
        found = []
        with self.lock:
            for request in self.requests:
                for of in request["body"]["resourceSpans"]:
                    for scope in of["scopeSpans"]:
                        found += [{**span, "attributes": {each["key"]: next(iter(each["value"].values())) for each in span.get("attributes", [])}}
                                  for span in scope["spans"]]
        return [span for span in found if trace in (None, span["traceId"])]

    def wait(self, trace, *names):
        """The trace's spans by name, once these are there."""
        def there():
            spans = self.spans(trace)
            return spans if set(names) <= {span["name"] for span in spans} else None

        return {span["name"]: span for span in harness.wait_for(f"the spans {names} of {trace}", there)}


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if self.server.held is not None:
            self.server.held.wait(60)
        with self.server.lock:
            status, text = self.server.answers.pop(0) if self.server.answers else (200, "{}")
            if status == 200:
                self.server.requests.append({"path": self.path, "headers": dict(self.headers), "raw": body, "body": json.loads(body)})
        self.send_response(status)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text.encode())

    def log_message(self, *_):
        pass


def parent_of_ours():
    """→ (the trace's id, the header)."""
    trace, span = secrets.token_hex(16), secrets.token_hex(8)
    return trace, span, f"00-{trace}-{span}-01"


class Traces(unittest.TestCase):
    settings = ""

    @classmethod
    def setUpClass(cls):
        cls.collector = cls.enterClassContext(Collector())
        folder = pathlib.Path(cls.enterClassContext(tempfile.TemporaryDirectory(prefix="traces.")))
        folder.chmod(0o755)
        headers = folder / "headers"
        headers.write_text(f"Authorization: Bearer {SECRET}\nX-Scope: ours\n")
        headers.chmod(0o644)
        config = f"traces:\n  otlp: {cls.collector.url}\n  headers_file: {headers}\n{cls.settings}"
        cls.server = cls.enterClassContext(harness.Server(config=config))

    def run_traced(self, code, language="python", header=None, **request):
        trace, span, ours = parent_of_ours()
        body = {"language": language, "code": code, **request}
        answer = self.server.request("POST", "/v1/executions?wait=60", body, {"traceparent": header or ours})
        self.assertEqual(answer.status, 200, answer.body[:500])
        return trace, span, answer


class OneTrace(Traces):
    settings = "  programs: true\n"

    def test_from_the_client_to_the_program(self):
        trace, ours, answer = self.run_traced("import os; print(os.environ['TRACEPARENT'])", env={"A": "not-in-a-span"})
        done = answer.json()
        spans = self.collector.wait(trace, "execution", "POST /v1/executions", "program")
        self.assertLessEqual({"policy.decide", "ledger.accept", "ledger.update", "sandbox", "program.start"}, set(spans))
        parents = {name: span.get("parentSpanId") for name, span in spans.items()}
        at = {name: span["spanId"] for name, span in spans.items()}
        self.assertEqual(parents["POST /v1/executions"], ours)
        self.assertEqual(parents["execution"], at["POST /v1/executions"])
        for name in ("policy.decide", "ledger.accept", "ledger.update", "sandbox", "program"):
            self.assertEqual(parents[name], at["execution"], name)
        self.assertEqual(parents["program.start"], at["program"])
        self.assertEqual(done["stdout"], f"00-{trace}-{at['execution']}-01\n", "the program continues the trace")
        gateway = spans["POST /v1/executions"]
        self.assertEqual(gateway["kind"], 2)
        self.assertEqual((gateway["attributes"]["http.request.method"], gateway["attributes"]["http.response.status_code"]), ("POST", "200"))
        self.assertEqual(gateway["attributes"]["cloister.request.id"], answer.headers["x-request-id"])
        run = spans["execution"]["attributes"]
        self.assertEqual((run["cloister.execution.id"], run["cloister.status"], run["cloister.tenant"]), (done["id"], "completed", "default"))
        self.assertEqual(spans["sandbox"]["attributes"]["cloister.runtime"], done["provenance"]["runtime"])
        for span in spans.values():
            self.assertLessEqual(int(span["startTimeUnixNano"]), int(span["endTimeUnixNano"]))
            self.assertNotIn("status", span)
        inside = [spans[name] for name in ("sandbox", "program", "program.start")]
        self.assertTrue(all(int(spans["execution"]["startTimeUnixNano"]) <= int(each["startTimeUnixNano"]) for each in inside))
        self.assertIn(f'"trace":"{trace}"', self.server.log_tail(300), "the log names the trace")
        request = self.collector.requests[0]
        self.assertEqual((request["path"], request["headers"]["Content-Type"]), ("/v1/traces", "application/json"))
        self.assertEqual((request["headers"]["Authorization"], request["headers"]["X-Scope"]), (f"Bearer {SECRET}", "ours"))
        sent = b"".join(each["raw"] for each in self.collector.requests)
        self.assertNotIn(b"not-in-a-span", sent)
        self.assertNotIn(b"os.environ", sent)
        self.assertNotIn(SECRET, self.server.log_tail(2000))

    def test_a_failure_is_named_and_not_told(self):
        trace, _, answer = self.run_traced("print('said by the program', flush=True)\nwhile True: pass", timeout_seconds=1)
        self.assertEqual(answer.json()["error"]["type"], "TIMEOUT")
        spans = self.collector.wait(trace, "execution")
        self.assertEqual(spans["execution"]["status"], {"code": 2, "message": "TIMEOUT"})
        self.assertEqual(spans["execution"]["attributes"]["cloister.status"], "timed_out")
        trace, _, answer = self.run_traced("raise ValueError('said by the program')")
        span = self.collector.wait(trace, "execution")["execution"]
        self.assertEqual((span["attributes"]["cloister.exit_code"], "status" in span), ("1", False), "a program may fail")
        self.assertNotIn(b"said by the program", b"".join(each["raw"] for each in self.collector.requests))

    def test_a_session_and_its_programs(self):
        trace, _, header = parent_of_ours()
        session = self.enterContext(Session(self.server, headers={"traceparent": header}, language="python"))
        spans = self.collector.wait(trace, "session.start", "POST /v1/sessions", "sandbox")
        self.assertEqual(spans["sandbox"]["parentSpanId"], spans["session.start"]["spanId"])
        self.assertEqual(spans["session.start"]["attributes"]["cloister.session.id"], session.id)
        done = self.server.request("POST", f"/v1/sessions/{session.id}/exec?wait=60", {"command": "echo $TRACEPARENT"}, {"traceparent": header}).json()
        spans = self.collector.wait(trace, "execution", "program")
        self.assertEqual(done["stdout"], f"00-{trace}-{spans['execution']['spanId']}-01\n")
        self.assertEqual(spans["execution"]["attributes"]["cloister.session.id"], session.id)

    def test_what_is_no_header_begins_a_trace(self):
        before = {span["traceId"] for span in self.collector.spans()}
        for header in ("00-zz", "", "00-" + "0" * 32 + "-" + "1" * 16 + "-01"):
            with self.subTest(header):
                answer = self.server.request("GET", "/v1/languages", headers={"traceparent": header} if header else {})
                self.assertEqual(answer.status, 200)
                new = harness.wait_for("a trace", lambda: {s["traceId"] for s in self.collector.spans() if s["name"] == "GET /v1/languages"} - before)
                self.assertNotIn("0" * 32, new)
                before |= new

    def test_not_sampled_by_the_client_is_not_recorded(self):
        trace, _, header = parent_of_ours()
        _, _, answer = self.run_traced("import os; print('TRACEPARENT' in os.environ)", header=header[:-2] + "00")
        self.assertEqual(answer.json()["stdout"], "False\n")
        marker, _, _ = self.run_traced("1")
        self.collector.wait(marker, "execution")
        self.assertEqual(self.collector.spans(trace), [])

    def test_the_official_protocol_buffers(self):
        packages = npm_packages.Packages("otlp").need()
        trace, _, _ = self.run_traced("print(1)")
        self.collector.wait(trace, "execution")
        lines = b"\n".join(each["raw"] for each in self.collector.requests) + b"\n"
        done = subprocess.run(["node", packages.script("check.mjs")], input=lines, capture_output=True, timeout=60, check=False)
        self.assertEqual((done.returncode, done.stdout.strip()), (0, str(len(self.collector.requests)).encode()), done.stderr[-3000:])


class Sampled(Traces):
    settings = "  sample_percent: 0\n"

    def test_only_those_that_clients_trace(self):
        self.server.run("print(1)")
        trace, _, answer = self.run_traced("import os; print('TRACEPARENT' in os.environ)")
        self.assertEqual(answer.json()["stdout"], "False\n", "unless it is configured")
        self.collector.wait(trace, "execution")
        self.assertEqual({span["traceId"] for span in self.collector.spans()}, {trace})


class Away(Traces):
    settings = "  queue: 16\n"

    def metric(self, name):
        text = self.server.request("GET", "/metrics").body.decode()
        return next(float(line.split()[-1]) for line in text.splitlines() if line.startswith(f"cloister_trace_spans_{name}_total "))

    def test_a_collector_that_fails_holds_up_nothing(self):
        self.collector.held = threading.Event()
        for _ in range(8):
            done = self.server.run("print(1)")
            self.assertEqual(done["status"], "completed", done)
        harness.wait_for("spans beyond the queue", lambda: self.metric("dropped") > 0)
        self.collector.answers = [(503, "later"), (200, '{"partialSuccess":{"rejectedSpans":"1","errorMessage":"no"}}')]
        self.collector.held.set()
        harness.wait_for("the export of what was kept", lambda: self.metric("exported") > 0, 30)
        self.assertIn("spans not exported", self.server.log_tail(500))
        self.assertIn("the collector answered 503", self.server.log_tail(500))
        self.assertGreaterEqual(len(self.collector.spans()), 1)


class Trusted(unittest.TestCase):
    def test_a_collector_of_an_authority_of_its_own(self):
        certificate = hooks.Certificate()
        with Collector(certificate) as collector:
            url = collector.url.replace("http:", "https:") + "/of/our/own"
            with harness.Server(config=f"traces:\n  otlp: {url}\n  ca_file: {certificate.ca}\n") as server:
                server.run("print(1)")
            self.assertIn("execution", {span["name"] for span in collector.spans()}, "sent before the service ended")
            self.assertEqual(collector.requests[0]["path"], "/of/our/own")
            with harness.Server(config=f"traces: {{otlp: '{url}'}}\n") as server:
                server.run("print(1)")
                harness.wait_for("the refusal", lambda: "spans not exported" in server.log_tail(300), 15)


class Wrong(unittest.TestCase):
    def check(self, text):
        with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
            file.write(text)
            file.flush()
            return subprocess.run([harness.BIN / "cloister", "serve", "--check", "--config", file.name], capture_output=True, text=True,
                                  timeout=60, check=False)

    def test_settings_are_named(self):
        for text, said in (("otlp: ftp://x", "traces.otlp"), ("otlp: http://collector.example:4318", "traces.otlp"),
                           ("otlp: https://127.0.0.1:1, ca_file: /nowhere", "traces.ca_file"),
                           ("otlp: https://127.0.0.1:1, headers_file: /nowhere", "traces.headers_file"),
                           ("sample_percent: 101", "traces.sample_percent"), ("queue: 1", "traces.queue")):
            with self.subTest(text):
                done = self.check(f"traces: {{{text}}}\n")
                self.assertNotEqual(done.returncode, 0, done.stdout)
                self.assertIn(said, done.stdout + done.stderr)


if __name__ == "__main__":
    unittest.main()
