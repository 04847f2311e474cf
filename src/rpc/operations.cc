// SPDX-License-Identifier: Apache-2.0
#include <memory>

#include <cloister/v1/operations.grpc.pb.h>

#include "rpc/json_mapping.h"
#include "rpc/reactors.h"
#include "rpc/services.h"

namespace cloister::rpc {
namespace {

using Context = grpc::CallbackServerContext;
using google::protobuf::Empty;

constexpr Millis kReady{5'000};

class Operations final : public v1::Operations::CallbackService {
 public:
  explicit Operations(Parts parts) : calls_(parts.calls), upstream_(parts.upstream) {}

  grpc::ServerUnaryReactor* GetNode(Context* context, const Empty*, v1::Node* out) override {
    return unary(calls_, context, [this, out](Call& call) -> Task<Reply<>> {
      co_return co_await upstream_.exchange(call, {.target = "/v1/node"}, *out);
    });
  }

  // An unready service answers with 503 and the reasons.
  grpc::ServerUnaryReactor* GetReadiness(Context* context, const Empty*,
                                         v1::Readiness* out) override {
    return unary(calls_, context, [this, out](Call& call) -> Task<Reply<>> {
      Exchange exchange(upstream_, call);
      const auto deadline = call.within(kReady);
      const net::HttpHead head =
          CO_TRY(co_await exchange.open({.target = "/readyz", .key = false}, deadline));
      const std::string body = CO_TRY(co_await exchange.rest(deadline));
      if (head.status != 200 && head.status != 503) {
        co_return std::unexpected(refusalOf(head, body));
      }
      CO_TRY(fromAnswer(body, *out));
      co_return Reply<>{};
    });
  }

 private:
  Calls& calls_;
  Upstream& upstream_;
};

}  // namespace

std::unique_ptr<grpc::Service> operations(Parts parts) {
  return std::make_unique<Operations>(parts);
}

}  // namespace cloister::rpc
