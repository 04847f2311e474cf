// SPDX-License-Identifier: Apache-2.0
// The keys of tenants: of artifacts, and of the ledger. Each tenant has one random key, from which
// all of its other keys are derived. The random key lies in `dir`/<random name>/key, beside the
// encrypted data, wrapped by a master key that lies elsewhere. Without the master key no data of
// any tenant can be read; without the wrapped key no data of its tenant. docs/adr/0018 has the
// formats. One owner thread; any thread may read TenantKeys.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace cloister::artifacts {

// 32 secret bytes, wiped on destruction.
class Secret {
 public:
  static constexpr size_t kSize = 32;

  Secret() = default;
  explicit Secret(std::string_view bytes);  // of kSize
  Secret(const Secret&) = default;
  Secret& operator=(const Secret&) = default;
  ~Secret();

  static Secret random();
  [[nodiscard]] const unsigned char* data() const { return bytes_; }
  [[nodiscard]] std::string_view view() const {
    return {reinterpret_cast<const char*>(bytes_), kSize};
  }

 private:
  unsigned char bytes_[kSize] = {};
};

struct TenantKeys {
  std::string dir;  // the tenant's directory
  Secret content;   // encrypts
  Secret names;     // names blobs on disk, so that a name does not reveal the content
  Secret links;     // authenticates links
  Secret records;   // encrypts the ledger's fields (tenant_cipher.h)
  Secret cursors;   // encrypts where pages of lists end (orchestrator/cursors.h)
};

// The current master key, then earlier keys, used only to unwrap: a file with a key (base64 of 32
// bytes) a line. kInvalid names a malformed line.
Result<std::vector<Secret>> readMasterKeys(const std::string& path);
// Makes a file with a new key, mode 0600, unless the file exists.
Result<> ensureMasterKey(const std::string& path);

class Keyring {
 public:
  // Unwraps the keys of all tenants in `dir`, which must exist. Keys wrapped by an earlier master
  // key are wrapped again by the current key; after a start with both, the earlier key can be
  // removed. kInvalid, with the remedy, if no master key unwraps a key, or a key is missing.
  static Result<std::unique_ptr<Keyring>> open(std::string dir, std::vector<Secret> masters);

  // The tenant's keys, made if missing; durable on return.
  Result<std::shared_ptr<const TenantKeys>> of(const std::string& tenant);
  // Null for a tenant without keys.
  [[nodiscard]] std::shared_ptr<const TenantKeys> find(const std::string& tenant) const;
  [[nodiscard]] const std::map<std::string, std::shared_ptr<const TenantKeys>>& tenants() const {
    return tenants_;
  }
  // Destroys the key, and thereby all data encrypted by the key; then removes the data. Without the
  // key the data is unreadable even if the removal fails. A tenant without a key is no error.
  Result<> forget(const std::string& tenant);

 private:
  Keyring(std::string dir, std::vector<Secret> masters);
  Result<> load(const std::string& name);
  [[nodiscard]] Result<> wrap(const std::string& name, const Secret& key,
                              const std::string& tenant) const;
  [[nodiscard]] Result<> keep(const std::string& name, const Secret& key,
                              const std::string& tenant) const;
  void add(const std::string& name, const Secret& key, const std::string& tenant);

  std::string dir_;
  std::vector<Secret> masters_;
  std::map<std::string, std::shared_ptr<const TenantKeys>> tenants_;
};

}  // namespace cloister::artifacts
