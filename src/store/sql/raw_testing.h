// SPDX-License-Identifier: Apache-2.0
// For tests: direct write access to the ledger's file, behind the ledger's back.
#pragma once

#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <sqlite3.h>

namespace cloister::store::testing {

class RawFile {
 public:
  explicit RawFile(const std::string& path) {
    EXPECT_EQ(sqlite3_open(path.c_str(), &db_), SQLITE_OK) << path;
  }
  RawFile(const RawFile&) = delete;
  RawFile& operator=(const RawFile&) = delete;
  ~RawFile() { sqlite3_close(db_); }

  void run(const std::string& sql) {
    EXPECT_EQ(sqlite3_exec(db_, sql.c_str(), nullptr, nullptr, nullptr), SQLITE_OK)
        << sqlite3_errmsg(db_);
  }
  // Whether a constraint or a trigger of the ledger refuses `sql`.
  bool refuses(const std::string& sql) {
    return sqlite3_exec(db_, sql.c_str(), nullptr, nullptr, nullptr) == SQLITE_CONSTRAINT;
  }
  // The first column of each row; none where somebody else has the lock.
  std::vector<std::string> column(const std::string& sql) {
    std::vector<std::string> values;
    const auto add = [](void* to, int /*count*/, char** columns, char** /*names*/) {
      static_cast<std::vector<std::string>*>(to)->emplace_back(columns[0]);
      return 0;
    };
    sqlite3_exec(db_, sql.c_str(), add, &values, nullptr);
    return values;
  }

 private:
  sqlite3* db_ = nullptr;
};

}  // namespace cloister::store::testing
