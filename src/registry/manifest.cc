// SPDX-License-Identifier: Apache-2.0
#include "registry/manifest.h"

#include "base/json.h"
#include "images/oci.h"
#include "model/image_name.h"
#include "model/shown_text.h"

namespace cloister::registry {
namespace {

namespace json = base::json;

constexpr base::JsonLimits kLimits{
    .max_bytes = size_t{4} << 20, .max_depth = 24, .max_values = 100'000};
constexpr size_t kMostType = 256;
constexpr size_t kMostAnnotation = 8192;
constexpr int64_t kMostSize = int64_t{1} << 50;

std::unexpected<Error> invalid(const std::string& what) {
  return fail(Code::kInvalid, what);
}

Result<json::object> objectOf(std::string_view text) {
  json::value value = TRY(base::parseJson(text, kLimits));
  if (!value.is_object()) return invalid("must be an object");
  return std::move(value.get_object());
}

// "" if absent.
Result<std::string> textOf(const json::object& object, std::string_view name, size_t most) {
  const json::value* found = object.if_contains(name);
  if (found == nullptr || found->is_null()) return std::string();
  if (!found->is_string() || found->get_string().size() > most) {
    return invalid(std::string(name) + ": must be text of at most " + std::to_string(most) +
                   " bytes");
  }
  return std::string(found->get_string());
}

Result<const json::array*> listOf(const json::object& object, const std::string& name,
                                  size_t most) {
  const json::value* found = object.if_contains(name);
  if (found == nullptr || !found->is_array()) return invalid(name + ": must be a list");
  if (found->get_array().size() <= most) return &found->get_array();
  return fail(Code::kTooLarge, name + ": more than " + std::to_string(most) + " elements");
}

struct Described {
  std::string media_type;
  std::string digest;
  uint64_t size = 0;
};

Result<Described> descriptorOf(const json::object& object) {
  Described out;
  out.media_type = TRY(textOf(object, "mediaType", kMostType));
  out.digest = TRY(textOf(object, "digest", kMostType));
  if (!model::isImageDigest(out.digest))
    return invalid("digest: must be sha256: and 64 hex digits");
  base::ObjectReader reader(object, "");
  const auto size = TRY(reader.integer("size", 0, kMostSize));
  if (!size) return invalid("size: must be there");
  out.size = static_cast<uint64_t>(*size);
  return out;
}

}  // namespace

Result<bool> isIndex(std::string_view text, std::string_view type) {
  const json::object object = TRY(objectOf(text));
  const bool index = object.contains("manifests");
  const bool image = object.contains("layers") || object.contains("config");
  if (index && image) {
    return invalid("has `manifests` beside `layers` or `config`: it may be read in two ways");
  }
  if (!index && !image) {
    return invalid(object.contains("fsLayers")
                       ? "is of Docker's schema 1, which is not supported; push the image again"
                       : "is neither an image nor an index of images");
  }
  // The type in the document is covered by the digest, the type of the answer is not.
  const std::string own = TRY(textOf(object, "mediaType", kMostType));
  for (const std::string_view each : {std::string_view(own), type}) {
    images::Descriptor described;
    described.media_type = each;
    const bool says_index = described.isIndex();
    const bool says_image = each == "application/vnd.oci.image.manifest.v1+json" ||
                            each == "application/vnd.docker.distribution.manifest.v2+json";
    if ((index && says_image) || (image && says_index)) {
      return invalid("is not of its type " + model::safeText(each, kMostType));
    }
  }
  return index;
}

Result<std::vector<ArtifactLayer>> parseArtifact(std::string_view text) {
  const json::object object = TRY(objectOf(text));
  std::vector<ArtifactLayer> out;
  for (const json::value& item : *TRY(listOf(object, "layers", kMostArtifactLayers))) {
    if (!item.is_object()) return invalid("layers: must be objects");
    const json::object& layer = item.get_object();
    Described described = TRY(descriptorOf(layer));
    ArtifactLayer& added = out.emplace_back();
    added.media_type = std::move(described.media_type);
    added.digest = std::move(described.digest);
    added.size = described.size;
    const json::value* annotations = layer.if_contains("annotations");
    if (annotations == nullptr || !annotations->is_object()) continue;
    const json::object& notes = annotations->get_object();
    added.signature = TRY(textOf(notes, "dev.cosignproject.cosign/signature", kMostAnnotation));
    added.scope = TRY(textOf(notes, "dev.sigstore.sbom.scope", kMostAnnotation));
  }
  return out;
}

Result<std::vector<Referrer>> parseReferrers(std::string_view text) {
  const json::object object = TRY(objectOf(text));
  std::vector<Referrer> out;
  for (const json::value& item : *TRY(listOf(object, "manifests", kMostReferrers))) {
    if (!item.is_object()) return invalid("manifests: must be objects");
    const Described described = TRY(descriptorOf(item.get_object()));
    out.push_back({described.digest, described.size,
                   TRY(textOf(item.get_object(), "artifactType", kMostType))});
  }
  return out;
}

}  // namespace cloister::registry
