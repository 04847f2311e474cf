# SPDX-License-Identifier: Apache-2.0
"""kill -9 of the control plane at random moments of uploads and deletions: acknowledged uploads read back with their
digests, listed artifacts are readable, deleted artifacts stay deleted, and no unnamed blob is left (I5)."""
import contextlib
import hashlib
import os
import pathlib
import random
import socket
import sys
import threading
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "integration"))
import harness  # noqa: E402
from load import EXPLAINED, Refused, ask, kill_part  # noqa: E402

ROUNDS = 60 if harness.LONG else 6
SEED = int(os.environ.get("CLOISTER_SEED", random.randrange(1 << 32)))
CLIENTS = 4
# The interval of removing unnamed content: shorter than the default, and within the test's wait.
CONFIG = "retention:\n  every_seconds: 1\n"
SIZES = (0, 1, 1000, 65_536, 65_537, 400_000, 3_000_000)


class Uploader(threading.Thread):
    """Uploads without pause, and deletes one of three; remembers the acknowledged."""

    def __init__(self, server, number):
        super().__init__()
        self.server, self.random = server, random.Random(f"{SEED}-{number}")
        self.kept, self.deleted, self.stopping = {}, set(), threading.Event()

    def run(self):
        while not self.stopping.is_set():
            with contextlib.suppress(*EXPLAINED):
                self.upload()

    def upload(self):
        # A small pool of contents, so that some blobs have several artifacts.
        body = f"{self.random.randrange(6)}-".encode() * 3
        body = (body * (self.random.choice(SIZES) // len(body) + 1))[: self.random.choice(SIZES)]
        if self.random.random() < 0.2:
            return self.break_off(body)
        pieces = iter([body[:40_000], body[40_000:]]) if self.random.random() < 0.5 else body
        made = ask(self.server, "POST", "/v1/artifacts?path=x", pieces, status=201).json()
        self.kept[made["id"]] = hashlib.sha256(body).hexdigest()
        if self.random.random() > 0.3:
            return
        digest = self.kept.pop(made["id"])  # after a lost answer nothing is known any more
        try:
            ask(self.server, "DELETE", f"/v1/artifacts/{made['id']}", status=204)
            self.deleted.add(made["id"])
        except Refused:
            self.kept[made["id"]] = digest

    def break_off(self, body):
        """A named upload that is kept, and never resumed."""
        name = f"kept-{self.random.randrange(4)}"
        with socket.create_connection((self.server.host, self.server.port), timeout=30) as client:
            client.sendall(f"POST /v1/artifacts?path=x&upload={name} HTTP/1.1\r\nHost: localhost\r\n"
                           f"X-API-Key: {self.server.key}\r\nContent-Length: {len(body) + 1}\r\n\r\n".encode() + body)


class Uploads(unittest.TestCase):
    def setUp(self):
        print(f"CLOISTER_SEED={SEED}", file=sys.stderr)
        self.server = harness.Server(CONFIG)
        self.enterContext(self.server)

    def test_kill_during_uploads(self):
        moments = random.Random(SEED)
        uploaders = [Uploader(self.server, number) for number in range(CLIENTS)]
        for uploader in uploaders:
            uploader.start()
        try:
            for _ in range(ROUNDS):
                time.sleep(moments.uniform(0.05, 0.8))  # the moment is random
                kill_part(self.server, "cloisterd")
        finally:
            for uploader in uploaders:
                uploader.stopping.set()
            for uploader in uploaders:
                uploader.join()
        kill_part(self.server, "cloisterd")
        self.check(uploaders)

    def check(self, uploaders):
        acknowledged = {k: v for uploader in uploaders for k, v in uploader.kept.items()}
        deleted = set().union(*(uploader.deleted for uploader in uploaders))
        self.assertGreater(len(acknowledged), ROUNDS)
        listed = {each["id"]: each for each in self.listed()}
        self.assertLessEqual(set(acknowledged), set(listed))
        self.assertFalse(deleted & set(listed))
        for identifier, digest in acknowledged.items():
            self.assertEqual(listed[identifier]["sha256"], digest)
        for digest, identifier in {each["sha256"]: each["id"] for each in listed.values()}.items():
            answer = self.server.request("GET", f"/v1/artifacts/{identifier}/content")
            self.assertEqual(hashlib.sha256(answer.body).hexdigest(), digest)
        blobs = pathlib.Path(self.server.state) / "blobs"
        self.assertEqual(list(blobs.glob("*/tmp/*")), [])
        wanted = len({each["sha256"] for each in listed.values()})
        harness.wait_for("retention to collect what deletions left",
                         lambda: len(list(blobs.glob("*/??/*"))) == wanted, 30)
        self.assertTrue(self.server.request("GET", "/v1/audit/verify").json()["ok"])

    def listed(self):
        cursor = ""
        while cursor is not None:
            page = self.server.request("GET", f"/v1/artifacts?limit=500{cursor and '&' + harness.query(cursor=cursor)}").json()
            yield from page["artifacts"]
            cursor = page["next_cursor"]


if __name__ == "__main__":
    unittest.main()
