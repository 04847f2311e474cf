# SPDX-License-Identifier: Apache-2.0
"""gRPC: the contract of REST holds over cloister-grpc, with Debian's grpcio as the client."""

import threading
import time
import unittest

import harness
import sdk_case
from grpc_case import MIB, Code, Front, GrpcTest, details, start_server
from processes import memory_of

setUpModule = start_server


class Executions(GrpcTest):
    def test_contract_field_by_field(self):
        front = self.front
        done = self.run_code(
            "import sys\nprint(input())\nopen('plot.txt','w').write('art')\nsys.stderr.buffer.write(b'\\xff')", "python",
            input=b"hi\n", args=["a"], env={"A": "b"}, files=[front.File(path="a.txt", content=b"\0x")], timeout_seconds=30,
            cpu_millis=800, memory_mb=256, disk_mb=1024, pids=64, max_output_bytes=1048576,
            network_policy=front.NetworkPolicy(tier="none"), artifacts=["*.txt"], metadata={"note": "n"})
        rest = self.server.get(done.id)
        self.assertEqual((done.status, done.exit_code, done.HasField("signal"), done.HasField("error")),
                         ("completed", 0, False, False))
        self.assertEqual((done.stdout, done.stderr, done.stdout_bytes), (b"hi\n", b"\xff", 3))
        self.assertEqual([(each.path, each.size, each.sha256) for each in done.artifacts],
                         [(each["path"], each["size"], each["sha256"]) for each in rest["artifacts"]])
        self.assertIn(("plot.txt", 3), [(each.path, each.size) for each in done.artifacts])
        for message, members in ((done.resource_usage, rest["resource_usage"]), (done.provenance, rest["provenance"]),
                                 (done.principal, rest["principal"]), (done.network, rest["network"]), (done.limits, rest["limits"])):
            for name, value in members.items():
                got = getattr(message, name)
                if value is None:
                    self.assertFalse(message.HasField(name), name)
                else:
                    self.assertEqual(list(got) if isinstance(value, list) else got, value, name)
        self.assertEqual(dict(done.metadata), {"note": "n"})
        self.assertEqual(done.created_at.ToJsonString(), rest["created_at"])
        self.assertLessEqual(done.started_at.ToNanoseconds(), done.finished_at.ToNanoseconds())
        self.assertEqual(front.Executions.Get(front.GetExecutionRequest(id=done.id)), done)

    def test_what_the_program_did_is_no_error_of_the_call(self):
        self.assertEqual(self.run_code("exit 3").exit_code, 3)
        crashed = self.run_code("kill -SEGV $$")
        self.assertEqual((crashed.status, crashed.signal, crashed.HasField("exit_code")), ("completed", "SIGSEGV", False))
        late = self.run_code("sleep 60", timeout_seconds=0.3)
        self.assertEqual((late.status, late.error.type), ("timed_out", "TIMEOUT"))
        argv = self.front.Executions.Run(self.front.RunRequest(argv=["printf", "%s-", "a b", "c"]))
        self.assertEqual(argv.stdout, b"a b-c-")
        none = self.run_code("touch kept", no_artifacts=True)
        self.assertEqual(len(none.artifacts), 0)
        self.assertEqual(len(self.run_code("touch kept").artifacts), 1)
        denied = self.front.Executions(self.new_key("closed")).Run(self.front.RunRequest(language="bash", code=":"))
        self.assertEqual((denied.status, denied.error.type), ("denied", "PERMISSION_DENIED"))

    def test_wait_create_and_cancel(self):
        front, began = self.front, time.monotonic()
        waiting = self.run_code("sleep 30", wait_seconds=1)
        self.assertLess(time.monotonic() - began, harness.limit(10))
        made = front.Executions.Create(front.RunRequest(language="bash", code="sleep 30"))
        self.assertIn(made.status, ("queued", "running"))
        for each in (waiting, made):
            self.assertIn(self.status(each.id), ("queued", "running"))
            front.Executions.Cancel(front.CancelExecutionRequest(id=each.id))
            self.assertEqual(self.server.wait_end(each.id)["status"], "cancelled")

    def test_idempotency(self):
        front, key = self.front, [("idempotency-key", "grpc-k1")]
        request = front.RunRequest(language="bash", code="echo once")
        first = front.Executions.Run(request, metadata=key)
        self.assertEqual(front.Executions.Run(request, metadata=key).id, first.id)
        self.assertEqual(front.Executions.Create(request, metadata=key).id, first.id)
        self.assertNotEqual(front.Executions.Run(request).id, first.id)
        other = front.RunRequest(language="bash", code="echo two")
        self.refused(Code.FAILED_PRECONDITION, front.Executions.Run, other, metadata=key)
        error = self.refused(Code.INVALID_ARGUMENT, front.Executions.Run, request, metadata=[("idempotency-key", "a b")])
        self.assertEqual(details(error)["BadRequest"].field_violations[0].field, "header.Idempotency-Key")

    def test_wrong_fields_are_named(self):
        run = self.front.Executions.Run
        wrong = {
            "memory_mb": {"memory_mb": (1 << 63) - 1}, "timeout_seconds": {"timeout_seconds": -1}, "pids": {"pids": 0},
            "image": {"image": "No Name"}, "files[0].path": {"files": [self.front.File(path="../x")]},
            "network_policy.tier": {"network_policy": self.front.NetworkPolicy(tier="x")},
        }
        for field, members in wrong.items():
            with self.subTest(field):
                error = self.refused(Code.INVALID_ARGUMENT, run,
                                     self.front.RunRequest(language="bash", code=":", **members))
                told = details(error)
                self.assertEqual(told["BadRequest"].field_violations[0].field, field)
                self.assertEqual((told["ErrorInfo"].reason, told["ErrorInfo"].domain), ("INVALID_REQUEST", "cloister"))
                self.assertRegex(told["RequestInfo"].request_id, "^req_")
                self.assertIn(("x-request-id", told["RequestInfo"].request_id), error.trailing_metadata())
        self.refused(Code.INVALID_ARGUMENT, run, self.front.RunRequest(language="bash"))
        self.refused(Code.INVALID_ARGUMENT, run, self.front.RunRequest(command="ls", argv=["ls"]))
        self.refused(Code.INVALID_ARGUMENT, run, self.front.RunRequest(language="none-such", code=":"))

    def test_unknown_ids(self):
        front = self.front
        for call, request in (
                (front.Executions.Get, front.GetExecutionRequest), (front.Executions.Cancel, front.CancelExecutionRequest),
                (front.Executions.Events, front.EventsRequest), (front.Executions.Output, front.EventsRequest),
                (front.Sessions.Get, front.GetSessionRequest), (front.Sessions.Delete, front.DeleteSessionRequest),
                (front.Escalations.Get, front.GetEscalationRequest)):
            with self.subTest(request.DESCRIPTOR.name):
                error = self.refused(Code.NOT_FOUND, call, request(id="none-such"))
                self.assertEqual(details(error)["ErrorInfo"].reason, "NOT_FOUND")
                self.refused(Code.NOT_FOUND, call, request(id="a/../b?x=1#%2e"))
                self.refused(Code.INVALID_ARGUMENT, call, request())
                self.refused(Code.INVALID_ARGUMENT, call, request(id=".."))

    def test_tenants_are_apart(self):
        front, other = self.front, self.new_key("other-tenant")
        done = self.run_code("echo mine")
        with self.session(language="bash") as session:
            for call, request in (
                    (front.Executions(other).Get, front.GetExecutionRequest(id=done.id)),
                    (front.Executions(other).Events, front.EventsRequest(id=done.id)),
                    (front.Executions(other).Cancel, front.CancelExecutionRequest(id=done.id)),
                    (front.Sessions(other).Get, front.GetSessionRequest(id=session.id)),
                    (front.Sessions(other).Exec, front.ExecRequest(session_id=session.id, command="ls")),
                    (front.Sessions(other).Delete, front.DeleteSessionRequest(id=session.id)),
                    (front.Files(other).List, front.ListFilesRequest(session_id=session.id)),
                    (front.Files(other).Read, front.ReadFileRequest(session_id=session.id, path="a"))):
                self.refused(Code.NOT_FOUND, call, request)
        self.assertEqual(len(front.Executions(other).List(front.ListExecutionsRequest()).executions), 0)

    def test_credentials(self):
        front, request = self.front, self.front.ListExecutionsRequest(limit=1)
        error = self.refused(Code.UNAUTHENTICATED, front.Executions("clo_" + "0" * 40).List, request)
        self.assertRegex(details(error)["RequestInfo"].request_id, "^req_")
        anonymous = front.Executions(None)
        self.refused(Code.UNAUTHENTICATED, anonymous.List, request)
        anonymous.List(request, metadata=[("x-api-key", front.key)])
        twice = [("authorization", f"Bearer {front.key}")] * 2
        self.refused(Code.INVALID_ARGUMENT, anonymous.List, request, metadata=twice)
        reader = self.new_key("default", roles=["viewer"])
        self.refused(Code.PERMISSION_DENIED, front.Executions(reader).Run, front.RunRequest(language="bash", code=":"))
        front.Executions(reader).List(request)

    def test_list_pages_and_filters(self):
        key = self.new_key("lister")
        calls, front = self.front.Executions(key), self.front
        made = [calls.Run(front.RunRequest(language="bash", code=f"exit {n}")).id for n in range(3)]
        seen, cursor = [], None
        while True:
            page = calls.List(front.ListExecutionsRequest(limit=2, cursor=cursor))
            seen += [each.id for each in page.executions]
            if not page.HasField("next_cursor"):
                break
            cursor = page.next_cursor
        self.assertEqual(seen, made[::-1])
        self.assertEqual(len(calls.List(front.ListExecutionsRequest(status="cancelled")).executions), 0)
        error = self.refused(Code.INVALID_ARGUMENT, calls.List, front.ListExecutionsRequest(limit=501))
        self.assertEqual(details(error)["BadRequest"].field_violations[0].field, "query.limit")

    def test_events_and_their_resumption(self):
        front = self.front
        made = front.Executions.Create(front.RunRequest(
            language="bash", code="echo one; sleep 0.5; echo two; echo err >&2; echo x > kept", artifacts=["kept"]))
        events = list(front.Executions.Events(front.EventsRequest(id=made.id)))
        kinds = [each.WhichOneof("kind") for each in events]
        self.assertEqual(kinds[-1], "status")
        self.assertEqual((events[-1].status.status, events[-1].status.id), ("completed", made.id))
        self.assertEqual(b"".join(each.stdout.data for each in events), b"one\ntwo\n")
        self.assertEqual([each.stderr.data for each in events if each.WhichOneof("kind") == "stderr"], [b"err\n"])
        self.assertIn("artifact", kinds)
        middle = next(each for each in events if each.stdout.data.startswith(b"one"))
        rest = list(front.Executions.Events(front.EventsRequest(id=made.id, position=middle.position)))
        self.assertEqual(b"".join(each.stdout.data for each in rest), b"one\ntwo\n"[len(middle.stdout.data):])
        self.assertEqual(list(front.Executions.Events(front.EventsRequest(id=made.id, position=events[-1].position))), [])
        chunks = list(front.Executions.Output(front.EventsRequest(id=made.id)))
        for stream, text in (("stdout", b"one\ntwo\n"), ("stderr", b"err\n")):
            at = 0
            for chunk in chunks:
                if chunk.stream == stream:
                    self.assertEqual((chunk.offset, chunk.data), (at, text[at:at + len(chunk.data)]))
                    at += len(chunk.data)
            self.assertEqual(at, len(text))
        self.refused(Code.INVALID_ARGUMENT, front.Executions.Events, front.EventsRequest(id=made.id, position="x"))
        # A line break would make a request of its own, whose body is the next caller's request.
        more = "0\r\nx: y\r\n\r\nPUT /v1/tenants HTTP/1.1\r\nContent-Length: 99\r\nx: y"
        for position in (more, "0\n", "9" * 257):
            refused = self.refused(Code.INVALID_ARGUMENT, front.Executions.Events, front.EventsRequest(id=made.id, position=position))
            self.assertIn("position", refused.details())

    def test_a_stream_goes_on_where_it_broke(self):
        """The proxy cuts each of the first connections, that of the events among them."""
        with sdk_case.CuttingProxy(self.server, limit=6000, cuts=3) as proxy, Front(self.server, url=proxy.url) as front:
            code = "for i in $(seq 8); do head -c 2000 /dev/zero | tr '\\0' $i; sleep 0.1; done"
            made = front.Executions.Create(front.RunRequest(language="bash", code=code))
            chunks = list(front.Executions.Output(front.EventsRequest(id=made.id)))
            self.assertEqual(b"".join(each.data for each in chunks), b"".join(str(i).encode() * 2000 for i in range(1, 9)))
            self.assertGreaterEqual(proxy.cut, 1)

    def test_stream_of_a_run(self):
        front = self.front
        events = list(front.Executions.RunStream(front.RunRequest(language="bash", code="echo a; exit 4")))
        kinds = [each.WhichOneof("kind") for each in events]
        self.assertEqual((kinds[0], kinds[-1], set(kinds[1:-1])), ("started", "finished", {"event"}))
        self.assertEqual((events[-1].finished.id, events[-1].finished.exit_code, events[-1].finished.stdout),
                         (events[0].started.id, 4, b"a\n"))
        self.assertIn(b"a\n", [each.event.stdout.data for each in events])
        self.refused(Code.INVALID_ARGUMENT, front.Executions.RunStream, front.RunRequest(language="bash"))


class Sessions(GrpcTest):
    def test_life(self):
        front = self.front
        with self.session(language="python", name="named", ttl_seconds=100, metadata={"a": "b"}, env={"E": "1"}) as made:
            self.assertEqual((made.status, made.name, dict(made.metadata)), ("running", "named", {"a": "b"}))
            self.assertEqual(made.env["E"], "1")
            self.assertEqual(front.Sessions.Get(front.GetSessionRequest(id="named")).id, made.id)
            renewed = front.Sessions.Renew(front.RenewSessionRequest(id=made.id, ttl_seconds=1000))
            self.assertGreater(renewed.expires_at.seconds, made.expires_at.seconds + 400, "bounded by the idle time")
            listed = front.Sessions.List(front.ListSessionsRequest(status="running", limit=1))
            self.assertEqual([each.id for each in listed.sessions], [made.id])
            self.assertEqual(made.limits.memory_mb, 256)
        ended = front.Sessions.Get(front.GetSessionRequest(id=made.id))
        self.assertEqual((ended.status, ended.HasField("ended_at")), ("ended", True))
        self.refused(Code.FAILED_PRECONDITION, front.Sessions.Exec, front.ExecRequest(session_id=made.id, command="ls"))

    def test_programs_and_cells(self):
        front = self.front
        with self.session(language="python") as session:
            def cell(code):
                return front.Sessions.Exec(front.ExecRequest(session_id=session.id, language="python", code=code))

            cell("x = 41")
            counted = cell("x + 1")
            self.assertEqual(counted.results[0]["text/plain"], "42")
            self.assertEqual((counted.cell.kernel, counted.cell.number), ("python", 2))
            kernels = front.Sessions.ListKernels(front.ListKernelsRequest(session_id=session.id)).kernels
            self.assertEqual([(each.name, each.number) for each in kernels], [("python", 2)])
            front.Sessions.RestartKernel(front.RestartKernelRequest(session_id=session.id, name="python"))
            self.assertEqual(cell("x").exit_code, 1)
            shell = front.Sessions.Exec(front.ExecRequest(session_id=session.id, argv=["cat"], input=b"\0in"))
            self.assertEqual((shell.stdout, shell.session_id), (b"\0in", session.id))
            began = time.monotonic()
            behind = front.Sessions.Exec(front.ExecRequest(session_id=session.id, command="sleep 30", background=True))
            self.assertLess(time.monotonic() - began, harness.limit(10))
            self.assertIn(behind.status, ("queued", "running"))
            front.Executions.Signal(front.SignalRequest(id=behind.id, signal="SIGTERM"))
            self.assertEqual(self.server.wait_end(behind.id)["signal"], "SIGTERM")

    def test_output_comes_as_the_program_writes(self):
        """The program waits for an answer to its first line: output that came at the end alone would never come."""
        front = self.front
        with self.session(language="bash") as session:
            stream = front.Sessions.ExecStream(front.ExecRequest(
                session_id=session.id, command="echo ask; read x; echo got $x", keep_input=True), timeout=30)
            execution, said = None, b""
            for event in stream:
                if event.HasField("started"):
                    execution = event.started.id
                said += event.event.stdout.data
                if said == b"ask\n":
                    front.Executions.SendInput(front.SendInputRequest(id=execution, data=b"yes\n"))
            self.assertEqual(said, b"ask\ngot yes\n")
            self.assertEqual((event.finished.status, event.finished.stdout), ("completed", said))


class Files(GrpcTest):
    CONTENT = bytes(range(256)) * (8 * MIB // 256)

    def setUp(self):
        context = self.session(language="bash")
        self.session_id = self.enterContext(context).id

    def write(self, path, pieces, finish=True, **head):
        def messages():
            yield self.front.WriteFileRequest(session_id=self.session_id, path=path, **head)
            for piece in pieces:
                yield self.front.WriteFileRequest(data=piece)
            if finish:
                yield self.front.WriteFileRequest(finish_write=True)
        return self.front.Files.Write(messages())

    def read(self, path, **more):
        return list(self.front.Files.Read(self.front.ReadFileRequest(session_id=self.session_id, path=path, **more)))

    def test_up_and_down(self):
        pieces = [self.CONTENT[at:at + MIB] for at in range(0, len(self.CONTENT), MIB)]
        entry = self.write("a/b c%.bin", pieces, mode="0600")
        self.assertEqual((entry.path, entry.type, entry.size, entry.mode), ("a/b c%.bin", "file", 8 * MIB, "0600"))
        chunks = self.read("a/b c%.bin")
        self.assertEqual(b"".join(each.data for each in chunks), self.CONTENT)
        self.assertGreater(len(chunks), 8)
        self.assertEqual(chunks[0].size, 8 * MIB)
        self.assertFalse(chunks[1].HasField("size"))
        self.assertEqual(chunks[1].offset, len(chunks[0].data))
        [part] = self.read("a/b c%.bin", offset=250, limit=10)
        self.assertEqual((part.data, part.offset, part.size), (self.CONTENT[250:260], 250, 8 * MIB))
        self.refused(Code.OUT_OF_RANGE, self.read, "a/b c%.bin", offset=8 * MIB + 1)

    def test_small_ones(self):
        front, files = self.front, self.front.Files
        self.write("empty", [])
        [nothing] = self.read("empty")
        self.assertEqual((nothing.data, nothing.size), (b"", 0))
        self.write("log", [b"one"])
        self.assertEqual(self.write("log", [b"two"], offset=3).size, 6)
        self.assertEqual(self.read("log")[0].data, b"onetwo")
        self.refused(Code.FAILED_PRECONDITION, self.write, "log", [b"x"], offset=1)
        files.MakeDirectory(front.MakeDirectoryRequest(session_id=self.session_id, path="d/e"))
        getattr(files, "Move")(front.MoveFileRequest(session_id=self.session_id, **{"from": "log"}, to="d/e/log"))
        listed = files.List(front.ListFilesRequest(session_id=self.session_id, depth=3))
        self.assertEqual(sorted(each.path for each in listed.entries), ["d", "d/e", "d/e/log", "empty"])
        self.refused(Code.FAILED_PRECONDITION, files.Delete, front.DeleteFileRequest(session_id=self.session_id, path="d"))
        files.Delete(front.DeleteFileRequest(session_id=self.session_id, path="d", recursive=True))
        self.refused(Code.NOT_FOUND, self.read, "d/e/log")
        error = self.refused(Code.INVALID_ARGUMENT, self.read, "../etc/passwd")
        self.assertEqual(details(error)["BadRequest"].field_violations[0].field, "url.path")
        self.write("note", [b"x"], root="home")
        self.assertEqual(self.read("note", root="home")[0].data, b"x")
        self.refused(Code.NOT_FOUND, self.read, "note")

    def test_an_unfinished_write_changes_nothing(self):
        self.write("kept", [b"before"])
        error = self.refused(Code.INVALID_ARGUMENT, self.write, "kept", [b"after"], finish=False)
        self.assertIn("finish_write", error.details())
        go = threading.Event()

        def messages():
            yield self.front.WriteFileRequest(session_id=self.session_id, path="kept", data=b"after")
            go.wait(30)

        upload = self.front.Files.Write.future(messages())
        time.sleep(0.5)
        upload.cancel()
        go.set()
        # Both are over when another write is possible.
        self.write("other", [b"x"])
        self.assertEqual(self.read("kept")[0].data, b"before")
        self.refused(Code.NOT_FOUND, self.front.Files.Write, iter([self.front.WriteFileRequest(
            session_id="none-such", path="a", data=b"x", finish_write=True)]))

    def test_a_slow_reader_is_bounded(self):
        size = 96 * MIB
        made = self.front.Sessions.Exec(self.front.ExecRequest(
            session_id=self.session_id, command=f"head -c {size} /dev/zero > big", no_artifacts=True))
        self.assertEqual(made.exit_code, 0, made)
        stream = self.front.Files.Read(self.front.ReadFileRequest(session_id=self.session_id, path="big"))
        got = len(next(stream).data)
        before = memory_of(self.front.process.pid)
        time.sleep(2)
        self.assertLess(memory_of(self.front.process.pid), before + 24 * MIB, "what nobody reads is kept")
        for chunk in stream:
            got += len(chunk.data)
        self.assertEqual(got, size)


class Escalations(GrpcTest):
    def test_approve_and_deny(self):
        front = self.front
        asker = self.new_key("looked-at", agent="asker")
        approver = self.new_key("looked-at", agent="boss", roles=["approver"])
        calls = front.Escalations(approver)

        def blocked(code):
            made = front.Executions(asker).Create(front.RunRequest(language="bash", code=code))
            self.assertEqual((made.status, made.error.type), ("blocked", "APPROVAL_REQUIRED"))
            return made, made.error.details["escalation_id"]

        run, id_ = blocked("echo allowed")
        [listed] = calls.List(front.ListEscalationsRequest(status="pending")).escalations
        self.assertEqual((listed.id, listed.operation, listed.execution_id, listed.quorum), (id_, "run", run.id, 1))
        self.assertIn("echo allowed", listed.display)
        self.refused(Code.PERMISSION_DENIED, front.Escalations(asker).Approve, front.ApproveEscalationRequest(id=id_))
        decided = calls.Approve(front.ApproveEscalationRequest(id=id_, reason="fine"))
        self.assertEqual([(each.decision, each.reason) for each in decided.decisions], [("approve", "fine")])
        self.assertEqual(self.server.wait_end(run.id)["stdout"], "allowed\n")
        self.refused(Code.FAILED_PRECONDITION, calls.Approve, front.ApproveEscalationRequest(id=id_))
        run, id_ = blocked("echo refused")
        error = self.refused(Code.INVALID_ARGUMENT, calls.Deny, front.DenyEscalationRequest(id=id_))
        self.assertEqual(details(error)["BadRequest"].field_violations[0].field, "reason")
        self.assertEqual(calls.Deny(front.DenyEscalationRequest(id=id_, reason="no")).status, "denied")
        self.assertEqual(self.server.wait_end(run.id)["status"], "denied")


if __name__ == "__main__":
    unittest.main()
