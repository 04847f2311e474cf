// SPDX-License-Identifier: Apache-2.0
#include "policy/coverage.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <map>
#include <optional>

#include "base/glob.h"
#include "policy/conditions.h"

namespace cloister::policy {
namespace {

constexpr size_t kMaxPieces = 256;

// Some values of a condition, or all but some. Sorted numbers.
struct Values {
  bool except = true;
  std::vector<size_t> values;
};

std::vector<size_t> both(const std::vector<size_t>& a, const std::vector<size_t>& b) {
  std::vector<size_t> made;
  std::ranges::set_intersection(a, b, std::back_inserter(made));
  return made;
}

std::vector<size_t> without(const std::vector<size_t>& a, const std::vector<size_t>& b) {
  std::vector<size_t> made;
  std::ranges::set_difference(a, b, std::back_inserter(made));
  return made;
}

std::vector<size_t> either(const std::vector<size_t>& a, const std::vector<size_t>& b) {
  std::vector<size_t> made;
  std::ranges::set_union(a, b, std::back_inserter(made));
  return made;
}

Values intersect(const Values& a, const Values& b) {
  if (a.except && b.except) return {true, either(a.values, b.values)};
  if (a.except) return {false, without(b.values, a.values)};
  if (b.except) return {false, without(a.values, b.values)};
  return {false, both(a.values, b.values)};
}

Values minus(const Values& a, const Values& b) {
  return intersect(a, {!b.except, b.values});
}

// A document's conditions as sets: each text named by a rule has a number.
class Space {
 public:
  explicit Space(const Policy& policy);

  using Box = std::vector<Values>;
  // `as_seen_by`: the rule whose box is to be covered; see dependencies().
  [[nodiscard]] Box boxOf(const Rule& rule, const Rule& as_seen_by) const;
  [[nodiscard]] bool isEmpty(const Box& box) const;
  // The parts of `box` outside of `cut`; nullopt if the two do not overlap.
  [[nodiscard]] std::optional<std::vector<Box>> subtract(const Box& box, const Box& cut) const;
  // Combinations of a session and a separate run, which no request has.
  [[nodiscard]] std::vector<Box> impossible() const;
  [[nodiscard]] int highestScore() const { return most_; }

 private:
  struct Dimension {
    std::map<std::string, size_t, std::less<>> numbers;
    std::optional<size_t> size;  // where all values are numbered
  };
  [[nodiscard]] Values listed(size_t dimension, const std::vector<std::string>& list) const;
  [[nodiscard]] Values scores(const std::optional<int>& least) const;

  std::vector<Dimension> lists_;  // as listConditions()
  std::vector<int> thresholds_;   // of the score, ascending; the first is 0
  int most_;
};

// Behind the lists of a box.
enum Other : size_t { kDependencies, kSession, kScore, kOthers };

// A rule that names dependencies matches only some requests with dependencies. Such a rule covers
// all of another rule's requests only if the other rule names no further dependencies.
Values dependencies(const Conditions& match, const Conditions& covered) {
  const auto within = [](const auto& inner, const auto& outer) {
    return !inner.empty() && std::ranges::all_of(inner, [&](const std::string& name) {
      return std::ranges::any_of(
          outer, [&](const std::string& glob) { return base::globMatches(glob, name); });
    });
  };
  if (match.has_dependencies) return {false, {*match.has_dependencies ? 1U : 0U}};
  if (match.any_dependency.empty() && match.only_dependencies.empty()) return {};
  const bool all = &match == &covered || within(covered.any_dependency, match.any_dependency) ||
                   within(covered.only_dependencies, match.only_dependencies) ||
                   within(covered.only_dependencies, match.any_dependency);
  return {false, all ? std::vector<size_t>{1} : std::vector<size_t>{}};
}

Space::Space(const Policy& policy)
    : lists_(listConditions().size()),
      thresholds_{0},
      most_(policy.score ? *policy.score : mostPoints(policy.risk)) {
  for (size_t i = 0; i < lists_.size(); ++i) {
    const ListCondition& condition = listConditions()[i];
    Dimension& dimension = lists_[i];
    const auto add = [&](const std::string& text) {
      dimension.numbers.try_emplace(text, dimension.numbers.size());
    };
    for (const std::string_view value : condition.known)
      add(std::string(value));
    if (!condition.known.empty() && !condition.many) dimension.size = condition.known.size();
    for (const Rule& rule : policy.rules) {
      for (const std::string& text : rule.match.*condition.list) {
        if (!dimension.size || dimension.numbers.contains(text)) add(text);
      }
    }
  }
  for (const Rule& rule : policy.rules) {
    if (rule.match.score_at_least) thresholds_.push_back(*rule.match.score_at_least);
  }
  std::ranges::sort(thresholds_);
  const auto same = std::ranges::unique(thresholds_);
  thresholds_.erase(same.begin(), same.end());
  std::erase_if(thresholds_, [&](int threshold) { return threshold > most_; });
}

Values Space::listed(size_t dimension, const std::vector<std::string>& list) const {
  const bool has_value = !listConditions()[dimension].many;
  const auto all = [](const std::string& glob) {
    return glob.find_first_not_of('*') == std::string::npos;
  };
  if (list.empty() || (has_value && std::ranges::any_of(list, all))) return {};
  Values values{false, {}};
  for (const auto& [text, number] : lists_[dimension].numbers) {
    const auto matches = [&](const std::string& glob) { return base::globMatches(glob, text); };
    if (std::ranges::any_of(list, matches)) values.values.push_back(number);
  }
  std::ranges::sort(values.values);
  return values;
}

Values Space::scores(const std::optional<int>& least) const {
  Values values{false, {}};
  for (size_t i = 0; i < thresholds_.size(); ++i) {
    if (!least || thresholds_[i] >= *least) values.values.push_back(i);
  }
  return values;
}

Space::Box Space::boxOf(const Rule& rule, const Rule& as_seen_by) const {
  Box box;
  for (size_t i = 0; i < lists_.size(); ++i)
    box.push_back(listed(i, rule.match.*listConditions()[i].list));
  box.push_back(dependencies(rule.match, as_seen_by.match));
  const auto& session = rule.match.in_session;
  box.push_back(session ? Values{false, {*session ? 1U : 0U}} : Values{});
  box.push_back(scores(rule.match.score_at_least));
  return box;
}

bool Space::isEmpty(const Box& box) const {
  for (size_t i = 0; i < box.size(); ++i) {
    const Values& values = box[i];
    if (!values.except && values.values.empty()) return true;
    const bool yes_or_no = i == lists_.size() + kDependencies || i == lists_.size() + kSession;
    const auto size = i < lists_.size() ? lists_[i].size
                      : yes_or_no       ? std::optional<size_t>(2)
                                        : std::nullopt;
    if (values.except && size && values.values.size() == *size) return true;
  }
  return false;
}

std::optional<std::vector<Space::Box>> Space::subtract(const Box& box, const Box& cut) const {
  Box common;
  for (size_t i = 0; i < box.size(); ++i)
    common.push_back(intersect(box[i], cut[i]));
  if (isEmpty(common)) return std::nullopt;
  std::vector<Box> rest;
  Box left = box;
  for (size_t i = 0; i < box.size(); ++i) {
    Box piece = left;
    piece[i] = minus(left[i], cut[i]);
    if (!isEmpty(piece)) rest.push_back(std::move(piece));
    left[i] = common[i];
  }
  return rest;
}

std::vector<Space::Box> Space::impossible() const {
  size_t at = 0;
  while (listConditions()[at].list != &Conditions::operations)
    ++at;
  const size_t alone = lists_[at].numbers.find(kOperations[0])->second;  // "run"
  std::vector<Box> boxes;
  for (const bool session : {true, false}) {
    Box box(lists_.size() + kOthers);
    box[at] = {!session, {alone}};
    box[lists_.size() + kSession] = {false, {session ? 1U : 0U}};
    boxes.push_back(std::move(box));
  }
  return boxes;
}

// Removes `cut` from all pieces; returns whether anything was removed.
bool take(const Space& space, const Space::Box& cut, std::vector<Space::Box>& pieces) {
  bool taken = false;
  std::vector<Space::Box> rest;
  for (Space::Box& piece : pieces) {
    auto left = space.subtract(piece, cut);
    taken = taken || left.has_value();
    if (!left) {
      rest.push_back(std::move(piece));
    } else {
      std::ranges::move(*left, std::back_inserter(rest));
    }
  }
  pieces = std::move(rest);
  return taken;
}

std::optional<DeadRule> deathOf(const Space& space, const Policy& policy, size_t index) {
  const Rule& rule = policy.rules[index];
  std::vector<Space::Box> pieces = {space.boxOf(rule, rule)};
  if (space.isEmpty(pieces[0])) {
    return DeadRule{&rule, {}, "no score is more than " + std::to_string(space.highestScore())};
  }
  for (const Space::Box& cut : space.impossible())
    take(space, cut, pieces);
  if (pieces.empty()) {
    return DeadRule{&rule, {}, "no request has both its `session` and its `operations`"};
  }
  DeadRule dead{.rule = &rule, .covered_by = {}, .why = ""};
  for (size_t i = 0; i < index && pieces.size() <= kMaxPieces; ++i) {
    if (take(space, space.boxOf(policy.rules[i], rule), pieces)) {
      dead.covered_by.push_back(&policy.rules[i]);
    }
    if (pieces.empty()) return dead;
  }
  return std::nullopt;
}

}  // namespace

std::vector<DeadRule> deadRules(const Policy& policy) {
  const Space space(policy);
  std::vector<DeadRule> dead;
  for (size_t i = 0; i < policy.rules.size(); ++i) {
    if (auto death = deathOf(space, policy, i)) dead.push_back(*std::move(death));
  }
  return dead;
}

}  // namespace cloister::policy
