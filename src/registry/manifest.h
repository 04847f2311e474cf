// SPDX-License-Identifier: Apache-2.0
// Documents of a registry beyond those that an import reads (images/oci.h): what kind a manifest
// is, the manifests of artifacts (signatures, bills of materials), and lists of referrers. Hostile
// and bounded; unused members and unknown types are ignored. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace cloister::registry {

// Whether the text is an index (true) or the manifest of an image (false). `type`: of the answer.
// kInvalid for text that may be read as both, and for other documents.
Result<bool> isIndex(std::string_view text, std::string_view type);

struct ArtifactLayer {
  std::string media_type;
  std::string digest;
  uint64_t size = 0;
  std::string signature;  // annotation dev.cosignproject.cosign/signature, base64; ""
  std::string scope;      // annotation dev.sigstore.sbom.scope; "": the whole image
};
inline constexpr size_t kMostArtifactLayers = 64;

// The layers of an artifact's manifest.
Result<std::vector<ArtifactLayer>> parseArtifact(std::string_view text);

struct Referrer {
  std::string digest;
  uint64_t size = 0;
  std::string artifact_type;
};
inline constexpr size_t kMostReferrers = 256;

Result<std::vector<Referrer>> parseReferrers(std::string_view text);

}  // namespace cloister::registry
