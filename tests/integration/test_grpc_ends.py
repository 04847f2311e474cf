# SPDX-License-Identifier: Apache-2.0
"""gRPC: deadlines, cancellations and bounds of cloister-grpc, its listeners, its health and its reflection."""

import contextlib
import subprocess
import time
import unittest

import grpc_case
import harness
import openapi
import sdk_case
import test_tls
from grpc_case import EMPTY, Code, Front, GrpcTest, details, grpc, start_server
from harness import wait_for

setUpModule = start_server


class Ends(GrpcTest):
    """Deadlines, cancellations, and what is left after them."""

    def test_a_deadline_bounds_the_wait(self):
        for seconds in (0.7, 2.5):
            began = time.monotonic()
            running = self.front.Executions.Run(self.front.RunRequest(language="bash", code="sleep 30"), timeout=seconds)
            self.assertLess(time.monotonic() - began, seconds)
            self.assertIn(running.status, ("queued", "running"))
            time.sleep(0.3)
            self.assertIn(self.status(running.id), ("queued", "running"), "a deadline cancels nothing")
            self.front.Executions.Cancel(self.front.CancelExecutionRequest(id=running.id))
        quick = self.front.Executions.Run(self.front.RunRequest(language="bash", code="echo 1"), timeout=20)
        self.assertEqual((quick.status, quick.stdout), ("completed", b"1\n"))

    def test_a_deadline_ends_a_stream(self):
        """And its request to the service. The execution waits for an approval, and has no event before its heartbeat."""
        calls = self.front.Executions(self.new_key("looked-at"))
        made = calls.Create(self.front.RunRequest(language="bash", code=":"))
        began = time.monotonic()
        streams = [calls.Events(self.front.EventsRequest(id=made.id), timeout=2) for _ in range(5)]
        for stream in streams:
            next(stream)
        during = self.connections()
        for stream in streams:
            self.refused(Code.DEADLINE_EXCEEDED, list, stream)
        self.assertLess(time.monotonic() - began, harness.limit(5))
        wait_for("the requests to end", lambda: self.connections() <= during - 4, 5)
        self.assertEqual(self.status(made.id), "blocked")
        calls.Cancel(self.front.CancelExecutionRequest(id=made.id))

    def connections(self):
        """Open sockets of cloister-grpc to the service."""
        done = subprocess.run(["ss", "-Htnp", "dst", f"127.0.0.1:{self.server.port}"], capture_output=True, text=True)
        return done.stdout.count(f"pid={self.front.process.pid},")

    def test_a_cancelled_run_is_cancelled(self):
        call, execution = self.start(self.front.Executions.Run, self.front.RunRequest(language="bash", code="sleep 60"))
        call.cancel()
        self.assertEqual(self.server.wait_end(execution, 10)["status"], "cancelled")

    def test_a_cancelled_stream_cancels_its_run_alone(self):
        front = self.front
        with self.session(language="bash") as session:
            stream = front.Sessions.ExecStream(front.ExecRequest(session_id=session.id, command="echo up; sleep 60"))
            execution = next(stream).started.id
            watched = front.Executions.Events(front.EventsRequest(id=execution))
            next(watched)
            watched.cancel()
            time.sleep(0.5)
            self.assertEqual(self.status(execution), "running", "who only watches cancels nothing")
            stream.cancel()
            self.assertEqual(self.server.wait_end(execution, 10)["status"], "cancelled")
            waiting, execution = self.start(front.Sessions.Exec, front.ExecRequest(session_id=session.id, command="sleep 60"))
            waiting.cancel()
            self.assertEqual(self.server.wait_end(execution, 10)["status"], "cancelled")

    def test_a_lost_connection_cancels(self):
        channel = self.front.connect()
        stub = grpc_case.Stub(channel, grpc_case.find("Executions"), self.front.key)
        call, execution = self.start(stub.Run, self.front.RunRequest(language="bash", code="sleep 60"))
        channel.close()
        self.assertEqual(self.server.wait_end(execution, 10)["status"], "cancelled")
        self.assertTrue(call.done())

    def test_sigterm_drains(self):
        with Front(self.server, "--grace", "20") as front:
            call, _ = self.start(front.Executions.Run, front.RunRequest(language="bash", code="sleep 1; echo whole"))
            self.assertEqual(front.stop(), 0)
            self.assertEqual((call.result().status, call.result().stdout), ("completed", b"whole\n"))
        with Front(self.server, "--grace", "0.3") as front:
            call, execution = self.start(front.Executions.Run, front.RunRequest(language="bash", code="sleep 30"))
            began = time.monotonic()
            self.assertEqual(front.stop(), 0)
            self.assertLess(time.monotonic() - began, harness.limit(5))
            self.assertEqual(call.exception().code(), Code.UNAVAILABLE)
            self.assertEqual(self.status(execution), "running", "its client may come back for it")
            self.server.request("DELETE", f"/v1/executions/{execution}")


class Bounds(GrpcTest):
    flags = ("--max-message-bytes", "131072", "--max-calls", "1", "--stall", "1")

    def test_large_messages(self):
        front = self.front
        error = self.refused(Code.RESOURCE_EXHAUSTED, front.Executions.Run,
                             front.RunRequest(language="bash", code="#" * 200_000))
        self.assertIn("larger than max", error.details())
        error = self.refused(Code.RESOURCE_EXHAUSTED, front.Executions.Run,
                             front.RunRequest(language="bash", code="head -c 200000 /dev/zero"))
        self.assertIn("--max-message-bytes", error.details())
        self.assertEqual(len(self.run_code("head -c 60000 /dev/zero").stdout), 60_000)
        self.refused(Code.UNIMPLEMENTED, front.Executions.Run, front.RunRequest(language="bash", code="#" * 5_000),
                     compression=grpc.Compression.Gzip)

    def test_calls_under_way(self):
        front = self.front
        made = front.Executions.Create(front.RunRequest(language="bash", code="sleep 30"))
        stream = front.Executions.Events(front.EventsRequest(id=made.id))
        next(stream)
        error = self.refused(Code.RESOURCE_EXHAUSTED, front.Operations.GetReadiness, EMPTY)
        self.assertEqual(details(error)["RetryInfo"].retry_delay.seconds, 1)
        stream.cancel()
        wait_for("the place", lambda: self.call_succeeds(front.Operations.GetReadiness))
        front.Executions.Cancel(front.CancelExecutionRequest(id=made.id))

    def call_succeeds(self, call):
        with contextlib.suppress(grpc.RpcError):
            return call(EMPTY)

    def test_a_reader_that_stands_still_is_given_up(self):
        front = self.front
        with self.session(language="bash") as session:
            front.Sessions.Exec(front.ExecRequest(session_id=session.id, command="head -c 40M /dev/zero > big",
                                                  no_artifacts=True))
            stream = front.Files.Read(front.ReadFileRequest(session_id=session.id, path="big"))
            next(stream)
            self.refused(Code.RESOURCE_EXHAUSTED, front.Operations.GetReadiness, EMPTY)
            wait_for("the place of the reader", lambda: self.call_succeeds(front.Operations.GetReadiness), 10)
            self.refused(Code.CANCELLED, list, stream)


class Streams(GrpcTest):
    flags = ("--max-streams", "1")

    def test_calls_of_one_connection(self):
        """A second call waits for the first; another connection has calls of its own."""
        front = self.front
        made = front.Executions.Create(front.RunRequest(language="bash", code="sleep 30"))
        stream = front.Executions.Events(front.EventsRequest(id=made.id))
        next(stream)
        with self.assertRaises(grpc.RpcError) as caught:
            front.Operations.GetReadiness(EMPTY, timeout=1)
        self.assertEqual(caught.exception.code(), Code.DEADLINE_EXCEEDED)
        with front.connect() as channel:
            other = grpc_case.Stub(channel, grpc_case.find("Operations"), front.key)
            self.assertTrue(other.GetReadiness(EMPTY, timeout=20).ready)
        stream.cancel()
        wait_for("the place", lambda: front.Operations.GetReadiness(EMPTY).ready)
        front.Executions.Cancel(front.CancelExecutionRequest(id=made.id))


class Operations(GrpcTest):
    def raw(self, method, request, channel=None):
        return (channel or self.front.channel).unary_unary(method)(request, timeout=20)

    def test_node_and_readiness(self):
        node = self.front.Operations.GetNode(EMPTY)
        rest = self.server.request("GET", "/v1/node").json()
        self.assertEqual((node.connected, node.node, node.cpus, list(node.languages)),
                         (True, rest["node"], rest["cpus"], rest["languages"]))
        self.assertEqual({each.name: each.state for each in node.findings},
                         {each["name"]: each["state"] for each in rest["findings"]})
        ready = self.front.Operations(None).GetReadiness(EMPTY)
        self.assertEqual((ready.ready, list(ready.reasons)), (True, []))

    def test_reflection(self):
        """The messages of grpc.reflection.v1alpha by hand: field 7 lists services, field 4 asks for a symbol's file."""
        ask = self.front.channel.stream_stream("/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo")

        def answer(field, text):
            [found] = list(ask(iter([bytes([field << 3 | 2, len(text)]) + text]), timeout=20))
            return found

        listed = answer(7, b"*")
        for part in grpc_case.PARTS:
            for service in part.DESCRIPTOR.services_by_name.values():
                self.assertIn(service.full_name.encode(), listed)
                described = answer(4, service.full_name.encode())
                self.assertIn(service.methods[0].name.encode(), described)
                self.assertIn(part.DESCRIPTOR.name.encode(), described)
        self.assertIn(b"grpc.health.v1.Health", listed)

    def test_health_follows_the_service(self):
        serving, not_serving = b"\x08\x01", b"\x08\x02"
        with harness.Server() as server, Front(server) as front:
            def health():
                return self.raw("/grpc.health.v1.Health/Check", b"", front.channel)

            wait_for("SERVING", lambda: health() == serving, 10)
            server.stop()
            wait_for("NOT_SERVING", lambda: health() == not_serving, 10)
            error = self.refused(Code.UNAVAILABLE, front.Executions.List, front.ListExecutionsRequest())
            self.assertIn("127.0.0.1", error.details())

    def test_where_it_listens(self):
        def starts(*flags):
            return subprocess.run([harness.BIN / "cloister-grpc", *flags], capture_output=True, text=True, timeout=30)

        refused = starts("--listen", "0.0.0.0:0", "--url", self.server.url)
        self.assertEqual(refused.returncode, 2, refused.stderr)
        self.assertIn("--insecure", refused.stderr)
        for flags in (("--listen", "x"), ("--listen", "unix:relative"), ("--max-calls", "0"), ("--tls-key", "/dev/null"),
                      ("--url", "ftp://x"), ("operand",)):
            self.assertEqual(starts(*flags).returncode, 2, flags)
        self.assertEqual(starts("--listen", self.front.address).returncode, 1, "the address is taken")
        with Front(self.server, "--insecure", listen="0.0.0.0:0") as front:
            front.address = front.address.replace("0.0.0.0", "127.0.0.1")
            front.channel.close()
            front.channel = front.connect()
            front.Operations.GetReadiness(EMPTY)

    def test_over_sockets(self):
        with sdk_case.CuttingProxy(self.server, path=f"{self.folder}/api") as proxy, \
                Front(self.server, listen=f"unix:{self.folder}/grpc", url=proxy.url) as front:
            done = front.Executions.Run(front.RunRequest(language="bash", code="echo socket"))
            self.assertEqual(done.stdout, b"socket\n")

    def test_over_tls(self):
        with test_tls.Authority("Test") as authority:
            certificate, key = authority.issue("front", "DNS:localhost,IP:127.0.0.1", "serverAuth")
            credentials = grpc.ssl_channel_credentials(authority.ca.read_bytes())
            with Front(self.server, "--tls-certificate", certificate, "--tls-key", key, listen="0.0.0.0:0",
                       credentials=credentials) as front:
                front.address = front.address.replace("0.0.0.0", "localhost")
                front.channel = front.connect()
                self.assertTrue(front.Operations.GetNode(EMPTY).connected)
                with grpc.insecure_channel(front.address) as plain, self.assertRaises(grpc.RpcError):
                    self.raw("/grpc.health.v1.Health/Check", b"", plain)

    def test_a_service_with_tls(self):
        """The certificate of the environment is the command line's. A caller without a key must not get its authority."""
        with test_tls.Authority("Test") as authority:
            own = authority.issue("service", test_tls.SERVER_NAMES, "serverAuth")
            alice, alice_key = authority.issue("alice", "DNS:alice.example")
            config = test_tls.config_of(authority, own, "  clients: ['dns:alice.example = tenant:acme agent:alice roles:agent']\n")
            env = {"CLOISTER_CA": str(authority.ca), "CLOISTER_CERT": str(alice), "CLOISTER_CERT_KEY": str(alice_key)}
            with harness.Server(config=config, tls=authority.trusting((alice, alice_key))) as server:
                self.assertEqual(server.request("GET", "/v1/whoami", key=False).json()["agent"], "alice")
                with Front(server, env=env) as front:
                    request = front.ListExecutionsRequest()
                    self.assertEqual(len(front.Executions.List(request).executions), 0)
                    for metadata in ((), [("authorization", "Basic x")], [("authorization", "Bearer ")], [("x-api-key", " ")]):
                        self.refused(Code.UNAUTHENTICATED, front.Executions(None).List, request, metadata=metadata)

    def test_its_messages_are_those_of_rest(self):
        """Every field of the messages is a member of the document's schema, of the same name."""
        document = openapi.Document().root["components"]["schemas"]

        def members(name):
            schema = document[name]
            found = set(schema.get("properties") or ())
            for part in schema.get("allOf", []):
                found |= members(part["$ref"].rpartition("/")[2]) if "$ref" in part else set(part.get("properties") or ())
            return found

        ours = {"RunRequest": {"argv", "no_artifacts", "wait_seconds"}, "SessionRequest": set(),
                "ExecRequest": {"argv", "no_artifacts", "wait_seconds", "session_id"}}
        for name, more in ours.items():
            fields = {field.name for field in grpc_case.find(name).DESCRIPTOR.fields}
            self.assertEqual(fields - more, members(name) - {"encoding"}, name)
        encodings = {"stdout_encoding", "stderr_encoding"}
        for name in ("Execution", "Session", "FileEntry", "Escalation", "Node", "ResourceUsage", "Provenance", "NetworkUse",
                     "Error", "Artifact", "Kernel", "Cell", "LeftOut", "Compile", "Limits", "Principal", "SessionUsage"):
            fields = {field.name for field in grpc_case.find(name).DESCRIPTOR.fields}
            self.assertEqual(fields, members(name) - encodings, name)


if __name__ == "__main__":
    unittest.main()
