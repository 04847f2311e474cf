// SPDX-License-Identifier: Apache-2.0
// Schema: executions whose image was verified only after their end.
#pragma once

namespace cloister::store {

inline constexpr char kImageBindings[] = R"sql(
-- An execution's record is sealed with its end, so what became known of its image lies beside it.
CREATE TABLE image_bindings(
  execution INTEGER PRIMARY KEY REFERENCES executions(seq) ON DELETE CASCADE,
  place     TEXT NOT NULL,    -- which image
  since     INTEGER NOT NULL, -- its sandbox was made after this, by the node's clock
  entry     INTEGER REFERENCES audit(seq),  -- that binds the digest; NULL: not verified yet
  digest    TEXT
) STRICT;
CREATE INDEX image_bindings_open ON image_bindings(place, execution) WHERE entry IS NULL;
)sql";

}  // namespace cloister::store
