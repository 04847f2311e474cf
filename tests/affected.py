# SPDX-License-Identifier: Apache-2.0
"""Finds the folders of src/ that a change can affect, for a developer's run of the landing tier.

Such a run builds and runs the sanitized units of the folders that changed since a base, and of the folders above them,
which may include them, directly or through others (src/layers.txt). The base is CLOISTER_BASE, a commit; by default
the last tag. CI, and a clone without a base, build all units.
"""

import fnmatch
import os
import re

import results
from suites import REPO

VARIABLE = "CLOISTER_BASE"
# No unit is built from these, and no unit reads them, except files named by a test (READS).
OUTSIDE = ("*.md", ".ci/*", ".clang-*", ".gitignore", "LICENSE", "bench/*", "deploy/*", "dev", "docs/*", "egress-conformance/*", "fuzz/*",
           "sdk/*", "tests/*.py", "tests/*.tsv", "tests/data/*", "tests/skips.txt", "tools/*")
READS = re.compile(r'CLOISTER_SOURCE_DIR\)?[\s+]*"/([^"\s]+)')
# The units of these folders run programs made of these other folders.
RUNS = {"sandbox": {"bin", "runner", "guest", "vmm", "krun", "zygote"}}


class BadBase(Exception):
    """CLOISTER_BASE names no commit."""


def layers(repo=REPO):
    """{folder or room of a folder: the folders and rooms that may be included}, lowest first."""
    allowed = {}
    for line in (repo / "src" / "layers.txt").read_text().splitlines():
        if line.strip() and not line.startswith("#"):
            name, _, rest = line.partition(":")
            allowed[name.strip()] = rest.split()
    return allowed


def folders(repo=REPO):
    """{folder: the folders that the folder or its rooms may include}, lowest first."""
    allowed = {}
    for name, lower in layers(repo).items():
        folder = name.partition("/")[0]
        allowed.setdefault(folder, set()).update({each.partition("/")[0] for each in lower} - {folder})
    return allowed


def base(repo=REPO):
    """(commit or None, the words that name the commit, or the reason for None)."""
    if os.environ.get("CI"):
        return None, "CI builds all"
    name = os.environ.get(VARIABLE, "")
    if not name:
        tag = results.git("describe", "--tags", "--abbrev=0", repo=repo)
        return (tag, f"the tag {tag}") if tag else (None, f"{VARIABLE} is not set, and there is no tag")
    found = results.git("rev-parse", "--verify", "--quiet", "--end-of-options", f"{name}^{{commit}}", repo=repo)
    if found is None:
        raise BadBase(f"{VARIABLE}={name}: this clone has no such commit; set it to one that it has, such as origin/main "
                      "or HEAD~1, or unset it to compare with the last tag")
    return found, f"{VARIABLE}={name}"


def changed(commit, repo=REPO):
    """Paths of the files that differ from the commit, including files not committed and not added."""
    differ = results.git("diff", "--name-only", "--no-renames", "-z", commit, "--", repo=repo)
    added = results.git("ls-files", "--others", "--exclude-standard", "-z", repo=repo)
    if differ is None or added is None:
        raise BadBase(f"comparing with {commit}: git failed; unset {VARIABLE} and delete no objects of the clone")
    return [path for path in (differ + "\0" + added).split("\0") if path]


def readers(path, tests):
    """The folders whose units read the file. `tests`: {folder: the text of its tests}."""
    return {folder for folder, text in tests.items()
            if any(f"{path}/".startswith(name.rstrip("/") + "/") for name in READS.findall(text))}


def affected(paths, repo=REPO):
    """(folders whose units the changed files can affect, ""), or (None, the file that affects all)."""
    allowed = folders(repo)
    tests = {name: "".join(file.read_text() for file in sorted((repo / "src" / name).rglob("*_test.cc"))) for name in allowed}
    touched = set()
    for path in paths:
        parts = path.split("/")
        if parts[0] == "src" and len(parts) > 2:
            touched.add(parts[1])
        elif any(fnmatch.fnmatchcase(path, pattern) for pattern in OUTSIDE):
            touched |= readers(path, tests)
        else:
            return None, path
    running = {name for name, programs in RUNS.items() if touched & programs}
    for name, lower in allowed.items():  # lowest first, so once is enough
        if touched & lower:
            touched.add(name)
    return touched | running, ""


def narrow(chosen, repo=REPO):
    """(the remaining suites of the landing tier, a line with the units left out and the reason)."""
    commit, which = base(repo)
    if commit is None:
        return chosen, f"asan units of all folders: {which}"
    found, everything = affected(changed(commit, repo), repo)
    if found is None:
        return chosen, f"asan units of all folders: {everything} changed since {which}"
    out = [suite for suite in chosen if suite.preset == "asan" and suite.unit and suite.unit not in found]
    left = [suite for suite in chosen if suite not in out]
    names = ", ".join(sorted({suite.unit for suite in out})) or "none"
    return left, f"asan units left out: {names}; no change since {which} affects them"
