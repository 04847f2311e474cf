# SPDX-License-Identifier: Apache-2.0
"""clang-tidy finds nothing, in each compiled unit: a source, or a batch of sources (cmake/unity.cmake), whose
headers are then read once for all of them. `./dev lint` and the long tier look at every unit except tests; other
runs look only at the units with sources of `linux` and `wire`. The static analyzer (clang-analyzer-*) takes four to
nine times as long as all other checks together, so the analyzer only looks at the folders whose code wraps system
calls or decodes bytes from outside. A clean unit is looked at again only after a change of its sources, its headers
of ours, its options or the configuration."""

import concurrent.futures
import dataclasses
import hashlib
import json
import os
import pathlib
import re
import subprocess
import tempfile
import unittest
import unittest.mock

import tree

BUILD = pathlib.Path(os.environ.get("CLOISTER_BUILD", tree.REPO / "build")) / "release"
CACHE = BUILD.parent / "tidy"
ALWAYS = ("linux/", "wire/")  # below src/
ANALYZED = (*ALWAYS, "guest/", "krun/", "runner/", "vmm/")
LONG = os.environ.get("CLOISTER_LONG") == "1"
PRECOMPILED = re.compile(r" -Winvalid-pch| -Xclang -include(-pch)? -Xclang \S+")
INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"', re.MULTILINE)
CLANG_TIDY = "clang-tidy-19"
UNIFIED = "UnifiedSource"  # the analyzer looks into the sources of a batch only if its name contains this word


@dataclasses.dataclass
class Unit:
    """A unit of the release build. `sources`: its own, below src/."""

    path: pathlib.Path
    command: str
    sources: list

    def options(self):
        return [] if self.sources[0].startswith(ANALYZED) else ["--checks=-clang-analyzer-*"]


def unit_of(entry):
    path = pathlib.Path(entry["file"])
    if path.parent == BUILD.parent / "unity":
        copy = CACHE / f"{UNIFIED}.{path.name}"
        return Unit(copy, entry["command"].replace(str(path), str(copy)), INCLUDE.findall(path.read_text()))
    below = path.is_relative_to(tree.REPO / "src")
    return Unit(path, entry["command"], [str(path.relative_to(tree.REPO / "src"))] if below else [])


def units(database):
    """The units of src/ without tests, the largest first. A source of several programs is looked at in a single
    program."""
    found = {unit.path: unit for unit in map(unit_of, reversed(database))}.values()
    chosen = [unit for unit in found if unit.sources and not any(name.endswith("_test.cc") for name in unit.sources)
              and (LONG or any(name.startswith(ALWAYS) for name in unit.sources))]
    return sorted(chosen, key=lambda unit: (-len(unit.sources), unit.path))


def closure(name, seen):
    """A file below src/, and every file of ours that the file includes, directly or not."""
    if name in seen or not (tree.REPO / "src" / name).is_file():
        return
    seen.add(name)
    for included in INCLUDE.findall(tree.text(pathlib.Path("src") / name)):
        closure(included, seen)


def digest(unit):
    """A digest of all inputs in this tree of clang-tidy's answer for the unit."""
    seen = set()
    for name in unit.sources:
        closure(name, seen)
    total = hashlib.sha256("\0".join([tree.text(".clang-tidy"), unit.command, *unit.options()]).encode())
    for name in sorted(seen):
        total.update(f"\0{name}\0".encode() + tree.text(pathlib.Path("src") / name).encode())
    return total.hexdigest()


def tidy(path, *options):
    return subprocess.run([CLANG_TIDY, "--quiet", str(path), *options], capture_output=True, text=True, cwd=tree.REPO)


def check(unit):
    """"" if clean, otherwise clang-tidy's output."""
    mark = CACHE / digest(unit)
    if mark.exists():
        return ""
    done = tidy(unit.path, "-p", str(CACHE), *unit.options())
    if done.returncode == 0:
        mark.touch()
        return ""
    return f"{unit.path.name}:\n{done.stdout[-8000:]}{done.stderr[-500:] if not done.stdout else ''}"


class Tidy(unittest.TestCase):
    def test_no_findings(self):
        database = BUILD / "compile_commands.json"
        if not database.exists():
            self.fail("build/release is not configured: ./dev build")
        # A file includes what it uses.
        chosen = units(json.loads(PRECOMPILED.sub("", database.read_text())))
        CACHE.mkdir(parents=True, exist_ok=True)
        for unit in chosen:
            if unit.path.parent == CACHE:
                unit.path.write_text("".join(f'#include "{name}"\n' for name in unit.sources))
        entries = [{"directory": str(BUILD), "file": str(unit.path), "command": unit.command} for unit in chosen]
        (CACHE / database.name).write_text(json.dumps(entries))
        with concurrent.futures.ThreadPoolExecutor(os.cpu_count() or 2) as pool:
            found = [text for text in pool.map(check, chosen) if text]
        self.assertEqual(found, [], "\n".join(found))


class Batches(unittest.TestCase):
    """clang-tidy sees faults in the sources of a batch, though they are not its main file."""

    FAULTS = {"modernize-use-nullptr": "const char* name() { return 0; }",
              "clang-analyzer-core.NullDereference": "int read(int* at) { if (at == nullptr) return *at; return 1; }"}

    def found_in(self, text):
        folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        (folder / "src").mkdir()
        (folder / "src" / "one.cc").write_text(f"{text}\n")
        unit = folder / f"{UNIFIED}.unit.cc"
        unit.write_text('#include "one.cc"\n')
        return tidy(unit, f"--config-file={tree.REPO / '.clang-tidy'}", "--", f"-iquote{folder}/src").stdout

    def test_faults_are_found(self):
        for name, text in self.FAULTS.items():
            with self.subTest(name):
                self.assertIn(f"[{name},", self.found_in(text))

    def test_a_batch_without_a_fault_is_clean(self):
        self.assertEqual(self.found_in("int one() { return 1; }"), "")


class Marks(unittest.TestCase):
    """A unit is looked at again when any input of the answer changes."""

    UNIT = Unit(pathlib.Path("unit.cc"), "clang -c unit.cc", ["vmm/relay.cc"])

    def digest_with(self, changed):
        text = tree.text
        with unittest.mock.patch.object(tree, "text", lambda path: text(path) + "//" * (str(path) == changed)):
            return digest(self.UNIT)

    def test_a_change_of_a_source_a_header_or_the_configuration(self):
        before = digest(self.UNIT)
        self.assertEqual(self.digest_with("src/store/store.h"), before)  # another's
        for path in ("src/vmm/relay.cc", "src/vmm/pipe.h", ".clang-tidy"):
            self.assertNotEqual(self.digest_with(path), before, path)

    def test_a_change_of_the_options_or_of_the_checks(self):
        before = digest(self.UNIT)
        self.assertNotEqual(digest(dataclasses.replace(self.UNIT, command="clang -O2 -c unit.cc")), before)
        with unittest.mock.patch.object(Unit, "options", lambda unit: ["--checks=-*"]):
            self.assertNotEqual(digest(self.UNIT), before)


if __name__ == "__main__":
    unittest.main()
