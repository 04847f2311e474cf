// SPDX-License-Identifier: Apache-2.0
// AutoPause: sandboxes whose time ends with a pause instead of their end. The session itself lives
// as long as sessions may; a timer here pauses it when the client's time is over. Sessions end with
// the service, and so do the timers. On the io thread.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include <boost/asio/steady_timer.hpp>

#include "api/compat/compat.h"
#include "model/session.h"

namespace cloister::api::compat::e2b {

class AutoPause {
 public:
  // Pauses the session on behalf of `who` in `time`, unless another call comes first.
  Task<void> begin(RestParts& parts, model::Principal who, std::string session, Millis time);
  // No pause is to come: the session is paused, or has ended.
  void end(const std::string& session) { pending_.erase(session); }
  // The time of the pause to come, in wall-clock microseconds.
  [[nodiscard]] std::optional<int64_t> endAt(const std::string& session) const;

 private:
  struct Pending {
    std::shared_ptr<boost::asio::steady_timer> timer;
    int64_t at = 0;
  };
  static Task<void> pauseLater(AutoPause& of, RestParts& parts, model::Principal who,
                               std::string session,
                               std::shared_ptr<boost::asio::steady_timer> timer);

  std::map<std::string, Pending> pending_;  // by session
};

}  // namespace cloister::api::compat::e2b
