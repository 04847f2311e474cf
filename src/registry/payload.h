// SPDX-License-Identifier: Apache-2.0
// The signed texts that cosign makes: the payload of a signature in the "simple signing" format,
// and the DSSE envelope of an in-toto statement, alone or in a bundle of sigstore. Hostile until
// their signature is verified, and bounded; unused members are ignored. Pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/result.h"

namespace cloister::registry {

inline constexpr std::string_view kSimpleSigningType =
    "application/vnd.dev.cosign.simplesigning.v1+json";
inline constexpr std::string_view kEnvelopeType = "application/vnd.dsse.envelope.v1+json";
inline constexpr std::string_view kBundlePrefix = "application/vnd.dev.sigstore.bundle";
// The predicate of a signature in a bundle.
inline constexpr std::string_view kSignPredicate = "https://sigstore.dev/cosign/sign/v1";

inline constexpr size_t kMostPayload = size_t{64} << 10;  // of a signature

// `critical.image.docker-manifest-digest` of a payload.
Result<std::string> signedDigest(std::string_view payload);

// An envelope (https://github.com/secure-systems-lab/dsse).
struct Envelope {
  std::string payload;                  // decoded
  std::string signed_bytes;             // what the signatures are over: DSSE's PAE
  std::vector<std::string> signatures;  // decoded
};
inline constexpr size_t kMostSignatures = 16;

// Of an envelope, or of a bundle that has one. `most`: bytes of the text.
Result<Envelope> parseEnvelope(std::string_view text, size_t most);

struct Statement {
  std::vector<std::string> subjects;  // "sha256:…"
  std::string predicate_type;
  base::json::value predicate;
};
inline constexpr size_t kMostSubjects = 1000;

Result<Statement> parseStatement(std::string_view payload, size_t most);

}  // namespace cloister::registry
