// SPDX-License-Identifier: Apache-2.0
// NetworkMetrics: the figures cloister_network_* and cloister_egress_*. One thread.
#pragma once

#include <cstdint>
#include <string_view>

#include <prometheus/counter.h>
#include <prometheus/family.h>
#include <prometheus/gauge.h>
#include <prometheus/registry.h>

namespace cloister::api {

class NetworkMetrics {
 public:
  explicit NetworkMetrics(prometheus::Registry& registry);

  // As orchestrator::Metrics.
  void attempts(bool allowed, std::string_view transport, uint64_t count);
  void packageRefused(std::string_view rule, uint64_t count);
  void bytes(uint64_t in, uint64_t out);
  void leftOut(uint64_t attempts);
  void violation();
  void doors(size_t open);
  void planned(std::string_view when);
  void egress(bool connected, bool refuses);
  [[nodiscard]] bool egressConnected() const { return connected_.Value() > 0; }

 private:
  prometheus::Family<prometheus::Counter>& attempts_;
  prometheus::Family<prometheus::Counter>& packages_;
  prometheus::Family<prometheus::Counter>& bytes_;
  prometheus::Counter& left_out_;
  prometheus::Counter& violations_;
  prometheus::Gauge& doors_;
  prometheus::Family<prometheus::Counter>& plans_;
  prometheus::Gauge& connected_;
  prometheus::Gauge& refuses_;
};

}  // namespace cloister::api
