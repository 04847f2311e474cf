// SPDX-License-Identifier: Apache-2.0
#include "rpc/upstream.h"

#include <algorithm>
#include <utility>

#include "rpc/json_mapping.h"

namespace cloister::rpc {
namespace {

using net::HttpConnection;

constexpr size_t kMostIdle = 16;
constexpr size_t kMaxProblem = size_t{256} << 10;
constexpr Millis kConnect{5'000};

std::unexpected<Refusal> tooLarge() {
  return std::unexpected(
      Refusal(grpc::Status(grpc::StatusCode::RESOURCE_EXHAUSTED,
                           "the answer is larger than a message may be (--max-message-bytes)")));
}

bool isSuccess(int status) {
  return status >= 200 && status < 300;
}

// Whether the request may be sent again without another effect.
bool isRepeatable(const Ask& ask, const net::HttpRequest& request) {
  return !ask.source && (ask.method == "GET" || ask.method == "DELETE" ||
                         request.headers.contains("idempotency-key"));
}

}  // namespace

Task<Result<std::unique_ptr<HttpConnection>>> Upstream::connect(base::Monotonic deadline) {
  const auto until = std::min(deadline, base::monotonicNow() + kConnect);
  co_return std::make_unique<HttpConnection>(CO_TRY(co_await net::connect(url_, tls_, until)));
}

std::unique_ptr<HttpConnection> Upstream::kept() {
  if (idle_.empty()) return nullptr;
  auto connection = std::move(idle_.back());
  idle_.pop_back();
  return connection;
}

void Upstream::keep(std::unique_ptr<HttpConnection> connection) {
  if (connection->reusable() && idle_.size() < kMostIdle) idle_.push_back(std::move(connection));
}

Task<Reply<std::string>> Upstream::exchange(Call& call, Ask ask) {
  Exchange exchange(*this, call);
  const auto deadline = call.within(ask.patience);
  CO_TRY(co_await exchange.succeed(ask, deadline));
  co_return co_await exchange.rest(deadline);
}

Task<Reply<>> Upstream::exchange(Call& call, Ask ask, google::protobuf::Message& answer) {
  const std::string body = CO_TRY(co_await exchange(call, std::move(ask)));
  co_return read(body, answer);
}

Reply<> Upstream::read(std::string_view body, google::protobuf::Message& answer) const {
  TRY(fromAnswer(body, answer));
  if (answer.ByteSizeLong() > message_bytes_) return tooLarge();
  return {};
}

Exchange::~Exchange() {
  if (breaks_) call_.breakOff(nullptr);
  release();
}

void Exchange::hold(std::unique_ptr<HttpConnection> connection) {
  connection_ = std::move(connection);
  if (breaks_) call_.breakOff([this] { connection_->close(); });
}

void Exchange::release() {
  if (breaks_) call_.breakOff(nullptr);
  if (connection_) upstream_.keep(std::move(connection_));
  connection_.reset();
}

Refusal Exchange::broken(const Error& error) const {
  if (over()) return call_.refusal(error);
  const auto deadline = call_.deadline();
  if (breaks_ && deadline && base::monotonicNow() >= *deadline) {
    return Refusal(grpc::Status(grpc::StatusCode::DEADLINE_EXCEEDED, "the deadline has passed"));
  }
  return error;
}

Task<Result<net::HttpHead>> Exchange::send(const Ask& ask, base::Monotonic deadline) {
  net::HttpRequest request{.method = ask.method,
                           .target = upstream_.url_.target + ask.target,
                           .body = ask.body,
                           .accept = ask.accept,
                           .headers = ask.more,
                           .source = ask.source,
                           .length = {},
                           .patience = ask.patience};
  if (ask.key) request.headers.insert(call_.headers()->begin(), call_.headers()->end());
  if (isRepeatable(ask, request)) {
    if (auto kept = upstream_.kept()) {
      hold(std::move(kept));
      auto head = co_await connection_->open(request, deadline);
      if (head || connection_->answered() || over() || base::monotonicNow() >= deadline) {
        co_return head;
      }
      upstream_.idle_.clear();  // closed by the service, like others of the same age
    }
  }
  release();
  hold(CO_TRY(co_await upstream_.connect(deadline)));
  if (over()) co_return fail(Code::kUnavailable, "the call has ended");
  co_return co_await connection_->open(request, deadline);
}

Task<Reply<net::HttpHead>> Exchange::open(const Ask& ask, base::Monotonic deadline) {
  if (!call_.headers()) co_return std::unexpected(Refusal(call_.headers().error()));
  if (ask.key && !haveCredential(*call_.headers())) {
    co_return std::unexpected(
        Refusal(Error{Code::kUnauthorized,
                      "a key is needed: metadata authorization (Bearer …) or x-api-key", ""}));
  }
  if (over()) co_return std::unexpected(call_.refusal(Error{}));
  auto head = co_await send(ask, deadline);
  if (!head) co_return std::unexpected(broken(head.error()));
  if (std::string id = head->header("x-request-id"); !id.empty()) {
    call_.trailers["x-request-id"] = std::move(id);
  }
  co_return *std::move(head);
}

Task<Reply<net::HttpHead>> Exchange::succeed(const Ask& ask, base::Monotonic deadline) {
  net::HttpHead head = CO_TRY(co_await open(ask, deadline));
  if (isSuccess(head.status)) co_return head;
  auto body = co_await connection_->rest(kMaxProblem, deadline);
  co_return std::unexpected(refusalOf(head, body.value_or("")));
}

Task<Reply<HttpConnection::Piece>> Exchange::read(std::string& out, base::Monotonic deadline) {
  auto piece = co_await connection_->read(out, deadline);
  if (!piece) co_return std::unexpected(broken(piece.error()));
  co_return *piece;
}

Task<Reply<std::string>> Exchange::rest(base::Monotonic deadline) {
  std::string body;
  for (;;) {
    const auto piece = CO_TRY(co_await read(body, deadline));
    if (piece == HttpConnection::Piece::kEnd) co_return body;
    if (body.size() > upstream_.maxAnswer()) {
      connection_->close();
      co_return tooLarge();
    }
    if (piece == HttpConnection::Piece::kTimeout) {
      connection_->close();
      co_return std::unexpected(
          broken(Error{Code::kUnavailable, "the service does not finish its answer in time", ""}));
    }
  }
}

Result<std::string> partOf(std::string_view text, std::string_view field) {
  if (text.empty()) {
    return fail(Code::kInvalid, std::string(field) + ": required", std::string(field));
  }
  if (text == "." || text == "..") {
    return fail(Code::kInvalid, std::string(field) + ": is no name", std::string(field));
  }
  return net::percentEncode(text);
}

Result<std::string> pathOf(std::string_view text, std::string_view field) {
  if (text.empty()) {
    return fail(Code::kInvalid, std::string(field) + ": required", std::string(field));
  }
  std::string path;
  for (;;) {
    const size_t slash = text.find('/');
    path += net::percentEncode(text.substr(0, slash));
    if (slash == std::string_view::npos) return path;
    path += '/';
    text.remove_prefix(slash + 1);
  }
}

void Query::append(std::string_view name, std::string_view value) {
  text_ += text_.empty() ? '?' : '&';
  text_.append(name).append("=").append(net::percentEncode(value));
}

}  // namespace cloister::rpc
