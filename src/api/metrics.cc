// SPDX-License-Identifier: Apache-2.0
#include "api/metrics.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include <prometheus/counter.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>
#include <prometheus/text_serializer.h>

#include "api/network_metrics.h"
#include "api/pool_metrics.h"

namespace cloister::api {
namespace {

using prometheus::BuildCounter;
using prometheus::BuildGauge;
using prometheus::BuildHistogram;
using Buckets = prometheus::Histogram::BucketBoundaries;

// Seconds. Starts and answers take milliseconds; runs last up to their wall limit.
const Buckets kShort = {.001, .002, .005, .01, .02, .05, .1, .2, .5, 1, 2, 5, 10, 30};
const Buckets kLong = {.01, .02, .05, .1, .2, .5, 1, 2, 5, 10, 30, 60, 120, 300, 600, 1800, 3600};

// The node chooses the name: an unknown name creates no series of its own.
std::string runtimeLabel(const std::string& runtime) {
  if (runtime.empty()) return "none";  // no sandbox was made
  constexpr std::string_view kKnown[] = {"process", "gvisor", "microvm"};
  return std::ranges::find(kKnown, runtime) != std::end(kKnown) ? runtime : "other";
}

}  // namespace

struct ServiceMetrics::State {
  std::optional<int64_t> certificate_expires;
  std::optional<model::ImageState> image;
  std::optional<model::PoolStats> pool;
  prometheus::Registry registry;
  prometheus::Counter& accepted = BuildCounter()
                                      .Name("cloister_accepted_total")
                                      .Help("Executions accepted")
                                      .Register(registry)
                                      .Add({});
  prometheus::Family<prometheus::Counter>& refused = BuildCounter()
                                                         .Name("cloister_refused_total")
                                                         .Help("Requests refused, by reason")
                                                         .Register(registry);
  prometheus::Family<prometheus::Counter>& executions =
      BuildCounter()
          .Name("cloister_executions_total")
          .Help("Executions that have ended, by status, error type and runtime")
          .Register(registry);
  prometheus::Family<prometheus::Counter>& denied =
      BuildCounter()
          .Name("cloister_denied_total")
          .Help("What policy or an agent's rules denied, by operation")
          .Register(registry);
  prometheus::Family<prometheus::Gauge>& escalations =
      BuildGauge().Name("cloister_escalations").Help("Escalations, by status").Register(registry);
  prometheus::Counter& spans_exported = BuildCounter()
                                            .Name("cloister_trace_spans_exported_total")
                                            .Help("Spans that the collector of traces took")
                                            .Register(registry)
                                            .Add({});
  prometheus::Counter& spans_dropped =
      BuildCounter()
          .Name("cloister_trace_spans_dropped_total")
          .Help("Spans lost: the queue was full, or the collector rejected them")
          .Register(registry)
          .Add({});
  prometheus::Gauge& memory_reserved = BuildGauge()
                                           .Name("cloister_memory_reserved_bytes")
                                           .Help("Memory limits of what runs, sessions too")
                                           .Register(registry)
                                           .Add({});
  prometheus::Gauge& memory_used = BuildGauge()
                                       .Name("cloister_memory_used_bytes")
                                       .Help("Memory that this uses")
                                       .Register(registry)
                                       .Add({});
  prometheus::Gauge& state_size = BuildGauge()
                                      .Name("cloister_state_disk_bytes")
                                      .Help("Size of the file system of the service's state")
                                      .Register(registry)
                                      .Add({});
  prometheus::Gauge& state_available = BuildGauge()
                                           .Name("cloister_state_disk_available_bytes")
                                           .Help("What of it the service can still write")
                                           .Register(registry)
                                           .Add({});
  prometheus::Family<prometheus::Gauge>& published =
      BuildGauge()
          .Name("cloister_audit_published_entry")
          .Help("Newest audit entry that a published checkpoint covers, by place")
          .Register(registry);
  prometheus::Family<prometheus::Counter>& unpublished =
      BuildCounter()
          .Name("cloister_audit_publish_failures_total")
          .Help("Attempts to publish a checkpoint that failed, by place")
          .Register(registry);
  prometheus::Family<prometheus::Histogram>& start =
      BuildHistogram()
          .Name("cloister_start_seconds")
          .Help("From acceptance to the program's start, by runtime")
          .Register(registry);
  prometheus::Family<prometheus::Histogram>& run =
      BuildHistogram()
          .Name("cloister_run_seconds")
          .Help("Wall time of programs that were started, by runtime")
          .Register(registry);
  prometheus::Gauge& waiting = BuildGauge()
                                   .Name("cloister_queue_depth")
                                   .Help("Executions accepted and waiting for a sandbox")
                                   .Register(registry)
                                   .Add({});
  prometheus::Gauge& running = BuildGauge()
                                   .Name("cloister_running")
                                   .Help("Executions in a sandbox")
                                   .Register(registry)
                                   .Add({});
  prometheus::Gauge& disk = BuildGauge()
                                .Name("cloister_disk_workspace_bytes")
                                .Help("Taken by workspaces on disk, of workspace.disk.max_mb")
                                .Register(registry)
                                .Add({});
  prometheus::Family<prometheus::Gauge>& sessions =
      BuildGauge().Name("cloister_sessions").Help("Sessions, by status").Register(registry);
  prometheus::Family<prometheus::Counter>& sessions_made =
      BuildCounter()
          .Name("cloister_sessions_created_total")
          .Help("Sessions that got their sandbox, by runtime")
          .Register(registry);
  prometheus::Family<prometheus::Counter>& sessions_ended =
      BuildCounter()
          .Name("cloister_sessions_ended_total")
          .Help("Sessions that have ended, by error type and runtime")
          .Register(registry);
  prometheus::Family<prometheus::Histogram>& session_start =
      BuildHistogram()
          .Name("cloister_session_start_seconds")
          .Help("From a session's acceptance to its sandbox, by runtime")
          .Register(registry);
  prometheus::Gauge& node = BuildGauge()
                                .Name("cloister_node_connected")
                                .Help("1 while a node is connected")
                                .Register(registry)
                                .Add({});
  NetworkMetrics network{registry};
  prometheus::Gauge& connections = BuildGauge()
                                       .Name("cloister_http_connections")
                                       .Help("Open client connections")
                                       .Register(registry)
                                       .Add({});
  prometheus::Family<prometheus::Counter>& requests =
      BuildCounter()
          .Name("cloister_http_requests_total")
          .Help("HTTP answers, by route, method and status")
          .Register(registry);
  prometheus::Family<prometheus::Histogram>& latency =
      BuildHistogram()
          .Name("cloister_http_request_seconds")
          .Help("From a request's head to the end of its answer, waiting and streaming included")
          .Register(registry);
};

ServiceMetrics::ServiceMetrics() : state_(std::make_unique<State>()) {}
ServiceMetrics::~ServiceMetrics() = default;

void ServiceMetrics::accepted() {
  state_->accepted.Increment();
}

void ServiceMetrics::refused(std::string_view reason) {
  state_->refused.Add({{"reason", std::string(reason)}}).Increment();
}

void ServiceMetrics::denied(std::string_view what) {
  state_->denied.Add({{"operation", std::string(what)}}).Increment();
}

void ServiceMetrics::started(double start_seconds, const std::string& runtime) {
  state_->start.Add({{"runtime", runtimeLabel(runtime)}}, kShort).Observe(start_seconds);
}

void ServiceMetrics::finished(const model::Execution& execution) {
  const std::string status(model::statusName(execution.status));
  const std::string reason = execution.error ? execution.error->type : "none";
  const std::string runtime = runtimeLabel(execution.provenance.runtime);
  state_->executions.Add({{"status", status}, {"reason", reason}, {"runtime", runtime}})
      .Increment();
  if (execution.started_at != 0) {
    state_->run.Add({{"runtime", runtime}}, kLong)
        .Observe(static_cast<double>(execution.usage.wall_ms) / 1000);
  }
}

void ServiceMetrics::queueDepth(size_t waiting, size_t running) {
  state_->waiting.Set(static_cast<double>(waiting));
  state_->running.Set(static_cast<double>(running));
}

void ServiceMetrics::diskTaken(uint64_t bytes) {
  state_->disk.Set(static_cast<double>(bytes));
}

void ServiceMetrics::sessionStarted(double create_seconds, const std::string& runtime) {
  state_->sessions_made.Add({{"runtime", runtimeLabel(runtime)}}).Increment();
  state_->session_start.Add({{"runtime", runtimeLabel(runtime)}}, kShort).Observe(create_seconds);
}

void ServiceMetrics::sessionEnded(const model::Session& session) {
  const std::string reason = session.end ? session.end->type : "none";
  state_->sessions_ended
      .Add({{"reason", reason}, {"runtime", runtimeLabel(session.provenance.runtime)}})
      .Increment();
}

void ServiceMetrics::sessionCount(size_t creating, size_t running) {
  state_->sessions.Add({{"status", "creating"}}).Set(static_cast<double>(creating));
  state_->sessions.Add({{"status", "running"}}).Set(static_cast<double>(running));
}

void ServiceMetrics::networkAttempts(bool allowed, std::string_view transport, uint64_t count) {
  state_->network.attempts(allowed, transport, count);
}

void ServiceMetrics::packageRefused(std::string_view rule, uint64_t count) {
  state_->network.packageRefused(rule, count);
}

void ServiceMetrics::networkBytes(uint64_t in, uint64_t out) {
  state_->network.bytes(in, out);
}

void ServiceMetrics::networkLeftOut(uint64_t attempts) {
  state_->network.leftOut(attempts);
}

void ServiceMetrics::networkViolation() {
  state_->network.violation();
}

void ServiceMetrics::doors(size_t open) {
  state_->network.doors(open);
}

void ServiceMetrics::planned(std::string_view when) {
  state_->network.planned(when);
}

void ServiceMetrics::egress(bool connected, bool refuses) {
  state_->network.egress(connected, refuses);
}

void ServiceMetrics::answered(std::string_view route, std::string_view method, int status,
                              double seconds) {
  const std::string pattern(route.empty() ? "none" : route);
  state_->requests
      .Add(
          {{"route", pattern}, {"method", std::string(method)}, {"status", std::to_string(status)}})
      .Increment();
  state_->latency.Add({{"route", pattern}}, kShort).Observe(seconds);
}

void ServiceMetrics::connections(size_t open) {
  state_->connections.Set(static_cast<double>(open));
}

void ServiceMetrics::checkpointPublished(const std::string& place, std::optional<uint64_t> entry) {
  if (entry) {
    state_->published.Add({{"place", place}}).Set(static_cast<double>(*entry));
  } else {
    state_->unpublished.Add({{"place", place}}).Increment();
  }
}

bool ServiceMetrics::egressConnected() const {
  return state_->network.egressConnected();
}

void ServiceMetrics::nodeConnected(bool connected) {
  state_->node.Set(connected ? 1 : 0);
}

void ServiceMetrics::pool(std::optional<model::PoolStats> stats) {
  state_->pool = std::move(stats);
}

void ServiceMetrics::image(const std::optional<model::ImageState>& state) {
  state_->image = state;
}

void ServiceMetrics::spans(uint64_t exported, uint64_t dropped) {
  state_->spans_exported.Increment(static_cast<double>(exported));
  state_->spans_dropped.Increment(static_cast<double>(dropped));
}

void ServiceMetrics::memory(uint64_t reserved, uint64_t used) {
  state_->memory_reserved.Set(static_cast<double>(reserved));
  state_->memory_used.Set(static_cast<double>(used));
}

void ServiceMetrics::escalations(const std::map<model::EscalationStatus, uint64_t>& counts) {
  using enum model::EscalationStatus;
  for (const auto status : {kPending, kApproved, kDenied, kExpired, kUsed}) {
    const auto found = counts.find(status);
    state_->escalations.Add({{"status", std::string(model::statusName(status))}})
        .Set(found == counts.end() ? 0 : static_cast<double>(found->second));
  }
}

void ServiceMetrics::stateDisk(uint64_t size, uint64_t available) {
  state_->state_size.Set(static_cast<double>(size));
  state_->state_available.Set(static_cast<double>(available));
}

void ServiceMetrics::certificateExpires(std::optional<int64_t> when) {
  state_->certificate_expires = when;
}

namespace {

prometheus::MetricFamily gauge(std::string name, std::string help, double value) {
  prometheus::ClientMetric metric;
  metric.gauge.value = value;
  return {.name = std::move(name),
          .help = std::move(help),
          .type = prometheus::MetricType::Gauge,
          .metric = {std::move(metric)}};
}

}  // namespace

std::string ServiceMetrics::text() const {
  auto families = state_->registry.Collect();
  if (state_->pool) std::ranges::move(poolFamilies(*state_->pool), std::back_inserter(families));
  if (const auto& image = state_->image) {
    families.push_back(gauge("cloister_image_verified",
                             "1 while the digest of the node's own image is known",
                             image->digest.empty() ? 0 : 1));
    families.push_back(gauge("cloister_image_files",
                             "Files of the node's own image when it was last read",
                             static_cast<double>(image->files)));
    families.push_back(gauge("cloister_image_files_read",
                             "Of those, the files whose content had to be read for it",
                             static_cast<double>(image->files_read)));
  }
  if (const auto& expires = state_->certificate_expires) {
    families.push_back(gauge("cloister_certificate_expiry_timestamp_seconds",
                             "When the server's own certificate expires, since the epoch",
                             static_cast<double>(*expires)));
  }
  return prometheus::TextSerializer().Serialize(families);
}

}  // namespace cloister::api
