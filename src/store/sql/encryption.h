// SPDX-License-Identifier: Apache-2.0
// Encryption of the ledger under the tenant's key. Encrypted are requests, specs, output, the
// records of executions, sessions and escalations, texts of violations, sealed members of the audit
// log, and values of sessions' memory. Columns for searching stay plain. The log itself stays
// plain, too, and has digests of the plain text.
//
// Statements call encrypt(tenant, place, value) in writes, and encrypts(), 1 or 0, for the row's
// `encrypted`; TEXT stays TEXT, as base64. Reads call decrypted(encrypted, tenant, place, value),
// which fails on an error, or legible(…), which returns NULL on an error. The view plain_TABLE is
// TABLE with its texts in plain. An empty value stays empty. Without a cipher all is plain.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "artifacts/tenant_cipher.h"
#include "base/result.h"
#include "store/sql/db.h"

namespace cloister::store {

// sqlite::open() of a ledger with the newest schema, with these functions and views. `cipher`: null
// for none.
Result<Database> openWithCipher(const std::string& path,
                                const std::shared_ptr<artifacts::TenantCipher>& cipher);

// Encrypts the ledger at `path`; nobody else may use the ledger meanwhile. Refuses a ledger with
// encrypted rows if there is no cipher, or if a tenant's key is missing (kInvalid). Encrypts plain
// rows in transactions of a bounded size, so that an interrupted start resumes at the same place.
// Finally rewrites the file and empties the log, so that both lose the plain text. Without enough
// disk space for the rewrite, the service's log reports the failure, and the next start tries
// again.
Result<> encryptAll(const std::string& path,
                    const std::shared_ptr<artifacts::TenantCipher>& cipher);

}  // namespace cloister::store
