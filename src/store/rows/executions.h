// SPDX-License-Identifier: Apache-2.0
// Writes of executions: acceptance with idempotency, and the state machine. Also reads whole
// executions.
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

// See Store::earlier.
Result<std::optional<model::Execution>> earlierExecution(Database& db, const NewExecution& request,
                                                         const std::string& request_sha256);
// Writes the record and its audit row: its subject is the execution, and to its details the ledger
// adds `status` and `record_sha256`, which verification holds the record to. With `start` both
// states get their audit rows, and the record begins as running. A known idempotency key of this
// principal with the same request gives the earlier execution (replayed); with another request,
// kConflict.
Result<Accepted> acceptExecution(Transaction tx, const NewExecution& request,
                                 const model::AuditEvent& event);
// Moves a record to `execution.status`, storing all its fields. kConflict for a change that
// model::mayBecome() refuses: the first terminal state stays. The requester, the request and
// `created_at` stay as accepted. The audit row is as with acceptExecution().
Result<void> updateExecution(Transaction tx, const model::Execution& execution,
                             const model::AuditEvent& event);

// A row of (seq, record, archived_at) without its output bytes; an error names the execution.
Result<Record> readRecord(const Statement& row);
// Adds the kept output of `execution` (by its seq).
Result<> addOutput(Database& db, model::Execution& execution);

}  // namespace cloister::store
