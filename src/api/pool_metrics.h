// SPDX-License-Identifier: Apache-2.0
// The stock of ready sandboxes of a node, for /metrics. The node counts, so its restart resets the
// counts.
#pragma once

#include <vector>

#include <prometheus/metric_family.h>

#include "model/language.h"
#include "model/pool_stats.h"

namespace cloister::api {

// The node's report, with unknown languages called "other".
model::PoolStats withKnownLanguages(model::PoolStats stats, const model::LanguageSet& known);

// The languages in `stats` become labels, and so must come from withKnownLanguages().
std::vector<prometheus::MetricFamily> poolFamilies(const model::PoolStats& stats);

}  // namespace cloister::api
