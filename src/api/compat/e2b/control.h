// SPDX-License-Identifier: Apache-2.0
// E2B's control plane: creating, listing and ending sandboxes, their time, and snapshots.
#pragma once

#include <vector>

#include "api/compat/e2b/desk.h"
#include "api/compat/e2b/sandbox.h"

namespace cloister::api::compat::e2b {

std::vector<Route> controlRoutes(Desk& desk);
// Paths of E2B without a counterpart here: 501 says so.
std::vector<Route> absentRoutes();

// The session for a body of POST /sandboxes. Its network is the part of the wish that policy
// grants.
Task<Result<model::Session>> createSandbox(Desk& desk, Request& request,
                                           const base::json::object& body);

// The part of a network update's wish that policy grants.
Task<Result<model::NetworkRequest>> networkFor(RestParts& parts, const model::Principal& who,
                                               const base::json::object& body);

// A member `name` of the body in whole seconds, at most as long as a session may live; nullopt
// without the member.
Result<std::optional<Millis>> readSeconds(const RestParts& parts, const base::json::object& body,
                                          std::string_view name);

}  // namespace cloister::api::compat::e2b
