// SPDX-License-Identifier: Apache-2.0
#include "store/records/session_record.h"

#include "base/json.h"
#include "store/records/clean.h"
#include "store/records/members.h"

namespace cloister::store {
namespace {

json::object encode(const std::map<std::string, std::string>& map) {
  json::object object;
  for (const auto& [name, value] : map)
    object[name] = value;
  return object;
}

void decode(Members& from, std::string_view name, std::map<std::string, std::string>& map) {
  for (const auto& member : from.object(name)) {
    if (!member.value().is_string()) return from.refuse();
    map.emplace(member.key(), member.value().get_string());
  }
}

void decode(Members& from, std::string_view name, std::vector<std::string>& texts) {
  for (const json::value& text : from.array(name)) {
    if (!text.is_string()) return from.refuse();
    texts.emplace_back(text.get_string());
  }
}

void decode(Members from, SessionRecord& record) {
  model::Session& s = record.session;
  record.request_sha256 = from.text("request_sha256");
  if (!from.isNull("request")) record.request = from.text("request");
  s.id = from.text("id");
  const auto status = model::sessionStatusFromName(from.text("status"));
  if (!status) return from.refuse();
  s.status = *status;
  decode(from.in("principal"), s.principal);
  s.language = from.text("language");
  decode(from, "env", s.env);
  s.cwd = from.text("cwd");
  if (!from.isNull("nested")) s.nested = from.boolean("nested");
  if (!from.isNull("from_snapshot")) s.from_snapshot = from.text("from_snapshot");
  s.metadata = from.object("metadata");
  if (!from.isNull("capabilities")) decode(from, "capabilities", s.capabilities);
  s.network_tier = from.text("network_tier");
  decode(from.in("limits"), s.limits);
  s.ttl = millis(from, "ttl_ms");
  s.idle_ttl = millis(from, "idle_ttl_ms");
  decode(from.in("provenance"), s.provenance);
  if (!from.isNull("usage")) decode(from.in("usage"), s.usage);
  if (!from.isNull("error")) decode(from.in("error"), s.error.emplace());
  if (!from.isNull("end")) decode(from.in("end"), s.end.emplace());
  from.integer("created_at", s.created_at);
  from.integer("last_used_at", s.last_used_at);
  from.integer("expires_at", s.expires_at);
  from.integer("ended_at", s.ended_at);
}

}  // namespace

std::string encodeSession(const SessionRecord& record) {
  const model::Session& s = record.session;
  json::object out = {{"id", s.id},
                      {"status", model::statusName(s.status)},
                      {"principal", encode(s.principal)},
                      {"request_sha256", record.request_sha256},
                      {"language", s.language},
                      {"env", encode(s.env)},
                      {"cwd", s.cwd},
                      {"metadata", cleanObject(s.metadata)},
                      {"network_tier", s.network_tier},
                      {"limits", toJsonObject(s.limits)},
                      {"ttl_ms", s.ttl.count()},
                      {"idle_ttl_ms", s.idle_ttl.count()},
                      {"provenance", encode(s.provenance)},
                      {"end", encode(s.end)},
                      {"created_at", s.created_at},
                      {"last_used_at", s.last_used_at},
                      {"expires_at", s.expires_at},
                      {"ended_at", s.ended_at}};
  // Only where it says something, so that the records of earlier versions stay what they were.
  if (s.nested) out["nested"] = true;
  if (s.usage != model::Usage{}) out["usage"] = model::toJsonObject(s.usage);
  if (!s.from_snapshot.empty()) out["from_snapshot"] = s.from_snapshot;
  if (const auto& scope = s.capabilities; !scope.empty())
    out["capabilities"] = json::array(scope.begin(), scope.end());
  if (s.error) out["error"] = encode(s.error);
  if (!record.request.empty()) out["request"] = record.request;
  return cleanText(base::toJson(out));
}

Result<SessionRecord> decodeSession(std::string_view text) {
  const json::value value = TRY(base::parseJson(text, {.max_bytes = size_t{1} << 30}));
  bool bad = !value.is_object();
  SessionRecord record;
  if (!bad) decode(Members(value.get_object(), bad), record);
  if (bad) return fail(Code::kInternal, "reading a session's record: its members are not ours");
  return record;
}

}  // namespace cloister::store
