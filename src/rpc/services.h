// SPDX-License-Identifier: Apache-2.0
// The services of spec/proto, each call of which is one request of the REST API, or a few. Their
// objects outlive the gRPC server.
#pragma once

#include <memory>
#include <vector>

#include <grpcpp/impl/service_type.h>

#include "rpc/call.h"
#include "rpc/upstream.h"

namespace cloister::rpc {

struct Parts {
  Calls& calls;
  Upstream& upstream;
};

std::unique_ptr<grpc::Service> executions(Parts parts);
std::unique_ptr<grpc::Service> sessions(Parts parts);
std::unique_ptr<grpc::Service> files(Parts parts);
std::unique_ptr<grpc::Service> escalations(Parts parts);
std::unique_ptr<grpc::Service> operations(Parts parts);

}  // namespace cloister::rpc
