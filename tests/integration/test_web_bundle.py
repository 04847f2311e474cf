# SPDX-License-Identifier: Apache-2.0
"""The built files of the web interface: their size, their addresses, their packages, and the units of the page's code."""

import gzip
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

import harness

sys.path.insert(0, str(harness.REPO / "tools"))
import build_web  # noqa: E402

BUILT = pathlib.Path(os.environ.get("CLOISTER_BUILD", harness.REPO / "build")) / "web"
WEB = harness.REPO / "web"
MAX_BYTES = 250_000  # of gzip, without xterm
MAX_FIRST = 40_000  # of gzip, before the first screen is chosen
ADDRESS = re.compile(r"\b(?:https?|wss?)://[\w.-]+|[\"'(`]//[\w-]+\.[\w.-]+")
# Names of namespaces and schemas, which nobody fetches.
NAMES = {"http://www.w3.org", "https://json-schema.org", "https://cloister.invalid"}
UNSAFE = re.compile(r"dangerouslySetInnerHTML|\.(?:inner|outer)HTML\s*\+?=(?!=)|insertAdjacentHTML|document\.write|\beval\(|new Function\(|\bEventSource\(")


def packed(path):
    return len(gzip.compress(path.read_bytes(), 9, mtime=0))


class Bundle(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        if os.environ.get("CLOISTER_SLOW") == "1":
            raise unittest.SkipTest("not in the guest's image: npm's packages")
        mark = BUILT.parent / "web.sha256"
        if not mark.exists() or mark.read_text() != build_web.digest():
            raise AssertionError(f"{BUILT} is not built of these sources: run tools/build_web.py, with a network")
        cls.files = sorted(path for path in BUILT.rglob("*") if path.is_file() and path.suffix != ".gz")
        cls.index = (BUILT / "index.html").read_text()

    def test_the_bundle_is_small(self):
        sizes = {path.name: packed(path) for path in self.files if not path.name.startswith("xterm-") and path.suffix != ".txt"}
        largest = sorted(sizes.items(), key=lambda item: -item[1])[:5]
        self.assertLessEqual(sum(sizes.values()), MAX_BYTES, f"the largest files: {largest}")
        self.assertTrue(any(path.name.startswith("xterm-") for path in self.files), "no chunk of xterm: what was left out?")

    def test_scripts_and_styles_are_there_in_gzip(self):
        for path in self.files:
            if path.suffix in (".js", ".css"):
                self.assertEqual(gzip.decompress(path.with_name(f"{path.name}.gz").read_bytes()), path.read_bytes(), path.name)

    def test_the_first_page_loads_little(self):
        first = re.findall(r'(?:src|href)="\./(assets/[^"]+)"', self.index)
        self.assertGreaterEqual(len(first), 2)
        total, left = set(), [BUILT / name for name in first]
        while left:  # what these import at once, not later
            path = left.pop()
            if path in total:
                continue
            total.add(path)
            if path.suffix == ".js":
                found = re.findall(r'(?:\bfrom|\bimport)\s*"\./([\w.-]+\.js)"', path.read_text())
                left += [path.parent / name for name in found]
        self.assertFalse([path.name for path in total if path.name.startswith(("xterm-", "plot-", "editor-"))])
        self.assertLessEqual(sum(map(packed, total)), MAX_FIRST)

    def test_nothing_comes_from_another_host(self):
        wrong = {f"{path.name}: {found}" for path in self.files if path.suffix != ".txt"
                 for found in ADDRESS.findall(path.read_text(errors="replace")) if found not in NAMES}
        self.assertEqual(wrong, set())

    def test_the_page_has_no_script_of_its_own(self):
        self.assertNotRegex(self.index, r"<script(?![^>]*\bsrc=)[^>]*>")
        self.assertNotRegex(self.index, r"\son\w+=")
        self.assertIn('<base href="/ui/">', self.index)  # the service writes its prefix there
        self.assertNotRegex(self.index, r'(?:src|href)="/(?!ui/")')  # all else is relative to the base

    def test_sources_write_no_markup(self):
        wrong = [f"{path.relative_to(WEB)}:{number}: {line.strip()}" for path in sorted((WEB / "src").rglob("*.ts*"))
                 for number, line in enumerate(path.read_text().splitlines(), 1)
                 if UNSAFE.search(line) and not line.strip().startswith("//")]
        self.assertEqual(wrong, [], "\n".join(wrong))

    def test_packages_are_pinned_and_name_no_registry(self):
        package = json.loads((WEB / "package.json").read_text())
        for name, wanted in {**package["dependencies"], **package["devDependencies"]}.items():
            self.assertRegex(wanted, r"^\d+\.\d+\.\d+$", name)
        lock = json.loads((WEB / "package-lock.json").read_text())
        for place, entry in lock["packages"].items():
            self.assertNotIn("resolved", entry, place)
            if place:
                self.assertRegex(entry["integrity"], r"^sha512-", place)

    def test_each_package_has_a_line_in_a_decision(self):
        decision = (harness.REPO / "docs" / "adr" / "0118-web-interface.md").read_text()
        package = json.loads((WEB / "package.json").read_text())
        for name in {**package["dependencies"], **package["devDependencies"]}:
            self.assertIn(f"`{name}`", decision)

    def test_licences_of_all_packages_are_with_them(self):
        text = (BUILT / "licences.txt").read_text()
        for name in json.loads((WEB / "package.json").read_text())["dependencies"]:
            self.assertRegex(text, rf"(?m)^{re.escape(name)} [\d.]+, ")

    def test_units(self):
        node = shutil.which("node")
        self.assertIsNotNone(node, "no Node.js: apt-get install nodejs")
        with tempfile.TemporaryDirectory() as folder:
            names = sorted(str(path) for path in (WEB / "tests").glob("*.test.ts*"))
            bundled = subprocess.run([str(WEB / "node_modules/.bin/esbuild"), *names, "--bundle", "--platform=node", "--format=esm",
                                      f"--outdir={folder}", "--out-extension:.js=.mjs", "--log-level=warning"],
                                     cwd=WEB, capture_output=True, text=True, timeout=60)
            self.assertEqual(bundled.returncode, 0, bundled.stderr)
            made = sorted(str(path) for path in pathlib.Path(folder).glob("*.mjs"))
            self.assertEqual(len(made), len(names))
            done = subprocess.run([node, "--test", *made], cwd=WEB, capture_output=True, text=True, timeout=120)
            self.assertEqual(done.returncode, 0, done.stdout[-4000:] + done.stderr[-2000:])


if __name__ == "__main__":
    unittest.main()
