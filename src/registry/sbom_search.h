// SPDX-License-Identifier: Apache-2.0
// Finds the bills of materials of an image in its registry: attestations (tag sha256-HEX.att, or a
// referrer with an envelope or a bundle), and plain documents (tag sha256-HEX.sbom, or a referrer).
// With keys, an attestation counts if a key signed it, and a plain document if a key signed its
// manifest. One thread; blocks.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "base/result.h"
#include "registry/public_key.h"
#include "registry/sbom.h"
#include "registry/sources.h"

namespace cloister::registry {

struct SbomSearch {
  std::vector<SbomPackage> packages;  // of all bills that count
  std::string digest;                 // of the first: of its blob; "": none counts
  std::vector<std::string> reasons;   // why the found ones do not count; empty: none was found
};

// `images`: the digests that a bill may be of. `most`: bytes of a bill.
Result<SbomSearch> findSbom(Sources& sources, const std::set<std::string>& images,
                            const std::vector<PublicKey>& keys, size_t most);

}  // namespace cloister::registry
