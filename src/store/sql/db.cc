// SPDX-License-Identifier: Apache-2.0
#include "store/sql/db.h"

namespace cloister::store {

Result<bool> Statement::step() {
  if (bad_) return std::unexpected(prepared_->error("binding a ledger statement"));
  return prepared_->step();
}

Result<> Statement::run() {
  while (TRY(step())) {
  }
  return {};
}

Result<> Database::runKept(std::string_view sql) {
  Statement statement = TRY(use(sql));
  return statement.run();
}

Result<Statement> Database::use(std::string_view sql) {
  auto found = statements_.find(sql);
  if (found == statements_.end()) {
    found = statements_.emplace(sql, TRY(connection_->prepare(sql))).first;
  }
  return Statement(*found->second);
}

Result<std::string> Database::value(std::string_view sql) {
  Statement statement = TRY(use(sql));
  if (!TRY(statement.step())) return std::string();
  return statement.text(0);
}

}  // namespace cloister::store
