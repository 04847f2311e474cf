// SPDX-License-Identifier: Apache-2.0
#include "policy/agent/file_grant.h"

#include <algorithm>

#include "base/glob.h"
#include "model/escalation.h"
#include "policy/agent/operation.h"
#include "policy/agent/walls.h"

namespace cloister::policy {
namespace {

using base::globMatches;
using model::Walls;

constexpr char kInstead[] = "name one file, or one directory with / at its end";

struct Named {
  std::string path;  // "" is the root
  bool beneath = false;
};

Named namedBy(const std::string& pattern) {
  if (!pattern.ends_with("/*")) return {pattern, false};
  return {pattern.substr(0, pattern.size() - 2), true};
}

std::unexpected<Error> opensNothing(const std::string& why, const std::string& instead) {
  return fail(Code::kInvalid, "path: an approval would open nothing: " + why + "; " + instead,
              "path");
}

bool isPlace(const std::string& path) {
  return path == "/" ||
         std::ranges::find(model::kWritablePlaces, path) != std::end(model::kWritablePlaces);
}

// Programs may remove files there already.
bool letsDelete(const AgentRules& rules, const std::string& path) {
  const Walls::Writes writes = writesOf(rules);
  return writes == Walls::Writes::kAll ||
         (writes == Walls::Writes::kTemporary && !path.starts_with("/workspace/") &&
          !path.starts_with(std::string(model::kHome) + "/"));
}

const PathRule* readForbiddenForGood(const AgentRules& rules, const Named& named) {
  const auto found = std::ranges::find_if(rules.level.forbidden_paths, [&](const PathRule& rule) {
    if (rule.escalation || !rule.reads) return false;
    return globMatches(rule.path, named.path) ||
           (named.beneath && globMatches(rule.path, named.path + "/"));
  });
  return found == rules.level.forbidden_paths.end() ? nullptr : &*found;
}

}  // namespace

Result<std::string> grantPattern(std::string_view path) {
  std::string_view rest = path;
  const bool all = rest == "*" || rest.ends_with("/*");
  if (all) rest.remove_suffix(1);
  if (rest.contains('*')) {
    return opensNothing("\"" + model::shownText(path) + "\" is neither a path nor DIRECTORY/*",
                        kInstead);
  }
  const std::string_view last = rest.substr(rest.rfind('/') + 1);
  const std::string plain = absolutePath(rest);
  const bool directory = all || last.empty() || last == "." || last == ".." || isPlace(plain);
  std::string pattern = directory ? (plain == "/" ? plain : plain + "/") + "*" : plain;
  if (pattern.size() <= Walls::kMaxText) return pattern;
  return opensNothing("it is longer than " + std::to_string(Walls::kMaxText) + " bytes", kInstead);
}

bool canChange(const std::string& pattern) {
  const Named named = namedBy(pattern);
  return !changeablePlaces(named.path, named.beneath).empty();
}

Result<> opensAtAll(std::string_view operation, const std::string& pattern) {
  if (operation == model::operation::kFileRead || canChange(pattern)) return {};
  return opensNothing("no sandbox can change " + model::shownText(pattern),
                      std::string(kInstead) + ", under /workspace, /home/user, /tmp or /dev/shm");
}

Result<> opensFor(const AgentRules& rules, std::string_view operation, const std::string& pattern) {
  const Named named = namedBy(pattern);
  const bool reads = operation == model::operation::kFileRead;
  if (!reads && rules.revoked.contains(operation)) {
    return opensNothing(std::string(operation) + " was revoked for agent " + rules.agent,
                        "have it granted (cloister agent grant)");
  }
  TRY(opensAtAll(operation, pattern));
  const std::vector<std::string> places = changeablePlaces(named.path, named.beneath);
  const bool served = std::ranges::any_of(model::kFileRoots, [&](const model::FileRoot& root) {
    return named.path.starts_with(std::string(root.path) + "/");
  });
  if (isForRequestsAlone(rules, operation, pattern) && !served) {
    return opensNothing("the kernel lets a program remove all files of a directory or none",
                        "name the directory, with / at its end");
  }
  const PathRule* rule = reads ? readForbiddenForGood(rules, named) : nullptr;
  for (const std::string& place : places) {
    if (reads || rule != nullptr) break;
    rule = changeForbidden(rules, place, named.beneath, Forbids::kForGood);
  }
  if (rule == nullptr) return {};
  return opensNothing("nobody may allow what rule " + rule->path + " forbids there",
                      "name what the rule does not name");
}

bool isForRequestsAlone(const AgentRules& rules, std::string_view operation,
                        const std::string& pattern) {
  const Named named = namedBy(pattern);
  return operation == model::operation::kFileDelete && !named.beneath &&
         !letsDelete(rules, named.path);
}

std::string openedBy(const AgentRules* rules, std::string_view operation,
                     const std::string& pattern) {
  constexpr size_t kMostShown = 1024;
  const Named named = namedBy(pattern);
  const std::string path = model::safeText(named.path.empty() ? "/" : named.path, kMostShown);
  std::string text = named.beneath ? "it opens the directory " + path + " and all beneath it, to "
                                   : "it opens the file " + path + ", to ";
  if (operation == model::operation::kFileRead) return text + "read";
  if (operation == model::operation::kFileWrite) return text + "change and to make";
  text += "remove";
  const bool alone = rules != nullptr && isForRequestsAlone(*rules, operation, pattern);
  return alone ? text + ", " + std::string(kForRequestsAlone) : text;
}

std::vector<std::string> changeablePlaces(const std::string& path, bool beneath) {
  std::vector<std::string> places;
  for (const std::string_view place : model::kWritablePlaces) {
    const bool within = path.starts_with(std::string(place) + "/") || (beneath && path == place);
    if (within) places.push_back(path);
    if (beneath && place.starts_with(path + "/")) places.emplace_back(place);
  }
  return places;
}

const PathRule* changeForbidden(const AgentRules& rules, const std::string& path, bool beneath,
                                Forbids which) {
  const auto found = std::ranges::find_if(rules.level.forbidden_paths, [&](const PathRule& rule) {
    if (rule.escalation && which == Forbids::kForGood) return false;
    const std::string fixed = rule.path.substr(0, rule.path.find('*'));
    const std::string inside = path + "/";
    return globMatches(rule.path, path) ||
           (beneath && (fixed.starts_with(inside) || inside.starts_with(fixed)));
  });
  return found == rules.level.forbidden_paths.end() ? nullptr : &*found;
}

}  // namespace cloister::policy
