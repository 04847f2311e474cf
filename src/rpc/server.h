// SPDX-License-Identifier: Apache-2.0
// Server: all of cloister-grpc between its flags and its end. One io thread serves all calls;
// gRPC's own threads read and write its connections. The REST API is asked whether it is ready, and
// grpc.health.v1 says so.
#pragma once

#include <memory>
#include <string>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ssl/context.hpp>

#include "base/clock.h"
#include "base/result.h"
#include "net/url.h"

namespace cloister::rpc {

struct Bounds {
  size_t calls = 256;                       // under way at once
  size_t message_bytes = size_t{32} << 20;  // of one message, in either direction
  int streams_per_connection = 100;
  Millis keepalive{60'000};  // between pings on a connection without traffic
  Millis stall{60'000};      // in which a stream moves nothing
  Millis grace{10'000};      // for calls under way when the program stops
};

struct Settings {
  std::string listen;           // "127.0.0.1:8751", "[::1]:0", "unix:/path"
  std::string tls_certificate;  // PEM; "": plain
  std::string tls_key;          // PEM
  bool insecure = false;        // plain TCP on other addresses than loopback
  Bounds bounds;
};

class Server {
 public:
  // Listens. kInvalid for an address that may not be used so; kUnavailable if it cannot be bound.
  static Result<std::unique_ptr<Server>> start(boost::asio::io_context& io, Settings settings,
                                               net::Url api, boost::asio::ssl::context tls);
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;
  Server(Server&&) = delete;
  Server& operator=(Server&&) = delete;

  // The bound address, in the form of `listen`.
  [[nodiscard]] const std::string& address() const;
  // Takes no more calls. Those under way have their grace; then their streams and waits end with
  // UNAVAILABLE, and their executions go on. Ends the io_context.
  void stop();

 private:
  struct Impl;
  explicit Server(std::shared_ptr<Impl> impl);
  std::shared_ptr<Impl> impl_;
};

}  // namespace cloister::rpc
