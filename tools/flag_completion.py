#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The completion of a program that has flags alone, made from the output of `--help`.

    tools/flag_completion.py PROGRAM bash|zsh|fish OUTPUT       e.g. build/release/bin/cloister-grpc bash cloister-grpc
"""

import pathlib
import re
import subprocess
import sys

FLAG = re.compile(r" {2,}(?:-\w, )?--([a-z-]+)(?: ([A-Z]+))? {2,}(\S.*)")


def flags(program):
    """[(name, the word for its value or None, meaning)]"""
    text = subprocess.run([program, "--help"], check=True, capture_output=True, text=True).stdout
    return [FLAG.fullmatch(line).groups() for line in text.splitlines() if FLAG.fullmatch(line)]


def quoted(text):
    return text.replace("'", "")


def bash(name, known):
    files = "|".join(f"--{flag}" for flag, value, _ in known if value == "FILE")
    function = "_" + name.replace("-", "_")
    words = " ".join(f"--{flag}" for flag, _, _ in known)
    return f"""{function}() {{
  case $3 in
    {files}) COMPREPLY=($(compgen -f -- "$2")) ;;
    *) COMPREPLY=($(compgen -W "{words}" -- "$2")) ;;
  esac
}}
complete -F {function} {name}
"""


def zsh(name, known):
    def row(flag, value, meaning):
        meaning = re.sub(r"[][:]", " ", quoted(meaning))
        after = "" if value is None else f":{value}:" + ("_files" if value == "FILE" else "")
        return f"  '--{flag}[{meaning}]{after}'"
    rows = " \\\n".join(row(*each) for each in known)
    return f"#compdef {name}\n_arguments \\\n{rows}\n"


def fish(name, known):
    def row(flag, value, meaning):
        wants = "" if value is None else " -r" if value == "FILE" else " -x"
        return f"complete -c {name} -f -l {flag}{wants} -d '{quoted(meaning)}'"
    return "\n".join(row(*each) for each in known) + "\n"


def main():
    program, shell, output = sys.argv[1:]
    made = {"bash": bash, "zsh": zsh, "fish": fish}[shell](pathlib.Path(program).name, flags(program))
    path = pathlib.Path(output)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(made)


if __name__ == "__main__":
    main()
