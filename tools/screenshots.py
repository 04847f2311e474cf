#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Draws every screen of the web interface, light and dark, 1280 and 390 pixels wide, into build/screenshots.

    tools/screenshots.py [FOLDER]

Needs the built programs and interface, Chromium, and the npm packages of tests/web. Ends with 1 if a screen is wider than its
window, or if the pictures are larger than 5 MB in all.
"""

import os
import pathlib
import sys
import tempfile

import PIL.Image

REPO = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(REPO / "tests" / "integration"))
import web_world  # noqa: E402
from web_case import WebCase  # noqa: E402

MAX_BYTES = 5_000_000
WORK = {f"session-{tab}" for tab in ("terminal", "files", "notebook", "ports")}


class Pictures(WebCase):
    file = "screens.mjs"

    @classmethod
    def setUpClass(cls):
        folder = pathlib.Path(cls.enterClassContext(tempfile.TemporaryDirectory(prefix="web-policy.")))
        folder.chmod(0o755)
        cls.config = web_world.policy(folder)
        super().setUpClass()

    def draw(self, folder):
        self.setUpClass()
        try:
            with web_world.World(self.server, "acme", "acme-only") as world:
                # An administrator sees a session of another tenant, and works in none.
                work = {name: path for name, path in world.screens.items() if name in WORK}
                rest = {name: path for name, path in world.screens.items() if name not in WORK}
                stories = [self.story("pictures", screens=screens, key=key, pause=700, seconds=900)
                           for screens, key in ((rest, self.server.key), (work, world.keys["agent"]))]
            folder.mkdir(parents=True, exist_ok=True)
            for old in folder.glob("*.png"):
                old.unlink()
            for picture in self.pictures.glob("*.png"):
                with PIL.Image.open(picture) as drawn:  # a palette is enough for text, and a third of the size
                    drawn.convert("RGB").quantize(256, dither=PIL.Image.Dither.NONE).save(folder / picture.name, optimize=True)
            return [story["wider than the window"] for story in stories if "wider than the window" in story]
        finally:
            self.doClassCleanups()


def main():
    folder = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else pathlib.Path(os.environ.get("CLOISTER_BUILD", REPO / "build")) / "screenshots"
    wide = Pictures().draw(folder)
    pictures = sorted(folder.glob("*.png"))
    size = sum(picture.stat().st_size for picture in pictures)
    print(f"{len(pictures)} pictures in {folder}, {size / 1e6:.1f} MB")
    if wide:
        print(f"screenshots: screens are wider than their windows: {', '.join(wide)}", file=sys.stderr)
        return 1
    if size > MAX_BYTES:
        print(f"screenshots: {size} bytes are more than {MAX_BYTES}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
