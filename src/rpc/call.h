// SPDX-License-Identifier: Apache-2.0
// Call: one RPC under way, as the coroutine that serves it sees it, and Calls: all of them. gRPC's
// own threads start a call and tell its cancellation; everything else happens on the io thread.
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>

#include <boost/asio/any_io_executor.hpp>
#include <grpcpp/server_context.h>

#include "base/clock.h"
#include "base/result.h"
#include "rpc/refusal.h"

namespace cloister::rpc {

// The headers that a call's metadata becomes: `authorization`, `x-api-key`, `idempotency-key` and
// `traceparent`, each at most once and printable. The authority is the caller's; this program has
// none.
using Headers = std::map<std::string, std::string>;
Result<Headers> headersOf(const grpc::CallbackServerContext& context);

// Whether they have a credential. Without one, the service could take this program's own place for
// the caller's, such as its address.
bool haveCredential(const Headers& headers);

class Calls;

class Call {
 public:
  enum class End {
    kNone,
    kCancelled,  // by the client, or its connection is lost
    kDeadline,
    kStalled,   // the client takes or sends nothing for too long
    kStopping,  // this program stops
  };

  Call(Calls& calls, const grpc::CallbackServerContext& context);
  explicit Call(Calls& calls);  // of this program itself: no credential, no deadline
  ~Call();
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;
  Call(Call&&) = delete;
  Call& operator=(Call&&) = delete;

  [[nodiscard]] Calls& owner() const { return calls_; }
  [[nodiscard]] const Result<Headers>& headers() const { return headers_; }
  // Nothing without a deadline.
  [[nodiscard]] std::optional<base::Monotonic> deadline() const { return deadline_; }
  // The call's deadline, if earlier.
  [[nodiscard]] base::Monotonic within(Millis most) const;
  // The longest number of whole seconds for a wait of the service, at most `wanted`, so that its
  // answer is in time.
  [[nodiscard]] int64_t waitSeconds(std::optional<uint32_t> wanted) const;

  [[nodiscard]] End ended() const { return ended_; }
  // The reason of an ended call; `otherwise` for a call that has not ended.
  [[nodiscard]] Refusal refusal(Refusal otherwise) const;
  // Called when the call ends; null for nothing.
  void breakOff(std::function<void()> what) { break_off_ = std::move(what); }
  void end(End why);

  // Sent behind the answer.
  std::map<std::string, std::string> trailers;

 private:
  friend class Calls;

  Calls& calls_;
  bool has_place_ = true;  // among the calls under way
  Result<Headers> headers_;
  std::optional<base::Monotonic> deadline_;
  End ended_ = End::kNone;
  std::function<void()> break_off_;
};

using CallPtr = std::shared_ptr<Call>;

class Calls {
 public:
  // `most`: under way at once. `stall`: the longest time in which a client takes or sends nothing
  // in a stream.
  Calls(boost::asio::any_io_executor executor, size_t most, Millis stall)
      : executor_(std::move(executor)), most_(most), stall_(stall) {}

  // From gRPC's threads. Null if as many as allowed are under way. The last owner of a call is on
  // the io thread.
  CallPtr start(const grpc::CallbackServerContext& context);
  // The io thread: for a question of this program itself, beyond the bound.
  CallPtr ours();
  // From gRPC's threads, when the client is gone or the deadline has passed.
  void cancelled(const std::weak_ptr<Call>& call);
  // The io thread: the calls under way end with UNAVAILABLE.
  void stop();

  [[nodiscard]] size_t underWay() const { return under_way_.load(); }
  [[nodiscard]] Millis stall() const { return stall_; }
  [[nodiscard]] const boost::asio::any_io_executor& executor() const { return executor_; }
  // The io thread: the call is being served.
  void add(Call& call);

 private:
  friend class Call;

  void remove(Call& call);

  boost::asio::any_io_executor executor_;
  size_t most_;
  Millis stall_;
  std::atomic<size_t> under_way_ = 0;
  std::set<Call*> open_;  // of the io thread
  bool stopped_ = false;
};

}  // namespace cloister::rpc
