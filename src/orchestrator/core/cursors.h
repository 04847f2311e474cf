// SPDX-License-Identifier: Apache-2.0
// Cursors: where a page of a list ended, for the client to hand back. The ledger counts rows over
// all tenants, and a row's number would tell a tenant how many there are. So a cursor is the number
// encrypted and authenticated (artifacts/aead.h) under a key of the reader's tenant, bound to its
// list: nobody reads one, makes one, or compares the rows of two lists with one. The key outlives
// the process, and so do cursors. The owner thread of the keyring.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "artifacts/keyring.h"
#include "base/result.h"

namespace cloister::orchestrator {

class Cursors {
 public:
  explicit Cursors(artifacts::Keyring& keys) : keys_(keys) {}

  // 64 characters of base64url (RFC 4648 §5), others for each call.
  [[nodiscard]] Result<std::string> seal(const std::string& tenant, std::string_view list,
                                         uint64_t number) const;
  // kInvalid, of `query.cursor`, for a cursor not sealed for this tenant and list.
  [[nodiscard]] Result<uint64_t> open(const std::string& tenant, std::string_view list,
                                      std::string cursor) const;

 private:
  artifacts::Keyring& keys_;
};

}  // namespace cloister::orchestrator
