// SPDX-License-Identifier: Apache-2.0
// Amounts as typed on the command line, and as shown. Pure. An error of a reader is kInvalid, names
// `flag` (without dashes), and shows how the amount is written.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/flags.h"
#include "base/result.h"

namespace cloister::cli {

// "512", "512MB", "512m", "2g", "1.5GiB" → MiB. MB, M and m mean MiB, and so do GB and g GiB; less
// than a whole MiB counts as one.
Result<int64_t> parseMemoryMb(std::string_view text, std::string_view flag);
// "50%", "50" → 50.
Result<int64_t> parsePercent(std::string_view text, std::string_view flag);
// "800", "800m" → thousandths of a core; so are "0.8", "2 cores" and "80%" of cores.
Result<int64_t> parseCpuMillis(std::string_view text, std::string_view flag);
// "90", "90s", "500ms", "30min", "30m", "2h", "1h30m", "7d", "2w" → seconds; "0" is an amount, too.
Result<double> parseDuration(std::string_view text, std::string_view flag);
// The same in whole seconds, where part of a second counts as one.
Result<int64_t> parseSeconds(std::string_view text, std::string_view flag);

// The readers above, for the value of a flag; nullopt without the flag.
Result<std::optional<int64_t>> memoryFlag(const base::Flags& flags, std::string_view flag);
Result<std::optional<double>> durationFlag(const base::Flags& flags, std::string_view flag);
Result<std::optional<int64_t>> secondsFlag(const base::Flags& flags, std::string_view flag);

std::string shownMemory(int64_t mib);       // "1.8GB", "512MB"
std::string shownSeconds(int64_t seconds);  // "25min", "1h 45min", "12s"
std::string shortSeconds(int64_t seconds);  // "12s", "25m", "3h", "9d": the largest unit alone

}  // namespace cloister::cli
