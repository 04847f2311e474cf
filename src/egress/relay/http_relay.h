// SPDX-License-Identifier: Apache-2.0
// HTTP/1.1 requests of a sandbox, each judged on its own: by name, port, method and path. The relay
// writes every head anew, so that the origin sees only what was judged, and streams the bodies. A
// refused request is answered with a problem document that names the rule and the remedy. Brokered
// secrets are put into the requests here, and taken out of the answers.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "egress/broker/answers.h"
#include "egress/broker/broker.h"
#include "egress/relay/connection.h"
#include "egress/relay/incoming.h"
#include "net/answer_parser.h"
#include "redact/matcher.h"

namespace cloister::egress {

class HttpRelay {
 public:
  // Transparent: the sandbox connected to the name, so each Host must be that name. Inspected: the
  // same within TLS, which the connection has on both sides. Proxy: each target has a host of its
  // own.
  enum class Kind : uint8_t { kTransparent, kInspected, kProxy };

  HttpRelay(Connection& connection, Incoming& incoming, Kind kind)
      : connection_(connection), incoming_(incoming), kind_(kind) {}

  // Serves requests until one side ends. `first`: what Incoming::head() gave already.
  Task<void> run(std::optional<Result<RequestHead>> first = {});

 private:
  enum class Answered : uint8_t {
    kKeep,    // another request may follow
    kClose,   // the answer is complete
    kBroken,  // an answer broke off: reset
    kNone,    // the origin closed a kept connection before it answered
    kTunnel,  // the protocol was switched
  };

  Task<bool> serve(RequestHead head);
  [[nodiscard]] std::optional<Standing> standingOf(const RequestHead& head,
                                                   std::string& fault) const;
  Task<bool> refuse(const RequestHead& head, int status, const Ruling& ruling);
  Task<void> answer(int status, std::string detail);
  Task<std::optional<bool>> reachOrigin(const RequestHead& head, const Standing& standing,
                                        const Ruling& ruling);
  [[nodiscard]] uint16_t usualPort() const;
  [[nodiscard]] Standing unjudged() const;
  Task<std::optional<bool>> applyRules(RequestHead& head, const Standing& standing);
  Task<std::optional<bool>> applySecrets(RequestHead& head, const Standing& standing);
  Task<Answered> exchange(const RequestHead& head);
  Task<void> sendBody(const RequestHead& head);
  Task<Answered> passAnswer(const RequestHead& head);
  Task<Answered> passHead(const RequestHead& head, net::AnswerParser& parser);
  Task<Answered> passBody(net::AnswerParser& parser, bool chunked, bool keep);
  static Result<std::string> cleaned(std::optional<CleanBody>& clean, std::string body, bool last);
  Task<Answered> broken(std::string cause);
  Task<Answered> unreadableAnswer(std::string cause);
  void misplaced(const std::string& name);
  void stopBody(Ruling ruling);
  Task<void> tunnelSwitched();
  Task<bool> more();

  Connection& connection_;
  Incoming& incoming_;
  Kind kind_;
  std::string origin_;     // "name:port" of the open outside connection
  bool used_ = false;      // an answer came over it
  std::string arrived_;    // from the origin, not yet used
  bool at_end_ = false;    // of the origin's stream
  bool started_ = false;   // the present answer was begun inside
  bool finished_ = false;  // the present answer is complete

  // Of the present exchange.
  Standing standing_;
  std::shared_ptr<const Broker> broker_;   // null: the sandbox has no brokered secret
  bool cleans_ = false;                    // the origin gets a secret: its answer is cleaned
  std::optional<redact::Stream> watched_;  // the request's body, for placeholders
  std::optional<RequestRules> rules_;      // the operator's, over the request
  std::optional<Ruling> stopped_;          // the body was refused
};

}  // namespace cloister::egress
