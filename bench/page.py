# SPDX-License-Identifier: Apache-2.0
"""Writes sections of docs/BENCHMARKS.md: between `<!-- bench NAME -->` and `<!-- end -->`."""


def replaced(text, name, section):
    begin, rest = text.split(f"<!-- bench {name} -->\n", 1)
    return f"{begin}<!-- bench {name} -->\n{section}\n{rest[rest.index('<!-- end -->'):]}"


def write(path, name, section):
    path.write_text(replaced(path.read_text(), name, section))
