# SPDX-License-Identifier: Apache-2.0
"""Sessions over HTTP, every answer checked against spec/openapi.yaml: their life, and their programs."""

import concurrent.futures
import datetime
import json
import os
import threading
import unittest
import urllib.parse

import api_case
import harness
from api_case import DOCUMENT, ApiTest
from session_case import Session

CONFIG = api_case.CONFIG + "session:\n  max_execs: 8\n  max_ttl_seconds: 7200\n"
MIB = 1 << 20


def setUpModule():
    ApiTest.server = harness.Server(config=CONFIG)
    unittest.enterModuleContext(ApiTest.server)


def lasting(session):
    """The members of a session that never change."""
    return {name: value for name, value in session.items() if name != "resource_usage"}


def moment(text):
    return datetime.datetime.fromisoformat(text).timestamp()


class SessionTest(ApiTest):
    def open(self, **request):
        session = Session(self.server, self.call, **{"language": "bash", "memory_mb": 64, **request})
        self.addCleanup(session.end)
        return session

    def refused(self, body, path="/v1/sessions", key=None):
        return self.call("POST", path, body, key=key)


class Life(SessionTest):
    def test_what_it_uses_is_told_while_it_lives_and_after(self):
        session = self.open(language="bash", memory_mb=128)
        self.assertLess(session.show()["resource_usage"]["memory_bytes"], 20 * MIB)
        spin = "import time\nend = time.process_time() + 0.5\nwhile time.process_time() < end: pass\n"
        self.assertEqual(session.exec(command=["python3", "-c", spin])["status"], "completed")
        self.assertGreaterEqual(session.show()["resource_usage"]["cpu_ms"], 450)  # told with the program's end
        holds = session.start(command=["python3", "-c", "x = b'x' * (50 << 20); print('holds', flush=True); input()"],
                              keep_input=True)
        session.wait_output(holds, "holds")
        harness.wait_for("what it holds", lambda: session.show()["resource_usage"]["memory_bytes"] >= 50 * MIB)
        seen = session.show()["resource_usage"]
        self.assertLess(seen["memory_bytes"], 90 * MIB)
        self.assertGreaterEqual(seen["processes"], 1)
        session.send(holds, eof=True)
        session.wait(holds)
        harness.wait_for("it to be let go", lambda: session.show()["resource_usage"]["memory_bytes"] < 30 * MIB)
        ended = session.end()["resource_usage"]
        self.assertEqual(ended["memory_bytes"], 0)
        self.assertEqual((seen["disk_limit_bytes"], ended["disk_limit_bytes"]), (96 * MIB, 96 * MIB), "of 128 MiB of memory")
        self.assertGreaterEqual(ended["max_rss_bytes"], 50 * MIB)
        self.assertGreaterEqual(ended["cpu_ms"], 450)
        self.assertEqual(session.show()["resource_usage"], ended)

    def test_from_creation_to_end(self):
        session = self.open(env={"A": "1"}, cwd="/tmp", ttl_seconds=60, idle_ttl_seconds=30.5,
                            metadata={"task": "42"}, pids=20, timeout_seconds=5)
        made = session.made
        self.assertEqual((made["status"], made["language"], made["env"], made["cwd"], made["metadata"]),
                         ("running", "bash", {"A": "1"}, "/tmp", {"task": "42"}))
        self.assertEqual((made["ttl_seconds"], made["idle_ttl_seconds"], made["executions_running"]), (60, 30.5, 0))
        self.assertEqual([made["limits"][n] for n in ("memory_mb", "pids", "timeout_seconds")], [64, 20, 5])
        self.assertEqual((made["end_reason"], made["ended_at"], made["network_policy"]), (None, None, {"tier": "none"}))
        self.assertEqual(made["provenance"]["runtime"], "process")
        self.assertTrue(made["provenance"]["permit_id"])
        self.assertAlmostEqual(moment(made["expires_at"]) - moment(made["created_at"]), 30.5, delta=5)
        self.assertEqual(lasting(session.show()), lasting(made))
        listed = self.call("GET", "/v1/sessions?limit=1", status=200).json()["sessions"]
        self.assertEqual([lasting(each) for each in listed], [lasting(made)])
        ended = session.end()
        self.assertEqual((ended["status"], ended["end_reason"]["type"]), ("ended", "CANCELLED"))
        self.assertGreaterEqual(ended["ended_at"], ended["created_at"])
        self.assertEqual((session.end(), session.show()), (ended, ended))
        self.assertIn(ended, self.call("GET", "/v1/sessions?status=ended").json()["sessions"])

    def test_answers_tell_where_it_is(self):
        answer = self.refused({"language": "bash"})
        self.assertEqual((answer.status, answer.headers["location"]), (201, f"/v1/sessions/{answer.json()['id']}"))
        self.call("DELETE", answer.headers["location"], status=200)

    def test_list_pages_and_filters(self):
        key = self.new_key("session-lister", agent="session-agent")["secret"]
        sessions = [self.open(key=key) for _ in range(3)]
        sessions[1].end()
        seen, cursor = [], ""
        while cursor is not None:
            page = self.call("GET", f"/v1/sessions?limit=1{cursor}", key=key, status=200).json()
            seen += [each["id"] for each in page["sessions"]]
            cursor = page["next_cursor"] and "&cursor=" + urllib.parse.quote(page["next_cursor"])
        self.assertEqual(seen, [session.id for session in sessions[::-1]])

        def ids(query):
            page = self.call("GET", f"/v1/sessions?limit=500&{query}", status=200).json()
            return {each["id"] for each in page["sessions"]}

        self.assertEqual(ids("agent=session-agent"), set(seen))
        self.assertEqual(ids("agent=session-agent&status=ended"), {sessions[1].id})
        self.assertEqual(ids("agent=session-agent&status=running"), {sessions[0].id, sessions[2].id})
        for query in ("status=frozen", "limit=0", "cursor=xx", "colour=red"):
            field = "query." + query.split("=", maxsplit=1)[0]
            self.assertProblem(self.call("GET", f"/v1/sessions?{query}"), 400, field=field)

    def test_refusals_name_the_field(self):
        for field, body in {
                "unknown": {"unknown": 1}, "ttl_seconds": {"ttl_seconds": 0.5}, "idle_ttl_seconds": {"idle_ttl_seconds": 7201},
                "memory_mb": {"memory_mb": "much"}, "language": {"language": "klingon"}, "cwd": {"cwd": "tmp"},
                "image": {"image": "../debian"}, "env.1A": {"env": {"1A": "x"}}, "metadata.a": {"metadata": {"a": 1}},
                "network_policy.extra": {"network_policy": {"extra": 1}}, "code": {"code": ":"}}.items():
            with self.subTest(field):
                self.assertProblem(self.refused(body), 422, field=field)
        session = self.open()
        good = {"code": ":"}
        for field, body in {
                "unknown": {**good, "unknown": 1}, "cwd": {**good, "cwd": "../x"}, "memory_mb": {**good, "memory_mb": 65},
                "pids": {**good, "pids": 65}, "keep_input": {**good, "keep_input": 1}, "deps": {**good, "deps": ["x"]},
                "network_policy.tier": {**good, "network_policy": {"tier": "full"}}, "code": {},
                "command": {**good, "command": "ls"}, "files[0].path": {**good, "files": [{"path": "/a", "content": ""}]},
                "ttl_seconds": {**good, "ttl_seconds": 5}}.items():
            with self.subTest(exec=field):
                self.assertProblem(self.refused(body, session.path + "/exec"), 422, field=field)
        for field, body in {"ttl_seconds": {"ttl_seconds": 7201}, "memory_mb": {"memory_mb": 1}}.items():
            self.assertProblem(self.refused(body, session.path + "/renew"), 422, field=field)
        self.assertProblem(session.post(":", "?wait=1", background=True), 400, field="query.wait")
        self.assertProblem(session.post(":", "?dry_run=true"), 400, field="query.dry_run")
        for body in (b"", b"[]", b"{"):
            answer = self.call("POST", "/v1/sessions", body, {"Content-Type": "application/json"})
            self.assertProblem(answer, 400)

    def test_idempotency(self):
        key = {"Idempotency-Key": "session-1"}
        first = self.open(headers=key)
        again = self.call("POST", "/v1/sessions", {"language": "bash", "memory_mb": 64}, key)
        self.assertEqual((again.status // 100, again.json()["id"]), (2, first.id))
        other = self.call("POST", "/v1/sessions", {"language": "bash", "memory_mb": 32}, key)
        self.assertProblem(other, 409)
        once = [first.post("echo x >> once; cat once", "?wait=30", {"Idempotency-Key": "exec-1"}).json() for _ in range(2)]
        self.assertEqual(once[0], once[1])
        self.assertEqual(once[0]["stdout"], "x\n")
        self.assertProblem(first.post("echo y", headers={"Idempotency-Key": "exec-1"}), 409)

    def test_renewal_moves_the_end(self):
        session = self.open(ttl_seconds=harness.limit(1))
        renewed = session.renew(ttl_seconds=60)
        self.assertGreater(moment(renewed["expires_at"]) - moment(session.made["expires_at"]), 50)
        self.assertEqual(session.exec(f"sleep {harness.limit(1) + 1}; echo on")["stdout"], "on\n")  # past the first end
        self.assertEqual(session.show()["status"], "running")
        self.assertEqual(session.renew(idle_ttl_seconds=5)["idle_ttl_seconds"], 5)
        self.assertEqual(session.renew()["ttl_seconds"], 60)
        session.end()
        self.assertProblem(session.call("POST", "/renew", {}), 409)

    def check_end(self, ended, limit, value, since):
        """Ended by its time, and in time."""
        self.assertEqual(ended["end_reason"]["type"], "TIMEOUT")
        details = ended["end_reason"]["details"]
        self.assertEqual((details["limit"], details["value"]), (limit, value))
        self.assertIsNone(ended["expires_at"])
        late = moment(ended["ended_at"]) - moment(since) - value
        self.assertTrue(-0.1 <= late <= harness.limit(1), f"{late} s after its time")

    def test_idle_end(self):
        session = self.open(idle_ttl_seconds=1)
        execution = session.start("sleep 2")  # a running program keeps the session from idling
        running = session.show()
        self.assertEqual(running["executions_running"], 1)
        self.assertGreater(moment(running["expires_at"]) - moment(running["created_at"]), 60)
        ended = session.wait_ended()
        done = session.get(execution)
        self.assertEqual((done["status"], done["exit_code"]), ("completed", 0))
        self.check_end(ended, "idle_ttl", 1, done["finished_at"])
        self.assertProblem(session.post(":"), 409)
        self.assertIn("idle", session.post(":").json()["detail"])

    def test_absolute_end(self):
        ttl = harness.limit(2)
        session = self.open(ttl_seconds=ttl)
        execution = session.start("echo so far; sleep 60")
        self.check_end(session.wait_ended(), "ttl", ttl, session.made["created_at"])
        done = session.wait(execution)
        self.assertEqual((done["status"], done["stdout"], done["error"]["type"]), ("timed_out", "so far\n", "TIMEOUT"))
        self.assertIn("session", done["error"]["message"])
        self.assertProblem(session.call("POST", "/renew", {}), 409)

    def test_another_tenant_sees_nothing(self):
        session = self.open()
        execution = session.start("sleep 60", keep_input=True)
        other = self.new_key("session-stranger")["secret"]
        unknown, nobody = "ses_" + "0" * 26, "exec_" + "0" * 26
        for method, suffix, body in (("GET", "", None), ("DELETE", "", None), ("POST", "/renew", {}),
                                     ("POST", "/exec", {"code": ":", "kernel": "none"}), ("GET", "/events", None)):
            with self.subTest(method + suffix):
                answers = [self.call(method, f"/v1/sessions/{each}{suffix}", body, key=other, status=404).json()
                           for each in (session.id, unknown)]
                self.assertEqual(json.dumps(answers[0]).replace(session.id, unknown), json.dumps(answers[1]))
        for suffix, body in (("/input", {"data": "x"}), (":signal", {"signal": "SIGKILL"})):
            answers = [self.call("POST", f"/v1/executions/{each}{suffix}", body, key=other, status=404).json()
                       for each in (execution, nobody)]
            self.assertEqual(json.dumps(answers[0]).replace(execution, nobody), json.dumps(answers[1]))
        self.assertEqual(self.call("GET", "/v1/sessions", key=other).json()["sessions"], [])
        query = f"/v1/executions?session_id={session.id}"
        self.assertEqual(self.call("GET", query, key=other).json()["executions"], [])
        self.assertEqual(session.get(execution)["status"], "running")

    def test_events_tell_it_all_and_resume(self):
        session = self.open()
        done = session.exec("exit 3")
        session.renew(ttl_seconds=100)
        session.end()
        path = session.path + "/events"
        events = [each for each in self.server.events(path) if each[0] != "heartbeat"]
        for event, _, data in events:
            DOCUMENT.validate(data, {"status": "Session", "execution": "SessionExecution"}[event])
        of_program = [data["status"] for event, _, data in events if event == "execution" and data["id"] == done["id"]]
        self.assertEqual((of_program[0], of_program[-1]), ("running", "completed"))
        self.assertEqual(events[-1][2]["end_reason"]["type"], "CANCELLED")
        for n, (_, event_id, _) in enumerate(events[:-1]):
            rest = [each for each in self.server.events(path, event_id) if each[0] != "heartbeat"]
            self.assertEqual(rest, events[n + 1:])
        self.assertProblem(self.call("GET", path, headers={"Last-Event-ID": "x y"}), 400, field="header.Last-Event-ID")

    def test_every_step_is_audited(self):
        session = self.open(metadata={"task": "7"})
        done = session.exec(":")
        session.renew(ttl_seconds=10)
        session.end()
        rows = [json.loads(line) for line in self.call("GET", "/v1/audit/export").text.splitlines()]
        actions = [row["action"] for row in rows if row["subject"] == session.id]
        self.assertEqual(actions, ["session.created", "session.started", "session.renewed", "session.ended"])
        ended = next(row for row in rows if row["action"] == "session.ended" and row["subject"] == session.id)
        self.assertIn("CANCELLED", json.dumps(ended["details"]))
        of_program = [row for row in rows if row["subject"] == done["id"]]
        self.assertEqual([row["action"] for row in of_program],
                         ["execution.accepted", "execution.started", "execution.finished"])
        self.assertEqual(of_program[0]["details"]["session_id"], session.id)
        self.assertTrue(self.call("GET", "/v1/audit/verify").json()["ok"])


class Programs(SessionTest):
    def test_what_a_program_gets(self):
        session = self.open(env={"A": "session", "B": "session"}, cwd="/tmp")
        done = session.exec('echo "$A $B $C $PWD $1"; cat; cat /workspace/f; exit 3', env={"B": "exec", "C": "exec"},
                            args=["one"], input="typed\n", files=[{"path": "f", "content": "file\n"}])
        self.assertEqual(done["stdout"], "session exec exec /tmp one\ntyped\nfile\n")
        self.assertEqual((done["status"], done["exit_code"], done["session_id"], done["artifacts"]),
                         ("completed", 3, session.id, []))
        self.assertEqual(session.exec(command="pwd", cwd="/workspace")["stdout"], "/workspace\n")
        self.assertEqual(session.exec(command=["echo", "a b"])["stdout"], "a b\n")
        self.assertEqual(session.exec("print(6 * 7)", language="python")["stdout"], "42\n")
        listed = self.call("GET", f"/v1/executions?session_id={session.id}").json()["executions"]
        self.assertEqual(len(listed), 4)
        missing = session.exec(command="pwd", cwd="/nowhere")
        self.assertNotEqual((missing["status"], missing["exit_code"]), ("completed", 0))
        self.assertEqual(session.exec("echo still here")["stdout"], "still here\n")

    def test_a_program_that_is_not_there_is_its_own_failure(self):
        session = self.open()
        session.exec("echo '#!/nosuch/interpreter' > bad; chmod +x bad; echo x > plain; mkdir dir")
        for command, (code, name) in {("nosuchprogram", "x"): (127, "nosuchprogram"), ("/workspace/none",): (127, "/workspace/none"),
                                      ("./bad",): (127, "./bad"), ("./plain",): (126, "./plain"), ("/workspace/dir",): (126, "dir")}.items():
            done = session.exec(command=list(command))
            self.assertEqual((done["status"], done["exit_code"], done["stdout"], done["error"]), ("completed", code, "", None), done)
            self.assertRegex(done["stderr"], rf"^cloister: .*{name}: .+\n$")
        alone = self.server.run(command=["nosuchprogram"])
        self.assertEqual((alone["status"], alone["exit_code"]), ("completed", 127), alone)

    def test_code_without_a_language_is_python(self):
        session = self.open(language=None)
        self.assertEqual(session.exec("print(6 * 7)")["stdout"], "42\n")
        self.assertEqual(session.exec("6 * 7", kernel=None)["results"], [{"text/plain": "42"}])

    def test_in_the_background_it_lasts_as_the_session(self):
        session = self.open(timeout_seconds=1)
        lasting = [session.start(command="sleep 1.8; echo end"),
                   session.start("sleep 1.8; echo end", kernel="own"),
                   session.start("import time; time.sleep(1.8); print('end')", language="python", kernel=None)]
        short = session.start(command="sleep 1.8; echo end", timeout_seconds=0.5)
        self.assertEqual(session.wait(short)["status"], "timed_out")
        self.assertEqual(session.exec("sleep 5")["status"], "timed_out")
        for each in lasting:
            done = session.wait(each)
            self.assertEqual((done["status"], done["stdout"]), ("completed", "end\n"), done)
        busy = session.start(command="while :; do :; done")
        self.assertEqual(session.cancel(busy)["status"], "cancelled")

    def test_installations_without_a_network_say_why_at_once(self):
        session = self.open(memory_mb=512)
        for command in ("pip3 install cowsay", "npm install left-pad"):
            if session.exec(command=f"command -v {command.split()[0]}")["exit_code"]:
                continue  # harness.Server has the tools of the machine
            with self.subTest(command):
                done = session.exec(command=command, timeout_seconds=15)
                self.assertEqual(done["status"], "completed", "without tries that are in vain")
                self.assertNotEqual(done["exit_code"], 0)
                self.assertIn("make a session that names the destinations in network_policy", done["network"]["hint"])
                self.assertEqual(done["network"]["connections"], 0)

    def test_what_it_wrote_can_become_artifacts(self):
        session = self.open()
        session.exec("mkdir -p out/deep; echo old > out/old.txt; echo was > out/changed.txt")
        done = session.exec("echo new > out/deep/new.txt; echo is > out/changed.txt; echo x > out/other.log; ln -s new.txt out/link.txt;"
                            "touch -d 2001-01-01 out/deep/new.txt; mkfifo out/fifo.txt", artifacts=["out/**/*.txt", "none/*"])
        self.assertEqual([(a["path"], a["size"]) for a in sorted(done["artifacts"], key=lambda a: a["path"])],
                         [("out/changed.txt", 3), ("out/deep/new.txt", 4)])
        paths = {a["path"]: a["id"] for a in done["artifacts"]}
        self.assertEqual(self.call("GET", f"/v1/artifacts/{paths['out/changed.txt']}/content").body, b"is\n")
        self.assertEqual(session.exec("cat out/deep/new.txt")["stdout"], "new\n")  # the file stays
        cell = session.exec("open('made.txt', 'w').write('by a cell');", language="python", kernel=None, artifacts=["*.txt"])
        self.assertEqual([a["path"] for a in cell["artifacts"]], ["made.txt"])
        self.assertEqual(session.exec("true", artifacts=["**"])["artifacts"], [])
        failed = session.exec("echo late > late.txt; exit 3", artifacts=["**"])
        self.assertEqual((failed["exit_code"], [a["path"] for a in failed["artifacts"]]), (3, ["late.txt"]))
        many = session.exec("for i in $(seq 70); do echo $i > many$i; done", artifacts=["many*"])
        self.assertEqual((many["exit_code"], len(many["artifacts"])), (0, 64))
        self.assertTrue(many["error"] or many["provenance"], many)

    def test_the_machine_is_its_share(self):
        look = ("import json, os, re\nprocessors = len(re.findall('^processor', open('/proc/cpuinfo').read(), re.M))\n"
                "memory = int(re.search(r'MemTotal: *(\\d+) kB', open('/proc/meminfo').read())[1])\n"
                "print(json.dumps([os.cpu_count(), len(os.sched_getaffinity(0)), processors, memory >> 10]))")
        host = os.cpu_count()
        for millis, memory in ((500, 96), (1000, 128), (1500, 256), (1000 * host, 256)):
            cpus = min(-(-millis // 1000), host)
            shown = [cpus, cpus, cpus, memory]
            session = self.open(cpu_millis=millis, memory_mb=memory)
            self.assertEqual(json.loads(session.exec(look, language="python")["stdout"]), shown)
            self.assertEqual(json.loads(session.exec(look, language="python", kernel=None)["stdout"]), shown)
            self.assertEqual(session.exec("nproc; free -m | awk '/Mem/ { print $2 }'")["stdout"].split(), [str(cpus), str(memory)])
            session.end()
            run = self.server.run(language="python", code=look, cpu_millis=millis, memory_mb=memory)
            self.assertEqual(json.loads(run["stdout"]), shown, run)
        warm = self.server.run(language="python", code=look)  # as are made ahead
        self.assertEqual(json.loads(warm["stdout"])[:3], [1, 1, 1])

    def test_only_programs_end_at_their_processor_time(self):
        """Their runner lives as long as the session, and reads the output of left processes."""
        done = self.open().exec("awk '/cpu time/ { print $4, $5 }' /proc/1/limits; ulimit -Ht")
        self.assertEqual(done["stdout"], "128 unlimited\n128\n")

    def test_what_it_leaves_running_writes_on(self):
        session = self.open()
        done = session.exec(command="(while [ ! -e go ]; do sleep 0.02; done; head -c 1000000 /dev/zero | tr '\\0' x; echo; "
                                    "echo said >&2; echo last; touch end) & echo $$")
        self.assertEqual((done["exit_code"], done["stderr"]), (0, ""))
        pid = done["stdout"].strip()
        session.exec("touch go")
        harness.wait_for("its end", lambda: session.exec("test -e end && echo yes")["stdout"] == "yes\n")
        kept = session.exec(f"cd /tmp/.cloister-output; tail -c 8 {pid}.stdout; cat {pid}.stderr; stat -c %s {pid}.stdout; ls")
        tail, last, said, size, *names = kept["stdout"].splitlines()
        self.assertEqual((tail, last, said, sorted(names)), ("xx", "last", "said", [f"{pid}.stderr", f"{pid}.stdout"]))
        self.assertTrue(65_536 <= int(size) <= 131_072, size)

    def test_files_stay(self):
        session = self.open()
        session.exec("mkdir d; echo kept > d/f; echo tmp > /tmp/f; umask 0; cd /tmp; export X=1")
        done = session.exec("cat d/f /tmp/f; echo $PWD $X; umask")
        self.assertEqual(done["stdout"].split(), ["kept", "tmp", "/workspace", "0022"])
        self.assertEqual(session.exec("int main(void) { return 7; }", language="c")["exit_code"], 7)
        found = session.exec(command=["find", "/workspace", "/tmp", "-type", "f"])["stdout"]
        self.assertEqual(sorted(found.split()), ["/tmp/f", "/workspace/d/f"], "code does not stay")
        other = self.open()
        self.assertEqual(other.exec(command=["find", "/workspace", "/tmp", "-type", "f"])["stdout"], "")

    def test_what_is_of_the_whole_sandbox_is_no_program_s(self):
        session = self.open()
        for field, value in {"open_files": 50, "memory_mb": 32, "pids": 5}.items():
            self.assertProblem(session.post("true", **{field: value}), 422, field=field)
        self.assertEqual(session.exec("true", memory_mb=64, artifacts=[])["exit_code"], 0)

    def test_beside_each_other(self):
        """Two programs that need each other end only if both run at once."""
        session = self.open()
        session.exec("mkfifo there back")
        first = session.start("read word < there; echo $word back > back")
        self.assertEqual(session.exec("echo hello > there; cat back")["stdout"], "hello back\n")
        self.assertEqual(session.wait(first)["exit_code"], 0)
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            codes = [done["exit_code"] for done in pool.map(lambda n: session.exec(f"exit {n}"), range(40))]
        self.assertEqual(codes, list(range(40)))

    def test_in_the_background(self):
        session = self.open()
        answer = session.post("read x; sleep 0.1; echo ended", background=True, keep_input=True)
        self.assertEqual((answer.status, answer.headers["location"]), (202, f"/v1/executions/{answer.json()['id']}"))
        slow = session.post("sleep 60", "?wait=0")
        self.assertIn(slow.status, (201, 202))
        self.assertEqual(session.post("sleep 60", "?wait=1").status, 202)
        session.send(answer.json()["id"], b"go\n")
        self.assertEqual(session.wait(answer.json()["id"])["stdout"], "ended\n")
        self.assertEqual(session.show()["executions_running"], 2)

    def test_input_as_it_comes(self):
        session = self.open()
        execution = session.start("while read -r line; do echo got $line; done; echo end", input="first\n", keep_input=True)
        session.wait_output(execution, "got first")
        self.assertEqual(session.send(execution, b"second\n").json(), {})
        session.wait_output(execution, "got second")
        self.assertEqual(session.send(execution, b"third\n", eof=True).status, 200)
        self.assertEqual(session.wait(execution)["stdout"].splitlines()[-2:], ["got third", "end"])
        self.assertProblem(session.send(execution, b"x"), 409)
        kept = session.start("cat; sleep 60", keep_input=True)
        session.send(kept, eof=True)
        self.assertProblem(session.send(kept, b"x"), 409)
        closed = session.start("sleep 60", input="x")
        self.assertProblem(session.send(closed, b"x"), 409)
        for field, body in {"data": {}, "encoding": {"data": "x", "encoding": "hex"}, "x": {"data": "", "x": 1}}.items():
            self.assertProblem(self.refused(body, f"/v1/executions/{kept}/input"), 422, field=field)

    def test_every_byte_of_the_input(self):
        session = self.open()
        data = bytes(range(256)) * 4096
        execution = session.start("cat", keep_input=True)
        for at in range(0, len(data), 100_000):
            self.assertEqual(session.send(execution, data[at:at + 100_000]).status, 200)
        session.send(execution, eof=True)
        done = session.wait(execution)
        logs = self.call("GET", f"/v1/executions/{execution}/logs").body
        self.assertEqual((done["stdout_bytes"], logs), (len(data), data))

    def test_input_waits_for_a_slow_reader(self):
        session = self.open()
        session.exec("mkfifo go")
        execution = session.start("read < go; wc -c", keep_input=True)
        data = b"x" * (8 * MIB)
        answers = []
        sender = threading.Thread(target=lambda: answers.append(session.send(execution, data, eof=True)))
        sender.start()
        # Meanwhile others are served, and no request without a place is accepted.
        for _ in range(5):
            session.exec(":")
            self.assertEqual(answers, [])
        session.exec("echo > go")
        sender.join(60)
        self.assertEqual(answers[0].status, 200)
        self.assertEqual(session.wait(execution)["stdout"].strip(), str(len(data)))

    def test_signals(self):
        session = self.open()
        code = "trap 'echo int' INT; trap 'echo term; exit 7' TERM; echo ready; while :; do sleep 0.1; done"
        execution = session.start(code)
        session.wait_output(execution, "ready")
        self.assertEqual(session.signal(execution, "SIGINT").json(), {})
        session.wait_output(execution, "int")
        session.signal(execution, 15)
        done = session.wait(execution)
        self.assertEqual((done["status"], done["exit_code"]), ("completed", 7))
        self.assertProblem(session.signal(execution, "SIGINT"), 409)
        killed = session.start("echo ready; exec sleep 60")
        session.wait_output(killed, "ready")
        session.signal(killed, "SIGKILL")
        self.assertEqual(session.wait(killed)["signal"], "SIGKILL")
        for signal in ("SIGNONE", 0, 65, None, "INT"):
            answer = self.refused({"signal": signal}, f"/v1/executions/{killed}:signal")
            self.assertProblem(answer, 422, field="signal")
        alone = self.start("sleep 60")
        self.server.wait_status(alone["id"], "running")
        answer = session.signal(alone["id"], "SIGTERM")
        self.assertProblem(answer, 409)
        self.assertIn("DELETE", answer.json()["detail"])
        self.assertProblem(session.call("POST", f"/v1/executions/{alone['id']}/input", {"data": "x"}), 409)
        self.cancel(alone)

    def test_a_time_out_ends_its_tree_and_no_other(self):
        session = self.open()
        beside = session.start("sleep 301 & sleep 302")
        done = session.exec("setsid sleep 303 & (setsid setsid sleep 304 &) ; echo so far; sleep 305", timeout_seconds=1)
        self.assertEqual((done["status"], done["error"]["type"], done["stdout"]), ("timed_out", "TIMEOUT", "so far\n"))
        self.assertEqual(session.sleeping(301, 302, 303, 304, 305), [1, 1, 0, 0, 0])
        self.assertEqual(session.get(beside)["status"], "running")

    def test_cancel_one_of_two(self):
        session = self.open()
        first, second = session.start("setsid sleep 301 & sleep 302"), session.start("sleep 303")
        harness.wait_for("the three", lambda: session.sleeping(301, 302, 303) == [1, 1, 1])
        self.assertEqual(session.cancel(first)["status"], "cancelled")
        self.assertEqual(session.sleeping(301, 302, 303), [0, 0, 1])
        self.assertEqual(session.get(second)["status"], "running")
        session.end()
        self.assertEqual(session.wait(second)["status"], "cancelled")

    def test_what_a_program_leaves_goes_on_to_the_end_of_the_session(self):
        session = self.open(idle_ttl_seconds=2)
        self.assertEqual(session.exec("setsid sleep 301 > /dev/null 2>&1 & echo out")["stdout"], "out\n")
        harness.wait_for("what it left", lambda: session.sleeping(301) == [1])
        self.assertEqual(session.wait_ended()["end_reason"]["type"], "TIMEOUT")  # does not count as running

    def test_limits_of_one_program(self):
        session = self.open(max_output_bytes=100)
        spun = session.exec("while :; do :; done", cpu_seconds=0.5, timeout_seconds=30)
        self.assertEqual((spun["error"]["type"], spun["error"]["details"]["limit"]), ("RESOURCE_LIMIT_EXCEEDED", "cpu_seconds"))
        cut = session.exec("head -c 1000 /dev/zero | tr '\\0' x")
        self.assertEqual((cut["stdout"], cut["stdout_truncated"], cut["stdout_bytes"]), ("x" * 100, True, 1000))
        self.assertEqual(session.exec("head -c 1000 /dev/zero | tr '\\0' x", max_output_bytes=1000)["stdout"], "x" * 1000)
        self.assertEqual(session.show()["status"], "running")

    def test_a_full_workspace_is_told_to_the_program_that_filled_it(self):
        session = self.open(disk_mb=16)
        filled = session.exec("head -c 40M /dev/zero > full")
        self.assertEqual((filled["exit_code"], filled["error"] and filled["error"]["details"]["limit"]), (1, "disk_mb"), filled)
        for innocent in (["true"], ["false"]):
            done = session.exec(command=innocent)
            self.assertIsNone(done["error"], done)
        again = session.exec("head -c 1M /dev/zero > more")
        self.assertEqual((again["exit_code"], again["error"] and again["error"]["details"]["limit"]), (1, "disk_mb"), again)

    def test_a_file_of_an_earlier_program_at_its_limit(self):
        session = self.open(file_size_mb=1)
        met = session.exec(command=["dd", "if=/dev/zero", "of=big", "bs=1M", "count=2"])
        self.assertEqual((met["status"], met["error"]["details"]["limit"], met["error"]["details"]["used"]),
                         ("failed", "file_size_mb", 1 << 20), met)
        session.exec(command=["touch", "-d", "1 hour ago", "big"])
        other = session.exec(command=["grep", "nothing", "/etc/hostname"])
        self.assertNotEqual(other["exit_code"], 0, other)
        self.assertIsNone(other["error"], other)

    def test_a_signal_alone_is_no_limit(self):
        done = self.open().exec("kill -XCPU $$")
        self.assertEqual((done["status"], done["signal"], done["error"]), ("completed", "SIGXCPU", None), done)

    def test_a_file_at_its_limit(self):
        session = self.open(file_size_mb=1)
        met = session.exec("trap '' XFSZ; head -c 2000000 /dev/zero > big")
        self.assertNotEqual(met["exit_code"], 0, met)
        self.assertEqual((met["error"]["type"], met["error"]["details"]["limit"]), ("RESOURCE_LIMIT_EXCEEDED", "file_size_mb"))

    def test_open_files(self):
        session = self.open(open_files=512)
        opens = "import sys\nfiles = [open('/dev/null') for _ in range(int(sys.argv[1]))]\nexit(2)"
        met = session.exec(command=["python3", "-c", opens, "600"])
        self.assertEqual((met["exit_code"], met["error"] and met["error"]["details"]["limit"]), (1, "open_files"), met)
        says = "import sys; print('Too many open files', file=sys.stderr, flush=True); print('said', flush=True); input()"
        only = session.start(command=["python3", "-c", says], keep_input=True)
        session.wait_output(only, "said")  # the output was looked at before
        session.send(only, eof=True)
        ended = session.wait(only)
        self.assertEqual((ended["exit_code"], ended["error"]), (1, None), "it only says so")
        few = session.exec(command=["python3", "-c", opens, "10"])
        self.assertEqual((few["exit_code"], few["error"]), (2, None))
        self.assertEqual(few["resource_usage"]["disk_limit_bytes"], 48 * MIB, "of the session's memory")

    def test_too_many_at_once(self):
        session = self.open()
        for _ in range(8):
            session.start("sleep 60")
        answer = session.post(":")
        self.assertProblem(answer, 429, "QUOTA_EXCEEDED")
        self.assertIn("8 programs", answer.json()["detail"])

    def test_events_of_a_program_stream(self):
        session = self.open()
        execution = session.start("echo one; read x; echo two", keep_input=True)
        seen = ""
        for event, _, data in self.server.events(execution):
            if event == "stdout":
                seen += str(data["offset"])
                if data["offset"] == 0:
                    session.send(execution, b"\n")
            last = data
        self.assertEqual((seen, last["status"]), ("04", "completed"))


if __name__ == "__main__":
    unittest.main()
