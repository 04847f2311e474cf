// SPDX-License-Identifier: Apache-2.0
#include "orchestrator/deps/layer_service.h"

#include <algorithm>
#include <utility>

#include "async/spawn.h"
#include "base/log.h"
#include "model/package_selector.h"
#include "model/shown_text.h"
#include "store/rows/layers.h"

namespace cloister::orchestrator {
namespace {

constexpr int64_t kUseNoted = 600'000'000;  // µs between written uses of a layer
constexpr size_t kFewestDigits = 8;         // of an abbreviated key or digest
constexpr size_t kMostShown = 200;

std::string today() {
  return base::formatTime(base::wallMicros()).substr(0, std::string_view("2026-11-29").size());
}

std::string shown(const model::LockedPackage& package) {
  return model::safeText(package.name + " " + package.version, kMostShown);
}

std::unexpected<Error> deniedPackage(const model::LockedPackage& package) {
  return fail(Code::kDenied,
              "deps: " + shown(package) +
                  " is on the list of denied packages (packages.deny); name another version or "
                  "package, or ask the operator about packages.rules.deny",
              "deps");
}

std::unexpected<Error> advised(const model::LockedPackage& package, const model::AdvisoryHit& hit) {
  const std::string what = hit.summary.empty() ? "" : " (" + hit.summary + ")";
  const std::string remedy = hit.fixed.empty() ? "name a version without it or another package"
                                               : "ask for version " + hit.fixed + " or later";
  return fail(Code::kDenied,
              "deps: " + shown(package) + " has the advisory " + hit.id + what +
                  " (packages.advisories); " + remedy + ", or ask the operator",
              "deps");
}

// A tenant sees no layer that only others had: the packages of others are theirs to know.
bool isOpenTo(const model::DependencyLayer& layer, const model::Principal& who) {
  return who.isAdmin() || std::ranges::binary_search(layer.users, who.tenant);
}

// False: the tenant is known as a user.
bool addUser(model::DependencyLayer& layer, const std::string& tenant) {
  const auto place = std::ranges::lower_bound(layer.users, tenant);
  if (place != layer.users.end() && *place == tenant) return false;
  layer.users.insert(place, tenant);
  return true;
}

// The service itself, for a tenant.
model::Principal serviceFor(const std::string& tenant) {
  return {.tenant = tenant, .app = "cloister", .agent = "", .user = "", .key_id = ""};
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

LayerService::LayerService(Control& control, MakeLayer make, LayerConfig config)
    : control_(control), make_(std::move(make)), config_(std::move(config)) {}

Result<std::shared_ptr<LayerService>> LayerService::open(Control& control, MakeLayer make,
                                                         LayerConfig config) {
  if (config.advisories) TRY(config.advisories->now());
  auto made = std::make_shared<LayerService>(control, std::move(make), std::move(config));
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
  const model::LayerInputs inputs = TRY(inputsOf(request));
  const auto found = layers_.find(model::layerKey(inputs));
  return found == layers_.end() ? Result<>() : judge(found->second, inputs.rules);
}

// The gateway judged each package when the layer was made. Rules and advisories may be newer.
Result<> LayerService::judge(const model::DependencyLayer& layer,
                             const model::PackageRules& rules) const {
  std::vector<model::PackageSelector> denied;
  for (const std::string& item : rules.deny)
    denied.push_back(TRY(model::readPackageSelector(item)));
  std::shared_ptr<const model::Advisories> advisories;
  if (config_.advisories) {
    auto now = config_.advisories->now();
    if (!now) {
      return fail(Code::kUnavailable,
                  "deps: no package is used while the advisories cannot be "
                  "read: " +
                      now.error().message);
    }
    advisories = *std::move(now);
  }
  for (const model::LockedPackage& package : layer.packages) {
    const auto covers = [&](const model::PackageSelector& each) {
      return each.covers(layer.ecosystem, package.name) &&
             each.meetsAll(layer.ecosystem, package.version);
    };
    if (std::ranges::any_of(denied, covers)) return deniedPackage(package);
    if (!advisories) continue;
    const auto hit = advisories->find(layer.ecosystem, package.name, package.version);
    if (hit) return advised(package, *hit);
  }
  return {};
}

Result<> LayerService::permitted(const model::Principal& principal,
                                 const std::vector<model::PermitLayer>& layers) const {
  for (const auto& [key, layer] : layers_) {
    const auto same = [&](const model::PermitLayer& each) { return each.digest == layer.digest; };
    if (std::ranges::any_of(layers, same)) TRY(judge(layer, config_.rules(principal.tenant)));
  }
  return {};
}

Layered LayerService::layeredOf(const model::DependencyLayer& layer) {
  const std::string place(model::layerPlaceOf(layer.ecosystem));
  return {.layers = {{layer.digest, place}},
          .shown = {{place, layer.digest, model::billDigest(layer)}}};
}

// A use by a known tenant is written rarely: it only orders the list.
void LayerService::noteUse(model::DependencyLayer& layer, const std::string& tenant) {
  const int64_t now = base::wallMicros();
  const bool added = addUser(layer, tenant);
  if (!added && now - layer.used_at < kUseNoted) return;
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
  if (found == layers_.end() || !judge(found->second, inputs->rules)) return std::nullopt;
  noteUse(found->second, request.principal.tenant);
  return layeredOf(found->second);
}

Task<Result<Layered>> LayerService::make(LayerRequest request) {
  const auto self = shared_from_this();
  CO_TRY(check(request));
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
  if (auto there = ready(request)) co_return *std::move(there);  // and notes the use
  co_return layeredOf(**making->result);
}

Task<void> LayerService::makeOne(std::shared_ptr<Making> making, std::string tenant,
                                 model::LayerInputs inputs) {
  const auto self = shared_from_this();
  const std::string key = model::layerKey(inputs);
  const model::PackageRules rules = inputs.rules;
  auto made = co_await make_(tenant, std::move(inputs));
  if (made) {
    made->maker = tenant;
    addUser(*made, tenant);
    auto kept = judge(*made, rules);
    if (kept) kept = co_await keep(*made);
    if (!kept) made = std::unexpected(std::move(kept).error());
  }
  if (!made) {
    base::log(base::Level::kWarn, "dependency layer not made",
              {{"tenant", tenant}, {"reason", made.error().message}});
  }
  making_.erase(key);
  making->result = std::move(made);
  making->done.notify();
}

Task<Result<>> LayerService::keep(model::DependencyLayer made) {
  CO_TRY(co_await makeRoom(made));
  CO_TRY(co_await control_.ledger.write(store::putLayer, made,
                                        eventOf("layer.made", made, serviceFor(made.maker))));
  layers_[made.key] = std::move(made);
  co_return Result<>{};
}

// Forgets the longest unused layers of the tenant, until the new one is within its quota.
Task<Result<>> LayerService::makeRoom(const model::DependencyLayer& made) {
  if (made.size_bytes > config_.bytes_per_tenant) {
    co_return fail(Code::kQuota,
                   "deps: the packages take " + std::to_string(made.size_bytes) +
                       " bytes, and all layers of a tenant may take " +
                       std::to_string(config_.bytes_per_tenant) +
                       "; ask for fewer, or have packages.layers_mb_per_tenant raised",
                   "deps");
  }
  std::vector<model::DependencyLayer> own;
  for (const auto& [key, layer] : layers_) {
    if (layer.maker == made.maker && key != made.key) own.push_back(layer);
  }
  std::ranges::sort(own, std::ranges::greater{}, &model::DependencyLayer::used_at);
  uint64_t bytes = made.size_bytes;
  for (const model::DependencyLayer& each : own)
    bytes += each.size_bytes;
  while (!own.empty() && (own.size() >= config_.per_tenant || bytes > config_.bytes_per_tenant)) {
    const model::DependencyLayer oldest = std::move(own.back());
    own.pop_back();
    bytes -= oldest.size_bytes;
    CO_TRY(co_await control_.ledger.write(
        store::dropLayer, oldest, eventOf("layer.evicted", oldest, serviceFor(oldest.maker))));
    layers_.erase(oldest.key);
  }
  co_return Result<>{};
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
