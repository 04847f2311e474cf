// SPDX-License-Identifier: Apache-2.0
#include "net/blocking_client.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <exception>
#include <optional>
#include <tuple>
#include <utility>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/error.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/beast/core/error.hpp>
#include <boost/system/system_error.hpp>
#include <netdb.h>

#include "net/pass_on.h"

namespace cloister::net {
namespace {

namespace asio = boost::asio;
using base::Monotonic;
using base::monotonicNow;

struct FreeAddresses {
  void operator()(addrinfo* list) const { ::freeaddrinfo(list); }
};
using Addresses = std::unique_ptr<addrinfo, FreeAddresses>;

// On this thread: a caller that waits for the answer may also wait for the name.
Result<Addresses> resolve(const Url& url) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV;
  addrinfo* list = nullptr;
  int error = ::getaddrinfo(url.host.c_str(), url.port.c_str(), &hints, &list);
  if (error == EAI_NONAME) {
    hints.ai_flags = AI_NUMERICSERV;
    error = ::getaddrinfo(url.host.c_str(), url.port.c_str(), &hints, &list);
  }
  if (error != 0) {
    return fail(Code::kUnavailable, "resolving " + url.host + ": " + ::gai_strerror(error));
  }
  return Addresses(list);
}

bool isTimeout(const ClientStream::Error& error) {
  return error == boost::beast::error::timeout;
}

std::string whatOf(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const std::exception& thrown) {
    return thrown.what();
  }
}

// Why a handshake failed, other than for the certificate.
std::string handshakeFault(const ClientStream::Error& error) {
  if (error == asio::error::eof) return "TLS: it closed the connection";
  if (isTimeout(error)) return "TLS: it does not answer in time";
  const std::string cause = causeOf(error);
  return cause.starts_with("TLS: ") ? cause : "TLS: " + cause;
}

}  // namespace

struct BlockingClient::State {
  State(Endpoint of, int interrupt_fd) : endpoint(std::move(of)), interrupt(interrupt_fd) {}
  ~State() { close(); }
  State(const State&) = delete;
  State& operator=(const State&) = delete;

  [[nodiscard]] std::string talking() const { return "talking to " + endpoint.url.authority(); }
  [[nodiscard]] std::unexpected<Error> broken(std::string_view what) const {
    return fail(Code::kUnavailable, talking() + ": " + std::string(what));
  }

  // Runs `task` to its end. An interrupt closes the connection, which ends the task.
  template <class T>
  Result<T> run(asio::awaitable<Result<T>> task) {
    std::optional<Result<T>> result;
    asio::co_spawn(io, std::move(task), [&](const std::exception_ptr& error, Result<T> value) {
      if (error) value = fail(Code::kInternal, talking() + ": " + whatOf(error));
      result = std::move(value);
    });
    io.restart();
    io.poll();
    bool stopped = false;
    while (!result) {
      stopped = stopped || isInterrupted();
      if (stopped) {
        closeConnection();  // each turn: a task that tries the next address opens it again
      } else {
        watch();
      }
      io.run_one();
    }
    if (!stopped) return *std::move(result);
    interrupted = true;
    close();
    return broken("interrupted");
  }

  [[nodiscard]] bool isInterrupted() const {
    pollfd polled{interrupt, POLLIN, 0};
    return interrupt >= 0 && ::poll(&polled, 1, 0) > 0;
  }

  // Makes run_one() return once the interrupt is readable.
  void watch() {
    if (interrupt < 0 || watching) return;
    if (!watched && !openWatch()) return;  // no descriptor is left: noticed between operations
    watching = true;
    watched->async_wait(asio::posix::stream_descriptor::wait_read,
                        [this](const boost::system::error_code&) { watching = false; });
  }

  bool openWatch() {
    Fd copy(::fcntl(interrupt, F_DUPFD_CLOEXEC, 0));
    boost::system::error_code error;
    watched.emplace(io);
    if (copy) watched->assign(copy.get(), error);
    if (!copy || error) {
      watched.reset();
      return false;
    }
    std::ignore = copy.release();
    return true;
  }

  void closeConnection() {
    if (connecting) connecting->close();
    if (connection) connection->close();
  }

  void close() {
    closeConnection();
    connection.reset();
    connecting.reset();
  }

  Result<> connect(Millis timeout) {
    close();
    const Addresses addresses = TRY(resolve(endpoint.url));
    if (endpoint.url.tls) tls.emplace(TRY(clientTls(endpoint.trust)));
    try {
      connecting.emplace(io.get_executor());  // the first one opens the descriptors of `io`
    } catch (const boost::system::system_error& error) {
      return fail(Code::kUnavailable, "preparing a connection: " + error.code().message());
    }
    TRY(run(connectTo(addresses.get(), timeout)));
    connection.emplace(*std::exchange(connecting, std::nullopt), endpoint.url.authority(),
                       talking());
    return {};
  }

  asio::awaitable<Result<>> connectTo(const addrinfo* addresses, Millis timeout) {
    ClientStream::Error error = asio::error::connection_refused;
    for (const addrinfo* at = addresses; at != nullptr; at = at->ai_next) {
      connecting->expiresAt(monotonicNow() + timeout);
      error = co_await connecting->connect(
          ClientStream::Endpoint(at->ai_addr, at->ai_addrlen, at->ai_protocol));
      if (!error || error == asio::error::operation_aborted) break;
    }
    if (isTimeout(error)) error = asio::error::timed_out;
    if (error) {
      co_return fail(Code::kUnavailable,
                     "connecting to " + endpoint.url.authority() + ": " + error.message());
    }
    if (endpoint.url.tls) co_return co_await secure(monotonicNow() + timeout);
    co_return Result<>{};
  }

  asio::awaitable<Result<>> secure(Monotonic deadline) {
    connecting->expiresAt(deadline);
    const bool pinned = !endpoint.trust.pinned.empty();
    const auto error = co_await connecting->secure(*tls, pinned ? "" : endpoint.url.host);
    if (!error) co_return Result<>{};
    if (error == asio::error::invalid_argument) {
      co_return fail(Code::kInvalid,
                     "preparing TLS: " + endpoint.url.host + " is no name of a server");
    }
    const std::string fault = connecting->certificateFault();
    if (fault.empty()) co_return broken(handshakeFault(error));
    co_return broken("TLS: the server's certificate is not believed: " + fault + "; " +
                     endpoint.trust.ca_name + " names a file of the authority that it is from");
  }

  Result<HttpHead> open(const HttpRequest& request, Millis timeout) {
    HttpRequest sent = request;
    sent.target.insert(0, endpoint.url.target);
    sent.patience = timeout;
    if (!endpoint.key.empty()) sent.headers.emplace("Authorization", "Bearer " + endpoint.key);
    const Monotonic deadline = monotonicNow() + timeout;
    // A server may close an idle connection at any time; a request without effects may be sent
    // again.
    if (connection && connection->reusable()) {
      auto head = run(connection->open(sent, deadline));
      const bool again = !head && request.method == "GET" && connection &&
                         !connection->answered() && monotonicNow() < deadline;
      if (!again) return head;
    }
    TRY(connect(timeout));
    return run(connection->open(sent, std::max(deadline, monotonicNow())));
  }

  Endpoint endpoint;
  int interrupt;
  bool interrupted = false;
  asio::io_context io{1};
  std::optional<asio::posix::stream_descriptor> watched;  // a copy of `interrupt`
  bool watching = false;
  std::optional<asio::ssl::context> tls;
  std::optional<ClientStream> connecting;
  std::optional<HttpConnection> connection;
};

BlockingClient::BlockingClient(Endpoint endpoint, int interrupt)
    : state_(std::make_unique<State>(std::move(endpoint), interrupt)) {}
BlockingClient::~BlockingClient() = default;
BlockingClient::BlockingClient(BlockingClient&&) noexcept = default;
BlockingClient& BlockingClient::operator=(BlockingClient&&) noexcept = default;

Result<HttpHead> BlockingClient::open(const HttpRequest& request, Millis timeout) {
  return state_->open(request, timeout);
}

Result<BlockingClient::Piece> BlockingClient::read(std::string& out, Millis timeout) {
  if (!state_->connection) return Piece::kEnd;
  return state_->run(state_->connection->read(out, monotonicNow() + timeout));
}

Result<HttpResponse> BlockingClient::exchange(const HttpRequest& request, Millis timeout) {
  const Monotonic deadline = monotonicNow() + timeout;
  HttpResponse response{TRY(open(request, timeout)), {}};
  if (!state_->connection) return response;
  response.body = TRY(state_->run(state_->connection->rest(kMaxBody, deadline)));
  return response;
}

Result<Fd> BlockingClient::detach(std::string& rest) {
  if (!state_->connection) return fail(Code::kInternal, "detaching a connection: there is none");
  ClientStream stream = std::move(*state_->connection).detach(rest);
  state_->connection.reset();
  if (stream.secured()) return passOn(std::move(stream));
  return std::move(stream).release();
}

bool BlockingClient::interrupted() const {
  return state_->interrupted;
}

const Url& BlockingClient::url() const {
  return state_->endpoint.url;
}

void BlockingClient::close() {
  state_->close();
}

}  // namespace cloister::net
