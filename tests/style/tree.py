# SPDX-License-Identifier: Apache-2.0
"""The files of the tree, for the style checks."""

import functools
import os
import pathlib
import subprocess

REPO = pathlib.Path(__file__).resolve().parents[2]


def git(*arguments):
    """Standard output of git in this clone, for any owner; None outside of a clone."""
    command = ["git", "-c", f"safe.directory={REPO}", "-C", str(REPO), *arguments]
    done = subprocess.run(command, capture_output=True, text=True)
    return done.stdout if done.returncode == 0 else None


@functools.cache
def files():
    """Every tracked file that exists, and the new files not ignored, relative to REPO."""
    listed = git("ls-files", "-z", "--cached", "--others", "--exclude-standard")
    if listed is None:  # an unpacked archive
        found = [p.relative_to(REPO) for p in REPO.rglob("*") if p.is_file()]
        return sorted(p for p in found if p.parts[0] not in ("build", ".git"))
    return sorted(p for p in map(pathlib.Path, filter(None, listed.split("\0"))) if (REPO / p).is_file())


def with_suffix(*suffixes):
    return [path for path in files() if path.suffix in suffixes]


@functools.cache
def text(path):
    return (REPO / path).read_text(errors="replace")


def is_script(path):
    return not path.suffix and os.access(REPO / path, os.X_OK) and text(path).startswith("#!")


def sources():
    """Program text of ours, in every language."""
    return with_suffix(".cc", ".h", ".c", ".py", ".sh", ".js", ".mjs", ".ts") + [p for p in files() if is_script(p)]
