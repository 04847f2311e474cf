#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the blocking half of the Python SDK, sdk/python/cloister/_sync/, from the async half in _async/.

    tools/sdk_sync.py             writes the files
    tools/sdk_sync.py --check     writes nothing; ends with 1 if a file is not fresh

Both halves do the same, so that a correction reaches both. The words of WORDS are replaced. A line that ends with
`# async only` is left out, and `# sync: CODE` becomes CODE. tests/style/check_sdk.py holds the files fresh.
"""

import pathlib
import re
import sys

REPO = pathlib.Path(__file__).resolve().parents[1]
PACKAGE = REPO / "sdk/python/cloister"
HEADER = "# SPDX-License-Identifier: Apache-2.0\n"
GENERATED = HEADER + "# Generated from _async/{name} by tools/sdk_sync.py: do not edit.\n"
WORDS = (
    (r"\basync def\b", "def"), (r"\basync for\b", "for"), (r"\basync with\b", "with"), (r"\bawait ", ""),
    (r"\b__aenter__\b", "__enter__"), (r"\b__aexit__\b", "__exit__"), (r"\b__aiter__\b", "__iter__"),
    (r"\b__anext__\b", "__next__"), (r"\bStopAsyncIteration\b", "StopIteration"), (r"\baclose\b", "close"),
    (r"\baiter_raw\b", "iter_raw"), (r"\basynccontextmanager\b", "contextmanager"), (r"\bAsyncIterable\b", "Iterable"), (r"\bAsyncIterator\b", "Iterator"),
    (r"\bAsyncGenerator\b", "Generator"), (r"\b_wire_async\b", "_wire_sync"), (r"\b_async\b", "_sync"),
    (r"\bAsync([A-Z]\w*)", r"\1"), (r"\basync_", ""))


def sync(text, name):
    """The blocking twin of a source."""
    lines = []
    for line in text.removeprefix(HEADER).split("\n"):
        if line.endswith("# async only"):
            continue
        line = re.sub(r"# sync: ?", "", line)
        for pattern, replacement in WORDS:
            line = re.sub(pattern, replacement, line)
        if line.startswith("from typing import "):
            line = "from typing import " + ", ".join(dict.fromkeys(line[len("from typing import "):].split(", ")))
        line = re.sub(r"Union\[(\w+(?:\[\w+\])?), \1\]", r"\1", line).replace("Iterable[bytes], Iterable[bytes]", "Iterable[bytes]")
        lines.append(line)
    return GENERATED.format(name=name) + "\n".join(lines)


def texts():
    """{file: its fresh text}"""
    return {PACKAGE / "_sync" / path.name: sync(path.read_text(encoding="utf-8"), path.name)
            for path in sorted((PACKAGE / "_async").glob("*.py"))}


def main():
    fresh = texts()
    stale = [path for path, text in fresh.items() if not path.exists() or path.read_text(encoding="utf-8") != text]
    stale += [path for path in (PACKAGE / "_sync").glob("*.py") if path not in fresh]
    if sys.argv[1:] == ["--check"]:
        for path in stale:
            print(f"{path.relative_to(REPO)} is not fresh: run tools/sdk_sync.py", file=sys.stderr)
        return 1 if stale else 0
    if sys.argv[1:]:
        print(__doc__, file=sys.stderr)
        return 2
    for path in stale:
        path.parent.mkdir(parents=True, exist_ok=True)
        if path in fresh:
            path.write_text(fresh[path], encoding="utf-8")
        else:
            path.unlink()
    return 0


if __name__ == "__main__":
    sys.exit(main())
