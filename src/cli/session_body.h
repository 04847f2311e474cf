// SPDX-License-Identifier: Apache-2.0
// The flags of `cloister session …` and `cloister exec` → the bodies of their requests.
#pragma once

#include <span>
#include <string>

#include "base/flags.h"
#include "base/json.h"
#include "base/result.h"
#include "cli/relay.h"

namespace cloister::cli {

std::span<const base::Flag> sessionFlags();
std::span<const base::Flag> renewalFlags();
std::span<const base::Flag> execFlags();

// kInvalid names the flag, here and below.
Result<base::json::object> sessionBody(const base::Flags& flags);
Result<base::json::object> renewalBody(const base::Flags& flags);

Result<base::json::object> execBody(const base::Flags& flags, const FirstInput& input);

}  // namespace cloister::cli
