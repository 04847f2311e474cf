// SPDX-License-Identifier: Apache-2.0
#include "policy/agent/walls.h"

#include <algorithm>
#include <ranges>
#include <set>
#include <utility>

#include "base/glob.h"
#include "policy/agent/categories.h"
#include "policy/agent/file_grant.h"
#include "policy/agent/validate.h"

namespace cloister::policy {
namespace {

using base::globMatches;
using model::Walls;

// Places where no mount is possible, or without files of the image: the agent's own files, devices
// and processes.
constexpr std::string_view kNotTheImage[] = {"/workspace", model::kHome, "/tmp", "/var/tmp",
                                             "/dev",       "/proc",      "/sys", "/run"};

bool has(const std::vector<std::string>& list, std::string_view value) {
  return std::ranges::find(list, value) != list.end();
}

struct FileChange {
  std::string_view operation;
  FileAccess access;
  uint8_t bit;
};
constexpr FileChange kFileChanges[] = {{"file_write", FileAccess::kWrite, model::kMayWrite},
                                       {"file_create", FileAccess::kCreate, model::kMayCreate},
                                       {"file_delete", FileAccess::kDelete, model::kMayDelete}};

class Builder {
 public:
  Builder(const AgentRules& rules, int64_t now) : rules_(rules) {
    for (const model::TemporaryPermission& one : rules.temporary) {
      if (one.expires_at <= now) continue;
      if (one.operation == "command_execution") {
        addCommand(one);
      } else {
        // A rule's approval lifts no rule about paths.
        (one.by_rule ? by_rule_ : grants_).push_back(&one);
      }
    }
  }

  HeldRules build() {
    for (const PathRule& rule : rules_.level.forbidden_paths)
      addPath(rule);
    addPrograms();
    held_.walls.writes = writesOf(rules_);
    held_.runs = !rules_.revoked.contains("command_execution");
    if (const auto percent = rules_.limits.cpu_percent) {
      constexpr uint32_t kMost = UINT32_MAX / 10;
      held_.cpu_millis = std::clamp(*percent, 1U, kMost) * 10;
    }
    addWritable();
    return std::move(held_);
  }

 private:
  void byText(std::string rule) { held_.by_text.push_back(std::move(rule)); }

  // --- paths

  void addPath(const PathRule& rule) {
    // A readable but unchangeable path is the image's, which no program can change, or the agent's
    // own.
    if (!rule.reads) {
      if (!inImage(rule.path) && rule.path != "*") byText("path " + rule.path);
      return;
    }
    if (!inImage(rule.path) || (rule.escalation && isGranted(rule.path))) {
      return byText("path " + rule.path);
    }
    held_.walls.hidden.push_back(rule.path);
    if (rule.escalation) addShown(rule.path);
  }

  static bool reads(const model::TemporaryPermission& grant) {
    return grant.operation == "file_read";
  }

  // Whether everything hidden by the rule may be read.
  [[nodiscard]] bool isGranted(const std::string& rule) const {
    return std::ranges::any_of(grants_, [&](const model::TemporaryPermission* grant) {
      return reads(*grant) && globMatches(grant->pattern, rule);
    });
  }

  // Adds the readable parts. A pattern other than a path or DIRECTORY/* only counts for requests.
  void addShown(const std::string& rule) {
    for (const model::TemporaryPermission* grant : grants_) {
      std::string path = grant->pattern;
      if (path.ends_with("/*")) path.resize(path.size() - 2);
      if (!reads(*grant) || path.contains('*') || !globMatches(rule, grant->pattern)) continue;
      const model::Walls::Shown shown{rule, path};
      const bool known = std::ranges::find(held_.walls.shown, shown) != held_.walls.shown.end();
      if (plainPath(path) == path && !known) held_.walls.shown.push_back(shown);
    }
  }

  // Whether all possible matches are beneath a named directory of the image.
  static bool inImage(const std::string& path) {
    const std::string fixed = path.substr(0, path.find('*'));
    const size_t deep = fixed.rfind('/');
    if (!path.starts_with('/') || plainPath(path) != path || path.size() > Walls::kMaxText) {
      return false;
    }
    if (path == "/" || (deep == 0 && fixed.size() < path.size())) return false;  // "/*", "/a*"
    return std::ranges::none_of(kNotTheImage, [&](std::string_view place) {
      return globMatches(path, place) || fixed == place ||
             fixed.starts_with(std::string(place) + "/");
    });
  }

  // --- programs

  // Programs allowed for a time; nullopt: unknown.
  using Granted = std::optional<std::set<std::string>>;

  // A permission by a rule opens a command's programs only while a rule approves the command.
  void addCommand(const model::TemporaryPermission& grant) {
    const std::string& text = grant.pattern;
    const std::vector<std::string> words = wordsOf(text);
    if (!grant.by_rule || isSafe({.text = text, .argv = {}})) {
      commands_.push_back(effectsOf(text, rules_.bounds));
    } else if (!words.empty() && isSafe({.text = std::nullopt, .argv = words})) {
      commands_.push_back(effectsOfArgv(words, rules_.bounds));
    }
  }

  [[nodiscard]] bool isSafe(CommandOperation command) const {
    return ruleApproves(rules_, {.what = std::move(command), .wanted = {}});
  }

  // The words of an argv, as joined by targetOf().
  static std::vector<std::string> wordsOf(const std::string& text) {
    std::vector<std::string> words;
    for (const auto word : std::views::split(text, ' ')) {
      if (!word.empty()) words.emplace_back(word.begin(), word.end());
    }
    return words;
  }

  [[nodiscard]] Granted grantedPrograms() const {
    std::set<std::string> programs;
    for (const Effects& effects : commands_) {
      const bool told = std::ranges::all_of(effects.findings, [](const Finding& finding) {
        return finding.weight == Finding::Weight::kNote;
      });
      if (!told) return std::nullopt;
      for (const Execution& execution : effects.executions)
        programs.insert(execution.program);
    }
    return programs;
  }

  void addPrograms() {
    const Granted granted = grantedPrograms();
    for (const std::vector<CommandRule>* rules : {&rules_.level.forbidden, &rules_.level.dangerous})
      forbid(*rules, granted);
    if (!granted) return byText("programs, while something is approved that may run any");
    allow(*granted);
  }

  void forbid(const std::vector<CommandRule>& rules, const Granted& granted) {
    for (const CommandRule& rule : rules) {
      const auto programs = rule.pattern.programs();
      if (!programs || !programs->whole) {
        byText("command " + rule.pattern.text());
        continue;
      }
      for (const std::string& name : programs->names) {
        if (mayRun(rule, name, granted)) {
          byText("command " + rule.pattern.text());
        } else {
          held_.walls.without.push_back(name);
        }
      }
    }
  }

  // A denied program cannot be allowed for a time; an escalated program may be the approved
  // program.
  static bool mayRun(const CommandRule& rule, const std::string& name, const Granted& granted) {
    if (rule.outcome == Outcome::kDeny) return false;
    return !granted || std::ranges::any_of(*granted, [&](const std::string& each) {
      return globMatches(name, each);
    });
  }

  // A level with a list of programs permits only these and their helpers.
  void allow(const std::set<std::string>& granted) {
    std::set<std::string> names = {"sh", "bash"};
    for (const CommandRule& rule : rules_.level.allowed) {
      if (rule.pattern.everything()) return;
      const auto programs = rule.pattern.programs();
      if (!programs)
        return byText("programs, of which command " + rule.pattern.text() + " tells none");
      names.insert(programs->names.begin(), programs->names.end());
    }
    names.insert(granted.begin(), granted.end());
    addHelpers(names);
    held_.walls.only.emplace(names.begin(), names.end());
    held_.walls.runs_own = rules_.level.project_code == Outcome::kAllow;
  }

  void addHelpers(std::set<std::string>& names) const {
    for (const Helpers& helpers : rules_.helpers) {
      const bool meant = std::ranges::any_of(helpers.of, [&](const std::string& glob) {
        return std::ranges::any_of(names,
                                   [&](const auto& name) { return globMatches(glob, name); });
      });
      if (meant) names.insert(helpers.starts.begin(), helpers.starts.end());
    }
  }

  // --- writing

  void addWritable() {
    if (held_.walls.writes == Walls::Writes::kAll) return;
    for (const FileChange& change : kFileChanges) {
      if (rules_.revoked.contains(change.operation)) continue;
      if (rules_.granted.contains(change.operation)) open("*", change);
      for (const model::TemporaryPermission* grant : grants_) {
        if (grant->operation == change.operation) open(grant->pattern, change);
      }
      for (const model::TemporaryPermission* grant : by_rule_) {
        if (grant->operation == change.operation && stillSafe(grant->pattern, change))
          open(grant->pattern, change);
      }
    }
  }

  // Whether a rule approves at present, as for a request in advance.
  bool stillSafe(const std::string& pattern, const FileChange& change) const {
    const bool beneath = pattern.ends_with("/*");
    const std::string path = beneath ? pattern.substr(0, pattern.size() - 2) : pattern;
    return changeForbidden(rules_, path, beneath, Forbids::kAtAll) == nullptr &&
           ruleApproves(rules_,
                        {.what = FileOperation{change.access, pattern, false}, .wanted = {}});
  }

  // Opens the parts of the pattern that the kernel can open. Records why the other parts stay
  // closed.
  void open(const std::string& pattern, const FileChange& change) {
    const bool beneath = pattern == "*" || pattern.ends_with("/*");
    std::string path = pattern == "*" ? "" : pattern;
    if (path.ends_with("/*")) path.resize(path.size() - 2);
    const auto closed = [&](const std::string& why) {
      byText(std::string(change.operation) + " of " + pattern + ", which opens nothing: " + why);
    };
    if (path.contains('*')) return closed("it is neither a path nor DIRECTORY/*");
    if (!path.empty() && (plainPath(path) != path || path.size() > Walls::kMaxText)) {
      return closed("it is no plain path");
    }
    if (change.bit == model::kMayDelete && !beneath) {
      return closed("the kernel lets a program remove all files of a directory or none");
    }
    const std::vector<std::string> places = changeablePlaces(path, beneath);
    if (places.empty()) return closed("nothing can be changed there");
    for (const std::string& place : places) {
      if (changeForbidden(rules_, place, beneath, Forbids::kForGood) != nullptr) {
        closed("nobody may allow what a rule forbids in " + place);
      } else {
        addWritable(place, beneath, change.bit);
      }
    }
  }

  void addWritable(const std::string& path, bool beneath, uint8_t bit) {
    std::vector<Walls::Writable>& all = held_.walls.writable;
    const auto known = std::ranges::find_if(
        all, [&](const auto& each) { return each.path == path && each.beneath == beneath; });
    if (known != all.end()) {
      known->operations |= bit;
    } else {
      all.push_back({bit, beneath, path});
    }
  }

  const AgentRules& rules_;
  std::vector<const model::TemporaryPermission*> grants_;   // but commands
  std::vector<const model::TemporaryPermission*> by_rule_;  // of files
  std::vector<Effects> commands_;                           // allowed for a time
  HeldRules held_;
};

// More than a permit can carry.
bool tooLarge(const Walls& walls) {
  size_t bytes = 0;
  for (const Walls::Shown& each : walls.shown)
    bytes += each.within.size() + each.path.size() + 8;
  for (const Walls::Writable& each : walls.writable)
    bytes += each.path.size() + 8;
  const auto count = [&](const std::vector<std::string>& texts) {
    for (const std::string& text : texts)
      bytes += text.size() + 4;
    return texts.size() > Walls::kMaxEntries ||
           std::ranges::any_of(texts, [](const auto& t) { return t.size() > Walls::kMaxText; });
  };
  const bool many =
      count(walls.hidden) || count(walls.without) || (walls.only && count(*walls.only));
  return many || walls.shown.size() > Walls::kMaxEntries ||
         walls.writable.size() > Walls::kMaxEntries || bytes > Walls::kMaxBytes;
}

}  // namespace

Walls::Writes writesOf(const AgentRules& rules) {
  constexpr std::string_view kEverywhere[] = {"write", "create", "delete", "write_non_config",
                                              "delete_non_system"};
  const bool revoked = std::ranges::all_of(kFileChanges, [&](const FileChange& change) {
    return rules.revoked.contains(change.operation);
  });
  const std::vector<std::string>& operations = rules.level.file_operations;
  const auto level = [&](std::string_view operation) { return has(operations, operation); };
  if (revoked) return Walls::Writes::kNone;
  if (std::ranges::any_of(kEverywhere, level)) return Walls::Writes::kAll;
  return level("write_temp") ? Walls::Writes::kTemporary : Walls::Writes::kNone;
}

Result<HeldRules> wallsOf(const AgentRules& rules, int64_t now) {
  HeldRules held = Builder(rules, now).build();
  held.network = networkOf(rules, now);
  if (tooLarge(held.walls)) {
    return fail(Code::kInvalid, "the rules of agent " + rules.agent +
                                    " name more paths and programs than a permit can carry; "
                                    "name fewer, with a * where they are alike");
  }
  return held;
}

}  // namespace cloister::policy
