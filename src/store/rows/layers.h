// SPDX-License-Identifier: Apache-2.0
// Dependency layers in the ledger. Bills of materials of pruned layers stay: records of executions
// name them.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "model/audit_entry.h"
#include "model/dependency.h"
#include "store/sql/db.h"
#include "store/write.h"

namespace cloister::store {

// Replaces a layer with the same key.
Result<void> putLayer(Transaction tx, const model::DependencyLayer& layer,
                      const model::AuditEvent& event);
// Writes `used_at`; no effect for an unknown layer.
Result<void> noteLayerUse(Transaction tx, const model::DependencyLayer& layer);
Result<void> dropLayer(Transaction tx, const model::DependencyLayer& layer,
                       const model::AuditEvent& event);

Result<std::vector<model::DependencyLayer>> readLayers(Database& db);
// By the SHA-256 of the bill.
Result<std::optional<std::string>> readBill(Database& db, const std::string& sha256);

}  // namespace cloister::store
