// SPDX-License-Identifier: Apache-2.0
// One exchange with another service: a document of the identity provider, or a notification for a
// webhook. Over HTTPS with strict verification, or over HTTP
// with loopback. Bounded in time and size; no redirect is followed, since where it leads to is not
// for the answer to say. On the io thread.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <boost/asio/awaitable.hpp>
#include <boost/asio/ssl/context.hpp>

#include "base/clock.h"
#include "base/result.h"

namespace cloister::net {

struct Url {
  bool tls = true;
  std::string host;  // without the brackets of an IPv6 address
  std::string port;
  std::string target;  // "/path?query"
  std::string socket;  // path of a UNIX socket to connect to in place of host and port; "": none
};

// "https://host[:port]/path", or "http://" of loopback. kInvalid for anything else: credentials,
// fragments, other schemes.
Result<Url> parseUrl(std::string_view text);

struct FetchLimits {
  Millis timeout{5'000};
  size_t bytes = size_t{256} << 10;
};

boost::asio::awaitable<Result<std::string>> fetch(Url url, boost::asio::ssl::context& tls,
                                                  FetchLimits limits);

// What is sent, as JSON, with more headers; neither names nor values may have line ends in them.
struct Posted {
  std::string body;
  std::vector<std::pair<std::string, std::string>> headers;
};
// Done with any answer of success (2xx).
boost::asio::awaitable<Result<>> post(Url url, boost::asio::ssl::context& tls, Posted posted,
                                      FetchLimits limits);

// Trusts the authorities of `ca_file`, or the system's (""). `key`: of the configuration, for
// errors.
Result<boost::asio::ssl::context> clientTls(const std::string& ca_file,
                                            const std::string& key = "auth.oidc.ca_file");

}  // namespace cloister::net
