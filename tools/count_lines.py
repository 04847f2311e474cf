#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Counts the production code of src/ by folder: lines that are neither blank nor comments, and the lengths of
functions.

    tools/count_lines.py [COMMIT]    of a commit, or of the files here

Tests, and files for tests alone, are no production code. A function is recognised by clang-format's layout: a line
that ends in a brace behind a closing parenthesis, up to the brace at the same column.
"""

import pathlib
import re
import statistics
import subprocess
import sys

REPO = pathlib.Path(__file__).resolve().parents[1]
FOR_TESTS = re.compile(r"(_|/)(test\.cc|(\w+_)?(suite|fixture|harness|testing|testbed)\.h)$|/(testing|suite)/")
BEGIN = re.compile(r"^( *)\S.*\)(?: const| noexcept| override| final| mutable|\s*->\s*[^{]+)* \{$")
NO_FUNCTION = re.compile(r"^ *(?:\} )?(?:if|for|while|switch|else|namespace|struct|class|enum|union|do|return|extern)\b|= ?\[|\[[^\]]*\]\(")


def files(commit):
    """(path, text) of each source of production code."""
    git = ["git", "-C", str(REPO)]
    if commit:
        names = subprocess.run([*git, "ls-tree", "-r", "--name-only", commit, "src"], check=True, capture_output=True, text=True)
    else:
        names = subprocess.run([*git, "ls-files", "src"], check=True, capture_output=True, text=True)
    for name in names.stdout.split("\n"):
        if not name.endswith((".cc", ".h")) or FOR_TESTS.search(name):
            continue
        if commit:
            yield name, subprocess.run([*git, "show", f"{commit}:{name}"], check=True, capture_output=True, text=True).stdout
        elif (REPO / name).exists():
            yield name, (REPO / name).read_text()


def code(text):
    """Its lines without comments and blank ones."""
    text = re.sub(r"/\*.*?\*/", "", text, flags=re.DOTALL)
    return [line for line in text.splitlines() if line.strip() and not line.lstrip().startswith("//")]


def functions(lines):
    """The length of each function's body."""
    begun = []  # (column, number of the line)
    for number, line in enumerate(lines):
        match = BEGIN.match(line)
        if match and not NO_FUNCTION.search(line):
            begun.append((len(match[1]), number))
        elif begun and line.startswith(" " * begun[-1][0] + "}"):
            yield number - begun.pop()[1] - 1


def main():
    commit = sys.argv[1] if len(sys.argv) > 1 else ""
    count, lengths = {}, []
    for name, text in files(commit):
        lines = code(text)
        folder = name.split("/")[1]
        count[folder] = count.get(folder, 0) + len(lines)
        lengths += functions(lines)
    for folder, lines in sorted(count.items()):
        print(f"{folder:14} {lines:7}")
    tenths = statistics.quantiles(lengths, n=10)
    print(f"{'all':14} {sum(count.values()):7}   functions: {len(lengths)}, median {statistics.median(lengths):.0f}, "
          f"p90 {tenths[8]:.0f}, longest {max(lengths)}")


main()
