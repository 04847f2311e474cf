// SPDX-License-Identifier: Apache-2.0
// A few read-only connections, each lent to one thread at a time.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "store/sql/db.h"
#include "store/sql/encryption.h"
#include "store/sql/mutex.h"

namespace cloister::store {

class Readers {
 public:
  Result<> open(const std::string& path, uint32_t count,
                const std::shared_ptr<artifacts::TenantCipher>& cipher) {
    const Lock lock(mutex_);
    for (uint32_t i = 0; i < count; ++i) {
      Database db = TRY(openWithCipher(path, cipher));
      TRY(db.run("PRAGMA query_only=ON"));
      idle_.push_back(std::move(db));
    }
    return {};
  }

  // Runs `read` on a connection; waits while all connections are lent.
  template <class Read>
  auto with(Read read) {
    Database db = take();
    auto result = read(db);
    give(std::move(db));
    return result;
  }

 private:
  Database take() {
    const Lock lock(mutex_);
    while (idle_.empty())
      returned_.wait(mutex_);
    Database db = std::move(idle_.back());
    idle_.pop_back();
    return db;
  }

  void give(Database db) {
    const Lock lock(mutex_);
    idle_.push_back(std::move(db));
    returned_.notifyOne();
  }

  Mutex mutex_;
  Condition returned_;
  std::vector<Database> idle_ CLOISTER_GUARDED_BY(mutex_);
};

}  // namespace cloister::store
