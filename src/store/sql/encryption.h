// SPDX-License-Identifier: Apache-2.0
// What of the ledger is encrypted under the tenant's key: requests, specs, output, the records of
// executions, sessions and escalations, what violations say, what the audit log has sealed, and the
// values of sessions' memory. The columns to search by are not, nor is the log itself, which has
// digests of the plain text.
//
// Statements say encrypt(tenant, place, value) where they write, and encrypts(), 1 or 0, for the
// row's `encrypted`; TEXT stays TEXT, as base64. They read decrypted(encrypted, tenant, place,
// value), which an error ends, or legible(…), which is NULL then; or the view plain_TABLE, which is
// TABLE with its texts in plain. An empty value stays empty. Without a cipher all is plain.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "artifacts/tenant_cipher.h"
#include "base/result.h"
#include "store/sql/db.h"

namespace cloister::store {

// sqlite::open() of a ledger that has its newest schema, with these functions and views.
// `cipher`: null for none.
Result<Database> openWithCipher(const std::string& path,
                                const std::shared_ptr<artifacts::TenantCipher>& cipher);

// Of the ledger at `path`, which nobody else uses meanwhile. Refuses one that has something
// encrypted and no cipher, or of a tenant whose key is missing (kInvalid). Then encrypts the rows
// that are plain, in transactions of a bounded size, so that a start that was ended goes on where
// it was, and at last writes the file anew and empties the log, so that the plain text is gone from
// both. Where there is no room for that, the service's log says so, and the next start tries again.
Result<> encryptAll(const std::string& path,
                    const std::shared_ptr<artifacts::TenantCipher>& cipher);

}  // namespace cloister::store
