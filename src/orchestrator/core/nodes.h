// SPDX-License-Identifier: Apache-2.0
// Nodes: the nodes that sandboxes are made on, as the services see them; one node for now. Whoever
// asks for a node asks here, so that a second node changes this class and not its users.
//
// On the services' executor (one thread).
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "model/execution.h"
#include "model/image_state.h"
#include "model/plan.h"
#include "orchestrator/core/places.h"
#include "runtime/runtime.h"

namespace cloister::orchestrator {

// `runtime` is null while the node is not connected. The runtimes that it offered last stay, so
// that queued runs are not refused while it reconnects.
struct NodeState {
  runtime::Runtime* runtime = nullptr;
  model::NodeOffer offer;
};

class Nodes {
 public:
  // Services that are told when a node changes, from Nodes::set().
  class Watcher {
   public:
    virtual ~Watcher() = default;
    // The digest of a node's own image is known, or known to be another; nodeCame() follows.
    virtual void imageVerified() {}
    // A node connected, or offers something else.
    virtual void nodeCame() {}
    // Its connection ended, and with it all that ran there.
    virtual void nodeLost() {}
  };

  // `places` has the capacity of the nodes, and outlives this.
  explicit Nodes(Places& places) : places_(places) {}

  // imageVerified() is called in the order of watch(). The other calls come in the reverse order:
  // sessions hear of a lost node before the runs in them.
  void watch(std::weak_ptr<Watcher> watcher) { watchers_.push_back(std::move(watcher)); }

  // The node connected, offers something else, or (with a null runtime) has gone.
  void set(NodeState state);

  // The node for a new sandbox. The reference stays valid, whatever becomes of the node.
  [[nodiscard]] const NodeState& current() const { return node_; }
  [[nodiscard]] bool connected() const { return node_.runtime != nullptr; }
  [[nodiscard]] runtime::Runtime* runtime() const { return node_.runtime; }
  [[nodiscard]] const model::NodeOffer& offer() const { return node_.offer; }

  // The state of the node's own image, as the node reported it last; it stays when the node goes.
  [[nodiscard]] const std::optional<model::ImageState>& image() const { return image_; }
  // The name of that image for approvals; "" where the node has not reported it.
  [[nodiscard]] std::string imageName() const;
  // model::ImageState::since for a sandbox that is asked for now: by the node's clock the sandbox
  // is made after it, and what the node says later of its image can only be later.
  [[nodiscard]] int64_t imageSince() const { return image_ ? image_->since : 0; }
  // Adds the digest to the record of what ran in a sandbox made after `since`, where the image is
  // verified by now and was the same then.
  void settleImage(model::Provenance& provenance, int64_t since) const;

 private:
  [[nodiscard]] std::vector<std::shared_ptr<Watcher>> watchers();

  Places& places_;
  NodeState node_;
  std::optional<model::ImageState> image_;
  std::vector<std::weak_ptr<Watcher>> watchers_;
};

// Whether it ran on an image whose content was not verified, as far as its record knows.
bool isUnverified(const model::Provenance& provenance);
// Of an image without a digest, for approvals: another when packages were installed or removed.
std::string unverifiedName(const model::ImageState& image);

}  // namespace cloister::orchestrator
