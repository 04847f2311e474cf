// SPDX-License-Identifier: Apache-2.0
// ServiceMetrics: what Prometheus scrapes from /metrics. Labels only take values of our own making,
// so the number of series is bounded. One thread.
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

  // One HTTP answer; `route` is the pattern, "" when none matched.
  void answered(std::string_view route, std::string_view method, int status, double seconds);
  void connections(size_t open);
  void nodeConnected(bool connected);
  // An attempt to publish the audit log's head at `place`: the entry it now has, nullopt if failed.
  void checkpointPublished(const std::string& place, std::optional<uint64_t> entry);
  // What the node keeps ready; without, its series are left out. Languages become labels.
  void pool(std::optional<model::PoolStats> stats);

  // What the node knows of the content of its own image; without, its series are left out.
  void image(const std::optional<model::ImageState>& state);

  // Of all that runs, in bytes: its limits, and what it uses.
  void memory(uint64_t reserved, uint64_t used);
  void escalations(const std::map<model::EscalationStatus, uint64_t>& counts);
  // Of the file system that has the service's state, in bytes.
  void stateDisk(uint64_t size, uint64_t available);
  // Seconds since the epoch; without a certificate the series is left out.
  void certificateExpires(std::optional<int64_t> when);

  // Text exposition format 0.0.4.
  [[nodiscard]] std::string text() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace cloister::api
