#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The audit of the command filter: what the manuals say of programs that it knows, and what came of it.

    tests/audit_commands.py options     writes tests/data/command_options.tsv from the manual pages of this machine; those
                                        of packages that are not installed are fetched with apt-get download
    tests/audit_commands.py findings    runs each option once in the jail of the oracle, and writes tests/data/command_findings.tsv
    tests/audit_commands.py page        writes docs/COMMAND_AUDIT.md from that and tests/data/command_findings.tsv
"""

import importlib
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

REPO = pathlib.Path(__file__).resolve().parent.parent
OPTIONS = REPO / "tests/data/command_options.tsv"
FINDINGS = REPO / "tests/data/command_findings.tsv"
PAGE = REPO / "docs/COMMAND_AUDIT.md"
MOST_LINES = 4000

BUILTINS = """cd dirs popd pushd pwd set shopt declare typeset local export readonly let read mapfile readarray getopts unset
wait test printf echo jobs hash fc enable bind complete compgen compopt history trap command builtin exec eval kill times umask
ulimit type help caller disown fg bg""".split()
PROGRAMS = """ls cat head tail wc cut tr uniq comm join paste fold fmt nl od xxd hexdump strings file stat du df tree realpath
readlink basename dirname which whereis seq factor expr date cal id whoami groups hostname uname arch nproc uptime free ps pgrep
lsof lscpu lsblk printenv tty cmp diff md5sum sha256sum b2sum cksum sum base64 base32 jq column rev tac shuf tsort zcat
zgrep bzcat xzcat expand unexpand look numfmt pr ptx getconf grep egrep nm objdump readelf size pathchk lsmod vmstat iostat getent
sort less more man sdiff diff3 find mawk gawk env nice nohup setsid stdbuf timeout ionice taskset time flock script watch xargs
chrt busybox bash dash cloc git git-status git-log git-diff""".split()
# The package of a manual that may be missing on the machine.
PACKAGES = {"tree": "tree", "gawk": "gawk", "cloc": "cloc", "lsof": "lsof", "iostat": "sysstat",
            "xxd": "xxd", "look": "bsdextrautils", "jq": "jq", "time": "time", "file": "file", "cal": "ncal", "nm": "binutils-common"}

ITEM = re.compile(r"(--?[A-Za-z0-9@?#][A-Za-z0-9_-]*)(\[=?[^\]]*\]|[= ]?(?:<[^>]+>|[A-Z][A-Za-z0-9_.-]*|\{[^}]*\})|=\S+)?")
VARIABLE = re.compile(r"\b([A-Z][A-Z0-9]*(?:_[A-Z0-9]+)*)\b")


def manual(program, folder):
    """The text of its manual page, or nothing."""
    found = subprocess.run(["man", "-w", program], capture_output=True, text=True).stdout.strip()
    if not found and program in PACKAGES:
        subprocess.run(["apt-get", "-q", "download", PACKAGES[program]], cwd=folder, capture_output=True)
        for package in pathlib.Path(folder).glob("*.deb"):
            subprocess.run(["dpkg-deb", "-x", str(package), folder], check=True)
            package.unlink()
        found = next((str(page) for page in pathlib.Path(folder).rglob(f"{program}.1*")), "")
    if not found:
        return ""
    page = subprocess.run(["man", "-E", "ascii", "-P", "cat", "-l", found.splitlines()[0]], capture_output=True, text=True,
                          env={"PATH": "/usr/bin:/bin", "MANWIDTH": "400", "LC_ALL": "C.UTF-8"}).stdout
    return re.sub(r".\x08", "", page)


def builtin(name):
    return subprocess.run(["bash", "-c", f"help {name}"], capture_output=True, text=True).stdout


def argument(text):
    """Whether the text after an option is its value: `-`, `optional` or `value`."""
    if not text:
        return "-"
    return "optional" if text.startswith("[") else "value"


def options(text):
    """{option: whether it takes an argument}, from the lines that begin with an option."""
    found = {}
    for line in text.splitlines():
        line = line.strip()
        if not line.startswith("-"):
            continue
        head = re.split(r"\s{2,}|\t", line)[0]
        names = []
        for item in re.split(r",\s*|\s+or\s+|\s*\|\s*", head):
            match = ITEM.match(item)
            if match is None:
                break
            names.append((match.group(1), argument((match.group(2) or "").strip())))
        takes = next((takes for _, takes in names if takes != "-"), "-")
        for name, own in names:
            if len(name) > 1 and found.get(name, "-") == "-":
                found[name] = own if own != "-" else takes
    return found


def variables(text):
    """The names at the beginnings of lines in the section ENVIRONMENT."""
    section = re.search(r"^ENVIRONMENT.*?$(.*?)(?=^[A-Z])", text, re.M | re.S)
    if section is None:
        return []
    return sorted({match.group(1) for line in section.group(1).splitlines() if (match := VARIABLE.match(line.strip()))
                   and len(match.group(1)) > 2})


def write_options():
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for program in PROGRAMS:
            text = manual(program, folder)
            if not text:
                print(f"{program}: no manual", file=sys.stderr)
            rows += [(program, option, takes) for option, takes in sorted(options(text).items())]
            rows += [(program, "$" + name, "value") for name in variables(text)]
    for name in BUILTINS:
        rows += [("bash:" + name, option, takes) for option, takes in sorted(options(builtin(name)).items())]
    if len(rows) >= MOST_LINES:
        raise SystemExit(f"{len(rows)} lines, and {MOST_LINES} are the most: leave out a program")
    with open(OPTIONS, "w", encoding="utf-8") as out:
        out.write("# SPDX-License-Identifier: Apache-2.0\n# Generated by tests/audit_commands.py options from the manuals of Debian "
                  "12: PROGRAM, OPTION or $VARIABLE,\n# whether it takes an argument (value, optional or -).\n")
        out.writelines("\t".join(row) + "\n" for row in rows)
    print(f"{len(rows)} options of {len({row[0] for row in rows})} programs and builtins")


def module(name):
    """A module of tests/integration."""
    sys.path.insert(0, str(REPO / "tests/integration"))
    return importlib.import_module(name)


def write_findings():
    command_generator, oracle = module("command_generator"), module("test_command_oracle")
    rows = command_generator.each_option()
    log = oracle.trace([command for *_, command in rows], oracle.real_programs(), 0.5, ",openat,open," + oracle.CALLS)
    runs, changes = oracle.executed(log), oracle.changes(log)
    with open(FINDINGS, "w", encoding="utf-8") as out:
        out.write("# SPDX-License-Identifier: Apache-2.0\n# Generated by tests/audit_commands.py findings: PROGRAM, OPTION or $VARIABLE, "
                  "whether it takes an argument,\n# the COMMAND that was run in a jail, and the effect that its trace had.\n")
        absent = {name for name in command_generator.manuals()
                  if ":" not in name and shutil.which("git" if name.startswith("git-") else name) is None}
        out.write(f"# Not on the machine: {' '.join(sorted(absent))}\n")
        for number, (program, option, takes, command) in enumerate(rows):
            own = {command_generator.name(program).split()[0]} | oracle.HELPERS.get(program, set())
            changed = (re.sub(r"-\d+\.tmp$", "", one) for one in changes[number])  # renamed by history -w
            seen = sorted(f"runs {name}" for name in {name for name, _ in runs[number]} - own) + sorted(changed)
            if seen:
                out.write("\t".join((program, option, takes, command, "; ".join(seen))) + "\n")


def rows_of(path):
    return [line.split("\t") for line in path.read_text(encoding="utf-8").splitlines() if not line.startswith("#")]


def verdict(seen):
    """A unit test (CommandAudit.HoldsWhatTheTracesSaw) compares the filter with the verdict."""
    return "held" if any(not one.startswith("runs ") for one in seen.split("; ")) else "that of what it runs"


def page():
    """The page's text, from the two files of data."""
    findings = rows_of(FINDINGS)
    generator = module("command_generator")
    absent = set(re.search(r"^# Not on the machine: (.*)$", FINDINGS.read_text(encoding="utf-8"), re.M).group(1).split())
    counts = {name: len(options) + len(variables) for name, (options, variables) in generator.manuals().items() if name not in absent}
    text = ["<!-- SPDX-License-Identifier: Apache-2.0 -->", "# The audit of the command filter", "",
            "Generated by `tests/audit_commands.py page`; a style test holds it to its data.", "",
            f"Each of {sum(counts.values())} options and variables of the manuals of {len(counts)} programs and builtins "
            "(`tests/data/command_options.tsv`)", "is given once, in a jail, under strace. These had an effect beside reading. "
            "A unit test holds the filter to the last column. "
            "Not", f"run were {', '.join(sorted(absent | generator.LEFT_OUT))}: they", "are not on the machine, or want a terminal or a signal.",
            "", "| program | option | argument | command | what the trace saw | verdict at isolated |",
            "| --- | --- | --- | --- | --- | --- |"]
    text += ["| " + " | ".join(f"`{cell}`" for cell in row[:2]) + f" | {'none' if row[2] == '-' else row[2]} | `{row[3]}` | {row[4]} | {verdict(row[4])} |" for row in findings]
    seen = {row[0] for row in findings}
    quiet = [f"`{name}` ({count})" for name, count in sorted(counts.items()) if name not in seen]
    text += ["", "No option of these had one. In brackets is the number of their options and variables.", "", ", ".join(quiet) + "."]
    return "\n".join(text) + "\n"


def write_page():
    PAGE.write_text(page(), encoding="utf-8")


if __name__ == "__main__":
    {"options": write_options, "findings": write_findings, "page": write_page}.get(
        sys.argv[1] if len(sys.argv) > 1 else "", lambda: sys.exit(__doc__))()
