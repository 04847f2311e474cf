// SPDX-License-Identifier: Apache-2.0
// The output of benchmarks: figures as text and JSON, tables, and their files. One thread.
//
// Results go to $CLOISTER_BENCH_OUT (JSON) and $CLOISTER_BENCH_DOCS (the page and its plots);
// without the variable nothing is written.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/result.h"

namespace cloister::bench {

// The value above a `share` (0 to 1) of the values; `sorted` is not empty.
double quantile(const std::vector<double>& sorted, double share);

// With `digits` after the point.
std::string number(double value, int digits);

// A Markdown table; every row has as many cells as `head`.
std::string table(const std::vector<std::string>& head,
                  const std::vector<std::vector<std::string>>& rows);

// {"runs", "min_ms", "p50_ms", "p90_ms", "p99_ms"} of sorted milliseconds, and the cells of the
// last four.
base::json::object latency(const std::vector<double>& sorted);
std::vector<std::string> latencyCells(const std::vector<double>& sorted);

// Kernel, processors, load and time, now; and a sentence about them.
base::json::object machine();
std::string describe(const base::json::object& machine);

// OUT/<name>.json.
Result<> writeJson(std::string_view name, const base::json::object& figures);
// The lines of DOCS/BENCHMARKS.md from "<!-- bench <name> -->" to the next "<!-- end -->".
Result<> writeSection(std::string_view name, std::string_view text);
// DOCS/<file>.
Result<> writePlot(std::string_view file, std::string_view svg);

}  // namespace cloister::bench
