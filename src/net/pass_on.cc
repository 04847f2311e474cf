// SPDX-License-Identifier: Apache-2.0
#include "net/pass_on.h"

#include <sys/socket.h>

#include <array>
#include <exception>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include <boost/asio/error.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/local/stream_protocol.hpp>

#include "async/spawn.h"

namespace cloister::net {
namespace {

namespace asio = boost::asio;

struct Passing {
  Passing(ClientStream stream, base::Fd socket)
      : there(std::move(stream).movedTo(io.get_executor())),
        here(io.get_executor(), asio::local::stream_protocol(), std::move(socket)) {}

  // Until `from` has ended. An error ends both ways.
  asio::awaitable<void> pass(ClientStream& from, ClientStream& to) {
    std::array<char, 16'384> chunk;
    for (;;) {
      const auto [error, n] = co_await from.read(asio::buffer(chunk));
      if (error == asio::error::eof) {
        co_await to.sayEnd();
        co_return;
      }
      if (error || co_await to.write(asio::buffer(chunk.data(), n))) break;
    }
    there.close();
    here.close();
  }

  void run() {
    async::spawn(io.get_executor(), pass(there, here));
    async::spawn(io.get_executor(), pass(here, there));
    io.run();
  }

  asio::io_context io{1};
  ClientStream there;
  ClientStream here;
};

}  // namespace

Result<base::Fd> passOn(ClientStream stream) {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) != 0) {
    return failErrno("making a pair of sockets");
  }
  base::Fd theirs(ends[0]);
  base::Fd ours(ends[1]);
  try {
    auto passing = std::make_unique<Passing>(std::move(stream), std::move(ours));
    std::thread([passing = std::move(passing)] { passing->run(); }).detach();
  } catch (const std::exception& error) {  // no descriptor or no thread is left
    return fail(Code::kUnavailable, std::string("passing on a connection: ") + error.what());
  }
  return theirs;
}

}  // namespace cloister::net
