// SPDX-License-Identifier: Apache-2.0
// Image: the read-only root file system of sandboxes that the operator has imported, by name.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "model/image_name.h"

namespace cloister::model {

using ImageEnv = std::vector<std::pair<std::string, std::string>>;
inline constexpr size_t kMaxImageEnv = 64;
inline constexpr size_t kMaxImageEnvBytes = size_t{32} << 10;  // names and values together

struct Image {
  std::string name;
  std::string digest;       // sha256:…, of the content (linux/tree_digest.h)
  std::string source;       // "oci", "docker", or "directory": a plain tree, as a tar too
  std::string reference;    // of OCI and docker: the digest of the image's config; "" else
  ImageEnv env;             // of the image's config, in its order, each name once
  uint64_t size_bytes = 0;  // of its files
  uint64_t files = 0;       // files, directories and links
  std::string created;      // time of the import, RFC 3339
  bool squashfs = false;    // a squashfs for virtual machines exists
  std::optional<VerifiedImage> verified = {};  // of a pulled image

  friend bool operator==(const Image&, const Image&) = default;
};

// Limits of imports and pulls, and how the node verifies its own image.
struct ImageSettings {
  uint64_t max_mb = 16'384;
  uint64_t max_files = 1'000'000;   // files, directories and links of all layers together
  bool require_verified = false;    // nothing runs on the node's own image before its digest is
                                    // known
  uint32_t read_after_seconds = 2;  // delay from a start without a digest, or from a change, to the
                                    // reading
  uint32_t verify_seconds = 600;    // between two looks at its content
  uint32_t idle_seconds = 30;       // without a sandbox; then a node releases the image

  // Pulls from registries.
  std::string credentials_file;  // in the form of docker's config.json; "": no logins
  std::string ca_file;           // authorities of registries; "": the system's
  std::map<std::string, std::vector<std::string>> mirrors;  // URLs, by the registry in references
  uint32_t pull_seconds = 1800;                             // of a whole pull
  uint32_t pull_stall_seconds = 60;                         // without a byte
  uint32_t pull_attempts = 5;                               // of each request

  // What a pull verifies before it fetches layers.
  std::vector<std::string> keys;                 // files of public keys in PEM
  bool require_signature = false;                // by one of the keys
  std::vector<std::string> unsigned_images;      // globs of REGISTRY/PATH that need none
  bool require_sbom = false;                     // a bill of materials
  uint32_t sbom_mb = 32;                         // the largest one
  std::vector<std::string> deny;                 // globs of packages, "NAME" or "TYPE/NAME"
  std::string advisories;                        // folder of OSV files; "": none
  std::string severity = "high";                 // of the least advisory that refuses an image
  std::vector<std::string> accepted_advisories;  // ids
};

// A permitted name for an image: isImageName(), and not the host's.
bool validImageName(std::string_view name);

base::json::object toJsonObject(const Image& image);
std::string toJson(const Image& image);

base::json::value toJsonValue(const std::optional<VerifiedImage>& verified);  // null for none

Result<VerifiedImage> parseVerifiedImage(const base::json::object& object);

// Strict: kInvalid names the member, kTooLarge the member above its bound.
Result<Image> parseImage(std::string_view text);

// The variables of an object, strictly, as for `env` of parseImage.
Result<ImageEnv> parseImageEnv(const base::json::object& variables);

}  // namespace cloister::model
