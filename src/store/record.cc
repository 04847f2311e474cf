// SPDX-License-Identifier: Apache-2.0
#include "store/record.h"

#include <concepts>
#include <limits>

#include "base/crypto.h"
#include "base/json.h"
#include "store/clean.h"

namespace cloister::store {
namespace {

namespace json = base::json;

// Bytes that may be no text (a file name a sandbox chose) are kept as they are, in base64.
json::value anyBytes(const std::string& bytes) {
  if (base::isUtf8(bytes)) return json::string(bytes);
  return json::object{{"base64", base::toBase64(bytes)}};
}

json::object encode(const model::KeptOutput& kept) {
  return {{"total", kept.total}, {"truncated", kept.truncated}, {"artifact", kept.artifact}};
}

json::array encode(const std::vector<model::ArtifactRef>& artifacts) {
  json::array array;
  for (const model::ArtifactRef& ref : artifacts) {
    array.push_back(json::object{{"id", ref.id},
                                 {"path", anyBytes(ref.path)},
                                 {"size", ref.size},
                                 {"content_type", ref.content_type},
                                 {"sha256", ref.sha256}});
  }
  return array;
}

json::object encode(const model::Usage& usage) {
  return {{"wall_ms", usage.wall_ms},
          {"cpu_ms", usage.cpu_ms},
          {"max_rss_bytes", usage.max_rss_bytes},
          {"io_read_bytes", usage.io_read_bytes},
          {"io_write_bytes", usage.io_write_bytes},
          {"processes", usage.processes}};
}

json::object encode(const model::Provenance& from) {
  json::array weakened;
  for (const std::string& what : from.weakened)
    weakened.push_back(json::string(what));
  return {{"runtime", from.runtime},
          {"node", from.node},
          {"image_digest", from.image_digest},
          {"policy_id", from.policy_id},
          {"permit_id", from.permit_id},
          {"code_sha256", from.code_sha256},
          {"output_sha256", from.output_sha256},
          {"stdout_sha256", from.stdout_sha256},
          {"stderr_sha256", from.stderr_sha256},
          {"weakened", std::move(weakened)}};
}

json::object encode(const model::Principal& who) {
  return {{"tenant", who.tenant}, {"app", who.app},         {"agent", who.agent},
          {"user", who.user},     {"admin", who.isAdmin()}, {"key", who.key_id}};
}

json::value encode(const std::optional<model::RunError>& error) {
  if (!error) return nullptr;
  return json::object{{"type", error->type},
                      {"message", anyBytes(error->message)},
                      {"details", cleanObject(error->details)},
                      {"retryable", error->retryable}};
}

json::value encode(const std::optional<model::CompileResult>& compile) {
  if (!compile) return nullptr;
  return json::object{{"exit_code", compile->exit_code}, {"wall_ms", compile->wall_ms}};
}

// Reads members; the first that is missing or of another type makes the whole bad.
class Members {
 public:
  explicit Members(const json::object& object, bool& bad) : object_(object), bad_(bad) {}

  std::string text(std::string_view name) {
    const json::value* value = find(name);
    if (value != nullptr && value->is_string()) return std::string(value->get_string());
    bad_ = true;
    return {};
  }

  std::string bytes(std::string_view name) {
    const json::value* value = find(name);
    if (value == nullptr || !value->is_object()) return text(name);
    auto decoded = base::fromBase64(Members(value->get_object(), bad_).text("base64"));
    if (!decoded) bad_ = true;
    return decoded.value_or("");
  }

  template <std::integral T>
  void integer(std::string_view name, T& out) {
    const json::value* value = find(name);
    json::error_code error;
    if (value == nullptr || !value->is_number()) {
      bad_ = true;
      return;
    }
    out = value->to_number<T>(error);
    if (error) bad_ = true;
  }

  bool boolean(std::string_view name) {
    const json::value* value = find(name);
    if (value != nullptr && value->is_bool()) return value->get_bool();
    bad_ = true;
    return false;
  }

  const json::object& object(std::string_view name) {
    static const json::object kNone;
    const json::value* value = find(name);
    if (value != nullptr && value->is_object()) return value->get_object();
    bad_ = true;
    return kNone;
  }

  const json::array& array(std::string_view name) {
    static const json::array kNone;
    const json::value* value = find(name);
    if (value != nullptr && value->is_array()) return value->get_array();
    bad_ = true;
    return kNone;
  }

  bool isNull(std::string_view name) {
    const json::value* value = find(name);
    return value == nullptr || value->is_null();
  }

  Members in(std::string_view name) { return Members(object(name), bad_); }
  void refuse() { bad_ = true; }

 private:
  const json::value* find(std::string_view name) { return object_.if_contains(name); }

  const json::object& object_;
  bool& bad_;
};

void decode(Members from, model::KeptOutput& kept) {
  from.integer("total", kept.total);
  kept.truncated = from.boolean("truncated");
  kept.artifact = from.text("artifact");
}

void decode(Members from, model::ArtifactRef& ref) {
  ref.id = from.text("id");
  ref.path = from.bytes("path");
  from.integer("size", ref.size);
  ref.content_type = from.text("content_type");
  ref.sha256 = from.text("sha256");
}

void decode(Members from, model::Usage& usage) {
  from.integer("wall_ms", usage.wall_ms);
  from.integer("cpu_ms", usage.cpu_ms);
  from.integer("max_rss_bytes", usage.max_rss_bytes);
  from.integer("io_read_bytes", usage.io_read_bytes);
  from.integer("io_write_bytes", usage.io_write_bytes);
  from.integer("processes", usage.processes);
}

void decode(Members from, model::Provenance& out) {
  out.runtime = from.text("runtime");
  out.node = from.text("node");
  out.image_digest = from.text("image_digest");
  out.policy_id = from.text("policy_id");
  out.permit_id = from.text("permit_id");
  out.code_sha256 = from.text("code_sha256");
  out.output_sha256 = from.text("output_sha256");
  out.stdout_sha256 = from.text("stdout_sha256");
  out.stderr_sha256 = from.text("stderr_sha256");
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
  who.role = from.boolean("admin") ? model::Role::kAdmin : model::Role::kAgent;
  who.key_id = from.text("key");
}

void decode(Members from, model::RunError& error) {
  error.type = from.text("type");
  error.message = from.bytes("message");
  error.details = from.object("details");
  error.retryable = from.boolean("retryable");
}

void decode(Members from, model::CompileResult& compile) {
  from.integer("exit_code", compile.exit_code);
  from.integer("wall_ms", compile.wall_ms);
}

void decode(Members from, Record& record) {
  model::Execution& e = record.execution;
  record.request_sha256 = from.text("request_sha256");
  e.id = from.text("id");
  const auto status = model::statusFromName(from.text("status"));
  if (!status) return from.refuse();
  e.status = *status;
  decode(from.in("principal"), e.principal);
  e.session_id = from.text("session_id");
  e.language = from.text("language");
  e.metadata = from.object("metadata");
  if (!from.isNull("exit_code")) from.integer("exit_code", e.exit_code.emplace());
  e.signal = from.text("signal");
  decode(from.in("stdout"), e.out);
  decode(from.in("stderr"), e.err);
  for (const json::value& ref : from.array("artifacts")) {
    if (!ref.is_object()) return from.refuse();
    bool bad = false;
    decode(Members(ref.get_object(), bad), e.artifacts.emplace_back());
    if (bad) return from.refuse();
  }
  decode(from.in("usage"), e.usage);
  decode(from.in("provenance"), e.provenance);
  if (!from.isNull("error")) decode(from.in("error"), e.error.emplace());
  if (!from.isNull("compile")) decode(from.in("compile"), e.compile.emplace());
  from.integer("created_at", e.created_at);
  from.integer("started_at", e.started_at);
  from.integer("finished_at", e.finished_at);
}

}  // namespace

std::string encodeRecord(const Record& record) {
  const model::Execution& e = record.execution;
  json::object out = {{"id", e.id},
                      {"status", model::statusName(e.status)},
                      {"principal", encode(e.principal)},
                      {"request_sha256", record.request_sha256},
                      {"session_id", e.session_id},
                      {"language", e.language},
                      {"metadata", cleanObject(e.metadata)},
                      {"exit_code", e.exit_code ? json::value(*e.exit_code) : json::value(nullptr)},
                      {"signal", e.signal},
                      {"stdout", encode(e.out)},
                      {"stderr", encode(e.err)},
                      {"artifacts", encode(e.artifacts)},
                      {"usage", encode(e.usage)},
                      {"provenance", encode(e.provenance)},
                      {"error", encode(e.error)},
                      {"compile", encode(e.compile)},
                      {"created_at", e.created_at},
                      {"started_at", e.started_at},
                      {"finished_at", e.finished_at}};
  return cleanText(base::toJson(out));
}

Result<Record> decodeRecord(std::string_view text) {
  const json::value value = TRY(base::parseJson(text, {.max_bytes = size_t{1} << 30}));
  bool bad = !value.is_object();
  Record record;
  if (!bad) decode(Members(value.get_object(), bad), record);
  if (bad) return fail(Code::kInternal, "reading a record: its members are not ours");
  return record;
}

}  // namespace cloister::store
