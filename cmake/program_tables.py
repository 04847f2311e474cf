#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The tables of the command filter, in C++: program_tables.py policies/programs.yaml tables.cc

Stops with an error, and so does the build, if the file says anything that this script does not know, says a thing twice or
out of order, or does not say why."""

import pathlib
import re
import sys

from plain_yaml import Broken, load

KINDS = """plain prefix opaque project shell interpreter env xargs find git sed awk ssh su script watch runner node make command
exec eval source trap cd set shopt declare arithmetic assigns wait test""".split()
GROUPS = "build destructive interpreter network opaque package privileged read_only shell vcs wrapper write".split()
FILES = "none all first second named last but_first of machine before_one seeks".split()
EFFECTS = "changes code command file flags number trace".split()
PROGRAM_TRAITS = """at_files bundle format modules number_option past_dashes plus_commands rust_flags shell_text""".split()
WRITE_TRAITS = "command first_operand whole_words".split()

NAME = r"[^\s*]+"
VARIABLE = r"[A-Za-z_][A-Za-z0-9_]*\*?"
OPTION = r"--?[^\s=]+=?"
WHY = re.compile(r"[^\s].*[A-Za-z0-9+]\.")
MOST_OPERANDS = 3

# Of each section: the keys of a row, as (how it is checked, whether it must be there).
SECTIONS = {
    "programs": {"names": (NAME, True), "kind": (KINDS, True), "group": (GROUPS, True), "options": (OPTION, False),
                 "operands": (int, False), "traits": (PROGRAM_TRAITS, False), "why": (WHY, True), "executes": (list, False)},
    "writes": {"names": (NAME, True), "files": (FILES, True), "options": (OPTION, False), "values": (OPTION, False),
               "when": (OPTION, False), "unless": (OPTION, False), "otherwise": (str, False), "traits": (WRITE_TRAITS, False),
               "why": (WHY, True)},
    "variables": {"names": (VARIABLE, True), "effect": (EFFECTS, True), "why": (WHY, True)},
    "git_commands": {"names": (NAME, True), "why": (WHY, True)},
    "git_settings": {"names": (NAME, True), "why": (WHY, True)},
    "ssh_settings": {"names": (NAME, True), "why": (WHY, True)},
    "python_modules": {"names": (NAME, True), "why": (WHY, True)},
}
EXECUTES = {"options": (OPTION, True), "why": (WHY, True)}


def check_list(value, known, where):
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise Broken(f"{where}: is no list of text")
    for item in value:
        if not (item in known if isinstance(known, list) else re.fullmatch(known, item)):
            raise Broken(f"{where}: there is no {item!r}")
    bare = [item.rstrip("=") for item in value] if known is OPTION else value
    if len(set(bare)) < len(bare):
        raise Broken(f"{where}: says a thing twice")


def check_value(key, value, rule, where):
    if key == "executes":
        for row in value if isinstance(value, list) else [value]:
            check_row(row, EXECUTES, where)
    elif key in ("names", "options", "values", "when", "unless", "traits"):
        check_list(value, rule, where)
    elif rule is int:
        if not isinstance(value, int) or not 0 < value <= MOST_OPERANDS:
            raise Broken(f"{where}: is no number of 1 to {MOST_OPERANDS}")
    elif not isinstance(value, str):
        raise Broken(f"{where}: is no text")
    elif rule is WHY and not WHY.fullmatch(value):
        raise Broken(f"{where}: is no sentence")
    elif isinstance(rule, list) and value not in rule:
        raise Broken(f"{where}: there is no {value!r}")


def check_row(row, keys, where):
    if not isinstance(row, dict):
        raise Broken(f"{where}: a row is a map")
    for key, value in row.items():
        if key not in keys:
            raise Broken(f"{where}: there is no key {key!r}")
        check_value(key, value, keys[key][0], f"{where}.{key}")
    for key, (_, needed) in keys.items():
        if needed and key not in row:
            raise Broken(f"{where}: {key} is missing")


def executed(row):
    return [option for each in row.get("executes", []) for option in each["options"]]


def check(document):
    """Raises Broken, with the place, for anything that is wrong."""
    if document.pop("version", None) != 1:
        raise Broken("version: must be 1")
    if list(document) != list(SECTIONS):
        raise Broken(f"the sections are {', '.join(SECTIONS)}, in that order")
    for section, keys in SECTIONS.items():
        seen, order = set(), []
        for row in document[section]:
            where = f"{section}[{len(order)}]"
            check_row(row, keys, where)
            where = f"{section}: {row['names'][0]}"
            if row["names"] != sorted(row["names"]):
                raise Broken(f"{where}: its names are out of order")
            if seen & set(row["names"]):
                raise Broken(f"{where}: another row has {' '.join(sorted(seen & set(row['names'])))}")
            check_list(executed(row), OPTION, f"{where}: executes")
            seen |= set(row["names"])
            order.append((row.get("group", ""), row["names"][0]))
        if order != sorted(order):
            raise Broken(f"{section}: {next(b for a, b in zip(order, order[1:]) if b < a)[1]} is out of order")
    return document


def text(value):
    if not re.fullmatch(r"[!-\[\]-~ ]*", value) or '"' in value:
        raise Broken(f"{value!r}: is no plain text")
    return f'"{value}"'


def camel(name):
    return "k" + "".join(part.capitalize() for part in name.split("_"))


def options(names):
    """As the code reads a list of options: parted by blanks, with `:` behind a short one with a value."""
    return text(" ".join(name[:-1] + ":" if name.endswith("=") and not name.startswith("--") else name for name in names))


def fields(pairs):
    return "{" + ", ".join(f".{name} = {value}" for name, value in pairs if value is not None) + "}"


def program(row):
    return fields([("kind", f"Program::Kind::{camel(row['kind'])}"), ("group", text(row["group"])),
                   ("options", options(row["options"]) if "options" in row else None),
                   ("executes", options(executed(row)) if "executes" in row else None),
                   ("operands", row.get("operands")),
                   *((trait, "true") for trait in PROGRAM_TRAITS if trait in row.get("traits", []))])


def writing(row):
    return fields([("files", f"Writing::Files::{camel(row['files'])}"),
                   *((key, options(row[key])) for key in ("options", "values", "when", "unless") if key in row),
                   ("otherwise", text(row["otherwise"]) if "otherwise" in row else None),
                   *((trait, "true") for trait in WRITE_TRAITS if trait in row.get("traits", []))])


def variable(row):
    return f"Variable::{camel(row['effect'])}"


def names(rows):
    """[(name, number of its row)], sorted."""
    return sorted((name, number) for number, row in enumerate(rows) for name in row["names"])


def array(kind, name, items):
    return f"constexpr {kind} {name}[] = {{\n" + "".join(f"    {item},\n" for item in items) + "};\n"


def index(name, entries):
    return (array("TableName", f"k{name}Names", (f"{{{text(key)}, {row}}}" for key, row in entries)) +
            f"constexpr auto k{name}Slots = slotsOf(k{name}Names);\n")


def table(name, kind, rows, entries, describe):
    hidden = array(kind, f"k{name}Rows", map(describe, rows)) + index(name, entries)
    return hidden, f"constinit const Table<{kind}> k{name}{{k{name}Rows, {{k{name}Names, k{name}Slots}}}};\n"


def words(name, rows):
    return index(name, names(rows)), f"constinit const NameIndex k{name}{{k{name}Names, k{name}Slots}};\n"


def listed(name, kind, items):
    return array(kind, f"k{name}List", items), f"constinit const std::span<const {kind}> k{name}{{k{name}List}};\n"


def source(document):
    """The text of the C++ source."""
    plain, starts = [], []
    for name, row in names(document["variables"]):
        if name.endswith("*"):
            starts.append((name[:-1], row))
        else:
            plain.append((name, row))
    starts.sort(key=lambda entry: (-len(entry[0]), entry[0]))
    parts = [
        table("Programs", "Program", document["programs"], names(document["programs"]), program),
        table("Writings", "Writing", document["writes"], names(document["writes"]), writing),
        table("Variables", "Variable", document["variables"], plain, variable),
        listed("VariableStarts", "VariableStart",
               (f"{{{text(name)}, {variable(document['variables'][row])}}}" for name, row in starts)),
        words("GitCommands", document["git_commands"]),
        words("PythonModules", document["python_modules"]),
        listed("GitSettings", "std::string_view", (text(name) for name, _ in names(document["git_settings"]))),
        listed("SshSettings", "std::string_view", (text(name) for name, _ in names(document["ssh_settings"]))),
    ]
    return ("// SPDX-License-Identifier: Apache-2.0\n// Generated by cmake/program_tables.py from policies/programs.yaml.\n"
            '#include "policy/command/tables.h"\n\nnamespace cloister::policy {\nnamespace {\n\n' +
            "\n".join(hidden for hidden, _ in parts) + "\n}  // namespace\n\n" + "".join(shown for _, shown in parts) +
            "\n}  // namespace cloister::policy\n")


def main(data, output):
    try:
        made = source(check(load(pathlib.Path(data).read_text(encoding="ascii"), data)))
    except (Broken, UnicodeDecodeError) as error:
        sys.exit(f"{data}: {error}")
    pathlib.Path(output).write_text(made, encoding="ascii")


if __name__ == "__main__":
    main(*sys.argv[1:])
