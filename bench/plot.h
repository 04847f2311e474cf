// SPDX-License-Identifier: Apache-2.0
// Latencies as a picture: SVG of its own, readable on light and on dark pages.
#pragma once

#include <string>
#include <vector>

namespace cloister::bench {

struct Curve {
  std::string tool;            // "bare", "bubblewrap", "cloister" and "cloister run" have a look
  std::vector<double> millis;  // sorted, not empty
};

struct Panel {
  std::string title;
  std::vector<Curve> curves;
};

// Panels below each other, each with the share of runs that took at most as long, from the 1st to
// the 99th percentile, over a shared logarithmic axis of milliseconds. Texts go in unescaped: no
// markup. "" without a curve.
std::string latencyPlot(const std::string& title, const std::vector<Panel>& panels);

}  // namespace cloister::bench
