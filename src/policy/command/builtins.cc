// SPDX-License-Identifier: Apache-2.0
// Builtins of the shell: the programs run by a builtin, and its effects on later commands.
#include <algorithm>

#include "policy/command/reader.h"

namespace cloister::policy {
namespace {

bool subscript(const Value& word) {
  return word.text.contains('[') && word.text.size() > 1;
}

// Whether a format of printf has %n.
bool setsVariable(std::string_view format) {
  for (size_t at = format.find('%'); at != std::string_view::npos; at = format.find('%', at)) {
    at = format.find_first_not_of("#'-+ 0123456789.*hjlLtz", at + 1);
    if (at == std::string_view::npos) return false;
    if (format[at++] == 'n') return true;
  }
  return false;
}

}  // namespace

void EffectReader::builtin(Words argv, const Program& program, Execution& execution) {
  using enum Program::Kind;
  switch (program.kind) {
    case kCommand: {
      execution.wrapper = true;
      if (argv.size() > 1 && argv[1].known && (argv[1].text == "-v" || argv[1].text == "-V"))
        return;
      if (const auto at = pastOptions(argv, "-p")) nested(argv.subspan(*at), argv[0].text);
      return;
    }
    case kExec: {
      execution.wrapper = true;
      if (const auto at = pastOptions(argv, program.options)) nested(argv.subspan(*at), "exec");
      return;
    }
    case kEval: {
      Value text{.span = execution.span};
      for (const Value& word : argv.subspan(1)) {
        text.known = text.known && word.known;
        if (!text.text.empty()) text.text += ' ';
        text.text += word.text;
      }
      return shellText(text, "eval", dialect_);
    }
    case kSource:
      return source(argv, execution);
    case kTrap:
      return trap(argv);
    case kCd:
      return changeDirectory(argv);
    case kSet:
    case kShopt:
      return setOptions(argv);
    case kDeclare:
      return declare(argv);
    case kArithmetic:
      for (const Value& word : argv.subspan(1)) {
        if (!word.known)
          return doubt("arithmetic", "arithmetic that is not written here", word.span);
        arithmetic(word.text, word.span);
      }
      return;
    case kTest:
      return testWords(argv);
    case kWait:
      return wait(argv);
    default:
      return assignsNames(argv, program);
  }
}

void EffectReader::changeDirectory(Words argv) {
  for (const Value& word : argv.subspan(1)) {
    moved_ = moved_ || !word.known || word.text.starts_with('/') || word.text.contains("..") ||
             word.text == "-";
    goesTo(word);
  }
  if (argv.size() == 1) moved_ = effects_.anywhere = true;
}

// Adds the directory, relative to each possible present directory; whether the command succeeds is
// unknown.
void EffectReader::goesTo(const Value& directory) {
  constexpr size_t kMost = 32;
  const bool option = directory.known && directory.text.starts_with('-');
  if (option && directory.text != "-") return;
  std::vector<std::string>& all = effects_.directories;
  if (!directory.known || option || 2 * all.size() > kMost) {
    effects_.anywhere = true;
    return;
  }
  const bool absolute = directory.text.starts_with('/');
  const size_t from = absolute ? 1 : all.size();
  for (size_t i = 0; i < from; ++i) {
    std::string to = plainPath(absolute ? directory.text : all[i] + "/" + directory.text);
    if (std::ranges::find(all, to) == all.end()) all.push_back(std::move(to));
  }
}

void EffectReader::testWords(Words argv) {
  for (size_t i = 1; i + 1 < argv.size(); ++i) {
    const Value& next = argv[i + 1];
    const bool written = argv[i].known && (argv[i].text == "-v" || argv[i].text == "-R");
    const bool maybe = !argv[i].known && argv[i].text.empty();
    if ((written || maybe) && subscript(next)) {
      doubt("subscript", "a test of a variable with a subscript", next.span);
    } else if (written && !next.known) {
      doubt("subscript", "a test of a variable whose name is not written here", next.span);
    }
  }
}

// wait -p NAME gives a variable its value, whose subscript is evaluated.
void EffectReader::wait(Words argv) {
  bool names = false;
  for (const Value& word : argv.subspan(1)) {
    const bool option = word.text.starts_with('-') && word.text != "-";
    if (!word.known && !word.number && (word.text.empty() || option)) {
      return doubt("unknown_option", "a word that may be an option of wait", word.span);
    }
    const size_t letter = option ? word.text.find('p') : std::string::npos;
    names = names || letter != std::string::npos;
    if (!names) continue;
    if (subscript(word)) return doubt("subscript", "a variable with a subscript", word.span);
    assigns(
        letter != std::string::npos ? std::string_view(word.text).substr(letter + 1) : word.text,
        nullptr, word.span);
  }
}

// declare -a x=TEXT, and declare x=TEXT if x is an array: a TEXT of (…) is evaluated.
void EffectReader::declaresArrays(const Command& command, std::string_view declaration) {
  constexpr std::string_view kOnce = " declare typeset local ";
  const bool once = kOnce.contains(" " + std::string(declaration) + " ");
  const bool flags = std::ranges::any_of(command.words, [](const Word& word) {
    return !word.parts.empty() && word.parts[0].text.starts_with('-') &&
           word.parts[0].text.find_first_of("aA") != std::string::npos;
  });
  if (!once && !flags) return;
  for (const Assignment& one : command.assignments) {
    if (one.array || one.values.size() != 1 || (!flags && !arrays_.contains(one.name))) continue;
    const Word& word = one.values[0];
    const bool safe = word.parts.empty() || isNumber(word) ||
                      (word.parts[0].kind == Part::Kind::kText && !word.parts[0].text.empty() &&
                       word.parts[0].text[0] != '(');
    if (!safe) doubt("array_text", "an array whose text is evaluated", one.span);
  }
}

// read, printf -v and the like: names of variables among their words.
void EffectReader::assignsNames(Words argv, const Program& program) {
  const bool format = program.format;
  if (format) {
    if (argv.size() < 2) return;
    if (setsVariable(argv[1].text)) {
      doubt("unknown_option", "%n of printf, which gives a variable its value", argv[1].span);
    }
    const bool maybe = !argv[1].known && argv[1].text.empty();
    if (!maybe && !argv[1].text.starts_with("-v")) return;
    for (const Value& word : argv.subspan(1)) {
      if (subscript(word)) doubt("subscript", "a variable with a subscript", word.span);
    }
    if (maybe) return;
  } else {
    for (const Value& word : argv.subspan(1)) {
      if (word.known && word.text != "-d" && mayBeOption(program.executes, word.text)) {
        return doubt("runs_its_option", "a command that is called for each line", word.span);
      }
    }
  }
  for (const Value& word : argv.subspan(1)) {
    if (!word.known && word.text.empty() && !format) {
      doubt("unknown_option", "a variable whose name is not written here", word.span);
    } else if (subscript(word) && !format) {
      doubt("subscript", "a variable with a subscript", word.span);
    } else {
      assigns(word.text.starts_with("-v") ? std::string_view(word.text).substr(2) : word.text,
              nullptr, word.span);
    }
  }
}

void EffectReader::declare(Words argv) {
  const bool flags = std::ranges::any_of(argv, [](const Value& word) {
    return word.text.starts_with('-') && word.text.find_first_of("aA") != std::string::npos;
  });
  for (const Value& word : argv.subspan(1)) {
    const size_t equals = word.text.find('=');
    if (!word.known && equals == std::string::npos) {
      doubt("unknown_option", "a declaration that is not written here", word.span);
    } else if (word.text.starts_with('-') || word.text.starts_with('+')) {
      if (word.text.find_first_not_of("-+gxrapAF") != std::string::npos) {
        doubt("unknown_option", "a declaration that changes how a variable is read", word.span);
      }
    } else if (equals != std::string::npos) {
      if (word.text.substr(0, equals).contains('['))
        doubt("subscript", "a variable with a subscript", word.span);
      Value value{.text = word.text.substr(equals + 1), .known = word.known, .span = word.span};
      const bool text = value.text.starts_with('(') || (!value.known && value.text.empty());
      if (text && (flags || value.known || arrays_.contains(word.text.substr(0, equals))))
        doubt("array_text", "an array whose text is evaluated", word.span);
      assigns(std::string_view(word.text).substr(0, equals), &value, word.span);
      effects_.assigned.push_back(std::move(value));
    } else if (subscript(word)) {
      doubt("subscript", "a variable with a subscript", word.span);
    }
  }
}

void EffectReader::setOptions(Words argv) {
  const bool shopt = argv[0].text == "shopt";
  bool name = false;
  for (const Value& word : argv.subspan(1)) {
    const std::string& text = word.text;
    if (word.known && text == "--" && !shopt) return;
    if (!word.known)
      return doubt("shell_options", "options of the shell that are not written here", word.span);
    constexpr std::string_view kNames =
        " pipefail errexit nounset xtrace nullglob globstar dotglob failglob inherit_errexit ";
    const bool plain =
        shopt  ? (text == "-s" || text == "-u" || text == "-q" || kNames.contains(" " + text + " "))
        : name ? kNames.contains(" " + text + " ")
               : text.size() > 1 && (text[0] == '-' || text[0] == '+') &&
                     text.find_first_not_of("euxo", 1) == std::string::npos;
    if (!plain)
      return doubt("shell_options", "an option of the shell that changes how text is read",
                   word.span);
    name = !name && text.ends_with('o') && !shopt;
  }
}

void EffectReader::trap(Words argv) {
  size_t at = 1;
  if (at < argv.size() && argv[at].known && argv[at].text == "--") ++at;
  if (at >= argv.size()) return;
  const Value& text = argv[at];
  if (text.known &&
      (text.text == "-" || text.text == "-l" || text.text == "-p" || text.text.empty()))
    return;
  shellText(text, "trap", dialect_);
}

// The effects of a sourced file on the shell are not read. Only files with the names of known tools
// count as project code; all others are doubts.
void EffectReader::source(Words argv, Execution& execution) {
  execution.wrapper = true;
  const bool plain =
      argv.size() == 2 && argv[1].known &&
      (argv[1].text.ends_with("/bin/activate") || argv[1].text.ends_with("/.cargo/env"));
  if (plain)
    return projectCode("a file read by the shell: " + argv[1].text, argv[1].span, &execution);
  doubt("sourced_file", "a file that the shell runs as its own text",
        argv.size() > 1 ? argv[1].span : argv[0].span);
}

}  // namespace cloister::policy
