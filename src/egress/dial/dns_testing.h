// SPDX-License-Identifier: Apache-2.0
// A little DNS server on loopback, for unit tests: UDP, types A and AAAA. It runs on the test's
// io_context.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/udp.hpp>
#include <boost/asio/use_awaitable.hpp>

#include "async/spawn.h"

namespace cloister::egress {

class DnsServer {
 public:
  explicit DnsServer(boost::asio::io_context& io, const std::string& address = "127.0.0.1",
                     uint16_t port = 0)
      : state_(std::make_shared<State>(
            io, boost::asio::ip::udp::endpoint(boost::asio::ip::make_address(address), port))) {
    async::spawn(io.get_executor(), serve(state_));
  }
  DnsServer(const DnsServer&) = delete;
  DnsServer& operator=(const DnsServer&) = delete;
  ~DnsServer() { state_->socket.close(); }

  // The addresses of a name. Names without an entry do not exist.
  void set(const std::string& name, std::vector<std::string> addresses, uint32_t ttl = 300) {
    state_->hosts[name] = {std::move(addresses), ttl};
  }
  void setSilent(bool silent) { state_->silent = silent; }
  [[nodiscard]] uint16_t port() const { return state_->socket.local_endpoint().port(); }
  [[nodiscard]] std::string place() const { return "127.0.0.1:" + std::to_string(port()); }
  // How often the A records of the name were asked for.
  [[nodiscard]] int64_t asked(const std::string& name) const {
    return std::ranges::count(state_->asked, name);
  }
  [[nodiscard]] const std::vector<std::string>& asked() const { return state_->asked; }

 private:
  struct Host {
    std::vector<std::string> addresses;
    uint32_t ttl = 0;
  };
  struct State {
    State(boost::asio::io_context& io, const boost::asio::ip::udp::endpoint& at) : socket(io, at) {}
    boost::asio::ip::udp::socket socket;
    std::map<std::string, Host> hosts;
    std::vector<std::string> asked;
    bool silent = false;
  };

  static constexpr size_t kHeader = 12;
  static constexpr uint8_t kA = 1;
  static constexpr uint8_t kAaaa = 28;

  static boost::asio::awaitable<void> serve(std::shared_ptr<State> state) {
    std::array<char, 1500> buffer{};
    for (;;) {
      boost::asio::ip::udp::endpoint peer;
      const auto [error, count] = co_await state->socket.async_receive_from(
          boost::asio::buffer(buffer), peer, boost::asio::as_tuple(boost::asio::use_awaitable));
      if (error) co_return;
      const std::string reply = answer(*state, std::string(buffer.data(), count));
      boost::system::error_code ignored;
      if (!reply.empty()) state->socket.send_to(boost::asio::buffer(reply), peer, 0, ignored);
    }
  }

  static std::string answer(State& state, const std::string& query) {
    std::string name;
    size_t at = kHeader;
    while (at < query.size() && query[at] != 0) {
      if (!name.empty()) name += '.';
      name.append(query, at + 1, static_cast<size_t>(query[at]));
      at += 1 + static_cast<size_t>(query[at]);
    }
    if (at + 5 > query.size()) return "";
    const auto type = static_cast<uint8_t>(query[at + 2]);
    if (type == kA) state.asked.push_back(name);
    if (state.silent) return "";
    const auto host = state.hosts.find(name);
    const bool known = host != state.hosts.end();
    std::string records;
    char count = 0;
    for (const std::string& text : known ? host->second.addresses : std::vector<std::string>()) {
      const auto address = boost::asio::ip::make_address(text);
      if (address.is_v4() != (type == kA) || (type != kA && type != kAaaa)) continue;
      records += record(type, host->second.ttl, bytesOf(address));
      ++count;
    }
    const std::string flags = {'\x81', known ? '\x80' : '\x83'};
    const std::string counts = {0, 1, 0, count, 0, 0, 0, 0};
    return query.substr(0, 2) + flags + counts + query.substr(kHeader, at + 5 - kHeader) + records;
  }

  static std::string bytesOf(const boost::asio::ip::address& address) {
    if (address.is_v4()) {
      const auto bytes = address.to_v4().to_bytes();
      return {bytes.begin(), bytes.end()};
    }
    const auto bytes = address.to_v6().to_bytes();
    return {bytes.begin(), bytes.end()};
  }

  static std::string record(uint8_t type, uint32_t ttl, const std::string& data) {
    std::string out = {'\xc0', '\x0c', 0, static_cast<char>(type), 0, 1};
    for (int shift = 24; shift >= 0; shift -= 8)
      out += static_cast<char>(ttl >> shift);
    out += '\0';
    out += static_cast<char>(data.size());
    return out + data;
  }

  std::shared_ptr<State> state_;
};

}  // namespace cloister::egress
