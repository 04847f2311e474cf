// SPDX-License-Identifier: Apache-2.0
// A client's wish for a network, cut to what policy grants. Policy decides as for a run with this
// network (RunService::plan); nothing is recorded.
#pragma once

#include <string>
#include <vector>

#include "api/compat/opensandbox/lifecycle_json.h"
#include "api/http/http.h"
#include "api/rest/rest.h"
#include "model/network.h"
#include "model/principal.h"

namespace cloister::api::compat::opensandbox {

struct CutRule {
  std::string target;  // "*": every name
  std::string reason;  // a sentence of policy's
};

struct GrantedNetwork {
  model::NetworkRequest network;  // policy grants all of it
  std::vector<CutRule> cut;
};

// An absent policy of a client wishes for every name. kUnavailable without a node.
Task<Result<GrantedNetwork>> grantedPart(RestParts& parts, model::Principal principal,
                                         EgressPolicy wish);

base::json::array toJsonArray(const std::vector<CutRule>& cut);

// The names that a network reaches: {"*"} for every public name.
Task<std::vector<std::string>> reachedNames(RestParts& parts, model::Principal principal,
                                            model::NetworkRequest network);

}  // namespace cloister::api::compat::opensandbox
