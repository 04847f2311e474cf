# SPDX-License-Identifier: Apache-2.0
"""Stories of tests/web/*.mjs: an ordinary user's Chromium, with its own sandbox on, against a real server."""

import json
import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest

import harness
import npm_packages

CHROMIUM = os.environ.get("CLOISTER_CHROMIUM", "/usr/bin/chromium")
BUILT = pathlib.Path(os.environ.get("CLOISTER_BUILD", harness.REPO / "build")) / "web"
STORY_SECONDS = 120
# Failed stories leave pictures here, which the results keep.
PICTURES = pathlib.Path("/tmp/results") if pathlib.Path("/tmp/results").is_dir() else pathlib.Path(tempfile.gettempdir())
# No story causes one of these. A story that opens hostile content names its exceptions.
CLEAN = ("csp", "errors", "foreign", "planted")


def share(into):
    """The share directory of the programs, with the built interface in web/."""
    if not (BUILT / "index.html").exists():
        raise AssertionError(f"no web interface in {BUILT}: run ./dev build")
    into.mkdir()
    for each in (harness.BIN.parent / "share" / "cloister").iterdir():
        if each.name != "web":
            (into / each.name).symlink_to(each.resolve())
    shutil.copytree(BUILT, into / "web")
    return into


class Story(dict):
    """The facts that a story told, by name."""

    @property
    def record(self):
        return self["record"]


class WebCase(unittest.TestCase):
    config = ""
    file = None  # of tests/web
    args = ()  # of Chromium

    @classmethod
    def setUpClass(cls):
        cls.prepare()
        cls.server = cls.enterClassContext(harness.Server(config=cls.config, env={"CLOISTER_SHARE": str(cls.share)}))

    @classmethod
    def prepare(cls):
        if not pathlib.Path(CHROMIUM).exists():
            raise unittest.SkipTest("not in the guest's image: chromium") if harness.SLOW else AssertionError("chromium is not installed")
        packages = npm_packages.Packages("browser").need()
        cls.folder = pathlib.Path(cls.enterClassContext(tempfile.TemporaryDirectory(prefix="web-test.")))
        cls.folder.chmod(0o755)
        # The clone may be closed to the ordinary user.
        shutil.copytree(packages.root / "node_modules", cls.folder / "node_modules")
        for path in packages.source.glob("*.mjs"):
            shutil.copy(path, cls.folder)
        cls.pictures, cls.home = cls.folder / "pictures", cls.folder / "home"
        for each in (cls.pictures, cls.home):
            each.mkdir()
            if harness.ROOT:
                os.chown(each, harness.USER_ID, harness.USER_ID)
        cls.share = share(cls.folder / "share")

    def key(self, tenant="acme", role="agent", **who):
        """→ (secret, id)"""
        made = self.server.request("POST", "/v1/keys", {"tenant": tenant, "role": role, **who})
        self.assertEqual(made.status, 201, made.text)
        return made.json()["secret"], made.json()["id"]

    def start(self, name, server=None, **options):
        server = server or self.server
        config = {"story": name, "url": server.url, "key": server.key, "chromium": CHROMIUM, "pictures": str(self.pictures),
                  "args": list(self.args), **options}
        user = {"user": harness.USER_ID, "group": harness.USER_ID, "extra_groups": []} if harness.ROOT else {}
        return subprocess.Popen(
            ["node", str(self.folder / self.file), json.dumps(config)], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, text=True, cwd=self.folder, start_new_session=True,
            env={"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": str(self.home), "LANG": "C.UTF-8", "TZ": "Europe/Berlin"}, **user)

    def story(self, name, server=None, allowed=(), seconds=STORY_SECONDS, **options):
        process = self.start(name, server, **options)
        try:
            out, errors = process.communicate(timeout=harness.limit(seconds))
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, 9)
            out, errors = process.communicate()
            errors += f"\nthe story took over {harness.limit(seconds)} s"
        if process.returncode != 0:
            for picture in self.pictures.glob("*.png"):
                shutil.copy(picture, PICTURES)
            self.fail(f"{name}:\n{out[-2000:]}{errors[-6000:]}")
        story = Story((line["name"], line["value"]) for line in map(json.loads, out.splitlines()))
        for kind in CLEAN:
            if kind not in allowed:
                self.assertEqual(story.record[kind], [], f"{name}: {kind}")
        return story
