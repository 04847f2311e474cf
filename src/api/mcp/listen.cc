// SPDX-License-Identifier: Apache-2.0
// subscriptions/listen: a request that stays open and reports changes.
#include "api/mcp/server.h"

namespace cloister::api::mcp {
namespace {

constexpr size_t kMaxListeners = 1024;
constexpr Millis kLook{60'000};

// The part of `wanted` that the server reports: only extras ever change.
json::object honoured(const Server& server, const json::object& wanted) {
  json::object kept;
  if (!server.extras().changes) return kept;
  for (const std::string_view name :
       {"toolsListChanged", "promptsListChanged", "resourcesListChanged"}) {
    const json::value* asked = wanted.if_contains(name);
    if (asked != nullptr && asked->is_bool() && asked->get_bool()) kept[name] = true;
  }
  const json::value* uris = wanted.if_contains("resourceSubscriptions");
  if (uris != nullptr && uris->is_array()) kept["resourceSubscriptions"] = *uris;
  return kept;
}

}  // namespace

Task<Reply> listen(Server& server, Call& call, const json::object& params) {
  const json::value* wanted = params.if_contains("notifications");
  if (wanted == nullptr || !wanted->is_object()) {
    co_return rpcError(code::kInvalidParams, "notifications: must be given as an object");
  }
  std::list<Listener>& all = server.listeners();
  if (all.size() >= kMaxListeners) {
    co_return rpcError(code::kInternal, "too many clients listen; retry later", 503);
  }
  json::object kept = honoured(server, wanted->get_object());
  json::object about{{meta::kSubscription, call.id}};
  call.exchange->say(notification("notifications/subscriptions/acknowledged",
                                  {{"_meta", about}, {"notifications", kept}}));
  const auto place = all.insert(all.end(), {call.exchange, call.id, std::move(kept)});
  while (!call.exchange->cancelled() && !server.stopping())
    co_await call.exchange->changed(base::monotonicNow() + kLook);
  all.erase(place);
  co_return json::object{{"_meta", std::move(about)}};
}

}  // namespace cloister::api::mcp
