// SPDX-License-Identifier: Apache-2.0
// What a node keeps ready, for /metrics. The counts are the node's own, so that they begin anew
// when it does.
#pragma once

#include <vector>

#include <prometheus/metric_family.h>

#include "model/language.h"
#include "model/pool_stats.h"

namespace cloister::api {

// What a node told, with languages that it made up called "other".
model::PoolStats withKnownLanguages(model::PoolStats stats, const model::LanguageSet& known);

// The languages in `stats` become labels: they must be of our own making.
std::vector<prometheus::MetricFamily> poolFamilies(const model::PoolStats& stats);

}  // namespace cloister::api
