# SPDX-License-Identifier: Apache-2.0
"""Results and ends of cells: results as complete as possible, figures, IPython's additions to Python; and JavaScript
by Node. The loss of a kernel's state is reported. Interrupts at the edges of cells, of kernels without a service."""

import base64
import os
import select
import subprocess
import tempfile
import unittest

import harness
import mcp_client
import test_kernels
from api_case import ApiTest
from test_kernels import KernelTest


def setUpModule():
    ApiTest.server = harness.Server(config=test_kernels.CONFIG)
    unittest.enterModuleContext(ApiTest.server)


PARTS = """class Parts:
    def __init__(self, **parts): self.parts = parts
    def _repr_mimebundle_(self, **_): return self.parts
    def __repr__(self): return 'plain'
def nested(depth):
    value = 1
    for _ in range(depth): value = [value]
    return value
"""


class Results(KernelTest):
    """The display of values: as complete as possible, and with a note otherwise."""

    def parts(self, **parts):
        given = ", ".join(f"{name!r}: {value}" for name, value in parts.items())
        done = self.cell(f"Parts(**{{{given}}})")
        self.assertEqual((done["exit_code"], len(done["results"])), (0, 1), done)
        return done["results"][0], [each["type"] for each in done["results_left_out"]], done["stderr"]

    def test_a_part_that_does_not_fit_costs_that_part_only(self):
        self.cell(PARTS)
        html, data, png = "text/html", "application/json", "image/png"
        bound = 65536 - 4 - len('"text/plain":"plain"')  # of the result; its other part
        fits = bound - 5 - len(html) - 2
        for size, kept in ((fits - 60, True), (fits + 60, False), (5_000_000, False)):
            shown, left_out, _ = self.parts(**{html: f"'x' * {size}", png: "b'\\x89PNG'"})
            self.assertEqual((shown["text/plain"], len(shown.get(html, "")), left_out, shown[png]),
                             ("plain", size if kept else 0, [] if kept else [html], "iVBORw=="), size)
        for value, kept in {"nested(23)": True, "nested(24)": False, "nested(30)": False, "nested(5000)": None,
                            "list(range(9999))": True, "[0] * 49999": False, "[[]] * 50001": False}.items():
            shown, left_out, said = self.parts(**{data: value})
            if kept and value.startswith("list"):
                self.assertEqual(len(shown[data]), 9999)
            self.assertEqual((shown["text/plain"], data in shown), ("plain", bool(kept)), value)
            self.assertEqual(left_out, [data] if kept is False else [], value)
            self.assertEqual("left out" in said, kept is None, value)  # the kernel's own word

    def test_what_json_does_not_have(self):
        self.cell(PARTS)
        data = "application/json"
        for value, shown in {"{'a': float('nan'), 'b': [float('inf'), -0.5]}": {"a": None, "b": [None, -0.5]},
                             "{(1, 2): 3, None: 4, True: 5, 1.5: 6}": {"(1, 2)": 3, "null": 4, "true": 5, "1.5": 6},
                             "{'x': '\\ud800', '\\udfff': '\\ud83d\\ude00'}": {"x": "\ufffd", "\ufffd": "\U0001f600"},
                             "{'set': {1}, 'type': int, 'b': b'x'}": {"set": [1], "type": "<class 'int'>", "b": "b'x'"},
                             "[1e-300, 2**60, 1e-12]": [1e-300, 2 ** 60, 1e-12]}.items():
            part, left_out, said = self.parts(**{data: value})
            self.assertEqual((part[data], left_out, said), (shown, [], ""), value)
        circle = self.cell("c = []\nc.append(c)\nParts(**{'application/json': c})")
        self.assertEqual((circle["exit_code"], circle["results"]), (0, [{"text/plain": "plain"}]))
        self.assertIn("application/json is left out", circle["stderr"])
        self.assertEqual(self.parts(**{"text/html": "'a\\ud800b'"})[0]["text/html"], "a\ufffdb")

    def test_a_long_text_is_cut(self):
        done = self.cell("list(range(1_000_000))")
        text = done["results"][0]["text/plain"]
        self.assertTrue(text.startswith("[0, 1, 2, 3") and text.endswith("…"), text[-20:])
        self.assertGreater(len(text), 60_000)
        self.assertEqual([(each["type"], each["bytes"]) for each in done["results_left_out"]], [("text/plain", 7_888_892)])
        self.assertEqual(self.session.get(done["id"]), done)
        for size in (65536 - 28, 65536 + 100):  # in characters of three bytes
            self.assertIn("ü" * 100, self.cell(f"print('x')\n'ü' * {size // 2}")["results"][0]["text/plain"])

    def test_numbers_of_tables_are_exact(self):
        table = ("import json\nclass Column(list):\n  def tolist(self): return list(self)\n"
                 "class Series:\n  index = Column([0.1, 2])\n  values_ = Column([1e-12, float('nan')])\n"
                 "  def head(self, n): return self\n  def tolist(self): return list(self.values_)\n"
                 "  def to_json(self, **_): return '{\"name\": \"s\", \"index\": [0.1, 2], \"data\": [0.0, null]}'\n"
                 "Series.__module__ = 'pandas.core.series'\nSeries()")
        shown = self.cell(table)["results"][0]["application/json"]
        self.assertEqual(shown, {"name": "s", "index": [0.1, 2], "data": [1e-12, None]})

    # A package with the matplotlib names that the kernel looks for.
    FIGURES = """import os
os.makedirs('matplotlib')
open('matplotlib/__init__.py', 'w').close()
open('matplotlib/figure.py', 'w').write('''
class Figure:
    drawn = b'PNG'
    def savefig(self, to, **_):
        if self.drawn is None: raise ValueError('not drawn')
        to.write(self.drawn)
''')
open('matplotlib/pyplot.py', 'w').write('''
from matplotlib.figure import Figure
opened = {}
def get_fignums(): return list(opened)
def figure(n=None): return opened.setdefault(n or len(opened) + 1, Figure())
def close(which=None): opened.clear()
def show(): raise SystemError('there is no window')
''')
import matplotlib.pyplot as plt
"""

    def figures(self, code):
        done = self.cell(code)
        return [base64.b64decode(each.get("image/png", "")) for each in done["results"]], done

    def test_figures_are_of_their_cell_and_shown_once(self):
        self.cell(self.FIGURES)
        for code in ("plt.figure(); 1/0", "plt.figure(); import sys; sys.exit(2)", "f = plt.figure()\nf",
                     "f = plt.figure(); display(f)", "plt.figure(); plt.show()"):
            shown, _ = self.figures(code)
            self.assertEqual(shown, [b"PNG"], code)
            self.assertEqual(self.cell("print('other')")["results"], [], code)
        shown, _ = self.figures("for i in range(3):\n  plt.figure().drawn = b'%d' % i\n  plt.show()")
        self.assertEqual(shown, [b"0", b"1", b"2"])
        shown, _ = self.figures("f = plt.figure(); display(f); f.drawn = b'more'")
        self.assertEqual(shown, [b"PNG", b"more"])
        shown, _ = self.figures("display(f); display(f)")
        self.assertEqual(len(shown), 2)  # as asked
        shown, done = self.figures("plt.figure().drawn = None; print('said')")
        self.assertEqual((shown, done["exit_code"], done["stdout"]), ([], 1, "said\n"))
        self.assertIn("ValueError: not drawn", done["stderr"])
        self.assertEqual(self.cell("1;")["results"], [])

    def test_signals_cut_no_output_short(self):
        done = self.cell("import signal\nold = signal.signal(signal.SIGALRM, lambda *_: None)\n"
                         "signal.setitimer(signal.ITIMER_REAL, 0.0005, 0.0005)\nfor _ in range(20): print('x' * 200_000)\n"
                         "signal.setitimer(signal.ITIMER_REAL, 0); signal.signal(signal.SIGALRM, old);")
        self.assertEqual(done["stdout_bytes"], 20 * 200_001)

    def test_contexts_tasks_and_warnings_are_of_all_cells(self):
        self.cell("import asyncio, contextvars, decimal\nv = contextvars.ContextVar('v', default=0)\n"
                  "async def say(x, t=0.01): await asyncio.sleep(t); return x")
        self.assertEqual(self.value("await asyncio.sleep(0); v.set(1); v.get()"), "1")
        self.assertEqual(self.value("v.get()"), "1")
        self.cell("v.set(2); decimal.getcontext().prec = 4;")
        self.assertEqual(self.value("await asyncio.sleep(0); v.get(), decimal.Decimal(1) / 3"),
                         "(2, Decimal('0.3333'))")
        self.cell("t = asyncio.create_task(say('made'));")
        self.assertEqual(self.value("await t"), "'made'")
        self.assertEqual(self.value("asyncio.run(say('run'))"), "'run'")
        self.cell("t = asyncio.create_task(say('after')); u = asyncio.ensure_future(say('too'));")
        self.assertEqual(self.value("await asyncio.gather(t, u)"), "['after', 'too']")
        self.assertEqual(self.value("asyncio.get_event_loop().run_until_complete(say('loop'))"), "'loop'")
        thread = self.cell("import threading\ndef f():\n  try: asyncio.create_task(say(1))\n"
                           "  except RuntimeError as e: print('refused')\nx = threading.Thread(target=f); x.start(); x.join()")
        self.assertIn("refused", thread["stdout"])
        self.cell("import warnings\ndef careless(): warnings.warn('careful')")
        for _ in range(2):
            self.assertEqual(self.cell("careless(); careless()")["stderr"].count("UserWarning: careful"), 1)

    def test_what_ipython_adds(self):
        for code, text in {"%matplotlib inline\n1 + 1": "2", "x = !echo one; echo two\nx": "['one', 'two']",
                           "n = 7\ny = !printf $n{n + 1}\ny": "['78']", "%pwd": "'/workspace'", "%time 5": "5",
                           "%%time\nz = 1\nz + 2": "3", "!!echo list": "['list']", "%env CELL=1\n%env CELL": "'1'",
                           "(5\n%3)": "2", "if n:\n    %cd /tmp\n    !pwd > where\nopen('where').read()": "'/tmp\\n'"}.items():
            done = self.cell(code)
            self.assertEqual(([each["text/plain"] for each in done["results"]], done["exit_code"], done["stderr"]),
                             ([text], 0, ""), code)
        self.assertEqual(self.cell("!echo out; echo err >&2; exit 3\nprint(_exit_code)")["stdout"], "out\n3\n")
        self.assertEqual(self.cell("!cat", input="typed\n")["stdout"], "typed\n")
        self.assertEqual(self.cell("!echo 'it''s' ${HOME+set} a{b,c} $(echo sub) \\\n  more")["stdout"], "its set ab ac sub more\n")
        self.assertRegex(self.cell("%timeit -n 3 -r 2 n + 1")["stdout"], r"per loop \(mean ± std. dev. of 2 runs, 3 loops each\)")
        pip = self.cell("%pip --version")
        self.assertRegex(pip["stdout"] + pip["stderr"], r"^pip \d|No module named pip")
        self.assertEqual(self.cell("%%bash -x\necho $1")["exit_code"], 0)
        self.assertEqual(self.cell("%%writefile made.txt\nline\n")["exit_code"], 0)
        self.assertEqual(self.value("open('made.txt').read()"), "'line\\n'")
        self.assertEqual(self.cell("%%html\n<b>")["results"], [{"text/html": "<b>"}])
        for code in ("%nosuch", "%%nosuch\n1"):
            done = self.cell(code)
            self.assertEqual((done["exit_code"], done["stderr"].count("\n")), (1, 1), done)
            self.assertIn("`" + code.split("\n")[0] + "` not found", done["stderr"])
        self.assertIn("SyntaxError", self.cell("x = = 1")["stderr"])
        self.assertIn('File "<cell', self.cell("%time 1/0")["stderr"])

    def test_ipython_display(self):
        shown = self.cell("from IPython.display import display, HTML, Markdown, JSON, Image, SVG, Latex, clear_output\n"
                          "display(HTML('<b>'), Markdown('# t'), JSON({'a': [1]}), Latex('$x$'))\n"
                          "h = display(1, display_id='d'); h.update(2); clear_output()\n"
                          "Image(b'\\x89PNG\\r\\n')")["results"]
        self.assertEqual([shown[0]["text/html"], shown[1]["text/markdown"], shown[2]["application/json"],
                          shown[3]["text/latex"]], ["<b>", "# t", {"a": [1]}, "$x$"])
        self.assertEqual([each["text/plain"] for each in shown[4:6]], ["1", "2"])
        self.assertEqual(base64.b64decode(shown[6]["image/png"]), b"\x89PNG\r\n")
        self.assertEqual(self.value("from IPython import get_ipython\nget_ipython() is not None"), "True")
        self.assertIn("ModuleNotFoundError", self.cell("import IPython.nosuch")["stderr"])


class Node(KernelTest):
    language = "node"

    def test_keeps_its_state(self):
        self.assertEqual(self.value("let a = 1; const c = 2; a + c"), "3")
        self.assertEqual(self.value("let a = await Promise.resolve(5); a + c"), "7")
        self.assertEqual(self.value("({ list: [1, 2] })"), "{ list: [ 1, 2 ] }")
        said = self.cell("console.log('out'); console.error('err')")
        self.assertEqual((said["stdout"], said["stderr"], said["results"]), ("out\n", "err\n", []))
        failed = self.cell("function f() { null.x }\nf()")
        self.assertEqual(failed["exit_code"], 1)
        self.assertTrue(failed["stderr"].startswith("TypeError: Cannot read properties of null"), failed["stderr"])
        self.assertNotIn("[eval]", failed["stderr"])
        self.assertEqual(self.cell("process.exit(4)")["exit_code"], 4)
        done = self.cell("display({ _toHtml() { return '<b>'; } })")
        self.assertEqual(done["results"][0]["text/html"], "<b>")
        self.assertEqual(self.value("require('path').basename('/a/b') + a"), "'b5'")
        ended = self.cell("process.kill(process.pid, 'SIGKILL'); while (true) {}")
        self.assertEqual((ended["signal"], ended["cell"]["state_lost"]), ("SIGKILL", True))
        self.assertEqual(self.value("1 + 1"), "2")

    def test_all_that_a_cell_wrote_is_its_own(self):
        for size in (65_535, 65_537, 900_000):
            done = self.cell(f"console.log('x'.repeat({size})); console.error('e'.repeat({size}))")
            self.assertEqual((done["stdout_bytes"], done["stderr_bytes"]), (size + 1, size + 1))
        self.assertEqual(self.cell("process.stdout.end('bye\\n')")["stdout"], "bye\n")
        self.assertEqual(self.cell("process.stdout.write(Buffer.from('still\\n')), undefined")["stdout"], "still\n")

    def test_exit_codes(self):
        for code, ends in {"process.exit(7)": 7, "try { process.exit(2) } catch (e) { console.log(e) } finally { console.log(1) }": 2,
                           "async function main() { console.log('ok') }; main().then(() => process.exit(0))"
                           ".catch((e) => { console.error(e); process.exit(1) })": 0,
                           "(async () => { throw 1 })().catch(() => process.exit(4)); undefined": 4,
                           "setTimeout(() => process.exit(5), 20); await new Promise(() => {})": 5,
                           "process.exitCode = 3; 1": 3, "1": 0, "process.exitCode = 3; throw 1": 1,
                           "void Promise.reject(new Error('lost')); await new Promise((r) => setTimeout(r, 50))": 1,
                           "setTimeout(() => { throw new Error('late') }); await new Promise((r) => setTimeout(r, 50))": 1,
                           "Promise.reject(new Error('last'))": 1}.items():
            done = self.cell(code)
            self.assertEqual((done["exit_code"], done["cell"]["state_lost"]), (ends, False), (code, done))
            if ends in (0, 2, 7):
                self.assertEqual((done["stdout"], done["stderr"]), ("ok\n" if "ok" in code else "", ""), code)
            if "Error('" in code:
                self.assertRegex(done["stderr"], "lost|late|last")
        self.assertEqual(self.value("(async () => 6)()"), "6")

    def test_modules(self):
        self.cell("require('fs').writeFileSync('own.mjs', 'export const a = 1; export default 2')\n"
                  "require('fs').writeFileSync('own.json', '[3]')")
        for code, text in {"(await import('node:path')).sep": "'/'", "import fs from 'node:fs'\ntypeof fs.readFileSync": "'function'",
                           "import two, { a as one } from './own.mjs'; [one, two]": "[ 1, 2 ]",
                           "import * as own from \"./own.mjs\"\nown.a + own.default": "3",
                           "import {\n  basename,\n  sep,\n} from 'path';\nbasename('/x') + sep": "'x/'",
                           "`import x from 'y' ${'import(1)'}` // import z from 'z'": "\"import x from 'y' import(1)\"",
                           "/import'x'/.test(\"import'x'\")": "true", "({ import: 1 }).import": "1",
                           "export const exported = 4\nexported": "4", "import.meta.dirname": "'/workspace'"}.items():
            self.assertEqual(self.value(code), text, code)
        self.assertIn("does not provide an export named 'none'", self.cell("import { none } from 'fs'")["stderr"])
        self.assertIn("Cannot find", self.cell("import x from './none.mjs'")["stderr"])

    def test_stdin(self):
        self.assertEqual(self.value("require('fs').readFileSync(0, 'utf8')", input="in\n"), "'in\\n'")
        self.assertEqual(self.value("let got = ''; for await (const each of process.stdin) got += each; got", input="s"), "'s'")
        self.assertEqual(self.value("require('fs').readFileSync(0, 'utf8')", input=""), "''")
        child = "require('child_process').execSync('cat', { stdio: ['inherit', 'pipe', 'inherit'] }).toString()"
        self.assertEqual(self.value(child, input="child"), "'child'")

    def test_results(self):
        done = self.cell("({ _toJson() { return { a: 10n, b: NaN, c: '\\ud800' } }, _toHtml() { const c = {}; c.c = c; return c } })")
        self.assertEqual(done["results"][0]["application/json"], {"a": 10, "b": None, "c": "\ufffd"})
        self.assertIn("text/html is left out", done["stderr"])

    def test_interrupt(self):
        self.cell("let x = 1")
        for code in ("while (true) {}", "await new Promise(() => {})", "await null; while (true) {}",
                     "setTimeout(() => { while (true) {} }); await new Promise(() => {})"):
            done = self.cell(code, timeout_seconds=1)
            self.assertEqual((done["status"], done["cell"]["state_lost"]), ("timed_out", False), done)
        self.assertEqual(self.value("x"), "1")


class Ends(KernelTest):
    """A kernel that has ended between two cells: the next cell reports the loss."""

    language = "python"

    def keep(self):
        """A variable in the kernel → its process."""
        return int(self.value("import os; kept = 1; os.getpid()"))

    def wait_for_the_end(self):
        harness.wait_for("the kernel's end", lambda: self.kernels()["python"]["status"] == "not_started", 30)

    def kill(self):
        self.session.exec(command=["sh", "-c", f"kill -9 {self.keep()}"])
        self.wait_for_the_end()

    def assertTellsLoss(self, why):
        done = self.cell("'kept' in globals()")
        self.assertEqual((done["exit_code"], done["results"]), (0, [{"text/plain": "False"}]), done)
        self.assertEqual(done["cell"], {"kernel": "python", "number": 1, "state_lost": True, "state_lost_when": "before",
                                        "state_lost_reason": why})
        self.assertEqual(done["stderr"], f"cloister: the kernel ended before this cell ({why}); its state is lost, and "
                                         "this cell has a fresh one\n")
        self.assertEqual(self.session.get(done["id"]), done)
        after = self.cell("1")
        self.assertEqual((after["cell"], after["stderr"]), ({"kernel": "python", "number": 2, "state_lost": False}, ""))

    def test_by_itself_or_by_others(self):
        self.kill()
        self.assertTellsLoss("it was ended by SIGKILL")
        self.keep()
        self.cell("import threading, time\ndef end():\n  while not os.path.exists('go'): time.sleep(0.01)\n  os._exit(3)\n"
                  "threading.Thread(target=end).start()")
        self.session.exec(command=["touch", "go"])
        self.wait_for_the_end()
        self.assertTellsLoss("it exited with status 3")

    def test_a_loss_is_told_once(self):
        self.keep()
        lost = self.cell("os._exit(4)")
        self.assertEqual((lost["cell"]["state_lost"], lost["cell"]["state_lost_when"], lost["cell"]["state_lost_reason"]),
                         (True, "with", "it exited with status 4"), lost)
        after = self.cell("'kept' in globals()")
        self.assertEqual((after["cell"]["state_lost"], after["stderr"]), (False, ""), after)
        for _ in range(2):
            self.session.call("POST", "/kernels/python:restart", {}, status=200)
        self.assertTellsLoss("it was restarted on request")

    def test_over_mcp_and_on_the_command_line(self):
        self.kill()
        with mcp_client.connect(self.server, "modern", "http") as client:
            result = client.tool("run", session_id=self.session.id, code="'kept' in globals()", language="python")
        facts = result["structuredContent"]
        self.assertEqual((facts["value"], facts["state_lost"], facts["state_lost_reason"]),
                         ("False", "before", "it was ended by SIGKILL"), facts)
        self.assertIn("its state is lost", mcp_client.text_of(result))
        self.kill()
        done = self.server.cli("exec", self.session.id, "-c", "'kept' in globals()")
        self.assertEqual((done.returncode, done.stdout), (0, "False\n"), done)
        self.assertIn("the kernel ended before this cell (it was ended by SIGKILL); its state is lost", done.stderr)


class Pipes:
    """A kernel's program, spoken to as src/wire/kernel.h says. `text` is its source."""

    TAG = "0123456789abcdef"

    def __init__(self, test, argv):
        folder = test.enterContext(tempfile.TemporaryDirectory())
        self.fds = {}
        for name in ("code", "in", "report"):
            os.mkfifo(f"{folder}/{name}")
            # Opened for both ends: neither side waits for the other's open().
            self.fds[name] = os.open(f"{folder}/{name}", os.O_RDWR)
            test.addCleanup(os.close, self.fds[name])
        self.errors = test.enterContext(tempfile.TemporaryFile("w+"))
        self.output = test.enterContext(tempfile.TemporaryFile("w+"))
        self.process = subprocess.Popen([*argv, folder], stdin=subprocess.DEVNULL, stdout=self.output, stderr=self.errors)
        test.addCleanup(self.process.wait)
        test.addCleanup(self.process.kill)

    def cell(self, code):
        """→ its exit code; None for a silent kernel."""
        os.write(self.fds["code"], f"{self.TAG}\n{code}\0".encode())
        said = b""
        while not (said.endswith(b"\n") and b"\nD" in said):
            if not select.select([self.fds["report"]], [], [], 20)[0]:
                return None
            said += os.read(self.fds["report"], 65536)
        return int(said.rsplit(b"\nD", 1)[1].split()[0])

    def said(self, file):
        file.seek(0)
        return file.read()


class BashLoops(unittest.TestCase):
    """`break` and `continue` outside the cell's own loops do what they do in a script: bash says so and goes on."""

    def setUp(self):
        self.kernel = Pipes(self, ["bash", "-c", (harness.REPO / "languages/kernels/bash.sh").read_text(), "bash"])

    def test_outside_a_loop(self):
        for word in ("break", "continue", "eval break", "builtin continue 2"):
            self.assertEqual(self.kernel.cell(f"kept=1\n{word}\necho after {word}"), 0, word)
        self.assertEqual(self.kernel.cell("echo kept $kept"), 0)
        self.assertEqual(self.kernel.said(self.kernel.output),
                         "after break\nafter continue\nafter eval break\nafter builtin continue 2\nkept 1\n")
        self.assertEqual(self.kernel.said(self.kernel.errors).count("only meaningful in a `for', `while', or `until' loop"), 4)

    def test_of_more_loops_than_there_are(self):
        for code in ("for i in 1 2; do echo $i; continue 5; done; echo c", "for i in 3 4; do echo $i; break 5; done; echo b"):
            self.assertEqual(self.kernel.cell(code), 0)
        self.assertEqual(self.kernel.said(self.kernel.output), "1\n2\nc\n3\nb\n")

    def test_what_tracing_prints(self):
        self.assertEqual(self.kernel.cell("set -x; true a"), 0)
        self.assertEqual(self.kernel.cell("true b"), 0)
        self.assertEqual(self.kernel.said(self.kernel.errors), "++++ true a\n")

    def test_more_cells_than_one_text_holds(self):
        for _ in range(1030):
            self.assertEqual(self.kernel.cell("n=$((n + 1))"), 0)
        self.assertEqual(self.kernel.cell("declare after=$n; (( n == 1030 ))"), 0)
        self.assertEqual(self.kernel.cell("(( after == 1030 ))"), 0)

    def test_a_shell_that_executes_nothing_more_ends(self):
        os.write(self.kernel.fds["code"], f"{Pipes.TAG}\nset -n\0".encode())
        self.assertEqual(self.kernel.process.wait(60), 0)


class Interrupted(unittest.TestCase):
    """The kernel sends itself the signal at a place of its own source."""

    def text(self, files, place, signal):
        text = "".join((harness.REPO / "languages/kernels" / file).read_text() for file in files)
        self.assertEqual(text.count(place), 1, place)
        return text.replace(place, place + signal)

    def python(self, place, signal):
        text = self.text(("python_output.py", "python_notebook.py", "python.py"), place, signal + "os.kill(os.getpid(), signal.SIGINT)\n")
        return Pipes(self, ["python3", "-c", text])

    def test_python_between_its_begin_and_its_code(self):
        kernel = self.python("    report.begun()\n", "    ")
        self.assertEqual(kernel.cell("print('ran')"), 1)
        self.assertIn("KeyboardInterrupt", kernel.said(kernel.errors))
        self.assertEqual(kernel.said(kernel.output), "")

    def test_python_behind_its_code(self):
        kernel = self.python("def end(status, name):\n", "    if cells == 1: ")
        self.assertEqual(kernel.cell("x = 1"), 1)
        self.assertIn("KeyboardInterrupt", kernel.said(kernel.errors))
        self.assertEqual(kernel.cell("assert x == 1"), 0)

    def test_python_between_cells(self):
        kernel = self.python("    report.done(code)\n", "    if cells == 1: ")
        self.assertEqual((kernel.cell("x = 1"), kernel.cell("x = 1")), (0, 0))

    def test_bash_between_its_begin_and_its_code(self):
        text = self.text(("bash.sh",), "  __cloister_say B\n", "  builtin kill -INT $$\n")
        kernel = Pipes(self, ["bash", "-c", text, "bash"])
        self.assertEqual(kernel.cell("echo ran"), 130)
        self.assertEqual(kernel.said(kernel.output), "")

    def test_node_between_its_begin_and_its_code(self):
        text = self.text(("node.js",), "    current.say(Buffer.from(`B ${tag}\\n`));\n", "process.kill(process.pid, 'SIGINT');\n")
        kernel = Pipes(self, ["node", "--no-force-async-hooks-checks", "-e", text])
        self.assertEqual(kernel.cell("for (;;) {}"), 130)


if __name__ == "__main__":
    unittest.main()
