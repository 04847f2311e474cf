# SPDX-License-Identifier: Apache-2.0
"""The disk's content: the raw bytes of the state directory, searched for known contents."""

import base64
import hashlib
import os
import stat
import tempfile
import unittest

import harness
from session_case import Session

# Makes the text within the sandbox from the request's seed, so that only the program ever has the text.
MAKE = "import hashlib, sys\ntext = (hashlib.sha256(b'{seed}').hexdigest() + '-') * 50\n"


def text_of(seed):
    """A part of the text made by MAKE."""
    return hashlib.sha256(seed.encode()).hexdigest().encode()


def spellings(text):
    """Encodings of the text: plain, in hex, and in base64 at each alignment."""
    yield text
    yield text.hex().encode()
    yield text.hex().upper().encode()
    for skip in range(3):
        encoded = base64.b64encode(b"\0" * skip + text + b"\0" * 3)
        yield encoded[4:-8]  # without the bytes that depend on the neighbours


def holders(state, text):
    """The files of the state directory with the text in any spelling."""
    wanted = list(spellings(text))
    found = set()
    for base, _, names in os.walk(state):
        for name in names:
            path = os.path.join(base, name)
            try:
                if stat.S_ISSOCK(os.lstat(path).st_mode):
                    continue
                with open(path, "rb") as file:
                    data = file.read()
            except FileNotFoundError:
                continue  # a removed journal
            if any(each in data for each in wanted):
                found.add(os.path.relpath(path, state))
    return found


class AtRest(unittest.TestCase):
    def test_contents_are_not_on_the_disk(self):
        with harness.Server() as server:
            run = os.urandom(8).hex()
            seeds = {what: f"{what}-{run}" for what in ("artifact", "workspace", "snapshot", "output", "shown", "cell")}
            given = {what: os.urandom(24).hex() for what in ("upload", "file", "code", "env", "input", "metadata")}
            known = os.urandom(24).hex()  # a search key, which the ledger has in plain text

            kept = server.run(MAKE.format(seed=seeds["artifact"]) + "open('kept.txt', 'w').write(text)", artifacts=["**"])
            self.assertEqual([each["path"] for each in kept["artifacts"]], ["kept.txt"])
            server.run(MAKE.format(seed=seeds["workspace"]) + "open('gone.txt', 'w').write(text)", artifacts=[])
            long = server.run(MAKE.format(seed=seeds["output"]) + "print('x' * 2000); print(text * 20)",
                              max_output_bytes=1024, artifacts=[])
            self.assertTrue(long["stdout_truncated"])
            self.assertIsNotNone(long.get("stdout_artifact"), "past the cap it is an artifact")
            server.run(MAKE.format(seed=seeds["shown"]) + f"print(text[:64])  # {given['code']}", artifacts=[],
                       env={"SECRET": given["env"]}, input=given["input"], metadata={"note": given["metadata"]})
            answer = server.request("POST", "/v1/executions?wait=30", {"language": "bash", "code": "true"},
                                    headers={"Idempotency-Key": known})
            self.assertEqual(answer.json()["status"], "completed")
            answer = server.request("POST", "/v1/artifacts?path=up.txt", given["upload"].encode() * 100)
            self.assertEqual(answer.status, 201)
            with Session(server, language="python") as session:
                done = session.exec(MAKE.format(seed=seeds["snapshot"]) + "open('in.txt', 'w').write(text)")
                self.assertEqual(done["exit_code"], 0, done)
                session.call("PUT", "/files/up.txt", given["file"].encode() * 100, status=200)
                session.call("POST", "/snapshots", status=201)
                done = session.exec(MAKE.format(seed=seeds["cell"]) + "text", kernel=None)
                self.assertIn(text_of(seeds["cell"]).decode(), str(done["results"]))
                self.look(server, seeds, given, known)
            self.look(server, seeds, given, known)
            server.stop()
            self.look(server, seeds, given, known)

    def look(self, server, seeds, given, known):
        self.assertEqual({os.path.dirname(each) for each in holders(server.state, known.encode())}, {"ledger"},
                         "the search finds what is there")
        for what, seed in seeds.items():
            self.assertEqual(holders(server.state, text_of(seed)), set(), what)
        for what, text in given.items():
            self.assertEqual(holders(server.state, text.encode()), set(), what)

    def test_the_search_finds_each_spelling(self):
        text = text_of("any")
        for spell in (lambda b: b, lambda b: b.hex().encode(), lambda b: b.hex().upper().encode(),
                      *(lambda b, n=n: base64.b64encode(b"y" * n + b + b"tail") for n in range(3))):
            with tempfile.TemporaryDirectory() as folder, self.subTest(spell(b"x" + text)[:12]):
                with open(os.path.join(folder, "held"), "wb") as file:
                    file.write(b"before" + spell(text) + b"after")
                self.assertEqual(holders(folder, text), {"held"})
                self.assertEqual(holders(folder, text_of("other")), set())


if __name__ == "__main__":
    unittest.main()
