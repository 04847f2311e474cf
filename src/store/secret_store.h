// SPDX-License-Identifier: Apache-2.0
// The ledger's part for secrets: values under names of a tenant, encrypted as the tenant's records.
// Each change and each use has its audit row, in one transaction; no row has a value. Only value()
// gives values; the caller hands them to programs and to cloister-egress, and to nobody else.
// Threads, `done` and durability as in store.h.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "model/audit_entry.h"
#include "store/store.h"

namespace cloister::store {

struct SecretName {
  std::string tenant;
  std::string name;
};

// "secret:TENANT/NAME": the subject of audit rows. A / or % of the tenant's name is written as in
// URLs.
std::string secretSubject(const SecretName& of);

// A secret without its value.
struct SecretInfo {
  std::string name;
  uint64_t version = 0;
  int64_t created_at = 0;  // wall-clock microseconds, as the others
  int64_t updated_at = 0;
  std::string updated_by;    // id of the credential
  int64_t expires_at = 0;    // 0: never
  int64_t last_used_at = 0;  // 0: never

  friend bool operator==(const SecretInfo&, const SecretInfo&) = default;
};

struct NewSecret {
  SecretName of;
  std::string value;
  int64_t expires_at = 0;  // 0: never
  int64_t at = 0;
};

inline void tell(About& about, NewSecret& secret) {
  about.bytes = secret.value.size();
}

struct StoredSecret {
  SecretInfo info;
  std::string value;
};

class SecretStore {
 public:
  explicit SecretStore(Engine& engine) : engine_(engine) {}

  // By name. `limit`: 1..1000; `after`: the names behind this one.
  Result<std::vector<SecretInfo>> list(const std::string& tenant, const std::string& after = {},
                                       uint32_t limit = 1000);
  // kNotFound for a name that the tenant has not; also an expired secret is found.
  Result<SecretInfo> info(const SecretName& of);
  Result<StoredSecret> value(const SecretName& of);

  // For another part of the ledger that keeps encrypted values of tenants (document_store.h).
  [[nodiscard]] Engine& engine() const { return engine_; }

 private:
  Engine& engine_;
};

}  // namespace cloister::store
