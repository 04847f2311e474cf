// SPDX-License-Identifier: Apache-2.0
// Refusal: why a call ends without its answer, as a status of gRPC. Made from an answer of the REST
// API (its HTTP status and the `error` of its problem document), or from an Error of ours. The
// status has google.rpc details: ErrorInfo (the error's type, remedy and details), BadRequest (the
// field), RetryInfo (Retry-After) and RequestInfo (the id under which the service's log has the
// request). Values.
#pragma once

#include <expected>
#include <string>

#include <grpcpp/support/status.h>

#include "base/result.h"
#include "net/http_connection.h"

namespace cloister::rpc {

struct Refusal {
  grpc::Status status;

  // NOLINTNEXTLINE(google-explicit-constructor): TRY passes errors on
  Refusal(const Error& error);
  explicit Refusal(grpc::Status of) : status(std::move(of)) {}
};

template <class T = void>
using Reply = std::expected<T, Refusal>;

// An answer whose status is no success.
Refusal refusalOf(const net::HttpHead& head, std::string_view body);

// A refusal of this program itself, for a full place: RESOURCE_EXHAUSTED with RetryInfo.
Refusal busy(std::string message);

}  // namespace cloister::rpc
