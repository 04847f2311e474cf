// SPDX-License-Identifier: Apache-2.0
#include "store/records/record.h"

#include "base/json.h"
#include "store/records/clean.h"
#include "store/records/members.h"

namespace cloister::store {
namespace {

namespace json = base::json;

json::object encode(const model::KeptOutput& kept) {
  return {{"total", kept.total}, {"truncated", kept.truncated}, {"artifact", kept.artifact}};
}

json::array encode(const std::vector<model::ArtifactRef>& artifacts) {
  json::array array;
  for (const model::ArtifactRef& ref : artifacts) {
    json::object one = {{"id", ref.id},
                        {"path", anyBytes(ref.path)},
                        {"size", ref.size},
                        {"content_type", ref.content_type},
                        {"sha256", ref.sha256}};
    if (ref.full_size > 0) one["full_size"] = ref.full_size;
    array.push_back(std::move(one));
  }
  return array;
}

json::value encode(const std::optional<model::CompileResult>& compile) {
  if (!compile) return nullptr;
  return json::object{{"exit_code", compile->exit_code}, {"wall_ms", compile->wall_ms}};
}

// A cell's results were made in a sandbox: as text, they are not bound by a record's own limits.
constexpr base::JsonLimits kResultsLimits{
    .max_bytes = size_t{1} << 30, .max_depth = 64, .max_values = size_t{1} << 26};

json::object encodeCell(const model::Execution& e) {
  json::object out = {{"kernel", e.cell->kernel},
                      {"number", e.cell->number},
                      {"state_lost", e.cell->state_lost},
                      {"results", base::toJson(e.results)},
                      {"results_truncated", e.results_truncated},
                      {"results_left_out", e.results_left_out},
                      {"results_bytes", e.results_bytes}};
  // Only where it says something, so that the records of earlier versions stay what they were.
  if (e.cell->lost_before) out["lost_before"] = true;
  if (!e.cell->lost_why.empty()) out["lost_why"] = e.cell->lost_why;
  return out;
}

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
  if (!from.isNull("full_size")) from.integer("full_size", ref.full_size);
}

void decode(Members from, model::CompileResult& compile) {
  from.integer("exit_code", compile.exit_code);
  from.integer("wall_ms", compile.wall_ms);
}

void decode(Members from, model::Execution& e) {
  model::Cell& cell = e.cell.emplace();
  cell.kernel = from.text("kernel");
  from.integer("number", cell.number);
  cell.state_lost = from.boolean("state_lost");
  if (!from.isNull("lost_before")) cell.lost_before = from.boolean("lost_before");
  if (!from.isNull("lost_why")) cell.lost_why = from.text("lost_why");
  e.results_truncated = from.boolean("results_truncated");
  from.integer("results_bytes", e.results_bytes);
  if (!from.isNull("results_left_out")) e.results_left_out = from.array("results_left_out");
  const auto results = base::parseJson(from.text("results"), kResultsLimits);
  if (!results || !results->is_array()) return from.refuse();
  e.results = results->get_array();
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
  if (!from.isNull("parent_id")) e.parent_id = from.text("parent_id");
  if (!from.isNull("depth")) from.integer("depth", e.depth);
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
  if (!from.isNull("cell")) decode(from.in("cell"), e);
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
                      {"usage", model::toJsonObject(e.usage)},
                      {"provenance", encode(e.provenance)},
                      {"error", encode(e.error)},
                      {"compile", encode(e.compile)},
                      {"created_at", e.created_at},
                      {"started_at", e.started_at},
                      {"finished_at", e.finished_at}};
  if (e.cell) out["cell"] = encodeCell(e);
  // Only where it says something, so that the records of earlier versions stay what they were.
  if (!e.parent_id.empty()) out["parent_id"] = e.parent_id;
  if (e.depth > 0) out["depth"] = e.depth;
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
