// SPDX-License-Identifier: Apache-2.0
// EgressLink: the connection to cloister-egress (wire/egress.h). The link reconnects by itself,
// numbers calls, hands batches of attempts to its watcher in their order, and acknowledges a batch
// only once the watcher has recorded it. While a batch cannot be recorded, cloister-egress refuses
// new connections (kStop).
//
// cloister-egress repeats unacknowledged batches after a reconnection; repeated numbers are
// recorded once, also after a crash of this process: the ledger knows the last recorded one.
// Another process at the other end begins its own numbers, which are higher: they come from the
// wall clock.
//
// On the services' executor (one thread). Always in a shared_ptr, also held by its coroutines. The
// watcher outlives the executor's context.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "async/signal.h"
#include "base/clock.h"
#include "base/result.h"
#include "model/network.h"
#include "net/frame_connection.h"
#include "orchestrator/core/task.h"
#include "wire/egress.h"

namespace cloister::orchestrator {

class EgressLink : public std::enable_shared_from_this<EgressLink> {
  struct Call;

 public:
  class Watcher {
   public:
    virtual ~Watcher() = default;
    // A connection is there: send the plans in force.
    virtual Task<void> connected() = 0;
    virtual void disconnected() = 0;
    // Records the attempts in the ledger. Called again after a failure.
    virtual Task<Result<>> record(wire::egress::Batch batch) = 0;
    virtual void wanted(wire::egress::Wanted wanted) = 0;
    // The number of the newest recorded batch in the ledger; 0: none, or not known.
    virtual uint64_t lastRecorded() = 0;
    // The ledger refuses attempts, or accepts them again.
    virtual void refusing(bool refuses) = 0;
  };
  struct Terms {
    Millis answer{5'000};   // a call without an answer for so long ends the connection
    Millis connect{2'500};  // how long a call waits for a connection
    Millis retry{200};      // between attempts to record a batch
  };

  EgressLink(boost::asio::any_io_executor executor, Watcher& watcher)
      : EgressLink(std::move(executor), watcher, Terms{}) {}
  EgressLink(boost::asio::any_io_executor executor, Watcher& watcher, Terms terms);

  // Records batches from now on. Call once.
  void start();
  // Keeps a connection to the socket for as long as the executor runs, with a bounded back-off
  // (5 ms to 500 ms) between attempts: a new cloister-egress is there within 2 s.
  static Task<void> keepConnected(std::shared_ptr<EgressLink> self, std::string socket_path);
  // Serves one connection to its end.
  static Task<void> serve(std::shared_ptr<EgressLink> self, net::FrameConnection::Stream stream);

  // kUnavailable: not connected, or no answer in time. Otherwise the answer of cloister-egress: the
  // certificate of the sandbox's authority, "" without one. `secrets`: an encoded
  // wire::egress::Secrets, which goes first; "" for none.
  static Task<Result<std::string>> plan(std::shared_ptr<EgressLink> self, model::SignedPlan plan,
                                        std::string secrets = {});
  // The two halves of plan(): the plan is on its way, and then it is in force.
  using Sent = std::shared_ptr<Call>;
  static Task<Result<Sent>> sendPlan(std::shared_ptr<EgressLink> self, model::SignedPlan plan,
                                     std::string secrets = {});
  static Task<Result<std::string>> planned(std::shared_ptr<EgressLink> self, Sent sent);
  static Task<Result<model::NetworkUse>> use(std::shared_ptr<EgressLink> self, std::string permit);
  // Without effect while not connected: then nothing is in force.
  void forget(const std::string& permit);
  // Whether the ledger accepts writes; otherwise new connections are refused, as after a failed
  // record.
  void ledgerAccepts(bool accepts);
  [[nodiscard]] bool connected() const { return ready_; }
  [[nodiscard]] bool refuses() const { return refusing_; }

 private:
  // False for a connection that ended before its first message.
  static Task<bool> serveOne(std::shared_ptr<EgressLink> self, net::FrameConnection::Stream stream);

  struct Call {
    explicit Call(const boost::asio::any_io_executor& executor) : answered(executor) {}
    std::optional<Result<net::Frame>> answer;
    async::Signal answered;
    base::Monotonic until;                             // its patience
    std::shared_ptr<net::FrameConnection> connection;  // that it went over
  };
  struct Queued {
    uint64_t process = 0;  // `process_` at its arrival
    wire::egress::Batch batch;
  };

  static Task<Result<Sent>> send(std::shared_ptr<EgressLink> self, wire::egress::ToEgress type,
                                 std::string payload, std::string secrets = {});
  static Task<Result<net::Frame>> answerTo(std::shared_ptr<EgressLink> self, Sent sent);
  static Task<Result<>> waitConnected(std::shared_ptr<EgressLink> self);
  static Task<void> recordAll(std::shared_ptr<EgressLink> self);
  static Task<void> closeLate(std::shared_ptr<net::FrameConnection> connection,
                              std::shared_ptr<EgressLink> self);
  Result<> greet(const net::Frame& hello, pid_t peer);
  Result<> take(net::Frame frame);
  Result<> takeBatch(const net::Frame& frame);
  Result<> takeAnswer(net::Frame frame);
  void recorded(const Queued& done);
  void refuseOrAllow();
  void end(const std::string& reason);
  void post(wire::egress::ToEgress type, std::string payload);
  void acknowledge();

  boost::asio::any_io_executor executor_;
  Watcher& watcher_;
  Terms terms_;
  std::shared_ptr<net::FrameConnection> connection_;  // null: none
  bool ready_ = false;                                // the hello was received
  std::map<uint32_t, std::shared_ptr<Call>> calls_;
  uint32_t next_call_ = 1;
  pid_t peer_ = 0;         // of the last connection
  uint64_t process_ = 0;   // counts the processes at the other end
  uint64_t seen_ = 0;      // highest number of a batch of this process
  uint64_t taken_ = 0;     // highest recorded one
  bool dropped_ = false;   // batches beyond the bound, to be repeated
  bool stuck_ = false;     // a batch could not be recorded
  bool closed_ = false;    // the ledger accepts nothing
  bool refusing_ = false;  // for either; as sent
  std::deque<Queued> queue_;
  async::Signal changed_;  // a batch more, or another state of the connection
};

}  // namespace cloister::orchestrator
