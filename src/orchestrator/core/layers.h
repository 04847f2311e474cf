// SPDX-License-Identifier: Apache-2.0
// Layers: the dependencies (`deps`) of runs and sessions, installed once and kept as read-only
// layers of the node. LayerService (orchestrator/deps) is the implementation.
//
// On the services' executor (one thread).
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "model/execution.h"
#include "model/permit.h"
#include "model/principal.h"
#include "orchestrator/core/task.h"

namespace cloister::orchestrator {

// Layers for a permit, and for the record.
struct Layered {
  std::vector<model::PermitLayer> layers;
  std::vector<model::ProvenanceLayer> shown;
};

// Whose dependencies, for which image.
struct LayerRequest {
  model::Principal principal;
  std::string language;
  std::vector<std::string> deps;
  std::string image;  // model::ImageRef as text
};

// Error::field of the node, for a layer that it does not have.
inline constexpr std::string_view kLayerLost = "layers";

class Layers {
 public:
  virtual ~Layers() = default;
  // kInvalid with the field "deps" for what is no package, kUnsupported without an index for the
  // language, kDenied for a layer with a package that the operator refuses by now.
  [[nodiscard]] virtual Result<> check(const LayerRequest& request) const = 0;
  // kDenied: a package of these layers of a sandbox has an advisory by now, or is denied.
  [[nodiscard]] virtual Result<> permitted(const model::Principal& principal,
                                           const std::vector<model::PermitLayer>& layers) const = 0;
  // Nullopt: not made yet.
  [[nodiscard]] virtual std::optional<Layered> ready(const LayerRequest& request) = 0;
  // Returns once the layer is there. Requests for the same layer share its making. kDenied, with
  // the rule, if a package is refused; kInvalid if the requirements cannot be met.
  virtual Task<Result<Layered>> make(LayerRequest request) = 0;
  // The node has no such layer any more (kLayerLost): make() makes it anew.
  virtual void lost(const std::vector<model::PermitLayer>& layers) = 0;
};

}  // namespace cloister::orchestrator
