// SPDX-License-Identifier: Apache-2.0
// URLs of a package index: its own, from the configuration, and those within its documents, which
// are hostile. Pure; thread-safe.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"

namespace cloister::egress {

struct UpstreamUrl {
  bool tls = true;
  std::string host;  // a name in lower case, or an address without brackets
  uint16_t port = 443;
  std::string target;  // "/path?query", in printable ASCII

  [[nodiscard]] std::string authority() const;  // for Host
  [[nodiscard]] std::string text() const;
  [[nodiscard]] bool sameOrigin(const UpstreamUrl& other) const {
    return tls == other.tls && host == other.host && port == other.port;
  }
};

inline constexpr size_t kMaxUpstreamUrl = 4096;

// "http[s]://host[:port]/path?query". Fragments are dropped. kInvalid: another form, user
// information, control characters.
Result<UpstreamUrl> parseUpstreamUrl(std::string_view text);
// A reference within the document at `base` (RFC 3986, section 5.2).
Result<UpstreamUrl> resolveUrl(const UpstreamUrl& base, std::string_view reference);

// Percent-decoding; kInvalid for a malformed escape. "+" stays.
Result<std::string> percentDecoded(std::string_view text);

}  // namespace cloister::egress
