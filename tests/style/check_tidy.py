# SPDX-License-Identifier: Apache-2.0
"""clang-tidy finds nothing. What wraps system calls or decodes the wire is always looked at; the rest
with `./dev lint` and `./dev test --long`, for it takes a quarter of an hour. A file that was clean
is not looked at again until it, a header of ours or the configuration changes."""

import concurrent.futures
import hashlib
import json
import os
import pathlib
import re
import subprocess
import unittest

import tree

BUILD = pathlib.Path(os.environ.get("CLOISTER_BUILD", tree.REPO / "build")) / "release"
CACHE = BUILD.parent / "tidy"
ALWAYS = ("src/linux/", "src/wire/")
LONG = os.environ.get("CLOISTER_LONG") == "1"
PRECOMPILED = re.compile(r" -Winvalid-pch| -Xclang -include(-pch)? -Xclang \S+")
INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"', re.MULTILINE)


def closure(path, seen):
    """`path` and every header of ours that it includes, directly or not."""
    if path in seen or not (tree.REPO / path).is_file():
        return
    seen.add(path)
    for name in INCLUDE.findall(tree.text(path)):
        closure(pathlib.Path("src") / name, seen)


def digest(path):
    """Of all that clang-tidy's answer for `path` depends on in this tree."""
    seen = set()
    closure(path, seen)
    total = hashlib.sha256(tree.text(".clang-tidy").encode())
    for name in sorted(seen):
        total.update(f"\0{name}\0".encode() + tree.text(name).encode())
    return total.hexdigest()


def check(path):
    """"" if clean, otherwise what clang-tidy says."""
    mark = CACHE / digest(path)
    if mark.exists():
        return ""
    done = subprocess.run(["clang-tidy-19", "--quiet", "-p", str(CACHE), str(tree.REPO / path)],
                          capture_output=True, text=True, cwd=tree.REPO)
    if done.returncode == 0:
        mark.touch()
        return ""
    return f"{path}:\n{done.stdout[-3000:]}{done.stderr[-500:] if not done.stdout else ''}"


def by_source(commands):
    """In the place of a unit of several sources (cmake/unity.cmake), an entry for each of them."""
    for entry in commands:
        unit = pathlib.Path(entry["file"])
        if unit.parent.name != "unity":
            yield entry
            continue
        for name in INCLUDE.findall(unit.read_text()):
            source = str(tree.REPO / "src" / name)
            yield {**entry, "file": source, "command": entry["command"].replace(str(unit), source)}


class Tidy(unittest.TestCase):
    def test_no_findings(self):
        database = BUILD / "compile_commands.json"
        if not database.exists():
            self.fail("build/release is not configured: ./dev build")
        # A file includes what it uses.
        commands = list(by_source(json.loads(PRECOMPILED.sub("", database.read_text()))))
        compiled = {pathlib.Path(entry["file"]) for entry in commands}
        paths = [path for path in tree.with_suffix(".cc") if tree.REPO / path in compiled
                 and str(path).startswith("src/") and not path.name.endswith("_test.cc")
                 and (LONG or str(path).startswith(ALWAYS))]
        CACHE.mkdir(parents=True, exist_ok=True)
        (CACHE / database.name).write_text(json.dumps(commands))
        with concurrent.futures.ThreadPoolExecutor(os.cpu_count() or 2) as pool:
            found = [text for text in pool.map(check, paths) if text]
        self.assertEqual(found, [], "\n".join(found))


if __name__ == "__main__":
    unittest.main()
