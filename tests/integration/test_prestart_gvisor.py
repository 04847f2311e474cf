# SPDX-License-Identifier: Apache-2.0
"""Interpreters that wait in gVisor before their code is there: no program can tell."""

import os
import unittest

import harness
from test_prestart import IS_COPY, PYTHON, outcome

# Programs that can distinguish an interpreter waiting alone in gVisor from a start with the code; the others cannot
# distinguish it from a copy.
ALONE = ("hello", "no newline, two lines", "globals", "arguments", "environment", "streams", "descriptors", "process",
         "no input", "traceback", "syntax error", "exit 3", "exit text", "exit negative", "os._exit", "atexit",
         "own signal", "interrupt", "threads", "daemon thread", "thread outlives main", "subprocess", "run itself",
         "fork", "modules", "frames", "recursion limit", "deleted at the end", "module deleted at the end",
         "its own source", "file of the workspace", "closed stdout", "main thread", "limits")


@unittest.skipUnless(os.path.exists("/usr/bin/runsc"), "no /usr/bin/runsc: install Debian's from backports")
class InGvisor(unittest.TestCase):
    maxDiff = 4000

    def run_on(self, server, code, language="python"):
        return server.run(code, language, runtime="gvisor")

    def until(self, server, code, language="python"):
        """Returns once a run finds its interpreter waiting; the next is made meanwhile."""
        harness.wait_for("an interpreter that stands ready",
                         lambda: self.run_on(server, code, language)["stdout"].lower() == "true\n", 120, every=1)

    def test_python_that_waits_alone_is_as_one_that_starts_with_its_code(self):
        kept = f"gvisor:\n  ready: 2\npool:\n  idle_ms: 60000\n{harness.CALM}"
        with harness.Server(config=kept) as ready, harness.Server(config="gvisor:\n  ready: 0\n") as cold:
            self.until(ready, IS_COPY)
            for name in ALONE if harness.LONG else ALONE[::3]:  # each is two starts of a kernel
                with self.subTest(name):
                    self.assertEqual(outcome(self.run_on(ready, PYTHON[name])), outcome(self.run_on(cold, PYTHON[name])))
            self.until(ready, IS_COPY)

    def test_node_has_opened_its_stdout(self):
        with harness.Server(config=f"gvisor:\n  ready: 2\npool:\n  idle_ms: 60000\n{harness.CALM}") as server:
            if not harness.have_language(server, "node"):
                self.skipTest("the toolchain of node is not on this machine")
            self.until(server, "console.log(process.getActiveResourcesInfo().length > 0)", "node")


if __name__ == "__main__":
    unittest.main()
