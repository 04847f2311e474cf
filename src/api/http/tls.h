// SPDX-License-Identifier: Apache-2.0
// The server's side of TLS (1.2 and 1.3): its certificate, and the trusted clients' certificates. A
// client without a certificate is let in, and needs another credential.
//
// Each new connection looks at the files again, at most once a second; changes hold for later
// connections. If the files are unusable, the former stay in force, and the error is logged once.
// One thread.
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

// The client's certificate, verified by TLS; none if the client showed none.
std::shared_ptr<const auth::ClientCertificate> shownCertificate(SSL* connection);

}  // namespace cloister::api
