// SPDX-License-Identifier: Apache-2.0
// What the writer does to executions: acceptance with idempotency, the state machine, and reading
// one back whole. Each function runs inside the transaction it is given.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/result.h"
#include "store/records/record.h"
#include "store/sql/db.h"
#include "store/store.h"
#include "store/write.h"

namespace cloister::store {

// See Store::earlier, Store::accept and Store::update.
Result<std::optional<model::Execution>> earlierExecution(Database& db, const NewExecution& request,
                                                         const std::string& request_sha256);
Result<Accepted> acceptExecution(Transaction tx, const NewExecution& request,
                                 const model::AuditEvent& event);
Result<void> updateExecution(Transaction tx, const model::Execution& execution,
                             const model::AuditEvent& event);

// A row of (seq, record, archived_at) without its output bytes; an error names the execution.
Result<Record> readRecord(const Statement& row);
// Adds the kept output of `execution` (by its seq).
Result<> addOutput(Database& db, model::Execution& execution);

}  // namespace cloister::store
