// SPDX-License-Identifier: Apache-2.0
// Dialect: the edge of an interface compatible with another service's clients: the place of the
// credential, and the form of errors. Everything else is the same as for /v1. On the io thread.
#pragma once

#include <optional>
#include <string_view>

#include "api/http/http.h"
#include "auth/credential.h"
#include "base/result.h"

namespace cloister::api {

class Dialect {
 public:
  Dialect() = default;
  virtual ~Dialect() = default;
  Dialect(const Dialect&) = delete;
  Dialect& operator=(const Dialect&) = delete;

  // The first segment of its paths: "e2b" for /e2b and below.
  [[nodiscard]] virtual std::string_view prefix() const = 0;
  // The API key or token of the client; "": none.
  [[nodiscard]] virtual std::string_view credential(const Request& request) const = 0;
  // The identity by a credential of the interface's own making, such as the token of one sandbox;
  // nullopt: the request has none, and credential() decides. The route is known.
  [[nodiscard]] virtual std::optional<Result<auth::Identity>> ownIdentity(
      const Request& /*request*/) const {
    return std::nullopt;
  }
  // Gives the answer to Response::failure the client's form; status and other headers stay unless
  // the client expects others.
  virtual void refuse(const Request& request, Response& response) const = 0;
};

}  // namespace cloister::api
