# SPDX-License-Identifier: Apache-2.0
"""The output of ./dev bench policy: the figures of its programs beside their bounds."""

import json
import pathlib

import page

# program's "bench", its figure, the figure's name, the bound, the unit
ROWS = (
    ("agents", "p99_us", "permission check of one operation", 50, "µs"),
    ("filter", "p99_us", "command filter, one command", 200, "µs"),
    ("policy decision, 50 rules", "p99_us", "policy decision by the last of 50 rules", 200, "µs"),
    ("risks of its command", "p99_us", "risks of its command, for the score", 200, "µs"),
    ("agents", "page_p99_ms", "page of 500 of 100,000 violations", 20, "ms"),
)


def results(lines):
    """The JSON lines of the programs, by name."""
    return {row["bench"]: row for row in map(json.loads, lines)}


def table(found):
    """Markdown, with a row for each existing figure."""
    lines = ["| what, p99 | p50 | p99 | bound | met |", "| --- | --- | --- | --- | --- |"]
    for bench, figure, what, bound, unit in ROWS:
        if bench not in found:
            continue
        p50, p99 = found[bench][figure.replace("p99", "p50")], found[bench][figure]
        lines.append(f"| {what} | {p50:g} {unit} | {p99:g} {unit} | ≤ {bound} {unit} | {'yes' if p99 <= bound else 'no'} |")
    return "\n".join(lines)


def report(lines, out, docs):
    found = results(lines)
    pathlib.Path(out, "policy.json").write_text(json.dumps(found, indent=1) + "\n")
    shown = table(found)
    print(shown)
    page.write(pathlib.Path(docs, "BENCHMARKS.md"), "policy", shown)
