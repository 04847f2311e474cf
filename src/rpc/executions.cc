// SPDX-License-Identifier: Apache-2.0
#include <memory>
#include <string>
#include <utility>

#include <cloister/v1/executions.grpc.pb.h>

#include "base/hop_fields.h"
#include "rpc/json_mapping.h"
#include "rpc/runs.h"
#include "rpc/services.h"

namespace cloister::rpc {
namespace {

using Context = grpc::CallbackServerContext;
using google::protobuf::Empty;

Result<Run> runOf(const v1::RunRequest& request) {
  base::json::object body = TRY(toRequest(request));
  body.erase("wait_seconds");
  return Run{"/v1/executions", base::toJson(body), false};
}

Result<std::string> targetOf(std::string_view id, std::string_view rest = "") {
  return "/v1/executions/" + TRY(partOf(id, "id")) + std::string(rest);
}

class Executions final : public v1::Executions::CallbackService {
 public:
  explicit Executions(Parts parts) : calls_(parts.calls), upstream_(parts.upstream) {}

  grpc::ServerUnaryReactor* Run(Context* context, const v1::RunRequest* request,
                                v1::Execution* out) override {
    return unary(calls_, context, [this, request, out](Call& call) -> Task<Reply<>> {
      rpc::Run run = CO_TRY(runOf(*request));
      const auto wait =
          request->has_wait_seconds() ? std::optional(request->wait_seconds()) : std::nullopt;
      co_return co_await runAndWait(upstream_, call, std::move(run), wait, *out);
    });
  }

  grpc::ServerWriteReactor<v1::RunEvent>* RunStream(Context* context,
                                                    const v1::RunRequest* request) override {
    return sending<v1::RunEvent>(
        calls_, context,
        [this, request](Call& call, Sender<v1::RunEvent>& sender) -> Task<Reply<>> {
          rpc::Run run = CO_TRY(runOf(*request));
          co_return co_await runAndFollow(upstream_, call, std::move(run), sender);
        });
  }

  grpc::ServerUnaryReactor* Create(Context* context, const v1::RunRequest* request,
                                   v1::Execution* out) override {
    return unary(calls_, context, [this, request, out](Call& call) -> Task<Reply<>> {
      const rpc::Run run = CO_TRY(runOf(*request));
      co_return co_await upstream_.exchange(
          call, {.method = "POST", .target = run.target, .body = run.body}, *out);
    });
  }

  grpc::ServerUnaryReactor* Get(Context* context, const v1::GetExecutionRequest* request,
                                v1::Execution* out) override {
    return unary(calls_, context, [this, request, out](Call& call) -> Task<Reply<>> {
      const std::string target = CO_TRY(targetOf(request->id()));
      co_return co_await upstream_.exchange(call, {.target = target}, *out);
    });
  }

  grpc::ServerUnaryReactor* List(Context* context, const v1::ListExecutionsRequest* request,
                                 v1::ListExecutionsResponse* out) override {
    return unary(calls_, context, [this, request, out](Call& call) -> Task<Reply<>> {
      Query query;
      query.add("status", request->has_status(), request->status())
          .add("agent", request->has_agent(), request->agent())
          .add("session_id", request->has_session_id(), request->session_id())
          .add("limit", request->has_limit(), request->limit())
          .add("cursor", request->has_cursor(), request->cursor());
      co_return co_await upstream_.exchange(call, {.target = "/v1/executions" + query.text()},
                                            *out);
    });
  }

  grpc::ServerUnaryReactor* Cancel(Context* context, const v1::CancelExecutionRequest* request,
                                   v1::Execution* out) override {
    return unary(calls_, context, [this, request, out](Call& call) -> Task<Reply<>> {
      const std::string target = CO_TRY(targetOf(request->id()));
      co_return co_await upstream_.exchange(call, {.method = "DELETE", .target = target}, *out);
    });
  }

  grpc::ServerWriteReactor<v1::Event>* Events(Context* context,
                                              const v1::EventsRequest* request) override {
    return sending<v1::Event>(
        calls_, context, [this, request](Call& call, Sender<v1::Event>& sender) -> Task<Reply<>> {
          co_return co_await followFor(call, *request, [&sender](v1::Event& event) -> Task<bool> {
            return sender.send(event);
          });
        });
  }

  grpc::ServerWriteReactor<v1::OutputChunk>* Output(Context* context,
                                                    const v1::EventsRequest* request) override {
    return sending<v1::OutputChunk>(
        calls_, context,
        [this, request](Call& call, Sender<v1::OutputChunk>& sender) -> Task<Reply<>> {
          v1::OutputChunk chunk;
          co_return co_await followFor(
              call, *request, [&sender, &chunk](v1::Event& event) -> Task<bool> {
                if (!event.has_stdout() && !event.has_stderr()) co_return true;
                v1::Output& output =
                    event.has_stdout() ? *event.mutable_stdout() : *event.mutable_stderr();
                chunk.set_position(event.position());
                chunk.set_stream(event.has_stdout() ? "stdout" : "stderr");
                chunk.set_offset(output.offset());
                chunk.mutable_data()->swap(*output.mutable_data());
                co_return co_await sender.send(chunk);
              });
        });
  }

  grpc::ServerUnaryReactor* SendInput(Context* context, const v1::SendInputRequest* request,
                                      Empty*) override {
    return unary(calls_, context, [this, request](Call& call) -> Task<Reply<>> {
      co_return co_await post(call, *request, "/input");
    });
  }

  grpc::ServerUnaryReactor* Signal(Context* context, const v1::SignalRequest* request,
                                   Empty*) override {
    return unary(calls_, context, [this, request](Call& call) -> Task<Reply<>> {
      co_return co_await post(call, *request, ":signal");
    });
  }

  grpc::ServerUnaryReactor* Resize(Context* context, const v1::ResizeRequest* request,
                                   Empty*) override {
    return unary(calls_, context, [this, request](Call& call) -> Task<Reply<>> {
      co_return co_await post(call, *request, ":resize");
    });
  }

 private:
  // `send`: Task<bool>(v1::Event&), false if the client is gone.
  template <class Send>
  Task<Reply<>> followFor(Call& call, const v1::EventsRequest& request, Send send) {
    std::string id = CO_TRY(partOf(request.id(), "id"));
    constexpr size_t kLongestPosition = 256;
    if (!base::isOneLine(request.position()) || request.position().size() > kLongestPosition) {
      co_return std::unexpected(
          Refusal(Error{Code::kInvalid, "position: is none of this service's", "position"}));
    }
    co_return co_await follow(upstream_, call, std::move(id), request.position(),
                              [&](v1::Event& event) -> Task<Reply<bool>> {
                                if (co_await send(event)) co_return true;
                                call.end(Call::End::kCancelled);
                                co_return std::unexpected(call.refusal(Error{}));
                              });
  }

  // The request without its id, to a route of the execution that has no answer.
  template <class Request>
  Task<Reply<>> post(Call& call, const Request& request, std::string_view rest) {
    const std::string target = CO_TRY(targetOf(request.id(), rest));
    base::json::object body = CO_TRY(toRequest(request));
    body.erase("id");
    Ask ask{.method = "POST", .target = target, .body = base::toJson(body)};
    CO_TRY(co_await upstream_.exchange(call, std::move(ask)));
    co_return Reply<>{};
  }

  Calls& calls_;
  Upstream& upstream_;
};

}  // namespace

std::unique_ptr<grpc::Service> executions(Parts parts) {
  return std::make_unique<Executions>(parts);
}

}  // namespace cloister::rpc
