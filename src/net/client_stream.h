// SPDX-License-Identifier: Apache-2.0
// A client's byte stream to another service: TCP or a UNIX socket, with TLS around it once secure()
// is called. One deadline holds for all operations: when it passes, the socket is closed and the
// pending operation fails with beast::error::timeout. One operation at a time, on one thread.
// Not a template, so that what speaks over it is compiled once for all transports.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/buffer.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/system/error_code.hpp>

#include "base/clock.h"

namespace cloister::net {

class ClientStream {
 public:
  using Error = boost::system::error_code;

  explicit ClientStream(boost::asio::any_io_executor executor);
  ~ClientStream();
  ClientStream(const ClientStream&) = delete;
  ClientStream& operator=(const ClientStream&) = delete;
  ClientStream(ClientStream&&) noexcept;
  ClientStream& operator=(ClientStream&&) noexcept;

  void expiresAt(base::Monotonic deadline);
  void expiresNever();

  // To the first address of `host` that accepts. A look-up of the name that is late goes on in its
  // thread, and its answer is dropped.
  boost::asio::awaitable<Error> connect(const std::string& host, const std::string& port);
  // To the UNIX socket at `path`.
  boost::asio::awaitable<Error> connect(const std::string& path);
  // Speaks TLS from now on, with a peer whose certificate is that of `host`. `tls` outlives this.
  boost::asio::awaitable<Error> secure(boost::asio::ssl::context& tls, const std::string& host);
  // Why secure() has failed with `error`: where it was the certificate, what is wrong with that.
  [[nodiscard]] std::string tlsFault(const Error& error) const;

  // Some bytes, and their number.
  boost::asio::awaitable<std::pair<Error, size_t>> read(boost::asio::mutable_buffer into);
  // All bytes.
  boost::asio::awaitable<Error> write(boost::asio::const_buffer from);

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace cloister::net
