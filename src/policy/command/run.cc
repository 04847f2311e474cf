// SPDX-License-Identifier: Apache-2.0
// The programs run by a command, according to the table of programs.
#include <algorithm>

#include "policy/command/reader.h"
#include "policy/command/tables.h"

namespace cloister::policy {
namespace {

constexpr int kMaxNested = 12;
constexpr size_t kMaxExecutions = 4000;
constexpr std::string_view kSystem[] = {"/bin/", "/usr/bin/", "/sbin/", "/usr/sbin/",
                                        "/usr/local/bin/"};

std::string_view lastPart(std::string_view path) {
  return path.substr(path.rfind('/') + 1);
}

bool systemPath(std::string_view path) {
  return std::ranges::any_of(kSystem, [&](std::string_view directory) {
    return path.starts_with(directory) && !path.substr(directory.size()).contains('/');
  });
}

bool dynamicLoader(std::string_view name) {
  return name.starts_with("ld-linux") || name.starts_with("ld-musl") || name.starts_with("ld.so") ||
         name.starts_with("ld-2");
}

bool plainName(std::string_view name) {
  return std::ranges::all_of(name, [](char c) { return c > ' ' && c < '\x7f'; }) &&
         !name.starts_with('-');
}

}  // namespace

void EffectReader::run(std::vector<Value> argv, std::string_view via) {
  const Value& first = argv[0];
  Execution execution{.via = std::string(via), .moved = moved_};
  execution.span = {.begin = first.span.begin,
                    .end = std::max(first.span.end, argv.back().span.end)};
  if (++depth_ > kMaxNested || effects_.executions.size() >= kMaxExecutions) {
    doubt("too_deep", "commands in commands, too many to read", first.span);
    --depth_;
    return;
  }
  if (!first.known || first.text.empty() || first.text.ends_with('/') || !plainName(first.text)) {
    doubt("unknown_program", "which program runs is not written here", first.span);
    execution.argv = std::move(argv);
    effects_.executions.push_back(std::move(execution));
    --depth_;
    return;
  }
  const std::string written = first.text;
  std::string path = written.contains('/') ? plainPath(written) : written;
  if (written.contains('/') && !path.contains('/')) path = "./" + path;
  execution.trusted = !path.contains('/') || systemPath(path);
  execution.program = lastPart(path);
  if (execution.trusted && image_ != nullptr) execution.real = image_->leadsTo(execution.program);
  if (path.contains('/')) execution.path = path;
  execution.argv = std::move(argv);
  const size_t at = effects_.executions.size();
  effects_.executions.push_back(execution);  // in the order of the text; filled in below
  const Program& program = programNamed(execution.program);
  if (!execution.trusted)
    projectCode("a program that is not the system's: " + path, first.span, &execution);
  // The linked program may behave by its called name, or ignore the name.
  for (const std::string& real : execution.real) {
    const Program& other = programNamed(real);
    if (other.kind != program.kind && other.kind != Program::Kind::kUnknown)
      judge(execution.argv, execution, other);
  }
  judge(execution.argv, execution, program);
  effects_.executions[at] = std::move(execution);
  --depth_;
}

void EffectReader::judge(Words argv, Execution& execution, const Program& program) {
  using enum Program::Kind;
  execution.unknown = program.kind == kUnknown;
  if (dynamicLoader(execution.program)) {
    execution.wrapper = true;
    return prefix(argv, {.kind = kPrefix});
  }
  switch (program.kind) {
    case kUnknown:
      return unknown(argv);
    case kPlain:
      return plain(argv, program);
    case kOpaque:
      if (argv.size() == 2 && argv[1].known &&
          findOption(program.options, argv[1].text) != Option::kAbsent) {
        return;
      }
      return doubt("opaque_program", execution.program + " runs what is not read here",
                   execution.span);
    case kProject:
      projectCode(execution.program + " runs code of the project", argv[0].span, &execution);
      return plain(argv, program);
    case kInterpreter:
      return interpreter(argv, program, execution);
    case kNode:
    case kMake:
    case kRunner:
      projectCode(execution.program + " runs code of the project", argv[0].span, &execution);
      return wrapped(argv, program);
    case kPrefix:
    case kEnv:
    case kXargs:
    case kWatch:
    case kScript:
    case kShell:
      execution.wrapper = program.group == "wrapper";
      wrapped(argv, program);
      execution.project = execution.project || std::exchange(script_file_, false);
      return;
    case kFind:
    case kGit:
    case kSed:
    case kAwk:
    case kSsh:
    case kSu:
      return wrapped(argv, program);
    default:
      return builtin(argv, program, execution);
  }
}

void EffectReader::wrapped(Words argv, const Program& program) {
  using enum Program::Kind;
  switch (program.kind) {
    case kPrefix:
      return prefix(argv, program);
    case kShell:
      return shell(argv);
    case kEnv:
      return env(argv, program);
    case kXargs:
      return xargs(argv, program);
    case kFind:
      return find(argv);
    case kGit:
      return git(argv, program);
    case kSed:
      return sed(argv);
    case kAwk:
      return awk(argv);
    case kSsh:
      return ssh(argv, program);
    case kSu:
      return su(argv);
    case kScript:
      return scriptCommand(argv);
    case kWatch:
      return watch(argv, program);
    case kRunner:
      return runner(argv, program);
    case kNode:
      return node(argv, program);
    default:
      return make(argv);
  }
}

void EffectReader::nested(Words argv, std::string_view via) {
  if (!argv.empty()) run({argv.begin(), argv.end()}, via);
}

std::optional<size_t> EffectReader::pastOptions(Words argv, std::string_view options, size_t at) {
  while (at < argv.size()) {
    const Value& word = argv[at];
    const bool option = word.text.starts_with('-') && word.text != "-";
    if (!word.known && (option || word.text.empty() || word.many)) {
      doubt("unknown_option", "a word that may be an option of " + argv[0].text, word.span);
      return {};
    }
    if (!option) return at;
    ++at;
    if (word.text == "--") return at;
    const bool lengthy = word.text.starts_with("--");
    const std::string name = word.text.substr(0, lengthy ? word.text.find('=') : std::string::npos);
    Option kind = findOption(options, name);
    if (kind == Option::kAbsent && !lengthy) {  // -n5, -xe: letters of their own
      for (size_t i = 1; i < word.text.size(); ++i) {
        kind = findOption(options, std::string("-") + word.text[i]);
        if (kind == Option::kAbsent) break;
        if (kind == Option::kValue && i + 1 < word.text.size())
          kind = Option::kFlag;
        else if (kind != Option::kValue)
          continue;
        break;
      }
    } else if (lengthy && name != word.text) {
      if (kind == Option::kValue) kind = Option::kFlag;
    }
    if (kind == Option::kAbsent) {
      doubt("unknown_option",
            "an option of " + argv[0].text + " that is not read here: " + word.text, word.span);
      return {};
    }
    if (kind == Option::kValue) {
      if (at < argv.size() && argv[at].many) {
        doubt("unknown_option", "a value that may be several words", argv[at].span);
        return {};
      }
      ++at;
    }
  }
  return std::min(at, argv.size());  // the last option may lack its value
}

void EffectReader::prefix(Words argv, const Program& program) {
  size_t at = 1;
  if (program.number_option && argv.size() > 1 && argv[1].known && argv[1].text.size() > 1 &&
      argv[1].text[0] == '-' &&
      argv[1].text.find_first_not_of("0123456789", 1) == std::string::npos) {
    at = 2;
  }
  const auto past = pastOptions(argv, program.options, at);
  if (!past) return;
  at = *past;
  for (int i = 0; i < program.operands && at < argv.size(); ++i, ++at) {
    if (argv[at].many) return doubt("unknown_option", "a word that may be several", argv[at].span);
  }
  if (program.shell_text && at < argv.size() && argv[at].text == "-c") {
    if (at + 1 < argv.size()) shellText(argv[at + 1], "flock", Dialect::kPosix);
    return;
  }
  while (program.group == "privileged" && at < argv.size() && argv[at].known &&
         argv[at].text.contains('=')) {
    const size_t equals = argv[at].text.find('=');
    Value value{.text = argv[at].text.substr(equals + 1), .span = argv[at].span};
    assigns(std::string_view(argv[at].text).substr(0, equals), &value, argv[at].span);
    ++at;
  }
  nested(argv.subspan(std::min(at, argv.size())), argv[0].text);
}

void EffectReader::shellText(const Value& text, std::string_view via, Dialect dialect) {
  if (!text.known) {
    return doubt("unknown_text",
                 "the text that " + std::string(via) + " runs is not all written here", text.span);
  }
  if (++depth_ > kMaxNested) {
    doubt("too_deep", "shells in shells, too many to read", text.span);
  } else {
    const Program::Kind kind = programNamed(lastPart(via)).kind;
    using enum Program::Kind;
    if (kind != kShell && kind != kEval && kind != kTrap) {  // programs that call a shell
      Execution shell{.program = "sh", .via = std::string(via), .trusted = true, .wrapper = true};
      shell.argv = {{.text = "sh", .span = text.span}, {.text = "-c", .span = text.span}, text};
      shell.span = text.span;
      effects_.executions.push_back(std::move(shell));
    }
    const Value* outer = std::exchange(input_, nullptr);
    const Span span = text.span;
    const std::string copy = text.text;
    const std::string name(via);
    this->text(copy, dialect, name, &span);
    input_ = outer;
  }
  --depth_;
}

void EffectReader::shell(Words argv) {
  const std::string_view name = lastPart(argv[0].text);
  const bool known = name == "sh" || name == "bash" || name == "dash" || name == "ash" ||
                     name == "rbash" || name == "busybox";
  const Dialect dialect = name == "bash" ? Dialect::kBash : Dialect::kPosix;
  bool text_follows = false;
  size_t at = 1;
  for (; at < argv.size(); ++at) {
    const Value& word = argv[at];
    if (!word.known)
      return doubt("unknown_option", "a word that may be an option of a shell", word.span);
    const std::string& text = word.text;
    if (text == "--version" || text == "--help") return;
    if (text == "--norc" || text == "--noprofile" || text == "--posix" || text == "--login")
      continue;
    if (text == "--" || text == "-") {
      ++at;
      break;
    }
    if (text.starts_with('+'))
      return doubt("unknown_option", "an option of a shell: " + text, word.span);
    if (text.size() < 2 || text[0] != '-') break;
    if (text.find_first_not_of("ceuxlivno", 1) != std::string::npos) {
      return doubt("unknown_option", "an option of a shell that is not read here: " + text,
                   word.span);
    }
    text_follows = text_follows || text.contains('c');
    if (text.contains('i'))
      doubt("interactive_shell", "an interactive shell reads files and aliases first", word.span);
    if (text.contains('o')) ++at;
  }
  if (text_follows) {
    if (at >= argv.size()) return;
    if (!known) {
      doubt("other_shell", "text of a shell whose language is not read here: " + std::string(name),
            argv[at].span);
    }
    return shellText(argv[at], argv[0].text, dialect);
  }
  if (at < argv.size()) {
    script_file_ = true;
    return projectCode("a script, which is not read: " + argv[at].text, argv[at].span);
  }
  if (input_ != nullptr) return shellText(*input_, argv[0].text, dialect);
  doubt("standard_input", "a shell that runs what it reads", argv[0].span);
}

// A program missing in the table is left to the level's rules, unless an option runs its value.
void EffectReader::unknown(Words argv) {
  constexpr std::string_view kRuns = " --eval --exec --execute --rsh --pre-command --post-command ";
  for (const Value& word : argv.subspan(1)) {
    const std::string option = word.text.substr(0, word.text.find('='));
    if (option.size() > 2 && kRuns.contains(" " + option + " ")) {
      return doubt("runs_its_option",
                   std::string(lastPart(argv[0].text)) + " may run what this word says", word.span);
    }
  }
}

void EffectReader::plain(Words argv, const Program& program) {
  if (program.executes.empty()) return;
  const bool cargo = program.rust_flags;
  bool past = false;  // behind --, where the options of rustc are
  for (const Value& word : argv.subspan(1)) {
    const bool linker = word.text.contains(cargo ? "linker=" : "extld") ||
                        (cargo && word.text.contains("codegen-backend="));
    if (program.at_files && (linker || word.text.starts_with('@'))) {
      return doubt("runs_its_option",
                   std::string(lastPart(argv[0].text)) + " may run what this word says", word.span);
    }
    past = past || (cargo && word.known && word.text == "--");
    if (past) continue;
    if (word.known && word.text == "--" && !program.past_dashes) break;
    const bool hidden = mayHideOptions(word);
    const bool build = program.kind == Program::Kind::kProject;  // whose options are not bundled
    const bool runs = mayBeOption(program.executes, word.text) &&
                      (!build || word.text.starts_with("--") ||
                       findOption(program.executes, word.text.substr(0, 2)) != Option::kAbsent ||
                       program.executes.contains(word.text.substr(0, 6)));
    if (hidden || runs) {
      return doubt("runs_its_option",
                   std::string(lastPart(argv[0].text)) + " may run what this word says", word.span);
    }
  }
  if (lastPart(argv[0].text) == "ip") return ip(argv);
  // The oldest way to give tar its options.
  const bool bundle = program.bundle && argv.size() > 1 && argv[1].text.find_first_of("IF") == 0;
  if (bundle || (program.bundle && argv.size() > 1 && !argv[1].text.starts_with('-') &&
                 argv[1].text.find_first_of("IF") != std::string::npos)) {
    doubt("runs_its_option", "tar may run what its options say", argv[1].span);
  }
  if (program.plus_commands) {
    for (const Value& word : argv.subspan(1)) {
      if (word.text.starts_with('+')) doubt("runs_its_option", "a command of the pager", word.span);
    }
  }
}

void EffectReader::interpreter(Words argv, const Program& program, Execution& execution) {
  for (size_t at = 1; at < argv.size(); ++at) {
    const Value& word = argv[at];
    const std::string& text = word.text;
    const bool option = text.starts_with('-');
    if (!word.known && (option || text.empty())) {
      return doubt("unknown_option", "a word that may be an option of " + execution.program,
                   word.span);
    }
    if (text == "-" || text == "/dev/stdin" || text.starts_with("/dev/fd/") ||
        text.starts_with("/proc/")) {
      return doubt("inline_code", "code that " + execution.program + " reads as it runs",
                   word.span);
    }
    if (!option || text == "--") {
      const Value& file = text == "--" && at + 1 < argv.size() ? argv[at + 1] : word;
      return projectCode("a program of the project, which is not read: " + file.text, file.span,
                         &execution);
    }
    const bool python = program.modules;
    if (python && text.starts_with("-m")) return module(argv, at, execution);
    const std::string name =
        text.substr(0, text.starts_with("--") ? text.find('=') : std::string::npos);
    const Option kind = findOption(program.options, name);
    if (kind == Option::kAbsent) {
      const bool code = mayBeOption(program.executes, text);
      return doubt(code ? "inline_code" : "unknown_option",
                   (code ? "code in an option of " : "an option that is not read here, of ") +
                       execution.program,
                   at + 1 < argv.size() && code ? argv[at + 1].span : word.span);
    }
    if (name == "-v" || name == "-V" || name == "-VV" || name == "--version" || name == "-h" ||
        name == "--help") {
      if (!python || name != "-v") return;
    }
    if (name == "--test") {
      return projectCode("tests of the project", word.span, &execution);
    }
    if (kind == Option::kValue && name == text) ++at;
  }
  doubt("inline_code", "code that " + execution.program + " reads as it runs", argv[0].span);
}

void EffectReader::module(Words argv, size_t at, Execution& execution) {
  const std::string& option = argv[at].text;
  const Value* name =
      option.size() == 2 ? (at + 1 < argv.size() ? &argv[at + 1] : nullptr) : &argv[at];
  if (name == nullptr || !name->known || option.size() > 2) {
    return doubt("unknown_option", "a module whose name is not plain", argv[at].span);
  }
  if (kPythonModules.contains(name->text)) {
    return doubt("inline_code", "a module that runs its arguments: " + name->text, name->span);
  }
  projectCode("a module of Python: " + name->text, name->span, &execution);
}

}  // namespace cloister::policy
