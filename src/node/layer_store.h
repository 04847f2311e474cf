// SPDX-License-Identifier: Apache-2.0
// LayerSource over a store of the node (images/store.h) in a directory of its own. A layer's tree
// has one directory for each place (confine/layer_order.h). `cloister-image` makes a layer, since
// no serving process reads what a sandbox wrote. One thread.
//
// The store is bounded: before a layer is made, those that were used the longest time ago and that
// no sandbox has are removed.
//
// A tenant chooses the packages of a layer, and so how many files it has. Whatever reads or removes
// them runs on a thread aside: the io thread serves the sandboxes of others.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/thread_pool.hpp>

#include "async/signal.h"
#include "base/clock.h"
#include "images/bounds.h"
#include "images/store.h"
#include "sandbox/image/layer_source.h"

namespace cloister::node {

struct LayerStoreConfig {
  std::string directory;
  std::string importer;      // path of cloister-image
  uint64_t max_bytes = 0;    // of all layers together
  Millis patience{600'000};  // for the making of a layer
  Millis looks_every{200};   // a layer is compared with its digest at most so often
};

class LayerStore final : public runtime::LayerSource {
 public:
  LayerStore(boost::asio::any_io_executor executor, LayerStoreConfig config);

  runtime::Task<Result<Fd>> open(std::string digest) override;
  runtime::Task<Result<base::json::object>> add(std::string name, Fd directory) override;

 private:
  // A comparison under way. Whoever wants the layer meanwhile waits for its result.
  struct Look {
    explicit Look(boost::asio::any_io_executor executor) : ended(std::move(executor)) {}
    async::Signal ended;
    std::optional<Result<>> result;
  };
  // What is known of a layer that was compared with its digest.
  struct Known {
    std::string stamps;  // linux::TreeDigest::cache()
    base::Monotonic looked{};
    std::shared_ptr<Look> under_way;
  };
  runtime::Task<Result<>> look(std::string digest);
  // Runs `work` on the thread aside.
  template <class T>
  runtime::Task<T> aside(std::function<T()> work);
  // Returns when no work is under way: a child must not be a copy of a running thread's memory.
  runtime::Task<void> quiet();

  boost::asio::any_io_executor executor_;
  LayerStoreConfig config_;
  images::Store store_;
  std::map<std::string, Known> known_;  // by digest
  async::Signal changed_;               // of the next two
  size_t working_ = 0;
  size_t wants_quiet_ = 0;
  std::optional<boost::asio::thread_pool> thread_;  // once there was work
};

}  // namespace cloister::node
