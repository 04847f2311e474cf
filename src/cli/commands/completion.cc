// SPDX-License-Identifier: Apache-2.0
// The completion scripts of shells. Each of them asks this program (completions.h).
#include <unistd.h>

#include <algorithm>

#include "cli/command.h"
#include "cli/render/terminal.h"

namespace cloister::cli {
namespace {

struct Script {
  std::string_view shell;
  std::string_view text;
};

// The program is the one that was typed, because another of that name may come first in $PATH.
// Without an answer the shells complete the names of files.
constexpr Script kScripts[] = {
    {"bash",
     R"(# cloister: completion for bash. Load it with: source <(cloister completion bash)
_cloister() {
  local words=("${COMP_WORDS[@]:1:COMP_CWORD}")
  mapfile -t COMPREPLY < <("${COMP_WORDS[0]}" __complete "${words[@]}" 2>/dev/null)
}
complete -o bashdefault -o default -F _cloister cloister
)"},
    {"zsh",
     R"(#compdef cloister
# cloister: completion for zsh. Put it into a directory of $fpath as _cloister.
_cloister() {
  local -a found
  found=("${(@f)$("${words[1]}" __complete "${(@)words[2,CURRENT]}" 2>/dev/null)}")
  if [[ -n "${found[1]}" ]]; then
    compadd -a found
  else
    _files
  fi
}
if [[ "$funcstack[1]" == _cloister ]]; then
  _cloister "$@"
else
  compdef _cloister cloister
fi
)"},
    {"fish",
     R"(# cloister: completion for fish. Put it into ~/.config/fish/completions/cloister.fish.
function __cloister_words
  set -l words (commandline -opc) (commandline -ct)
  set -l found ($words[1] __complete $words[2..] 2>/dev/null)
  if test (count $found) -gt 0
    printf '%s\n' $found
  else
    __fish_complete_path (commandline -ct)
  end
end
complete -c cloister -f -a '(__cloister_words)'
)"},
};

Result<int> completion(const Invocation& invocation) {
  const auto& operands = invocation.flags.operands();
  const auto* found =
      std::ranges::find(kScripts, operands.empty() ? "" : operands[0], &Script::shell);
  if (found == std::end(kScripts))
    return fail(Code::kInvalid, "which shell: give bash, zsh or fish");
  writeTo(STDOUT_FILENO, found->text);
  return 0;
}

}  // namespace

const Command kCompletion = {
    .name = "completion",
    .operands = "bash | zsh | fish",
    .max_operands = 1,
    .summary = "print a shell's completion script",
    .details =
        "It completes commands, flags and their values, and asks the server for ids and names.",
    .examples =
        "source <(cloister completion bash)\n"
        "cloister completion fish > ~/.config/fish/completions/cloister.fish",
    .run = completion};

}  // namespace cloister::cli
