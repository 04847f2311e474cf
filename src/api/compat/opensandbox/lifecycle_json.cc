// SPDX-License-Identifier: Apache-2.0
#include "api/compat/opensandbox/lifecycle_json.h"

#include <algorithm>
#include <utility>

#include "api/http/http.h"
#include "base/clock.h"

namespace cloister::api::compat::opensandbox {
namespace {

namespace json = base::json;

std::unexpected<Error> invalid(const std::string& field, const std::string& why) {
  return fail(Code::kInvalid, field + ": " + why, field);
}

json::value parsedOr(const model::Session& session, std::string_view name, json::value otherwise) {
  const json::value* value = session.metadata.if_contains(name);
  const json::string* text = value == nullptr ? nullptr : value->if_string();
  if (text == nullptr) return otherwise;
  auto parsed = base::parseJson(*text);
  return parsed ? *std::move(parsed) : std::move(otherwise);
}

std::string textOf(const model::Session& session, std::string_view name) {
  const json::value* value = session.metadata.if_contains(name);
  const json::string* text = value == nullptr ? nullptr : value->if_string();
  return text == nullptr ? std::string() : std::string(*text);
}

json::object statusOf(const model::Session& session, int64_t paused_at) {
  json::object status{{"state", stateOf(session, paused_at)}};
  const int64_t since = session.ended_at != 0 ? session.ended_at
                        : paused_at != 0      ? paused_at
                                              : session.created_at;
  status["lastTransitionAt"] = base::formatTime(since);
  const std::string cut = textOf(session, kCut);
  const std::optional<model::RunError>& why = session.end ? session.end : session.error;
  if (why) {
    status["reason"] = why->type;
    status["message"] = why->message;
  } else if (!cut.empty()) {
    status["reason"] = "REQUEST_CUT";
    status["message"] = cut;
  }
  return status;
}

}  // namespace

json::object toJsonObject(const EgressPolicy& policy) {
  json::array rules;
  for (const EgressRule& rule : policy.rules)
    rules.push_back({{"action", rule.allow ? "allow" : "deny"}, {"target", rule.target}});
  return {{"defaultAction", policy.allow_by_default ? "allow" : "deny"},
          {"egress", std::move(rules)}};
}

json::object clientMetadata(const model::Session& session) {
  json::object metadata;
  for (const auto& [name, value] : session.metadata) {
    if (!std::string_view(name).starts_with(kReserved)) metadata[name] = value;
  }
  return metadata;
}

Result<json::object> patchedMetadata(const model::Session& session, const json::object& patch) {
  json::object metadata = session.metadata;
  for (const auto& [name, value] : patch) {
    const std::string field = "metadata." + std::string(name);
    if (std::string_view(name).starts_with(kReserved)) {
      return invalid(field, "names that begin with opensandbox.io/ are reserved");
    }
    if (!value.is_null() && !value.is_string()) return invalid(field, "must be a string or null");
    if (value.is_null()) {
      metadata.erase(name);
    } else {
      metadata[name] = value;
    }
  }
  return metadata;
}

std::string_view stateOf(const model::Session& session, int64_t paused_at) {
  switch (session.status) {
    case model::SessionStatus::kCreating:
    case model::SessionStatus::kBlocked:
      return "Pending";
    case model::SessionStatus::kRunning:
    case model::SessionStatus::kPaused:
      return paused_at != 0 ? "Paused" : "Running";
    case model::SessionStatus::kEnded:
      break;
  }
  namespace type = model::error_type;
  const std::string why = session.end ? session.end->type : "";
  return why == type::kCancelled || why == type::kTimeout ? "Terminated" : "Failed";
}

json::object createdObject(const model::Session& session, int64_t paused_at) {
  json::object object{{"id", session.id},
                      {"status", statusOf(session, paused_at)},
                      {"metadata", clientMetadata(session)},
                      {"createdAt", base::formatTime(session.created_at)},
                      {"entrypoint", parsedOr(session, kEntrypoint, json::array())}};
  if (session.expires_at != 0) object["expiresAt"] = base::formatTime(session.expires_at);
  if (session.metadata.contains(kPlatform)) {
    object["platform"] = parsedOr(session, kPlatform, nullptr);
  }
  return object;
}

json::object sandboxObject(const model::Session& session, int64_t paused_at) {
  json::object object = createdObject(session, paused_at);
  if (!session.from_snapshot.empty()) {
    object["snapshotId"] = session.from_snapshot;
    return object;
  }
  const std::string asked = textOf(session, kImage);
  const std::string& own = session.provenance.image;
  const std::string shown = !asked.empty() ? asked : own;
  object["image"] = json::object{{"uri", shown.empty() ? "host" : shown}};
  return object;
}

json::object snapshotObject(const model::Snapshot& snapshot) {
  const std::string made = base::formatTime(snapshot.created_at);
  json::object object{{"id", snapshot.id},
                      {"sandboxId", snapshot.session_id},
                      {"status", {{"state", "Ready"}, {"lastTransitionAt", made}}},
                      {"createdAt", made}};
  if (!snapshot.name.empty()) object["name"] = snapshot.name;
  return object;
}

json::object pageOf(std::vector<json::object> all, const PageRequest& wanted) {
  const uint64_t total = all.size();
  const uint64_t pages = (total + wanted.size - 1) / wanted.size;
  json::array items;
  const uint64_t first =
      wanted.page - 1 > total / wanted.size ? total : (wanted.page - 1) * wanted.size;
  for (uint64_t at = first; at < std::min(total, first + wanted.size); ++at)
    items.push_back(std::move(all[at]));
  return {{"items", std::move(items)},
          {"pagination",
           {{"page", wanted.page},
            {"pageSize", wanted.size},
            {"totalItems", total},
            {"totalPages", pages},
            {"hasNextPage", wanted.page < pages}}}};
}

Result<std::map<std::string, std::string>> parseMetadataFilter(const std::string& text) {
  std::map<std::string, std::string> filter;
  std::string* last = nullptr;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('&', at), text.size());
    const std::string pair = text.substr(at, end - at);
    at = end + 1;
    const size_t equals = pair.find('=');
    if (equals != std::string::npos && equals > 0) {
      last = &(filter[pair.substr(0, equals)] = pair.substr(equals + 1));
    } else if (last != nullptr) {
      *last += "&" + pair;  // clients do not escape a value's own "&"
    } else if (!pair.empty()) {
      return fail(Code::kInvalid, "query parameter metadata: must be name=value pairs, joined by &",
                  "query.metadata");
    }
  }
  return filter;
}

bool matches(const model::Session& session, const std::map<std::string, std::string>& filter) {
  const json::object metadata = clientMetadata(session);
  return std::ranges::all_of(filter, [&](const auto& pair) {
    const json::value* value = metadata.if_contains(pair.first);
    const json::string* text = value == nullptr ? nullptr : value->if_string();
    return text != nullptr && std::string_view(*text) == pair.second;
  });
}

}  // namespace cloister::api::compat::opensandbox
