# SPDX-License-Identifier: Apache-2.0
"""kill -9 of the control plane or the node at random moments of snapshots, deletions and restorations: an
acknowledged snapshot restores to the original, and no unnamed blob is left (I3, I5, F16)."""
import contextlib
import os
import pathlib
import random
import sys
import threading
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "integration"))
import harness  # noqa: E402
import invariants  # noqa: E402
from load import EXPLAINED, Refused, ask, kill_part  # noqa: E402

ROUNDS = 40 if harness.LONG else 5
SEED = int(os.environ.get("CLOISTER_SEED", random.randrange(1 << 32)))
CLIENTS = 2
# The interval of removing unnamed content: shorter than the default, and within the test's wait.
CONFIG = "retention:\n  every_seconds: 1\n"
SESSION = {"language": "bash", "memory_mb": 128}
DIGEST = "find . -type f | sort | xargs sha256sum | sha256sum"
# A third of the content is the same in all, so that snapshots share some chunks.
MAKE = ("head -c 3000000 /dev/zero | tr '\\0' 'c' > common; head -c {size} /dev/urandom > own; "
        "for n in $(seq 100); do echo $n {size} > small$n; done")


class Taker(threading.Thread):
    """Takes, restores and deletes without pause; remembers the acknowledged."""

    def __init__(self, server, number):
        super().__init__()
        self.server, self.random = server, random.Random(f"{SEED}-{number}")
        self.kept, self.deleted, self.stopping, self.wrong = {}, set(), threading.Event(), []

    def run(self):
        while not self.stopping.is_set():
            with contextlib.suppress(*EXPLAINED):
                made = ask(self.server, "POST", "/v1/sessions", SESSION, status=201).json()
                with contextlib.suppress(*EXPLAINED):
                    self.use(f"/v1/sessions/{made['id']}")
                ask(self.server, "DELETE", f"/v1/sessions/{made['id']}")
            self.stopping.wait(0.05)

    def use(self, session):
        for _ in range(6):
            if self.stopping.is_set():
                return
            size = self.random.choice((10, 400_000, 5_000_000))
            command = ["sh", "-c", f"{MAKE.format(size=size)}; {DIGEST}"]
            done = ask(self.server, "POST", f"{session}/exec?wait=60", {"command": command}).json()
            if done["status"] == "failed":
                assert done["error"]["type"] in invariants.LOSSES, done
                return
            assert (done["status"], done["exit_code"]) == ("completed", 0), done
            made = ask(self.server, "POST", f"{session}/snapshots", {}, status=201).json()["id"]
            self.kept[made] = done["stdout"]
            if self.random.random() < 0.3:
                self.delete()
            if self.kept and self.random.random() < 0.3:
                self.wrong += restored(self.server, *self.random.choice(list(self.kept.items())))

    def delete(self):
        """If the answer is lost, nothing is known any more."""
        made = self.random.choice(list(self.kept))
        digest = self.kept.pop(made)
        try:
            ask(self.server, "DELETE", f"/v1/snapshots/{made}", status=204)
            self.deleted.add(made)
        except Refused:
            self.kept[made] = digest


def restored(server, snapshot, digest):
    """The differences to the original. Raises an exception of EXPLAINED while a part is down."""
    answer = server.request("POST", "/v1/sessions", {**SESSION, "from_snapshot": snapshot})
    if answer.status in (429, 503):
        raise Refused(answer.status, answer.body)
    if answer.status != 201:
        return [f"{snapshot}: {answer.status} {answer.body[:500]}"]
    path = f"/v1/sessions/{answer.json()['id']}"
    done = ask(server, "POST", f"{path}/exec?wait=60", {"command": ["sh", "-c", DIGEST]}).json()
    ask(server, "DELETE", path)
    if done["status"] == "failed" and done["error"]["type"] in invariants.LOSSES:
        raise Refused(done["error"])
    if (done["status"], done["stdout"]) != ("completed", digest):
        return [f"{snapshot}: it has other files: {done} instead of {digest}"]
    return []


class Snapshots(unittest.TestCase):
    def setUp(self):
        print(f"CLOISTER_SEED={SEED}", file=sys.stderr)
        self.server = harness.Server(CONFIG)
        self.enterContext(self.server)

    def test_kill_during_snapshots(self):
        moments = random.Random(SEED)
        takers = [Taker(self.server, number) for number in range(CLIENTS)]
        for taker in takers:
            taker.start()
        try:
            harness.wait_for("a first snapshot of each", lambda: all(taker.kept or taker.deleted for taker in takers), 60)
            for _ in range(ROUNDS):
                time.sleep(moments.uniform(0.3, 2.0))  # the moment is random
                kill_part(self.server, moments.choice(("cloisterd", "cloisterd", "cloister-node")))
        finally:
            for taker in takers:
                taker.stopping.set()
            for taker in takers:
                taker.join()
        kill_part(self.server, "cloisterd")
        self.check(takers)

    def check(self, takers):
        acknowledged = {k: v for taker in takers for k, v in taker.kept.items()}
        deleted = set().union(*(taker.deleted for taker in takers))
        self.assertEqual([each for taker in takers for each in taker.wrong], [])
        listed = {each["id"]: each for each in self.listed()}
        self.assertLessEqual(set(acknowledged), set(listed))
        self.assertFalse(deleted & set(listed))
        self.assertGreaterEqual(len(acknowledged) + len(deleted), CLIENTS)
        for snapshot, digest in acknowledged.items():
            self.assertEqual(restored(self.server, snapshot, digest), [])
        for snapshot in listed:  # snapshots with a lost acknowledgement are whole too, until they go
            self.assertEqual(self.server.request("DELETE", f"/v1/snapshots/{snapshot}").status, 204)
        blobs = pathlib.Path(self.server.state) / "blobs"
        self.assertEqual(list(blobs.glob("*/tmp/*")), [])
        harness.wait_for("retention to collect what nothing names", lambda: list(blobs.glob("*/??/*")) == [], 30)
        self.assertTrue(self.server.request("GET", "/v1/audit/verify").json()["ok"])

    def listed(self):
        cursor = ""
        while cursor is not None:
            page = self.server.request("GET", f"/v1/snapshots?limit=500{cursor and '&' + harness.query(cursor=cursor)}").json()
            yield from page["snapshots"]
            cursor = page["next_cursor"]


if __name__ == "__main__":
    unittest.main()
