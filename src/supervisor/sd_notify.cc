// SPDX-License-Identifier: Apache-2.0
#include "supervisor/sd_notify.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <charconv>
#include <cstdlib>
#include <cstring>

#include "supervisor/process.h"

namespace cloister::supervisor {
namespace {

std::optional<int64_t> numberFrom(const char* variable) {
  const char* text = ::getenv(variable);
  if (text == nullptr) return std::nullopt;
  int64_t value = 0;
  const char* end = text + std::strlen(text);
  const auto [stop, error] = std::from_chars(text, end, value);
  if (error != std::errc() || stop != end) return std::nullopt;
  return value;
}

}  // namespace

Notifier::Notifier() {
  if (const char* path = ::getenv("NOTIFY_SOCKET"); path != nullptr) socket_ = path;
  const auto usec = numberFrom("WATCHDOG_USEC");
  const auto pid = numberFrom("WATCHDOG_PID");
  if (usec && *usec > 0 && (!pid || *pid == ::getpid())) {
    watchdog_ = std::max(Millis(1), Millis(*usec / 2000));
  }
}

void Notifier::send(std::string_view state) const {
  sockaddr_un address{};
  if (socket_.size() < 2 || socket_.size() >= sizeof address.sun_path) return;
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, socket_.data(), socket_.size());
  if (address.sun_path[0] == '@') address.sun_path[0] = 0;  // an abstract name
  const Fd fd(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + socket_.size());
  [[maybe_unused]] const ssize_t sent = ::sendto(fd.get(), state.data(), state.size(), MSG_NOSIGNAL,
                                                 reinterpret_cast<const sockaddr*>(&address), size);
}

Result<std::vector<Fd>> takeListeners() {
  constexpr int kFirst = 3;
  constexpr int64_t kMost = 16;
  std::vector<Fd> listeners;
  const auto count = numberFrom("LISTEN_FDS");
  if (!count || numberFrom("LISTEN_PID") != ::getpid()) return listeners;
  if (*count < 1 || *count > kMost) return fail(Code::kInvalid, "reading LISTEN_FDS: not 1 to 16");
  for (int i = 0; i < *count; ++i)
    listeners.push_back(TRY(moveUp(Fd(kFirst + i))));
  return listeners;
}

std::vector<std::string> protocolVariables() {
  return {"NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID",
          "LISTEN_FDS",    "LISTEN_PID",    "LISTEN_FDNAMES"};
}

}  // namespace cloister::supervisor
