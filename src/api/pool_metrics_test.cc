// SPDX-License-Identifier: Apache-2.0
#include "api/pool_metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "api/metrics.h"

namespace cloister::api {
namespace {

using testing::HasSubstr;
using testing::Not;

model::PoolStats sample() {
  model::PoolStats stats;
  stats.kinds = {{.language = "python", .default_limits = true, .ready = 3},
                 {.language = "python", .scratch_bytes = 1, .ready = 4},
                 {.language = "python", .scratch_bytes = 2, .ready = 5},
                 {.language = "any", .ready = 1},
                 {.language = "evil\"} 1\n", .ready = 6}};
  stats.held = model::PoolStats::Held::kCpu;
  stats.served = {10, 20, 30, 40};
  stats.failed = 50;
  stats.claim.add(std::chrono::microseconds(600));
  stats.claim.add(std::chrono::seconds(6));
  return stats;
}

TEST(PoolMetrics, LanguagesAreOfOurOwnMaking) {
  const auto languages = model::LanguageSet::load(std::string(CLOISTER_SOURCE_DIR) + "/languages");
  ASSERT_TRUE(languages) << languages.error().message;
  model::PoolStats stats = sample();
  stats.kinds[3].language = "js";  // an alias
  stats = withKnownLanguages(std::move(stats), *languages);
  EXPECT_EQ(stats.kinds[0].language, "python");
  EXPECT_EQ(stats.kinds[3].language, "node");
  EXPECT_EQ(stats.kinds[4].language, "other");
  EXPECT_EQ(withKnownLanguages(sample(), *languages).kinds[3].language, "any");
}

TEST(PoolMetrics, WhatIsTold) {
  ServiceMetrics metrics;
  EXPECT_THAT(metrics.text(), Not(HasSubstr("cloister_pool")));
  metrics.pool(sample());
  const std::string text = metrics.text();
  for (const char* const line :
       {"cloister_pool_ready{language=\"python\",limits=\"default\"} 3\n",
        "cloister_pool_ready{language=\"python\",limits=\"other\"} 9\n",
        "cloister_pool_claims_total{served=\"ready\"} 10\n",
        "cloister_pool_claims_total{served=\"copied\"} 30\n",
        "cloister_pool_claims_total{served=\"none\"} 50\n", "cloister_pool_claim_seconds_count 2\n",
        "cloister_pool_claim_seconds_sum 6.0006",
        "cloister_pool_claim_seconds_bucket{le=\"0.0005\"} 0\n",
        "cloister_pool_claim_seconds_bucket{le=\"0.001\"} 1\n",
        "cloister_pool_claim_seconds_bucket{le=\"5\"} 1\n",
        "cloister_pool_claim_seconds_bucket{le=\"+Inf\"} 2\n",
        "cloister_pool_held{by=\"memory\"} 0\n", "cloister_pool_held{by=\"cpu\"} 1\n",
        "cloister_pool_refill_seconds_count 0\n"}) {
    EXPECT_THAT(text, HasSubstr(line));
  }
  metrics.pool(std::nullopt);
  EXPECT_THAT(metrics.text(), Not(HasSubstr("cloister_pool")));
}

}  // namespace
}  // namespace cloister::api
