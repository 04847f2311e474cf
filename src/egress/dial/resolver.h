// SPDX-License-Identifier: Apache-2.0
// Resolver: names to addresses, for the dialler and for record types that a rule passes on. It asks
// the configured DNS servers, or those of the host's resolv.conf, which is read again when it
// changes. It never uses the host's search list or /etc/hosts: both describe the host's own
// network.
//
// Bounded: the time of a look-up, the number of look-ups in flight (equal ones share a query), and
// the cache, which keeps positive answers alone, no longer than their TTL. One thread.
#pragma once

#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>

#include "async/signal.h"
#include "base/clock.h"
#include "base/network.h"
#include "base/result.h"
#include "egress/dial/ares.h"

namespace cloister::egress {

struct ResolverOptions {
  std::string servers = {};  // "ADDRESS:PORT", with commas between; "": the host's
  std::string resolv_conf = "/etc/resolv.conf";
  uint16_t port = 53;           // of the servers in `resolv_conf`
  Millis most_time{5'000};      // of a look-up
  Millis try_time{2'000};       // of the first question to a server
  size_t most_in_flight = 256;  // queries
  size_t most_of_one = 64;      // of these, of one sandbox
  size_t most_cached = 1024;    // names
  int64_t most_ttl = 60;        // seconds
};

class Resolver {
 public:
  template <class T>
  using Task = boost::asio::awaitable<T>;

  // kInvalid: `servers` is malformed.
  static Result<std::unique_ptr<Resolver>> make(boost::asio::any_io_executor executor,
                                                ResolverOptions options);
  ~Resolver();
  Resolver(const Resolver&) = delete;
  Resolver& operator=(const Resolver&) = delete;

  // The addresses of a name of model::hostName(), of both families, at least one. kNotFound: the
  // name has none; kQuota: too many look-ups are in flight; kUnavailable: no server answers.
  // The caller keeps the resolver alive. `of_one`: counts the sandbox's queries in flight, which
  // can take longer than the caller waits; null: not bounded.
  Task<Result<std::vector<base::Address>>> addresses(std::string name,
                                                     std::shared_ptr<size_t> of_one = nullptr);

  // The answer to a question of another type, as a DNS message, without a cache. The message is of
  // a foreign server: it may have any bytes, and its id is not the asker's.
  Task<Result<std::string>> message(std::string name, uint16_t type,
                                    std::shared_ptr<size_t> of_one = nullptr);

 private:
  using Answer = std::vector<base::Address>;
  struct LookUp;
  struct Cached {
    Answer answer;
    base::Monotonic until;
    std::list<std::string>::iterator age;
  };
  struct File {  // of resolv.conf: a change of one of these is a change of the file
    int64_t modified = 0;
    uint64_t inode = 0;
    int64_t size = -1;
    friend bool operator==(const File&, const File&) = default;
  };

  Resolver(boost::asio::any_io_executor executor, ResolverOptions options);
  Result<std::shared_ptr<AresChannel>> channel();
  [[nodiscard]] File resolvConf() const;
  std::shared_ptr<LookUp> start(const std::shared_ptr<AresChannel>& channel,
                                const std::string& name, std::shared_ptr<size_t> of_one);
  [[nodiscard]] bool isFull(const std::shared_ptr<size_t>& of_one) const;
  void keep(const std::string& name, const AresChannel::Found& found);
  const Answer* cached(const std::string& name);

  boost::asio::any_io_executor executor_;
  ResolverOptions options_;
  std::shared_ptr<AresChannel> channel_;
  File file_;
  std::shared_ptr<size_t> in_flight_;
  std::map<std::string, std::shared_ptr<LookUp>> looking_;
  std::map<std::string, Cached> cache_;
  std::list<std::string> ages_;      // of the cached names, oldest first
  std::shared_ptr<Resolver*> self_;  // null once the resolver is gone
};

}  // namespace cloister::egress
