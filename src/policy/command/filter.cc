// SPDX-License-Identifier: Apache-2.0
#include "policy/command/filter.h"

#include <algorithm>
#include <span>

#include "base/glob.h"
#include "model/yaml.h"
#include "policy/command/programs.h"
#include "policy/command/writes.h"

namespace cloister::policy {

using base::globMatches;

namespace {

constexpr size_t kMaxRisks = 64;

// Advice on a kind of risk, unless a rule has better advice.
std::string_view adviceFor(std::string_view kind) {
  constexpr std::pair<std::string_view, std::string_view> kAdvice[] = {
      {"unknown_program", "write the program's name as it is, without variables or patterns"},
      {"unknown_text", "write the whole text, or run its commands directly"},
      {"unknown_option", "put the options in plain words first, and -- before what varies"},
      {"inline_code", "put the code in a file of the project, or run it as code with its language"},
      {"standard_input", "save what is read to a file, look at it, and run that"},
      {"environment", "leave the variable as it is"},
      {"project_code", "have the project's code approved once"},
      {"sourced_file", "run the file as a program of its own"},
      {"too_long", "split the command"},
      {"too_deep", "split the command"},
      {"written_and_run", "write the file in one command, and run it in another"},
      {"forbidden_path", "use a path under the workspace"},
      {"not_temporary", "write below /tmp, or ask for a higher level"},
      {"network", "send what it needs as files, or ask for a higher level"},
      {"forbidden_command", "do without this command"},
      {"dangerous", "do without this command"},
      {"parameter", "leave out what the rule about this command does not allow"},
      {"not_allowed", "use a command that the level allows, or ask for a higher level"},
  };
  for (const auto& [name, advice] : kAdvice) {
    if (name == kind) return advice;
  }
  if (kind.ends_with("character") || kind == "look_alike" || kind == "unusual_space") {
    return "write the command in plain ASCII";
  }
  return "write the command more plainly";
}

std::string_view lastPart(std::string_view path) {
  return path.substr(path.rfind('/') + 1);
}

class Judge {
 public:
  Judge(const Level& level, Effects effects) : level_(level), effects_(std::move(effects)) {
    for (const auto* rules : {&level_.forbidden, &level_.dangerous}) {
      for (const CommandRule& rule : *rules) {
        if (!rule.pattern.program().empty()) names_.push_back(rule.pattern.program());
      }
    }
  }

  Verdict run() {
    for (const Finding& finding : effects_.findings)
      general(finding);
    for (const Execution& one : effects_.executions) {
      if (!one.program.empty()) command(one);
      changes(one);
    }
    for (const auto* values : {&effects_.writes, &changed_}) {
      for (const Value& value : *values)
        write(value);
    }
    for (const Value& value : effects_.assigned)
      mention(value, "a variable");
    connects();
    writtenAndRun();
    return finish();
  }

 private:
  static constexpr bool kUncertain = false;
  void add(Outcome outcome, std::string kind, std::string what, Span span,
           const CommandRule* rule = nullptr, bool certain = true) {
    if (verdict_.risks.size() >= kMaxRisks && outcome <= verdict_.outcome) return;
    Risk risk{.kind = std::move(kind),
              .what = std::move(what),
              .rule = {},
              .why = {},
              .mitigation = {},
              .outcome = outcome,
              .span = span,
              .certain = certain};
    if (rule != nullptr) {
      risk.rule = rule->pattern.text();
      risk.why = rule->why;
      risk.mitigation = rule->mitigation;
    }
    if (risk.mitigation.empty()) risk.mitigation = adviceFor(risk.kind);
    verdict_.outcome = std::max(verdict_.outcome, outcome);
    verdict_.risks.push_back(std::move(risk));
  }

  void general(const Finding& finding) {
    using enum Finding::Weight;
    const Outcome outcome = finding.weight == kDoubt     ? level_.doubt
                            : finding.weight == kProject ? level_.project_code
                                                         : Outcome::kAllow;
    add(outcome, finding.kind, finding.what, finding.span);
  }

  void command(const Execution& one) {
    forbid(one);
    // A forbidden program is also forbidden under another name.
    for (const std::string& real : one.real) {
      Execution other = one;
      other.program = real;
      other.argv[0].text = real;
      forbid(other);
      changes(other);
    }
    allow(one);
    // A program missing in the table may run its arguments.
    if (one.unknown || one.project) {
      for (size_t i = 1; i < one.argv.size(); ++i)
        mention(one.argv[i], one.program);
    }
  }

  void forbid(const Execution& one) {
    for (const auto* rules : {&level_.forbidden, &level_.dangerous}) {
      for (const CommandRule& rule : *rules) {
        const Match match = rule.pattern.forbids(one);
        if (match == Match::kNo) continue;
        const std::string kind = rule.risk.empty() ? "forbidden_command" : rule.risk;
        if (match == Match::kYes) {
          add(rule.outcome, kind, "\"" + commandText(one) + "\" is forbidden", one.span, &rule);
        } else {
          add(std::min(rule.outcome, Outcome::kEscalate), kind,
              "\"" + commandText(one) + "\" may be what a rule forbids", one.span, &rule,
              kUncertain);
        }
      }
    }
    for (const ParameterRule& rule : level_.parameters) {
      if (rule.command == one.program) parameters(one, rule);
    }
  }

  void allow(const Execution& one) {
    for (const CommandRule& rule : level_.allowed) {
      if (rule.pattern.allows(one) == Match::kNo) continue;
      if (verdict_.rule.empty()) {
        verdict_.rule = rule.pattern.text();
        verdict_.why = rule.why;
      }
      return;
    }
    if (one.wrapper) return;  // its executed program is judged
    add(Outcome::kDeny, "not_allowed",
        "\"" + commandText(one) + "\" is not among what this level allows", one.span);
  }

  void parameters(const Execution& one, const ParameterRule& rule) {
    const auto refuse = [&](const Value& word, const std::string& what) {
      add(word.known ? Outcome::kDeny : Outcome::kEscalate, "parameter", what, word.span);
      verdict_.risks.back().rule = rule.command;
      verdict_.risks.back().why = rule.why;
    };
    for (const Value& word : std::span(one.argv).subspan(1)) {
      const std::string flag = word.text.substr(0, word.text.find('='));
      const bool option = word.text.starts_with('-');
      if (!word.known && !option &&
          (!rule.allowed_flags.empty() || !rule.forbidden_flags.empty() ||
           !rule.allowed_paths.empty())) {
        refuse(word, "a word that is not written here");
      } else if (option &&
                 std::ranges::any_of(rule.forbidden_flags, [&](const std::string& one_flag) {
                   return mayBeOption(one_flag, word.text);
                 })) {
        refuse(word, "the option " + flag + " is not allowed");
      } else if (option && !rule.allowed_flags.empty() &&
                 std::ranges::find(rule.allowed_flags, flag) == rule.allowed_flags.end()) {
        refuse(word, "the option " + flag + " is not among those allowed");
      } else if (!option && !rule.allowed_paths.empty()) {
        const bool inside = !word.text.starts_with("..") &&
                            std::ranges::any_of(rule.allowed_paths, [&](const std::string& path) {
                              return globMatches(path, plainPath(word.text));
                            });
        if (!inside || one.moved)
          refuse(word, "the path " + word.text + " is not among those allowed");
      }
    }
  }

  // A word with the name of a program of a rule, at a place where the program may be run.
  void mention(const Value& value, std::string_view where) {
    std::string_view text = value.text;
    while (!text.empty()) {
      const size_t end = std::min(text.find_first_of(" \t\n;&|<>()'\"`$={},:"), text.size());
      const std::string_view name = lastPart(text.substr(0, end));
      if (!name.empty() && std::ranges::find(names_, name) != names_.end()) {
        add(Outcome::kEscalate, "names_forbidden_program",
            std::string(where) +
                " is given the name of a program that a rule forbids: " + std::string(name),
            value.span);
        return;
      }
      text.remove_prefix(std::min(end + 1, text.size()));
    }
  }

  // Collects files that programs make, change or remove according to their words.
  void changes(const Execution& one) {
    std::ranges::move(writesOf(one), std::back_inserter(changed_));
  }

  // Whether the glob matches the path as a file, or as a directory with content.
  static bool names(const std::string& glob, const std::string& path) {
    return globMatches(glob, path) || globMatches(glob, path + "/");
  }

  // How certainly the written file is a path of the rule.
  [[nodiscard]] Match written(const PathRule& rule, const Value& target) const {
    if (rule.path == "*") return target.known ? Match::kYes : Match::kMaybe;
    const bool absolute = target.text.starts_with('/');
    if (!target.text.empty() && names(rule.path, plainPath(target.text))) return Match::kYes;
    const std::vector<std::string>& all = effects_.directories;
    for (size_t i = 0; i < all.size() && !absolute && !target.text.empty(); ++i) {
      if (!names(rule.path, plainPath(all[i] + "/" + target.text))) continue;
      return i == 0 ? Match::kYes : Match::kMaybe;
    }
    // Programs cannot write to the image in any case.
    const bool ours = rule.path.starts_with('*') || rule.path.starts_with(kWorkspace);
    const bool open = (!target.known && !target.glob) || (effects_.anywhere && !absolute);
    return ours && open ? Match::kMaybe : Match::kNo;
  }

  void write(const Value& target) {
    if (target.known && plainPath(target.text) == "/dev/null") return;
    temporary(target);
    for (const PathRule& rule : level_.forbidden_paths) {
      const Match match = written(rule, target);
      if (match == Match::kNo) continue;
      const bool sure = match == Match::kYes;
      add(sure ? Outcome::kDeny : Outcome::kEscalate, "forbidden_path",
          "the command " + std::string(sure ? "writes" : "may write") + " to " +
              (target.text.empty() ? rule.path : target.text),
          target.span);
      verdict_.risks.back().rule = rule.path;
      verdict_.risks.back().why = rule.why;
    }
  }

  // A level whose only write operation is `write_temp` may write in /tmp.
  void temporary(const Value& target) {
    const auto is = [](std::string_view one) { return one != "read" && one != "write_temp"; };
    const std::vector<std::string>& operations = level_.file_operations;
    const bool only = std::ranges::find(operations, "write_temp") != operations.end() &&
                      std::ranges::none_of(operations, is);
    if (!only) return;
    const bool beneath = !target.text.starts_with('/') && effects_.directories.size() == 1;
    const std::string path =
        plainPath(beneath ? effects_.directories[0] + "/" + target.text : target.text);
    if (path.starts_with("/tmp/") || path.starts_with("/var/tmp/")) return;
    add(target.known ? Outcome::kDeny : Outcome::kEscalate, "not_temporary",
        "the command writes to " + (target.text.empty() ? "a file" : target.text) +
            ", and this level writes in /tmp only",
        target.span);
  }

  void connects() {
    if (level_.network_access != "denied") return;
    for (const Value& target : effects_.connects)
      add(Outcome::kDeny, "network", "the shell connects to " + target.text, target.span);
  }

  // A file made and run by the same command is not the project's.
  void writtenAndRun() {
    constexpr std::string_view kMakes[] = {"cp", "mv",   "ln",   "install", "tee",
                                           "dd", "curl", "wget", "rename",  "patch"};
    constexpr std::string_view kRead[] = {"Makefile",     "makefile",        "GNUmakefile",
                                          "package.json", "conftest.py",     "setup.py",
                                          "build.rs",     "CMakeLists.txt",  "pyproject.toml",
                                          "build.gradle", "sitecustomize.py"};
    std::vector<Value> made = effects_.writes;
    for (const Execution& one : effects_.executions) {
      if (std::ranges::find(kMakes, one.program) == std::end(kMakes)) continue;
      std::ranges::copy(std::span(one.argv).subspan(1), std::back_inserter(made));
    }
    std::erase_if(
        made, [](const Value& value) { return value.known && value.text.starts_with("/dev/"); });
    if (made.empty()) return;
    for (const Execution& one : effects_.executions) {
      if (!one.project) continue;
      for (const Value& file : made) {
        const std::string_view name = lastPart(file.text);
        const bool same = std::ranges::any_of(one.argv, [&](const Value& word) {
          return !name.empty() && lastPart(word.text) == name;
        });
        if (!same && std::ranges::find(kRead, name) == std::end(kRead) &&
            (file.known || !file.text.empty()))
          continue;
        return add(level_.doubt, "written_and_run",
                   "a file that the command itself makes may be what it runs", file.span);
      }
    }
  }

  Verdict finish() {
    const Risk* worst = nullptr;
    for (const Risk& risk : verdict_.risks) {
      if (risk.outcome == verdict_.outcome && risk.outcome != Outcome::kAllow && worst == nullptr)
        worst = &risk;
    }
    if (worst != nullptr) {
      verdict_.rule = worst->rule;
      verdict_.why = worst->why.empty() ? level_.why : worst->why;
      verdict_.reason = worst->what;
    } else {
      verdict_.reason = verdict_.executions.empty() && effects_.executions.empty()
                            ? "the command runs no program"
                            : "everything that the command would run is allowed at this level";
      if (verdict_.why.empty()) verdict_.why = level_.why;
    }
    verdict_.executions = std::move(effects_.executions);
    return std::move(verdict_);
  }

  const Level& level_;
  Effects effects_;
  std::vector<Value> changed_;  // files, by operands
  std::vector<std::string_view> names_;
  Verdict verdict_;
};

// Whether a person may allow the command in spite of the risk.
bool mayBeAsked(const Level& level, const Risk& risk) {
  if (risk.outcome == Outcome::kEscalate) return true;
  constexpr std::string_view kLacks[] = {"not_allowed", "parameter", "not_temporary"};
  if (risk.kind != "forbidden_path")
    return std::ranges::find(kLacks, risk.kind) != std::end(kLacks);
  return std::ranges::none_of(level.forbidden_paths, [&](const PathRule& rule) {
    return rule.path == risk.rule && !rule.escalation;
  });
}

}  // namespace

Verdict judgeCommand(const Level& level, Effects effects) {
  return Judge(level, std::move(effects)).run();
}

bool mayBeApproved(const Level& level, const Verdict& verdict) {
  if (verdict.outcome == Outcome::kAllow) return false;
  return std::ranges::all_of(verdict.risks, [&](const Risk& risk) {
    return risk.outcome == Outcome::kAllow || mayBeAsked(level, risk);
  });
}

}  // namespace cloister::policy
