// SPDX-License-Identifier: Apache-2.0
// The Connect protocol (connectrpc.com/docs/protocol) with its JSON codec: unary calls, and streams
// of the server's messages. A message of a stream is an envelope: u8 flags, u32 length, JSON.
#pragma once

#include <string>
#include <string_view>

#include "api/http/http.h"
#include "base/json.h"
#include "base/result.h"

namespace cloister::api::compat::e2b {

inline constexpr std::string_view kConnectStream = "application/connect+json";

// Whether the request is a call of a procedure: /e2b/<package>.<Service>/<Method>.
bool isConnect(const Request& request);

// The error's name in the protocol, such as "not_found".
std::string_view connectCode(Code code);

// Gives the answer to Response::failure the protocol's form. An error of a stream is an envelope:
// clients do not read the body of another status.
void refuseConnect(const Request& request, Response& response);

std::string envelope(const base::json::value& message);
// The last envelope of every stream; `error`: the reason of its failure, or null.
std::string endOfStream(const Error* error = nullptr);
// The same with an error's name in the protocol.
std::string endOfStream(std::string_view code, std::string_view message);

// The only message of a request: the body itself, or the content of its envelope.
Result<std::string_view> onlyMessage(const Request& request);

}  // namespace cloister::api::compat::e2b
