// SPDX-License-Identifier: Apache-2.0
#include "sandbox/microvm/qmp.h"

#include <array>
#include <memory>
#include <span>
#include <string_view>
#include <utility>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/buffer.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>

#include "base/json.h"
#include "linux/message.h"
#include "model/escalation.h"

namespace cloister::runtime::microvm {
namespace {

namespace asio = boost::asio;
constexpr auto kUse = asio::as_tuple(asio::use_awaitable);

constexpr size_t kMostLine = 16'384;  // QEMU 7.2's longest message is 1 KiB
constexpr size_t kMostLines = 4'096;  // in all
constexpr size_t kMostReason = 300;
constexpr Millis kLookEvery{10};

constexpr std::string_view kCapabilities = R"({"execute":"qmp_capabilities"})"
                                           "\n";
constexpr std::string_view kIgnoreShared =
    R"({"execute":"migrate-set-capabilities","arguments":{"capabilities":)"
    R"([{"capability":"x-ignore-shared","state":true}]}})"
    "\n";
constexpr std::string_view kGetState = R"({"execute":"getfd","arguments":{"fdname":"state"}})"
                                       "\n";
constexpr std::string_view kMigrate = R"({"execute":"migrate","arguments":{"uri":"fd:state"}})"
                                      "\n";
constexpr std::string_view kQuery = R"({"execute":"query-migrate"})"
                                    "\n";

std::unexpected<Error> failed(std::string_view what) {
  return fail(Code::kInternal,
              "keeping a machine: " + model::safeText(what.substr(0, kMostReason), kMostReason));
}

class Monitor {
 public:
  Monitor(const asio::any_io_executor& executor, Fd socket)
      : socket_(executor, asio::local::stream_protocol(), socket.release()) {}

  // Receives the greeting.
  Task<Result<>> greeting() {
    const auto said = CO_TRY(co_await next());
    if (!said.contains("QMP")) co_return failed("QEMU said no greeting");
    co_return Result<>();
  }

  // Sends an order and returns the answer. Events in between are ignored.
  Task<Result<base::json::object>> order(std::string_view order, std::span<const int> fds = {}) {
    CO_TRY(linux::sendMessage(socket_.native_handle(), order, fds));
    for (;;) {
      auto said = CO_TRY(co_await next());
      if (said.contains("event")) continue;
      if (const auto* error = said.if_contains("error")) co_return failed(base::toJson(*error));
      auto* const value = said.if_contains("return");
      if (value == nullptr || !value->is_object()) co_return failed("QEMU answered something else");
      co_return std::move(value->as_object());
    }
  }

  void close() {
    boost::system::error_code ignored;
    socket_.close(ignored);
  }

 private:
  Task<Result<base::json::object>> next() {
    size_t end = 0;
    while ((end = held_.find('\n')) == std::string::npos) {
      if (held_.size() > kMostLine) co_return failed("QEMU says too much");
      std::array<char, 4'096> bytes;
      const auto [error, n] = co_await socket_.async_read_some(asio::buffer(bytes), kUse);
      if (error || !socket_.is_open()) co_return failed("QEMU says nothing more");
      held_.append(bytes.data(), n);
    }
    if (end > kMostLine || ++lines_ > kMostLines) co_return failed("QEMU says too much");
    auto value = base::parseJson(std::string_view(held_).substr(0, end));
    held_.erase(0, end + 1);
    if (!value || !value->is_object()) co_return failed("QEMU says what is no message");
    co_return std::move(value->as_object());
  }

  asio::local::stream_protocol::socket socket_;
  std::string held_;
  size_t lines_ = 0;
};

// The machine runs until all but the last part is written, and so runs after it resumes.
Task<Result<>> migrate(Monitor& monitor, int state, asio::steady_timer& pause) {
  CO_TRY(co_await monitor.greeting());
  CO_TRY(co_await monitor.order(kCapabilities));
  CO_TRY(co_await monitor.order(kIgnoreShared));
  CO_TRY(co_await monitor.order(kGetState, {&state, 1}));
  CO_TRY(co_await monitor.order(kMigrate));
  for (;;) {
    const auto told = CO_TRY(co_await monitor.order(kQuery));
    const auto* status = told.if_contains("status");
    const auto* text = status != nullptr ? status->if_string() : nullptr;
    if (text == nullptr) co_return failed("QEMU tells no status");
    if (*text == "completed") co_return Result<>();
    if (*text == "failed" || *text == "cancelled") co_return failed(base::toJson(told));
    pause.expires_after(kLookEvery);
    co_await pause.async_wait(kUse);
  }
}

}  // namespace

std::string ordersToResume(int state) {
  return std::string(kCapabilities).append(kIgnoreShared) +
         R"({"execute":"migrate-incoming","arguments":{"uri":"fd:)" + std::to_string(state) +
         "\"}}\n";
}

Task<Result<>> saveState(asio::any_io_executor executor, Fd socket, int state, Millis patience) {
  const auto monitor = std::make_shared<Monitor>(executor, std::move(socket));
  asio::steady_timer late(executor, patience);
  late.async_wait([monitor](const boost::system::error_code& error) {
    if (!error) monitor->close();
  });
  asio::steady_timer pause(executor);
  co_return co_await migrate(*monitor, state, pause);
}

}  // namespace cloister::runtime::microvm
