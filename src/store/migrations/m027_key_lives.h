// SPDX-License-Identifier: Apache-2.0
// Schema 27: the expiry that a key was given. A rotation shortens `expires_at` to the end of the
// overlap, and a further rotation needs the life from before. NULL: no rotation has shortened it.
// Earlier ledgers have only the life of the first successor, which is the key's own unless its
// maker asked for another.
#pragma once

namespace cloister::store {

inline constexpr char kKeyLives[] = R"sql(
ALTER TABLE api_keys ADD COLUMN given_expires_at INTEGER;
UPDATE api_keys SET given_expires_at = (
  SELECT CASE next.expires_at WHEN 0 THEN 0
              ELSE api_keys.created_at + next.expires_at - next.created_at END
  FROM api_keys next WHERE next.replaces=api_keys.id ORDER BY next.created_at, next.id LIMIT 1)
WHERE expires_at<>0 AND id IN (
  SELECT replaces FROM api_keys WHERE replaces<>'');
)sql";

}  // namespace cloister::store
