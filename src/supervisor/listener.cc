// SPDX-License-Identifier: Apache-2.0
#include "supervisor/listener.h"

#include <netinet/in.h>
#include <sys/socket.h>

#include <charconv>
#include <cstring>
#include <optional>
#include <thread>

#include <arpa/inet.h>

#include "supervisor/process.h"

namespace cloister::supervisor {
namespace {

struct Address {
  sockaddr_storage bytes{};
  socklen_t size = 0;
};

Result<Address> parseAddress(std::string_view text) {
  const auto bad = [&] {
    return fail(Code::kInvalid, "listening on \"" + std::string(text) +
                                    "\": must be ADDRESS:PORT, like 127.0.0.1:8750 or [::1]:8750");
  };
  const size_t colon = text.rfind(':');
  if (colon == std::string_view::npos) return bad();
  std::string host(text.substr(0, colon));
  if (host == "localhost") host = "127.0.0.1";
  const std::string_view digits = text.substr(colon + 1);
  uint16_t port = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), port);
  if (error != std::errc() || end != digits.data() + digits.size()) return bad();
  Address address;
  if (host.starts_with('[') && host.ends_with(']')) {
    auto& v6 = reinterpret_cast<sockaddr_in6&>(address.bytes);
    v6.sin6_family = AF_INET6;
    v6.sin6_port = htons(port);
    address.size = sizeof v6;
    host = host.substr(1, host.size() - 2);
    if (::inet_pton(AF_INET6, host.c_str(), &v6.sin6_addr) != 1) return bad();
  } else {
    auto& v4 = reinterpret_cast<sockaddr_in&>(address.bytes);
    v4.sin_family = AF_INET;
    v4.sin_port = htons(port);
    address.size = sizeof v4;
    if (::inet_pton(AF_INET, host.c_str(), &v4.sin_addr) != 1) return bad();
  }
  return address;
}

std::string textOf(const sockaddr_storage& bytes) {
  char host[INET6_ADDRSTRLEN] = "";
  if (bytes.ss_family == AF_INET) {
    const auto& v4 = reinterpret_cast<const sockaddr_in&>(bytes);
    ::inet_ntop(AF_INET, &v4.sin_addr, host, sizeof host);
    return std::string(host) + ":" + std::to_string(ntohs(v4.sin_port));
  }
  if (bytes.ss_family == AF_INET6) {
    const auto& v6 = reinterpret_cast<const sockaddr_in6&>(bytes);
    ::inet_ntop(AF_INET6, &v6.sin6_addr, host, sizeof host);
    return "[" + std::string(host) + "]:" + std::to_string(ntohs(v6.sin6_port));
  }
  return {};
}

}  // namespace

Result<Fd> listenOn(std::string_view text, Millis patience) {
  const Address address = TRY(parseAddress(text));
  const auto deadline = base::monotonicNow() + patience;
  const auto* raw = reinterpret_cast<const sockaddr*>(&address.bytes);
  constexpr int kBacklog = 4096;
  constexpr Millis kPause{50};
  for (;;) {
    Fd fd(::socket(address.bytes.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (!fd) return failErrno("making a socket");
    const int one = 1;
    ::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    if (::bind(fd.get(), raw, address.size) == 0 && ::listen(fd.get(), kBacklog) == 0) {
      return moveUp(std::move(fd));
    }
    if (errno != EADDRINUSE || base::monotonicNow() >= deadline) {
      return failErrno("listening on " + std::string(text));
    }
    std::this_thread::sleep_for(kPause);
  }
}

Result<> checkAddress(std::string_view address) {
  TRY(parseAddress(address));
  return {};
}

std::string addressOf(int fd) {
  Address address;
  address.size = sizeof address.bytes;
  if (::getsockname(fd, reinterpret_cast<sockaddr*>(&address.bytes), &address.size) != 0) return {};
  return textOf(address.bytes);
}

std::string reachable(std::string_view address) {
  if (address.starts_with("0.0.0.0:")) return "127.0.0.1" + std::string(address.substr(7));
  if (address.starts_with("[::]:")) return "[::1]" + std::string(address.substr(4));
  return std::string(address);
}

bool isLoopback(std::string_view address) {
  return address.starts_with("127.") || address.starts_with("localhost:") ||
         address.starts_with("[::1]:");
}

}  // namespace cloister::supervisor
