// SPDX-License-Identifier: Apache-2.0
// Recorded requests, decided again under other rules: shared by the questions about policies and
// about agents. Pure.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "base/json.h"
#include "policy/explain.h"

namespace cloister::orchestrator {

// A supposed run, made of a recorded request; nothing if the request is no longer readable.
std::optional<policy::Supposed> supposedFrom(const std::string& request_json,
                                             model::Principal principal, bool in_session,
                                             const policy::ReaderParts& parts);

// Changes of the same kind: the same rule decides now, and the decisions before and after are the
// same.
class ReplayGroups {
 public:
  explicit ReplayGroups(size_t examples) : examples_(examples) {}
  // Decisions have `decision`, `rule` and `reason`; groups ignore the reason.
  void add(const base::json::object& before, const base::json::object& after,
           const std::string& execution);
  // The largest first.
  base::json::array take();

 private:
  struct Group {
    int64_t count = 0;
    base::json::object shown;
    base::json::array examples;
  };
  size_t examples_;
  std::map<std::string, Group> groups_;
};

}  // namespace cloister::orchestrator
