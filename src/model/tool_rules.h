// SPDX-License-Identifier: Apache-2.0
// ToolRules: what an entry of the tool registry decides of every call of its tool, whatever the
// arguments say. Pure.
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
  std::vector<std::string> capabilities;  // that it needs, of kCapabilities; never empty
  std::string network = "none";           // its tier, of kNetworkTiers
  Limits most;                            // only those of `bounded` count
  LimitSet bounded;
  std::string risk;  // low, medium or high
  std::string tier;  // the lowest that a call may have, by its risk
};

// The lowest tier of each risk. `tiers` of a registry changes them.
using RiskTiers = std::map<std::string, std::string, std::less<>>;
Result<RiskTiers> readRiskTiers(base::ObjectReader& reader);

// The members `capabilities`, `network`, `limits` and `risk` of an entry. Errors name the member.
Result<ToolRules> readToolRules(base::ObjectReader& reader, const RiskTiers& tiers);

// Where the request of a call runs.
enum class ToolPlace : uint8_t { kOwnSandbox, kFresh, kSession };

// Makes the rules hold for the request that a call of the tool `id` became: a limit that it does
// not name becomes the smaller of the two, one that is over the tool's is kInvalid, with the
// limit's name as `field`. Its tier and network become the tool's. In a session only the limits of
// one program count, in a fresh sandbox there those that this can have (RunRequest::fresh) as well,
// and the session's network must be the tool's. Policy comes after.
Result<> holdToRules(const std::string& id, const ToolRules& rules, ToolPlace place,
                     RunRequest& request);

// The capabilities that a request needs: those of the tool that it is a call of, or what it does.
std::vector<std::string> capabilitiesNeeded(const RunRequest& request);

// What GET /v1/capabilities shows of them.
base::json::object toJsonObject(const ToolRules& rules);

}  // namespace cloister::model
