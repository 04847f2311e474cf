// SPDX-License-Identifier: Apache-2.0
#include "store/records/members.h"

#include "store/records/clean.h"

namespace cloister::store {

json::value anyBytes(const std::string& bytes) {
  if (base::isUtf8(bytes)) return json::string(bytes);
  return json::object{{"base64", base::toBase64(bytes)}};
}

json::object encode(const model::Provenance& from) {
  json::array weakened;
  for (const std::string& what : from.weakened)
    weakened.push_back(json::string(what));
  json::object out = {{"runtime", from.runtime},
                      {"node", from.node},
                      {"image", from.image},
                      {"image_digest", from.image_digest},
                      {"policy_id", from.policy_id},
                      {"permit_id", from.permit_id},
                      {"code_sha256", from.code_sha256},
                      {"output_sha256", from.output_sha256},
                      {"stdout_sha256", from.stdout_sha256},
                      {"stderr_sha256", from.stderr_sha256},
                      {"weakened", std::move(weakened)}};
  // Only where it says something, so that the records of earlier versions stay what they were.
  if (from.nested) out["nested"] = true;
  if (from.fresh) out["fresh"] = true;
  if (!from.approval.empty()) out["approval"] = from.approval;
  return out;
}

json::object encode(const model::Principal& who) {
  json::array roles;
  for (const std::string_view role : model::names(who.roles))
    roles.emplace_back(role);
  return {{"tenant", who.tenant},      {"app", who.app},
          {"agent", who.agent},        {"user", who.user},
          {"roles", std::move(roles)}, {"admin", who.isAdmin()},
          {"key", who.key_id}};
}

json::value encode(const std::optional<model::RunError>& error) {
  if (!error) return nullptr;
  return json::object{{"type", error->type},
                      {"message", anyBytes(error->message)},
                      {"details", cleanObject(error->details)},
                      {"retryable", error->retryable}};
}

void decode(Members from, model::Provenance& out) {
  out.runtime = from.text("runtime");
  out.node = from.text("node");
  if (!from.isNull("image")) out.image = from.text("image");
  out.image_digest = from.text("image_digest");
  out.policy_id = from.text("policy_id");
  out.permit_id = from.text("permit_id");
  out.code_sha256 = from.text("code_sha256");
  out.output_sha256 = from.text("output_sha256");
  out.stdout_sha256 = from.text("stdout_sha256");
  out.stderr_sha256 = from.text("stderr_sha256");
  if (!from.isNull("nested")) out.nested = from.boolean("nested");
  if (!from.isNull("fresh")) out.fresh = from.boolean("fresh");
  if (!from.isNull("approval")) out.approval = from.text("approval");
  for (const json::value& what : from.array("weakened")) {
    if (!what.is_string()) return from.refuse();
    out.weakened.emplace_back(what.get_string());
  }
}

void decode(Members from, model::Principal& who) {
  who.tenant = from.text("tenant");
  who.app = from.text("app");
  who.agent = from.text("agent");
  who.user = from.text("user");
  who.roles = from.boolean("admin") ? model::Role::kAdmin : model::Role::kAgent;
  who.key_id = from.text("key");
  if (from.isNull("roles")) return;  // as it was recorded once
  std::vector<std::string> names;
  for (const json::value& name : from.array("roles")) {
    if (!name.is_string()) return from.refuse();
    names.emplace_back(name.get_string());
  }
  const auto roles = model::rolesFromNames(names);
  if (!roles) return from.refuse();
  who.roles = *roles;
}

void decode(Members from, model::RunError& error) {
  error.type = from.text("type");
  error.message = from.bytes("message");
  error.details = from.object("details");
  error.retryable = from.boolean("retryable");
}

std::chrono::milliseconds millis(Members& from, std::string_view name) {
  int64_t count = 0;
  from.integer(name, count);
  return std::chrono::milliseconds(count);
}

}  // namespace cloister::store
