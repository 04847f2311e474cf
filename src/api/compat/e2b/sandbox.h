// SPDX-License-Identifier: Apache-2.0
// A session as E2B's clients see a sandbox, and requests to one sandbox.
//
// The clients show their API key to the control plane alone. To a sandbox they show the token that
// the control plane gave them: `envdAccessToken`, which is `trafficAccessToken` too. The token
// names the credential that asked for it, and is good for this sandbox and with this credential's
// rights.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "api/compat/compat.h"
#include "model/session.h"

namespace cloister::api::compat::e2b {

// The clients choose features by the version of envd, the program inside E2B's sandboxes.
inline constexpr std::string_view kEnvdVersion = "0.6.4";

// Metadata of sessions that only this interface writes and reads.
inline constexpr std::string_view kTemplateMember = "cloister.e2b.template";
inline constexpr std::string_view kInternetMember = "cloister.e2b.internet";
// "pause": the sandbox pauses when its time is over, instead of its end.
inline constexpr std::string_view kTimeoutMember = "cloister.e2b.on_timeout";
inline constexpr std::string_view kPauses = "pause";
// "true": requests to the paused sandbox resume it.
inline constexpr std::string_view kResumeMember = "cloister.e2b.auto_resume";

// The value of such a member; "" without it.
std::string_view memberOf(const model::Session& session, std::string_view name);

// The sandbox of a request: of E2b-Sandbox-Id, or of a host `<port>-<id>.<domain>`; "": none.
std::string sandboxOf(const Request& request);
// The port of a request, from the same place; 0: none.
uint16_t portOf(const Request& request);

// Whether the route is one of a sandbox, not of the control plane.
bool isToSandbox(const Request& request);

// The token of the session for the requester.
Result<std::string> tokenOf(const RestParts& parts, const model::Session& session,
                            const auth::Credential& credential);
// The identity by a shown token of a sandbox; nullopt: none is shown.
std::optional<Result<auth::Identity>> identityByToken(const RestParts& parts,
                                                      const Request& request);

// The answer to creations and connections.
Result<base::json::object> sandboxObject(const RestParts& parts, const Request& request,
                                         const model::Session& session);
// An item of lists. `end_at`: the end of its time, if other than the session's, in wall-clock
// microseconds.
base::json::object listedObject(const RestParts& parts, const model::Session& session,
                                std::optional<int64_t> end_at);
// The answer about one sandbox.
Result<base::json::object> detailObject(const RestParts& parts, const Request& request,
                                        const model::Session& session,
                                        std::optional<int64_t> end_at);

// 502: the sandbox has ended.
Response goneResponse();

using InSandbox = std::function<Task<Result<Response>>(Request&, const model::Session&)>;
// A handler for requests to a running sandbox. An ended sandbox is answered with 502, also when the
// session ends meanwhile. A paused sandbox is resumed if it was made so, and otherwise answered
// alike.
std::function<Task<Result<Response>>(Request&)> inSandbox(RestParts& parts, InSandbox handle);

}  // namespace cloister::api::compat::e2b
