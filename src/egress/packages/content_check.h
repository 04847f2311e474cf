// SPDX-License-Identifier: Apache-2.0
// ContentCheck: judges a file by its bytes while they stream by: its digests, its size, and for npm
// its install scripts. Pure; not thread-safe.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "egress/packages/judgement.h"
#include "egress/packages/tarball_scan.h"

namespace cloister::egress {

// The content that a file has to have.
struct Expected {
  std::string file;            // its name, for the refusal
  std::string version = {};    // for the rule and the pins
  std::string sha256 = {};     // hex; "": not known
  std::string integrity = {};  // Subresource Integrity, as npm's registry has it; "": none
  std::string shasum = {};     // SHA-1 in hex, used where there is no `integrity`; "": none
  bool scan = false;           // look for install scripts
};

class ContentCheck {
 public:
  // `judge` outlives the check.
  ContentCheck(const PackageJudge& judge, Expected expected);
  ~ContentCheck();
  ContentCheck(ContentCheck&&) noexcept;
  ContentCheck& operator=(ContentCheck&&) noexcept;
  ContentCheck(const ContentCheck&) = delete;
  ContentCheck& operator=(const ContentCheck&) = delete;

  // Bytes of one call, at most: a scan unpacks them.
  static constexpr size_t kMostAtOnce = size_t{16} << 10;

  // The next bytes. A refusal is final.
  std::optional<PackageRefusal> feed(std::string_view bytes);
  // The file has ended.
  std::optional<PackageRefusal> end();
  [[nodiscard]] uint64_t bytes() const { return bytes_; }

 private:
  struct Digests;
  std::optional<PackageRefusal> unreadable(const Error& error) const;

  const PackageJudge* judge_;
  Expected expected_;
  std::unique_ptr<Digests> digests_;
  std::unique_ptr<TarballScan> scan_;
  uint64_t bytes_ = 0;
};

}  // namespace cloister::egress
