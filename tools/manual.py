#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The manual page of the command line, or of cloister-grpc, made from the output of `--help`.

    tools/manual.py PROGRAM OUTPUT           e.g. build/release/bin/cloister cloister.1.gz
"""

import gzip
import os
import pathlib
import re
import subprocess
import sys

FLAGS = "Flags of every command"
FLAG = re.compile(r" {2,}((?:-\w, )?--\S+(?: \S+)*?) {2,}(\S.*)")


def help_of(program, *command):
    wide = {**os.environ, "COLUMNS": "1000"}  # each entry on one line: roff fills the lines
    return subprocess.run([program, *command, "--help"], check=True, capture_output=True, text=True, env=wide).stdout


def quoted(text):
    """Escaped for roff."""
    text = text.replace("\\", "\\e").replace("-", "\\-")
    return re.sub(r"^(?=[.'])", r"\\&", text, flags=re.MULTILINE)


def flags(lines):
    """`  -h, --help      explain the command`, each on a line."""
    for line in lines:
        name, meaning = FLAG.fullmatch(line).groups()
        yield f".TP\n.B {quoted(name)}\n{quoted(meaning)}"


def verbatim(lines):
    return [".RS\n.nf", *(quoted(line.removeprefix("  ")) for line in lines), ".fi\n.RE"]


def parts(text):
    """[(title or "", lines)] of a help text, without its first line."""
    title, lines = "", []
    for line in text.splitlines()[1:]:
        if re.fullmatch(r"[A-Z][a-z ]+:", line):
            yield title, lines
            title, lines = line[:-1], []
        elif line or lines:
            lines.append(line)
    yield title, lines


def filled(lines):
    return [quoted(line) if line else ".PP" for line in lines]


def command(name, summary, text):
    """A command: a subsection."""
    yield f".SS {quoted(name)}"
    yield f"{quoted(summary[0].upper() + summary[1:])}."
    for title, lines in parts(text):
        while lines and not lines[-1]:
            lines.pop()
        if title == "Usage":  # details follow the usage, behind an empty line
            usage, details = lines[:1], lines[2:]
            yield f".PP\n.B {quoted(usage[0].strip())}"
            if details:
                yield from [".PP", *filled(details)]
        elif title == "Flags":
            yield from flags(lines)
        elif title == "Examples":
            yield from [".PP\nExamples:", *verbatim(lines)]


def named(lines):
    """`  NAME      summary`, each on a line."""
    for line in lines:
        if line.startswith("  "):
            yield re.fullmatch(r"  (\S+) {2,}(.+)", line).groups()


def commands(program, group):
    """The commands of a group, then those of the groups within it."""
    listed = dict(parts(help_of(program, *group)))
    for name, summary in named(listed["Commands"]):
        yield from command(" ".join((*group, name)), summary, help_of(program, *group, name))
    for name, _ in named(listed.get("Groups", [])):
        yield from commands(program, (*group, name))


def page(program):
    general = dict(parts(help_of(program)))
    title, summary = help_of(program).splitlines()[0].split(": ", 1)
    version = subprocess.run([program, "version"], check=True, capture_output=True, text=True).stdout.split()[1]
    yield f'.TH CLOISTER 1 "" "cloister {version}" "Cloister"\n.SH NAME\n{title} \\- {quoted(summary)}'
    yield ".SH SYNOPSIS\n.B cloister\n.I COMMAND\n[\\fIflags\\fR] [\\fIoperands\\fR]"
    yield ".SH COMMANDS"
    yield from commands(program, ())
    yield ".SH ALIASES"
    yield from verbatim(filter(None, general["Aliases"]))
    yield ".SH FLAGS OF EVERY COMMAND"
    yield from flags(filter(None, general[FLAGS]))
    yield ".SH DOCUMENTATION"
    yield f"docs/ is in {quoted('share/doc/cloister')} of the installation: in /usr/share/doc/cloister for the package."
    yield ".SH EXAMPLES"
    yield from verbatim(line for line in general["Examples"] if line.startswith("  "))


def plain_page(program):
    """Of a program without commands: a usage with a summary, flags, a paragraph, examples."""
    name, text = pathlib.Path(program).name, help_of(program)
    usage, summary = re.fullmatch(r"usage: (.+?) {2,}(.+)", text.splitlines()[0]).groups()
    version = subprocess.run([program, "--version"], check=True, capture_output=True, text=True).stdout.split()[1]
    sections = dict(parts(text))
    lines = sections["Flags"]
    end = lines.index("")
    yield f'.TH {quoted(name.upper())} 1 "" "cloister {version}" "Cloister"\n.SH NAME\n{quoted(name)} \\- {quoted(summary)}'
    yield f".SH SYNOPSIS\n.B {quoted(usage)}"
    yield ".SH DESCRIPTION"
    yield from filled([line for line in lines[end:] if line])
    yield ".SH FLAGS"
    yield from flags(lines[:end])
    yield ".SH EXAMPLES"
    yield from verbatim(sections["Examples"])


def main():
    program, output = sys.argv[1:]
    made = page if pathlib.Path(program).name == "cloister" else plain_page
    text = "\n".join(made(program)) + "\n"
    pathlib.Path(output).parent.mkdir(parents=True, exist_ok=True)
    pathlib.Path(output).write_bytes(gzip.compress(text.encode(), mtime=0))


if __name__ == "__main__":
    main()
