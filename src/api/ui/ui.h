// SPDX-License-Identifier: Apache-2.0
// The web interface below /ui/: its files, and the sign-in of people. What the interface shows
// comes from the REST API, with the session's cookie as the credential (api/http/cookies.h).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "api/rest/rest.h"
#include "api/ui/files.h"
#include "base/clock.h"

namespace cloister::api::ui {

struct UiParts {
  RestParts& rest;
  const Files& files;
  // Recorded refusals of sign-ins in the present minute, and refusals since then without a record.
  base::Monotonic minute = {};
  uint32_t refusals = 0;
  uint64_t unrecorded = 0;
};

// Every route. `parts` outlives the routes.
std::vector<Route> uiRoutes(UiParts& parts);

// By resource.
std::vector<Route> sessionRoutes(UiParts& parts);
std::vector<Route> loginRoutes(UiParts& parts);
std::vector<Route> fileRoutes(UiParts& parts);

// The headers of every answer below /ui/.
void addHeaders(const UiParts& parts, const Request& request, Response& response);
// `handle` with these headers on its answers and refusals.
std::function<Task<Result<Response>>(Request&)> guarded(
    const UiParts& parts, std::function<Task<Result<Response>>(Request&)> handle);

// Removes a session, with its audit row, and ends its streams.
Task<Result<>> endSession(UiParts& parts, const Request& request, store::UiSession session,
                          std::string_view why);
// Stores a new session, ends the session of an older cookie, and gives the browser the new cookie.
Task<Result<>> beginSession(UiParts& parts, Request& request, auth::NewWebSession made,
                            const std::string& by, Response& response);
// Records a refused sign-in, unless too many were recorded of late.
Task<void> noteRefusal(UiParts& parts, const Request& request, const std::string& by,
                       const std::string& why);
// kDenied where a cookie would not stay secret.
Result<> checkSafeWay(const Request& request);

}  // namespace cloister::api::ui
