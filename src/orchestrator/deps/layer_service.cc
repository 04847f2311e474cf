// SPDX-License-Identifier: Apache-2.0
#include "orchestrator/deps/layer_service.h"

#include <algorithm>
#include <utility>

#include "async/spawn.h"
#include "base/log.h"
#include "store/rows/layers.h"

namespace cloister::orchestrator {
namespace {

constexpr int64_t kUseNoted = 600'000'000;  // µs between written uses of a layer
constexpr size_t kFewestDigits = 8;         // of an abbreviated key or digest

std::string today() {
  return base::formatTime(base::wallMicros()).substr(0, std::string_view("2026-11-29").size());
}

bool isOpenTo(const model::DependencyLayer& layer, const model::Principal& who) {
  return layer.tenant.empty() || layer.tenant == who.tenant || who.isAdmin();
}

model::AuditEvent eventOf(std::string_view action, const model::DependencyLayer& layer,
                          const model::Principal& by) {
  return {.action = std::string(action),
          .subject = layer.digest,
          .principal = by,
          .details = {{"key", layer.key},
                      {"ecosystem", model::ecosystemName(layer.ecosystem)},
                      {"packages", layer.packages.size()},
                      {"sbom_sha256", model::billDigest(layer)}}};
}

}  // namespace

LayerService::LayerService(Control& control, Sessions& sessions, std::shared_ptr<Programs> programs,
                           LayerConfig config)
    : control_(control),
      sessions_(sessions),
      programs_(std::move(programs)),
      config_(std::move(config)) {}

Result<std::shared_ptr<LayerService>> LayerService::open(Control& control, Sessions& sessions,
                                                         std::shared_ptr<Programs> programs,
                                                         LayerConfig config) {
  auto made =
      std::make_shared<LayerService>(control, sessions, std::move(programs), std::move(config));
  for (model::DependencyLayer& layer : TRY(control.store.layers())) {
    std::string key = layer.key;
    made->layers_.emplace(std::move(key), std::move(layer));
  }
  control.layers = made.get();
  return made;
}

Result<model::LayerInputs> LayerService::inputsOf(const LayerRequest& request) const {
  const auto ecosystem = model::ecosystemOf(request.language);
  if (!ecosystem) {
    return fail(Code::kInvalid,
                "deps: the language " +
                    (request.language.empty() ? "of a command" : request.language) +
                    " has none here; deps are for python, node and typescript",
                "deps");
  }
  if (std::ranges::find(config_.offered, *ecosystem) == config_.offered.end()) {
    const bool pypi = *ecosystem == model::Ecosystem::kPypi;
    return fail(Code::kUnsupported,
                std::string("deps: this service has no index of packages; have ") +
                    (pypi ? "packages.pypi.index" : "packages.npm.registry") +
                    " configured, or leave deps empty",
                "deps");
  }
  const std::string& tenant = request.principal.tenant;
  return model::LayerInputs{.tenant = config_.is_public(*ecosystem) ? "" : tenant,
                            .ecosystem = *ecosystem,
                            .image = request.image,
                            .deps = TRY(model::canonicalDeps(*ecosystem, request.deps)),
                            .rules = config_.rules(tenant),
                            .day = today()};
}

Result<> LayerService::check(const LayerRequest& request) const {
  TRY(inputsOf(request));
  return {};
}

Layered LayerService::layeredOf(const model::DependencyLayer& layer) {
  const std::string place(model::layerPlaceOf(layer.ecosystem));
  return {.layers = {{layer.digest, place}},
          .shown = {{place, layer.digest, model::billDigest(layer)}}};
}

// A use is written rarely: it only orders the list.
void LayerService::noteUse(model::DependencyLayer& layer) {
  const int64_t now = base::wallMicros();
  if (now - layer.used_at < kUseNoted) return;
  layer.used_at = now;
  async::spawn(control_.executor,
               [](std::shared_ptr<LayerService> self, model::DependencyLayer used) -> Task<void> {
                 std::ignore =
                     co_await self->control_.ledger.write(store::noteLayerUse, std::move(used));
               }(shared_from_this(), layer));
}

std::optional<Layered> LayerService::ready(const LayerRequest& request) {
  const auto inputs = inputsOf(request);
  if (!inputs) return std::nullopt;
  const auto found = layers_.find(model::layerKey(*inputs));
  if (found == layers_.end()) return std::nullopt;
  noteUse(found->second);
  return layeredOf(found->second);
}

Task<Result<Layered>> LayerService::make(LayerRequest request) {
  const auto self = shared_from_this();
  if (auto there = ready(request)) co_return *std::move(there);
  model::LayerInputs inputs = CO_TRY(inputsOf(request));
  const std::string key = model::layerKey(inputs);
  std::shared_ptr<Making> making;
  if (const auto under_way = making_.find(key); under_way != making_.end()) {
    making = under_way->second;
  } else {
    if (making_.size() >= config_.max_building) {
      co_return fail(Code::kQuota, "deps: " + std::to_string(config_.max_building) +
                                       " layers are being made (packages.max_building); try "
                                       "again later");
    }
    making = std::make_shared<Making>(control_.executor);
    making_[key] = making;
    async::spawn(control_.executor, makeOne(making, request.principal.tenant, std::move(inputs)));
  }
  while (!making->result)
    co_await making->done.wait();
  if (!*making->result) co_return std::unexpected(making->result->error());
  co_return layeredOf(**making->result);
}

Task<void> LayerService::makeOne(std::shared_ptr<Making> making, std::string tenant,
                                 model::LayerInputs inputs) {
  const auto self = shared_from_this();
  const std::string key = model::layerKey(inputs);
  auto made = co_await buildLayer(sessions_, programs_, tenant, std::move(inputs), config_.build);
  if (made) {
    const model::Principal by{
        .tenant = tenant, .app = "cloister", .agent = "", .user = "", .key_id = ""};
    auto written =
        co_await control_.ledger.write(store::putLayer, *made, eventOf("layer.made", *made, by));
    if (written) {
      layers_[key] = *made;
    } else {
      made = std::unexpected(std::move(written).error());
    }
  } else {
    base::log(base::Level::kWarn, "dependency layer not made",
              {{"tenant", tenant}, {"reason", made.error().message}});
  }
  making_.erase(key);
  making->result = std::move(made);
  making->done.notify();
}

void LayerService::lost(const std::vector<model::PermitLayer>& layers) {
  std::erase_if(layers_, [&](const auto& entry) {
    return std::ranges::find(layers, entry.second.digest, &model::PermitLayer::digest) !=
           layers.end();
  });
}

std::vector<model::DependencyLayer> LayerService::list(const model::Principal& who) const {
  std::vector<model::DependencyLayer> all;
  for (const auto& [key, layer] : layers_) {
    if (isOpenTo(layer, who)) all.push_back(layer);
  }
  std::ranges::sort(all, std::ranges::greater{}, &model::DependencyLayer::used_at);
  return all;
}

Result<model::DependencyLayer> LayerService::find(const model::Principal& who,
                                                  const std::string& id) const {
  const std::string digest = id.starts_with("sha256:") ? id : "sha256:" + id;
  for (const auto& [key, layer] : layers_) {
    const bool named =
        id.size() >= kFewestDigits && (key.starts_with(id) || layer.digest.starts_with(digest));
    if (named && isOpenTo(layer, who)) return layer;
  }
  return fail(Code::kNotFound, "no such dependency layer; `cloister deps list` lists them");
}

Task<Result<std::vector<model::DependencyLayer>>> LayerService::prune(model::Principal who,
                                                                      int64_t until) {
  const auto self = shared_from_this();
  std::vector<model::DependencyLayer> old = list(who);
  std::erase_if(old, [&](const model::DependencyLayer& layer) {
    return layer.used_at >= until || (layer.tenant.empty() && !who.isAdmin());
  });
  for (const model::DependencyLayer& layer : old) {
    CO_TRY(co_await control_.ledger.write(store::dropLayer, layer,
                                          eventOf("layer.pruned", layer, who)));
    layers_.erase(layer.key);
  }
  co_return old;
}

}  // namespace cloister::orchestrator
