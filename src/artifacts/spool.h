// SPDX-License-Identifier: Apache-2.0
// A spool file: a sealed file on the local disk without the name of a blob yet. It lies in tmp/ of
// the tenant's directory, and goes with its object. After a crash recoverSpools() finds it. One
// thread at a time.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "artifacts/blobs.h"
#include "artifacts/keyring.h"
#include "artifacts/sealed_file.h"
#include "base/result.h"

namespace cloister::artifacts {

class Spool {
 public:
  static Result<std::unique_ptr<Spool>> make(std::shared_ptr<const TenantKeys> keys);
  Spool(const Spool&) = delete;
  Spool& operator=(const Spool&) = delete;
  ~Spool();

  Result<> write(std::string_view bytes) { return sealed_.write(bytes); }
  // SealedWriter::finish().
  Result<std::string> seal(bool sync) { return sealed_.finish(sync); }
  [[nodiscard]] const std::string& path() const { return path_; }
  [[nodiscard]] const TenantKeys& keys() const { return *keys_; }
  // The file stays for recoverSpools().
  void leave() { left_ = true; }

 private:
  Spool(std::shared_ptr<const TenantKeys> keys, std::string path, base::Fd file);

  std::shared_ptr<const TenantKeys> keys_;
  std::string path_;
  bool left_ = false;
  SealedWriter sealed_;
};

// Where a blob is: "2 hex digits/62 hex digits", a keyed hash of its digest, so that the name does
// not reveal the content.
std::string placeOf(const TenantKeys& keys, std::string_view digest);

// For each complete spool file of an earlier process whose blob has no name in the ledger, calls
// `remove`. Removes the spool files, except where `remove` failed.
Result<> recoverSpools(const Keyring& keyring, const Blobs::Named& named,
                       const std::function<Result<>(const BlobName&)>& remove);

// Makes a directory without parents, mode 0700: a forgotten tenant's directory must not come back.
Result<> makeTenantDir(const std::string& path);

}  // namespace cloister::artifacts
