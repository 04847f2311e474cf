# SPDX-License-Identifier: Apache-2.0
"""The settings of the package gateway, and indexes that mean harm: each ends in a bounded time with an answer that names the cause, and
the gateway goes on."""

import json
import threading
import time
import unittest

import harness
from egress_case import NEEDS_ROOT, World, missing
from egress_files import NAME, VERSION, put_all, wheel
from package_case import NETWORK, NPM, PYPI, PackageCase
from package_registry import JSON, Registry, wheel_bytes

ASK = """
import sys, time, urllib.error, urllib.request
for path in sys.argv[1:]:
    start = time.monotonic()
    try:
        with urllib.request.urlopen(urllib.request.Request(path, headers={"Accept": "application/vnd.pypi.simple.v1+json"}), timeout=50) as answer:
            print(answer.status, len(answer.read()), round(time.monotonic() - start))
    except urllib.error.HTTPError as error:
        print(error.code, error.read().decode().strip().replace("\\n", " "), round(time.monotonic() - start))
    except OSError as error:
        print("broken", error)
"""


class Asking(PackageCase):
    def ask(self, *paths, **request):
        """One line for each request of a program: status, length or text, seconds."""
        request = {"network_policy": NETWORK, "args": list(paths), "artifacts": [], **request}
        done = self.run_code(ASK, **request)
        self.assertEqual((done["status"], done["exit_code"]), ("completed", 0), done)
        return done["stdout"].splitlines()

    def ask_one(self, project):
        return self.ask(f"http://{PYPI}/simple/{project}/")[0]


class Bounds(Asking):
    MORE = "index_seconds: 2\nindex_mb: 1\ntimeout_seconds: 2\nconcurrent: 8"

    @classmethod
    def fill(cls):
        cls.registry.wheel("demo", "1.0")

    def test_how_long_an_index_is_kept(self):
        self.registry.wheel("kept", "1.0")
        before = len(self.registry.paths("/simple/kept/"))
        url = f"http://{PYPI}/simple/kept/"
        self.ask(url, url, url)
        self.assertEqual(len(self.registry.paths("/simple/kept/")), before + 1)
        time.sleep(2.5)
        self.ask(url)
        self.assertEqual(len(self.registry.paths("/simple/kept/")), before + 2)

    def test_the_largest_index(self):
        padding = " " * (3 << 20)
        self.registry.special["/simple/huge/"] = lambda handler: Registry.send(handler, f'{{"files":[{padding}]}}'.encode(), JSON)
        told = self.ask_one("huge")
        self.assertTrue(told.startswith("502"), told)
        self.assertIn("packages.index_mb", told)
        self.assertTrue(self.ask_one("demo").startswith("200"))

    def test_a_slow_index(self):
        self.registry.special["/simple/slow/"] = Registry.slow
        start = time.monotonic()
        told = self.ask_one("slow")
        self.assertTrue(told.startswith("502"), told)
        self.assertIn("in time", told)
        self.assertLess(time.monotonic() - start, 15)

    def test_how_many_at_once(self):
        """Of eight in all, a sandbox has two; a third waits."""
        gate, now, most = threading.Event(), [0], [0]
        lock = threading.Lock()

        def held(handler):
            with lock:
                now[0] += 1
                most[0] = max(most[0], now[0])
            gate.wait(1)
            with lock:
                now[0] -= 1
            Registry.send(handler, b'{"files":[]}', JSON)

        for n in range(6):
            self.registry.special[f"/simple/at-once-{n}/"] = held
        code = ("import threading, urllib.request\ndef get(n): urllib.request.urlopen(f'http://pypi.cloister.internal/simple/at-once-{n}/').read()\n"
                "all = [threading.Thread(target=get, args=(n,)) for n in range(6)]\n[t.start() for t in all]\n[t.join() for t in all]")
        done = self.run_code(code, network_policy=NETWORK, artifacts=[])
        self.assertEqual(done["exit_code"], 0, done["stderr"])
        self.assertEqual(most[0], 2)


class Hostile(Asking):
    """An index that lies."""

    MORE = "timeout_seconds: 3"
    RULES = "cooldown_days: 0\nmax_bytes: 1000000"

    @classmethod
    def fill(cls):
        cls.registry.wheel("demo", "1.0")

    def tearDown(self):
        self.assertTrue(self.ask_one("demo").startswith("200"), "the gateway goes on")

    def test_redirects_to_other_places(self):
        for n, to in enumerate(("http://169.254.169.254/latest/meta-data/", f"http://127.0.0.1:{self.server.port}/healthz", "file:///etc/shadow",
                                "https://metadata.google.internal/")):
            self.registry.special[f"/simple/redirect-{n}/"] = Registry.redirect(to)
            told = self.ask_one(f"redirect-{n}")
            self.assertTrue(told.startswith("502"), told)
            self.assertNotIn("healthz", told)

    def test_files_of_other_places(self):
        for n, url in enumerate(("http://169.254.169.254/x.whl", f"http://127.0.0.1:{self.server.port}/healthz")):
            self.registry.wheel(f"elsewhere{n}", "1.0", url=url)
            told = self.ask(f"http://{PYPI}/files/elsewhere{n}/elsewhere{n}-1.0-py3-none-any.whl")[0]
            self.assertTrue(told.startswith("502"), told)

    def test_smuggled_names(self):
        before = len(self.registry.asked)
        for path in ("simple/..%2f..%2fnpm/", "simple/%2e%2e/", "simple/a%0d%0ab/", "files/demo/..%2f..%2fx.whl", "simple/a%252f/"):
            self.assertRegex(self.ask(f"http://{PYPI}/{path}")[0], "^40[04]")
        for path in ("..%2fx", "@a%2f..%2fb", "@a%2f..", "a%2fb"):
            self.assertRegex(self.ask(f"http://{NPM}/{path}")[0], "^40[04]")
        self.assertEqual({path for path, _ in self.registry.asked[before:]} - {"/simple/demo/"}, set())

    def test_names_and_texts_of_an_index_cannot_break_out(self):
        self.registry.wheel("markup", "1.0", yanked="x\"><a href='http://evil.test/markup-9.0-py3-none-any.whl'>markup-9.0-py3-none-any.whl</a>")
        self.registry.file("markup", "../../../etc/markup-2.0-py3-none-any.whl", b"x")
        self.registry.file("markup", "markup-3.0-py3-none-any.whl\r\nX-Evil: 1", b"x")
        self.registry.file("markup", "other-4.0-py3-none-any.whl", b"x")
        done = self.run_code("curl -sS http://pypi.cloister.internal/simple/markup/", "bash", network_policy=NETWORK, artifacts=[])
        self.assertEqual(done["stdout"].count("<a "), 1, done["stdout"])

    def test_a_wheel_whose_name_lies(self):
        """Of another project, it is not offered; of another version, pip refuses it."""
        content = wheel_bytes("evil", "1.0", {"evil.py": ""})
        self.registry.file("named", "evil-1.0-py3-none-any.whl", content)
        self.registry.file("named", "named-1.0-py3-none-any.whl", content)
        told = self.ask(f"http://{PYPI}/files/named/evil-1.0-py3-none-any.whl", f"http://{PYPI}/files/evil/evil-1.0-py3-none-any.whl")
        self.assertTrue(all(line.startswith("404") for line in told), told)
        done = self.shell("pip3 install named; python3 -c 'import evil'")
        self.assertNotEqual(done["exit_code"], 0)

    def test_decompression_bombs(self):
        bomb = b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\x03" + __import__("zlib").compress(bytes(200 << 20), 9)[2:-4] + bytes(8)
        self.registry.npm("bomb", "1.0.0")
        self.registry.files["/npm/bomb/-/bomb-1.0.0.tgz"] = bomb
        self.registry.packages["bomb"]["versions"]["1.0.0"]["dist"] = {"tarball": self.registry.url + "/npm/bomb/-/bomb-1.0.0.tgz"}
        told = self.ask(f"http://{NPM}/bomb/-/bomb-1.0.0.tgz")[0]
        self.assertTrue(told.startswith("403"), told)
        self.assertIn("unpacks to far more bytes", told)
        self.registry.special["/simple/coded/"] = lambda handler: Registry.send(handler, bomb[:1000], JSON, Content_Encoding="gzip")
        self.assertTrue(self.ask_one("coded").startswith("502"))

    def test_a_file_larger_than_it_says(self):
        content = bytes(3_000_000)
        self.registry.file("grown", "grown-1.0-py3-none-any.whl", content, size=1000)
        told = self.ask(f"http://{PYPI}/files/grown/grown-1.0-py3-none-any.whl")[0]
        self.assertTrue(told.startswith("403"), told)
        self.assertIn("packages.max_bytes", told)

    def test_a_large_file_with_other_content_is_never_complete(self):
        self.registry.files["/large"] = bytes(900_000) * 8
        entry = self.registry.wheel("large", "1.0", {"large.bin": "x" * 900_000})
        self.registry.files["/files/large-1.0-py3-none-any.whl"] = bytes(len(self.registry.files["/files/large-1.0-py3-none-any.whl"]))
        url = f"http://{PYPI}/files/large/{entry['filename']}"
        told = self.ask(url, url)
        self.assertTrue(all("packages.hash" in line or line.startswith("broken") for line in told), told)
        self.assertIn("packages.hash", told[1])


@unittest.skipUnless(harness.ROOT, NEEDS_ROOT)
class Tls(PackageCase):
    """Upstreams of a fake internet, with an authority of its own."""

    RULES = "undated: allow"

    @classmethod
    def setUpClass(cls):
        if missing():
            raise unittest.SkipTest(f"not in the guest's image: {missing()}")
        cls.world = cls.enterClassContext(World(fill=put_all))
        super().setUpClass()

    @classmethod
    def fill(cls):
        name = f"{NAME}-{VERSION}-py3-none-any.whl"
        cls.registry.file("doorhello", name, wheel(), url=f"https://packages.test/files/{name}")
        cls.registry.npm("doorhello", "1.0.0", tarball=f"https://packages.test/npm/{NAME}/{NAME}-{VERSION}.tgz", integrity="")

    @classmethod
    def configuration(cls):
        authority = cls.folder / "ca.pem"
        authority.write_text(cls.world.ca)
        return (f"egress:\n  resolver: {cls.world.resolver}\npackages:\n  ca_file: {authority}\n  rules:\n    undated: allow\n"
                f"  pypi:\n    index: {cls.registry.url}/simple\n    file_hosts: [packages.test]\n"
                f"  npm:\n    registry: {cls.registry.url}/npm\n    file_hosts: [packages.test]\n")

    def test_files_of_another_host(self):
        done = self.works("pip3 install doorhello && python3 -c 'import doorhello; print(doorhello.GREETING)'")
        self.assertTrue(done["stdout"].endswith("hello by pip\n"))

    def test_tarballs_of_another_host(self):
        self.need("npm")
        done = self.works("npm install doorhello >&2 && node -p \"require('doorhello')\"")
        self.assertEqual(done["stdout"], "hello by npm\n")


@unittest.skipUnless(harness.ROOT, NEEDS_ROOT)
class Authority(Tls):
    """The index itself over TLS: without the authority nothing is read."""

    @classmethod
    def configuration(cls):
        authority = cls.folder / "ca.pem"
        authority.write_text(cls.world.ca)
        return (f"egress:\n  resolver: {cls.world.resolver}\npackages:\n  ca_file: {authority}\n  rules:\n    undated: allow\n"
                "  pypi:\n    index: https://packages.test/simple\n")

    def test_files_of_another_host(self):
        done = self.works("pip3 install doorhello && python3 -c 'import doorhello; print(doorhello.GREETING)'")
        self.assertTrue(done["stdout"].endswith("hello by pip\n"))
        self.assertFalse([each for each in done["provenance"]["weakened"] if "plain HTTP" in each], done["provenance"]["weakened"])

    test_tarballs_of_another_host = None


class Checks(unittest.TestCase):
    """What `serve` refuses at its start, with the key."""

    def fails(self, lines, *texts):
        server = harness.Server("packages:\n" + lines, ready=False)
        with self.subTest(lines):
            try:
                server.__enter__()
                harness.wait_for("the end of the service", lambda: server.process.poll() is not None, 20)
                log = server.log_tail()
            finally:
                server.kill()
                server._remove()
            for text in texts:
                self.assertIn(text, log)

    def test_a_folder_that_is_not_there(self):
        self.fails("  advisories: /nonexistent\n", "packages.advisories")

    def test_mistakes_end_the_start(self):
        self.fails("  pypi: {index: 'ftp://x'}\n", "packages.pypi.index")
        self.fails("  advisories: relative\n", "packages.advisories")
        self.fails("  rules: {allow: ['no name']}\n", "packages.rules.allow[0]")


if __name__ == "__main__":
    unittest.main()
