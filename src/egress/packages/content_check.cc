// SPDX-License-Identifier: Apache-2.0
#include "egress/packages/content_check.h"

#include <array>
#include <utility>
#include <vector>

#include <openssl/evp.h>

#include "base/crypto.h"

namespace cloister::egress {
namespace {

class Digest {
 public:
  Digest(const EVP_MD* kind, std::string wanted)
      : context_(EVP_MD_CTX_new()), wanted_(std::move(wanted)) {
    good_ = context_ && kind != nullptr && EVP_DigestInit_ex(context_.get(), kind, nullptr) == 1;
  }
  void update(std::string_view bytes) {
    good_ = good_ && EVP_DigestUpdate(context_.get(), bytes.data(), bytes.size()) == 1;
  }
  // The raw bytes; "" after a failure of the library, which then equals nothing.
  std::string finish() {
    std::array<unsigned char, EVP_MAX_MD_SIZE> bytes{};
    unsigned int size = 0;
    if (!good_ || EVP_DigestFinal_ex(context_.get(), bytes.data(), &size) != 1) return {};
    return {reinterpret_cast<const char*>(bytes.data()), size};
  }
  [[nodiscard]] const std::string& wanted() const { return wanted_; }

 private:
  struct Free {
    void operator()(EVP_MD_CTX* context) const { EVP_MD_CTX_free(context); }
  };
  std::unique_ptr<EVP_MD_CTX, Free> context_;
  std::string wanted_;  // raw bytes; "": any
  bool good_ = false;
};

// The strongest digest of "sha512-BASE64 sha256-BASE64" that is known (Subresource Integrity,
// section 3.3.4), as an algorithm and raw bytes. Empty: there is none.
struct Integrity {
  const EVP_MD* kind = nullptr;
  std::string bytes = {};
};
Integrity strongest(std::string_view text) {
  const std::array<std::pair<std::string_view, const EVP_MD* (*)()>, 4> kinds = {
      {{"sha512-", EVP_sha512},
       {"sha384-", EVP_sha384},
       {"sha256-", EVP_sha256},
       {"sha1-", EVP_sha1}}};
  for (const auto& [prefix, kind] : kinds) {
    for (std::string_view rest = text; !rest.empty();) {
      const size_t space = std::min(rest.find(' '), rest.size());
      std::string_view one = rest.substr(0, space);
      rest.remove_prefix(std::min(space + 1, rest.size()));
      if (!one.starts_with(prefix)) continue;
      one = one.substr(prefix.size());
      one = one.substr(0, one.find('?'));  // options
      if (auto bytes = base::fromBase64(one)) return {kind(), *std::move(bytes)};
    }
  }
  return {};
}

}  // namespace

struct ContentCheck::Digests {
  Digest sha256;
  std::optional<Digest> other;
};

ContentCheck::ContentCheck(const PackageJudge& judge, Expected expected)
    : judge_(&judge), expected_(std::move(expected)) {
  digests_ = std::make_unique<Digests>(Digest(EVP_sha256(), expected_.sha256), std::nullopt);
  Integrity integrity = strongest(expected_.integrity);
  if (integrity.kind != nullptr) {
    digests_->other.emplace(integrity.kind, std::move(integrity.bytes));
  } else if (!expected_.shasum.empty()) {
    digests_->other.emplace(EVP_sha1(), expected_.shasum);
  }
  if (expected_.scan) scan_ = std::make_unique<TarballScan>();
}

ContentCheck::~ContentCheck() = default;
ContentCheck::ContentCheck(ContentCheck&&) noexcept = default;
ContentCheck& ContentCheck::operator=(ContentCheck&&) noexcept = default;

std::optional<PackageRefusal> ContentCheck::unreadable(const Error& error) const {
  return judge_->hasScripts(expected_.version,
                            "whether it has a script is not known, since " + error.message);
}

std::optional<PackageRefusal> ContentCheck::feed(std::string_view bytes) {
  bytes_ += bytes.size();
  if (bytes_ > judge_->maxBytes()) return judge_->tooLarge(expected_.file);
  digests_->sha256.update(bytes);
  if (digests_->other) digests_->other->update(bytes);
  if (!scan_) return std::nullopt;
  if (const auto scanned = scan_->feed(bytes); !scanned) return unreadable(scanned.error());
  if (!scan_->scripts().empty()) return judge_->hasScripts(expected_.version, scan_->scripts());
  return std::nullopt;
}

std::optional<PackageRefusal> ContentCheck::end() {
  const std::string sha256 = base::toHex(digests_->sha256.finish());
  if (!expected_.sha256.empty() && sha256 != expected_.sha256) {
    return judge_->wrongHash(expected_.file);
  }
  if (digests_->other) {
    const std::string found = digests_->other->finish();
    const bool raw = strongest(expected_.integrity).kind != nullptr;
    if (found.empty() || (raw ? found : base::toHex(found)) != digests_->other->wanted()) {
      return judge_->wrongHash(expected_.file);
    }
  }
  if (auto refusal = judge_->pins(expected_.version, sha256)) return refusal;
  if (!scan_) return std::nullopt;
  if (const auto scanned = scan_->end(); !scanned) return unreadable(scanned.error());
  if (!scan_->scripts().empty()) return judge_->hasScripts(expected_.version, scan_->scripts());
  return std::nullopt;
}

}  // namespace cloister::egress
