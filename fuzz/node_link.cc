// SPDX-License-Identifier: Apache-2.0
// A hostile node: for any input, the control plane's calls return and its observer's rules are
// kept.
#include <unistd.h>

#include <tuple>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/buffer.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>

#include "runtime/remote/remote.h"

#include "observer.h"

using namespace cloister;
namespace asio = boost::asio;
using asio::local::stream_protocol;

namespace {

const std::string& socketPath() {
  static const std::string path = "/tmp/cloister-fuzz-" + std::to_string(getpid()) + ".sock";
  return path;
}

// Plays the bytes to a client, then stays silent.
runtime::Task<void> node(stream_protocol::acceptor& acceptor, std::string_view bytes) {
  constexpr auto kUse = asio::as_tuple(asio::use_awaitable);
  auto [error, socket] = co_await acceptor.async_accept(kUse);
  if (error) co_return;
  std::ignore = co_await asio::async_write(socket, asio::buffer(bytes), kUse);
  boost::system::error_code quiet;
  socket.shutdown(stream_protocol::socket::shutdown_send, quiet);
  char buffer[4096];  // until the other side hangs up
  for (boost::system::error_code gone; !gone;)
    std::tie(gone, std::ignore) =
        co_await socket.async_read_some(asio::buffer(buffer, sizeof buffer), kUse);
}

runtime::Task<void> control(bool& ended) {
  auto link = co_await runtime::connectNode(socketPath());
  if (link) {
    auto sandbox = co_await (*link)->provision({"permit", std::string(64, 's')});
    if (sandbox) {
      model::ExecSpec spec;
      spec.run.argv = {"true"};
      spec.artifacts = {{"**"}, 2, 1000};
      fuzz::StrictObserver observer(UINT32_MAX, UINT64_MAX);
      const auto outcome = co_await (*sandbox)->exec(spec, observer);
      const auto gone = co_await (*sandbox)->teardown();
    }
    const auto plan = co_await (*link)->plan({"permit", std::string(64, 's')});
  }
  ended = true;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  unlink(socketPath().c_str());
  asio::io_context io;
  stream_protocol::acceptor acceptor(io, stream_protocol::endpoint(socketPath()));
  bool ended = false;
  asio::co_spawn(io, node(acceptor, {reinterpret_cast<const char*>(data), size}), asio::detached);
  asio::co_spawn(io, control(ended), asio::detached);
  while (!ended)
    io.run_one();
  return 0;
}
