#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# measured.sh COMMAND...: runs a compiler, and adds a line "object<tab>user system" to cpu_seconds.tsv in the build
# folder that it is started in, with the CPU time as `times` prints it. tests/budget.py reads the file.
# ccache starts this by CCACHE_PREFIX, and so only for what it does not have.
"$@"
status=$?
[ $status -eq 0 ] && [ -e build.ninja ] || exit $status
object=
while [ $# -gt 1 ]; do
  [ "$1" != -o ] || object=$2
  shift
done
kept=cpu_seconds.$$
times >"$kept"  # into a file: a pipe would have a process of its own, and the times of its children
{ read -r own && read -r children; } <"$kept"
printf '%s\t%s\n' "$object" "$children" >>cpu_seconds.tsv
exec rm -f "$kept"
