// SPDX-License-Identifier: Apache-2.0
#include "egress/dial/ares.h"

#include <sys/socket.h>
#include <sys/time.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <optional>
#include <tuple>
#include <utility>

#include <ares.h>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <netdb.h>

namespace cloister::egress {
namespace {

namespace asio = boost::asio;
using Descriptor = asio::posix::stream_descriptor;

// ares_library_init(3) must precede every other call.
int libraryStatus() {
  static const int status = ::ares_library_init(ARES_LIB_INIT_ALL);
  return status;
}

Error aresError(std::string_view doing, int status) {
  Code code = Code::kUnavailable;
  if (status == ARES_ENOTFOUND || status == ARES_ENODATA) code = Code::kNotFound;
  if (status == ARES_EBADNAME || status == ARES_EBADQUERY) code = Code::kInvalid;
  const std::string_view cause = code == Code::kNotFound       ? "no such name"
                                 : status == ARES_ETIMEOUT     ? "no answer in time"
                                 : status == ARES_ECONNREFUSED ? "the DNS server cannot be reached"
                                 : status == ARES_ESERVFAIL    ? "the DNS server failed"
                                 : status == ARES_EREFUSED     ? "the DNS server refused"
                                                               : ::ares_strerror(status);
  return Error{code, std::string(doing) + ": " + std::string(cause), {}};
}

std::optional<base::Address> addressOf(const ares_addrinfo_node& node) {
  sockaddr_storage at{};
  if (node.ai_addr == nullptr || node.ai_addrlen > sizeof at) return std::nullopt;
  std::memcpy(&at, node.ai_addr, node.ai_addrlen);
  return base::Address::of(at);
}

// An answer over TCP has room for thousands of addresses, each of which is kept and judged.
constexpr size_t kMostAddresses = 64;

bool isLong(const ares_addrinfo& info) {
  size_t count = 0;
  for (const auto* node = info.nodes; node != nullptr && count <= kMostAddresses;
       node = node->ai_next)
    ++count;
  return count > kMostAddresses;
}

AresChannel::Found foundIn(const ares_addrinfo& info) {
  AresChannel::Found found;
  std::vector<base::Address> later;
  found.ttl = INT32_MAX;
  for (const auto* node = info.nodes; node != nullptr; node = node->ai_next) {
    const auto address = addressOf(*node);
    if (!address) continue;
    found.ttl = std::min<int64_t>(found.ttl, std::max(0, node->ai_ttl));
    (address->isV4() ? found.addresses : later).push_back(*address);
  }
  found.addresses.insert(found.addresses.end(), later.begin(), later.end());
  return found;
}

// A callback on its way through c-ares, which calls it exactly once.
template <class T>
struct Pending {
  std::string doing;
  std::function<void(Result<T>)> done;
};

}  // namespace

struct AresChannel::State {
  explicit State(asio::any_io_executor at) : executor(std::move(at)), timer(executor) {}
  ~State() {
    if (channel != nullptr) ::ares_destroy(std::exchange(channel, nullptr));
    for (auto& [fd, socket] : sockets)
      std::ignore = socket->descriptor.release();
  }
  State(const State&) = delete;
  State& operator=(const State&) = delete;

  // A socket of c-ares, which opens and closes it.
  struct Socket {
    explicit Socket(const asio::any_io_executor& executor) : descriptor(executor) {}
    Descriptor descriptor;
    bool read = false;  // wanted
    bool write = false;
    bool reading = false;  // a wait is under way
    bool writing = false;
  };

  static void onSocket(void* data, ares_socket_t fd, int readable, int writable) {
    auto& state = *static_cast<State*>(data);
    if (readable == 0 && writable == 0) {
      state.forget(fd);
      return;
    }
    auto& socket = state.sockets[fd];
    if (!socket) {
      socket = std::make_shared<Socket>(state.executor);
      boost::system::error_code error;
      socket->descriptor.assign(fd, error);
      if (error) {  // the query then ends by its timeout
        state.sockets.erase(fd);
        return;
      }
    }
    socket->read = readable != 0;
    socket->write = writable != 0;
    state.watch(fd, socket);
  }

  void forget(ares_socket_t fd) {
    const auto found = sockets.find(fd);
    if (found == sockets.end()) return;
    found->second->read = found->second->write = false;
    std::ignore = found->second->descriptor.release();
    sockets.erase(found);
  }

  void watch(ares_socket_t fd, const std::shared_ptr<Socket>& socket) {
    if (socket->read && !std::exchange(socket->reading, true))
      wait(fd, socket, Descriptor::wait_read);
    if (socket->write && !std::exchange(socket->writing, true))
      wait(fd, socket, Descriptor::wait_write);
  }

  void wait(ares_socket_t fd, const std::shared_ptr<Socket>& socket, Descriptor::wait_type what) {
    socket->descriptor.async_wait(what,
                                  [weak = self, socket, fd, what](boost::system::error_code error) {
                                    const bool to_read = what == Descriptor::wait_read;
                                    (to_read ? socket->reading : socket->writing) = false;
                                    const auto kept = weak.lock();
                                    // A released descriptor's number may belong to another socket
                                    // by now.
                                    if (error || !kept || !(to_read ? socket->read : socket->write))
                                      return;
                                    State& state = *kept->state_;
                                    ::ares_process_fd(state.channel, to_read ? fd : ARES_SOCKET_BAD,
                                                      to_read ? ARES_SOCKET_BAD : fd);
                                    state.watch(fd, socket);
                                    state.arm();
                                  });
  }

  // Wakes c-ares at its next timeout.
  void arm() {
    timeval next{};
    if (::ares_timeout(channel, nullptr, &next) == nullptr) {
      timer.cancel();
      return;
    }
    timer.expires_after(std::chrono::seconds(next.tv_sec) + Micros(next.tv_usec) + Millis(1));
    timer.async_wait([weak = self](boost::system::error_code error) {
      const auto kept = weak.lock();
      if (error || !kept) return;
      ::ares_process_fd(kept->state_->channel, ARES_SOCKET_BAD, ARES_SOCKET_BAD);
      kept->state_->arm();
    });
  }

  asio::any_io_executor executor;
  asio::steady_timer timer;
  std::weak_ptr<AresChannel> self;
  ares_channel channel = nullptr;
  std::map<ares_socket_t, std::shared_ptr<Socket>> sockets;
};

AresChannel::AresChannel(std::unique_ptr<State> state) : state_(std::move(state)) {}
AresChannel::~AresChannel() = default;

Result<std::shared_ptr<AresChannel>> AresChannel::make(asio::any_io_executor executor,
                                                       const AresOptions& options) {
  constexpr std::string_view kDoing = "starting the resolver";
  if (const int status = libraryStatus(); status != ARES_SUCCESS) {
    return std::unexpected(aresError(kDoing, status));
  }
  auto state = std::make_unique<State>(std::move(executor));
  char lookups[] = "b";  // DNS alone: the host's own names are not for sandboxes
  std::string resolv_conf = options.resolv_conf;
  ares_options values{};
  values.flags = ARES_FLAG_NOSEARCH | ARES_FLAG_NOALIASES | ARES_FLAG_EDNS;
  values.timeout = static_cast<int>(options.timeout.count());
  values.tries = options.tries;
  values.ednspsz = 1232;  // no fragments (DNS flag day 2020)
  values.lookups = lookups;
  values.udp_port = values.tcp_port = options.port;
  values.sock_state_cb = &State::onSocket;
  values.sock_state_cb_data = state.get();
  values.resolvconf_path = resolv_conf.data();
  int mask = ARES_OPT_FLAGS | ARES_OPT_TIMEOUTMS | ARES_OPT_TRIES | ARES_OPT_LOOKUPS |
             ARES_OPT_UDP_PORT | ARES_OPT_TCP_PORT | ARES_OPT_DOMAINS | ARES_OPT_SOCK_STATE_CB |
             ARES_OPT_EDNSPSZ;
  if (!resolv_conf.empty()) mask |= ARES_OPT_RESOLVCONF;
  int status = ::ares_init_options(&state->channel, &values, mask);
  if (status != ARES_SUCCESS) return std::unexpected(aresError(kDoing, status));
  if (!options.servers.empty()) {
    status = ::ares_set_servers_ports_csv(state->channel, options.servers.c_str());
    if (status != ARES_SUCCESS) {
      return fail(Code::kInvalid, "must be ADDRESS:PORT, with commas between several");
    }
  }
  auto channel = std::shared_ptr<AresChannel>(new AresChannel(std::move(state)));
  channel->state_->self = channel;
  return channel;
}

void AresChannel::cancel() {
  const auto kept = shared_from_this();
  ::ares_cancel(state_->channel);
}

void AresChannel::addresses(const std::string& name, std::function<void(Result<Found>)> done) {
  using Waiting = Pending<Found>;
  auto* waiting = new Waiting{"resolving " + name, std::move(done)};
  ares_addrinfo_hints hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = ARES_AI_NOSORT;
  const auto kept = shared_from_this();
  ::ares_getaddrinfo(
      state_->channel, name.c_str(), nullptr, &hints,
      [](void* arg, int status, int, ares_addrinfo* info) {
        const std::unique_ptr<Waiting> waited(static_cast<Waiting*>(arg));
        const std::unique_ptr<ares_addrinfo, decltype(&::ares_freeaddrinfo)> owned(
            info, &::ares_freeaddrinfo);
        if (status != ARES_SUCCESS || info == nullptr) {
          waited->done(std::unexpected(aresError(waited->doing, status)));
        } else if (isLong(*info)) {
          waited->done(std::unexpected(
              Error{Code::kDenied, waited->doing + ": the answer has too many addresses", {}}));
        } else {
          waited->done(foundIn(*info));
        }
      },
      waiting);
  state_->arm();
}

void AresChannel::message(const std::string& name, uint16_t type,
                          std::function<void(Result<std::string>)> done) {
  using Waiting = Pending<std::string>;
  constexpr int kInternet = 1;  // class IN
  auto* waiting = new Waiting{"resolving " + name, std::move(done)};
  const auto kept = shared_from_this();
  ::ares_query(
      state_->channel, name.c_str(), kInternet, type,
      [](void* arg, int status, int, unsigned char* bytes, int length) {
        const std::unique_ptr<Waiting> waited(static_cast<Waiting*>(arg));
        const bool negative = status == ARES_ENODATA || status == ARES_ENOTFOUND;
        if ((status == ARES_SUCCESS || negative) && bytes != nullptr && length > 0) {
          waited->done(
              std::string(reinterpret_cast<const char*>(bytes), static_cast<size_t>(length)));
        } else {
          waited->done(std::unexpected(aresError(waited->doing, status)));
        }
      },
      waiting);
  state_->arm();
}

}  // namespace cloister::egress
