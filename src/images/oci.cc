// SPDX-License-Identifier: Apache-2.0
#include "images/oci.h"

#include <algorithm>
#include <set>

#include "base/json.h"
#include "images/bounds.h"
#include "images/tree.h"
#include "model/run_request.h"

namespace cloister::images {
namespace {

namespace json = base::json;
using base::ObjectReader;

constexpr base::JsonLimits kLimits{.max_bytes = kMaxJson, .max_depth = 24, .max_values = 100'000};
constexpr size_t kMaxManifests = 1024;
constexpr size_t kMaxText = 1024;
constexpr size_t kMaxPlatforms = 20;  // platforms named in a message
constexpr int64_t kMaxSize = int64_t{1} << 50;
constexpr std::string_view kIndexTypes[] = {
    "application/vnd.oci.image.index.v1+json",
    "application/vnd.docker.distribution.manifest.list.v2+json",
};
constexpr std::string_view kLayerTypes[] = {
    "application/vnd.oci.image.layer.v1.tar",
    "application/vnd.oci.image.layer.v1.tar+gzip",
    "application/vnd.oci.image.layer.v1.tar+zstd",
    "application/vnd.oci.image.layer.nondistributable.v1.tar",
    "application/vnd.oci.image.layer.nondistributable.v1.tar+gzip",
    "application/vnd.oci.image.layer.nondistributable.v1.tar+zstd",
    "application/vnd.docker.image.rootfs.diff.tar",
    "application/vnd.docker.image.rootfs.diff.tar.gzip",
    "application/vnd.docker.image.rootfs.diff.tar.zstd",
};

std::unexpected<Error> invalid(const std::string& field, std::string_view why) {
  return fail(Code::kInvalid, field + ": " + std::string(why), field);
}

Result<json::object> objectOf(std::string_view text) {
  json::value value = TRY(base::parseJson(text, kLimits));
  if (!value.is_object()) return fail(Code::kInvalid, "must be an object");
  return std::move(value.get_object());
}

Result<std::string> boundedText(ObjectReader& reader, const char* name) {
  std::string text = TRY(reader.text(name)).value_or("");
  if (text.size() > kMaxText) return invalid(reader.pathOf(name), "too long");
  return text;
}

Result<const json::array*> arrayOf(ObjectReader& reader, const char* name, size_t most) {
  const json::array* items = TRY(reader.array(name));
  if (items == nullptr) return invalid(reader.pathOf(name), "must be there");
  if (items->size() <= most) return items;
  return fail(Code::kTooLarge,
              reader.pathOf(name) + ": more than " + std::to_string(most) + " elements");
}

// "os/architecture" of an object with both; "" if both are absent.
Result<std::string> platformOf(ObjectReader& reader) {
  const std::string os = TRY(boundedText(reader, "os"));
  const std::string architecture = TRY(boundedText(reader, "architecture"));
  return os.empty() && architecture.empty() ? std::string() : os + "/" + architecture;
}

Result<Descriptor> descriptorOf(const json::value& value, const std::string& path) {
  if (!value.is_object()) return invalid(path, "must be an object");
  ObjectReader reader(value.get_object(), path);
  Descriptor out;
  out.media_type = TRY(boundedText(reader, "mediaType"));
  out.digest = TRY(boundedText(reader, "digest"));
  if (!model::isImageDigest(out.digest)) {
    return invalid(path + ".digest", "must be sha256: and 64 hex digits");
  }
  const auto size = TRY(reader.integer("size", 0, kMaxSize));
  if (!size) return invalid(path + ".size", "must be there");
  out.size = static_cast<uint64_t>(*size);
  if (const json::object* platform = TRY(reader.object("platform"))) {
    ObjectReader inner(*platform, path + ".platform");
    out.platform = TRY(platformOf(inner));
  }
  if (const json::object* annotations = TRY(reader.object("annotations"))) {
    ObjectReader inner(*annotations, path + ".annotations");
    out.name = TRY(boundedText(inner, "org.opencontainers.image.ref.name"));
  }
  return out;
}

Result<std::vector<std::string>> textsOf(ObjectReader& reader, const char* name, size_t most) {
  std::vector<std::string> out;
  for (const json::value& item : *TRY(arrayOf(reader, name, most))) {
    if (!item.is_string() || item.get_string().size() > kMaxText) {
      return invalid(reader.pathOf(name), "must be a list of short texts");
    }
    out.emplace_back(item.get_string());
  }
  return out;
}

// "NAME=VALUE" texts; the last of a name counts, at the place of the first.
Result<> readEnv(const json::array& variables, ImageConfig& config) {
  json::object env;
  for (const json::value& item : variables) {
    if (!item.is_string()) return invalid("config.Env", "must be a list of texts");
    const std::string_view text = item.get_string();
    const std::string_view name = text.substr(0, text.find('='));
    if (name.size() == text.size() || !model::isEnvironmentName(name) || text.contains('\0')) {
      config.notes.push_back("left out the variable " + shown(name) +
                             " of the image: no name that a shell takes");
      continue;
    }
    env[name] = text.substr(name.size() + 1);
  }
  config.env = TRY(model::parseImageEnv(env));
  return {};
}

}  // namespace

bool Descriptor::isIndex() const {
  return std::ranges::find(kIndexTypes, media_type) != std::end(kIndexTypes);
}

Result<std::vector<Descriptor>> parseIndex(std::string_view text) {
  const json::object object = TRY(objectOf(text));
  ObjectReader reader(object, "");
  std::vector<Descriptor> out;
  for (const json::value& item : *TRY(arrayOf(reader, "manifests", kMaxManifests)))
    out.push_back(TRY(descriptorOf(item, "manifests[" + std::to_string(out.size()) + "]")));
  return out;
}

Result<Manifest> parseManifest(std::string_view text) {
  const json::object object = TRY(objectOf(text));
  ObjectReader reader(object, "");
  const json::value* config = reader.any("config");
  if (config == nullptr) return invalid("config", "must be there");
  Manifest out;
  out.config = TRY(descriptorOf(*config, "config"));
  for (const json::value& item : *TRY(arrayOf(reader, "layers", kMaxLayers))) {
    const std::string path = "layers[" + std::to_string(out.layers.size()) + "]";
    out.layers.push_back(TRY(descriptorOf(item, path)));
    const std::string& type = out.layers.back().media_type;
    if (std::ranges::find(kLayerTypes, type) == std::end(kLayerTypes)) {
      return invalid(path + ".mediaType",
                     shown(type) +
                         " is no layer that can be unpacked; layers are tars, plain or "
                         "compressed by gzip or zstd");
    }
  }
  return out;
}

Result<ImageConfig> parseImageConfig(std::string_view text) {
  const json::object object = TRY(objectOf(text));
  ObjectReader reader(object, "");
  ImageConfig out;
  out.platform = TRY(platformOf(reader));
  const json::object* rootfs = TRY(reader.object("rootfs"));
  if (rootfs == nullptr) return invalid("rootfs", "must be there");
  ObjectReader root(*rootfs, "rootfs");
  if (TRY(boundedText(root, "type")) != "layers") return invalid("rootfs.type", "must be layers");
  out.diff_ids = TRY(textsOf(root, "diff_ids", kMaxLayers));
  if (!std::ranges::all_of(out.diff_ids, model::isImageDigest)) {
    return invalid("rootfs.diff_ids", "must be digests: sha256: and 64 hex digits");
  }
  const json::object* config = TRY(reader.object("config"));
  if (config == nullptr) return out;
  ObjectReader inner(*config, "config");
  const json::array* env = TRY(inner.array("Env"));
  if (env != nullptr) TRY(readEnv(*env, out));
  return out;
}

Result<DockerManifest> parseDockerManifest(std::string_view text) {
  const json::value value = TRY(base::parseJson(text, kLimits));
  if (!value.is_array()) return fail(Code::kInvalid, "must be a list");
  const json::array& images = value.get_array();
  if (images.size() != 1 || !images[0].is_object()) {
    return fail(Code::kInvalid, "has " + std::to_string(images.size()) +
                                    " images; save exactly one: docker save NAME:TAG");
  }
  ObjectReader reader(images[0].get_object(), "[0]");
  DockerManifest out;
  out.config = TRY(boundedText(reader, "Config"));
  out.layers = TRY(textsOf(reader, "Layers", kMaxLayers));
  if (out.config.empty()) return invalid("[0].Config", "must be there");
  return out;
}

std::string_view machinePlatform() {
#if defined(__x86_64__)
  return "linux/amd64";
#elif defined(__aarch64__)
  return "linux/arm64";
#else
#error "name this machine as GOOS/GOARCH do"
#endif
}

Result<Descriptor> choosePlatform(const std::vector<Descriptor>& from, std::string_view platform) {
  std::vector<Descriptor> fitting;
  for (const Descriptor& each : from) {
    if (each.platform == platform || each.platform.empty()) fitting.push_back(each);
  }
  // The same image under several names counts once.
  std::set<std::string> digests;
  std::string listed;
  for (const Descriptor& each : fitting)
    digests.insert(each.digest);
  if (digests.size() == 1) return fitting[0];
  const auto list = [&](const auto& descriptors, auto text) {
    for (size_t i = 0; i < std::min(descriptors.size(), kMaxPlatforms); ++i)
      listed += (listed.empty() ? "" : ", ") + text(descriptors[i]);
  };
  if (digests.empty()) {
    list(from, [](const Descriptor& d) { return shown(d.platform); });
    return fail(Code::kUnsupported, "has no image for " + std::string(platform) +
                                        ", only for: " + (listed.empty() ? "nothing" : listed));
  }
  list(fitting, [](const Descriptor& d) { return shown(d.name.empty() ? d.digest : d.name); });
  return fail(Code::kInvalid, "has " + std::to_string(digests.size()) + " images for " +
                                  std::string(platform) + " (" + listed +
                                  "); make an archive of one");
}

}  // namespace cloister::images
