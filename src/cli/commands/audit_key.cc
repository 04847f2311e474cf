// SPDX-License-Identifier: Apache-2.0
#include "cli/commands/audit_key.h"

#include "base/file.h"

namespace cloister::cli {

Result<base::VerifyKey> readPublicKey(const std::string& path) {
  constexpr size_t kMost = 4096;
  std::string text = TRY(base::readFile(path, kMost));
  while (text.ends_with('\n') || text.ends_with('\r'))
    text.pop_back();
  const auto key = base::VerifyKey::fromBase64(text);
  if (key) return *key;
  return fail(Code::kInvalid, "--key: " + path + " has no public key (`cloister audit public-key`)",
              "key");
}

Result<base::VerifyKey> namedPublicKey(const Invocation& invocation) {
  if (const auto path = invocation.flags.text("key")) return readPublicKey(*path);
  return fail(Code::kInvalid,
              "--key: is required, a file with the public key (`cloister audit public-key`)");
}

}  // namespace cloister::cli
