// SPDX-License-Identifier: Apache-2.0
// The public key of the audit log, from a user's file.
#pragma once

#include <string>

#include "base/crypto.h"
#include "base/result.h"
#include "cli/command.h"

namespace cloister::cli {

// The 32 bytes as base64, possibly with a line end. kInvalid names --key.
Result<base::VerifyKey> readPublicKey(const std::string& path);
// The key of the file that --key names. kInvalid without the flag.
Result<base::VerifyKey> namedPublicKey(const Invocation& invocation);

}  // namespace cloister::cli
