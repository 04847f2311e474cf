// SPDX-License-Identifier: Apache-2.0
// The keys of tenants: of artifacts, and of the ledger. Each tenant has one random key, from which
// all of its others are derived. It lies in `dir`/<random name>/key, beside what it encrypts,
// wrapped by a master key that lies elsewhere. Without the master key nothing of any tenant can be
// read; without the wrapped key nothing of that tenant. docs/adr/0018 has the formats. One owner
// thread; TenantKeys may be read by any.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace cloister::artifacts {

// 32 secret bytes, wiped when they go.
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
  Secret names;     // names blobs on disk, so that a name does not tell the content
  Secret links;     // authenticates links
  Secret records;   // encrypts what the ledger keeps (tenant_cipher.h)
  Secret cursors;   // encrypts where pages of lists end (orchestrator/cursors.h)
};

// The master key first in force, then earlier ones, which are only good to unwrap: a file with one
// key (base64 of 32 bytes) a line. kInvalid says which line is not one.
Result<std::vector<Secret>> readMasterKeys(const std::string& path);
// Makes such a file with one new key, mode 0600, unless there is one.
Result<> ensureMasterKey(const std::string& path);

class Keyring {
 public:
  // Unwraps the keys of all tenants in `dir`, which must exist. Those under an earlier master key
  // are wrapped by the first one again; so the earlier one can be given up after a start with both.
  // kInvalid, with the remedy, when a key is under none of them, or is missing.
  static Result<std::unique_ptr<Keyring>> open(std::string dir, std::vector<Secret> masters);

  // Makes a key for a tenant that has none; durable when it returns.
  Result<std::shared_ptr<const TenantKeys>> of(const std::string& tenant);
  // Null for a tenant that has none.
  [[nodiscard]] std::shared_ptr<const TenantKeys> find(const std::string& tenant) const;
  [[nodiscard]] const std::map<std::string, std::shared_ptr<const TenantKeys>>& tenants() const {
    return tenants_;
  }
  // Destroys the key, and with it all that it encrypts; then removes that. Without it nothing can
  // be read, also where removing fails. A tenant that has no key is no error.
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
