// SPDX-License-Identifier: Apache-2.0
// The server's side of TLS (1.2 and 1.3): its certificate, and which clients' certificates are
// believed. A client that shows none is let in, and needs another credential.
//
// The files are looked at again when a connection comes, at most once a second; what has changed
// holds from then on, for new connections. Files that cannot be used leave the former in force, and
// are logged once. One thread.
#pragma once

#include <array>
#include <memory>
#include <optional>
#include <string>

#include <boost/asio/ssl/context.hpp>

#include "auth/certificates.h"
#include "base/clock.h"
#include "base/result.h"
#include "model/config.h"

namespace cloister::api {

class ServerTls {
 public:
  // None where `config` names no certificate. kInvalid names the key of the configuration.
  static Result<std::unique_ptr<ServerTls>> open(const model::Config::Tls& config);

  std::shared_ptr<boost::asio::ssl::context> context();
  // When the certificate in force can no longer be used; seconds since the epoch.
  int64_t expires();

 private:
  using Stamp = std::array<int64_t, 3>;  // inode, size, time of the last change

  explicit ServerTls(model::Config::Tls config) : config_(std::move(config)) {}
  Result<> read();
  [[nodiscard]] std::array<Stamp, 4> stamps() const;

  model::Config::Tls config_;
  std::shared_ptr<boost::asio::ssl::context> context_;
  std::array<Stamp, 4> seen_{};
  base::Monotonic looked_{};
};

// The certificate that the client has shown and TLS has verified; none if it showed none.
std::shared_ptr<const auth::ClientCertificate> shownCertificate(SSL* connection);

}  // namespace cloister::api
