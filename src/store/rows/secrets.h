// SPDX-License-Identifier: Apache-2.0
// Secrets of tenants in the ledger.
#pragma once

#include <string>
#include <vector>

#include "store/secret_store.h"
#include "store/sql/db.h"
#include "store/write.h"

namespace cloister::store {

// Sets the value of the next version. kQuota if the tenant has `most` other secrets. The ledger
// adds the version to the event.
Result<SecretInfo> putSecret(Transaction tx, const NewSecret& secret, uint64_t most,
                             const model::AuditEvent& event);
// kNotFound if there is none.
Result<void> removeSecret(Transaction tx, const SecretName& of, int64_t at,
                          const model::AuditEvent& event);
// A use of these secrets of one tenant. A secret that is gone by now is skipped.
Result<void> noteSecretsUsed(Transaction tx, const std::string& tenant,
                             const std::vector<std::string>& names, int64_t at,
                             const model::AuditEvent& event);
Result<std::vector<SecretInfo>> listSecrets(Database& db, const std::string& tenant,
                                            const std::string& after, uint32_t limit);
Result<SecretInfo> getSecretInfo(Database& db, const SecretName& of);
Result<StoredSecret> getSecret(Database& db, const SecretName& of);

}  // namespace cloister::store
