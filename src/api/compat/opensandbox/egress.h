// SPDX-License-Identifier: Apache-2.0
// The egress policy of a sandbox, as its client asked for it and as policy grants it. Both parts
// are kept in the session's metadata.
#pragma once

#include <vector>

#include "api/compat/opensandbox/desk.h"
#include "api/compat/opensandbox/lifecycle_json.h"
#include "api/compat/opensandbox/network_wish.h"

namespace cloister::api::compat::opensandbox {

inline constexpr std::string_view kNetworkCut = "opensandbox.io/network-cut";

// Keeps the wish and what policy did not grant of it.
void noteNetwork(const EgressPolicy& wish, const std::vector<CutRule>& cut,
                 base::json::object& metadata);

// The wish with further rules: an incoming rule replaces the rule of its target, and the first of
// several incoming ones counts.
EgressPolicy merged(EgressPolicy wish, const std::vector<EgressRule>& incoming);

}  // namespace cloister::api::compat::opensandbox
