// SPDX-License-Identifier: Apache-2.0
// For tests of verification: a ledger whose file others change.
#pragma once

#include <sys/wait.h>

#include <cstdlib>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "audit/audit.h"
#include "store/open.h"
#include "store/sql/raw_testing.h"
#include "store/store_testing.h"

namespace cloister::audit {

// A ledger on disk with 10 finished executions (30 entries) and 10 notes: 40 entries.
class AuditVerify : public ::testing::Test {
 protected:
  void SetUp() override {
    open();
    for (int i = 0; i < 10; ++i) {
      const auto run = store::testing::finished(*store_, store::testing::queued());
      ASSERT_TRUE(run) << run.error().message;
      ids_.push_back(run->id);
    }
    for (int i = 0; i < 10; ++i)
      ASSERT_TRUE(store::testing::append(*store_, subject(i), "acme"));
    close();
  }

  static std::string subject(int i) { return "marker-" + std::to_string(i); }

  [[nodiscard]] store::SqliteOptions options() const {
    store::SqliteOptions out;
    out.path = dir_.file("ledger.db");
    out.audit_key = key_;
    out.checkpoint_file = checkpoints_;
    return out;
  }

  void open() {
    auto opened = store::openSqlite(options());
    ASSERT_TRUE(opened) << opened.error().message;
    store_ = std::move(*opened);
  }
  void close() { store_.reset(); }

  Report verifyNow() { return verify(*store_, key_->verifyKey(), checkpoints_, ""); }

  Report reopenAndVerify() {
    open();
    return store_ ? verifyNow() : Report{};
  }

  // As an attacker with the file, to whom triggers and unique indexes mean nothing.
  void sql(const std::string& text) {
    const std::string first =
        "DROP TRIGGER IF EXISTS audit_is_not_changed; DROP TRIGGER IF EXISTS audit_is_not_cut;"
        "DROP INDEX IF EXISTS audit_by_number;";
    store::testing::RawFile(dir_.file("ledger.db")).run(first + text);
  }

  void expectBad(const Report& report, uint64_t seq, const std::string& words) {
    EXPECT_FALSE(report.ok);
    EXPECT_EQ(report.first_bad, seq) << report.problem;
    EXPECT_THAT(report.problem, ::testing::HasSubstr(words));
    if (seq > 0) EXPECT_THAT(report.problem, ::testing::HasSubstr("entry " + std::to_string(seq)));
  }

  // Every entry as JSON lines in a file, for the script.
  std::string exported() {
    const std::string path = dir_.file("log.jsonl");
    std::ofstream out(path);
    for (const auto& entry : store_->audit(store::Scope::allTenants(), 0, 1000).value()) {
      out << exportLine(entry, store::Scope::allTenants()) << "\n";
    }
    return path;
  }

  // The exit status of tools/verify_audit.py; its output is in the file `said`.
  int runScript(const std::string& script, const std::string& arguments) {
    const std::string command =
        "/usr/bin/python3 " + script + " " + arguments + " >" + dir_.file("said") + " 2>&1";
    return WEXITSTATUS(std::system(command.c_str()));
  }

  store::testing::TempDir dir_;
  std::shared_ptr<const base::SigningKey> key_ =
      std::make_shared<const base::SigningKey>(base::SigningKey::generate());
  std::string checkpoints_ = dir_.file("audit.checkpoints");
  std::unique_ptr<store::Store> store_;
  std::vector<std::string> ids_;
};

}  // namespace cloister::audit
