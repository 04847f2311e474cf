// SPDX-License-Identifier: Apache-2.0
#include <memory>
#include <string>

#include <cloister/v1/escalations.grpc.pb.h>

#include "rpc/json_mapping.h"
#include "rpc/reactors.h"
#include "rpc/services.h"

namespace cloister::rpc {
namespace {

using Context = grpc::CallbackServerContext;

// The route of an escalation, with its tenant.
template <class Request>
Result<std::string> targetOf(const Request& request, std::string_view verb = "") {
  Query query;
  query.add("tenant", request.has_tenant(), request.tenant());
  return "/v1/escalations/" + TRY(partOf(request.id(), "id")) + std::string(verb) + query.text();
}

class Escalations final : public v1::Escalations::CallbackService {
 public:
  explicit Escalations(Parts parts) : calls_(parts.calls), upstream_(parts.upstream) {}

  grpc::ServerUnaryReactor* List(Context* context, const v1::ListEscalationsRequest* request,
                                 v1::ListEscalationsResponse* out) override {
    return unary(calls_, context, [this, request, out](Call& call) -> Task<Reply<>> {
      Query query;
      query.add("status", request->has_status(), request->status())
          .add("agent", request->has_agent(), request->agent())
          .add("limit", request->has_limit(), request->limit())
          .add("cursor", request->has_cursor(), request->cursor());
      co_return co_await upstream_.exchange(call, {.target = "/v1/escalations" + query.text()},
                                            *out);
    });
  }

  grpc::ServerUnaryReactor* Get(Context* context, const v1::GetEscalationRequest* request,
                                v1::Escalation* out) override {
    return unary(calls_, context, [this, request, out](Call& call) -> Task<Reply<>> {
      const std::string target = CO_TRY(targetOf(*request));
      co_return co_await upstream_.exchange(call, {.target = target}, *out);
    });
  }

  grpc::ServerUnaryReactor* Approve(Context* context, const v1::ApproveEscalationRequest* request,
                                    v1::Escalation* out) override {
    return unary(calls_, context, [this, request, out](Call& call) -> Task<Reply<>> {
      co_return co_await decide(call, *request, ":approve", *out);
    });
  }

  grpc::ServerUnaryReactor* Deny(Context* context, const v1::DenyEscalationRequest* request,
                                 v1::Escalation* out) override {
    return unary(calls_, context, [this, request, out](Call& call) -> Task<Reply<>> {
      co_return co_await decide(call, *request, ":deny", *out);
    });
  }

 private:
  template <class Request>
  Task<Reply<>> decide(Call& call, const Request& request, std::string_view verb,
                       v1::Escalation& out) {
    const std::string target = CO_TRY(targetOf(request, verb));
    base::json::object body = CO_TRY(toRequest(request));
    body.erase("id");
    body.erase("tenant");
    co_return co_await upstream_.exchange(
        call, {.method = "POST", .target = target, .body = base::toJson(body)}, out);
  }

  Calls& calls_;
  Upstream& upstream_;
};

}  // namespace

std::unique_ptr<grpc::Service> escalations(Parts parts) {
  return std::make_unique<Escalations>(parts);
}

}  // namespace cloister::rpc
