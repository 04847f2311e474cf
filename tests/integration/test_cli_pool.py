#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""`cloister pool`: the ready sandboxes, once and live."""

import json
import os
import signal
import unittest

from harness import wait_for
from test_cli import WithServer


class Pool(WithServer):
    def test_shows_what_there_is(self):
        def told():
            done = self.cli("pool", "--json")  # fails until the node has told
            return done.returncode == 0 and json.loads(done.stdout)

        claims = sum(wait_for("the pool to be told", told)["claims"].values())
        self.cli("run", "-c", "print(1)")
        wait_for("the claim", lambda: sum(told()["claims"].values()) > claims)
        text = self.good("pool")
        for word in ("claims", "99 % within", "refill", "zygotes", "teardown"):
            self.assertIn(word, text)
        key = self.good("key", "create", "--tenant", "acme").strip()
        refused = self.cli("pool", env={"CLOISTER_API_KEY": key})
        self.assertEqual(refused.returncode, 3)
        self.assertIn("ask an administrator", refused.stderr)

    def test_is_watched_until_interrupted(self):
        wait_for("the pool to be told", lambda: self.cli("pool").returncode == 0)
        self.cli("run", "-c", "print(1)")
        watcher = self.start("pool", "--watch", "--json")

        def claims():
            return sum(json.loads(watcher.stdout.readline())["claims"].values())
        while not claims():
            pass
        os.kill(self.server.pid_of("cloister-node"), signal.SIGKILL)
        while claims():  # another node counts anew
            pass
        self.server.wait_ready()
        watcher.send_signal(signal.SIGINT)
        self.assertEqual(watcher.wait(10), 130)
        watcher = self.start("pool", "--watch")
        self.assertTrue(watcher.stdout.readline().startswith(b"live: "))
        watcher.stdout.close()
        self.assertEqual(watcher.wait(10), 141)


if __name__ == "__main__":
    unittest.main()
