// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <utility>

#include "base/clock.h"
#include "base/id.h"
#include "model/image_name.h"
#include "model/network.h"
#include "node/server.h"
#include "wire/node.h"

namespace cloister::node {
namespace {

constexpr size_t kMaxEncoded = 16'384;
constexpr int64_t kSkew = 1'000'000;       // µs of permitted clock difference
constexpr size_t kFewUsed = 1024;          // entries kept without a check
constexpr int64_t kMaxLife = 300'000'000;  // µs: bounds the number of remembered entries

std::unexpected<Error> refused(std::string_view why) {
  return fail(Code::kDenied, "checking the permit: " + std::string(why));
}

// A network comes with the digest of its plan, and only then.
Result<> checkNetwork(const model::PermitFields& permit) {
  constexpr size_t kDigits = 64;  // of a SHA-256
  const std::string& tier = permit.network_tier;
  if (std::ranges::find(model::kNetworkTiers, tier) == model::kNetworkTiers.end()) {
    return refused("there is no network tier \"" + tier + "\"");
  }
  const std::string& digest = permit.network_plan_sha256;
  if (std::ranges::count(permit.network_ports, 0) > 0) return refused("its network has a port 0");
  if (tier == "none" && digest.empty() && permit.network_ports.empty()) return {};
  if (tier == "none") return refused("it has a network plan without a network");
  const bool hex = digest.find_first_not_of("0123456789abcdef") == std::string::npos;
  if (digest.size() != kDigits || !hex) return refused("its network has no plan");
  return {};
}

// The form only: whether the node has the layers is seen when they are attached.
Result<> checkLayers(const model::PermitFields& permit) {
  for (size_t i = 0; i < permit.layers.size(); ++i) {
    const model::PermitLayer& layer = permit.layers[i];
    if (!model::isImageDigest(layer.digest)) return refused("a layer's digest is malformed");
    if (layer.place != "python" && layer.place != "node") {
      return refused("there is no place \"" + layer.place + "\" for a layer");
    }
    if (i > 0 && permit.layers[i - 1].place == layer.place) {
      return refused("a place has two layers");
    }
  }
  return {};
}

struct Bound {
  std::string_view name;
  uint64_t asked;
  uint64_t most;
};

}  // namespace

PermitGate::PermitGate(model::Limits ceiling, size_t remember)
    : ceiling_(ceiling), remember_(remember) {
  model::settle(ceiling_);
}

PermitGate::PermitGate(base::VerifyKey key, model::Limits ceiling, size_t remember)
    : PermitGate(ceiling, remember) {
  key_ = key;
}

void PermitGate::trust(base::VerifyKey key) {
  key_ = key;
}

Result<model::PermitFields> PermitGate::admit(const model::SignedPermit& permit, int64_t now,
                                              bool use) {
  if (!key_) return refused("this node has no key to check it with");
  if (permit.encoded.size() > kMaxEncoded) return refused("it is too long");
  if (!key_->verify(permit.encoded, permit.signature)) return refused("its signature is not ours");
  auto decoded = wire::decodePermit(permit.encoded);
  if (!decoded) return refused(decoded.error().message);
  model::PermitFields fields = *std::move(decoded);
  if (!base::isId("permit", fields.id)) return refused("its id is malformed");
  if (fields.not_before > fields.expires || fields.expires - fields.not_before > kMaxLife) {
    return refused("it lives too long");
  }
  if (now < fields.not_before - kSkew) return refused("it is not valid yet");
  if (now > fields.expires + kSkew) return refused("it has expired");
  TRY(checkNetwork(fields));
  TRY(checkLayers(fields));
  TRY(withinCeiling(fields.limits));
  if (use) TRY(markUsed(fields, now));
  return fields;
}

Result<> PermitGate::withinCeiling(const model::Limits& asked) const {
  namespace name = model::limit_name;
  const auto millis = [](base::Millis value) {
    return static_cast<uint64_t>(std::max<int64_t>(0, value.count()));
  };
  const Bound bounds[] = {
      {name::kWall, millis(asked.wall), millis(ceiling_.wall)},
      {name::kCpuTime, millis(asked.cpu_time), millis(ceiling_.cpu_time)},
      {"cpu_millis", asked.cpu_millis, ceiling_.cpu_millis},
      {name::kMemory, asked.memory_bytes, ceiling_.memory_bytes},
      {name::kDisk, asked.disk_bytes, ceiling_.disk_bytes},
      {name::kInodes, asked.inodes, ceiling_.inodes},
      {name::kFileSize, asked.file_bytes, ceiling_.file_bytes},
      {name::kOpenFiles, asked.open_files, ceiling_.open_files},
      {name::kPids, asked.pids, ceiling_.pids},
      {name::kOutput, asked.output_bytes, ceiling_.output_bytes},
  };
  for (const Bound& bound : bounds) {
    if (bound.asked == 0) return refused("it sets no limit for " + std::string(bound.name));
    if (bound.asked > bound.most) {
      return refused(std::string(bound.name) + " " + std::to_string(bound.asked) +
                     " is over this node's ceiling of " + std::to_string(bound.most));
    }
  }
  return {};
}

Result<> PermitGate::markUsed(const model::PermitFields& permit, int64_t now) {
  if (used_.contains(permit.id)) return refused("it was used before");
  if (used_.size() >= forget_at_) forgetExpired(now);
  if (used_.size() >= remember_) {
    return fail(Code::kQuota, "checking the permit: too many permits to remember at once");
  }
  used_.emplace(permit.id, permit.expires);
  return {};
}

// Checks again when the entries have doubled, so that checks are cheap and few entries are kept.
void PermitGate::forgetExpired(int64_t now) {
  std::erase_if(used_, [&](const auto& entry) { return now > entry.second + kSkew; });
  forget_at_ = std::min(remember_, std::max(kFewUsed, 2 * used_.size()));
}

}  // namespace cloister::node
