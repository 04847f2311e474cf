# SPDX-License-Identifier: Apache-2.0
"""The SDK for Python against a server: each method, each error, connections that are cut, many sandboxes at once, and the
examples of the pages."""

import asyncio
import datetime
import io
import os
import pathlib
import socket
import subprocess
import sys
import tarfile
import tempfile
import threading
import time
import unittest
import unittest.mock

import harness
import sdk_case
from sdk_case import Answers, CuttingProxy, problem

import cloister  # noqa: E402 (sdk_case says where)
from cloister import AsyncSandbox, Client, Sandbox
from cloister import _config

PAGE = harness.REPO / "docs/howto/sdk-python.md"
MARK = "--- example\n"
MANY = 50
MIB = 1 << 20


class SdkTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = sdk_case.server(cls)

    def client(self, key=None, **options):
        made = Client(options.pop("url", self.server.url), key or self.server.key, **options)
        self.addCleanup(made.close)
        return made

    def sandbox(self, **options):
        options.setdefault("memory", "64MB")
        made = Sandbox(client=options.pop("client", None) or self.client(), **options)
        self.addCleanup(made.kill)
        return made

    def raises(self, kind, call, *args, **more):
        with self.assertRaises(kind) as caught:
            call(*args, **more)
        self.assertIs(type(caught.exception), kind, caught.exception)
        self.assertTrue(caught.exception.remedy, caught.exception)
        return caught.exception


@unittest.skipIf(harness.SLOW, "not in the guest's image: the pages")
class Examples(SdkTest):
    def run_python(self, text):
        return subprocess.run([sys.executable, "-W", "error", "-"], input=text, env=sdk_case.environment(self.server), capture_output=True,
                              text=True, timeout=120)

    def test_the_first_example_of_each_readme(self):
        for page in ("README.md", "sdk/python/README.md"):
            code = sdk_case.examples(harness.REPO / page, "python")[0][0]
            done = self.run_python(code)
            self.assertEqual((done.returncode, done.stdout), (0, "42\n"), done.stderr)

    def test_the_page(self):
        pairs = sdk_case.examples(PAGE, "python")
        self.assertGreater(len(pairs), 10)
        script = "".join(f"print({MARK!r}, end='', flush=True)\n{code}\n" for code, _ in pairs)
        done = self.run_python(script)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        sdk_case.assert_output(self, done.stdout, pairs, MARK)


class Code(SdkTest):
    def test_run_code(self):
        sandbox = self.sandbox(memory="128MB")
        self.assertEqual(sandbox.run_code("x = 20; x + 1").text, "21")
        done = sandbox.run_code("import sys\nprint('out', x); print('err', file=sys.stderr); {'a': x}")
        self.assertEqual((done.stdout, done.stderr, done.text, done.ok, done.error), ("out 20\n", "err\n", "{'a': 20}", True, None))
        self.assertEqual((done.sandbox_id, done.status, done.exit_code, done.signal), (sandbox.id, "completed", 0, None))
        shown = sandbox.run_code("class P:\n  def _repr_html_(self): return '<b>h</b>'\n  def _repr_png_(self): return b'\\x89PNG'\n"
                                 "  def _repr_markdown_(self): return '*m*'\n  def _repr_svg_(self): return '<svg/>'\n"
                                 "  def _repr_latex_(self): return '$l$'\n  def _repr_jpeg_(self): return b'\\xff\\xd8'\nP()").results[0]
        self.assertEqual((shown.html, shown.png, shown.markdown, shown.svg, shown.latex, shown.jpeg),
                         ("<b>h</b>", b"\x89PNG", "*m*", "<svg/>", "$l$", b"\xff\xd8"))
        self.assertEqual(shown._repr_mimebundle_(), shown.data)
        self.assertIn("image/png", shown.formats())
        self.assertIsNone(shown.json)
        bad = sandbox.run_code("def f(): raise KeyError('k')\nf()")
        self.assertEqual((bad.ok, bad.error.name, bad.error.value, bad.error.code), (False, "KeyError", "'k'", None))
        self.assertIn("Traceback", bad.error.traceback)
        self.assertEqual(sandbox.run_code("echo $((2 + 3))", "bash").stdout, "5\n")
        own = sandbox.run_code("import sys, os; print(sys.argv[1:], os.environ['A'], os.getcwd(), sys.stdin.read())", args=["1"],
                               env={"A": "b"}, cwd="/tmp", input="in", files={"in.txt": b"\xff"}, artifacts=["none*"], kernel="none")
        self.assertEqual(own.stdout, "['1'] b /tmp in\n", own.stderr)
        self.assertEqual(sandbox.files.read("in.txt", format="bytes"), b"\xff")
        self.assertEqual([each["name"] for each in sandbox.kernels()], ["bash", "python"])
        sandbox.restart_kernel("python")
        self.assertEqual(sandbox.run_code("'x' in globals()").text, "False")
        self.assertEqual(sandbox.run_code("x = 1; x", kernel="other").text, "1")
        self.assertEqual(sandbox.run_code("import os; os.listdir('/tmp')", fresh=True, kernel="none").exit_code, 0)
        late = sandbox.run_code("import time; time.sleep(60)", timeout="300ms")
        self.assertEqual((late.status, late.error.code), ("timed_out", "TIMEOUT"))

    def test_one_shot(self):
        client, said = self.client(), []
        done = cloister.run("import sys\nprint(open('a/in').read(), sys.argv[1:], input())\nopen('out.bin', 'wb').write(bytes(range(256)) * 40)",
                            files={"a/in": "file"}, args=["x"], input="typed\n", on_stdout=said.append, metadata={"k": "v"}, client=client)
        self.assertEqual(("".join(said), done.exit_code, done.metadata), ("file ['x'] typed\n", 0, {"k": "v"}))
        kept = {each.path: each for each in done.artifacts}["out.bin"]
        self.assertEqual((kept.size, kept.read()), (10240, bytes(range(256)) * 40))
        with tempfile.TemporaryDirectory() as folder:
            self.assertEqual(kept.save(folder).read_bytes(), kept.read())
            self.assertEqual(os.listdir(folder), ["out.bin"])
        kept.delete()
        self.raises(cloister.NotFound, kept.read)
        self.assertEqual(cloister.run(command=["echo", "a b"], client=client).stdout, "a b\n")
        self.assertEqual(cloister.run(command="head -c 3 /dev/zero", client=client).stdout_bytes, b"\0\0\0")
        long = cloister.run("print('ä' * 100000)", output="1kB", on_stdout=said.append, client=client)
        self.assertTrue(long.stdout_truncated)
        self.assertEqual(said[-1][-2:], "ä\n")
        self.assertEqual("".join(said).count("ä"), 100000, "output beyond the kept bytes comes from its artifact")
        self.assertIn("python", [each["name"] for each in client.languages()])
        self.assertIn("execution.run", client.whoami()["permissions"])

    def test_limits_have_units(self):
        made = self.sandbox(memory="100MB", disk="0.5g", file_size=7, cpu="500m", cpu_time=20, pids=20, open_files=100, inodes=1000,
                            output="64k", timeout=datetime.timedelta(seconds=9), ttl="2h", idle_ttl="5m", cwd="/tmp", env={"A": "1"},
                            network="none", runtime="process", image="host", tier="Auto", capabilities=["command_execution", "file_read"],
                            nested=False, metadata={"a": "b"}, language="bash", deps=[]).info().raw
        self.assertEqual(made["limits"], {"timeout_seconds": 9, "cpu_seconds": 20, "cpu_millis": 500, "memory_mb": 100, "disk_mb": 512,
                                          "file_size_mb": 7, "inodes": 1000, "pids": 20, "open_files": 100, "max_output_bytes": 65536})
        self.assertEqual((made["ttl_seconds"], made["idle_ttl_seconds"], made["cwd"], made["env"], made["language"], made["metadata"]),
                         (7200, 300, "/tmp", {"A": "1"}, "bash", {"a": "b"}))
        self.assertEqual(made["capabilities"], ["command_execution", "file_read"])


class Commands(SdkTest):
    def test_commands(self):
        sandbox = self.sandbox(language="bash")
        run, out, err = sandbox.commands.run, [], []
        done = run("echo $A; pwd; echo bad >&2; cat; exit 7", env={"A": "b"}, cwd="/tmp", input="in", on_stdout=out.append, on_stderr=err.append)
        self.assertEqual((done.exit_code, "".join(out), "".join(err), done.error.name), (7, "b\n/tmp\nin", "bad\n", "ExitCode"))
        self.assertEqual(run(["echo", "$A"]).stdout, "$A\n")
        self.assertEqual(run("kill -9 $$").signal, "SIGKILL")
        self.assertEqual(run("echo 1 > made; cat f", files={"f": "2"}, artifacts=["made"]).artifacts[0].read(), b"1\n")
        self.assertEqual(run("ls", fresh=True).stdout, "f\nmade\n")
        with self.assertRaises(ZeroDivisionError):
            run("echo x; sleep 60", on_stdout=lambda text: 1 / 0)
        harness.wait_for("the end of a program whose callback failed", lambda: not sandbox.commands.list())

    def test_in_the_background(self):
        sandbox, said = self.sandbox(language="bash"), []
        command = sandbox.commands.start("while read line; do echo got $line; done; echo end", on_stdout=said.append)
        self.assertEqual((command.status(), [each.id for each in sandbox.commands.list()]), ("running", [command.id]))
        command.send_stdin("one\n")
        harness.wait_for("its output", lambda: command.output() == "got one\n")
        self.raises(cloister.Timeout, command.wait, "100ms")
        command.send_stdin(b"two\n\xff\n")
        command.close_stdin()
        done = command.wait(check=True)
        self.assertEqual(done.stdout_bytes, b"got one\ngot two\ngot \xff\nend\n")
        self.assertEqual("".join(said), done.stdout, "also after a wait that ended early")
        self.raises(cloister.Conflict, command.send_stdin, "late")
        asleep = sandbox.commands.run("trap 'echo int; exit 5' INT; echo up; while true; do sleep 0.1; done", background=True)
        harness.wait_for("its start", lambda: asleep.output() == "up\n")
        asleep.signal("SIGINT")
        self.assertEqual(asleep.wait().exit_code, 5)
        lines = sandbox.commands.run("for i in 1 2 3; do echo line $i; sleep 0.1; done; printf last", background=True)
        self.assertEqual(list(sandbox.commands.connect(lines.id).lines()), ["line 1", "line 2", "line 3", "last"])
        killed = sandbox.commands.run("sleep 100", background=True)
        killed.kill()
        self.assertEqual(killed.wait().status, "cancelled")
        self.raises(cloister.ProgramFailed, killed.wait, check=True)

    def test_check(self):
        sandbox = self.sandbox(language="bash", memory="64MB")
        failed = self.raises(cloister.ProgramFailed, sandbox.commands.run, "echo why >&2; exit 3", check=True)
        self.assertEqual((failed.execution.exit_code, failed.execution.stderr), (3, "why\n"))
        late = self.raises(cloister.Timeout, sandbox.commands.run, "sleep 60", timeout=0.3, check=True)
        self.assertEqual((late.code, late.execution.status), ("TIMEOUT", "timed_out"))
        met = self.raises(cloister.LimitExceeded, sandbox.run_code, "x = b'x' * (1 << 30)", "python", kernel="none", check=True)
        self.assertEqual((met.details["limit"], met.execution.status), ("memory_mb", "failed"))
        self.assertIs(sandbox.commands.run("true", check=True).check().ok, True)


class Life(SdkTest):
    def test_it_lives_and_ends(self):
        client = self.client()
        with Sandbox(client=client, memory="64MB", language="bash", metadata={"n": "1"}) as made:
            self.assertEqual((made.info().status, made.is_running()), ("running", True))
            same = Sandbox.connect(made.id, client=client)
            same.files.write("a", "1")
            self.assertEqual(made.files.read("a"), "1")
            listed = {each.id: each for each in Sandbox.list(client=client, limit=500)}
            self.assertEqual(listed[made.id].metadata, {"n": "1"})
            before = made.info().expires_at
            self.assertGreater(made.renew(ttl="3h", idle_ttl="2h").expires_at, before)
            made.memory.set("plan", {"step": [1, None, "ä"]})
            self.assertEqual((made.memory.get("plan"), made.memory.keys()), ({"step": [1, None, "ä"]}, ["plan"]))
            made.memory.delete("plan")
            self.raises(cloister.NotFound, made.memory.get, "plan")
            self.assertIn(made.id, repr(made))
            self.raises(cloister.Conflict, made.move)
        ended = made.info()
        self.assertEqual((ended.status, made.is_running()), ("ended", False))
        self.assertTrue(ended.end_reason)
        made.kill()
        self.raises(cloister.Conflict, Sandbox.connect, made.id, client=client)
        self.raises(cloister.Conflict, made.run_code, "1")
        self.assertIn(made.id, [each.id for each in Sandbox.list(client=client, status=None, limit=500)])
        self.assertNotIn(made.id, [each.id for each in Sandbox.list(client=client, limit=500)])

    def test_snapshots_and_forks(self):
        client = self.client()
        made = self.sandbox(client=client, language="bash", env={"A": "kept"}, pids=33)
        made.files.write("a.txt", "first")
        taken = made.snapshot("draft", metadata={"k": "v"}, ttl="1h")
        self.assertEqual((taken.name, taken.sandbox_id, taken.metadata, taken.has_memory), ("draft", made.id, {"k": "v"}, False))
        self.assertIn(taken.id, [each.id for each in cloister.list_snapshots(client=client)])
        with Sandbox.from_snapshot(taken, client=client, memory="64MB") as again:
            self.assertEqual(again.files.read("a.txt"), "first")
        cloister.delete_snapshot(taken.id, client=client)
        self.raises(cloister.NotFound, Sandbox.from_snapshot, taken, client=client)
        forks = made.fork(2)
        for fork in forks:
            self.addCleanup(fork.kill)
            self.assertEqual((fork.files.read("a.txt"), fork.commands.run("echo $A").stdout), ("first", "kept\n"))
            self.assertEqual(fork.info().limits, made.info().limits)
        self.assertEqual(cloister.list_snapshots(client=client), [])

    def test_ports(self):
        made = self.sandbox(language="bash")
        self.raises(cloister.Timeout, made.port, 8000, wait="200ms")
        serving = made.commands.run("python3 -m http.server 8000", background=True)
        link = made.port(8000, expires="5m", wait="20s")
        made.files.write("hello", "inside")
        answer = harness.http_request("127.0.0.1", self.server.port, "GET", link.url[len(self.server.url):] + "hello")
        self.assertEqual((answer.status, answer.body, link.port), (200, b"inside", 8000))
        self.assertTrue(link.url.startswith(self.server.url + "/v1/sessions/"), link.url)
        self.assertNotIn(link.token, repr(link))
        serving.kill()

    def test_over_a_unix_socket_and_by_the_state_directory(self):
        with tempfile.TemporaryDirectory() as folder, CuttingProxy(self.server, path=f"{folder}/socket") as proxy:
            with Client(proxy.url, self.server.key) as client:
                self.assertEqual((client.url, cloister.run("print(1)", client=client).stdout), (f"unix:{folder}/socket", "1\n"))
        with unittest.mock.patch.dict(os.environ), Client(state=str(self.server.state)) as client:
            for name in ("CLOISTER_URL", "CLOISTER_API_KEY"):
                os.environ.pop(name, None)
            self.assertEqual((client.url, client.whoami()["roles"]), (self.server.url, ["admin"]))
            with Client(self.server.url, state=str(self.server.state)) as named:
                self.assertEqual(named.whoami()["roles"], ["admin"])
            os.environ["CLOISTER_URL"], os.environ["CLOISTER_API_KEY"] = self.server.url, "wrong"
            self.raises(cloister.AuthenticationError, Client().whoami)
            other = _config.resolve("http://127.0.0.1:1", None, None, str(self.server.state))
            self.assertEqual(other.api_key, "wrong", "and never the key of the state directory")
            del os.environ["CLOISTER_API_KEY"]
            self.assertIsNone(_config.resolve("http://127.0.0.1:1", None, None, str(self.server.state)).api_key)
            del os.environ["CLOISTER_URL"]
            self.raises(cloister.ConfigurationError, Client, state="/nonexistent")
        for url in ("ftp://h", "http://", "h:80", "http://u:p@h", "http://h?q", "unix:relative", "http://h:99999", "http://h\r\nX: y"):
            self.raises(cloister.ConfigurationError, Client, url, "k")
        self.raises(cloister.ConfigurationError, Client, "http://h", "k\r\nX: y")


class Files(SdkTest):
    def test_files(self):
        files = self.sandbox(language="bash").files
        self.assertEqual(files.write("d/ä b.txt", "text ä").path, "d/ä b.txt")
        self.assertEqual(files.read("/workspace/d/ä b.txt"), "text ä")
        files.write_files({"d/x": b"\0\xff", "d/run": io.BytesIO(b"#!/bin/sh\n")})
        self.assertEqual((files.read("d/x", format="bytes"), files.read_bytes("d/run")), (b"\0\xff", b"#!/bin/sh\n"))
        self.assertEqual(files.write("d/run", "x", mode=0o755).mode, "0755")
        self.raises(cloister.InvalidRequest, files.read, "d/x")
        self.assertEqual([(each.name, each.size, each.is_dir) for each in files.list("d")], [("run", 1, False), ("x", 2, False), ("ä b.txt", 7, False)])
        self.assertEqual([each.path for each in files.list(depth=2)], ["d", "d/run", "d/x", "d/ä b.txt"])
        self.assertEqual((files.info("d").type, files.info("d/x").size), ("directory", 2))
        files.rename("d/x", "e/y")
        self.assertEqual((files.exists("d/x"), files.exists("e/y")), (False, True))
        self.raises(cloister.Conflict, files.rename, "d/run", "e/y")
        files.rename("d/run", "e/y", overwrite=True)
        self.assertTrue(files.make_dir("e/f/g").is_dir)
        self.raises(cloister.Conflict, files.remove, "e")
        files.remove("e", recursive=True)
        files.remove("d/ä b.txt")
        self.assertEqual([each.path for each in files.list(depth=9)], ["d"])
        self.raises(cloister.NotFound, files.read, "none")
        for path in ("/etc/passwd", "../x", "a/../../x", "/workspacex"):
            self.assertEqual(self.raises(cloister.InvalidRequest, files.read, path).field, "path")
        self.raises(cloister.InvalidRequest, files.write, "/workspace", "x")

    def test_whole_directories_and_local_files(self):
        files = self.sandbox(language="bash").files
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            (folder / "big").write_bytes(os.urandom(3 * MIB))
            (folder / "big").chmod(0o755)
            self.assertEqual((files.upload(folder / "big", "in/big").mode, files.info("in/big").size), ("0755", 3 * MIB))
            files.download("in/big", folder / "back")
            self.assertEqual((folder / "back").read_bytes(), (folder / "big").read_bytes())
            self.assertEqual(sorted(os.listdir(folder)), ["back", "big"])
            self.assertEqual(sum(map(len, files.chunks("in/big"))), 3 * MIB)
            packed = files.read_archive("in")
            self.assertEqual(tarfile.open(fileobj=io.BytesIO(packed)).getnames(), ["big"])
            self.assertEqual((files.write_archive(packed, "out"), files.info("out/big").size), (0, 3 * MIB))

    def test_watch(self):
        files, seen = self.sandbox(language="bash").files, []
        with files.watch("", recursive=True) as changes:
            for change in changes:
                seen.append((change.type, change.path))
                if change.type == "ready":
                    files.write("a/b", "1")
                elif seen[-1] == ("created", "a/b") and seen.count(seen[-1]) == 1:  # a change may be reported twice
                    files.rename("a/b", "a/c")
                elif change.type == "moved":
                    self.assertEqual((change.old_path, change.path, change.is_dir), ("a/b", "a/c", False))
                    break
        self.assertEqual(seen[0][0], "ready")


class Errors(SdkTest):
    def test_of_the_server(self):
        client, ask = self.client(), cloister.run
        wrong = self.raises(cloister.AuthenticationError, ask, "1", client=self.client("clk_wrong"))
        self.assertEqual((wrong.status, wrong.request_id[:4], "CLOISTER_API_KEY" in str(wrong)), (401, "req_", True))
        viewer = self.client(sdk_case.new_key(self.server, "t", roles=["viewer"]))
        self.assertEqual(self.raises(cloister.PermissionDenied, ask, "1", client=viewer).details["permission"], "execution.run")
        closed = self.client(sdk_case.new_key(self.server, "closed"))
        denied = self.raises(cloister.PermissionDenied, ask, "1", client=closed)
        self.assertEqual((denied.code, denied.record["status"]), ("PERMISSION_DENIED", "denied"))
        self.raises(cloister.PermissionDenied, ask, "1", client=closed, on_stdout=print)
        self.raises(cloister.PermissionDenied, Sandbox, client=closed)
        self.assertEqual(self.raises(cloister.InvalidRequest, ask, "1", "cobol", client=client).field, "language")
        self.assertEqual(self.raises(cloister.InvalidRequest, ask, "1", client=client, pids=-1).status, 422)
        self.raises(cloister.TooLarge, ask, "#" * (33 * MIB), client=client)
        self.raises(cloister.NotFound, Sandbox.connect, "ses_" + "0" * 26, client=client)
        quiet = self.client(sdk_case.new_key(self.server, "small"), retries=0)
        self.assertEqual(self.server.request("PUT", "/v1/quotas/tenants/small", {"sessions": 1}).status, 200)
        with Sandbox(client=quiet, memory="64MB"):
            limited = self.raises(cloister.RateLimited, Sandbox, client=quiet, memory="64MB")
            self.assertGreaterEqual(limited.retry_after, 1)

    def test_of_approvals(self):
        waiting = self.client(sdk_case.new_key(self.server, "looked-at", agent="coder", user="dev"))
        boss = sdk_case.new_key(self.server, "looked-at", roles=["approver"], user="boss")
        for attempt in ({}, {"on_stdout": print}):
            blocked = self.raises(cloister.Blocked, cloister.run, "print('ran')", client=waiting, **attempt)
            self.assertRegex(blocked.escalation_id, r"^ESC-\d{4}-\d+$")
            self.assertIn(blocked.escalation_id, blocked.remedy)
            self.assertRegex(blocked.execution_id, "^exec_")
        held = self.raises(cloister.Blocked, Sandbox, client=waiting, metadata={"a": "1"})
        self.assertRegex(held.sandbox_id, "^ses_")
        done = []
        thread = threading.Thread(target=lambda: done.append(cloister.run("print('waited')", client=waiting, wait_approval=True)))
        thread.start()

        def approve():
            for each in self.server.request("GET", "/v1/escalations?status=pending&limit=50", key=boss).json()["escalations"]:
                self.server.request("POST", f"/v1/escalations/{each['id']}:approve", {}, key=boss)
            return not thread.is_alive()

        harness.wait_for("the approved run", approve, 30, every=0.1)
        self.assertEqual(done[0].stdout, "waited\n")
        self.assertEqual(cloister._sync.execution.Follower(waiting, blocked.execution_id, None, None).wait("20s")["stdout"], "ran\n")
        self.assertEqual(Sandbox.connect(held.sandbox_id, client=waiting).kill(), None)

    def test_of_answers(self):
        kinds = ((507, "INTERNAL", cloister.OutOfSpace), (500, "INTERNAL", cloister.ServerError), (404, "NOT_FOUND", cloister.NotFound),
                 (409, "INVALID_REQUEST", cloister.Conflict), (413, "INVALID_REQUEST", cloister.TooLarge), (415, "INVALID_REQUEST", cloister.InvalidRequest),
                 (403, "APPROVAL_REQUIRED", cloister.Blocked), (401, "X", cloister.AuthenticationError), (502, "INTERNAL", cloister.Unavailable))
        for status, code, kind in kinds:
            body = problem(code, "the message", field="a.b", remedy="the remedy", escalation_id="ESC-2026-001")
            with self.subTest(status), Answers((status, {}, body)) as server:
                error = self.raises(kind, Client(server.url, "k", retries=0).whoami)
                self.assertEqual((error.message, error.field, error.request_id, error.status), ("the message", "a.b", "req_test", status))
                self.assertEqual(error.remedy, "the remedy" if kind is not cloister.Blocked else error.remedy)
                self.assertIn("the message", str(error))
        with Answers((200, {}, "no object")) as server, socket.create_server(("127.0.0.1", 0)) as silent:
            self.assertEqual(Client(server.url, "k").whoami(), {"value": "no object"})
            port = silent.getsockname()[1]
            late = self.raises(cloister.Timeout, Client(f"http://127.0.0.1:{port}", "k", timeout=0.2, retries=0).whoami)
            self.assertIn("no answer for 0.2 s", late.message)
        gone = self.raises(cloister.Unavailable, Client(f"http://127.0.0.1:{port}", "k", retries=1).whoami)
        self.assertIn("refused", gone.message)


class Attempts(SdkTest):
    def test_refusals_are_tried_again(self):
        later = (503, {"Retry-After": 1}, problem("INTERNAL", retryable=True))
        with Answers(later, (429, {}, problem("QUOTA_EXCEEDED", retryable=True)), (200, {}, {"tenant": "t"})) as server:
            began = time.monotonic()
            self.assertEqual(Client(server.url, "k").whoami(), {"tenant": "t"})
            self.assertGreaterEqual(time.monotonic() - began, 1, "Retry-After")
            self.assertEqual(len(server.seen), 3)
        with Answers(later) as server:
            self.raises(cloister.Unavailable, Client(server.url, "k", retries=2).whoami)
            self.assertEqual(len(server.seen), 3, "a bounded number")
        with Answers(later) as server:
            self.raises(cloister.Unavailable, Client(server.url, "k", retry_seconds=0.5).whoami)
            self.assertEqual(len(server.seen), 1, "a bounded time")
        with Answers((400, {}, problem("INVALID_REQUEST"))) as server:
            self.raises(cloister.InvalidRequest, Client(server.url, "k").whoami)
            self.assertEqual(len(server.seen), 1, "not for an error that stays")
        with Answers((502, {}, {})) as server:
            self.raises(cloister.Unavailable, Client(server.url, "k").call, "POST", "/v1/sessions/x/snapshots", {})
            self.assertEqual(len(server.seen), 1, "not what has an effect each time")
        with Answers((502, {}, {})) as server:
            self.raises(cloister.Unavailable, cloister.run, "1", client=Client(server.url, "k", retries=1))
            keys = [headers["idempotency-key"] for _, _, headers in server.seen]
            self.assertEqual((len(keys), len(set(keys))), (2, 1), "the same key")

    def test_a_lost_answer_starts_nothing_twice(self):
        key = sdk_case.new_key(self.server, "once")
        with CuttingProxy(self.server, limit=20, cuts=2) as proxy:
            client = self.client(key, url=proxy.url)
            self.assertEqual(cloister.run("print('once')", client=client).stdout, "once\n")
            self.assertEqual(proxy.cut, 2)
        listed = self.server.request("GET", "/v1/executions", key=key).json()["executions"]
        self.assertEqual(len(listed), 1)

    def test_an_answer_that_breaks_off_is_asked_for_again(self):
        with CuttingProxy(self.server, limit=1_000, cuts=2) as proxy:
            client = self.client(url=proxy.url)
            self.assertIn("python", [each["name"] for each in client.call("GET", "/v1/languages")["languages"]])
            self.assertEqual(proxy.cut, 2)
        with CuttingProxy(self.server, limit=1_000, cuts=1) as proxy:
            self.raises(cloister.Unavailable, Client(proxy.url, self.server.key, retries=0).call, "GET", "/v1/languages")

    def test_output_survives_cuts(self):
        code = "import sys\nfor i in range(4000):\n    print('line', i, 'ä' * 20, flush=i % 100 == 0)\n    i % 500 == 0 and print(i, file=sys.stderr)"
        with CuttingProxy(self.server, limit=30_000, cuts=12) as proxy:
            out, err = [], []
            done = cloister.run(code, client=self.client(url=proxy.url), on_stdout=out.append, on_stderr=err.append)
            self.assertEqual("".join(out), "".join(f"line {i} {'ä' * 20}\n" for i in range(4000)))
            self.assertEqual("".join(err), "".join(f"{i}\n" for i in range(0, 4000, 500)))
            self.assertEqual((proxy.cut, done.stdout), (12, "".join(out)))
        with CuttingProxy(self.server, limit=6_000, cuts=4) as proxy:
            sandbox = self.sandbox(language="bash")
            slow = sandbox.commands.run("for i in $(seq 300); do echo line $i; sleep 0.002; done", background=True)
            lines = list(self.client_commands(proxy, sandbox).connect(slow.id).lines())
            self.assertEqual(lines, [f"line {i}" for i in range(1, 301)])
            self.assertGreaterEqual(proxy.cut, 3)

    def client_commands(self, proxy, sandbox):
        return Sandbox.connect(sandbox.id, client=self.client(url=proxy.url)).commands

    def test_transfers_survive_cuts(self):
        sandbox, data = self.sandbox(language="bash", memory="128MB"), os.urandom(2 * MIB)
        with CuttingProxy(self.server, limit=200_000, cuts=6) as proxy:
            files = Sandbox.connect(sandbox.id, client=self.client(url=proxy.url)).files
            files.write("big", data)
            self.assertEqual((files.read("big", format="bytes") == data, proxy.cut), (True, 6))
        with CuttingProxy(self.server, limit=200_000, cuts=1) as proxy:
            files = Sandbox.connect(sandbox.id, client=self.client(url=proxy.url)).files
            pieces = files.chunks("big")
            next(pieces)
            sandbox.files.write("big", os.urandom(2 * MIB))
            self.raises(cloister.Conflict, list, pieces)

    def test_a_watch_survives_cuts(self):
        sandbox, seen = self.sandbox(language="bash"), []
        with CuttingProxy(self.server, limit=2_500, cuts=5) as proxy:
            with Sandbox.connect(sandbox.id, client=self.client(url=proxy.url)).files.watch() as changes:
                for change in changes:
                    if change.type == "ready" and not seen:
                        sandbox.commands.run("for i in $(seq 100); do > f$i; sleep 0.01; done", background=True)
                    self.assertNotEqual(change.type, "overflow")
                    seen += [change.path] if change.type == "created" else []
                    if change.path == "f100":
                        break
            self.assertEqual(list(dict.fromkeys(seen)), [f"f{i}" for i in range(1, 101)])
            self.assertGreaterEqual(proxy.cut, 3)


class Cancelled(unittest.TestCase):
    def test_no_cancellation_is_lost_to_bytes_that_arrive(self):
        from cloister._wire_async import AsyncWire

        async def story(turns):
            reader = asyncio.StreamReader()
            reading = asyncio.ensure_future(AsyncWire(reader, None).receive(30))
            await asyncio.sleep(0.01)
            reader.feed_data(b"late")
            for _ in range(turns):
                await asyncio.sleep(0)
            return reading.cancel(), (await asyncio.gather(reading, return_exceptions=True))[0]

        for turns in range(6):
            asked, ended = asyncio.run(story(turns))
            with self.subTest(turns):
                self.assertIsInstance(ended, asyncio.CancelledError if asked else bytes)


class Together(SdkTest):
    def test_many_sandboxes_at_once(self):
        async def one(client, n):
            async with AsyncSandbox(language="bash", memory="32MB", client=client, timeout="60s") as sandbox:
                said = []
                await sandbox.files.write("n", str(n))
                done = await sandbox.commands.run("cat n; echo $((N * 2))", env={"N": str(n)}, on_stdout=said.append)
                return "".join(said) if done.ok else done.stderr

        key = sdk_case.new_key(self.server, "many")

        async def all_of_them():
            async with cloister.AsyncClient(self.server.url, key, retries=20, retry_seconds=120, timeout=120) as client:
                return await asyncio.gather(*(one(client, n) for n in range(MANY)))

        self.assertEqual(asyncio.run(all_of_them()), [f"{n}{n * 2}\n" for n in range(MANY)])
        self.assertEqual(Sandbox.list(client=self.client(key)), [])

    def test_asyncio(self):
        async def story():
            async with cloister.AsyncClient(self.server.url, self.server.key) as client:
                said = []

                async def hear(text):
                    await asyncio.sleep(0)
                    said.append(text)

                done = await cloister.async_run("print('a'); open('f', 'w').write('kept')", client=client, on_stdout=hear)
                self.assertEqual(("".join(said), await done.artifacts[0].read()), ("a\n", b"kept"))
                sandbox = await AsyncSandbox.create(memory="64MB", client=client)
                self.assertIs(await sandbox, sandbox)
                self.assertEqual((await sandbox.run_code("2 + 3")).text, "5")
                command = await sandbox.commands.start("cat")
                await command.send_stdin("x\n")
                await command.close_stdin()
                self.assertEqual([line async for line in command.lines()], ["x"])
                async with sandbox.files.watch() as changes:
                    async for change in changes:
                        if change.type == "ready":
                            await sandbox.files.write("new", b"1")
                        elif change.path == "new":
                            break
                with self.assertRaises(asyncio.TimeoutError):
                    await asyncio.wait_for(sandbox.commands.run("sleep 60"), 1)
                while await sandbox.commands.list():  # the program that was given up ends
                    await asyncio.sleep(0.05)
                taken = await sandbox.snapshot()
                again = await AsyncSandbox.from_snapshot(taken, client=client, memory="64MB")
                self.assertEqual(await again.files.read("new"), "1")
                await cloister.async_delete_snapshot(taken, client=client)
                self.assertEqual(await cloister.async_list_snapshots(client=client), [])
                for each in (again, await AsyncSandbox.connect(sandbox.id, client=client)):
                    await each.kill()
                with self.assertRaises(cloister.Conflict):
                    AsyncSandbox(client=client).id

        asyncio.run(story())

    @unittest.skipIf(harness.SLOW, "not in the guest's image: httpx")
    def test_httpx_carries_the_requests(self):
        import httpx  # Debian's python3-httpx

        seen = []
        with httpx.Client(event_hooks={"request": [lambda request: seen.append(request.method)]}) as carrier:
            client, said = self.client(http_client=carrier), []
            with Sandbox(client=client, memory="64MB", language="bash") as sandbox:
                sandbox.files.write("a", io.BytesIO(b"streamed"))
                self.assertEqual(sandbox.files.read("a"), "streamed")
                self.assertEqual(sandbox.commands.run("echo x; exit 2", on_stdout=said.append).exit_code, 2)
                self.raises(cloister.NotFound, sandbox.files.read, "none")
            self.assertEqual(("".join(said), set(seen)), ("x\n", {"GET", "POST", "PUT", "DELETE"}))
            self.raises(cloister.Unavailable, Client("http://127.0.0.1:49151", "k", retries=0, http_client=carrier).whoami)

        async def story():
            async with httpx.AsyncClient() as carrier:
                client = cloister.AsyncClient(self.server.url, self.server.key, http_client=carrier)
                return (await cloister.async_run("print(1)", client=client, on_stdout=said.append)).stdout

        self.assertEqual(asyncio.run(story()), "1\n")

    def test_threads_share_a_client(self):
        client, said = self.client(), []
        threads = [threading.Thread(target=lambda n=n: said.append(cloister.run(f"print({n})", client=client, memory="32MB").stdout))
                   for n in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(sorted(said), [f"{n}\n" for n in range(8)])


if __name__ == "__main__":
    unittest.main()
