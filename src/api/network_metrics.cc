// SPDX-License-Identifier: Apache-2.0
#include "api/network_metrics.h"

#include <algorithm>
#include <iterator>
#include <string>

#include "model/packages.h"

namespace cloister::api {
namespace {

using prometheus::BuildCounter;
using prometheus::BuildGauge;

// cloister-egress chooses the name: an unknown name creates no series of its own.
std::string transportLabel(std::string_view transport) {
  constexpr std::string_view kKnown[] = {"tcp", "udp", "dns", "icmp"};
  const bool known = std::ranges::find(kKnown, transport) != std::end(kKnown);
  return std::string(known ? transport : "other");
}

prometheus::Counter& counter(prometheus::Registry& registry, const char* name, const char* help) {
  return BuildCounter().Name(name).Help(help).Register(registry).Add({});
}

prometheus::Gauge& gauge(prometheus::Registry& registry, const char* name, const char* help) {
  return BuildGauge().Name(name).Help(help).Register(registry).Add({});
}

}  // namespace

NetworkMetrics::NetworkMetrics(prometheus::Registry& registry)
    : attempts_(
          BuildCounter()
              .Name("cloister_network_attempts_total")
              .Help("Recorded attempts of sandboxes to reach something, by outcome and transport")
              .Register(registry)),
      packages_(BuildCounter()
                    .Name("cloister_package_refusals_total")
                    .Help("Packages that the package gateway refused, by rule")
                    .Register(registry)),
      bytes_(BuildCounter()
                 .Name("cloister_network_bytes_total")
                 .Help("Bytes between sandboxes and their destinations, by direction")
                 .Register(registry)),
      left_out_(counter(registry, "cloister_network_attempts_left_out_total",
                        "Attempts beyond the bounds of a record, which are only counted")),
      violations_(counter(registry, "cloister_network_violations_total",
                          "Refused destinations that count as violations of agents")),
      doors_(gauge(registry, "cloister_network_doors", "Sandboxes with a network")),
      plans_(BuildCounter()
                 .Name("cloister_network_plans_total")
                 .Help("Network plans sent, at the start of a sandbox or later")
                 .Register(registry)),
      connected_(gauge(registry, "cloister_egress_connected",
                       "1 while the network service cloister-egress is connected")),
      refuses_(gauge(registry, "cloister_egress_refusing",
                     "1 while new connections are refused because the ledger accepts no record")) {}

void NetworkMetrics::attempts(bool allowed, std::string_view transport, uint64_t count) {
  attempts_
      .Add({{"outcome", allowed ? "allowed" : "denied"}, {"transport", transportLabel(transport)}})
      .Increment(static_cast<double>(count));
}

void NetworkMetrics::packageRefused(std::string_view rule, uint64_t count) {
  if (!model::isPackageRule(rule)) return;  // cloister-egress chooses the name
  packages_.Add({{"rule", std::string(rule)}}).Increment(static_cast<double>(count));
}

void NetworkMetrics::bytes(uint64_t in, uint64_t out) {
  bytes_.Add({{"direction", "in"}}).Increment(static_cast<double>(in));
  bytes_.Add({{"direction", "out"}}).Increment(static_cast<double>(out));
}

void NetworkMetrics::leftOut(uint64_t attempts) {
  left_out_.Increment(static_cast<double>(attempts));
}

void NetworkMetrics::violation() {
  violations_.Increment();
}

void NetworkMetrics::doors(size_t open) {
  doors_.Set(static_cast<double>(open));
}

void NetworkMetrics::planned(std::string_view when) {
  plans_.Add({{"when", std::string(when)}}).Increment();
}

void NetworkMetrics::egress(bool connected, bool refuses) {
  connected_.Set(connected ? 1 : 0);
  refuses_.Set(refuses ? 1 : 0);
}

}  // namespace cloister::api
