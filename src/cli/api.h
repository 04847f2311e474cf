// SPDX-License-Identifier: Apache-2.0
// The public HTTP API for commands: JSON in, JSON out. A refusal becomes an error with its cause
// and a remedy.
#pragma once

#include <string>
#include <string_view>

#include "base/flags.h"
#include "base/json.h"
#include "base/result.h"
#include "cli/server.h"
#include "net/blocking_client.h"

namespace cloister::cli {

namespace json = base::json;

// The error of an answer outside 2xx: a problem document (RFC 9457) or whatever came.
Error refusal(const net::HttpHead& head, std::string_view body);

// A message of the server in the words of the command line: flags for members of requests, commands
// for routes.
std::string inOurWords(std::string message);

// The object of an answer; kUnavailable for any other answer.
Result<json::object> parseObject(std::string_view body);

// A JSON object from the user; kInvalid names `what`: a flag or a file.
Result<json::object> readObject(std::string_view text, std::string_view what,
                                size_t max_bytes = size_t{16} << 20);

// A request and its answer. `body` is sent with POST and PUT.
Result<json::object> call(net::BlockingClient& client, std::string_view method,
                          const std::string& target, const json::object& body = {});

// A member as text; "" if absent, null or no string. Numbers and booleans are converted to text.
std::string textOf(const json::object& object, std::string_view name);
int64_t integerOf(const json::object& object, std::string_view name);  // 0 when absent
bool boolOf(const json::object& object, std::string_view name);
// A member as object or array; empty for another type.
const json::object& objectOf(const json::object& object, std::string_view name);
const json::array& arrayOf(const json::object& object, std::string_view name);

// The newest items of the list `member` at `target`, over all pages: at most --limit, by default
// 20.
Result<json::array> newest(net::BlockingClient& client, std::string target, std::string_view member,
                           const base::Flags& flags);

}  // namespace cloister::cli
