// SPDX-License-Identifier: Apache-2.0
// Url: the address of another service, with the target of a request.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"

namespace cloister::net {

struct Url {
  bool tls = true;
  std::string host;    // without the brackets of an IPv6 address
  std::string port;    // decimal
  std::string target;  // "/path?query"; of a base URL its path, without a slash at the end
  std::string socket;  // path of a UNIX socket to connect to in place of host and port; "": none

  [[nodiscard]] std::string authority() const;  // "host:port", for Host and for messages
  [[nodiscard]] std::string origin() const;     // "https://host:port", and the target
};

// "https://host[:port]/path", or "http://" of loopback. kInvalid for anything else: credentials,
// fragments, other schemes.
Result<Url> parseUrl(std::string_view text);

// "http[s]://host[:port][/prefix]": where an API begins. kInvalid for anything else.
Result<Url> parseBaseUrl(std::string_view text);

// Percent-encodes everything but RFC 3986's unreserved characters.
std::string percentEncode(std::string_view text);

}  // namespace cloister::net
