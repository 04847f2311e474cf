// SPDX-License-Identifier: Apache-2.0
// LayerService: the dependency layers that exist, and those under way. A layer is made once for
// equal inputs (model::layerKey()): requirements, image, package rules, and the day. Layers from a
// public index are shared by all tenants; with credentials for the index, each tenant has its own.
//
// The packages of a layer are judged again at each use: an advisory or a rule may have come since
// the layer was made. Each tenant has a quota of layers; the longest unused ones make room.
//
// The ledger has a row for each layer; a lost row costs a new making. On the services' executor
// (one thread).
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "async/signal.h"
#include "base/clock.h"
#include "model/advisory.h"
#include "model/dependency.h"
#include "orchestrator/core/control.h"
#include "orchestrator/core/layers.h"

namespace cloister::orchestrator {

struct LayerConfig {
  // Ecosystems with an index; empty: no deps.
  std::vector<model::Ecosystem> offered;
  // Whether the index of an ecosystem is read without credentials.
  std::function<bool(model::Ecosystem)> is_public = [](model::Ecosystem) { return false; };
  std::function<model::PackageRules(const std::string& tenant)> rules = [](const std::string&) {
    return model::PackageRules{};
  };
  size_t max_building = 4;                                      // layers under way
  std::shared_ptr<model::AdvisoryFolder> advisories = nullptr;  // null: none
  // Of the layers that a tenant has had made.
  size_t per_tenant = 100;
  uint64_t bytes_per_tenant = uint64_t{4} << 30;
};

// Makes a layer for a request of the tenant (layer_builder.h).
using MakeLayer = std::function<Task<Result<model::DependencyLayer>>(std::string tenant,
                                                                     model::LayerInputs inputs)>;

class LayerService final : public Layers, public std::enable_shared_from_this<LayerService> {
 public:
  // `control` outlives the service. See open().
  LayerService(Control& control, MakeLayer make, LayerConfig config);

  // Reads the layers of earlier starts and the advisories, and serves the runs and sessions of
  // `control`.
  static Result<std::shared_ptr<LayerService>> open(Control& control, MakeLayer make,
                                                    LayerConfig config);

  [[nodiscard]] Result<> check(const LayerRequest& request) const override;
  [[nodiscard]] Result<> permitted(const model::Principal& principal,
                                   const std::vector<model::PermitLayer>& layers) const override;
  [[nodiscard]] std::optional<Layered> ready(const LayerRequest& request) override;
  Task<Result<Layered>> make(LayerRequest request) override;
  void lost(const std::vector<model::PermitLayer>& layers) override;

  // The layers that the principal's tenant had, most recently used first; of an administrator all.
  [[nodiscard]] std::vector<model::DependencyLayer> list(const model::Principal& who) const;
  // By key or digest, or by the first digits of either; kNotFound otherwise.
  [[nodiscard]] Result<model::DependencyLayer> find(const model::Principal& who,
                                                    const std::string& id) const;
  // Forgets layers that were last used before `until` (wall-clock microseconds): the next request
  // makes them anew. Returns the forgotten layers.
  Task<Result<std::vector<model::DependencyLayer>>> prune(model::Principal who, int64_t until);

 private:
  struct Making {
    explicit Making(const boost::asio::any_io_executor& executor) : done(executor) {}
    std::optional<Result<model::DependencyLayer>> result;
    async::Signal done;
  };
  [[nodiscard]] Result<model::LayerInputs> inputsOf(const LayerRequest& request) const;
  [[nodiscard]] static Layered layeredOf(const model::DependencyLayer& layer);
  Task<void> makeOne(std::shared_ptr<Making> making, std::string tenant, model::LayerInputs inputs);
  void noteUse(model::DependencyLayer& layer, const std::string& tenant);
  [[nodiscard]] Result<> judge(const model::DependencyLayer& layer,
                               const model::PackageRules& rules) const;
  Task<Result<>> keep(model::DependencyLayer made);
  Task<Result<>> makeRoom(const model::DependencyLayer& made);

  Control& control_;
  MakeLayer make_;
  LayerConfig config_;
  std::map<std::string, model::DependencyLayer> layers_;   // by key
  std::map<std::string, std::shared_ptr<Making>> making_;  // by key
};

}  // namespace cloister::orchestrator
