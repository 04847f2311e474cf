// SPDX-License-Identifier: Apache-2.0
// The requests of an inspected HTTP/2 connection and their answers: each request is judged by
// method and path, gets its secrets, and passes from the session of the sandbox to the session of
// the origin; each answer passes back, cleaned. Bodies wait in buffers that the windows of their
// sources bound. No I/O but the connection's judge. One thread; always in a shared_ptr.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "egress/broker/answers.h"
#include "egress/broker/broker.h"
#include "egress/h2/session.h"
#include "egress/http/head.h"
#include "egress/relay/connection.h"
#include "egress/relay/http_heads.h"
#include "redact/matcher.h"

namespace cloister::egress {

class H2Streams : public std::enable_shared_from_this<H2Streams> {
 public:
  // `stir` is called when a decision came later, so that there may be bytes to write.
  static Result<std::shared_ptr<H2Streams>> make(std::shared_ptr<Connection> connection,
                                                 std::function<void()> stir);

  [[nodiscard]] h2::Session& inside() { return *inside_; }
  [[nodiscard]] h2::Session& outside() { return *outside_; }

  // The plan changed: requests that lost their rule end.
  void judgeAgain();
  // The origin's connection ended: every request is answered, or ends.
  void loseOrigin();
  // Nothing of the connection is used from now on.
  void end() { ended_ = true; }

 private:
  struct Exchange {
    int32_t inside = 0;
    int32_t outside = 0;  // 0: the request was not sent
    Standing standing;
    RequestHead head;  // wiped once the request was sent
    bool decided = false;
    bool refused = false;  // answered by the relay
    bool request_ended = false;
    std::string held;  // of the body, until the decision
    h2::Fields request_trailers;
    std::shared_ptr<const Broker> broker;
    bool cleans = false;  // the origin gets a secret
    std::optional<redact::Stream> watched;
    std::optional<RequestRules> rules;  // the operator's, over the request
    bool searched = false;              // by them, to its end
    std::optional<CleanBody> clean;
    bool answered = false;  // the head of the answer was passed
    bool answer_ended = false;
    bool inside_closed = false;
    bool outside_closed = false;
    size_t owed_out = 0;  // received from the sandbox, not yet acknowledged
    size_t owed_in = 0;   // received from the origin, not yet acknowledged
    size_t buffered_out = 0;
    size_t buffered_in = 0;
  };
  using ExchangePtr = std::shared_ptr<Exchange>;
  using Map = std::map<int32_t, ExchangePtr>;

  class Inside final : public h2::Events {
   public:
    explicit Inside(H2Streams& streams) : streams_(streams) {}
    void head(int32_t stream, h2::Message message, bool trailers, bool end) override;
    void data(int32_t stream, std::string_view bytes) override;
    void end(int32_t stream) override;
    void closed(int32_t stream, uint32_t error) override;
    void sent(int32_t stream, size_t bytes, size_t left) override;
    void goingAway() override {}

   private:
    H2Streams& streams_;
  };
  class Outside final : public h2::Events {
   public:
    explicit Outside(H2Streams& streams) : streams_(streams) {}
    void head(int32_t stream, h2::Message message, bool trailers, bool end) override;
    void data(int32_t stream, std::string_view bytes) override;
    void end(int32_t stream) override;
    void closed(int32_t stream, uint32_t error) override;
    void sent(int32_t stream, size_t bytes, size_t left) override;
    void goingAway() override;

   private:
    H2Streams& streams_;
  };

  H2Streams(std::shared_ptr<Connection> connection, std::function<void()> stir);

  static ExchangePtr find(const Map& map, int32_t stream);
  // --- requests
  void begin(int32_t stream, h2::Message message, bool end);
  [[nodiscard]] std::string misfit(const RequestHead& head) const;
  static Task<void> decide(std::shared_ptr<H2Streams> self, ExchangePtr exchange);
  void sendRequest(Exchange& exchange, const ExchangePtr& self);
  void passOut(Exchange& exchange, std::string_view bytes);
  void endRequest(Exchange& exchange);
  bool refusedByRules(Exchange& exchange);
  void sendBody(Exchange& exchange, std::string_view bytes);
  void misplaced(Exchange& exchange, const Broker::Fault& fault);
  void stopRequest(Exchange& exchange, int status, const Ruling& ruling);
  void refuse(Exchange& exchange, int status, const Ruling& ruling);
  void answer(Exchange& exchange, const OwnAnswer& own);
  void cut(Exchange& exchange, uint32_t error);
  // --- answers
  void passHead(Exchange& exchange, h2::Message message, bool end);
  void passIn(Exchange& exchange, std::string_view bytes);
  void endAnswer(Exchange& exchange, h2::Fields trailers);
  void unreadableAnswer(Exchange& exchange, const std::string& reason);

  std::shared_ptr<Connection> connection_;
  std::function<void()> stir_;
  Inside inside_events_{*this};
  Outside outside_events_{*this};
  std::unique_ptr<h2::Session> inside_;
  std::unique_ptr<h2::Session> outside_;
  Map by_inside_;
  Map by_outside_;
  bool origin_lost_ = false;
  bool ended_ = false;
};

}  // namespace cloister::egress
