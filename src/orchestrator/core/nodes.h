// SPDX-License-Identifier: Apache-2.0
// Nodes: the nodes for sandboxes, as seen by the services; one node for now. Services use nodes
// only through this class, so that a second node changes this class and not its users.
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

// `runtime` is null while the node is not connected. The last offered runtimes stay, so that queued
// runs are not refused while the node reconnects.
struct NodeState {
  runtime::Runtime* runtime = nullptr;
  model::NodeOffer offer;
};

class Nodes {
 public:
  // Services notified by Nodes::set() of a node's changes.
  class Watcher {
   public:
    virtual ~Watcher() = default;
    // The digest of a node's own image is known, or known to be another; nodeCame() follows.
    virtual void imageVerified() {}
    // A node connected, or offers something else.
    virtual void nodeCame() {}
    // The node's connection ended, and with the connection all sandboxes.
    virtual void nodeLost() {}
  };

  // `places` has the capacity of the nodes, and outlives Nodes.
  explicit Nodes(Places& places) : places_(places) {}

  // imageVerified() is called in the order of watch(). The other calls come in the reverse order:
  // sessions are notified of a lost node before their runs.
  void watch(std::weak_ptr<Watcher> watcher) { watchers_.push_back(std::move(watcher)); }

  // The node connected, offers something else, or (with a null runtime) has gone.
  void set(NodeState state);

  // The node for a new sandbox. The reference stays valid, whatever becomes of the node.
  [[nodiscard]] const NodeState& current() const { return node_; }
  [[nodiscard]] bool connected() const { return node_.runtime != nullptr; }
  [[nodiscard]] runtime::Runtime* runtime() const { return node_.runtime; }
  [[nodiscard]] const model::NodeOffer& offer() const { return node_.offer; }

  // The node's last report of its own image, kept also when the node is lost.
  [[nodiscard]] const std::optional<model::ImageState>& image() const { return image_; }
  // The image's name for approvals; "" without a report from the node.
  [[nodiscard]] std::string imageName() const;
  // model::ImageState::since for a sandbox requested now. By the node's clock the sandbox is made
  // after this time, and later reports of the image have later times.
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

// True for a run on an unverified image, as far as its record knows.
bool isUnverified(const model::Provenance& provenance);
// The approvals' name for an image without a digest; installing or removing packages changes the
// name.
std::string unverifiedName(const model::ImageState& image);

}  // namespace cloister::orchestrator
