#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Images for languages, made of this machine's packages: reproducible, with programs run inside."""

import hashlib
import json
import pathlib
import shutil
import subprocess
import sys
import tarfile
import tempfile
import unittest

import harness

MAKER = pathlib.Path(__file__).resolve().parents[2] / "tools" / "language_images.py"
HELLO = {"bash": "echo hello", "python": "print('hello')", "node": "console.log('hello')"}


def make(directory, *languages):
    return subprocess.run([sys.executable, MAKER, directory, *languages], capture_output=True, text=True)


class LanguageImages(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(tempfile.mkdtemp(prefix="cloister-test-languages."))
        cls.addClassCleanup(shutil.rmtree, cls.folder)
        cls.languages = ["bash", "python"] + (["node"] if shutil.which("dpkg-query") and not subprocess.run(
            ["dpkg-query", "-W", "nodejs"], capture_output=True).returncode else [])
        cls.made = make(cls.folder / "first", *cls.languages)

    def made_again(self):
        self.assertEqual(make(self.folder / "second", "python").returncode, 0)
        return self.folder / "second"

    def test_each_is_an_archive(self):
        archives = [str(self.folder / "first" / f"{language}.tar") for language in self.languages]
        self.assertEqual((self.made.stdout.split(), self.made.stderr), (archives, ""))
        for archive in archives:
            with tarfile.open(archive) as layout:
                names = layout.getnames()
            self.assertEqual(names[:2], ["oci-layout", "index.json"])
            for blob in names[2:]:
                with tarfile.open(archive) as layout:
                    digest = hashlib.file_digest(layout.extractfile(blob), "sha256").hexdigest()
                self.assertEqual(blob, f"blobs/sha256/{digest}")

    def test_the_same_packages_make_the_same_archive(self):
        first, second = ((folder / "python.tar").read_bytes() for folder in (self.folder / "first", self.made_again()))
        self.assertTrue(first == second)

    def test_each_has_its_bill_of_materials(self):
        for language in self.languages:
            bill = json.loads((self.folder / "first" / f"{language}.cdx.json").read_text())
            with tarfile.open(self.folder / "first" / f"{language}.tar") as layout:
                (image,) = json.load(layout.extractfile("index.json"))["manifests"]
            self.assertEqual(bill["metadata"]["component"]["version"], image["digest"])
            names = [each["name"] for each in bill["components"]]
            self.assertIn("bash", names)
            self.assertIn({"bash": "coreutils", "python": "python3", "node": "nodejs"}[language], names)
            self.assertEqual("nodejs" in names, language == "node")
        self.assertEqual((self.folder / "first" / "python.cdx.json").read_bytes(), (self.made_again() / "python.cdx.json").read_bytes())

    def test_programs_run_in_them(self):
        store = self.folder / "store"
        for language in self.languages:
            subprocess.run([harness.BIN / "cloister", "image", "import", "--images", store, language,
                            self.folder / "first" / f"{language}.tar"], capture_output=True, check=True)
        with harness.Server(f"node:\n  images: {store}\n") as server:
            offered = {image["name"]: image["languages"] for image in server.request("GET", "/v1/images").json()["images"]}
            for language in self.languages:
                with self.subTest(language):
                    self.assertIn(language, offered[language])
                    done = server.run(HELLO[language], language, image=language)
                    self.assertEqual((done["stdout"], done["stderr"], done["exit_code"]), ("hello\n", "", 0), done)
                    self.assertEqual(done["provenance"]["image"], language)
            self.assertNotIn("python", offered["bash"])
            listed = server.run("ls /usr/bin | wc -l; cat /etc/hostname; awk 'BEGIN { print 1 }'", "bash", image="bash")
            self.assertEqual((listed["stdout"].split()[-1], listed["exit_code"]), ("1", 0), listed)

    def test_what_cannot_be_made_is_told(self):
        done = make(self.folder / "third", "cobol")
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stderr, r"no language cobol; there are bash, python, .*\n")
        self.assertFalse((self.folder / "third").exists())


if __name__ == "__main__":
    unittest.main()
