// SPDX-License-Identifier: Apache-2.0
// The ledger in a file of SQLite's.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "artifacts/tenant_cipher.h"
#include "base/crypto.h"
#include "base/result.h"
#include "store/store.h"

namespace cloister::store {

struct SqliteOptions {
  std::string path;  // the file; its directory must exist
  Durability durability = Durability::kProcess;
  size_t queue = 4096;                     // writes waiting; more are refused with kQuota
  size_t queue_bytes = size_t{256} << 20;  // as are those that would make them hold more than this
  size_t batch = 256;                      // writes in one transaction, at most
  uint32_t readers = 2;
  // Signs the audit chain's head with each commit that extends it; a copy goes to the end of
  // `checkpoint_file` every `checkpoint_every` entries and on close ("" for no file). A copy of
  // that file elsewhere proves that nothing it covers was cut or replaced.
  std::shared_ptr<const base::SigningKey> audit_key;
  std::string checkpoint_file;
  uint64_t checkpoint_every = 1000;
  // Has the signed head of each commit before it is acknowledged (anchor.h); "" for none.
  std::string anchor_file = {};
  uint64_t anchor_max_bytes = uint64_t{1} << 20;
  // What clients asked for and what came of it is encrypted with this, also what a ledger of before
  // has in plain (encryption.h): the first start takes minutes for each gigabyte. Null: plain.
  std::shared_ptr<artifacts::TenantCipher> cipher = nullptr;
};

// Opens or makes the ledger, migrates it (store/migrations), recovers, and starts its threads. A
// ledger of a newer schema is refused.
Result<std::unique_ptr<Store>> openSqlite(const SqliteOptions& options);

}  // namespace cloister::store
