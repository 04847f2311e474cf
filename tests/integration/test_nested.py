# SPDX-License-Identifier: Apache-2.0
"""Sandboxes within a session's: a whole agent process behind a kernel of its own, and each of its tool calls in a
sandbox of its own inside; called from outside, and from within."""

import json
import os
import pathlib
import unittest

import harness
import share_case
from agent_case import AgentCase
from api_case import ApiTest, CONFIG
from session_case import Session

RUNSC = "/usr/bin/runsc"
QEMU = "/usr/bin/qemu-system-x86_64"
IMAGE = pathlib.Path(os.environ.get("CLOISTER_MICROVM", "/nonexistent"))
LACKS = {"gvisor": "" if os.path.exists(RUNSC) else f"no {RUNSC}: install Debian's from backports",
         "microvm": f"no {QEMU}" if not os.path.exists(QEMU) else
         "no image: CLOISTER_MICROVM names none" if not (IMAGE / "root.squashfs").exists() else ""}
EMULATED = f"microvm:\n  image: {IMAGE}\n  accelerator: tcg\n  emulate: true\n"

# A program's tool client, with nothing but a local socket.
CALLS = '''
import json, socket
class Tools:
    def __init__(self):
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.connect("\\0cloister-tools")
        self.answers = self.socket.makefile("r")
    def call(self, **request):
        self.socket.sendall(json.dumps(request).encode() + b"\\n")
        return json.loads(self.answers.readline())
'''

# An agent: three calls, each of which reports its place.
AGENT = CALLS + '''
import json
import os
open("secret.txt", "w").write("the agent's own")
WHERE = """
import json
import os
print(json.dumps({"pid_ns": os.readlink("/proc/self/ns/pid"), "mnt_ns": os.readlink("/proc/self/ns/mnt"),
                  "net_ns": os.readlink("/proc/self/ns/net"), "sees": sorted(os.listdir("/workspace")),
                  "comms": sorted({open(f"/proc/{p}/comm").read().strip() for p in os.listdir("/proc") if p.isdigit()}),
                  "kernel": open("/proc/version").read()}))
"""
tools, answers = Tools(), []
for i in range(3):
    answers.append(tools.call(language="python", code="import json\\n" + WHERE + f"open('left-{i}', 'w')",
                              memory_mb=96, metadata={"call": str(i)}))
print(json.dumps({"answers": answers, "sees": sorted(os.listdir("/workspace")),
                  "pid_ns": os.readlink("/proc/self/ns/pid"), "net_ns": os.readlink("/proc/self/ns/net"),
                  "kernel": open("/proc/version").read()}))
'''


def setUpModule():
    ApiTest.server = harness.Server(config=CONFIG + (EMULATED if not LACKS["microvm"] else ""))
    unittest.enterModuleContext(ApiTest.server)


class Nested(share_case.ShareCase):
    """The cases; `runtime` is the outer sandbox's."""
    runtime = ""
    idle = 2  # seconds, more than the making takes
    shows_more = ()  # of a program's view of its machine

    def setUp(self):
        if LACKS[self.runtime]:
            self.skipTest(LACKS[self.runtime])
        super().setUp()

    def session(self, **more):
        return Session(self.server, language="python", runtime=self.runtime, nested=True,
                       **{"memory_mb": 256, "timeout_seconds": 60} | more)

    def agent(self, session, code, **more):
        done = session.exec(code, timeout_seconds=60, **more)
        self.assertEqual((done["status"], done["exit_code"]), ("completed", 0), done)
        return json.loads(done["stdout"])

    def test_an_agent_makes_three_tool_calls(self):
        with self.session() as session:
            said = self.agent(session, AGENT)
            asked = self.call("GET", f"/v1/executions?session_id={session.id}&limit=100", status=200).json()["executions"]
            agent = min(asked, key=lambda execution: execution["created_at"])
            places = []
            for answer in said["answers"]:
                self.assertEqual(answer.get("status"), "completed", answer)
                self.assertTrue(answer["provenance"]["nested"])
                self.assertEqual(answer["provenance"]["runtime"], self.runtime)
                self.assertEqual(answer["session_id"], session.id)
                self.assertEqual((answer["parent_id"], answer["depth"]), (agent["id"], 1))
                places.append(json.loads(answer["stdout"]))
            # Each call has a sandbox of its own, different from the agent's, on the same kernel.
            for what in ("pid_ns", "net_ns"):
                self.assertNotIn(said[what], {place[what] for place in places})
            for place in places:
                self.assertEqual(place["kernel"], said["kernel"])
                self.assertEqual([name for name in place["sees"] if name == "secret.txt" or "left" in name], [])
                self.assertLessEqual(set(place["comms"]), {"cloister-runner", "python3"})
            self.assertEqual(said["sees"], [name for name in said["sees"] if "left" not in name])
            self.assertIn("secret.txt", said["sees"])
            self.see_the_nesting(session, said["answers"])

    def see_the_nesting(self, session, answers):
        """Both levels are in the audit: the session, and inside each call with its own permit."""
        rows, after = [], 0
        while after is not None:
            page = self.call("GET", f"/v1/audit?after={after}&limit=1000", status=200).json()
            rows += page["entries"]
            after = page["next_after"]
        made = [row for row in rows if row["subject"] == session.id]
        self.assertTrue(any(row["action"] == "session.created" and row["details"].get("nested") for row in made), made)
        permits = set()
        for answer in answers:
            mine = {row["action"]: row for row in rows if row["subject"] == answer["id"]}
            for action in ("execution.accepted", "execution.started", "execution.finished"):
                self.assertIs(mine[action]["details"].get("nested"), True, mine)
                self.assertEqual(mine[action]["details"]["session_id"], session.id)
            permits.add(mine["execution.started"]["details"]["permit"])
        self.assertEqual(len(permits), len(answers))

    def test_both_levels_limits_act(self):
        with self.session() as session:
            grow = "import time; x = bytearray(120 << 20); time.sleep(1); print(len(x))"
            inner = session.exec(grow, nested=True, memory_mb=64, timeout_seconds=60)
            self.assertEqual((inner["status"], inner["error"]["details"]["limit"]), ("failed", "memory_mb"),
                             inner)
            # An inner sandbox's use beyond its own limit is still within the outer's.
            outer = session.exec(grow, nested=True, timeout_seconds=60)
            self.assertEqual(outer["stdout"], f"{120 << 20}\n", outer)
            late = session.exec("import time; time.sleep(600)", nested=True, timeout_seconds=1)
            self.assertEqual(late["status"], "timed_out")
            self.assertEqual(session.exec("print('usable')")["stdout"], "usable\n")

    def test_each_level_sees_its_share_of_the_machine(self):
        with self.session(cpu_millis=1001, memory_mb=256) as session:
            self.assertShows(session.exec(share_case.PYTHON, timeout_seconds=60), 1001, 256, self.shows_more)
            for code, language in ((share_case.PYTHON, "python"), (share_case.NODE, "node")):
                done = session.exec(code, language=language, nested=True, cpu_millis=800, memory_mb=128, timeout_seconds=60)
                self.assertShows(done, 800, 128, ("_SC_PHYS_PAGES",))
            self.assertTrue(any("sysinfo(2)" in each for each in done["provenance"]["weakened"]), done["provenance"])

    def test_the_outer_limit_holds_what_is_within(self):
        with self.session(memory_mb=96) as session:
            grow = "import time; x = bytearray(1200 << 20); x[::4096] = b'x' * len(x[::4096]); print('got it')"
            answer = session.post(grow, "?wait=60", nested=True, timeout_seconds=60)
            if answer.status == 409:  # the outer sandbox has ended of the overuse
                why = session.wait_ended()["end_reason"]
            else:
                self.assertEqual((answer.status, answer.json()["status"]), (200, "failed"), answer.body)
                self.assertEqual(answer.json()["stdout"], "")
                why = answer.json()["error"]
            self.assertIn(why["type"], ("RESOURCE_LIMIT_EXCEEDED", "RUNNER_LOST"), why)

    def test_input_and_results_whole(self):
        with self.session() as session:
            code = "import sys; data = sys.stdin.read(); open('made.bin', 'w').write(data); print(len(data)); sys.exit(3)"
            done = session.exec(code, nested=True, input="i" * 500_000, artifacts=["*.bin"])
            self.assertEqual((done["stdout"], done["exit_code"]), ("500000\n", 3), done)
            self.assertEqual([each["path"] for each in done["artifacts"]], ["made.bin"])
            self.assertEqual(session.exec("import os; print('made.bin' in os.listdir())")["stdout"], "False\n")

    def test_calls_beside_each_other(self):
        with self.session() as session:
            many = CALLS + '''
import threading
def one(i, out):
    tools = Tools()
    for k in range(2):
        out.append((i, k, tools.call(command=["sh", "-c", f"sleep 0.1; echo {i}.{k}"])["stdout"]))
out = []
threads = [threading.Thread(target=one, args=(i, out)) for i in range(4)]
[t.start() for t in threads]; [t.join() for t in threads]
print(json.dumps(sorted(out)))
'''
            self.assertEqual(self.agent(session, many),
                             [[i, k, f"{i}.{k}\n"] for i in range(4) for k in range(2)])

    def test_a_tool_reaches_nothing_of_the_agent(self):
        """Neither the agent's way to call tools, nor its servers, nor a process by its number."""
        with self.session() as session:
            job = session.start("import http.server; http.server.HTTPServer(('127.0.0.1', 8000), "
                                "http.server.SimpleHTTPRequestHandler).serve_forever()", timeout_seconds=60)
            reach = ("import socket, os, signal\n"
                     "def tells(what, *args):\n"
                     "    try: return str(what(*args))\n"
                     "    except OSError as error: return type(error).__name__\n"
                     "def connect(family, address):\n"
                     "    s = socket.socket(family); s.connect(address); return 'reached'\n"
                     "print(tells(connect, socket.AF_UNIX, '\\0cloister-tools'),\n"
                     "      tells(connect, socket.AF_INET, ('127.0.0.1', 8000)),\n"
                     "      sum(tells(os.kill, pid, 0) == 'None' for pid in range(3, 2000)) - 1)\n")
            inside = "while True:\n    if tells(connect, socket.AF_INET, ('127.0.0.1', 8000)) == 'reached': break\n"
            session.exec(reach + inside, timeout_seconds=60)  # until the server is there
            done = session.exec(reach, nested=True)
            self.assertEqual(done["stdout"].split()[:2], ["ConnectionRefusedError"] * 2, done)
            self.assertLessEqual(int(done["stdout"].split()[2]), 1, done)
            self.assertEqual(session.exec(reach)["stdout"].split()[:2], ["reached"] * 2)
            session.call("DELETE", f"/v1/executions/{job}")

    def test_what_is_wrong_is_said(self):
        with self.session() as session:
            said = self.agent(session, CALLS + '''
tools = Tools()
answers = [tools.call(code="print(1)", nested=False), tools.call(command=["true"], surprise=1), tools.call(command=["true"], parent_id="exec_" + "0" * 26), tools.call(command=["true"], memory_mb=4096)]
tools.socket.sendall(b"no json\\n")
answers.append(json.loads(tools.answers.readline()))
tools.socket.sendall(b"x" * 300_000)
answers.append(json.loads(tools.answers.readline()))
again = Tools().call(command=["echo", "still"])
print(json.dumps({"answers": answers, "again": again}))
''')
            for answer, words in zip(said["answers"], ("nested", "surprise", "parent_id", "memory", "", "at most")):
                self.assertEqual(answer["error"]["type"], "INVALID_REQUEST", answer)
                self.assertIn(words, answer["error"]["message"])
            self.assertEqual(said["again"]["stdout"], "still\n")

    def test_terminals_are_no_others(self):
        """A tool cannot read a terminal's input, nor write to its screen."""
        with self.session() as session:
            running = session.start("""
import os, pty, select, time
user, program = pty.openpty()
print(os.ttyname(program), flush=True)
os.write(user, b"secret\\n")
time.sleep(600)
""")
            session.wait_output(running, "/dev/pts/")
            path = session.get(running)["stdout"].strip()
            done = session.exec(f"""
import os
there = sorted(set(os.listdir("/dev/pts")) - {{"ptmx"}})
try: said = os.read(os.open({path!r}, os.O_RDWR | os.O_NOCTTY | os.O_NONBLOCK), 100)
except OSError as error: said = error.strerror
print(there, said)
""", nested=True)
            self.assertEqual(done["stdout"], "[] No such file or directory\n", done)

    def test_a_revoked_key_calls_no_tools(self):
        """Programs started with the key go on, but none is begun in its name any more."""
        key = self.new_key("leaver")
        with Session(self.server, key=key["secret"], language="python", runtime=self.runtime, nested=True,
                     memory_mb=256, timeout_seconds=60) as session:
            running = session.start(CALLS + """
tools = Tools()
print(json.dumps(tools.call(command=["echo", "good"])["stdout"]), flush=True)
import time
while True:
    answer = tools.call(command=["echo", "still"])
    if "error" in answer and answer["error"]: break
    time.sleep(0.2)
print(json.dumps(answer), flush=True)
""")
            session.wait_output(running, "good")
            self.call("DELETE", f"/v1/keys/{key['id']}", status=204)
            session.key = None
            done = session.wait(running)
            answer = json.loads(done["stdout"].splitlines()[1])
            self.assertEqual(answer["error"]["type"], "PERMISSION_DENIED", answer)
            self.assertIn("revoked", answer["error"]["message"])

    def test_who_is_refused_does_not_ask_in_haste(self):
        """Each refusal has a record, and there are eight callers at once."""
        with self.session() as session:
            took = self.agent(session, CALLS + """
import time
tools, begun = Tools(), time.monotonic()
for _ in range(8): assert tools.call(command=["true"], nested=False)["error"]
print(time.monotonic() - begun)
""")
            self.assertGreater(took, 8 * 0.2)

    def test_whoever_ends_the_way_out_gets_another(self):
        with self.session() as session:
            self.agent(session, CALLS + '''
import os, signal
for pid in os.listdir("/proc"):
    if pid.isdigit() and pid != "1" and int(pid) != os.getpid():
        if open(f"/proc/{pid}/comm").read().strip() == "cloister-runner": os.kill(int(pid), signal.SIGKILL)
print("{}")
''')
            look = CALLS + '''
import time
for _ in range(300):
    try: answer = Tools().call(command=["echo", "again"]); break
    except OSError: time.sleep(0.1)
print(json.dumps(answer["stdout"]))
'''
            self.assertEqual(self.agent(session, look), "again\n")

    def test_refusals(self):
        with Session(self.server, language="python", runtime=self.runtime) as plain:
            answer = plain.post("print(1)", nested=True)
            self.assertEqual((answer.status, answer.json()["error"]["details"]["field"]), (422, "nested"), answer.body)
            self.assertIn('"nested": true', answer.json()["detail"])
            answer = self.call("POST", "/v1/tool-calls", {"tool_id": "shell.execute", "session_id": plain.id,
                                                          "arguments": {"command": "echo here"}})
            self.assertEqual((answer.status, answer.json()["error"]["details"]["field"]), (422, "sandbox"), answer.body)
            self.assertIn('or ask for "session"', answer.json()["detail"])
        with self.session() as session:
            for field, more in (("kernel", {"kernel": "mine"}), ("tty", {"tty": {}}),
                                ("keep_input", {"keep_input": True}), ("cwd", {"cwd": "/tmp"}),
                                ("memory_mb", {"memory_mb": 100_000})):
                body = {"code": "print(1)", "nested": True} | more
                answer = session.call("POST", "/exec", body)
                self.assertEqual((answer.status, answer.json()["error"]["details"]["field"].split("_")[0]),
                                 (422, field.split("_")[0]), answer.body)

    def test_a_tool_call_has_the_workspace_and_nothing_else(self):
        with self.session() as session:
            session.exec("open('kept', 'w').write('the agent\\'s'); open('/tmp/gone', 'w')")
            body = {"tool_id": "shell.execute", "session_id": session.id,
                    "arguments": {"command": "cat kept; ls /tmp; echo changed > kept"}}
            effect = self.call("POST", "/v1/tool-calls", body, status=200).json()
            self.assertEqual(effect["output"]["stdout"], "the agent's", effect)
            self.assertEqual(session.exec("print(open('kept').read())")["stdout"], "changed\n\n")
            # The agent's own calls have one too, on request.
            inside = CALLS + """
done = Tools().call(command="cat kept; ls /tmp", sandbox="fresh")
print(json.dumps([done["stdout"], done["provenance"].get("sandbox"), Tools().call(command="true", sandbox="session")["error"]]))
"""
            stdout, sandbox, error = self.agent(session, inside)
            self.assertEqual((stdout, sandbox, error["details"]["field"]), ("changed\n", "fresh", "sandbox"), error)

    def test_an_idle_one_ends_all_the_same(self):
        with self.session(idle_ttl_seconds=self.idle) as session:
            ended = session.wait_ended(self.idle + 30)
            self.assertEqual(ended["end_reason"]["details"]["limit"], "idle_ttl", ended["end_reason"])


class InGvisor(Nested, ApiTest):
    runtime = "gvisor"

    def test_unasked_it_gets_a_runtime_that_can(self):
        with Session(self.server, language="python", nested=True) as session:
            self.assertEqual(session.made["provenance"]["runtime"], "gvisor")
            self.assertTrue(session.made["nested"])
            self.assertTrue(any("within" in each for each in session.made["provenance"]["weakened"]))

    def test_the_process_runtime_is_too_weak(self):
        answer = self.call("POST", "/v1/sessions", {"language": "python", "nested": True, "runtime": "process"})
        self.assertEqual(answer.status, 403, answer.body)
        self.assertIn("nested", answer.json()["detail"])


    def test_one_that_moves_is_nested_where_it_goes(self):
        if LACKS["microvm"]:
            self.skipTest(LACKS["microvm"])
        with self.session() as session:
            session.exec("open('kept', 'w').write('by the agent')")
            moved = session.call("POST", ":move", {"runtime": "microvm"}, status=200).json()
            self.assertEqual((moved["nested"], moved["provenance"]["runtime"]), (True, "microvm"), moved)
            said = self.agent(session, AGENT)
            self.assertIn("kept", said["sees"])
            for answer in said["answers"]:
                self.assertEqual((answer["status"], answer["provenance"]["runtime"]), ("completed", "microvm"), answer)
                self.assertTrue(answer["provenance"]["nested"])
            inner = session.exec("print(1)", nested=True, timeout_seconds=60)
            self.assertEqual((inner["stdout"], inner["provenance"]["runtime"]), ("1\n", "microvm"), inner)


@unittest.skipIf(LACKS["gvisor"], LACKS["gvisor"])
class OfAnAgent(AgentCase):
    def test_whose_sandbox_says_so(self):
        """Every session by the agent is nested, and its limits bound the calls within as well."""
        made = self.give("unrestricted", nested=True, limits={"memory_mb": 128})
        self.assertTrue(made["nested"])
        with Session(self.server, key=self.secret(), language="python", memory_mb=128) as session:
            self.assertTrue(session.made["nested"], session.made)
            self.assertEqual(session.made["provenance"]["runtime"], "gvisor")
            done = session.exec("print(1)", nested=True, memory_mb=64)
            self.assertEqual((done["stdout"], done["provenance"]["nested"]), ("1\n", True), done)
            answer = session.post("print(1)", nested=True, memory_mb=256)
            self.assertEqual(answer.status, 422, answer.body)
        changed = self.call("POST", self.path + ":update", {"nested": False}, status=200).json()
        self.assertFalse(changed["nested"])
        with Session(self.server, key=self.secret(), language="python", memory_mb=128) as session:
            self.assertFalse(session.made["nested"])


if __name__ == "__main__":
    unittest.main()
