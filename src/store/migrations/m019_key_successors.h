// SPDX-License-Identifier: Apache-2.0
// Schema 19: the keys that replace a key are found without reading its tenant's.
#pragma once

namespace cloister::store {

inline constexpr char kKeySuccessors[] = R"sql(
CREATE INDEX IF NOT EXISTS api_keys_by_replaced ON api_keys(replaces) WHERE replaces<>'';
)sql";

}  // namespace cloister::store
