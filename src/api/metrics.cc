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

}  // namespace

struct ServiceMetrics::State {
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
          .Help("Executions that have ended, by status and error type")
          .Register(registry);
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
  prometheus::Histogram& start = BuildHistogram()
                                     .Name("cloister_start_seconds")
                                     .Help("From acceptance to the program's start")
                                     .Register(registry)
                                     .Add({}, kShort);
  prometheus::Histogram& run = BuildHistogram()
                                   .Name("cloister_run_seconds")
                                   .Help("Wall time of programs that were started")
                                   .Register(registry)
                                   .Add({}, kLong);
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
  prometheus::Counter& sessions_made = BuildCounter()
                                           .Name("cloister_sessions_created_total")
                                           .Help("Sessions that got their sandbox")
                                           .Register(registry)
                                           .Add({});
  prometheus::Family<prometheus::Counter>& sessions_ended =
      BuildCounter()
          .Name("cloister_sessions_ended_total")
          .Help("Sessions that have ended, by error type")
          .Register(registry);
  prometheus::Histogram& session_start = BuildHistogram()
                                             .Name("cloister_session_start_seconds")
                                             .Help("From a session's acceptance to its sandbox")
                                             .Register(registry)
                                             .Add({}, kShort);
  prometheus::Gauge& node = BuildGauge()
                                .Name("cloister_node_connected")
                                .Help("1 while a node is connected")
                                .Register(registry)
                                .Add({});
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

void ServiceMetrics::started(double start_seconds) {
  state_->start.Observe(start_seconds);
}

void ServiceMetrics::finished(const model::Execution& execution) {
  const std::string status(model::statusName(execution.status));
  const std::string reason = execution.error ? execution.error->type : "none";
  state_->executions.Add({{"status", status}, {"reason", reason}}).Increment();
  if (execution.started_at != 0) {
    state_->run.Observe(static_cast<double>(execution.usage.wall_ms) / 1000);
  }
}

void ServiceMetrics::queueDepth(size_t waiting, size_t running) {
  state_->waiting.Set(static_cast<double>(waiting));
  state_->running.Set(static_cast<double>(running));
}

void ServiceMetrics::diskTaken(uint64_t bytes) {
  state_->disk.Set(static_cast<double>(bytes));
}

void ServiceMetrics::sessionStarted(double create_seconds) {
  state_->sessions_made.Increment();
  state_->session_start.Observe(create_seconds);
}

void ServiceMetrics::sessionEnded(const model::Session& session) {
  const std::string reason = session.end ? session.end->type : "none";
  state_->sessions_ended.Add({{"reason", reason}}).Increment();
}

void ServiceMetrics::sessionCount(size_t creating, size_t running) {
  state_->sessions.Add({{"status", "creating"}}).Set(static_cast<double>(creating));
  state_->sessions.Add({{"status", "running"}}).Set(static_cast<double>(running));
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

void ServiceMetrics::nodeConnected(bool connected) {
  state_->node.Set(connected ? 1 : 0);
}

void ServiceMetrics::pool(std::optional<model::PoolStats> stats) {
  state_->pool = std::move(stats);
}

void ServiceMetrics::image(const std::optional<model::ImageState>& state) {
  state_->image = state;
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
  return prometheus::TextSerializer().Serialize(families);
}

}  // namespace cloister::api
