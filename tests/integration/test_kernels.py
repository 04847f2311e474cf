# SPDX-License-Identifier: Apache-2.0
"""Cells: a session's code in interpreters that keep their state. Real kernels, every answer checked against
spec/openapi.yaml; and code that lies to its kernel's program, ends its kernel, or does not end."""

import base64
import concurrent.futures
import json
import unittest

import api_case
import harness
from api_case import ApiTest
from session_case import Session

CONFIG = api_case.CONFIG + """
kernels:
  interrupt_ms: 1500
  max_results: 8
  result_bytes: 65536
  results_bytes: 131072
"""
LIMITS = {"python": 192, "bash": 64, "node": 512}
SPEAK = ("import os\nfd = os.open('/tmp/.cloister-kernel-python/report', os.O_WRONLY)\n"
         "def say(text): os.write(fd, text)\n"
         "tag = display.__globals__['report'].tag\n")


def setUpModule():
    ApiTest.server = harness.Server(config=CONFIG)
    unittest.enterModuleContext(ApiTest.server)


class KernelTest(ApiTest):
    language = "python"

    def setUp(self):
        self.session = self.open()

    def open(self, **request):
        session = Session(self.server, self.call, **{"language": self.language, "memory_mb": LIMITS[self.language],
                                                     "timeout_seconds": 30, **request})
        self.addCleanup(session.end)
        return session

    def cell(self, code, **request):
        return self.session.exec(code, **{"kernel": None, **request})

    def value(self, code, **request):
        """The text of the only result of a cell that ends well."""
        done = self.cell(code, **request)
        self.assertEqual((done["status"], done["exit_code"], done["stderr"]), ("completed", 0, ""), done)
        self.assertEqual(len(done["results"]), 1, done)
        return done["results"][0]["text/plain"]

    def kernels(self):
        listed = self.session.call("GET", "/kernels", status=200).json()["kernels"]
        return {each["name"]: each for each in listed}

    def begin(self, code, sign="begun\n", **request):
        """A cell in the background, once it has printed `sign`."""
        started = self.session.start(code, **{"kernel": None, **request})
        self.session.wait_output(started, sign)
        return started


class Python(KernelTest):
    def test_variables_results_and_errors(self):
        self.assertEqual(self.value("x = 20\nx + 1"), "21")
        quiet = self.cell("x += 1\nx;")
        self.assertEqual((quiet["results"], quiet["exit_code"]), ([], 0))
        self.assertEqual(self.value("x, _"), "(21, 21)")
        said = self.cell("import sys\nprint('out')\nprint('err', file=sys.stderr)")
        self.assertEqual((said["stdout"], said["stderr"], said["results"]), ("out\n", "err\n", []))
        failed = self.cell("def f():\n    return 1 / 0\nf()")
        self.assertEqual((failed["status"], failed["exit_code"], failed["error"]), ("completed", 1, None))
        self.assertIn('File "<cell 5>", line 2, in f\n    return 1 / 0', failed["stderr"])
        self.assertTrue(failed["stderr"].endswith("ZeroDivisionError: division by zero\n"))
        self.assertNotIn("<string>", failed["stderr"])
        wrong = self.cell("x = = 1")
        self.assertEqual(wrong["exit_code"], 1)
        self.assertIn("SyntaxError", wrong["stderr"])
        self.assertEqual(self.cell("import sys; sys.exit(7)")["exit_code"], 7)
        self.assertEqual(self.value("x"), "21")
        cell = self.cell("1")["cell"]
        self.assertEqual(cell, {"kernel": "python", "number": 9, "state_lost": False})

    def test_await_at_top_level(self):
        self.assertEqual(self.value("import asyncio\nasync def f(): return 6\nawait f() * 7"), "42")
        self.assertEqual(self.value("asyncio.run(f())"), "6")
        self.cell("async def later():\n  await asyncio.sleep(0.01); print('later')\n"
                  "async def go(): return asyncio.create_task(later())\ntask = await go()")
        self.assertIn("later\n", self.cell("await task; await asyncio.sleep(0)")["stdout"] + "later\n")
        self.assertEqual(self.value("task.done()"), "True")

    def test_rich_results(self):
        done = self.cell("class T:\n  def _repr_html_(self): return '<b>t</b>'\n  def _repr_png_(self): return b'\\x89PNG'\n"
                         "  def __repr__(self): return 'T!'\ndisplay(T(), {'a': 1})\nT()")
        rich = {"text/html": "<b>t</b>", "image/png": base64.b64encode(b"\x89PNG").decode(), "text/plain": "T!"}
        self.assertEqual(done["results"], [rich, {"text/plain": "{'a': 1}"}, rich])
        # Stand-ins with the modules' own names, on machines without the modules.
        fake = ("import sys, types\nclass Figure:\n  def savefig(self, to, **_): to.write(b'PNG')\n"
                "Figure.__module__ = 'matplotlib.figure'\npyplot = types.ModuleType('matplotlib.pyplot')\n"
                "pyplot.get_fignums = lambda: [1]\npyplot.figure = lambda n: Figure()\npyplot.close = lambda what: None\n"
                "sys.modules['matplotlib.pyplot'] = pyplot\n"
                "class Frame:\n  def _repr_html_(self): return '<table>'\n  def head(self, n): return self\n"
                "  def to_json(self, **_): return '{\"data\": [[1]]}'\nFrame.__module__ = 'pandas.core.frame'\nFrame()")
        table, figure = self.cell(fake)["results"]
        self.assertEqual((table["text/html"], table["application/json"]), ("<table>", {"data": [[1]]}))
        self.assertEqual(base64.b64decode(figure["image/png"]), b"PNG")

    def test_results_are_durable_and_listed(self):
        done = self.cell("display('a'); 'b'")
        self.assertEqual(self.session.get(done["id"]), done)
        self.assertEqual(len(done["results"]), 2)
        self.assertEqual(done["provenance"]["permit_id"][:7], "permit_")
        rows = [json.loads(line) for line in self.call("GET", "/v1/audit/export").text.splitlines()]
        actions = [row["action"] for row in rows if row["subject"] in (done["id"], self.session.id)]
        for action in ("kernel.started", "execution.accepted", "execution.finished"):
            self.assertIn(action, actions)

    def test_input(self):
        self.assertEqual(self.value("input() + input()", input="a\nb\n"), "'ab'")
        end = self.cell("input()", input="")
        self.assertIn("EOFError", end["stderr"])
        waits = self.begin("print('begun', flush=True)\nprint('got', input())", keep_input=True)
        self.assertEqual(self.session.send(waits, b"later\n").status, 200)
        self.assertEqual(self.session.wait(waits)["stdout"], "begun\ngot later\n")

    def test_a_time_out_interrupts_and_keeps_the_state(self):
        self.cell("x = 1")
        done = self.cell("x = 2\nwhile True: pass", timeout_seconds=0.5)
        self.assertEqual((done["status"], done["error"]["type"], done["error"]["details"]["state_lost"]),
                         ("timed_out", "TIMEOUT", False), done)
        self.assertIn("KeyboardInterrupt", done["stderr"])
        self.assertEqual(self.value("x"), "2")

    def test_processor_time_is_each_cells_own(self):
        self.cell("x = 0\nimport time\ndef spin(seconds):\n  end = time.process_time() + seconds\n"
                  "  while time.process_time() < end: pass\n  return seconds")
        for _ in range(3):
            self.assertEqual(self.value("spin(0.4)", cpu_seconds=1), "0.4")
        done = self.cell("x = 1\nspin(60)", cpu_seconds=1)
        self.assertEqual((done["status"], done["error"]["type"], done["error"]["details"]["limit"]),
                         ("failed", "RESOURCE_LIMIT_EXCEEDED", "cpu_seconds"), done)
        self.assertFalse(done["error"]["details"]["state_lost"], done)
        self.assertGreaterEqual(done["error"]["details"]["used"], 1000)
        self.assertIn("KeyboardInterrupt", done["stderr"])
        self.assertEqual(self.value("x"), "1")

    def test_usage_is_what_its_interpreter_used_meanwhile(self):
        self.assertLess(self.cell("1")["resource_usage"]["cpu_ms"], 2000)
        busy = self.cell("import time\nend = time.process_time() + 0.6\nwhile time.process_time() < end: pass")
        self.assertGreaterEqual(busy["resource_usage"]["cpu_ms"], 550, busy)
        idle = self.cell("2")["resource_usage"]
        self.assertLess(idle["cpu_ms"], 400)
        held = self.cell("x = b'x' * (60 << 20)")["resource_usage"]
        self.assertGreaterEqual(held["max_rss_bytes"], 60 << 20)
        self.assertGreaterEqual(held["max_rss_bytes"] - idle["max_rss_bytes"], 40 << 20)
        lost = self.cell("end = time.process_time() + 0.6\nwhile time.process_time() < end: pass\nimport os\nos._exit(3)")
        self.assertGreaterEqual(lost["resource_usage"]["cpu_ms"], 400, lost)

    def test_a_cell_that_does_not_yield_loses_the_kernel(self):
        stubborn = ("x = 2\nimport time\nprint('said', flush=True)\n"
                    "while True:\n  try: time.sleep(60)\n  except BaseException: pass")
        done = self.cell(stubborn, timeout_seconds=0.5)
        self.assertEqual((done["status"], done["error"]["type"], done["error"]["details"]["state_lost"]),
                         ("timed_out", "TIMEOUT", True), done)
        self.assertEqual((done["stdout"], done["cell"]["state_lost"]), ("said\n", True))
        fresh = self.cell("x")
        self.assertIn("NameError", fresh["stderr"])
        self.assertEqual(fresh["cell"]["number"], 1)

    def test_a_kernel_that_ends_is_told_and_replaced(self):
        for code, ends in {"import os; os._exit(3)": (3, None),
                           "import os; os.kill(os.getpid(), 11)": (None, "SIGSEGV"),
                           "import os; os.kill(os.getpid(), 9)": (None, "SIGKILL")}.items():
            done = self.cell("print('last words', flush=True)\n" + code)
            self.assertEqual((done["status"], done["exit_code"], done["signal"]), ("completed", *ends), done)
            self.assertEqual((done["stdout"], done["cell"]["state_lost"]), ("last words\n", True))
            self.assertIn("its state is lost", done["stderr"])
            self.assertEqual(self.value("1 + 1"), "2")
        self.assertEqual(self.session.show()["status"], "running")

    def test_interrupt_restart_and_cancel(self):
        running = self.begin("y = 5\nprint('begun', flush=True)\nimport time\ntime.sleep(60)")
        self.assertEqual(self.session.signal(running, "SIGINT").status, 200)
        done = self.session.wait(running)
        self.assertEqual((done["status"], done["exit_code"]), ("completed", 1))
        self.assertIn("KeyboardInterrupt", done["stderr"])
        cancelled = self.session.cancel(self.begin("print('begun', flush=True)\ntime.sleep(60)"))
        self.assertEqual((cancelled["status"], cancelled["cell"]["state_lost"]), ("cancelled", False))
        self.assertEqual(self.value("y"), "5")
        running = self.begin("print('begun', flush=True)\ntime.sleep(60)")
        gone = self.session.call("POST", "/kernels/python:restart", {}, status=200).json()
        self.assertIn(gone["status"], ("not_started", "busy"))
        done = self.session.wait(running)
        self.assertEqual((done["status"], done["cell"]["state_lost"]), ("cancelled", True), done)
        self.assertIn("NameError", self.cell("y")["stderr"])
        self.assertEqual(self.call("POST", self.session.path + "/kernels/none:restart").status, 404)

    def test_several_kernels(self):
        self.cell("x = 'default'")
        self.cell("x = 'other'", kernel="other")
        self.assertEqual((self.value("x"), self.value("x", kernel="other")), ("'default'", "'other'"))
        self.assertEqual(self.cell("echo $0", kernel="sh", language="bash")["stdout"], "bash\n")
        self.assertEqual({name: each["language"] for name, each in self.kernels().items()},
                         {"python": "python", "other": "python", "sh": "bash"})
        self.assertProblem(self.session.post("1", kernel="sh"), 422, field="kernel")
        self.cell("4", kernel="fourth")
        answer = self.session.post("1", kernel="fifth")
        self.assertEqual(answer.status, 429, answer.body)

    def test_cells_of_one_kernel_wait_for_each_other(self):
        self.cell("n = 0; import time")
        code = "before = n; time.sleep(0.02); n = before + 1"
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            ends = list(pool.map(lambda _: self.cell(code), range(16)))
        self.assertEqual({each["exit_code"] for each in ends}, {0})
        self.assertEqual(self.value("n"), "16")

    def test_what_is_no_cell(self):
        for field, body in {"kernel": {"kernel": "No"}, "args": {"args": ["a"]}, "env": {"env": {"A": "1"}},
                            "cwd": {"cwd": "/tmp"}, "command": {}}.items():
            request = {"kernel": "python", **body}
            answer = (self.session.post("1", **request) if field != "command" else
                      self.session.post(command="true", **request))
            self.assertProblem(answer, 422, field="kernel")
        alone = self.cell("import sys\nprint(sys.argv[1:])\nx = 1", args=["a"])
        self.assertEqual(alone["stdout"], "['a']\n")
        self.assertNotIn("cell", alone)
        self.assertNotIn("cell", self.session.exec("x = 1"))  # kernel "none"
        self.assertIn("NameError", self.cell("x")["stderr"])
        self.assertProblem(self.session.post("1", kernel="k", language="c"), 422, field="kernel")
        self.assertEqual(self.session.post("#" * (1 << 20) + "#", kernel=None).status, 413)

    def test_background_children_and_forks(self):
        forked = self.cell("import os\npid = os.fork()\nif pid == 0: print('child', flush=True)\n"
                           "else: os.waitpid(pid, 0)")
        self.assertEqual((forked["stdout"], forked["exit_code"]), ("child\n", 0))
        self.cell("import subprocess\np = subprocess.Popen(['sleep', '31'])")
        self.assertEqual(self.session.sleeping(31), [1])
        self.cell("import os; os._exit(0)")
        self.assertEqual(self.session.sleeping(31), [1])  # processes left behind by a kernel go on
        self.cell("import subprocess\np = subprocess.Popen(['setsid', 'sleep', '32'])")
        self.session.call("POST", "/kernels/python:restart", status=200)
        self.assertEqual(self.session.sleeping(32), [0])  # an ended cell takes its processes along

    def test_many_cells(self):
        for i in range(500 if harness.LONG else 100):
            done = self.cell(f"print({i})\n{i} + 1")
            self.assertEqual((done["stdout"], done["results"]), (f"{i}\n", [{"text/plain": str(i + 1)}]))
        kernels = [line for line in self.session.programs() if line.startswith("python3 -c")]
        self.assertEqual(len(kernels), 1)


class Hostile(KernelTest):
    """Code that speaks to the cell's program itself: the code deceives its own session, and no other."""

    def end(self, code, **request):
        done = self.cell(SPEAK + code, **request)
        self.assertIn(done["status"], ("completed", "timed_out"))
        self.assertEqual(self.value("1 + 1"), "2")  # the session goes on
        return done

    def test_forged_words(self):
        self.assertEqual(self.end("say(b'D5 %s\\n' % tag)")["exit_code"], 5)
        for words in (b"nonsense\n", b"D256 %s\n", b"D %s\n", b"R0 %s\n", b"R99999999999 %s\n", b"\xff" * 4096, b"D-1 %s\n",
                      b"D5\n", b"B\n", b" %s\n"):
            with self.subTest(words):
                forged = f"{words!r} % tag" if b"%s" in words else f"{words!r}"
                done = self.end(f"say({forged})\nimport time; time.sleep(20)")
                self.assertEqual((done["status"], done["signal"], done["cell"]["state_lost"]), ("completed", "SIGKILL", True))

    def test_words_for_another_cell_are_passed_over(self):
        for n in range(20):  # the kernel says its own word when the cell has ended already
            done = self.end(f"say(b'D{n} %s\\n' % tag)")
            self.assertEqual(done["exit_code"], n)
            self.assertEqual(self.value(f"'mine' * {n}"), repr("mine" * n))
        done = self.end("other = b'0' * 16\nsay(b'B %s\\nR4 %s\\n\\n\\nD\\nD7 %s\\n' % (other, other, other))\nprint('on')")
        self.assertEqual((done["exit_code"], done["stdout"], done["results"]), (0, "on\n", []))

    def test_who_holds_its_lock_keeps_cells_waiting_to_their_time(self):
        self.cell("x = 1")
        holder = self.session.start(command=["python3", "-c", """
import fcntl, os, time
fcntl.flock(os.open("/tmp/.cloister-kernel-python", os.O_RDONLY), fcntl.LOCK_EX)
print("held", flush=True)
time.sleep(60)
"""])
        self.session.wait_output(holder, "held")
        done = self.cell("x", timeout_seconds=0.5)
        self.assertEqual((done["status"], done["error"]["type"]), ("timed_out", "TIMEOUT"), done)
        self.session.cancel(holder)
        self.assertEqual(self.value("1 + 1"), "2")

    def test_forged_results(self):
        for text in ("[]", "1", '{"no type": 1}', '{"a/b": ', "\udcff", '{"a/b":' + "[" * 100 + "]" * 100 + "}"):
            with self.subTest(text):
                raw = text.encode("utf-8", "surrogateescape")
                done = self.end(f"raw = {raw!r}\nsay(b'R%d %s\\n' % (len(raw), tag) + raw)")
                self.assertEqual((done["results"], done["results_truncated"]), ([], True))
        done = self.end("display({'a/b': ['<script>']}, raw=True)")
        self.assertEqual(done["results"], [{"a/b": ["<script>"]}])

    def test_results_are_bounded(self):
        for shown, kept in {7: [*range(7)], 8: [*range(8)], 9: [*range(7), 8], 20: [*range(7), 19]}.items():
            done = self.end(f"for i in range({shown}): display(i)")
            self.assertEqual(([each["text/plain"] for each in done["results"]], done["results_truncated"]),
                             ([str(i) for i in kept], shown > 8))
        done = self.end("display('a' * 70000, 'b')\nfor i in range(4): display('c' * 60000)\n'last'")
        self.assertEqual(([each["text/plain"][:3] for each in done["results"]], done["results_truncated"]),
                         (["'aa", "'b'", "'cc", "'la"], True))
        cut = done["results_left_out"][0]
        self.assertEqual((cut["result"], cut["type"], cut["bytes"]), (0, "text/plain", 70004))
        self.assertTrue(done["results"][0]["text/plain"].endswith("…"))
        self.assertLess(cut["kept_bytes"], 65536)

    def test_a_result_that_never_ends(self):
        done = self.end("say(b'R1000000 %s\\n' % tag)\nimport time; time.sleep(60)", timeout_seconds=1)
        self.assertEqual(done["status"], "timed_out")

    def test_its_own_descriptors_and_directory(self):
        self.end("for n in range(3, 64):\n  try: os.close(n)\n  except OSError: pass")
        self.cell("import shutil; shutil.rmtree('/tmp/.cloister-kernel-python')")
        # The kernel's meeting place is gone: the kernel is lost with the next cell, unless already ended.
        cell = self.cell("1")["cell"]
        self.assertTrue(cell["state_lost"] or cell["number"] == 1, cell)
        self.end("import os, shutil; shutil.rmtree('/tmp/.cloister-kernel-python'); open('/tmp/.cloister-kernel-python', 'w')"
                 "\nos.unlink('/tmp/.cloister-kernel-python')\nos._exit(0)")
        self.end("for n in os.listdir('/proc'):\n  if n.isdigit() and int(n) not in (1, os.getpid()):\n"
                 "    try: os.kill(int(n), 9)\n    except OSError: pass\nimport time; time.sleep(20)")
        self.end("for n in os.listdir('/proc'):\n  if n.isdigit() and int(n) not in (1, os.getpid()):\n"
                 "    try: os.kill(int(n), 19)\n    except OSError: pass\nimport time; time.sleep(20)", timeout_seconds=1)

    def test_out_of_memory(self):
        done = self.cell("x = bytearray(1 << 30)\nfor i in range(0, len(x), 4096): x[i] = 1")
        self.assertTrue(done["cell"]["state_lost"] or "MemoryError" in done["stderr"], done)
        if self.session.show()["status"] == "running":
            self.assertEqual(self.value("1 + 1"), "2")

    def test_output_over_its_bound(self):
        done = self.cell("print('x' * 300000)\n'still'", max_output_bytes=1000)
        self.assertEqual((len(done["stdout"]), done["stdout_truncated"], done["stdout_bytes"]), (1000, True, 300001))
        self.assertEqual(done["results"], [{"text/plain": "'still'"}])
        both = self.cell("import sys\nfor i in range(2000): print('o' * 99); print('e' * 99, file=sys.stderr)")
        self.assertEqual((both["stdout_bytes"], both["stderr_bytes"]), (200_000, 200_000))


class Bash(KernelTest):
    language = "bash"

    def test_what_goes_on_after_its_cell_is_not_held_up(self):
        noise = ("( sleep 0.3; for i in $(seq 40); do head -c 50000 /dev/zero | tr '\\0' x; done; echo end; touch done ) & "
                 "( sleep 0.3; head -c 100000 /dev/zero >&2; echo e >&2; touch done2 ) & echo begun")
        self.assertEqual(self.cell(noise)["stdout"], "begun\n")
        harness.wait_for("both to have written all", lambda: self.session.exec(
            command="test -e done -a -e done2 && echo yes")["stdout"] == "yes\n")
        after = self.cell("echo next")
        self.assertLess(after["stdout_bytes"], 70_000)
        self.assertTrue(after["stdout"].endswith("xend\nnext\n"), after["stdout"][-30:])
        for stream in ("stdout", "stderr"):
            self.assertRegex(after[stream], r"^\[cloister: \d+ bytes of what ran on are left out\]\n", stream)
        self.assertEqual(self.cell("echo again")["stdout"], "again\n")

    def test_what_its_kernel_leaves_behind_is_drained_too(self):
        self.cell("( trap '' HUP; while [ ! -e go ]; do sleep 0.02; done; head -c 300000 /dev/zero; touch end ) & exec true")
        self.cell("touch go")
        harness.wait_for("the end", lambda: self.session.exec(command="test -e end && echo yes")["stdout"] == "yes\n")

    def test_keeps_its_state(self):
        self.cell("x=5; f() { echo \"f $1\"; }; cd /tmp; export Y=6; declare z=7")
        done = self.cell("f $x; pwd; bash -c 'echo $Y'; echo $z >&2; (exit 9)")
        self.assertEqual((done["stdout"], done["stderr"], done["exit_code"]), ("f 5\n/tmp\n6\n", "7\n", 9))
        self.assertEqual(self.cell("echo $?")["stdout"], "9\n")
        self.assertEqual(self.cell("read a; echo got $a", input="in\n")["stdout"], "got in\n")
        self.assertIn("nosuch: command not found", self.cell("nosuch")["stderr"])
        self.assertEqual(self.cell("if")["exit_code"], 2)
        for code, status in {"exit 4; echo no": 4, "f() { false; exit; echo no; }; f; echo no": 1, "(exit 5)": 5}.items():
            ended = self.cell(code)
            self.assertEqual((ended["exit_code"], ended["stdout"], ended["cell"]["state_lost"]), (status, "", False))
        self.assertEqual(self.cell("echo ${x-unset}; set -eu; true")["stdout"], "5\n")
        ended = self.cell("false; echo no")
        self.assertEqual((ended["exit_code"], ended["stdout"], ended["cell"]["state_lost"]), (1, "", True))
        self.assertEqual(self.cell("echo ${x-unset}")["stdout"], "unset\n")

    def test_interrupt(self):
        for code in ("while :; do :; done", "sleep 60", "f() { while :; do f2; done; }; f2() { :; }; f"):
            done = self.cell(f"x=1; {code}; echo not this", timeout_seconds=0.5)
            self.assertEqual((done["status"], done["stdout"], done["cell"]["state_lost"]), ("timed_out", "", False), done)
        self.assertEqual(self.cell("echo $x")["stdout"], "1\n")

    def test_dies_of_the_interrupt(self):
        done = self.cell("trap 'kill -9 $$' INT; while :; do :; done", timeout_seconds=0.5)
        self.assertEqual((done["status"], done["error"]["type"], done["cell"]["state_lost"]),
                         ("timed_out", "TIMEOUT", True), done)


if __name__ == "__main__":
    unittest.main()
