// SPDX-License-Identifier: Apache-2.0
#include "store/sql/schema.h"

#include <array>
#include <span>
#include <string>

#include "store/migrations/m001_initial.h"
#include "store/migrations/m002_sessions.h"
#include "store/migrations/m003_artifacts.h"
#include "store/migrations/m004_snapshots.h"
#include "store/migrations/m005_key_roles.h"
#include "store/migrations/m006_policies.h"
#include "store/migrations/m007_agents.h"
#include "store/migrations/m008_escalations.h"
#include "store/migrations/m009_escalation_rows.h"
#include "store/migrations/m010_quotas.h"
#include "store/migrations/m011_sealed.h"
#include "store/migrations/m012_image_bindings.h"
#include "store/migrations/m013_encrypted.h"
#include "store/migrations/m014_session_memory.h"
#include "store/migrations/m015_cut_artifacts.h"
#include "store/migrations/m016_escalation_requests.h"
#include "store/migrations/m017_artifact_agents.h"
#include "store/migrations/m018_numbers.h"
#include "store/migrations/m019_key_successors.h"
#include "store/migrations/m020_escalation_workspaces.h"
#include "store/migrations/m021_secrets.h"
#include "store/migrations/m022_layers.h"
#include "store/migrations/m023_session_names.h"
#include "store/migrations/m024_documents.h"
#include "store/migrations/m025_ui_sessions.h"
#include "store/migrations/m026_audit_roots.h"
#include "store/migrations/m027_key_lives.h"

namespace cloister::store {
namespace {

constexpr std::array<const char*, 27> kMigrations = {
    kInitial,        kSessions,      kArtifacts,     kSnapshots,
    kKeyRoles,       kPolicies,      kAgents,        kEscalations,
    kEscalationRows, kQuotas,        kSealed,        kImageBindings,
    kEncrypted,      kSessionMemory, kCutArtifacts,  kEscalationRequests,
    kArtifactAgents, kNumbers,       kKeySuccessors, kEscalationWorkspaces,
    kSecrets,        kLayers,        kSessionNames,  kDocuments,
    kUiSessions,     kAuditRoots,    kKeyLives};

Result<int64_t> number(Database& db, const char* pragma) {
  Statement statement = TRY(db.use(pragma));
  TRY(statement.step());
  return statement.integer(0);
}

// Together: an upgrade is made whole or not at all, and a new ledger reads its schema once.
Result<> apply(Database& db, size_t from) {
  TRY(db.run("BEGIN IMMEDIATE"));
  auto applied = [&]() -> Result<> {
    for (const char* step : std::span(kMigrations).subspan(from))
      TRY(db.run(step));
    TRY(db.run(("PRAGMA user_version=" + std::to_string(kMigrations.size())).c_str()));
    TRY(db.run(("PRAGMA application_id=" + std::to_string(kApplicationId)).c_str()));
    return db.run("COMMIT");
  }();
  if (!applied) db.rollBack();
  return applied;
}

}  // namespace

Result<> migrate(Database& db) {
  const auto version = static_cast<size_t>(TRY(number(db, "PRAGMA user_version")));
  const int64_t program = TRY(number(db, "PRAGMA application_id"));
  const bool empty = TRY(db.value("SELECT 1 FROM sqlite_schema LIMIT 1")).empty();
  if (!empty && program != kApplicationId) {
    return fail(Code::kInvalid, "opening the ledger: the file is not a Cloister ledger");
  }
  if (version > kMigrations.size()) {
    return fail(Code::kUnsupported, "opening the ledger: its schema " + std::to_string(version) +
                                        " is newer than this program's " +
                                        std::to_string(kMigrations.size()));
  }
  return version == kMigrations.size() ? Result<>{} : apply(db, version);
}

}  // namespace cloister::store
