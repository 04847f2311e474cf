# SPDX-License-Identifier: Apache-2.0
"""Shell commands from a seed: disguises that a filter must see through, and harmless commands."""

import collections
import pathlib
import random
import shlex

PLAIN = ["ls", "ls -l", "true", "cat f", "echo a b", "head -n 1 f", "printf '%s' x", "sort f", "wc -l g", "rm f",
         "echo 'sudo x'", "echo \"dd x\"", "echo sudo\\ x", "echo '$(sudo x)'", "tr a b", "sed s/a/b/ f", "awk '{print $1}' f"]
FORBIDDEN = ["sudo x", "dd x", "dd if=f of=g", "rm -rf /x", "rm -fr /var/x", "sudo -u a b", "doas x", "su x"]

# @ stands for a command, ' for the command quoted as a word.
AROUND = ["@; ls", "ls; @", "@ && ls", "ls || @", "false || @", "ls | @", "@ | cat", "@ & ls", "@ & wait", "ls\n@", "! @",
          "time @", "(@)", "{ @; }", "( (@) )", "if true; then @; fi", "if @; then ls; else ls; fi", "if false; then ls; else @; fi",
          "for i in 1 2; do @; done", "for i in $(@); do ls; done", "while @; do break; done", "until @; do break; done",
          "case a in b) ls;; a) @;; esac", "case $(@) in *) ls;; esac", "f() { @; }; f", "function f { @; }; f", "f() ( @ ); ls",
          "echo $(@)", "echo `@`", "echo \"$(@)\"", "echo \"`@`\"", "echo ${q:-$(@)}", "echo \"${q:-$(@)}\"", "a=$(@)", "a=$(@) ls",
          "cat <(@)", "cat < <(@)", "echo x > >(@)", "cat <<E\n$(@)\nE", "cat <<'E'\n$(@)\nE", "cat <<-E\n\t`@`\n\tE", "cat <<<$(@)",
          "bash <<'E'\n@\nE", "sh <<'E'\n@\nE", "[[ -n $(@) ]]", "[ -n \"$(@)\" ]", "a=($(@)); ls", "export a=$(@)", "ls # @",
          "ls #\n@", "ls >/tmp/o; @", "@ 2>/dev/null", "@ >&2", "exec 3>&1; @", "trap ' EXIT", "eval '", "eval @", "command @",
          "builtin eval '", "exec @", "sh -c '", "bash -c '", "dash -c '", "bash -ec '", "env @", "env -i PATH=/usr/bin @", "env A=1 @",
          "nice @", "nice -n 1 @", "nohup @", "timeout 2 @", "timeout -k 1 2 @", "setsid @", "setsid -w @", "stdbuf -o0 @", "xargs @ <f",
          "xargs -n1 @ <f", "xargs -I{} @ <f", "xargs sh -c ' <f", "find f -exec @ \\;", "find f g -exec @ {} +", "find . -name f -execdir @ \\;",
          "find f -exec sh -c ' \\;", "flock /tmp/l @", "flock /tmp/l -c '", "busybox env @", "busybox sh -c '", "echo ' | sh", "echo ' | bash",
          "a='; $a", "a='; eval \"$a\"", "a='; sh -c \"$a\"", "set -- @; \"$@\"", "f() { \"$@\"; }; f @", "tar cf /dev/null --checkpoint=1 --checkpoint-action=exec=' f",
          "sort --compress-program=' f", "sed \"1e @\" f", "awk 'BEGIN{system(\"@\")}'", "awk 'BEGIN{\"@\" | getline}'", "/lib64/ld-linux-x86-64.so.2 /usr/bin/@",
          "echo $((1+$(@)))", "x='a[$(@)]'; echo $((x))", "x='a[$(@)]'; [[ x -eq 1 ]]", "test -v 'a[$(@)]'", "printf -v 'a[$(@)]' x", "PS4='$(@)'; set -x; ls",
          "PATH=/usr/bin:/bin; @", "echo a \\\n; @", "ls \\\n&& @", "coproc @", "select i in 1; do @; done </dev/null", "time -p @", "((1)); @", "((1)) && @",
          "echo ${q:=$(@)}", "echo $'a\\'; @ '", "echo 'a'\\''; @ '", "echo \"a\\\"; @ \"", "{ls,@}", "i=0; while [ $i -lt 2 ]; do @; i=$((i+1)); done", "alias a='\na"]

# Spellings of a program's name; % stands for the name.
DISGUISES = ["%", "%", "%", "\\%", "'%'", "\"%\"", "$'%'", "$\"%\"", "/usr/bin/%", "/bin/%", "//usr/./bin/../bin/%", "${q:-%}", "$(echo %)", "`echo %`",
             "/usr/bin/[%]*", "{%,}", "$q%", "%$q", "''%", "%\"\"", "A=1 %", ">/tmp/o %", "2>&1 %", "\\\n%"]


def split(name, choice):
    """The name in two quoted parts, or with an escape."""
    at = choice.randrange(1, len(name)) if len(name) > 1 else 0
    ways = [f"{name[:at]}''{name[at:]}", f"'{name[:at]}'{name[at:]}", f"{name[:at]}\\{name[at:]}", f"{name[:at]}\\\n{name[at:]}",
            f"$'\\x{ord(name[0]):02x}{name[1:]}'", f"$'\\{ord(name[0]):03o}'{name[1:]}", f"{name[:at]}$q{name[at:]}", f"{name[:at]}?{name[at + 1:]}"]
    return choice.choice(ways)


def leaf(choice):
    words = choice.choice(FORBIDDEN if choice.random() < 0.5 else PLAIN)
    name, space, rest = words.partition(" ")
    if choice.random() < 0.35:
        name = split(name, choice)
    else:
        name = choice.choice(DISGUISES).replace("%", name)
    return name + space + rest


def command(choice, depth=None):
    depth = choice.choice((0, 1, 1, 1, 2, 2, 3)) if depth is None else depth
    if depth == 0:
        return leaf(choice)
    inner = command(choice, depth - 1)
    shape = choice.choice(AROUND)
    if "@" in shape:
        return shape.replace("@", inner)
    head, _, tail = shape.partition("'")
    return head + shlex.quote(inner) + tail


def commands(seed, count):
    choice = random.Random(seed)
    return [command(choice) for _ in range(count)]


# --- programs with options of their manuals

OPTIONS = pathlib.Path(__file__).resolve().parent.parent / "data/command_options.tsv"
# Programs without useful output in the jail: they want a terminal, or a system of their own.
LEFT_OUT = {"man", "less", "more", "watch", "cloc", "busybox", "bash:suspend", "bash:logout", "bash:kill"}
VALUES = ["out", "out", "f", "1", "x", "/tmp/o", "sudo", "'sudo x'", "'a[$(sudo x)]'", "-", "./out", "'%s'", "a=1"]
OPERANDS = ["f", "f", "f", "g", "out", "out", "out", "-", "1", "x", "*", "'a[$(sudo x)]'", "/tmp/o", "HEAD", "sudo", "--"]
WRAPPERS = {"env", "nice", "nohup", "setsid", "stdbuf", "timeout", "ionice", "taskset", "time", "flock", "script", "xargs", "chrt",
            "bash:command", "bash:builtin", "bash:exec"}
INNER = ["ls", "cat f", "sudo x", "uniq f out"]


def manuals():
    """{program: ([(option, whether it takes an argument)], [variable])}"""
    found = collections.defaultdict(lambda: ([], []))
    for line in OPTIONS.read_text(encoding="utf-8").splitlines():
        if line.startswith("#"):
            continue
        program, option, takes = line.split("\t")
        if program not in LEFT_OUT:
            found[program][option.startswith("$")].append(option[1:] if option.startswith("$") else (option, takes))
    return dict(sorted(found.items()))


def written(option, takes, value):
    """An option in a command's form."""
    if takes == "-" or (takes == "optional" and value is None):
        return option
    if takes == "optional":
        return option + ("=" if option.startswith("--") else "") + value
    return f"{option}={value}" if option.startswith("--") else f"{option} {value}"


def name(program):
    """`git-log` and `bash:wait` in a command's form."""
    return program.replace("git-", "git ").removeprefix("bash:")


def with_options(choice, programs):
    """A command: a program with some of its options, each with some value, and some operands."""
    program = choice.choice(list(programs))
    options, variables = programs[program]
    words = []
    if variables and choice.random() < 0.3:
        words.append(f"{choice.choice(variables)}={choice.choice(VALUES)}")
    words.append(name(program))
    for option, takes in choice.sample(options, min(len(options), choice.choice((0, 1, 1, 1, 2, 2, 3)))):
        value = choice.choice(VALUES)
        if takes != "-" and choice.random() < 0.2 and not option.startswith("--"):
            words.append(option + value)
        else:
            words.append(written(option, takes, None if choice.random() < 0.3 else value))
    words += choice.choices(OPERANDS, k=choice.choice((0, 1, 1, 2, 2, 3)))
    if program in WRAPPERS:
        words += [choice.choice(INNER)]
    text = " ".join(words)
    shape = choice.choice(("@", "@", "@", "@", "ls | @", "@ | cat", "true & @", "set -- x; @ \"$1\"", "@ < f", "sh -c '"))
    return shape.replace("@", text) if "@" in shape else shape[:-1] + shlex.quote(text)


def option_commands(seed, count):
    choice = random.Random(seed)
    programs = manuals()
    return [with_options(choice, programs) for _ in range(count)]


def each_option():
    """[(program, option, takes, command)]: every option of the manuals once, with a new file's name as its value."""
    rows = []
    for program, (options, variables) in manuals().items():
        inner = " ls" if program in WRAPPERS else ""
        for option, takes in options:
            rows.append((program, option, takes, f"{name(program)} {written(option, takes, 'out')} f{inner}"))
        for variable in variables:
            rows.append((program, "$" + variable, "value", f"{variable}=/tmp/o {name(program)} f{inner}"))
    return rows
