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
  size_t queue_bytes = size_t{256} << 20;  // a write beyond this size of the queue is refused, too
  size_t batch = 256;                      // most writes in a transaction
  uint32_t readers = 2;       // connections for reads that callers wait for, or that run at once
  uint32_t read_threads = 1;  // for awaited reads, each with a connection; nothing awaits yet
  uint32_t waiting_reads = 1024;  // requests that wait for one of the threads; more are refused
  bool pool_reads = false;        // for tests: awaited reads never run at once
  // Signs the audit chain's head with each commit that extends the chain. A copy is appended to
  // `checkpoint_file` every `checkpoint_every` entries and on close ("" for no file). A copy of the
  // file elsewhere proves that covered entries were neither cut nor replaced.
  std::shared_ptr<const base::SigningKey> audit_key;
  std::string checkpoint_file;
  uint64_t checkpoint_every = 1000;
  // Receives the signed head of each commit before the acknowledgement (anchor.h); "" for none.
  std::string anchor_file = {};
  uint64_t anchor_max_bytes = uint64_t{1} << 20;
  // A file outside of the ledger with published heads of the log (notify/checkpoints.h), compared
  // at the opening; "" for none.
  std::string published_file = {};
  // Encrypts clients' requests and results. The first start also encrypts an older ledger's plain
  // rows (encryption.h), which takes minutes for each gigabyte. Null: plain.
  std::shared_ptr<artifacts::TenantCipher> cipher = nullptr;
};

// Opens or makes the ledger, migrates its schema (store/migrations), recovers, and starts its
// threads. Refuses a ledger of a newer schema.
Result<std::unique_ptr<Store>> openSqlite(const SqliteOptions& options);

}  // namespace cloister::store
