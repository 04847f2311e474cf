// SPDX-License-Identifier: Apache-2.0
// A signed execution receipt: the request, the permission, the outcome, and the place in the audit
// log. The public key of the audit log is enough to verify a receipt; docs/AUDIT.md defines the
// bytes. Pure.
#pragma once

#include <string_view>

#include "base/crypto.h"
#include "base/json.h"
#include "base/result.h"

namespace cloister::model {

inline constexpr std::string_view kReceiptFormat = "cloister-execution-receipt v1";

// Makes a receipt of `facts`: adds `format`, the digest of each field under `fields`, and a
// `signature`. Equal facts give equal bytes. No number in `facts` may have a fraction.
base::json::object sealReceipt(base::json::object facts, const base::SigningKey& key);

// kInvalid names each changed, missing or added field by its JSON Pointer (RFC 6901); `field` is
// the first. Hostile input.
Result<> verifyReceipt(const base::json::object& receipt, const base::VerifyKey& key);

}  // namespace cloister::model
