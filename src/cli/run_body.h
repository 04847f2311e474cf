// SPDX-License-Identifier: Apache-2.0
// The flags of `cloister run` → the body of POST /v1/executions.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "base/flags.h"
#include "base/json.h"
#include "base/result.h"

namespace cloister::cli {

std::span<const base::Flag> runFlags();

// Values of flags that several commands have.
inline constexpr std::string_view kNetworkTiers = "none restricted internal api full";
inline constexpr std::string_view kDeniedActions = "deny escalate ask";
inline constexpr std::string_view kTiers = "Auto Assisted HumanApprove ManualOnly";

// Input from outside the flags.
struct RunSource {
  std::string code;
  std::string file_name;             // "" for -c and stdin
  std::optional<std::string> input;  // stdin, unless stdin held the code
};

// kInvalid names the flag. Reads the files of --file.
Result<base::json::object> runBody(const base::Flags& flags, const RunSource& source);

// The language of a file by its extension, from languages/*.yaml of this installation; "python"
// without a match.
std::string languageOf(const std::string& file_name);

// {"key": text} or, when the bytes are not UTF-8, base64 with "encoding".
void putBytes(base::json::object& object, std::string_view key, std::string_view bytes);

// Members for flags shared by several commands: --timeout, --memory, --cpu, --pids, --disk; flags
// of the form NAME=VALUE, as an object named like the flag; --network, --allow and --on-denied;
// these, --runtime, --image, --tier and --approval.
Result<> putLimits(const base::Flags& flags, base::json::object& body);
Result<> putPairs(const base::Flags& flags, std::string_view flag, base::json::object& body);
void putNetwork(const base::Flags& flags, base::json::object& body);
void putIsolation(const base::Flags& flags, base::json::object& body);

base::json::array toArray(const std::vector<std::string>& texts);

}  // namespace cloister::cli
