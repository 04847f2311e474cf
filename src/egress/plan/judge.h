// SPDX-License-Identifier: Apache-2.0
// The evaluator of network plans, the only one: cloister-egress judges with it, and `egress
// explain` answers with it. Pure; no I/O; thread-safe. The first matching rule decides, and silence
// denies.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "model/network.h"

namespace cloister::egress {

// An attempt to reach something, as far as it is known: a look-up knows the name alone, a
// connection also its port and then its protocol, an HTTP request all members.
struct Attempt {
  std::string_view host;  // of model::hostName(), or the text of an address
  uint16_t port = 0;      // 0: a look-up
  std::optional<model::Protocol> protocol = {};
  std::optional<std::string_view> method = {};
  std::optional<std::string_view> path = {};  // without the query
  // Further methods and paths, from header fields: servers may take them instead. A rule has to
  // allow all.
  std::span<const std::string> field_methods = {};
  std::span<const std::string> field_paths = {};
  std::string_view record_type = "A";  // of a look-up
};

struct Verdict {
  bool allowed = false;
  // In the plan: the rule that allows, or the rule that refuses because it covers the name but not
  // the port, the protocol or the request; null: no rule covers the name.
  const model::PlanRule* rule = nullptr;
  std::string reason;  // of a refusal: a sentence
  std::string remedy;  // of a refusal: a sentence
  model::OnDenied on_denied = model::OnDenied::kDeny;
};

// The rule under which a sandbox reaches the package gateway. Not of any plan; lives for ever.
const model::PlanRule& gatewayRule(model::Ecosystem ecosystem);

// A look-up is allowed if any port of the name is. A connection whose protocol or request is not
// yet known is allowed if a rule could allow it.
Verdict judge(const model::NetworkPlan& plan, const Attempt& attempt);

// As cloister-egress judges an attempt whose protocol is known, from its first packet on: the first
// rule for the name and port fixes the protocol of the connection, before a byte of it is seen.
Verdict judgeConnection(const model::NetworkPlan& plan, const Attempt& attempt);

// The ports of all rules of the plan, sorted; empty for every port (a rule with `anyone` and
// without ports), and for a plan without rules, which allows nothing on any of them.
std::vector<uint16_t> portsOf(const model::NetworkPlan& plan);

}  // namespace cloister::egress
