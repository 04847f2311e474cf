// SPDX-License-Identifier: Apache-2.0
// Amounts as typed on the command line, and as shown. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"

namespace cloister::cli {

// "2GB", "512MB", "1.5GiB" → MiB (a GB is taken for 1024 MiB); kInvalid names --memory.
Result<int64_t> parseMemoryMb(std::string_view text);
// "50%", "50" → 50; kInvalid names --cpu.
Result<int64_t> parsePercent(std::string_view text);
// "90s", "30min", "2h", "7d", "2w" → seconds; kInvalid names `flag`.
Result<int64_t> parseSeconds(std::string_view text, std::string_view flag);

std::string shownMemory(int64_t mib);       // "1.8GB", "512MB"
std::string shownSeconds(int64_t seconds);  // "25min", "1h 45min", "12s"

}  // namespace cloister::cli
