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

// An object, from an answer that is one.
Result<json::object> parseObject(std::string_view body);

// One exchange. `body` is sent with POST and PUT.
Result<json::object> call(net::BlockingClient& client, std::string_view method,
                          const std::string& target, const json::object& body = {});

// A member as text, "" when it is absent, null or no string. Numbers and booleans are written out.
std::string textOf(const json::object& object, std::string_view name);
int64_t integerOf(const json::object& object, std::string_view name);  // 0 when absent
bool boolOf(const json::object& object, std::string_view name);
// A member as object or array; empty when it is none.
const json::object& objectOf(const json::object& object, std::string_view name);
const json::array& arrayOf(const json::object& object, std::string_view name);

// The newest items of the list `member` at `target`, over all of its pages: as many as --limit
// says, 20 without it.
Result<json::array> newest(net::BlockingClient& client, std::string target, std::string_view member,
                           const base::Flags& flags);

}  // namespace cloister::cli
