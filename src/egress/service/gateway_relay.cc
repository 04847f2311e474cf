// SPDX-License-Identifier: Apache-2.0
#include "egress/service/gateway_relay.h"

#include <optional>
#include <string>
#include <utility>

#include "egress/plan/own_names.h"
#include "egress/relay/chunks.h"
#include "egress/relay/connection.h"
#include "egress/relay/http_heads.h"
#include "egress/relay/incoming.h"

namespace cloister::egress {
namespace {

std::string_view usualPhrase(int status) {
  return status == 200 ? "OK" : "Refused";
}

class GatewayRelay {
 public:
  GatewayRelay(Connection& connection, model::Ecosystem ecosystem, Guard& guard, Hub& hub,
               PermitState& permit)
      : connection_(connection),
        incoming_(connection),
        ecosystem_(ecosystem),
        guard_(guard),
        gateway_(*hub.gateway),
        permit_(permit) {}

  Task<void> run() {
    connection_.expireIn(connection_.limits().greeting);
    for (;;) {
      auto head = co_await incoming_.head();
      if (!head && head.error().code == Code::kUnavailable) co_return;
      if (!head) {
        co_return co_await refuse(nullptr, statusOf(head.error()), head.error().message);
      }
      if (!co_await serve(*std::move(head))) co_return;
    }
  }

 private:
  [[nodiscard]] Standing standingOf(const RequestHead& head) const {
    return {.host = connection_.name(),
            .port = connection_.port(),
            .protocol = model::Protocol::kHttp,
            .method = head.method,
            .path = head.path};
  }

  // One request. False: the connection ends.
  Task<bool> serve(RequestHead head) {
    constexpr int kMisdirected = 421;
    constexpr int kForbidden = 403;
    const bool own = head.host == connection_.name() &&
                     head.port.value_or(kGatewayPort) == connection_.port() &&
                     head.form != TargetForm::kAuthority;
    if (!own) {
      co_await refuse(&head, kMisdirected, "Host is not the package gateway.");
      co_return false;
    }
    const Ruling ruling = co_await connection_.admit(standingOf(head));
    if (connection_.over()) co_return false;
    const auto plan = permit_.plan();
    if (!ruling.allowed || !plan || !plan->plan.packages) {
      co_await refuse(&head, kForbidden, ruling.reason);
      co_return false;
    }
    const std::shared_ptr<const model::PlanPackages> rules(plan, &*plan->plan.packages);
    PackageGateway::Request request{.ecosystem = ecosystem_,
                                    .method = head.method,
                                    .path = head.path,
                                    .accept = std::string(head.field("accept")),
                                    .tenant = plan->plan.tenant};
    GatewayAnswer answer = co_await gateway_.answer(std::move(request), rules, permit_.packages());
    if (connection_.over()) co_return false;
    if (answer.refusal) report(head, *answer.refusal);
    co_return co_await send(head, std::move(answer));
  }

  void report(const RequestHead& head, const PackageRefusal& refusal) {
    const Standing standing = standingOf(head);
    guard_.refused(standing.attempt(), {.allowed = false,
                                        .rule = &recordRule(refusal.rule),
                                        .reason = refusal.reason + ".",
                                        .remedy = refusal.remedy});
  }

  Task<bool> send(const RequestHead& head, GatewayAnswer answer) {
    const bool keep = head.keep_alive && incoming_.bodyDone();
    const std::optional<uint64_t> length =
        answer.file ? answer.file->length() : std::optional<uint64_t>(answer.body.size());
    const bool chunked = !length && head.http11;
    const bool only_head = head.method == "HEAD";
    std::string text = headOf(answer, length, chunked, keep && (length || chunked));
    if (!answer.file && !only_head) text += answer.body;
    if (!connection_.moved(text.size(), 0)) co_return false;
    if (co_await connection_.write(connection_.inside(), text)) co_return false;
    if (answer.file && !only_head && !co_await sendFile(head, *answer.file, chunked)) {
      connection_.reset();  // the file must not look complete
      co_return false;
    }
    if (!incoming_.bodyDone()) co_await incoming_.linger();
    co_return keep && (length || chunked);
  }

  Task<bool> sendFile(const RequestHead& head, FileBody& file, bool chunked) {
    while (true) {
      auto piece = co_await file.next();
      if (file.refusal()) report(head, *file.refusal());
      if (!piece || connection_.over()) co_return false;
      const bool end = piece->empty();
      const std::string bytes = chunked ? asChunk(*piece) : *std::move(piece);
      if (!connection_.moved(bytes.size(), 0)) co_return false;
      if (!bytes.empty() && co_await connection_.write(connection_.inside(), bytes))
        co_return false;
      if (end) co_return true;
    }
  }

  static std::string headOf(const GatewayAnswer& answer, std::optional<uint64_t> length,
                            bool chunked, bool keep) {
    std::string head =
        "HTTP/1.1 " + std::to_string(answer.status) + " " +
        (answer.reason.empty() ? std::string(usualPhrase(answer.status)) : answer.reason) + "\r\n";
    head += "Content-Type: " + answer.type + "\r\n";
    if (length) head += "Content-Length: " + std::to_string(*length) + "\r\n";
    if (chunked) head += "Transfer-Encoding: chunked\r\n";
    if (!answer.location.empty()) head += "Location: " + answer.location + "\r\n";
    // A tool that keeps an answer would not see changed rules.
    head += "Cache-Control: no-store\r\n";
    return head + "Connection: " + (keep ? "keep-alive" : "close") + "\r\n\r\n";
  }

  // An answer of the relay itself; the connection ends behind it.
  Task<void> refuse(const RequestHead* head, int status, const std::string& detail) {
    const std::string text = ownAnswer({.status = status,
                                        .detail = detail,
                                        .host = connection_.name(),
                                        .port = connection_.port()},
                                       false, head != nullptr && head->method == "HEAD");
    if (co_await connection_.write(connection_.inside(), text)) co_return;
    co_await incoming_.linger();
  }

  Connection& connection_;
  Incoming incoming_;
  model::Ecosystem ecosystem_;
  Guard& guard_;
  PackageGateway& gateway_;
  PermitState& permit_;
};

Task<void> serveGateway(Connection& connection, model::Ecosystem ecosystem,
                        std::shared_ptr<Guard> guard, Hub& hub,
                        std::shared_ptr<PermitState> permit) {
  GatewayRelay relay(connection, ecosystem, *guard, hub, *permit);
  co_await relay.run();
}

}  // namespace

Task<void> packages(Inside inside, model::Ecosystem ecosystem, std::shared_ptr<Guard> guard,
                    Hub& hub, std::shared_ptr<PermitState> permit, const RelayLimits& limits) {
  const auto connection =
      std::make_shared<Connection>(std::move(inside), guard, hub.dialler, limits);
  co_await watched(connection, serveGateway(*connection, ecosystem, guard, hub, std::move(permit)));
}

}  // namespace cloister::egress
