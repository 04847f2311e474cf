// SPDX-License-Identifier: Apache-2.0
// Programs that run other programs in special ways.
#include <algorithm>

#include "policy/command/reader.h"
#include "policy/command/tables.h"

namespace cloister::policy {
namespace {

std::string lower(std::string_view text) {
  std::string out(text);
  std::ranges::transform(out, out.begin(), [](char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c;
  });
  return out;
}

Value joined(std::span<const Value> words, Span span) {
  Value all{.span = span};
  for (const Value& word : words) {
    all.known = all.known && word.known;
    if (!all.text.empty()) all.text += ' ';
    all.text += word.text;
  }
  return all;
}

}  // namespace

void EffectReader::env(Words argv, const Program& program) {
  const auto past = pastOptions(argv, program.options);
  if (!past) return;
  size_t at = *past;
  for (size_t i = 1; i < at; ++i) {
    const std::string& text = argv[i].text;
    const bool moves = text.starts_with("--c") || (!text.starts_with("--") && text.contains('C'));
    if (moves) moved_ = effects_.anywhere = true;
  }
  if (at < argv.size() && argv[at].text == "-") ++at;
  for (; at < argv.size() && argv[at].text.contains('='); ++at) {
    const size_t equals = argv[at].text.find('=');
    if (argv[at].many) return doubt("unknown_option", "a word that may be several", argv[at].span);
    Value value{
        .text = argv[at].text.substr(equals + 1), .known = argv[at].known, .span = argv[at].span};
    assigns(argv[at].text.substr(0, equals), &value, argv[at].span);
  }
  nested(argv.subspan(at), "env");
}

// ip netns exec NAME COMMAND, each of whose words may be shortened.
void EffectReader::ip(Words argv) {
  bool spaces = false;
  for (const Value& word : argv.subspan(1)) {
    const std::string_view text = word.text;
    const auto may = [&](std::string_view whole) {
      return !text.empty() && whole.starts_with(text);
    };
    if (spaces && (may("exec") || !word.known)) {
      return doubt("runs_its_option", "ip runs what follows this word", word.span);
    }
    spaces = spaces || may("netns") || may("vrf") || (!word.known && text.empty());
  }
}

void EffectReader::xargs(Words argv, const Program& program) {
  const auto past = pastOptions(argv, program.options);
  if (!past || *past >= argv.size()) return;
  std::string replaced;
  for (size_t i = 1; i < *past; ++i) {
    const std::string& text = argv[i].text;
    const size_t letter = text.starts_with("--") ? std::string::npos : text.find('I');
    if (text.starts_with('-') && letter != std::string::npos) {
      replaced =
          letter + 1 < text.size() ? text.substr(letter + 1) : argv[std::min(i + 1, *past)].text;
    }
    if (text.starts_with("--replace"))
      replaced = text.contains('=') ? text.substr(text.find('=') + 1) : "{}";
  }
  std::vector<Value> inner(argv.begin() + static_cast<std::ptrdiff_t>(*past), argv.end());
  for (Value& word : inner) {
    const size_t at = replaced.empty() ? std::string::npos : word.text.find(replaced);
    if (at == std::string::npos) continue;
    word.text.resize(at);
    word.known = false;
  }
  // The words read by xargs follow, in any number.
  if (replaced.empty()) inner.push_back({.known = false, .many = true, .span = argv[0].span});
  run(std::move(inner), "xargs");
}

// Reads the command of an option of find such as -exec at `at`, and leaves `at` at its end → false
// if it is in doubt, and so is the rest.
bool EffectReader::findExec(Words argv, size_t& at, const std::vector<Value>& where) {
  const Value& option = argv[at];
  std::vector<Value> inner;
  for (++at; at < argv.size(); ++at) {
    if (!argv[at].known && argv[at].many) {
      doubt("unknown_option", "a word that may be several", argv[at].span);
      return false;
    }
    if (argv[at].known &&
        (argv[at].text == ";" || (argv[at].text == "+" && argv[at - 1].text == "{}")))
      break;
    inner.push_back(argv[at]);
  }
  for (Value& value : inner) {
    const size_t name = value.text.find("{}");
    if (name == std::string::npos) continue;
    value.text = value.text.substr(0, name);
    if (value.text.empty() && !where.empty() && where[0].known) {
      value.text = where[0].text;  // a name begins with where the search does
    } else if (value.text.empty() && where.empty()) {
      value.text = "./";
    }
    value.known = false;
  }
  if (inner.empty()) {
    doubt("unknown_program", "-exec without a command", option.span);
    return false;
  }
  run(std::move(inner), "find -exec");
  return true;
}

void EffectReader::find(Words argv) {
  bool starts = true;
  std::vector<Value> where;
  for (size_t at = 1; at < argv.size(); ++at) {
    const Value& word = argv[at];
    const std::string& text = word.text;
    if (mayHideOptions(word)) {
      return doubt("unknown_option", "a word that may be an option of find", word.span);
    }
    if (text.starts_with('-') && text != "-H" && text != "-L" && text != "-P") starts = false;
    if (starts) where.push_back(word);
    if (text == "-delete") {
      std::vector<Value> removal{{.text = "rm", .span = word.span},
                                 {.text = "-rf", .span = word.span}};
      if (where.empty()) where.push_back({.text = ".", .span = word.span});
      std::ranges::copy(where, std::back_inserter(removal));
      run(std::move(removal), "find -delete");
    } else if (text.starts_with("-fprint") || text.starts_with("-fls")) {
      if (at + 1 < argv.size()) effects_.writes.push_back(argv[at + 1]);
    } else if (text == "-files0-from") {
      return doubt("unknown_option", "names that find reads from a file", word.span);
    } else if (text == "-exec" || text == "-execdir" || text == "-ok" || text == "-okdir") {
      if (text.ends_with("dir")) moved_ = effects_.anywhere = true;
      if (!findExec(argv, at, where)) return;
    }
  }
}

void EffectReader::gitSetting(std::string_view key, const Value& value) {
  const std::string name = lower(key);
  const bool plain = std::ranges::any_of(
      kGitSettings, [&](std::string_view entry) { return name.starts_with(entry); });
  if (plain && !name.contains("signingkey")) return;
  if (name == "core.pager" || name == "core.editor" || name == "sequence.editor" ||
      name == "core.sshcommand" || name == "diff.external") {
    return shellText(value, "git", Dialect::kPosix);
  }
  if (name.starts_with("alias.") && value.known) {
    if (value.text.starts_with('!')) {
      Value text{.text = value.text.substr(1), .span = value.span};
      return shellText(text, "git alias", Dialect::kPosix);
    }
  }
  doubt("git_setting", "a setting of git that may run a program: " + std::string(key), value.span);
}

void EffectReader::gitConfig(Words argv, size_t at) {
  for (++at; at < argv.size(); ++at) {
    const Value& word = argv[at];
    if (!word.known)
      return doubt("git_setting", "a setting of git that is not written here", word.span);
    if (word.text == "-e" || word.text == "--edit")
      return doubt("git_setting", "an editor", word.span);
    if (word.text.starts_with("--get") || word.text == "--list" || word.text == "-l" ||
        word.text == "get" || word.text == "list")
      return;
    if (word.text == "-f" || word.text == "--file") {
      ++at;
    } else if (!word.text.starts_with('-') && word.text != "set") {
      if (at + 1 < argv.size()) gitSetting(word.text, argv[at + 1]);
      return;
    }
  }
}

// Files written by a git command beside its repository, as far as its words name the files; files
// from the history or a patch are not followed. `argv` begins with the command's name; relative
// names begin in `directory`.
void EffectReader::gitWrites(Words argv, const std::string& directory) {
  constexpr std::string_view kAll = " mv rm restore checkout bundle ";
  constexpr std::string_view kLast = " clone init worktree ";
  const std::string name = " " + argv[0].text + " ";
  const bool letter = name == " archive " || name == " format-patch ";
  bool named = false;
  const auto write = [&](Value file) {
    if (!directory.empty() && !file.text.starts_with('/')) file.text.insert(0, directory + "/");
    effects_.writes.push_back(std::move(file));
    named = true;
  };
  for (size_t at = 1; at < argv.size(); ++at) {
    const std::string& text = argv[at].text;
    const bool lengthy = text.starts_with("--ou") && !text.starts_with("--output-i");
    const bool output = lengthy || (letter && text.starts_with("-o"));
    const size_t value = !lengthy             ? (text.size() > 2 ? 2 : std::string::npos)
                         : text.contains('=') ? text.find('=') + 1
                                              : std::string::npos;
    if (output && value != std::string::npos) {
      Value file = argv[at];
      file.text.erase(0, value);
      write(std::move(file));
    } else if (output && at + 1 < argv.size()) {
      write(argv[++at]);
    } else if (!text.starts_with('-') &&
               (kAll.contains(name) || (kLast.contains(name) && at + 1 == argv.size()))) {
      if (argv[at].known || name != " checkout ") write(argv[at]);  // mostly the name of a branch
    }
  }
  const bool here = name == " format-patch " || name == " clone ";
  if (here && !named) effects_.writes.push_back({.known = false, .span = argv[0].span});
}

void EffectReader::git(Words argv, const Program& program) {
  size_t at = 1;
  while (at < argv.size() && argv[at].known &&
         (argv[at].text == "-c" || argv[at].text.starts_with("--exec-path=") ||
          argv[at].text.starts_with("--config-env"))) {
    if (argv[at].text != "-c")
      return doubt("git_setting", "where git finds its programs", argv[at].span);
    if (++at >= argv.size()) return;
    const size_t equals = argv[at].text.find('=');
    if (equals == std::string::npos && !argv[at].known) {
      return doubt("git_setting", "a setting of git that is not written here", argv[at].span);
    }
    Value value{.text = equals == std::string::npos ? "" : argv[at].text.substr(equals + 1),
                .known = argv[at].known,
                .span = argv[at].span};
    gitSetting(argv[at].text.substr(0, equals), value);
    ++at;
  }
  const auto past = pastOptions(argv, program.options, at);
  if (!past || *past >= argv.size()) return;
  at = *past;
  const Value& name = argv[at];
  if (!name.known)
    return doubt("unknown_option", "a command of git that is not written here", name.span);
  if (name.text == "config") return gitConfig(argv, at);
  if (!kGitCommands.contains(name.text)) {
    return doubt("git_command", "a command of git that may be an alias or run others: " + name.text,
                 name.span);
  }
  std::string directory;
  for (size_t i = 1; i + 1 < at; ++i) {
    if (argv[i].text == "-C") directory = argv[i + 1].text;
  }
  gitWrites(argv.subspan(at), directory);
  bool value = false;  // the word after -m is text
  for (const Value& word : argv.subspan(at + 1)) {
    if (word.known && word.text == "--") return;
    if (std::exchange(value, false)) continue;
    const bool takes = name.text == "commit" || name.text == "tag" || name.text == "merge";
    value = takes && word.known &&
            (word.text == "-m" || word.text == "-am" || word.text == "--message" ||
             word.text == "--author" || word.text == "--grep");
    const bool hidden = mayHideOptions(word);
    const bool exact = word.text.starts_with("--")
                           ? mayBeOption(program.executes, word.text) && word.text.size() >= 4
                       : !word.text.starts_with('-') ? false
                       : name.text == "grep"         ? word.text.contains('O')
                       : name.text == "rebase"       ? word.text.contains('x')
                       : name.text == "clone" ? word.text.contains('c') || word.text.contains('u')
                                              : false;
    // --continue, --exclude and others have the same first letters.
    const bool harmless = word.text == "--text" || word.text.starts_with("--exclude") ||
                          word.text == "--tags" || word.text == "--cached";
    const bool signature = word.text.contains("%G") || word.text.contains("%(signature");
    if (hidden || (exact && !harmless) || signature || word.text.starts_with("ext::")) {
      return doubt("runs_its_option", "git may run what this word says", word.span);
    }
  }
}

void EffectReader::sed(Words argv) {
  bool script = false;  // given by an option
  for (size_t at = 1; at < argv.size(); ++at) {
    const Value& word = argv[at];
    const std::string& text = word.text;
    const bool option = text.size() > 1 && text[0] == '-' && (word.known || !text.empty());
    const Value* expression = nullptr;
    Value rest;
    if (mayHideOptions(word) || (!word.known && text.empty() && !script)) {
      return doubt("unknown_text", "a word that may be what sed does", word.span);
    }
    if (text == "--") continue;
    if (text.starts_with("--expression=")) {
      rest = {.text = text.substr(13), .known = word.known, .span = word.span};
      expression = &rest;
    } else if (text == "-e" || text == "--expression" ||
               (option && text[1] != '-' && text[1] != 'i' && text.ends_with('e'))) {
      if (++at >= argv.size()) return;
      expression = &argv[at];
    } else if (option) {
      const bool plain =
          text[1] == '-'
              ? text.starts_with("--in-place") || text == "--quiet" || text == "--silent" ||
                    text == "--regexp-extended" || text == "--null-data" || text == "--separate" ||
                    text == "--version" || text == "--help" || text == "--sandbox" ||
                    text == "--debug" || text == "--posix"
              : text[1] == 'i' || text.find_first_not_of("nErsuzi", 1) == std::string::npos;
      if (!plain)
        return doubt("unknown_option", "an option of sed that is not read here: " + text,
                     word.span);
      continue;
    } else if (!script) {
      expression = &word;
    } else {
      continue;
    }
    script = true;
    if (!expression->known || !plainSed(expression->text)) {
      return doubt("sed_script", "a script of sed that may run commands or write files",
                   expression->span);
    }
  }
}

void EffectReader::awk(Words argv) {
  for (size_t at = 1; at < argv.size(); ++at) {
    const Value& word = argv[at];
    const std::string& text = word.text;
    if (word.known && (text == "--version" || text == "--help" || text == "-V")) return;
    if (word.known && text == "--") continue;
    if (text.starts_with("-F") || text.starts_with("-v")) {
      if (text.size() == 2) ++at;
      if (at < argv.size() && argv[at].many)
        return doubt("unknown_option", "a word that may be several", argv[at].span);
      continue;
    }
    if (!word.known || text.starts_with('-')) {
      return doubt("unknown_text", "a word that may be the program of awk, or loads one",
                   word.span);
    }
    if (!plainAwk(text)) doubt("awk_program", "a program of awk that may run commands", word.span);
    for (std::string& file : awkFiles(text)) {
      const bool plain = !file.empty();
      effects_.writes.push_back({.text = std::move(file), .known = plain, .span = word.span});
    }
    return;
  }
}

void EffectReader::ssh(Words argv, const Program& program) {
  const auto past = pastOptions(argv, program.options);
  if (!past) return;
  for (size_t i = 1; i < *past; ++i) {
    if (!argv[i].text.starts_with("-o")) continue;
    const Value& value = argv[i].text.size() > 2 ? argv[i] : argv[std::min(i + 1, argv.size() - 1)];
    const std::string setting = lower(argv[i].text.size() > 2 ? value.text.substr(2) : value.text);
    const bool plain =
        value.known && std::ranges::any_of(kSshSettings, [&](std::string_view one) {
          return setting.starts_with(one) && !setting.substr(one.size()).starts_with('c');
        });
    if (!plain) return doubt("runs_its_option", "ssh may run what this word says", value.span);
  }
  if (*past + 1 < argv.size()) {
    shellText(joined(argv.subspan(*past + 1), argv[*past + 1].span), "ssh", Dialect::kPosix);
  }
}

void EffectReader::su(Words argv) {
  for (size_t at = 1; at < argv.size(); ++at) {
    const std::string& text = argv[at].text;
    if (!argv[at].known)
      return doubt("unknown_option", "a word that may be an option of su", argv[at].span);
    if ((text == "-c" || text == "--command") && at + 1 < argv.size()) {
      return shellText(argv[at + 1], "su", Dialect::kPosix);
    }
    if (text.starts_with("--command=")) {
      const Value rest{.text = text.substr(10), .span = argv[at].span};
      return shellText(rest, "su", Dialect::kPosix);
    }
    if (text == "--" && at + 1 < argv.size()) return nested(argv.subspan(at + 1), "runuser");
  }
  doubt("opaque_program", "a shell of another user", argv[0].span);
}

void EffectReader::scriptCommand(Words argv) {
  for (size_t at = 1; at < argv.size(); ++at) {
    const std::string& text = argv[at].text;
    if (!argv[at].known)
      return doubt("unknown_option", "a word that may be an option of script", argv[at].span);
    const bool bundle = text.size() > 1 && text[0] == '-' && text[1] != '-' &&
                        text.ends_with('c') && text.find('c') == text.size() - 1;
    if ((bundle || text == "--command") && at + 1 < argv.size()) {
      return shellText(argv[at + 1], "script", Dialect::kPosix);
    }
  }
  doubt("opaque_program", "a shell whose input is not written here", argv[0].span);
}

void EffectReader::watch(Words argv, const Program& program) {
  const auto past = pastOptions(argv, program.options);
  if (!past || *past >= argv.size()) return;
  shellText(joined(argv.subspan(*past), argv[*past].span), "watch", Dialect::kPosix);
}

// poetry run CMD and its like.
void EffectReader::runner(Words argv, const Program& program) {
  if (argv.size() < 2) return;
  if (!argv[1].known)
    return doubt("unknown_option", "a command that is not written here", argv[1].span);
  if (argv[1].text.starts_with('-') && argv.size() > 2) {
    return doubt("unknown_option", "an option that is not read here: " + argv[1].text,
                 argv[1].span);
  }
  if (argv[1].text == "shell") return doubt("opaque_program", "an interactive shell", argv[1].span);
  if (argv[1].text != "run" && argv[1].text != "exec" && argv[1].text != "tool" &&
      argv[1].text != "x")
    return;
  const auto past = pastOptions(argv, program.options, 2);
  if (past) nested(argv.subspan(*past), argv[0].text);
}

void EffectReader::node(Words argv, const Program& program) {
  const std::string name = argv[0].text.substr(argv[0].text.rfind('/') + 1);
  size_t at = 1;
  if (name != "npx" && name != "pnpx" && name != "bunx") {
    const std::string own = name == "pnpm" ? " -r --recursive" : "";
    const auto past =
        pastOptions(argv, std::string(program.options) + " -v --version -h --help" + own, 1);
    if (!past || *past >= argv.size()) return;
    at = *past;
    constexpr std::string_view kRuns[] = {"exec", "x", "dlx", "explore"};
    const bool runs = argv[at].known && std::ranges::find(kRuns, argv[at].text) != std::end(kRuns);
    for (const Value& word : argv.subspan(1)) {
      if (word.text.starts_with("--script-shell") || word.text.starts_with("--node-options") ||
          word.text.starts_with("--git") || word.text.starts_with("--shell") ||
          word.text == "--call" || word.text == "-c") {
        return doubt("runs_its_option", name + " may run what this word says", word.span);
      }
    }
    if (!argv[at].known)
      return doubt("unknown_option", "a command that is not written here", argv[at].span);
    if (!runs) return;
    ++at;
  }
  const auto past = pastOptions(argv, program.options, at);
  if (past) nested(argv.subspan(*past), name);
}

void EffectReader::make(Words argv) {
  for (size_t at = 1; at < argv.size(); ++at) {
    const std::string& text = argv[at].text;
    const bool input = text == "-" || text.starts_with("/dev/") || text.starts_with("/proc/");
    if (mayHideOptions(argv[at])) {
      return doubt("unknown_option", "a word that may be an option of make", argv[at].span);
    }
    if (mayBeOption("-E --eval", text) || input || text == "-f-" || text.starts_with("-f/dev/")) {
      return doubt("inline_code", "rules for make in the command itself", argv[at].span);
    }
    const size_t equals = text.find('=');
    if (equals == std::string::npos || text.starts_with('-')) continue;
    const std::string name = text.substr(0, text.find_first_of(":+?=!"));
    const bool plain = argv[at].known && name != "SHELL" && !name.starts_with('.') &&
                       !text.contains('$') && !text.contains('`') &&
                       text.find_first_of(";&|<>\n", equals) == std::string::npos &&
                       text[equals - (equals > 0 ? 1 : 0)] != '!';
    if (!plain)
      return doubt("runs_its_option", "make may run what this variable says", argv[at].span);
    effects_.assigned.push_back({.text = text.substr(equals + 1), .span = argv[at].span});
  }
}

}  // namespace cloister::policy
