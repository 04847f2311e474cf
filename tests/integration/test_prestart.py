# SPDX-License-Identifier: Apache-2.0
"""A program whose interpreter was started ahead of it behaves as one that starts with it: the same
scripts on a server that keeps interpreters ready and on one that does not."""
import json
import re
import unittest

import harness
import pool_counts
from session_case import Session

KEPT = 4
READY = f"pool:\n  ready: {KEPT}\n  idle_ms: 30000\n{harness.CALM}"
NONE_READY = "pool:\n  ready: 0\n  zygotes: 0\n"
RUNS = 4 if harness.LONG else 2  # of each script: some find their interpreter waiting, some still starting

# Code that a waiting interpreter cannot read as its own: the interpreter is started with the code.
ENCODED = {
    "encoding": "# -*- coding: latin-1 -*-\nprint(len('ä'))",
    "encoding utf-8": "# vim: set fileencoding=utf-8 :\nprint('ä', len('ä'))",
}
PYTHON = {
    "hello": "print('hello')",
    "empty": "",
    "no newline, two lines": "x = 1\nprint(x)",
    "windows lines": "print(1)\r\nif True:\r\n    print(2)\r\n",
    "byte order mark": "\ufeffprint('ä')",
    "tabs and unicode": "if 1:\n\tπ = 3\n\tprint(π)",
    "globals": "print(sorted(globals())); print(__name__, __file__, __package__, __spec__, __doc__,"
               " type(__loader__).__name__, __cached__)",
    "arguments": "import sys; print(sys.argv, sys.orig_argv, sys.flags, sys.path)",
    "environment": "import os; print(sorted(os.environ.items())); print(os.getcwd(), os.listdir())",
    "streams": "import os, stat, sys\nfor f in (sys.stdin, sys.stdout, sys.stderr):\n"
               "  print(f.name, f.mode, f.encoding, f.errors, f.isatty(), f.line_buffering,"
               " stat.S_IFMT(os.fstat(f.fileno()).st_mode))",
    "descriptors": "import os; print(sorted(os.listdir('/proc/self/fd')))",
    "process": "import os; print(os.getpid(), os.getppid(), os.getsid(0), os.getpgid(0), os.getuid())",
    "no input": "import sys; print(repr(sys.stdin.read())); input()",
    "traceback": "def f():\n    raise ValueError('bad')\n\nf()",
    "syntax error": "print(1)\nif True\n    pass",
    "late syntax error": "eval('1 +')",
    "warning": "import warnings; warnings.warn('careful')",
    "deep recursion": "def f(): f()\ntry: f()\nexcept RecursionError as e: print(type(e))",
    "exit": "import sys; sys.exit()",
    "exit 3": "import sys; sys.exit(3)",
    "exit text": "import sys; print('out'); sys.exit('bye')",
    "exit from a thread": "import threading, sys\nt = threading.Thread(target=lambda: sys.exit(4))\n"
                          "t.start(); t.join(); print('still here')",
    "os._exit": "import os; print('lost?', flush=False); os._exit(5)",
    "atexit": "import atexit; atexit.register(print, 'at exit'); print('main')",
    "interrupt": "raise KeyboardInterrupt",
    "own signal": "import os, signal; os.kill(os.getpid(), signal.SIGTERM)",
    "handled signal": "import os, signal\nsignal.signal(signal.SIGUSR1, lambda *a: print('usr1'))\n"
                      "os.kill(os.getpid(), signal.SIGUSR1); print('done')",
    "segfault": "import ctypes; ctypes.string_at(0)",
    "abort": "import os; os.abort()",
    "threads": "import threading\nout = []\nts = [threading.Thread(target=out.append, args=(i,))"
               " for i in range(8)]\n[t.start() for t in ts]; [t.join() for t in ts]\nprint(sorted(out))",
    "subprocess": "import subprocess, sys\nprint(subprocess.run([sys.executable, '-c', 'print(6*7)'],"
                  " capture_output=True, text=True))",
    "run itself": "import subprocess, sys\nif len(sys.argv) == 1:\n"
                  "  print(subprocess.run([sys.executable, __file__, 'x'], capture_output=True).stdout)\n"
                  "else: print('inner')",
    "multiprocessing spawn": "import multiprocessing as m\ndef f(x): return x * x\n"
                             "if __name__ == '__main__':\n"
                             "  with m.get_context('spawn').Pool(2) as p: print(p.map(f, [1, 2, 3]))",
    "multiprocessing fork": "import multiprocessing as m\ndef f(x): return x * x\n"
                            "with m.get_context('fork').Pool(2) as p: print(p.map(f, [1, 2, 3]))",
    "asyncio": "import asyncio\nasync def main():\n  p = await asyncio.create_subprocess_exec("
               "'echo', 'hi', stdout=-1)\n  print((await p.communicate())[0])\nasyncio.run(main())",
    "its own source": "import inspect, sys\ndef f():\n    return 1\nprint(inspect.getsource(f),"
                      " open(__file__).read() == inspect.getsource(sys.modules['__main__']))",
    "file of the workspace": "open('made.txt', 'w').write('x'); import os; print(sorted(os.listdir()))",
    "module of its own": "open('mine.py', 'w').write('y = 2'); import mine; print(mine.y, mine.__file__)",
    "pickle of main": "import pickle\nclass A: pass\nprint(type(pickle.loads(pickle.dumps(A()))))",
    "large": "x = [\n" + "1,\n" * 50_000 + "]\nprint(sum(x))",
    "modules": "import sys; print([m for m in ('usercustomize', 'cloister_zygote') if m in sys.modules],"
               " sys.path_hooks, sys.meta_path, 'PYTHONPATH' in __import__('os').environ)",
    "frames": "import sys, traceback\ntry: sys._getframe(1)\nexcept ValueError as e: print(e)\n"
              "traceback.print_stack()\nimport warnings; warnings.warn('deep', stacklevel=3)",
    "recursion limit": "import sys; print(sys.getrecursionlimit())\nn = 0\ndef f():\n  global n; n += 1; f()\n"
                       "try: f()\nexcept RecursionError: print(n)",
    "deleted at the end": "class A:\n  def __init__(self, n): self.n = n\n  def __del__(self): print('del', self.n)\n"
                          "a = A('global'); _b = A('private'); c = A('cycle'); c.c = c; print('main')",
    "deleted after an error": "class A:\n  def __del__(self): print('del')\ndef f():\n  a = A()\n  1 / 0\nf()",
    "module deleted at the end": "open('mine.py', 'w').write('class A:\\n  def __del__(self): print(\"mine\")\\na = A()')\n"
                                 "import mine",
    "exit codes": "import sys; sys.exit(256 + 7)",
    "exit negative": "import sys; sys.exit(-1)",
    "exit huge": "import sys; sys.exit(1 << 70)",
    "exit object": "import sys; sys.exit([1, 'two'])",
    "exit true": "raise SystemExit(True)",
    "exit in a hook": "import sys; sys.excepthook = lambda *a: print('hook', a[0]); 1 / 0",
    "exit at exit": "import atexit, sys\natexit.register(sys.exit, 5); print('x')",
    "error at exit": "import atexit\natexit.register(lambda: 1 / 0); print('x')",
    "exit within finally": "import sys\ntry: sys.exit(3)\nfinally: print('finally')",
    "exception group of its own": "class E(Exception): pass\nraise E('a') from ValueError('b')",
    "thread outlives main": "import threading\ndef f(): threading.main_thread().join(); print('thread')\n"
                            "threading.Thread(target=f).start(); print('main')",
    "daemon thread": "import threading, time\nthreading.Thread(target=time.sleep, args=(60,), daemon=True).start()\n"
                     "print('main')",
    "main thread": "import threading as t; m = t.main_thread()\nprint(m is t.current_thread(), m.native_id,"
                   " m.ident == t.get_ident(), t.active_count(), m.is_alive())",
    "pool of threads": "from concurrent.futures import ThreadPoolExecutor as P\n"
                       "with P(3) as p: print(list(p.map(abs, [-1, -2])))",
    "fork": "import os\np = os.fork()\nif p == 0: print('child', flush=True); raise SystemExit(3)\n"
            "print(os.waitstatus_to_exitcode(os.waitpid(p, 0)[1]))",
    "fork to the end": "import os, sys\np = os.fork()\nif p: print(os.waitstatus_to_exitcode(os.waitpid(p, 0)[1]))\n"
                       "else: print('child')",
    "exec": "import os; os.execvp('echo', ['echo', 'replaced'])",
    "closed stdout": "import sys; sys.stdout.close()",
    "broken stdout": "import os; os.close(1); print('lost')",
    "large output": "import sys\nfor i in range(20000): print(i)\nprint('end', file=sys.stderr)",
    "binary output": "import sys; sys.stdout.buffer.write(bytes(range(256)))",
    "signal defaults": "import signal\nprint([(s, signal.getsignal(s)) for s in (signal.SIGINT, signal.SIGPIPE,"
                       " signal.SIGCHLD, signal.SIGTERM)], signal.pthread_sigmask(signal.SIG_BLOCK, []))",
    "alarm": "import signal, time\nsignal.signal(signal.SIGALRM, lambda *a: print('alarm'))\n"
             "signal.setitimer(signal.ITIMER_REAL, 0.05); time.sleep(0.2); print('done')",
    "limits": "import resource as r; print([(n, r.getrlimit(getattr(r, n))) for n in dir(r) if n.startswith('RLIMIT')])",
    "user": "import getpass, os, pwd; print(getpass.getuser(), pwd.getpwuid(os.getuid()), os.getgroups(),"
            " os.umask(0), os.getpriority(os.PRIO_PROCESS, 0))",
    "process of its own": "import resource, time\nprint(time.process_time() < 5, open('/proc/self/comm').read(),"
                          " open('/proc/self/cmdline').read())",
    "capabilities": "print([l for l in open('/proc/self/status') if l[:3] in ('Cap', 'NoN', 'Sec', 'Uid', 'Gid')])",
    "xoptions": "import sys; print(sys._xoptions, sys.warnoptions, sys.flags.dev_mode, sys.flags.utf8_mode)",
    "future": "from __future__ import annotations\nx: int = 3\nprint(__annotations__)",
    "assert": "assert 1 == 2, 'no'",
    "interned": "print('abc'.upper().lower() is 'abc', {} is not {})",
    "larger than a window": '"""' + "y" * 400_000 + '"""\nprint("end")',
}

NODE = {
    "hello": "console.log('hello')",
    "empty": "",
    "byte order mark": "\ufeffconsole.log('ä')",
    "shebang": "#!/usr/bin/env node\nconsole.log(1)",
    "arguments": "console.log(process.argv, process.execArgv, __filename, __dirname,"
                 " require.main === module)",
    "module": "console.log(module.id, module.filename, module.paths, module.loaded, this === exports)",
    "environment": "console.log(process.env, process.cwd(), require('fs').readdirSync('.'))",
    "process": "console.log(process.pid, process.ppid, process.stdin.isTTY, process.stdout.isTTY)",
    "no input": "process.stdin.on('data', d => console.log('data', d)).on('end', () => console.log('end'))",
    "error": "function f() { throw new Error('bad') }\nf()",
    "syntax error": "console.log(1)\nif (",
    "rejection": "Promise.reject(new Error('later'))",
    "exit": "process.exitCode = 3; process.on('exit', c => console.log('exit', c))",
    "exit now": "process.exit(4)",
    "signal": "process.kill(process.pid, 'SIGTERM'); setTimeout(() => {}, 5000)",
    "worker": "const {Worker, isMainThread, parentPort} = require('worker_threads')\n"
              "if (isMainThread) new Worker(__filename).on('message', console.log)\n"
              "else parentPort.postMessage('from the worker')",
    "worker's own": "const w = require('worker_threads')\n"
                    "if (w.isMainThread) new w.Worker(__filename).on('message', console.log)\n"
                    "else w.parentPort.postMessage([process.env, process.execArgv, process._preload_modules,"
                    " Object.keys(require.cache)])",
    "traces": "console.log(process._preload_modules, Object.keys(require.cache), process.eventNames(),"
              " Object.keys(module.constructor._pathCache), Object.getOwnPropertyNames(globalThis).sort(),"
              " Object.keys(process).sort(), require('async_hooks').executionAsyncId())",
    "stdout": "const s = process.stdout\nconsole.log(s.constructor.name, s.fd, s._type, s.bytesWritten, s.writableLength,"
              " s.writableHighWaterMark, s.eventNames(), Object.getOwnPropertyDescriptor(process, 'stdout'))",
    "stdout ended": "process.stdout.end('bye\\n'); process.stdout.on('finish', () => console.error('finished'))",
    "stdout closed": "require('fs').closeSync(1); console.error('closed')",
    "stdout of another": "Object.defineProperty(process, 'stdout', {value: process.stderr}); process.stdout.write('x')",
    "forked": "if (process.argv[2]) console.log(process.execArgv, process._preload_modules, process.env)\n"
              "else require('child_process').fork(__filename, ['x'])",
    "child": "console.log(require('child_process').execFileSync(process.execPath,"
             " ['-p', '6*7']).toString())",
    "its own source": "console.log(require('fs').readFileSync(__filename, 'utf8').length)",
    "import": "import('fs').then(m => console.log(typeof m.readFileSync))",
    "module syntax": "import fs from 'fs'\nconsole.log(typeof fs)",
    "large": "const x = [\n" + "1,\n" * 50_000 + "]\nconsole.log(x.length)",
}

# Reports whether the interpreter is older than its code: by more than the two clocks may drift apart on a machine that
# is slow, or whose time is being set.
WAS_WAITING = {
    "python": """
import os, time
start = int(open('/proc/self/stat').read().rsplit(')', 1)[1].split()[19]) / os.sysconf('SC_CLK_TCK')
age = time.clock_gettime(time.CLOCK_BOOTTIME) - start
print(age - (time.time() - os.stat('main.py').st_ctime) > 0.5)
""",
    "node": """
const fs = require('fs')
const age = process.uptime() * 1000
console.log(age - (Date.now() - fs.statSync('main.js').ctimeMs) > 500)
""",
}


ADDRESS = re.compile(r"\b0x[0-9a-f]{8,}")


def outcome(result):
    same = {name: result[name] for name in ("status", "exit_code", "signal", "error")}
    same |= {name: ADDRESS.sub("0x…", result[name]) for name in ("stdout", "stderr")}
    return same | {"artifacts": [(a["path"], a["sha256"]) for a in result["artifacts"]]}


# Whether the program runs in a copy of a zygote, which has more modules than python3 imports.
IS_COPY = "import sys; print('statistics' in sys.modules)"

# Values that two programs must never have in common.
SECRETS = """
import json, os, random, secrets, ssl, tempfile, uuid
print(json.dumps([os.urandom(8).hex(), random.random(), random.SystemRandom().random(),
    str(uuid.uuid4()), secrets.token_hex(8), tempfile.mkdtemp(), ssl.RAND_bytes(8).hex(),
    ssl.create_default_context().session_stats() and os.getrandom(8).hex()]))
"""


class Prestart(unittest.TestCase):
    maxDiff = 4000

    @classmethod
    def setUpClass(cls):
        cls.ready = cls.enterClassContext(harness.Server(config=READY))
        cls.cold = cls.enterClassContext(harness.Server(config=NONE_READY))

    def compare(self, language, scripts):
        if not harness.have_language(self.cold, language):
            self.skipTest(f"the toolchain of {language} is not on this machine")
        self.assertTrue(self.waits(self.ready, language))
        self.compare_on(self.ready, language, scripts)
        self.assertTrue(self.waits(self.ready, language))

    def compare_on(self, server, language, scripts):
        for name, code in scripts.items():
            with self.subTest(name):
                expected = outcome(self.cold.run(code, language))
                for _ in range(RUNS):
                    self.assertEqual(outcome(server.run(code, language)), expected)

    def waits(self, server, language, runs=20):
        """True once a run finds its interpreter waiting."""
        for _ in range(runs):
            if server.run(WAS_WAITING[language], language)["stdout"].lower() == "true\n":
                return True
            server.run("sleep 0.7", "bash")  # time for the next interpreter to start, and to be older
        return False

    def only_copies_ready(self, server):
        """Returns once all ready sandboxes are copies of a zygote, with the metrics from before the proof: the
        oldest is always served first, and as many as can be ready or in the making were looked at since."""
        for _ in range(10):
            harness.await_copies(server)
            before = pool_counts.settled(server)
            if all(server.run(IS_COPY)["stdout"] == "True\n" for _ in range(KEPT + 1)):
                return before
        self.fail("some run always gets what is no copy of a zygote")

    def test_open_files_are_those_of_the_program_at_its_end(self):
        opens = f"{IS_COPY}\nfiles = [open('/dev/null') for _ in range(100)]\n"

        def run_in_copy(code):
            done = self.ready.run(code)
            return done["stdout"] == "True\n" and done

        harness.await_copies(self.ready)
        ended = harness.wait_for("a copy of a zygote", lambda: run_in_copy(f"{opens}exit(3)"))
        self.assertEqual((ended["exit_code"], ended["error"], ended["resource_usage"]["open_files"]), (3, None, 103))
        says = f"{IS_COPY}\nimport sys; sys.exit('Too many open files')"
        ended = harness.wait_for("a copy of a zygote", lambda: run_in_copy(says))
        self.assertEqual((ended["exit_code"], ended["error"]), (1, None), "it only says so")

    def test_python(self):
        # On a server of its own, where every sandbox is for Python. No script can report a copy and still be the same
        # script; but all runs had copies, if from here on zygotes made all sandboxes.
        with harness.Server(config=READY) as server:
            before = self.only_copies_ready(server)
            self.compare_on(server, "python", PYTHON)
            after = pool_counts.settled(server)
        sandboxes, copies = (now - then for now, then in zip(pool_counts.made(after), pool_counts.made(before)))
        served = pool_counts.claims(after) - pool_counts.claims(before)
        self.assertGreaterEqual(served.total(), RUNS * len(PYTHON))
        self.assertEqual(copies, sandboxes, f"some were no copies of a zygote, {dict(served)}")
        self.assertGreater(served["ready"], 0, served)

    def test_python_that_names_its_encoding(self):
        self.compare_on(self.ready, "python", ENCODED)

    def test_copies_share_no_secret(self):
        harness.await_copies(self.ready)
        seen = [json.loads(self.ready.run(SECRETS)["stdout"]) for _ in range(8)]
        for values in zip(*seen):
            self.assertEqual(len(set(values)), len(seen), values)

    def test_small_limits_are_copies_too_and_harm_none(self):
        """The least of each limit, for a single client, in copies that share the rest."""
        harness.await_copies(self.ready)
        for limits in ({"open_files": 16}, {"open_files": 33}, {"memory_mb": 4}, {"pids": 1}):
            for _ in range(3):
                self.ready.run(IS_COPY, **limits)
            harness.await_copies(self.ready)
        for _ in range(3):
            done = self.ready.run(IS_COPY, open_files=16)
        self.assertEqual((done["status"], done["stdout"]), ("completed", "True\n"), done)

    def test_node(self):
        self.compare("node", NODE)

    def test_a_node_that_waits_has_opened_its_stdout(self):
        code = "const open = process.getActiveResourcesInfo().length > 0\n" + WAS_WAITING["node"]
        code = code.replace("console.log(", "console.log(open, ")
        if not harness.have_language(self.cold, "node"):
            self.skipTest("the toolchain of node is not on this machine")
        self.assertEqual(self.cold.run(code, "node")["stdout"], "false false\n")
        for _ in range(20):
            opened, waited = self.ready.run(code, "node")["stdout"].split()
            if waited == "true":
                break
            self.ready.run("sleep 0.7", "bash")
        self.assertEqual((opened, waited), ("true", "true"))

    def test_sessions_are_made_of_what_stands_ready(self):
        def look():  # repeated: the node reports its claims once a second
            with Session(server, language="bash") as session:
                self.assertEqual(session.exec("echo on")["stdout"], "on\n")
            return pool_counts.claims(server.metrics())["ready"] > 0

        with harness.Server(config=READY) as server:
            harness.wait_for("a session made of a sandbox that stood ready", look, 60)

    def test_what_is_not_plain_starts_with_its_code(self):
        code = WAS_WAITING["python"]
        self.assertFalse(self.waits(self.cold, "python", 5))
        self.assertTrue(self.waits(self.ready, "python"))
        for more in ({"args": ["a"]}, {"env": {"A": "b"}}, {"input": "x"},
                     {"files": [{"path": "a", "content": "b"}]}):
            with self.subTest(more):
                self.assertEqual(self.ready.run(code, "python", **more)["stdout"], "False\n")

    def test_limits_are_those_of_the_request(self):
        self.assertTrue(self.waits(self.ready, "python"))
        result = self.ready.run("import time; time.sleep(60)", "python", timeout_seconds=1)
        self.assertEqual(result["status"], "timed_out")
        result = self.ready.run("while True: pass", "python", cpu_seconds=1)
        self.assertEqual(result["error"]["details"]["limit"], "cpu_seconds")


class Places(unittest.TestCase):
    """Sandboxes ready, or in the making, never keep a run from its place."""

    def test_few_places_and_many_kinds(self):
        config = "pool:\n  ready: 2\n  idle_ms: 2000\nnode:\n  max_sandboxes: 2\n"
        with harness.Server(config=config) as server:
            for number in range(40):
                for language, code in (("python", f"print({number})"), ("bash", f"echo {number}")):
                    done = server.run(code, language)
                    self.assertEqual((done["error"], done["stdout"]), (None, f"{number}\n"), done["status"])


if __name__ == "__main__":
    unittest.main()
