# SPDX-License-Identifier: Apache-2.0
# The shell kernel: runs cells one after the other in one shell, which keeps its directory, variables,
# functions and options. src/wire/kernel.h says how it is spoken to: `bash -c THIS bash DIR`. All
# that is here is named __cloister, and a cell may break it: it only has to serve code that means well.
__cloister_dir=$1 __cloister_status=0 __cloister_options= __cloister_stop= __cloister_code= __cloister_tag=
set --

# Nothing more of the cell is begun: a DEBUG trap that fails with 2 returns from where it is.
__cloister_leave() {
  __cloister_stop=$1
  shopt -s extdebug
  set -T
  trap '((${#BASH_SOURCE[@]} == 0)) || __cloister_return 2' DEBUG
}
__cloister_say() { builtin printf '%s %s\n' "$1" "$__cloister_tag" >"$__cloister_dir/report"; }
__cloister_return() { builtin return "$1"; }

# Ends the cell, and not the shell with all it keeps.
exit() {
  builtin set -- "${1-$?}"
  ((BASH_SUBSHELL == 0)) || builtin exit "$1"
  __cloister_leave "$(($1 & 255))"
}

# Waits for the next cell.
__cloister_begin() {
  while
    [[ -p $__cloister_dir/code ]] || builtin exit 0
    trap : INT
    ! IFS= builtin read -r -d '' __cloister_code <"$__cloister_dir/code"
  do :; done
  __cloister_tag=${__cloister_code%%$'\n'*}
  builtin printf '%s\n' "${__cloister_code#*$'\n'}" >"$__cloister_dir/cell"
  exec <"$__cloister_dir/in"
  # What runs in the foreground has the signal too.
  trap "builtin printf 'Interrupted\n' >&2; __cloister_leave 130" INT
  __cloister_say B
  [[ -z $__cloister_options ]] || builtin set "-$__cloister_options"
}
__cloister_end() {
  shopt -u extdebug
  __cloister_options=${__cloister_options//[!eu]/}  # and without -x
  [[ -z $__cloister_stop ]] || __cloister_status=$__cloister_stop
  __cloister_stop=
  exec </dev/null
  __cloister_say "D$__cloister_status"
}

# A `break` or `continue` of a cell would act on a loop around the cell, and a function around the cell
# would make the cell's `declare` local. So the text for one cell is repeated, 2^24 times, in two
# steps only, because each evaluation adds a `+` to what `set -x` writes.
__cloister_cells='__cloister_begin
  __cloister_return "$__cloister_status"
  builtin source "$__cloister_dir/cell"
  { __cloister_status=$? __cloister_options=$-; trap - DEBUG; builtin set +euxT; } 2>/dev/null
  __cloister_end
'
__cloister_all=$'builtin eval "$__cloister_cells"\n'
for __cloister_code in {1..10}; do __cloister_cells+=$__cloister_cells; done
for __cloister_code in {1..14}; do __cloister_all+=$__cloister_all; done
builtin eval "$__cloister_all"
