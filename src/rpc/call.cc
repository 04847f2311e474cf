// SPDX-License-Identifier: Apache-2.0
#include "rpc/call.h"

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include <boost/asio/post.hpp>

namespace cloister::rpc {
namespace {

using grpc::StatusCode;

constexpr auto kForwarded = std::to_array<std::string_view>(
    {"authorization", "x-api-key", "idempotency-key", "traceparent"});
constexpr size_t kMaxValue = 16'384;
constexpr int64_t kMaxWait = 300;  // of the REST API
// For the answer of a wait to reach the client before its deadline.
constexpr Millis kMargin{250};

std::optional<base::Monotonic> deadlineOf(const grpc::CallbackServerContext& context) {
  const auto deadline = context.deadline();
  const auto left = deadline - std::chrono::system_clock::now();
  if (deadline == std::chrono::system_clock::time_point::max() ||
      left > std::chrono::hours(24 * 365)) {
    return std::nullopt;
  }
  return base::monotonicNow() + std::chrono::duration_cast<base::Monotonic::duration>(left);
}

}  // namespace

Result<Headers> headersOf(const grpc::CallbackServerContext& context) {
  Headers headers;
  const auto& metadata = context.client_metadata();
  for (const std::string_view name : kForwarded) {
    const auto [first, last] = metadata.equal_range(grpc::string_ref(name.data(), name.size()));
    if (first == last) continue;
    const std::string value(first->second.data(), first->second.size());
    const auto odd = [](char c) { return c < ' ' || c > '~'; };
    if (std::next(first) != last || value.size() > kMaxValue || std::ranges::any_of(value, odd)) {
      return fail(Code::kInvalid,
                  "metadata " + std::string(name) + ": must be one value, of printable ASCII",
                  "metadata." + std::string(name));
    }
    headers.emplace(name, value);
  }
  return headers;
}

bool haveCredential(const Headers& headers) {
  constexpr std::string_view kScheme = "bearer ";
  const auto some = [](std::string_view text) {
    return text.find_first_not_of(' ') != std::string_view::npos;
  };
  // As the service reads them: `authorization` hides the other.
  if (const auto found = headers.find("authorization"); found != headers.end()) {
    const std::string_view value = found->second;
    const bool bearer = std::ranges::equal(
        value.substr(0, kScheme.size()), kScheme,
        [](char a, char b) { return a == b || (a >= 'A' && a <= 'Z' && a - 'A' + 'a' == b); });
    return bearer && some(value.substr(kScheme.size()));
  }
  const auto found = headers.find("x-api-key");
  return found != headers.end() && some(found->second);
}

Call::Call(Calls& calls, const grpc::CallbackServerContext& context)
    : calls_(calls), headers_(headersOf(context)), deadline_(deadlineOf(context)) {}

Call::Call(Calls& calls) : calls_(calls) {}

Call::~Call() {
  calls_.remove(*this);
}

base::Monotonic Call::within(Millis most) const {
  const auto end = base::monotonicNow() + most;
  return deadline_ ? std::min(*deadline_, end) : end;
}

int64_t Call::waitSeconds(std::optional<uint32_t> wanted) const {
  int64_t wait = std::min<int64_t>(wanted.value_or(kMaxWait), kMaxWait);
  if (!deadline_) return wait;
  const auto left = *deadline_ - base::monotonicNow() - kMargin;
  const int64_t seconds = std::chrono::floor<std::chrono::seconds>(left).count();
  return std::clamp<int64_t>(seconds, 0, wait);
}

Refusal Call::refusal(Refusal otherwise) const {
  switch (ended_) {
    case End::kCancelled:
      return Refusal(grpc::Status(StatusCode::CANCELLED, "the call was cancelled"));
    case End::kDeadline:
      return Refusal(grpc::Status(StatusCode::DEADLINE_EXCEEDED, "the deadline has passed"));
    case End::kStalled:
      return Refusal(grpc::Status(StatusCode::ABORTED, "the stream stood still for too long"));
    case End::kStopping:
      return Refusal(grpc::Status(StatusCode::UNAVAILABLE, "this program stops: call again"));
    case End::kNone:
      break;
  }
  return otherwise;
}

void Call::end(End why) {
  if (ended_ != End::kNone) return;
  ended_ = why;
  if (const auto what = std::exchange(break_off_, nullptr)) what();
}

CallPtr Calls::start(const grpc::CallbackServerContext& context) {
  if (under_way_.fetch_add(1) < most_) return std::make_shared<Call>(*this, context);
  under_way_.fetch_sub(1);
  return nullptr;
}

CallPtr Calls::ours() {
  auto call = std::make_shared<Call>(*this);
  call->has_place_ = false;
  return call;
}

void Calls::add(Call& call) {
  open_.insert(&call);
  if (stopped_) call.end(Call::End::kStopping);
}

void Calls::remove(Call& call) {
  open_.erase(&call);
  if (call.has_place_) under_way_.fetch_sub(1);
}

void Calls::cancelled(const std::weak_ptr<Call>& call) {
  boost::asio::post(executor_, [call] {
    const CallPtr at = call.lock();
    if (!at) return;
    // gRPC tells both alike. A client gives up at its own deadline a little before ours.
    constexpr Millis kApart{200};
    const auto deadline = at->deadline();
    const bool late = deadline && base::monotonicNow() + kApart >= *deadline;
    at->end(late ? Call::End::kDeadline : Call::End::kCancelled);
  });
}

void Calls::stop() {
  stopped_ = true;
  for (Call* call : std::vector<Call*>(open_.begin(), open_.end()))
    call->end(Call::End::kStopping);
}

}  // namespace cloister::rpc
