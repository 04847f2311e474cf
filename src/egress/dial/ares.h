// SPDX-License-Identifier: Apache-2.0
// AresChannel: c-ares on an Asio executor. One thread. resolver.h adds the bounds and the cache.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <boost/asio/any_io_executor.hpp>

#include "base/clock.h"
#include "base/network.h"
#include "base/result.h"

namespace cloister::egress {

struct AresOptions {
  std::string servers = {};      // "ADDRESS:PORT", with commas between; "": those of `resolv_conf`
  std::string resolv_conf = {};  // a path
  uint16_t port = 53;            // of the servers in `resolv_conf`
  Millis timeout{2'000};         // of the first try; c-ares doubles it for each later one
  int tries = 2;                 // of each server
};

class AresChannel : public std::enable_shared_from_this<AresChannel> {
 public:
  struct Found {
    std::vector<base::Address> addresses;  // IPv4 first, in the order of the answer
    int64_t ttl = 0;                       // seconds; the smallest
  };

  // kInvalid: `servers` is no list of addresses; kUnavailable: `resolv_conf` names no server.
  static Result<std::shared_ptr<AresChannel>> make(boost::asio::any_io_executor executor,
                                                   const AresOptions& options);
  ~AresChannel();
  AresChannel(const AresChannel&) = delete;
  AresChannel& operator=(const AresChannel&) = delete;

  // Each `done` runs once: at an answer, a failure, or the end of the channel; perhaps before the
  // call returns. It must not end the channel.

  // The addresses of both families. No search list and no hosts file is used.
  void addresses(const std::string& name, std::function<void(Result<Found>)> done);
  // The answer to one question of class IN, as a DNS message. A negative answer is a message too.
  void message(const std::string& name, uint16_t type,
               std::function<void(Result<std::string>)> done);

  // Ends all questions with an error.
  void cancel();

 private:
  struct State;
  explicit AresChannel(std::unique_ptr<State> state);

  std::unique_ptr<State> state_;
};

}  // namespace cloister::egress
