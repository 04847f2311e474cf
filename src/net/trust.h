// SPDX-License-Identifier: Apache-2.0
// Trust: the servers accepted by a client of TLS, and the client's own certificate.
#pragma once

#include <string>

#include <boost/asio/ssl/context.hpp>

#include "base/result.h"

namespace cloister::net {

struct Trust {
  std::string ca_file;                  // PEM; "": the system's authorities
  std::string pinned;                   // PEM; not "": accept only this certificate, under any name
  std::string certificate;              // PEM; "": present none
  std::string key;                      // PEM of its private key; "": in the same file
  std::string ca_name = "CLOISTER_CA";  // the setting that gives ca_file, for errors

  // $CLOISTER_CA, $CLOISTER_CERT and $CLOISTER_CERT_KEY.
  static Trust fromEnvironment();
};

// TLS 1.2 and 1.3. kInvalid names the setting, or the variable of the environment, whose file
// cannot be used.
Result<boost::asio::ssl::context> clientTls(const Trust& trust);

// Trusts the authorities of `ca_file`, or the system's (""). `key`: of the configuration, for
// errors.
Result<boost::asio::ssl::context> clientTls(const std::string& ca_file, const std::string& key);

}  // namespace cloister::net
