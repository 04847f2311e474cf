// SPDX-License-Identifier: Apache-2.0
// ToolRules: the rules of a tool registry's entry for every call of its tool, with any arguments.
// Pure.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "model/limits.h"
#include "model/run_request.h"

namespace cloister::model {

struct ToolRules {
  std::vector<std::string> capabilities;  // needed capabilities of kCapabilities; never empty
  NetworkRequest network;
  Limits most;  // only members of `bounded` count
  LimitSet bounded;
  std::string risk;  // low, medium or high
  std::string tier;  // the lowest permitted tier of a call, by its risk
};

// The lowest tier of each risk. `tiers` of a registry changes the defaults.
using RiskTiers = std::map<std::string, std::string, std::less<>>;
Result<RiskTiers> readRiskTiers(base::ObjectReader& reader);

// The members `capabilities`, `network` (a tier, or an object as `network_policy` of requests),
// `limits` and `risk` of an entry. Errors name the member.
Result<ToolRules> readToolRules(base::ObjectReader& reader, const RiskTiers& tiers);

// The sandbox of a call's request.
enum class ToolPlace : uint8_t { kOwnSandbox, kFresh, kSession };

// Applies the rules of tool `id` to a call's request. An unnamed limit becomes the smaller of both;
// a named limit above the tool's is kInvalid, with the limit's name as `field`. Tier and network
// become the tool's. In a session only the limits of a single program count, in a fresh sandbox
// there also the limits of fresh sandboxes (RunRequest::fresh), and the session's network must be
// the tool's: the tier, and the entries of a tool that names entries. Policy is applied afterwards.
Result<> holdToRules(const std::string& id, const ToolRules& rules, ToolPlace place,
                     RunRequest& request);

// The capabilities needed by a request: those of its tool, or of its own operations.
std::vector<std::string> capabilitiesNeeded(const RunRequest& request);

// The form in GET /v1/capabilities.
base::json::object toJsonObject(const ToolRules& rules);

}  // namespace cloister::model
