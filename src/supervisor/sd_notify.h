// SPDX-License-Identifier: Apache-2.0
// systemd's notification and socket activation protocols (sd_notify(3), sd_listen_fds(3)), without
// its library.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/fd.h"
#include "base/result.h"

namespace cloister::supervisor {

// Speaks to $NOTIFY_SOCKET; does nothing when there is none.
class Notifier {
 public:
  Notifier();
  // Lines of NAME=value. Failures are of no consequence to the service.
  void send(std::string_view state) const;
  // How often WATCHDOG=1 is due: half of $WATCHDOG_USEC; nullopt when not asked for.
  [[nodiscard]] std::optional<Millis> watchdog() const { return watchdog_; }

 private:
  std::string socket_;
  std::optional<Millis> watchdog_;
};

// The sockets that systemd passed to this process, moved up (see process.h); empty if none.
Result<std::vector<Fd>> takeListeners();

// The protocols' variables, to be hidden from children.
std::vector<std::string> protocolVariables();

}  // namespace cloister::supervisor
