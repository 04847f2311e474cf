#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Blobs in a bucket (artifacts.s3), against OpenStack Swift: artifacts, snapshots, outputs of runs, faults of the store, and every
setting."""

import contextlib
import hashlib
import http.client
import json
import os
import pathlib
import re
import ssl
import subprocess
import tempfile
import threading
import unittest

import harness
import s3_case
from session_case import Session

MIB = 1 << 20


def setUpModule():
    global BUCKET
    BUCKET = s3_case.Bucket()
    unittest.addModuleCleanup(BUCKET.close)


def content(size, seed=b"seed"):
    return (hashlib.sha256(seed).hexdigest().encode() * (size // 64 + 1))[:size]


def sending(server, body):
    """An upload in a thread; it may fail."""
    def send():
        with contextlib.suppress(OSError, http.client.HTTPException):
            server.request("POST", "/v1/artifacts?path=x", body, timeout=60)

    thread = threading.Thread(target=send)
    thread.start()
    return thread


class Case(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.folder.chmod(0o755)
        self.prefix = f"p-{os.urandom(6).hex()}"
        self.front = BUCKET.front()
        self.addCleanup(self.front.close)

    def config(self, front=None, **more):
        return BUCKET.config(front or self.front, self.folder, **{"prefix": self.prefix, **more})

    def serve(self, front=None, env=None, tail="", **more):
        return self.enterContext(harness.Server(self.config(front, **more) + tail, env=env))

    def put(self, server, body, status=201, key=None):
        answer = server.request("POST", "/v1/artifacts?path=file.txt", body, key=key)
        self.assertEqual(answer.status, status, answer.body[:1000])
        return answer.json()

    def get(self, server, artifact, status=200, headers=None):
        answer = server.request("GET", f"/v1/artifacts/{artifact['id']}/content", headers=headers)
        self.assertEqual(answer.status, status, answer.body[:1000])
        return answer.body

    def objects(self):
        return BUCKET.objects(self.prefix + "/")

    def files_of(self, server):
        """Files of blobs on the local disk."""
        return [path for path in (server.state / "blobs").rglob("*") if path.is_file() and path.name != "key"]


class Blobs(Case):
    def test_artifacts(self):
        server = self.serve(part_mb=5)
        body = content(11 * MIB)
        made = self.put(server, body)
        self.assertEqual(self.get(server, made), body)
        self.assertEqual(self.get(server, made, 206, {"Range": "bytes=6000000-6000099"}), body[6000000:6000100])
        self.assertEqual(self.get(server, made, 206, {"Range": "bytes=-10"}), body[-10:])
        self.assertEqual(self.files_of(server), [], "nothing stays on the local disk")
        (name,) = self.objects()
        self.assertNotIn(body[:64], BUCKET.content(name), "the content is encrypted")
        self.assertNotIn(made["sha256"][2:], name)
        self.assertEqual(server.request("DELETE", f"/v1/artifacts/{made['id']}").status, 204)
        self.assertEqual(self.objects(), [])

    def test_runs_and_a_restart(self):
        with harness.Server(self.config(), state=self.folder) as server:
            done = server.run("for i in range(40): open(f'f{i}', 'w').write(str(i) * 1000)\nprint('x' * 200000)",
                              max_output_bytes=1000)
            self.assertEqual(done["status"], "completed", done)
            self.assertEqual(len([a for a in done["artifacts"] if a["path"].startswith("f")]), 40)
        with harness.Server(self.config(), state=self.folder) as server:
            found = {each["path"]: each for each in done["artifacts"]}
            self.assertEqual(self.get(server, found["f7"]), b"7" * 1000)
            self.assertEqual(self.get(server, {"id": done["stdout_artifact"]}), b"x" * 200000 + b"\n")

    def test_snapshots(self):
        server = self.serve()
        session = Session(server)
        session.exec("import os\nopen('large', 'wb').write(os.urandom(3_000_000))\nopen('small', 'w').write('kept')")
        digest = session.exec("import hashlib\nprint(hashlib.sha256(open('large','rb').read()).hexdigest())")["stdout"]
        taken = server.request("POST", f"/v1/sessions/{session.id}/snapshots", {"name": "one"})
        self.assertEqual(taken.status, 201, taken.body)
        restored = Session(server, from_snapshot=taken.json()["id"])
        self.assertEqual(restored.exec("import hashlib\nprint(hashlib.sha256(open('large','rb').read()).hexdigest())")["stdout"], digest)
        removed = server.request("DELETE", f"/v1/snapshots/{taken.json()['id']}")
        self.assertEqual(removed.status, 204)
        harness.wait_for("the chunks to go", lambda: not self.objects())

    def test_forget(self):
        server = self.serve()
        key = server.request("POST", "/v1/keys", {"tenant": "gone", "name": "x", "roles": ["agent"]}).json()["secret"]
        self.put(server, b"of the tenant", key=key)
        mine = self.put(server, b"mine")
        self.assertEqual(len(self.objects()), 2)
        answer = server.request("DELETE", "/v1/tenants/gone/artifacts")
        self.assertEqual(answer.status, 200, answer.body)
        self.assertEqual(len(self.objects()), 1)
        self.assertEqual(self.get(server, mine), b"mine")

    def test_an_older_directory_moves_in(self):
        with harness.Server(state=self.folder) as server:
            made = self.put(server, b"from before")
            self.assertEqual(len(self.files_of(server)), 1)
        with harness.Server(self.config(), state=self.folder) as server:
            self.assertEqual(self.files_of(server), [])
            self.assertEqual(self.get(server, made), b"from before")
        self.assertEqual(len(self.objects()), 1)

    def test_a_killed_service_leaves_nothing_unnamed(self):
        with harness.Server(self.config(), state=self.folder) as server:
            self.front.break_with({"kind": "hang", "match": "PUT"})
            thread = sending(server, b"cut")
            harness.wait_for("the upload to reach the store", lambda: s3_case.lines(self.front.take_seen(), "PUT"))
            server.kill()
            thread.join()
            self.front.break_with()
            server.start()
            self.assertEqual(self.objects(), [])
            self.assertEqual(self.files_of(server), [])


class Faults(Case):
    def test_a_store_that_is_away(self):
        server = self.serve(attempts=2)
        made = self.put(server, content(300_000))
        self.front.break_with({"kind": "status", "status": 503, "count": 10_000})
        refused = self.put(server, b"x", 503)
        self.assertIn("HTTP status 503", json.dumps(refused))
        self.get(server, made, 503)
        done = server.run("open('f', 'w').write('x')\nprint('done')")
        self.assertEqual((done["status"], done["stdout"], done["artifacts"]), ("completed", "done\n", []))
        finding = self.finding(server)
        self.assertEqual(finding["state"], "missing")
        self.assertIn("503", finding["detail"])
        self.front.break_with()
        self.assertEqual(self.finding(server)["state"], "ok")
        self.assertEqual(self.get(server, made), content(300_000))

    def finding(self, server):
        answer = server.request("GET", "/v1/doctor").json()
        return next(each for each in answer["findings"] if each["name"] == "artifacts.s3")

    def test_others_do_not_wait_for_a_slow_store(self):
        server = self.serve()
        self.front.break_with({"kind": "hang", "match": "PUT", "count": 10_000})
        thread = sending(server, b"slow")
        harness.wait_for("the upload to hang", lambda: s3_case.lines(self.front.take_seen(), "PUT"))
        self.assertEqual(server.run("print(1)")["stdout"], "1\n")
        self.front.break_with()
        thread.join()

    def test_no_secret_is_told(self):
        server = self.serve()
        self.front.break_with({"kind": "tamper", "match": "PUT", "count": 100})
        told = json.dumps(self.put(server, b"what is signed", 503)) + server.log.read_text()
        self.assertIn("blob", told)
        self.assertNotIn(BUCKET.told["secret"], told)
        self.assertNotIn("Signature=", told)
        for pid in server.pids():
            self.assertNotIn(BUCKET.told["secret"].encode(), pathlib.Path(f"/proc/{pid}/cmdline").read_bytes())


class Settings(Case):
    def check(self, config, env=None):
        path = self.folder / "check.yaml"
        path.write_text(config)
        return subprocess.run([harness.BIN / "cloister", "serve", "--check", "--config", path, "--state", self.folder / "none"],
                              capture_output=True, text=True, timeout=60, env={"PATH": os.environ["PATH"], **(env or {})})

    def refused(self, config, text):
        done = self.check(config)
        self.assertNotEqual(done.returncode, 0, config)
        self.assertRegex(done.stdout + done.stderr, text)
        self.assertNotIn(BUCKET.told["secret"], done.stdout + done.stderr)

    def test_check_asks_the_bucket(self):
        good = self.check(self.config())
        self.assertEqual(good.returncode, 0, good.stderr)
        self.refused(self.config(bucket="no-such-bucket"), r"artifacts\.s3\.bucket")
        self.refused(self.config(endpoint=f"http://127.0.0.1:{harness.free_port()}"), r"artifacts\.s3.*127\.0\.0\.1")
        wrong = self.folder / "wrong"
        wrong.write_text("aws_access_key_id = cloister:service\naws_secret_access_key = wrong\n")
        self.refused(self.config(credentials_file=str(wrong)), r"SignatureDoesNotMatch.*artifacts\.s3\.credentials_file")
        self.refused(self.config(region="mars"), r"artifacts\.s3")

    def test_mistakes_are_named(self):
        for more, text in (({"endpoint": "ftp://x"}, r"artifacts\.s3\.endpoint: must be"), ({"endpoint": "http://elsewhere.test"}, r"artifacts\.s3\.endpoint"),
                           ({"endpoint": None}, r"artifacts\.s3\.endpoint: must be given"), ({"bucket": None}, r"artifacts\.s3\.bucket: must be given"),
                           ({"bucket": "a/b"}, r"artifacts\.s3\.bucket: must be"), ({"prefix": "a/b"}, r"artifacts\.s3\.prefix: must be"),
                           ({"region": "a b"}, r"artifacts\.s3\.region: must be"), ({"credentials_file": "/nonexistent"}, r"artifacts\.s3\.credentials_file"),
                           ({"credentials_file": None}, r"artifacts\.s3\.credentials_file: must name"), ({"ca_file": "/nonexistent"}, r"artifacts\.s3\.ca_file")):
            with self.subTest(more):
                self.refused(self.config(**more), text)

    def test_endpoint_bucket_and_credentials_file(self):
        made = self.put(self.serve(), b"x")
        self.assertEqual(len(self.objects()), 1, made)
        seen = self.front.take_seen()
        self.assertTrue(s3_case.lines(seen, f"PUT /{BUCKET.told['bucket']}/{self.prefix}/"), seen)
        self.assertIn(f"Credential={BUCKET.told['key_id']}/", seen["requests"][-1][1])

    def test_credentials_of_the_environment(self):
        env = {"AWS_ACCESS_KEY_ID": BUCKET.told["key_id"], "AWS_SECRET_ACCESS_KEY": BUCKET.told["secret"]}
        server = self.serve(env=env, credentials_file=None)
        made = self.put(server, b"x")
        self.assertEqual(self.get(server, made), b"x")
        done = server.run("import os\nprint(dict(os.environ))")
        self.assertNotIn("AWS", done["stdout"], "no program gets them")

    def test_region(self):
        self.put(self.serve(), b"x")
        self.assertIn(f"/{BUCKET.told['region']}/s3/aws4_request", self.front.take_seen()["requests"][-1][1])

    def test_prefix(self):
        self.put(self.serve(), b"x")
        self.assertEqual(len(self.objects()), 1)

    def test_ca_file(self):
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2",
                        "-subj", "/CN=store", "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", self.folder / "key", "-out", self.folder / "ca"],
                       check=True, capture_output=True, timeout=60)
        (self.folder / "ca").chmod(0o644)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.folder / "ca", self.folder / "key")
        front = BUCKET.front(context)
        self.addCleanup(front.close)
        # The signature covers the name of the host, and the proxy passes it on.
        endpoint = f"https://127.0.0.1:{front.port}"
        self.refused(self.config(endpoint=endpoint), r"artifacts\.s3\.ca_file")
        server = self.serve(endpoint=endpoint, ca_file=str(self.folder / "ca"))
        self.assertEqual(self.get(server, self.put(server, b"over TLS")), b"over TLS")

    def test_attempts_and_timeout_seconds(self):
        server = self.serve(attempts=3, timeout_seconds=1)
        self.front.break_with({"kind": "status", "status": 503, "match": "PUT", "count": 2})
        self.put(server, b"a")
        self.front.take_seen()
        self.front.break_with({"kind": "hang", "match": "PUT", "count": 1000})
        self.put(server, b"b", 503)
        self.assertEqual(len(s3_case.lines(self.front.take_seen(), "PUT")), 3)

    def test_part_mb_and_parts_at_once(self):
        server = self.serve(part_mb=6, parts_at_once=2)
        self.front.break_with({"kind": "slow", "seconds": 0.2, "match": "partNumber", "count": 100})
        self.put(server, content(25 * MIB))
        seen = self.front.take_seen()
        self.assertEqual(len(s3_case.lines(seen, "partNumber=")), 5)
        self.assertEqual(seen["most"]["part"], 2)

    def test_connections(self):
        server = self.serve(connections=2)
        self.front.take_seen()
        self.front.break_with({"kind": "slow", "seconds": 0.1, "match": "PUT", "count": 100})
        done = server.run("for i in range(8): open(f'f{i}', 'w').write(str(i))")
        self.assertEqual(len(done["artifacts"]), 8)
        self.assertEqual(self.front.take_seen()["most"]["all"], 2)

    def test_abandoned_seconds(self):
        with harness.Server(self.config(part_mb=5, abandoned_seconds=1), state=self.folder) as server:
            self.front.break_with({"kind": "hang", "match": "partNumber=2", "count": 1})
            thread = sending(server, content(11 * MIB))
            harness.wait_for("a part to hang", lambda: s3_case.lines(self.front.take_seen(), "partNumber=2"))
            server.kill()
            thread.join()
            self.front.break_with()
            self.assertTrue(any(self.prefix in each for each in BUCKET.uploads()))

            def aborted():
                server.start()
                harness.wait_for("the sweep", lambda: re.search("bucket swept|sweep of the bucket", server.log.read_text()) or True)
                gone = not any(self.prefix in each for each in BUCKET.uploads())
                if not gone:
                    server.stop()
                return gone
            harness.wait_for("a start after a second to abort the upload", aborted, 20)


if __name__ == "__main__":
    unittest.main()
