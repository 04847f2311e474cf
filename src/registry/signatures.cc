// SPDX-License-Identifier: Apache-2.0
#include "registry/signatures.h"

#include <algorithm>
#include <utility>

#include "base/crypto.h"
#include "registry/manifest.h"
#include "registry/payload.h"

namespace cloister::registry {
namespace {

std::string tagOf(std::string digest, const std::string& suffix) {
  digest[digest.find(':')] = '-';
  return digest + suffix;
}

// Whether an error says that content is wrong, rather than that a registry cannot be asked.
bool isFault(const Error& error) {
  return error.code == Code::kInvalid || error.code == Code::kTooLarge ||
         error.code == Code::kNotFound;
}

class Search {
 public:
  Search(Sources& sources, const std::string& digest, const std::vector<PublicKey>& keys)
      : sources_(sources), digest_(digest), keys_(keys) {}

  Result<SignatureSearch> run() {
    for (const Attached& each : TRY(attachedTo(sources_, digest_, ".sig"))) {
      const auto layers = parseArtifact(each.bytes);
      if (!layers) {
        reason("an attached manifest is malformed: " + layers.error().message);
        continue;
      }
      for (const ArtifactLayer& layer : *layers) {
        TRY(look(layer));
        if (!out_.key.empty()) return std::move(out_);
      }
    }
    return std::move(out_);
  }

 private:
  Result<> look(const ArtifactLayer& layer) {
    const bool simple = layer.media_type == kSimpleSigningType;
    const bool bundle = layer.media_type.starts_with(kBundlePrefix);
    if (!simple && !bundle) return {};
    const auto blob = sources_.smallBlob(layer.digest, layer.size, kMostPayload);
    if (!blob) {
      if (!isFault(blob.error())) return std::unexpected(blob.error());
      reason(blob.error().message);
      return {};
    }
    const auto key = simple ? keyOfPayload(layer, *blob) : keyOfBundle(*blob);
    if (key) out_.key = *key;
    if (!key) reason(key.error().message);
    return {};
  }

  [[nodiscard]] Result<std::string> keyOfPayload(const ArtifactLayer& layer,
                                                 const std::string& payload) const {
    const auto signature = base::fromBase64(layer.signature);
    if (!signature || signature->empty()) {
      return fail(Code::kInvalid, "a signature is missing or malformed");
    }
    const PublicKey* key = verifier(keys_, payload, *signature);
    if (key == nullptr) return notByKeys();
    const std::string digest = TRY(signedDigest(payload));
    if (digest == digest_) return key->id();
    return ofAnother(digest);
  }

  // A bundle of another statement, as of a bill of materials, is no signature.
  [[nodiscard]] Result<std::string> keyOfBundle(const std::string& bytes) const {
    const Envelope envelope = TRY(parseEnvelope(bytes, kMostPayload));
    for (const std::string& signature : envelope.signatures) {
      const PublicKey* key = verifier(keys_, envelope.signed_bytes, signature);
      if (key == nullptr) continue;
      const Statement statement = TRY(parseStatement(envelope.payload, kMostPayload));
      if (statement.predicate_type != kSignPredicate) {
        return fail(Code::kInvalid, "a bundle signs something else than the image");
      }
      if (std::ranges::find(statement.subjects, digest_) != statement.subjects.end()) {
        return key->id();
      }
      return ofAnother(statement.subjects.empty() ? "nothing" : statement.subjects[0]);
    }
    return notByKeys();
  }

  static std::unexpected<Error> notByKeys() {
    return fail(Code::kInvalid,
                "a signature is of no key of images.keys, or it or its payload was changed");
  }
  static std::unexpected<Error> ofAnother(const std::string& digest) {
    return fail(Code::kInvalid, "a signature is of another image, " + digest);
  }

  void reason(std::string text) {
    constexpr size_t kMost = 5;
    const bool known = std::ranges::find(out_.reasons, text) != out_.reasons.end();
    if (!known && out_.reasons.size() < kMost) out_.reasons.push_back(std::move(text));
  }

  Sources& sources_;
  const std::string& digest_;
  const std::vector<PublicKey>& keys_;
  SignatureSearch out_;
};

}  // namespace

Result<std::vector<Attached>> attachedTo(Sources& sources, const std::string& digest,
                                         const std::string& suffix) {
  std::vector<Attached> out;
  if (auto tagged = TRY(sources.tagged(tagOf(digest, suffix)))) {
    out.push_back({{}, std::move(tagged->bytes)});
  }
  const auto list = TRY(sources.referrers(digest));
  if (!list) return out;
  auto referrers = parseReferrers(list->bytes);
  if (!referrers) return std::unexpected(std::move(referrers).error().within("list of referrers"));
  for (const Referrer& each : *referrers) {
    if (out.size() == kMostAttached) break;
    auto document = sources.manifest(each.digest);
    if (document) out.push_back({each.digest, std::move(document->bytes)});
    if (!document && !isFault(document.error())) return std::unexpected(document.error());
  }
  return out;
}

Result<SignatureSearch> findSignature(Sources& sources, const std::string& digest,
                                      const std::vector<PublicKey>& keys) {
  return Search(sources, digest, keys).run();
}

}  // namespace cloister::registry
