// SPDX-License-Identifier: Apache-2.0
// ServiceMetrics: what Prometheus scrapes from /metrics. Labels only take values of our own making,
// so the number of series is bounded. One thread.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "model/image_state.h"
#include "model/pool_stats.h"
#include "orchestrator/run_service.h"

namespace cloister::api {

class ServiceMetrics : public orchestrator::Metrics {
 public:
  ServiceMetrics();
  ~ServiceMetrics() override;
  ServiceMetrics(const ServiceMetrics&) = delete;
  ServiceMetrics& operator=(const ServiceMetrics&) = delete;

  void accepted() override;
  void refused(std::string_view reason) override;
  void started(double start_seconds) override;
  void finished(const model::Execution& execution) override;
  void queueDepth(size_t waiting, size_t running) override;
  void diskTaken(uint64_t bytes) override;
  void sessionStarted(double create_seconds) override;
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

  // Text exposition format 0.0.4.
  [[nodiscard]] std::string text() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace cloister::api
