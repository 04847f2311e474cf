# SPDX-License-Identifier: Apache-2.0
"""Artifacts over HTTP and the command line: uploads, links, quota, expiry, and files on disk."""

import base64
import contextlib
import hashlib
import http.client
import json
import os
import pathlib
import socket
import subprocess
import tempfile
import threading
import unittest
import urllib.parse

import api_case
import harness
from api_case import ApiTest

CONFIG = api_case.CONFIG + ("artifacts:\n  max_mb: 64\n  quota_mb: 100\n  quota_count: 40\n"
                            "  uploads: 8\n  uploads_per_tenant: 6\n"
                            "  resume: {per_tenant: 3}\n")
MIB = 1 << 20


def setUpModule():
    ApiTest.server = harness.Server(config=CONFIG)
    unittest.enterModuleContext(ApiTest.server)


def content(size, seed=b"seed"):
    """Bytes that a search finds, and that do not compress."""
    return (hashlib.sha256(seed).hexdigest().encode() * (size // 64 + 1))[:size]


class Artifacts(ApiTest):
    def setUp(self):
        self.key = self.new_key(f"tenant-{self.id().rsplit('.', 1)[-1]}")["secret"]

    def put(self, body, path="file.txt", key=None, status=201, headers=None, **query):
        target = "/v1/artifacts?" + urllib.parse.urlencode({"path": path, **query})
        answer = self.server.request("POST", target, body, headers, key or self.key)
        api_case.DOCUMENT.check("POST", "/v1/artifacts", answer)
        self.assertEqual(answer.status, status, answer.body[:500])
        return answer.json()

    def fetch(self, path, headers=None, key=None, status=200):
        return self.call("GET", path, headers=headers, key=key or self.key, status=status)

    @contextlib.contextmanager
    def offered(self, length, key=None):
        """The answer to an upload of so many bytes before any is sent, while the server waits for them."""
        with socket.create_connection((self.server.host, self.server.port)) as client:
            client.sendall(f"POST /v1/artifacts?path=x HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\n"
                           f"X-API-Key: {key or self.key}\r\nContent-Length: {length}\r\n\r\n".encode())
            yield client.recv(65536)

    def offer(self, length, key=None):
        """The upload's status: 100 if the upload may begin."""
        with self.offered(length, key) as answer:
            return int(answer.split()[1])

    def test_upload_show_list_download_delete(self):
        body = content(200_000)
        made = self.put(body, "dir/data.csv")
        self.assertEqual((made["path"], made["size"], made["content_type"], made["sha256"], made["execution_id"]),
                         ("dir/data.csv", 200_000, "text/csv; charset=utf-8", hashlib.sha256(body).hexdigest(), None))
        own = f"/v1/artifacts/{made['id']}"
        self.assertEqual(self.fetch(own).json(), made)
        answer = self.fetch(f"{own}/content")
        self.assertEqual(answer.body, body)
        self.assertTrue(answer.headers["content-disposition"].startswith("attachment; filename*=UTF-8''data.csv"))
        self.assertEqual(answer.headers["content-security-policy"], "sandbox")
        part = self.fetch(f"{own}/content", {"Range": "bytes=65530-65545"}, status=206)
        self.assertEqual(part.body, body[65530:65546])
        self.assertEqual([each["id"] for each in self.fetch("/v1/artifacts").json()["artifacts"]], [made["id"]])
        self.call("DELETE", own, key=self.key, status=204)
        self.fetch(own, status=404)
        self.fetch(f"{own}/content", status=404)
        self.call("DELETE", own, key=self.key, status=404)

    def test_runs_and_uploads_are_one_list(self):
        done = self.run_code("open('out.txt','w').write('left')", key=self.key)
        self.put(b"mine")
        seen, cursor = [], ""
        while cursor is not None:
            page = self.fetch(f"/v1/artifacts?limit=1{cursor and '&cursor=' + urllib.parse.quote(cursor)}").json()
            seen += page["artifacts"]
            cursor = page["next_cursor"]
        self.assertEqual([each["path"] for each in seen], ["file.txt", "out.txt"])
        self.assertEqual(seen[1]["execution_id"], done["id"])
        self.assertIsNotNone(seen[1]["expires_at"])
        self.assertProblem(self.fetch("/v1/artifacts?cursor=xx", status=400), 400, field="query.cursor")

    def test_chunked_upload_and_empty_one(self):
        made = self.put(iter([b"one", b"two" * 50_000, b"three"]))
        self.assertEqual(self.fetch(f"/v1/artifacts/{made['id']}/content").body, b"one" + b"two" * 50_000 + b"three")
        self.assertEqual(self.put(b"", "empty")["size"], 0)

    def break_off(self, body, length, upload=None, **query):
        """Sends `body` of an upload of `length` bytes, and closes the connection."""
        query = {"path": "file.txt", **({"upload": upload} if upload else {}), **query}
        with socket.create_connection((self.server.host, self.server.port)) as client:
            client.sendall(f"POST /v1/artifacts?{urllib.parse.urlencode(query)} HTTP/1.1\r\nHost: localhost\r\n"
                           f"X-API-Key: {self.key}\r\nContent-Length: {length}\r\n\r\n".encode() + body)

    def kept(self, upload, size):
        """The upload, once no request sends it any more."""
        def rests():
            answer = self.call("GET", f"/v1/uploads/{upload}", key=self.key)
            return answer.status == 200 and answer.json()["expires_at"] is not None and answer.json()
        state = harness.wait_for("the upload to be kept", rests)
        self.assertEqual((state["size"], state["path"], state["artifact_id"]), (size, "file.txt", None))

    def test_an_upload_goes_on_where_it_broke_off(self):
        body = content(3_000_000)
        self.break_off(body[:1_000_000], len(body), "mine")
        self.kept("mine", 1_000_000)
        self.break_off(body[1_000_000:1_500_000], 2_000_000, "mine", offset=1_000_000)
        self.kept("mine", 1_500_000)
        self.assertEqual([each["upload"] for each in self.fetch("/v1/uploads").json()["uploads"]], ["mine"])
        digest = hashlib.sha256(body).hexdigest()
        self.assertProblem(self.call("POST", "/v1/artifacts?path=file.txt&upload=mine&offset=7", b"x", key=self.key), 409,
                           field="query.offset")
        self.assertProblem(self.call("POST", "/v1/artifacts?path=x&upload=mine&offset=1500000", b"x", key=self.key), 409,
                           field="query.path")
        made = self.put(body[1_500_000:], upload="mine", offset=1_500_000, sha256=digest)
        self.assertEqual((made["size"], made["sha256"]), (len(body), digest))
        self.assertEqual(self.fetch(f"/v1/artifacts/{made['id']}/content").body, body)
        # A client that missed the end receives the end again.
        self.assertEqual(self.fetch("/v1/uploads/mine").json()["artifact_id"], made["id"])
        self.assertEqual(self.put(b"", upload="mine", offset=len(body)), made)
        self.put(b"more", upload="mine", offset=len(body), status=409)

    def test_uploads_that_break_off_are_their_tenants_and_can_be_dropped(self):
        other = self.new_key("other-tenant")["secret"]
        self.break_off(b"half", 8, "mine")
        self.kept("mine", 4)
        self.assertEqual(self.fetch("/v1/uploads", key=other).json(), {"uploads": []})
        self.fetch("/v1/uploads/mine", key=other, status=404)
        self.call("DELETE", "/v1/uploads/mine", key=other, status=404)
        self.put(b"x", key=other, upload="mine", offset=4, status=404)
        self.call("DELETE", "/v1/uploads/mine", key=self.key, status=204)
        self.fetch("/v1/uploads/mine", status=404)
        self.put(b"x", upload="mine", offset=4, status=404)
        self.put(b"x", offset=4, status=400)
        self.put(b"x", upload="../x", status=400)
        self.put(b"x", upload="other", sha256="0" * 63, status=400)
        self.assertProblem(self.call("POST", "/v1/artifacts?path=x&sha256=" + "0" * 64, b"x", key=self.key), 400,
                           field="query.sha256")
        self.assertEqual(self.fetch("/v1/artifacts").json()["artifacts"], [])

    def test_who_comes_back_ends_the_earlier_request(self):
        with socket.create_connection((self.server.host, self.server.port)) as client:
            client.sendall(f"POST /v1/artifacts?path=file.txt&upload=mine HTTP/1.1\r\nHost: localhost\r\n"
                           f"X-API-Key: {self.key}\r\nContent-Length: 1000\r\n\r\nhalf".encode())
            harness.wait_for("what was sent to be there", lambda: (
                answer := self.call("GET", "/v1/uploads/mine", key=self.key)).status == 200 and answer.json()["size"] == 4)
            made = self.put(b"whole", upload="mine", offset=4)
            self.assertEqual(self.fetch(f"/v1/artifacts/{made['id']}/content").body, b"halfwhole")
            self.assertNotIn(b" 201 ", client.recv(65536))

    def test_uploads_that_break_off_count_for_the_quota_and_are_bounded(self):
        self.break_off(b"x" * (60 * MIB), 61 * MIB, "large")
        self.kept("large", 60 * MIB)
        self.assertEqual(self.offer(40 * MIB + 1), 429)
        self.assertEqual(self.offer(40 * MIB), 100)
        for number in range(4):  # artifacts.resume.per_tenant is 3
            self.break_off(b"x", 2, f"n{number}")
            self.kept(f"n{number}", 1)
        self.assertEqual({each["upload"] for each in self.fetch("/v1/uploads").json()["uploads"]}, {"n1", "n2", "n3"})
        self.assertEqual(self.offer(64 * MIB), 100)

    def test_an_upload_without_a_name_is_dropped_where_it_breaks_off(self):
        self.break_off(b"x" * 200_000, 300_000)
        blobs = pathlib.Path(self.server.state) / "blobs"
        self.break_off(b"half", 8, "mine")
        self.kept("mine", 4)
        harness.wait_for("what was sent to go", lambda: not any(
            path.stat().st_size >= 131_072 for path in blobs.glob("*/tmp/*")))
        self.assertEqual(self.fetch("/v1/artifacts").json()["artifacts"], [])

    def test_hostile_names(self):
        for path in ("../x", "/etc/passwd", "a/../b", "a//b", "", ".", "a/", "a\nb", "\u202eexe", "a\x00b", "x" * 1025):
            with self.subTest(path=path):
                self.put(b"x", path, status=400)
        self.put(b"x", "..\\x")  # on this system, an ordinary name
        self.assertProblem(self.server.request("POST", "/v1/artifacts", b"x", None, self.key), 400, field="query.path")
        self.put(b"x", colour="red", status=400)

    def test_never_a_type_that_runs_scripts(self):
        made = self.put(b"<!doctype html><script>alert(1)</script>", "page.html")
        answer = self.fetch(f"/v1/artifacts/{made['id']}/content")
        self.assertEqual(answer.headers["content-type"], "text/plain; charset=utf-8")
        self.assertEqual(answer.headers["x-content-type-options"], "nosniff")

    def test_another_tenant_sees_nothing(self):
        made = self.put(b"secret")
        other = self.new_key("other-tenant")["secret"]
        unknown = "/v1/artifacts/art_" + "0" * 26
        for method, suffix in (("GET", ""), ("GET", "/content"), ("GET", "/url"), ("DELETE", "")):
            theirs = self.call(method, f"/v1/artifacts/{made['id']}{suffix}", key=other, status=404).json()
            nobody = self.call(method, unknown + suffix, key=other, status=404).json()
            self.assertEqual(theirs["error"]["message"].replace(made["id"], ""),
                             nobody["error"]["message"].replace("art_" + "0" * 26, ""))
        self.assertEqual(self.call("GET", "/v1/artifacts", key=other, status=200).json()["artifacts"], [])
        self.call("DELETE", "/v1/tenants/other-tenant/artifacts", key=other, status=403)
        for headers in ({"X-Tenant-Id": "other-tenant"}, {"X-Tenant": "other-tenant"}):
            self.assertEqual(self.call("GET", f"/v1/artifacts/{made['id']}", headers=headers, key=other).status, 404)

    def test_a_link_needs_no_key_and_only_it_will_do(self):
        made, other = self.put(b"linked"), self.put(b"other")
        link = self.fetch(f"/v1/artifacts/{made['id']}/url?expires_seconds=60").json()["url"]
        answer = self.call("GET", link, key=False, status=200)
        self.assertEqual(answer.body, b"linked")
        self.assertTrue(answer.headers["content-disposition"].startswith("attachment"))
        self.assertEqual(self.call("GET", link, headers={"Range": "bytes=1-2"}, key=False, status=206).body, b"in")
        good = urllib.parse.parse_qs(urllib.parse.urlsplit(link).query)
        signature, expires = good["signature"][0], int(good["expires"][0])
        content_of = f"/v1/artifacts/{made['id']}/content"
        forged, maker = "0" * 64, f"credential={good['credential'][0]}"
        for bad in (link.replace(made["id"], other["id"]), link.replace(made["id"], "art_" + "0" * 26),
                    f"{content_of}?{maker}&expires={expires + 1}&signature={signature}",
                    f"{content_of}?{maker}&expires=1&signature={signature}",
                    f"{content_of}?{maker}&expires={expires}&signature={forged}",
                    f"{content_of}?{maker}&expires={expires}&signature=",
                    f"{content_of}?expires={expires}&signature={signature}",
                    f"{content_of}?{maker}&signature={signature}", content_of):
            with self.subTest(link=bad):
                self.call("GET", bad, key=False, status=401)
        unnamed = self.call("GET", f"{content_of}?expires={expires}&signature={signature}", key=False, status=401)
        self.assertIn("the link lacks its credential", unnamed.text)
        self.fetch(f"{content_of}?expires={expires}", status=400)
        self.fetch(f"{content_of}?{maker}", status=400)
        for seconds in ("0", "604801", "x"):
            self.fetch(f"/v1/artifacts/{made['id']}/url?expires_seconds={seconds}", status=400)
        # The link reads a single artifact, and does nothing else.
        self.call("GET", f"/v1/artifacts/{made['id']}?expires={expires}&signature={signature}", key=False, status=401)
        self.call("DELETE", f"/v1/artifacts/{made['id']}", key=self.key, status=204)
        self.call("GET", link, key=False, status=401)

    def test_a_link_ends(self):
        made = self.put(b"linked")
        link = self.fetch(f"/v1/artifacts/{made['id']}/url?expires_seconds=1").json()["url"]
        harness.wait_for("the link to end", lambda: self.call("GET", link, key=False).status == 401)

    def test_time_to_live(self):
        made = self.put(b"short", ttl_seconds=1)
        path = f"/v1/artifacts/{made['id']}"
        harness.wait_for("its end", lambda: self.call("GET", path, key=self.key).status == 404)
        self.assertEqual(self.fetch("/v1/artifacts").json()["artifacts"], [])
        self.put(b"x", ttl_seconds=0, status=400)

    def test_bounds_and_quota(self):
        self.assertEqual(self.offer(64 * MIB + 1), 413)
        self.assertEqual(self.offer(999_999_999_999), 413)
        self.assertEqual(self.offer(64 * MIB), 100)
        self.put(iter([b"x" * MIB] * 64 + [b"x"]), status=413)
        first = self.put(b"x" * (60 * MIB))
        self.assertEqual(self.offer(40 * MIB + 1), 429)
        self.assertEqual(self.offer(40 * MIB), 100)
        done = self.run_code("open('big','wb').write(b'x' * (50 << 20))", key=self.key, memory_mb=512)
        self.assertEqual((done["status"], done["artifacts"], done["error"]["type"]),
                         ("completed", [], "QUOTA_EXCEEDED"))
        self.call("DELETE", f"/v1/artifacts/{first['id']}", key=self.key, status=204)
        for number in range(40):
            self.put(b"x", f"n{number}")
        self.put(b"x", status=429)

    def test_no_tenant_takes_all_the_places(self):
        other = self.new_key("other-tenant")["secret"]
        harness.wait_for("earlier uploads to be gone", lambda: self.offer(1) == 100)
        with contextlib.ExitStack() as held:
            for _ in range(6):  # artifacts.uploads_per_tenant, of 8
                self.assertIn(b" 100 ", held.enter_context(self.offered(10)))
            with self.offered(10) as answer:
                self.assertIn(b" 429 ", answer)
                self.assertIn(b"artifacts.uploads_per_tenant", answer)
            self.assertEqual(self.offer(10, other), 100)
        harness.wait_for("a place", lambda: self.offer(10) == 100)

    @unittest.skipUnless(harness.ROOT, "only root may reset another process's peak")
    @unittest.skipIf(harness.SANITIZED, "the sanitizer holds what was freed for a while")
    def test_large_uploads_and_downloads_take_little_memory(self):
        body = content(60 * MIB)
        daemon = self.server.pid_of("cloisterd")
        before = harness.memory_of(daemon)
        pathlib.Path(f"/proc/{daemon}/clear_refs").write_text("5")  # proc(5): resets VmHWM
        for _ in range(2):
            made = self.put(body)
            answer = self.fetch(f"/v1/artifacts/{made['id']}/content")
            self.assertEqual(hashlib.sha256(answer.body).hexdigest(), made["sha256"])
            self.call("DELETE", f"/v1/artifacts/{made['id']}", key=self.key, status=204)
        self.assertLess(harness.memory_of(daemon, "VmHWM") - before, 32 * MIB)

    def test_what_is_damaged_is_named(self):
        """Before any byte is sent, with the remedy; an undamaged range is still readable."""
        blobs = pathlib.Path(self.server.state) / "blobs"
        before = set(blobs.glob("*/??/*"))
        content = os.urandom(MIB)
        made = self.put(content)
        path = f"/v1/artifacts/{made['id']}/content"
        blob, = set(blobs.glob("*/??/*")) - before
        whole = blob.read_bytes()
        begin = whole[:200] + bytes([whole[200] ^ 1]) + whole[201:]
        for bad in (begin, whole[:len(whole) // 2], b"", None):
            blob.write_bytes(bad) if bad is not None else blob.unlink()
            problem = self.call("GET", path, key=self.key, status=409).json()
            self.assertEqual((problem["error"]["type"], problem["error"]["retryable"]), ("INVALID_REQUEST", False), problem)
            self.assertIn(f"reading artifact {made['id']}: what is stored of it is damaged", problem["detail"])
            self.assertIn("cloister artifact rm", problem["detail"])
            self.assertNotIn(str(blobs), problem["detail"])
        blob.write_bytes(begin)
        part = self.call("GET", path, key=self.key, status=206, headers={"Range": "bytes=-1000"})
        self.assertEqual(part.body, content[-1000:])
        self.call("DELETE", f"/v1/artifacts/{made['id']}", key=self.key, status=204)

    def test_nothing_on_disk_tells(self):
        """Known contents of uploads and of runs, in any encoding, are nowhere in the blobs directory."""
        marker = "gnorhlek-quisbut-"
        long = (marker + "upload|").encode() * 20_000
        self.put(long)
        self.put((marker + "short").encode(), "known-name.txt")
        self.run_code(f"open('a.txt','w').write('{marker[:8]}' + '{marker[8:]}run' * 9000)", key=self.key)
        target = "/v1/artifacts?path=half"
        with socket.create_connection((self.server.host, self.server.port)) as client:
            client.sendall(f"POST {target} HTTP/1.1\r\nHost: localhost\r\nX-API-Key: {self.key}\r\n"
                           f"Content-Length: 10000000\r\n\r\n".encode() + long)
            blobs = pathlib.Path(self.server.state) / "blobs"
            harness.wait_for("the upload's temporary file", lambda: any(
                path.stat().st_size > 200_000 for path in blobs.glob("*/tmp/*")))
            needles = [word.encode() for word in (marker, "gnorhlek", "known-name", "tenant-test")]
            needles += [base64.b64encode(marker.encode())[:16], marker.encode().hex().encode(), b"\x89PNG"]
            needles += [hashlib.sha256(long).hexdigest().encode()[:40]]
            found = {}
            for path in blobs.rglob("*"):
                with contextlib.suppress(FileNotFoundError, IsADirectoryError):  # a file written just then has moved
                    found[path] = path.read_bytes()
            self.assertGreater(len(found), 3)
            self.assertIn("tmp", {path.parent.name for path in found}, "the upload under way")
            for path, raw in found.items():
                for needle in needles:
                    self.assertNotIn(needle, raw + str(path.relative_to(blobs)).encode(), path)

    def test_destroying_a_tenants_key(self):
        made = self.put(b"to be destroyed")
        tenant = self.id().rsplit(".", 1)[-1]
        done = self.call("DELETE", f"/v1/tenants/tenant-{tenant}/artifacts", status=200).json()
        self.assertEqual(done["artifacts"], 1)
        self.fetch(f"/v1/artifacts/{made['id']}/content", status=404)
        self.put(b"another life")


class CommandLine(ApiTest):
    def cli(self, *args, **more):
        done = self.server.cli("artifact", *args, **more)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def test_put_list_get_url_rm(self):
        with tempfile.TemporaryDirectory() as folder:
            source = pathlib.Path(folder) / "data.bin"
            source.write_bytes(content(3_000_000))
            made = self.cli("put", str(source)).strip()
            piped = self.cli("put", "-", "--path", "from/stdin.txt", input="typed").strip()
            listed = json.loads(self.cli("list", "--json"))["artifacts"]
            self.assertEqual([each["id"] for each in listed[:2]], [piped, made])
            copy = pathlib.Path(folder) / "copy"
            self.cli("get", made, str(copy))
            self.assertEqual(copy.read_bytes(), source.read_bytes())
            self.assertEqual(self.cli("get", piped, "-"), "typed")
            link = self.cli("url", piped, "--expires-seconds", "30").strip()
            parts = urllib.parse.urlsplit(link)
            connection = http.client.HTTPConnection(parts.hostname, parts.port, timeout=30)
            connection.request("GET", f"{parts.path}?{parts.query}")
            self.assertEqual(connection.getresponse().read(), b"typed")
            connection.close()
            self.cli("rm", made, piped)
            gone = self.server.cli("artifact", "get", made, str(copy))
            self.assertNotEqual(gone.returncode, 0)
            self.assertIn("there is no artifact", gone.stderr)

    def test_refusals_are_told(self):
        with tempfile.TemporaryDirectory() as folder:
            large = pathlib.Path(folder) / "large"
            with open(large, "wb") as file:
                file.truncate(65 * MIB)
            done = self.server.cli("artifact", "put", str(large))
            self.assertNotEqual(done.returncode, 0)
            self.assertIn("artifacts.max_mb", done.stderr)
            with open(large, "rb") as file:  # of unknown length
                piped = subprocess.run([self.server.bin / "cloister", "artifact", "put", "-", "--path", "x",
                                        "--state", self.server.state], stdin=file, capture_output=True,
                                       timeout=90, check=False)
            self.assertNotEqual(piped.returncode, 0)
            self.assertIn(b"bytes are taken", piped.stderr)


class Proxy(threading.Thread):
    """Passes connections on to the server in turn, and breaks each off after `most` bytes of the client's; with
    `most` None, none."""

    def __init__(self, server, limits):
        super().__init__(daemon=True)
        self.server, self.limits, self.connections = server, limits, 0
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self.listener.getsockname()[1]}"

    def run(self):
        with contextlib.suppress(OSError):
            while True:
                client, _ = self.listener.accept()
                most = self.limits[self.connections] if self.connections < len(self.limits) else None
                self.connections += 1
                threading.Thread(target=self.pass_on, args=(client, most), daemon=True).start()

    def pass_on(self, client, most):
        with client, socket.create_connection((self.server.host, self.server.port)) as server:
            threading.Thread(target=self.pump, args=(server, client, None), daemon=True).start()
            self.pump(client, server, most)
            for each in (client, server):
                with contextlib.suppress(OSError):
                    each.shutdown(socket.SHUT_RDWR)

    @staticmethod
    def pump(source, target, left):
        with contextlib.suppress(OSError):
            while left is None or left > 0:
                piece = source.recv(65536 if left is None else min(65536, left))
                if not piece:
                    break
                target.sendall(piece)
                left = None if left is None else left - len(piece)


class Resuming(ApiTest):
    def test_put_goes_on_by_itself(self):
        with tempfile.TemporaryDirectory() as folder:
            source = pathlib.Path(folder) / "data.bin"
            source.write_bytes(os.urandom(5_000_000))
            # The first breaks off; the second asks how much there is, and goes on in the same connection.
            proxy = Proxy(self.server, [1_000_000, 2_000_000])
            proxy.start()
            with contextlib.closing(proxy.listener):
                done = self.server.cli("artifact", "put", str(source), env={"CLOISTER_URL": proxy.url})
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn("broke off", done.stderr)
            self.assertGreater(proxy.connections, 2)
            answer = self.server.request("GET", f"/v1/artifacts/{done.stdout.strip()}/content")
            self.assertEqual(answer.body, source.read_bytes())


class MasterKey(unittest.TestCase):
    def test_change_and_loss_of_the_master_key(self):
        with tempfile.TemporaryDirectory() as folder:
            os.chmod(folder, 0o755)
            master = pathlib.Path(folder) / "master"
            first = base64.b64encode(os.urandom(32)).decode()
            second = base64.b64encode(os.urandom(32)).decode()
            master.write_text(first + "\n")
            os.chmod(master, 0o600)
            config = f"artifacts:\n  master_key_file: {master}\n"
            server = harness.Server(config=config)
            with server:
                made = server.request("POST", "/v1/artifacts?path=a", b"kept").json()
                self.assertFalse((pathlib.Path(server.state) / "keys" / "artifacts.key").exists())
                for text in (f"{second}\n{first}\n", f"{second}\n"):
                    server.stop()
                    master.write_text(text)
                    server.start()
                    server.wait_ready()
                    answer = server.request("GET", f"/v1/artifacts/{made['id']}/content")
                    self.assertEqual((answer.status, answer.body), (200, b"kept"))


if __name__ == "__main__":
    unittest.main()
