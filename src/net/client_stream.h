// SPDX-License-Identifier: Apache-2.0
// A client's byte stream to another service: TCP or a UNIX socket, with TLS after secure(). One
// deadline holds for all operations: an operation that waits at the deadline fails with
// beast::error::timeout. Such a read has lost nothing, and may be repeated with another deadline.
// One thread; one read and one write at a time, and with a deadline one operation. Not a template,
// so that protocols are compiled once for all transports.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/buffer.hpp>
#include <boost/asio/generic/stream_protocol.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/system/error_code.hpp>

#include "base/clock.h"
#include "base/fd.h"

namespace cloister::net {

class ClientStream {
 public:
  using Error = boost::system::error_code;
  using Endpoint = boost::asio::generic::stream_protocol::endpoint;

  explicit ClientStream(boost::asio::any_io_executor executor);
  // On a connected socket.
  ClientStream(boost::asio::any_io_executor executor, Endpoint::protocol_type protocol,
               base::Fd socket);
  ~ClientStream();
  ClientStream(const ClientStream&) = delete;
  ClientStream& operator=(const ClientStream&) = delete;
  ClientStream(ClientStream&&) noexcept;
  ClientStream& operator=(ClientStream&&) noexcept;

  void expiresAt(base::Monotonic deadline);
  void expiresNever();

  // Connects to the first accepting address of `host`. An address needs no look-up thread. A late
  // look-up of a name continues in its thread, and its answer is dropped.
  boost::asio::awaitable<Error> connect(const std::string& host, const std::string& port);
  // To the UNIX socket at `path`.
  boost::asio::awaitable<Error> connect(const std::string& path);
  boost::asio::awaitable<Error> connect(Endpoint endpoint);

  // Speaks TLS from now on. The peer must have a certificate for `host`; with "" the certificate
  // pinned in `tls` is enough.
  boost::asio::awaitable<Error> secure(boost::asio::ssl::context& tls, const std::string& host);
  [[nodiscard]] bool secured() const;
  // The reason why secure() failed with `error`, and the fault of the certificate, if any.
  [[nodiscard]] std::string tlsFault(const Error& error) const;
  // After secure() has failed: OpenSSL's name for the fault of the certificate, or "".
  [[nodiscard]] std::string certificateFault() const;

  // Some bytes, and their number.
  boost::asio::awaitable<std::pair<Error, size_t>> read(boost::asio::mutable_buffer into);
  // All bytes.
  boost::asio::awaitable<Error> write(boost::asio::const_buffer from);
  // Ends the direction of writing; reading continues.
  boost::asio::awaitable<Error> sayEnd();
  // Ends pending operations.
  void close();

  // Between operations. The socket alone; nothing of TLS is left behind.
  base::Fd release() &&;
  // Between operations. The same stream, TLS included, for another thread.
  ClientStream movedTo(boost::asio::any_io_executor executor) &&;

 private:
  struct State;
  std::shared_ptr<State> state_;
};

// `error` in words. Errors of OpenSSL begin with "TLS: ".
std::string causeOf(const ClientStream::Error& error);

}  // namespace cloister::net
