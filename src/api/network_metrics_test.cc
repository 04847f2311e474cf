// SPDX-License-Identifier: Apache-2.0
#include "api/network_metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "api/metrics.h"

namespace cloister::api {
namespace {

using testing::HasSubstr;
using testing::Not;

TEST(NetworkMetrics, CountAttemptsPlansAndBytes) {
  ServiceMetrics metrics;
  metrics.networkAttempts(true, "tcp", 3);
  metrics.networkAttempts(false, "dns", 2);
  metrics.networkAttempts(false, "evil\"} 1\n", 1);
  metrics.packageRefused("packages.cooldown", 2);
  metrics.packageRefused("packages.evil", 1);
  metrics.networkBytes(10, 20);
  metrics.networkLeftOut(4);
  metrics.networkViolation();
  metrics.doors(5);
  metrics.planned("start");
  metrics.planned("later");
  metrics.egress(true, true);
  const std::string text = metrics.text();
  EXPECT_THAT(
      text,
      HasSubstr("cloister_network_attempts_total{outcome=\"allowed\",transport=\"tcp\"} 3\n"));
  EXPECT_THAT(
      text, HasSubstr("cloister_network_attempts_total{outcome=\"denied\",transport=\"dns\"} 2\n"));
  EXPECT_THAT(
      text,
      HasSubstr("cloister_network_attempts_total{outcome=\"denied\",transport=\"other\"} 1\n"));
  EXPECT_THAT(text, Not(HasSubstr("evil")));
  EXPECT_THAT(text, HasSubstr("cloister_package_refusals_total{rule=\"packages.cooldown\"} 2\n"));
  EXPECT_THAT(text, HasSubstr("cloister_network_bytes_total{direction=\"in\"} 10\n"));
  EXPECT_THAT(text, HasSubstr("cloister_network_bytes_total{direction=\"out\"} 20\n"));
  EXPECT_THAT(text, HasSubstr("\ncloister_network_attempts_left_out_total 4\n"));
  EXPECT_THAT(text, HasSubstr("\ncloister_network_violations_total 1\n"));
  EXPECT_THAT(text, HasSubstr("\ncloister_network_doors 5\n"));
  EXPECT_THAT(text, HasSubstr("cloister_network_plans_total{when=\"start\"} 1\n"));
  EXPECT_THAT(text, HasSubstr("cloister_network_plans_total{when=\"later\"} 1\n"));
  EXPECT_THAT(text, HasSubstr("\ncloister_egress_connected 1\n"));
  EXPECT_THAT(text, HasSubstr("\ncloister_egress_refusing 1\n"));
  metrics.egress(false, false);
  EXPECT_THAT(metrics.text(), HasSubstr("\ncloister_egress_connected 0\n"));
}

}  // namespace
}  // namespace cloister::api
