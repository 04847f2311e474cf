// SPDX-License-Identifier: Apache-2.0
// Sessions of the legacy protocol (2025-11-25 and earlier): the agreement made by `initialize`, the
// requests under way, and the streams that may be read again. Sandboxes do not depend on them and
// live longer. Bounded in number, in all and for a key, and in time. One thread.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include <boost/asio/any_io_executor.hpp>

#include "api/mcp/exchange.h"
#include "api/mcp/message.h"
#include "auth/credential.h"
#include "model/principal.h"

namespace cloister::api::mcp {

struct LegacySession {
  static constexpr size_t kMaxUnderWay = 64;
  static constexpr size_t kMaxStreams = 8;

  std::string id;
  std::string version;
  json::object capabilities;  // the client's
  model::Principal owner;
  std::string log_level;
  base::Monotonic used;
  size_t readers = 0;                            // of `own`
  std::map<std::string, ExchangePtr> under_way;  // by request id, as JSON
  std::map<std::string, json::object> answered;  // questions to the client: {} until answered
  std::deque<std::pair<uint64_t, ExchangePtr>> streams;  // streams that may be read again
  uint64_t next_stream = 1;
  uint64_t next_question = 1;
  ExchangePtr own;  // messages outside of requests: read by GET

  // Keeps `exchange` for returning readers; gives the stream's number.
  uint64_t keep(ExchangePtr exchange);
  [[nodiscard]] ExchangePtr stream(uint64_t number) const;
};

using LegacyPtr = std::shared_ptr<LegacySession>;

class LegacySessions {
 public:
  struct Bounds {
    size_t sessions = 4096;          // in all
    size_t sessions_of_a_key = 128;  // beyond, its longest unused session goes
    Millis idle{3'600'000};
  };

  LegacySessions(boost::asio::any_io_executor executor, Bounds bounds)
      : executor_(std::move(executor)), bounds_(bounds) {}

  // Nothing when there are too many.
  LegacyPtr open(const model::Principal& owner, std::string version, json::object capabilities);
  // Nothing for a session that does not exist, has ended or is another principal's.
  LegacyPtr find(const std::string& id, const model::Principal& owner);
  // Ends the session, and cancels its requests under way.
  void end(const LegacyPtr& session);
  // Ends sessions with requests under way whose owner's credential no longer stands: a lost
  // connection does not cancel their requests.
  void endLost(const std::function<bool(const auth::Credential&)>& stands);
  // Ends the sessions' own streams, so that their readers end.
  void endStreams();
  [[nodiscard]] size_t size() const { return sessions_.size(); }

 private:
  void expire();
  bool makeRoom(const model::Principal& owner);

  boost::asio::any_io_executor executor_;
  Bounds bounds_;
  std::map<std::string, LegacyPtr, std::less<>> sessions_;
  base::Monotonic next_look_;
};

}  // namespace cloister::api::mcp
