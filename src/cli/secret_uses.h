// SPDX-License-Identifier: Apache-2.0
// --secret of run, exec and session create → the member `secrets` of a request.
#pragma once

#include <string_view>

#include "base/flags.h"
#include "base/json.h"
#include "base/result.h"

namespace cloister::cli {

inline constexpr base::Flag kSecretFlag = {
    .name = "secret",
    .value = "NAME=WAY",
    .help =
        "a secret it gets: NAME=env:VARIABLE, NAME=file:PATH, or "
        "NAME=broker:HOST[:PORT][,header=…][,format=…][,variable=…][,method=…][,path=…]",
    .many = true};

// A use in the form of the flag. A brokered one without header and variable sets "Authorization"
// to "Bearer {}". kInvalid names the flag and the form.
Result<base::json::object> secretUse(std::string_view text);
Result<> putSecrets(const base::Flags& flags, base::json::object& body);

}  // namespace cloister::cli
