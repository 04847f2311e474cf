// SPDX-License-Identifier: Apache-2.0
// Signatures of a manifest, as `cosign sign --key` stores them: under the tag sha256-HEX.sig, as a
// referrer (OCI 1.1), or as a referrer with a bundle of sigstore. Transparency logs, time stamps
// and certificates are not looked at: a signature counts by its key alone. One thread; blocks.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "registry/public_key.h"
#include "registry/sources.h"

namespace cloister::registry {

// Documents that a registry names as attached to a manifest.
inline constexpr size_t kMostAttached = 32;

// The manifests attached to `digest`: the one with the tag sha256-HEX + `suffix`, then its
// referrers, at most kMostAttached. Referrers are verified by their digests.
struct Attached {
  std::string digest;  // "" for the tag, whose content may change
  std::string bytes;
};
Result<std::vector<Attached>> attachedTo(Sources& sources, const std::string& digest,
                                         const std::string& suffix);

struct SignatureSearch {
  std::string key;                   // id of the key; "": no signature counts
  std::vector<std::string> reasons;  // why the found ones do not count; empty: none was found
};

// Errors are those of the registry. A malformed signature is a reason.
Result<SignatureSearch> findSignature(Sources& sources, const std::string& digest,
                                      const std::vector<PublicKey>& keys);

}  // namespace cloister::registry
