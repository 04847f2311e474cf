// SPDX-License-Identifier: Apache-2.0
#include "api/mcp/server.h"

#include <algorithm>
#include <utility>

#include "base/log.h"

namespace cloister::api::mcp {
namespace {

constexpr uint8_t kBoth = static_cast<uint8_t>(Era::kLegacy) | static_cast<uint8_t>(Era::kModern);
constexpr auto kModernOnly = static_cast<uint8_t>(Era::kModern);
constexpr auto kLegacyOnly = static_cast<uint8_t>(Era::kLegacy);

struct Method {
  std::string_view name;
  uint8_t eras;
  Task<Reply> (*handle)(Server&, Call&, const json::object&);
};

Task<Reply> nothing(Server&, Call&, const json::object&) {
  co_return json::object();
}

Task<Reply> setLevel(Server&, Call& call, const json::object& params) {
  call.session->log_level = textIn(params, "level");
  co_return json::object();
}

constexpr Method kMethods[] = {
    {"tools/call", kBoth, callTool},
    {"tools/list", kBoth, listTools},
    {"resources/list", kBoth, listResources},
    {"resources/templates/list", kBoth, listTemplates},
    {"resources/read", kBoth, readResource},
    {"prompts/list", kBoth, listPrompts},
    {"prompts/get", kBoth, getPrompt},
    {"completion/complete", kBoth, complete},
    {"server/discover", kModernOnly, discover},
    {"subscriptions/listen", kModernOnly, listen},
    {"ping", kLegacyOnly, nothing},
    {"logging/setLevel", kLegacyOnly, setLevel},
    {"resources/subscribe", kLegacyOnly, nothing},
    {"resources/unsubscribe", kLegacyOnly, nothing},
};

// Adapts a result to the call's era.
void adapt(const Call& call, json::object& result) {
  if (!call.modern()) {
    for (const std::string_view name : {"resultType", "ttlMs", "cacheScope"})
      result.erase(name);
    return;
  }
  if (!result.contains("resultType")) result["resultType"] = "complete";
  json::value& about = result["_meta"];
  if (!about.is_object()) about = json::object();
  json::object info = serverInfo();
  info.erase("title");
  about.get_object()[meta::kServerInfo] = std::move(info);
}

Result<json::object> parseDefinitions(std::string_view text) {
  json::value value = TRY(base::parseJson(text));
  const json::object* whole = value.if_object();
  for (const std::string_view name : {"tools", "prompts", "resources", "templates"}) {
    if (whole == nullptr || !whole->contains(name) || !whole->at(name).is_array()) {
      return fail(Code::kInvalid, "spec/mcp.json: no array " + std::string(name));
    }
  }
  return std::move(value.get_object());
}

}  // namespace

void Call::progress(uint64_t progress, std::optional<uint64_t> total,
                    std::string_view message) const {
  if (progress_token.is_null()) return;
  json::object params{{"progressToken", progress_token}, {"progress", progress}};
  if (total) params["total"] = *total;
  if (!message.empty()) params["message"] = message;
  exchange->say(notification("notifications/progress", std::move(params)));
}

Result<std::unique_ptr<Server>> Server::make(boost::asio::any_io_executor executor, RestParts& rest,
                                             std::string_view definitions, Settings settings) {
  json::object parsed = TRY(parseDefinitions(definitions));
  return std::unique_ptr<Server>(
      new Server(std::move(executor), rest, std::move(parsed), settings));
}

Server::Server(boost::asio::any_io_executor executor, RestParts& rest, json::object definitions,
               Settings settings)
    : executor_(std::move(executor)),
      rest_(rest),
      definitions_(std::move(definitions)),
      settings_(settings),
      approvals_(settings.approval_life),
      sessions_(executor_, settings.legacy) {}

void Server::lookAtCredentials() {
  sessions_.endLost(
      [this](const auth::Credential& each) { return rest_.authenticator.stands(each); });
}

void Server::stop() {
  stopping_ = true;
  for (const Listener& listener : listeners_)
    listener.exchange->wake();
  sessions_.endStreams();
}

Task<Reply> Server::dispatch(Call& call, const std::string& method, json::object params) {
  const auto* found = std::ranges::find(kMethods, method, &Method::name);
  const auto era = static_cast<uint8_t>(call.era);
  if (found == std::end(kMethods) || (found->eras & era) == 0) {
    co_return rpcError(code::kMethodNotFound, "no such method: " + method.substr(0, 64), 404);
  }
  std::string what;
  try {
    Reply reply = co_await found->handle(*this, call, params);
    if (reply) adapt(call, *reply);
    co_return reply;
  } catch (const std::exception& e) {  // of a library: nothing of ours throws
    what = e.what();
  }
  base::log(base::Level::kError, "mcp request failed", {{"method", method}, {"error", what}});
  co_return rpcError(code::kInternal, "internal error; the server's log says more", 500);
}

Task<void> Server::work(std::shared_ptr<Call> call, std::string method, json::object params) {
  const Reply reply = co_await dispatch(*call, method, std::move(params));
  if (call->session) {
    call->session->under_way.erase(base::toJson(call->id));
    call->session->used = base::monotonicNow();
  }
  if (reply) {
    call->exchange->answer(resultMessage(call->id, *reply), 200);
  } else {
    // A legacy client takes any other status for a fault of the transport.
    const int status = call->modern() ? reply.error().status : 200;
    call->exchange->answer(errorMessage(call->id, reply.error()), status);
  }
}

json::object capabilitiesOf(const Server& server) {
  json::object all{{"tools", json::object()},
                   {"resources", json::object()},
                   {"prompts", json::object()},
                   {"completions", json::object()}};
  for (const auto& extra : server.extras().capabilities)
    all[extra.key()] = extra.value();
  return all;
}

Task<Reply> discover(Server& server, Call& call, const json::object&) {
  co_return json::object{{"supportedVersions", json::array{kModernVersion}},
                         {"capabilities", capabilitiesOf(server)},
                         {"instructions", server.definitions().at("instructions")},
                         {"ttlMs", 3'600'000},
                         {"cacheScope", "public"}};
}

}  // namespace cloister::api::mcp
