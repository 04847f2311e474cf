// SPDX-License-Identifier: Apache-2.0
// ServiceMetrics: the figures that Prometheus scrapes from /metrics. Labels only take values of the
// service's own, so the number of series is bounded. One thread.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "model/escalation.h"
#include "model/image_state.h"
#include "model/pool_stats.h"
#include "orchestrator/core/metrics.h"

namespace cloister::api {

class ServiceMetrics : public orchestrator::Metrics {
 public:
  ServiceMetrics();
  ~ServiceMetrics() override;
  ServiceMetrics(const ServiceMetrics&) = delete;
  ServiceMetrics& operator=(const ServiceMetrics&) = delete;

  void accepted() override;
  void refused(std::string_view reason) override;
  void denied(std::string_view what) override;
  void started(double start_seconds, const std::string& runtime) override;
  void finished(const model::Execution& execution) override;
  void queueDepth(size_t waiting, size_t running) override;
  void diskTaken(uint64_t bytes) override;
  void sessionStarted(double create_seconds, const std::string& runtime) override;
  void sessionEnded(const model::Session& session) override;
  void sessionCount(size_t creating, size_t running) override;
  void networkAttempts(bool allowed, std::string_view transport, uint64_t count) override;
  void packageRefused(std::string_view rule, uint64_t count) override;
  void networkBytes(uint64_t in, uint64_t out) override;
  void networkLeftOut(uint64_t attempts) override;
  void networkViolation() override;
  void doors(size_t open) override;
  void planned(std::string_view when) override;
  void egress(bool connected, bool refuses) override;
  // As last told by egress(); false before.
  [[nodiscard]] bool egressConnected() const;

  // Counts an HTTP answer; `route` is the matched pattern, "" without a match.
  void answered(std::string_view route, std::string_view method, int status, double seconds);
  void connections(size_t open);
  void nodeConnected(bool connected);
  // Counts an attempt to publish the audit log's head at `place`: the entry now there, nullopt on
  // failure.
  void checkpointPublished(const std::string& place, std::optional<uint64_t> entry);
  // Sets the stock of ready sandboxes; without `stats` its series are left out. Languages become
  // labels.
  void pool(std::optional<model::PoolStats> stats);

  // Sets the node's report on the content of its image; without `state` its series are left out.
  void image(const std::optional<model::ImageState>& state);

  // Sets the memory of all executions, in bytes: the sum of their limits, and the use.
  void memory(uint64_t reserved, uint64_t used);
  void escalations(const std::map<model::EscalationStatus, uint64_t>& counts);
  // Sets the size of the file system below the service's state, in bytes.
  void stateDisk(uint64_t size, uint64_t available);
  // Seconds since the epoch; without a certificate the series is left out.
  void certificateExpires(std::optional<int64_t> when);

  // Spans that the collector took, and spans that were lost.
  void spans(uint64_t exported, uint64_t dropped);

  // Text exposition format 0.0.4.
  [[nodiscard]] std::string text() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace cloister::api
