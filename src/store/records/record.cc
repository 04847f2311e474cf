// SPDX-License-Identifier: Apache-2.0
#include "store/records/record.h"

#include "base/json.h"
#include "store/records/archive.h"
#include "store/records/shared.h"

namespace cloister::store {
namespace {

// A cell's results come from a sandbox: as text, a record's own limits do not bind the results.
constexpr base::JsonLimits kResultsLimits{
    .max_bytes = size_t{1} << 30, .max_depth = 64, .max_values = size_t{1} << 26};

}  // namespace

template <class A, Of<model::KeptOutput> T>
void describe(A& a, T& v) {
  a.number("total", v.total);
  a.flag("truncated", v.truncated);
  a.text("artifact", v.artifact);
}

template <class A, Of<model::ArtifactRef> T>
void describe(A& a, T& v) {
  a.text("id", v.id);
  a.bytes("path", v.path);
  a.number("size", v.size);
  a.text("content_type", v.content_type);
  a.text("sha256", v.sha256);
  a.when(v.full_size > 0).number("full_size", v.full_size);
}

template <class A, Of<model::CompileResult> T>
void describe(A& a, T& v) {
  a.number("exit_code", v.exit_code);
  a.number("wall_ms", v.wall_ms);
}

// A cell with its results.
template <class A, Of<model::Execution> T>
void describeCell(A& a, T& e) {
  if constexpr (A::kReads) e.cell.emplace();
  auto& cell = *e.cell;
  a.text("kernel", cell.kernel);
  a.number("number", cell.number);
  a.flag("state_lost", cell.state_lost);
  a.textOf("results", e.results, kResultsLimits);
  a.flag("results_truncated", e.results_truncated);
  a.since().array("results_left_out", e.results_left_out);
  a.number("results_bytes", e.results_bytes);
  a.when(cell.lost_before).flag("lost_before", cell.lost_before);
  a.when(!cell.lost_why.empty()).text("lost_why", cell.lost_why);
}

// In the form of the API. An execution without use has no member, as before there was a network.
template <class A, Of<model::Execution> T>
void describeNetwork(A& a, T& e) {
  if constexpr (A::kReads) {
    base::json::object text;
    a.since().object("network", text);
    if (text.empty()) return;
    if (auto use = model::readNetworkUse(text)) {
      e.network = *std::move(use);
    } else {
      a.refuse();
    }
  } else {
    a.when(e.network != model::NetworkUse{}).object("network", model::toJsonObject(e.network));
  }
}

// A run of less than a second has no history.
template <class A, Of<model::Execution> T>
void describeHistory(A& a, T& e) {
  if constexpr (A::kReads) {
    base::json::array points;
    a.since().array("usage_history", points);
    if (points.empty()) return;
    if (auto history = model::UsageHistory::fromJson(points)) {
      e.usage_history = *std::move(history);
    } else {
      a.refuse();
    }
  } else {
    a.when(!e.usage_history.empty()).array("usage_history", e.usage_history.toJson());
  }
}

template <class A, Of<Record> T>
void describe(A& a, T& v) {
  auto& e = v.execution;
  a.text("id", e.id);
  a.choice(
      "status", e.status, [](model::Status s) { return model::statusName(s); },
      model::statusFromName);
  a.in("principal", e.principal);
  a.text("request_sha256", v.request_sha256);
  a.text("session_id", e.session_id);
  a.text("language", e.language);
  a.object("metadata", e.metadata);
  a.number("exit_code", e.exit_code);
  a.text("signal", e.signal);
  a.in("stdout", e.out);
  a.in("stderr", e.err);
  a.list("artifacts", e.artifacts);
  a.in("usage", e.usage);
  a.in("provenance", e.provenance);
  a.maybe("error", e.error);
  a.maybe("compile", e.compile);
  a.number("created_at", e.created_at);
  a.number("started_at", e.started_at);
  a.number("finished_at", e.finished_at);
  a.when(e.cell.has_value()).part("cell", [&](auto& inner) { describeCell(inner, e); });
  a.when(!e.parent_id.empty()).text("parent_id", e.parent_id);
  a.when(e.depth > 0).number("depth", e.depth);
  describeNetwork(a, e);
  describeHistory(a, e);
  a.when(e.limits.has_value()).maybe("limits", e.limits);
}

std::string encodeRecord(const Record& record) {
  return recordText(record);
}

Result<Record> decodeRecord(std::string_view text) {
  return recordValue<Record>(text, size_t{1} << 30, "a record");
}

}  // namespace cloister::store
