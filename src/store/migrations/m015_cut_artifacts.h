// SPDX-License-Identifier: Apache-2.0
// Schema 15: marks artifacts that were cut at a limit.
#pragma once

namespace cloister::store {

inline constexpr char kCutArtifacts[] = R"sql(
-- Of what the artifact is only the beginning; 0: it is whole.
ALTER TABLE artifacts ADD COLUMN full_size INTEGER NOT NULL DEFAULT 0;
)sql";

}  // namespace cloister::store
