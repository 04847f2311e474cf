// SPDX-License-Identifier: Apache-2.0
// LayerSource over a store of the node (images/store.h) in a directory of its own. A layer's tree
// has one directory for each place (confine/layer_order.h). `cloister-image` makes a layer, since
// no serving process reads what a sandbox wrote. One thread.
//
// The store is bounded: before a layer is made, those that were used the longest time ago and that
// no sandbox has are removed.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include <boost/asio/any_io_executor.hpp>

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
  // What is known of a layer that was compared with its digest.
  struct Known {
    std::string stamps;  // linux::TreeDigest::cache()
    base::Monotonic looked{};
  };
  [[nodiscard]] Result<> look(const std::string& digest);
  Result<> makeRoom();

  boost::asio::any_io_executor executor_;
  LayerStoreConfig config_;
  images::Store store_;
  std::map<std::string, Known> known_;  // by digest
};

}  // namespace cloister::node
