# SPDX-License-Identifier: Apache-2.0
"""/v1/sessions/{id}/files:watch and `cloister session watch`: events, readers, and refusals."""

import contextlib
import json
import subprocess
import threading
import unittest

import api_case
import harness
from api_case import ApiTest
from session_case import Session

CONFIG = api_case.CONFIG + """session:
  max_watches: 2
  watch_directories: 16
  watch_bytes: 65536
  watch_linger_seconds: 5
"""


def setUpModule():
    ApiTest.server = harness.Server(config=CONFIG)
    unittest.enterModuleContext(ApiTest.server)


class Watcher:
    """A reader in a thread: its events without heartbeats, as (event, path, id)."""

    def __init__(self, server, session, last=None, **query):
        self.came, self._changed, self.failure = [], threading.Condition(), None
        self._stream = server.events(f"{session.path}/files:watch?{harness.query(**query)}", last)
        self._over = False
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self):
        try:
            for event, event_id, data in self._stream:
                if self._over:
                    break
                if event != "heartbeat":
                    with self._changed:
                        self.came.append((event, data.get("from", "") + ">" + data["path"] if event == "moved"
                                          else data.get("path", data.get("reason")), event_id))
                        self._changed.notify()
        except Exception as error:  # noqa: BLE001 (told by wait())
            self.failure = error
        finally:
            with contextlib.suppress(ValueError):
                self._stream.close()

    def wait(self, event, *paths):
        """The id of the first such event with any of these paths."""
        def found():
            return next((each[2] for each in self.came if each[0] == event and each[1] in paths), None)
        with self._changed:
            assert self._changed.wait_for(found, 20), (event, paths, self.came[-20:], self.failure)
            return found()

    def said(self):
        return [each[:2] for each in self.came]

    def leave(self):
        """At the next heartbeat at the latest."""
        self._over = True
        self._thread.join(10)


class Watch(ApiTest):
    def setUp(self):
        self.session = Session(self.server, self.call, language="bash", memory_mb=64)
        self.addCleanup(self.session.end)

    def watch(self, last=None, session=None, **query):
        watcher = Watcher(self.server, session or self.session, last, **query)
        self.addCleanup(watcher.leave)
        return watcher

    def sh(self, script):
        done = self.session.exec(script, timeout_seconds=55)  # thousands of files, beside builds
        self.assertEqual(done["exit_code"], 0, done)

    def test_tells_what_happens(self):
        watcher = self.watch(recursive="true")
        watcher.wait("ready", "")
        self.session.call("PUT", "/files/in/a.txt", b"1", status=200)
        watcher.wait("created", "in/a.txt")
        self.session.call("PUT", "/files/in/a.txt", b"2", status=200)
        watcher.wait("modified", "in/a.txt")
        self.session.call("POST", "/files:move", {"from": "in/a.txt", "to": "b.txt"}, status=204)
        watcher.wait("moved", "in/a.txt>b.txt")
        self.sh("printf x > $'new\\nline'; printf y > $'\\xff'; rm b.txt; mkdir -p x/y; mv x z; touch z/y/deep")
        watcher.wait("removed", "b.txt")
        watcher.wait("created", "new%0Aline")
        watcher.wait("created", "%FF")
        watcher.wait("moved", "x>z")
        # The file may have been found before the report of the move.
        watcher.wait("created", "z/y/deep", "x/y/deep")
        self.assertFalse(any("cloister-upload" in str(path) for _, path in watcher.said()))

    def test_many_readers_and_one_that_comes_back(self):
        readers = [self.watch() for _ in range(8)]
        for reader in readers:
            reader.wait("ready", "")
        self.sh("touch one")
        ids = {reader.wait("created", "one") for reader in readers}
        self.assertEqual(len(ids), 1, "all of them see the same")
        for reader in readers:
            reader.leave()
        self.sh("touch two")  # nobody reads now
        again = self.watch(last=ids.pop())
        again.wait("created", "two")
        self.assertNotIn("overflow", [event for event, _ in again.said()])
        stranger = self.watch(last="0011223344556677.3")
        stranger.wait("overflow", "")
        self.assertEqual(self.server.request("GET", self.session.path + "/files:watch?last_event_id=x").status, 400)
        ended = self.server.request("GET", self.session.path + "/files:watch?last_event_id=a.1.end")
        self.assertEqual(ended.status, 204)

    def test_says_what_it_leaves_out(self):
        self.sh("for n in {1..30}; do mkdir d$n; done")
        watcher = self.watch(recursive="true")
        watcher.wait("ready", "")
        harness.wait_for("limits", lambda: sum(event == "limit" for event, _ in watcher.said()) >= 15)
        # More at once than is kept: no reader receives all of it, and every reader receives a notice.
        self.sh("name=$(printf 'x%.0s' {1..200}); for n in {1..2000}; do : > $name$n; done; rm $name*")
        tries = iter(range(100))
        def heard():  # the first may be among the skipped
            self.sh(f"touch last{next(tries)}")
            return any(event == "created" and path.startswith("last") for event, path in watcher.said())
        harness.wait_for("what comes after", heard, 20, every=0.3)
        events = [event for event, _ in watcher.said()]
        if "overflow" in events:
            self.assertIn("limit", events[events.index("overflow"):])
        else:  # a reader fast enough
            self.assertGreaterEqual(events.count("created"), 2000)

    def test_bounds_and_refusals(self):
        self.sh("mkdir a b c; touch f; ln -s a link")
        a, _ = self.watch(path="a"), self.watch(path="b")
        a.wait("ready", "a")
        harness.wait_for("both", lambda: _.said())
        answer = self.server.request("GET", self.session.path + "/files:watch?path=c")
        self.assertEqual(answer.status, 429)
        self.assertIn("session.max_watches", answer.text)
        a.leave()
        def third():
            watcher = self.watch(path="c")
            return watcher if harness.wait_for("an answer", lambda: watcher.said() or watcher.failure) and not watcher.failure else None
        harness.wait_for("a place", third)

    def test_refuses_what_is_no_directory(self):
        self.sh("mkdir a; touch f; ln -s a link")
        for path, status in (("gone", 404), ("f", 409), ("link", 409), ("../etc", 400), ("/etc", 400)):
            with self.subTest(path):
                target = f"{self.session.path}/files:watch?{harness.query(path=path)}"
                self.assertEqual(self.call("GET", target).status, status)
        self.call("GET", self.session.path + "/files:watch?recursive=maybe", status=400)
        other = self.new_key("other")["secret"]
        self.call("GET", self.session.path + "/files:watch", key=other, status=404)

    def test_ends_with_its_directory_and_its_session(self):
        self.sh("mkdir d")
        inner, outer = self.watch(path="d"), self.watch()
        inner.wait("ready", "d")
        outer.wait("ready", "")
        self.sh("rmdir d")
        inner.wait("removed", "d")
        inner.wait("end", "the directory is gone")
        self.session.end()
        harness.wait_for("the end", lambda: outer.said()[-1][0] == "end")

    def test_with_the_command_line(self):
        env = {**self.server._environment(), "CLOISTER_URL": self.server.url, "CLOISTER_API_KEY": self.server.key}
        command = [self.server.bin / "cloister", "session", "watch", self.session.id, "-r"]
        with subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as lines, \
                subprocess.Popen([*command, "--json"], env=env, stdout=subprocess.PIPE, text=True) as objects:
            try:
                self.assertEqual(lines.stdout.readline(), "ready .\n")
                self.assertEqual(json.loads(objects.stdout.readline()), {"event": "ready", "data": {"path": ""}})
                self.sh("touch a; mv a b")
                # The program's own file comes and goes too.
                self.assertIn("created a\n", iter(lines.stdout.readline, ""))
                self.assertIn("moved a -> b\n", iter(lines.stdout.readline, ""))
                moved = {"event": "moved", "data": {"path": "b", "from": "a", "directory": False}}
                self.assertIn(moved, map(json.loads, iter(objects.stdout.readline, "")))
                self.session.end()
                self.assertEqual(lines.wait(20), 0)
                self.assertIn("end: ", lines.stdout.read())
            finally:
                lines.kill()
                objects.kill()


if __name__ == "__main__":
    unittest.main()
