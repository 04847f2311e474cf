// SPDX-License-Identifier: Apache-2.0
#include <memory>
#include <string>
#include <utility>

#include <cloister/v1/sessions.grpc.pb.h>

#include "rpc/json_mapping.h"
#include "rpc/runs.h"
#include "rpc/services.h"

namespace cloister::rpc {
namespace {

using Context = grpc::CallbackServerContext;

Result<std::string> targetOf(std::string_view id, std::string_view rest = "",
                             std::string_view field = "id") {
  return "/v1/sessions/" + TRY(partOf(id, field)) + std::string(rest);
}

Result<Run> runOf(const v1::ExecRequest& request) {
  std::string target = TRY(targetOf(request.session_id(), "/exec", "session_id"));
  base::json::object body = TRY(toRequest(request));
  body.erase("wait_seconds");
  body.erase("session_id");
  return Run{std::move(target), base::toJson(body), request.background()};
}

class Sessions final : public v1::Sessions::CallbackService {
 public:
  explicit Sessions(Parts parts) : calls_(parts.calls), upstream_(parts.upstream) {}

  grpc::ServerUnaryReactor* Create(Context* context, const v1::SessionRequest* request,
                                   v1::Session* out) override {
    return unary(calls_, context, [this, request, out](Call& call) -> Task<Reply<>> {
      const base::json::object body = CO_TRY(toRequest(*request));
      co_return co_await upstream_.exchange(
          call, {.method = "POST", .target = "/v1/sessions", .body = base::toJson(body)}, *out);
    });
  }

  grpc::ServerUnaryReactor* Get(Context* context, const v1::GetSessionRequest* request,
                                v1::Session* out) override {
    return unary(calls_, context, [this, request, out](Call& call) -> Task<Reply<>> {
      const std::string target = CO_TRY(targetOf(request->id()));
      co_return co_await upstream_.exchange(call, {.target = target}, *out);
    });
  }

  grpc::ServerUnaryReactor* List(Context* context, const v1::ListSessionsRequest* request,
                                 v1::ListSessionsResponse* out) override {
    return unary(calls_, context, [this, request, out](Call& call) -> Task<Reply<>> {
      Query query;
      query.add("status", request->has_status(), request->status())
          .add("agent", request->has_agent(), request->agent())
          .add("limit", request->has_limit(), request->limit())
          .add("cursor", request->has_cursor(), request->cursor());
      co_return co_await upstream_.exchange(call, {.target = "/v1/sessions" + query.text()}, *out);
    });
  }

  grpc::ServerUnaryReactor* Renew(Context* context, const v1::RenewSessionRequest* request,
                                  v1::Session* out) override {
    return unary(calls_, context, [this, request, out](Call& call) -> Task<Reply<>> {
      const std::string target = CO_TRY(targetOf(request->id(), "/renew"));
      base::json::object body = CO_TRY(toRequest(*request));
      body.erase("id");
      co_return co_await upstream_.exchange(
          call, {.method = "POST", .target = target, .body = base::toJson(body)}, *out);
    });
  }

  grpc::ServerUnaryReactor* Delete(Context* context, const v1::DeleteSessionRequest* request,
                                   v1::Session* out) override {
    return unary(calls_, context, [this, request, out](Call& call) -> Task<Reply<>> {
      const std::string target = CO_TRY(targetOf(request->id()));
      co_return co_await upstream_.exchange(call, {.method = "DELETE", .target = target}, *out);
    });
  }

  grpc::ServerUnaryReactor* Exec(Context* context, const v1::ExecRequest* request,
                                 v1::Execution* out) override {
    return unary(calls_, context, [this, request, out](Call& call) -> Task<Reply<>> {
      Run run = CO_TRY(runOf(*request));
      const auto wait =
          request->has_wait_seconds() ? std::optional(request->wait_seconds()) : std::nullopt;
      co_return co_await runAndWait(upstream_, call, std::move(run), wait, *out);
    });
  }

  grpc::ServerWriteReactor<v1::RunEvent>* ExecStream(Context* context,
                                                     const v1::ExecRequest* request) override {
    return sending<v1::RunEvent>(
        calls_, context,
        [this, request](Call& call, Sender<v1::RunEvent>& sender) -> Task<Reply<>> {
          Run run = CO_TRY(runOf(*request));
          co_return co_await runAndFollow(upstream_, call, std::move(run), sender);
        });
  }

  grpc::ServerUnaryReactor* ListKernels(Context* context, const v1::ListKernelsRequest* request,
                                        v1::ListKernelsResponse* out) override {
    return unary(calls_, context, [this, request, out](Call& call) -> Task<Reply<>> {
      const std::string target = CO_TRY(targetOf(request->session_id(), "/kernels", "session_id"));
      co_return co_await upstream_.exchange(call, {.target = target}, *out);
    });
  }

  grpc::ServerUnaryReactor* RestartKernel(Context* context, const v1::RestartKernelRequest* request,
                                          v1::Kernel* out) override {
    return unary(calls_, context, [this, request, out](Call& call) -> Task<Reply<>> {
      std::string target = CO_TRY(targetOf(request->session_id(), "/kernels/", "session_id"));
      target += CO_TRY(partOf(request->name(), "name")) + ":restart";
      co_return co_await upstream_.exchange(
          call, {.method = "POST", .target = target, .body = "{}"}, *out);
    });
  }

 private:
  Calls& calls_;
  Upstream& upstream_;
};

}  // namespace

std::unique_ptr<grpc::Service> sessions(Parts parts) {
  return std::make_unique<Sessions>(parts);
}

}  // namespace cloister::rpc
