# SPDX-License-Identifier: Apache-2.0
"""Pages of documentation whose examples are run: the shown output must be the real output."""

import os
import re
import subprocess

import harness


def steps_of(page):
    """[command, its output], of the page's console blocks; lines with "> " continue a command."""
    steps = []
    for line in "".join(re.findall(r"^```console\n(.*?)^```", page.read_text(), re.MULTILINE | re.DOTALL)).splitlines():
        if line.startswith("$ "):
            steps.append([line[2:], ""])
        elif line.startswith("> "):
            steps[-1][0] += "\n" + line[2:]
        else:
            steps[-1][1] += line + "\n"
    return steps


def assert_true(test, page, server, folder="."):
    """Runs the page's steps in a shell, whose `cloister` speaks to `server`. "…" stands for anything."""
    steps = steps_of(page)
    test.assertGreater(len(steps), 7)
    script = "".join(f"{command}\necho '--- end of step'\n" for command, _ in steps)
    env = {**server._environment(), "CLOISTER_URL": server.url, "CLOISTER_API_KEY": server.key,
           "PATH": f"{harness.BIN}:{os.environ['PATH']}"}
    done = subprocess.run(["bash", "-c", f"exec 2>&1\ncd {folder}\n{script}"], env=env, capture_output=True, text=True,
                          timeout=120, stdin=subprocess.DEVNULL, check=False)
    said = done.stdout.split("--- end of step\n")
    test.assertEqual(len(said), len(steps) + 1, done.stdout)
    for (command, expected), actual in zip(steps, said):
        pattern = ".*".join(map(re.escape, expected.split("…")))
        test.assertTrue(re.fullmatch(pattern, actual, re.DOTALL), f"$ {command}\n{actual}\nexpected:\n{expected}")
