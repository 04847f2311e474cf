# SPDX-License-Identifier: Apache-2.0
"""Shell commands from a seed: what a filter must see through, and what it must leave alone."""

import random
import shlex

PLAIN = ["ls", "ls -l", "true", "cat f", "echo a b", "head -n 1 f", "printf '%s' x", "sort f", "wc -l g", "rm f",
         "echo 'sudo x'", "echo \"dd x\"", "echo sudo\\ x", "echo '$(sudo x)'", "tr a b", "sed s/a/b/ f", "awk '{print $1}' f"]
FORBIDDEN = ["sudo x", "dd x", "dd if=f of=g", "rm -rf /x", "rm -fr /var/x", "sudo -u a b", "doas x", "su x"]

# @ stands for a command as it is, ' for one quoted as a word.
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

# How a program's name may be written; % stands for it.
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
