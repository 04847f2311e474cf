// SPDX-License-Identifier: Apache-2.0
#include "orchestrator/governance/replay.h"

#include <algorithm>
#include <functional>
#include <utility>
#include <vector>

namespace cloister::orchestrator {
namespace {

namespace json = base::json;

json::object withoutReason(json::object decision) {
  decision.erase("reason");
  return decision;
}

}  // namespace

std::optional<policy::Supposed> supposedFrom(const std::string& request_json,
                                             model::Principal principal, bool in_session,
                                             const policy::ReaderParts& parts) {
  const auto value = base::parseJson(request_json, {.max_bytes = size_t{256} << 20});
  if (!value || !value->is_object()) return std::nullopt;
  base::ObjectReader reader(value->get_object(), "");
  model::RunRequest request;
  // A session's program has further members, which do not concern policy.
  model::RequestBounds bounds = parts.bounds;
  bounds.own_metadata = true;
  if (!model::readRunRequest(reader, bounds, request)) return std::nullopt;
  auto made = policy::suppose(std::move(request), std::move(principal), parts);
  made.in_session = in_session;
  if (made.in_session) made.operation = "exec";
  return made;
}

void ReplayGroups::add(const json::object& before, const json::object& after,
                       const std::string& execution) {
  const json::object from = withoutReason(before);
  const json::object to = withoutReason(after);
  Group& group = groups_[base::toJson(to) + base::toJson(from)];
  if (++group.count == 1) {
    group.shown = {{"rule", to.at("rule")},
                   {"from", from},
                   {"to", to},
                   {"decision_changes", from.at("decision") != to.at("decision")},
                   {"reason", after.at("reason")}};
  }
  if (group.examples.size() < examples_) group.examples.push_back(json::string(execution));
}

json::array ReplayGroups::take() {
  std::vector<Group> sorted;
  for (auto& [key, group] : groups_)
    sorted.push_back(std::move(group));
  std::ranges::sort(sorted, std::ranges::greater(), &Group::count);
  json::array all;
  for (Group& group : sorted) {
    group.shown["count"] = group.count;
    group.shown["examples"] = std::move(group.examples);
    all.push_back(std::move(group.shown));
  }
  return all;
}

}  // namespace cloister::orchestrator
