# SPDX-License-Identifier: Apache-2.0
"""kill -9 of the control plane or the node at random moments of snapshots, deletions and
restorations: an acknowledged snapshot restores to what was taken, and no blob lies about that nothing
names (I3, I5, F16)."""
import contextlib
import http.client
import os
import pathlib
import random
import signal
import sys
import threading
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "integration"))
import harness  # noqa: E402
from session_case import Session  # noqa: E402

ROUNDS = 40 if harness.LONG else 5
SEED = int(os.environ.get("CLOISTER_SEED", random.randrange(1 << 32)))
CLIENTS = 2
DIGEST = "find . -type f | sort | xargs sha256sum | sha256sum"
# A third of it is the same in all, so that some chunks have several snapshots.
MAKE = ("head -c 3000000 /dev/zero | tr '\\0' 'c' > common; head -c {size} /dev/urandom > own; "
        "for n in $(seq 100); do echo $n {size} > small$n; done")


class Taker(threading.Thread):
    """Takes, restores and deletes without pause; remembers what was acknowledged."""

    def __init__(self, server, number):
        super().__init__()
        self.server, self.random = server, random.Random(f"{SEED}-{number}")
        self.kept, self.deleted, self.stopping, self.wrong = {}, set(), threading.Event(), []

    def run(self):
        while not self.stopping.is_set():
            # Whatever ends a session or an answer is what the kills are for.
            with contextlib.suppress(OSError, http.client.HTTPException, AssertionError):
                with Session(self.server, language="bash", memory_mb=128) as session:
                    self.use(session)
            time.sleep(0.05)

    def use(self, session):
        for _ in range(6):
            if self.stopping.is_set():
                return
            size = self.random.choice((10, 400_000, 5_000_000))
            done = session.exec(command=["sh", "-c", f"{MAKE.format(size=size)}; {DIGEST}"])
            if (done["status"], done["exit_code"]) != ("completed", 0):
                return
            answer = session.call("POST", "/snapshots", {})
            if answer.status != 201:
                return
            made = answer.json()["id"]
            self.kept[made] = done["stdout"]
            if self.random.random() < 0.3:
                self.delete()
            if self.random.random() < 0.3:
                self.wrong += restored(self.server, *self.random.choice(list(self.kept.items())))

    def delete(self):
        made = self.random.choice(list(self.kept))
        digest = self.kept.pop(made)
        answer = self.server.request("DELETE", f"/v1/snapshots/{made}")
        if answer.status == 204:
            self.deleted.add(made)
        else:
            self.kept[made] = digest


def restored(server, snapshot, digest):
    """What is wrong with it; nothing while it could not be made for another reason."""
    answer = server.request("POST", "/v1/sessions", {"language": "bash", "memory_mb": 128, "from_snapshot": snapshot})
    if answer.status == 409 or answer.status == 404:
        return [f"{snapshot}: {answer.body[:500]}"]
    if answer.status != 201:
        return []
    path = f"/v1/sessions/{answer.json()['id']}"
    try:
        done = server.request("POST", f"{path}/exec?wait=60", {"command": ["sh", "-c", DIGEST]}).json()
        if done.get("status") == "completed" and done["stdout"] != digest:
            return [f"{snapshot}: it has other files: {done['stdout']} instead of {digest}"]
        return []
    finally:
        server.request("DELETE", path)


class Snapshots(unittest.TestCase):
    def setUp(self):
        print(f"CLOISTER_SEED={SEED}", file=sys.stderr)
        self.server = harness.Server()
        self.enterContext(self.server)

    def kill(self, part):
        victim = self.server.pid_of(part)
        os.kill(victim, signal.SIGKILL)

        def back():
            with contextlib.suppress(AssertionError, OSError, http.client.HTTPException):
                return self.server.pid_of(part) != victim and self.server._answers_ready()
            return False

        harness.wait_for(f"{part} to be back", back, 60)

    def test_kill_during_snapshots(self):
        moments = random.Random(SEED)
        takers = [Taker(self.server, number) for number in range(CLIENTS)]
        for taker in takers:
            taker.start()
        try:
            harness.wait_for("a first snapshot", lambda: any(taker.kept or taker.deleted for taker in takers), 60)
            for _ in range(ROUNDS):
                time.sleep(moments.uniform(0.3, 2.0))  # the moment is what is random
                self.kill(moments.choice(("cloisterd", "cloisterd", "cloister-node")))
        finally:
            for taker in takers:
                taker.stopping.set()
            for taker in takers:
                taker.join()
        self.kill("cloisterd")
        self.check(takers)

    def check(self, takers):
        acknowledged = {k: v for taker in takers for k, v in taker.kept.items()}
        deleted = set().union(*(taker.deleted for taker in takers))
        self.assertEqual([each for taker in takers for each in taker.wrong], [])
        listed = {each["id"]: each for each in self.listed()}
        self.assertLessEqual(set(acknowledged), set(listed))
        self.assertFalse(deleted & set(listed))
        self.assertGreater(len(acknowledged) + len(deleted), 0)
        for snapshot, digest in acknowledged.items():
            self.assertEqual(restored(self.server, snapshot, digest), [])
        for snapshot in listed:  # those too whose acknowledgement was lost are whole, until they go
            self.assertEqual(self.server.request("DELETE", f"/v1/snapshots/{snapshot}").status, 204)
        blobs = pathlib.Path(self.server.state) / "blobs"
        self.assertEqual(list(blobs.glob("*/tmp/*")), [])
        harness.wait_for("retention to collect what nothing names", lambda: list(blobs.glob("*/??/*")) == [], 150)
        self.assertTrue(self.server.request("GET", "/v1/audit/verify").json()["ok"])

    def listed(self):
        cursor = ""
        while cursor is not None:
            page = self.server.request("GET", f"/v1/snapshots?limit=500{cursor and '&' + harness.query(cursor=cursor)}").json()
            yield from page["snapshots"]
            cursor = page["next_cursor"]


if __name__ == "__main__":
    unittest.main()
