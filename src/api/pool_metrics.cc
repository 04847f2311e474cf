// SPDX-License-Identifier: Apache-2.0
#include "api/pool_metrics.h"

#include <map>
#include <string>
#include <utility>

namespace cloister::api {
namespace {

using model::PoolKind;
using model::PoolStats;
using prometheus::ClientMetric;
using prometheus::MetricFamily;
using prometheus::MetricType;
using Labels = std::vector<ClientMetric::Label>;

void add(MetricFamily& family, Labels labels, uint64_t value) {
  ClientMetric metric;
  metric.label = std::move(labels);
  (family.type == MetricType::Counter ? metric.counter.value : metric.gauge.value) =
      static_cast<double>(value);
  family.metric.push_back(std::move(metric));
}

MetricFamily single(std::string name, std::string help, MetricType type, uint64_t value) {
  MetricFamily family{std::move(name), std::move(help), type, {}};
  add(family, {}, value);
  return family;
}

// A series for each language, with default limits and with others; kinds of the same series add up.
MetricFamily byKind(std::string name, std::string help, const PoolStats& stats,
                    uint32_t PoolKind::* number) {
  std::map<std::pair<std::string, bool>, uint64_t> sums;
  for (const PoolKind& kind : stats.kinds)
    sums[{kind.language, kind.default_limits}] += kind.*number;
  MetricFamily family{std::move(name), std::move(help), MetricType::Gauge, {}};
  for (const auto& [key, sum] : sums)
    add(family, {{"language", key.first}, {"limits", key.second ? "default" : "other"}}, sum);
  return family;
}

MetricFamily claims(const PoolStats& stats) {
  MetricFamily family{"cloister_pool_claims_total",
                      "Sandboxes asked for, by how they were served",
                      MetricType::Counter,
                      {}};
  for (size_t i = 0; i < stats.served.size(); ++i)
    add(family, {{"served", std::string(model::kServedNames[i])}}, stats.served[i]);
  add(family, {{"served", "none"}}, stats.failed);
  return family;
}

MetricFamily held(const PoolStats& stats) {
  MetricFamily family{"cloister_pool_held",
                      "1 while nothing is made ahead because the machine is short of it",
                      MetricType::Gauge,
                      {}};
  for (const auto by : {PoolStats::Held::kMemory, PoolStats::Held::kCpu}) {
    const std::string name(PoolStats::kHeldNames[static_cast<size_t>(by)]);
    add(family, {{"by", name}}, stats.held == by ? 1 : 0);
  }
  return family;
}

MetricFamily histogram(std::string name, std::string help, const model::Durations& durations) {
  constexpr double kMicros = 1e6;
  ClientMetric metric;
  uint64_t up_to = 0;
  for (size_t i = 0; i < model::Durations::kBoundsMicros.size(); ++i) {
    up_to += durations.counts[i];
    metric.histogram.bucket.push_back({up_to, model::Durations::kBoundsMicros[i] / kMicros});
  }
  metric.histogram.sample_count = durations.count();
  metric.histogram.sample_sum = static_cast<double>(durations.sum_micros) / kMicros;
  return {std::move(name), std::move(help), MetricType::Histogram, {std::move(metric)}};
}

}  // namespace

PoolStats withKnownLanguages(PoolStats stats, const model::LanguageSet& known) {
  for (PoolKind& kind : stats.kinds) {
    const model::Language* language = known.find(kind.language);
    if (language != nullptr) {
      kind.language = language->name;
    } else if (kind.language != PoolStats::kAny) {
      kind.language = PoolStats::kOther;
    }
  }
  return stats;
}

std::vector<MetricFamily> poolFamilies(const PoolStats& stats) {
  constexpr auto kGauge = MetricType::Gauge;
  constexpr auto kCounter = MetricType::Counter;
  return {
      byKind("cloister_pool_ready", "Sandboxes that stand ready", stats, &PoolKind::ready),
      byKind("cloister_pool_wanted", "Sandboxes to keep ready", stats, &PoolKind::wanted),
      byKind("cloister_pool_making", "Sandboxes being made ahead", stats, &PoolKind::making),
      byKind("cloister_pool_waiting", "Claims that wait for those", stats, &PoolKind::waiting),
      claims(stats),
      histogram("cloister_pool_claim_seconds", "From asking for a sandbox to having it",
                stats.claim),
      histogram("cloister_pool_refill_seconds", "Making a sandbox ahead", stats.refill),
      single("cloister_pool_teardown_backlog", "Sandboxes that are being removed", kGauge,
             stats.dying),
      single("cloister_pool_zygotes", "Interpreters that can be copied", kGauge, stats.zygotes),
      single("cloister_pool_copies_total", "Sandboxes made with a copy of an interpreter", kCounter,
             stats.copies),
      single("cloister_pool_dead_total", "Ready sandboxes that were found dead", kCounter,
             stats.dead),
      single("cloister_pool_drained_total", "Ready sandboxes given up while memory was short",
             kCounter, stats.drained),
      held(stats),
  };
}

}  // namespace cloister::api
