// SPDX-License-Identifier: Apache-2.0
// IndexCache: read indexes of packages, for a short time and within a bound of memory. Requests for
// the same name share one question to the upstream. One thread.
#pragma once

#include <functional>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>

#include "async/signal.h"
#include "base/clock.h"
#include "base/result.h"

namespace cloister::egress {

template <class Index>
class IndexCache {
 public:
  template <class T>
  using Task = boost::asio::awaitable<T>;
  using Found = Result<std::shared_ptr<const Index>>;
  using Fetch = std::function<Task<Result<Index>>()>;

  // `kept`: how long an index is used; 0: only by requests that wait for it. `bytes`: of all kept
  // ones, by Index::bytes.
  IndexCache(boost::asio::any_io_executor executor, Millis kept, size_t bytes)
      : executor_(std::move(executor)), kept_(kept), most_(bytes) {}

  // The index of a name, fetched if it is not there. `fetch` lives until the return. The cache
  // outlives the call.
  Task<Found> get(std::string name, Fetch fetch) {
    if (auto index = lookUp(name)) co_return index;
    if (const auto asked = asking_.find(name); asked != asking_.end()) {
      const std::shared_ptr<Asking> shared = asked->second;
      while (!shared->found)
        co_await shared->done.wait();
      co_return *shared->found;
    }
    const auto own = std::make_shared<Asking>(executor_);
    asking_.emplace(name, own);
    const Ended ended{*this, name, own};
    Result<Index> fetched = co_await fetch();
    if (!fetched) {
      own->found = std::unexpected(std::move(fetched).error());
    } else {
      auto index = std::make_shared<const Index>(*std::move(fetched));
      keep(name, index);
      own->found = std::move(index);
    }
    co_return *own->found;
  }

 private:
  struct Asking {
    explicit Asking(boost::asio::any_io_executor executor) : done(std::move(executor)) {}
    async::Signal done;
    std::optional<Found> found;
  };
  struct Kept {
    std::shared_ptr<const Index> index;
    base::Monotonic until;
    std::list<std::string>::iterator age;
  };
  // A fetch may end by the end of its connection: whoever waits for it must not wait for ever.
  struct Ended {
    IndexCache& cache;
    std::string name;
    std::shared_ptr<Asking> own;
    ~Ended() {
      cache.asking_.erase(name);
      if (!own->found) own->found = fail(Code::kUnavailable, "the index was not read; try again");
      own->done.notify();
    }
  };

  std::shared_ptr<const Index> lookUp(const std::string& name) {
    const auto found = index_.find(name);
    if (found == index_.end()) return nullptr;
    if (base::monotonicNow() < found->second.until) return found->second.index;
    drop(found);
    return nullptr;
  }

  void keep(const std::string& name, const std::shared_ptr<const Index>& index) {
    if (kept_ == Millis(0) || index->bytes > most_ / 4) return;
    if (const auto old = index_.find(name); old != index_.end()) drop(old);
    while (!ages_.empty() && bytes_ + index->bytes > most_)
      drop(index_.find(ages_.front()));
    bytes_ += index->bytes;
    ages_.push_back(name);
    index_.emplace(name, Kept{index, base::monotonicNow() + kept_, std::prev(ages_.end())});
  }

  void drop(typename std::map<std::string, Kept>::iterator entry) {
    bytes_ -= entry->second.index->bytes;
    ages_.erase(entry->second.age);
    index_.erase(entry);
  }

  boost::asio::any_io_executor executor_;
  Millis kept_;
  size_t most_;
  size_t bytes_ = 0;
  std::map<std::string, Kept> index_;
  std::list<std::string> ages_;  // names, oldest first
  std::map<std::string, std::shared_ptr<Asking>> asking_;
};

}  // namespace cloister::egress
