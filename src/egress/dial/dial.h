// SPDX-License-Identifier: Apache-2.0
// Dialler: a connection to a name, for a sandbox. It resolves the name, refuses an answer with an
// address that may not be dialled (addresses.h), connects to exactly one of the checked addresses,
// in order, and compares the peer's address. cloister-egress makes every outside connection here.
//
// With a proxy (`egress.upstream`) the proxy resolves: names go to the proxy with CONNECT, and the
// proxy's operator answers for the addresses. Names of the operator's own networks never take the
// proxy. One thread.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ssl/context.hpp>

#include "base/clock.h"
#include "base/network.h"
#include "base/result.h"
#include "egress/dial/addresses.h"
#include "egress/dial/resolver.h"

namespace cloister::egress {

// A company's proxy, which speaks HTTP/1.1 and CONNECT.
struct Upstream {
  std::string host;  // a name or an address; the address rules do not apply to it
  uint16_t port = 0;
  std::string authorization = {};  // value of Proxy-Authorization; "": none is sent
  // The authorities of the proxy's certificate, which must be for `host`; null: it speaks no TLS.
  std::shared_ptr<boost::asio::ssl::context> tls = {};
};

// "http://host:port" or "https://host:port"; a file with one line "user:password" ("": none), which
// is sent as Basic (RFC 7617); with https a PEM file of authorities ("": the system's). Reads the
// files now, since the later user of the process may not. kInvalid names the fault.
Result<Upstream> readUpstream(std::string_view url, const std::string& credentials_file,
                              const std::string& ca_file = "");

// TLS to inspected hosts: the system's authorities, and those of `ca_file` ("": none). kInvalid
// names the fault of the file.
Result<std::shared_ptr<boost::asio::ssl::context>> readOrigins(const std::string& ca_file);

struct DialOptions {
  AddressRules addresses = {};
  std::optional<Upstream> upstream = {};
  // Names that lead to this service itself: "api.cloister.internal". They are not resolved.
  std::map<std::string, boost::asio::ip::tcp::endpoint, std::less<>> own = {};
  // The authorities of inspected hosts; null: nothing is inspected.
  std::shared_ptr<boost::asio::ssl::context> origins = {};
  Millis most_time{10'000};   // for all addresses, with the look-up
  Millis try_time{4'000};     // for one address, unless it is the last
  size_t most_addresses = 8;  // that are tried
};

struct Target {
  std::string name;  // of model::hostName()
  uint16_t port = 0;
  bool internal = false;                     // a rule of the operator's own networks allows it
  std::vector<base::Network> networks = {};  // with `internal`: whose private addresses are allowed
  // Asked before each connection: false ends the dial, because the rules changed meanwhile.
  std::function<bool()> wanted = {};
  std::shared_ptr<size_t> look_ups = {};  // the sandbox's in flight: Resolver
};

struct Dialled {
  explicit Dialled(const boost::asio::any_io_executor& executor) : socket(executor) {}
  boost::asio::ip::tcp::socket socket;
  std::string address;  // for records: "198.51.100.7", or "proxy.corp.test:3128" of a proxy
  std::string early;    // the peer's first bytes, which came with a proxy's answer
  // True once the stream broke off, which `socket` reads as an end like any other. Null: the errors
  // of `socket` are enough.
  std::shared_ptr<const bool> broken = {};
};

class Dialler {
 public:
  template <class T>
  using Task = boost::asio::awaitable<T>;

  Dialler(boost::asio::any_io_executor executor, Resolver& resolver, DialOptions options);

  // kDenied: an address is refused; kNotFound: the name has no address; kConflict: `wanted` said
  // no; kUnavailable: nothing could be reached; kQuota: too many look-ups. The message is for the
  // sandbox. The caller keeps the dialler.
  Task<Result<Dialled>> dial(Target target);
  // For TLS over a dialled connection that is inspected; may be null.
  [[nodiscard]] boost::asio::ssl::context* origins() const { return options_.origins.get(); }

 private:
  using Endpoint = boost::asio::ip::tcp::endpoint;

  Task<Result<Dialled>> direct(const Target& target, base::Monotonic deadline);
  Task<Result<Dialled>> throughUpstream(const Target& target, base::Monotonic deadline);
  Task<Result<Dialled>> firstOf(const Target& target, const std::vector<base::Address>& addresses,
                                base::Monotonic deadline);
  Task<Result<Dialled>> connect(const Target& target, Endpoint to, base::Monotonic deadline);

  boost::asio::any_io_executor executor_;
  Resolver& resolver_;
  DialOptions options_;
};

}  // namespace cloister::egress
