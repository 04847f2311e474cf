// SPDX-License-Identifier: Apache-2.0
#include "registry/sbom_search.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "base/crypto.h"
#include "base/json.h"
#include "registry/manifest.h"
#include "registry/payload.h"
#include "registry/signatures.h"

namespace cloister::registry {
namespace {

namespace json = base::json;

bool isFault(const Error& error) {
  return error.code == Code::kInvalid || error.code == Code::kTooLarge ||
         error.code == Code::kNotFound;
}

class Search {
 public:
  Search(Sources& sources, const std::set<std::string>& images, const std::vector<PublicKey>& keys,
         size_t most)
      : sources_(sources), images_(images), keys_(keys), most_(most) {}

  Result<SbomSearch> run() {
    for (const std::string& image : images_) {
      for (const Attached& each : TRY(attachedTo(sources_, image, ".att")))
        TRY(look(each));
      // The referrers were looked at already.
      if (const auto tagged = TRY(sources_.tagged(tagOf(image, ".sbom")))) {
        TRY(look({{}, tagged->bytes}));
      }
    }
    return std::move(out_);
  }

 private:
  static std::string tagOf(std::string digest, const std::string& suffix) {
    digest[digest.find(':')] = '-';
    return digest + suffix;
  }

  Result<> look(const Attached& attached) {
    const std::string digest = "sha256:" + base::sha256Hex(attached.bytes);
    if (!seen_.insert(digest).second) return {};
    const auto layers = parseArtifact(attached.bytes);
    if (!layers) {
      reason("an attached manifest is malformed: " + layers.error().message);
      return {};
    }
    for (const ArtifactLayer& layer : *layers) {
      const bool envelope =
          layer.media_type == kEnvelopeType || layer.media_type.starts_with(kBundlePrefix);
      if (!envelope && !isSbomType(layer.media_type)) continue;
      auto packages = envelope ? packagesOfEnvelope(layer) : packagesOfBill(layer, digest);
      if (!packages) {
        if (!isFault(packages.error())) return std::unexpected(packages.error());
        reason(packages.error().message);
        continue;
      }
      if (packages->empty()) continue;  // another kind of statement
      TRY(take(layer.digest, *std::move(packages)));
    }
    return {};
  }

  Result<> take(const std::string& digest, std::vector<SbomPackage> packages) {
    if (out_.packages.size() + packages.size() > kMostPackages) {
      return fail(Code::kTooLarge, "the bills of materials name more than " +
                                       std::to_string(kMostPackages) + " packages");
    }
    if (out_.digest.empty()) out_.digest = digest;
    out_.packages.insert(out_.packages.end(), std::make_move_iterator(packages.begin()),
                         std::make_move_iterator(packages.end()));
    return {};
  }

  // Base64 takes a third more than the bill itself.
  [[nodiscard]] size_t mostEnvelope() const { return 2 * most_; }

  Result<std::vector<SbomPackage>> packagesOfEnvelope(const ArtifactLayer& layer) {
    const std::string bytes = TRY(sources_.smallBlob(layer.digest, layer.size, mostEnvelope()));
    const Envelope envelope = TRY(parseEnvelope(bytes, mostEnvelope()));
    const bool good = std::ranges::any_of(envelope.signatures, [&](const std::string& signature) {
      return verifier(keys_, envelope.signed_bytes, signature) != nullptr;
    });
    if (!keys_.empty() && !good) {
      return fail(Code::kInvalid,
                  "an attestation is signed by no key of images.keys, or was changed");
    }
    const Statement statement = TRY(parseStatement(envelope.payload, mostEnvelope()));
    if (!isSbomPredicate(statement.predicate_type)) return std::vector<SbomPackage>();
    const bool ours = std::ranges::any_of(
        statement.subjects, [&](const std::string& each) { return images_.contains(each); });
    if (!ours) return fail(Code::kInvalid, "a bill of materials is of another image");
    return parsed(statement.predicate);
  }

  Result<std::vector<SbomPackage>> packagesOfBill(const ArtifactLayer& layer,
                                                  const std::string& manifest) {
    if (!layer.scope.empty() && layer.scope != "all") return std::vector<SbomPackage>();
    if (!keys_.empty()) {
      const SignatureSearch found = TRY(findSignature(sources_, manifest, keys_));
      if (found.key.empty()) {
        return fail(Code::kInvalid, "a bill of materials (manifest " + manifest +
                                        ") is not signed by a key of "
                                        "images.keys" +
                                        (found.reasons.empty() ? "" : ": " + found.reasons[0]));
      }
    }
    const std::string bytes = TRY(sources_.smallBlob(layer.digest, layer.size, most_));
    constexpr size_t kBytesOfValue = 8;
    const auto bill = base::parseJson(
        bytes, {.max_bytes = most_, .max_depth = 64, .max_values = most_ / kBytesOfValue});
    if (!bill) return std::unexpected(Error(bill.error()).within("a bill of materials"));
    return parsed(*bill);
  }

  static Result<std::vector<SbomPackage>> parsed(const json::value& bill) {
    auto packages = parseSbom(bill);
    if (packages) return packages;
    return std::unexpected(std::move(packages).error().within("a bill of materials"));
  }

  void reason(std::string text) {
    constexpr size_t kMost = 5;
    const bool known = std::ranges::find(out_.reasons, text) != out_.reasons.end();
    if (!known && out_.reasons.size() < kMost) out_.reasons.push_back(std::move(text));
  }

  Sources& sources_;
  const std::set<std::string>& images_;
  const std::vector<PublicKey>& keys_;
  size_t most_;
  std::set<std::string> seen_;
  SbomSearch out_;
};

}  // namespace

Result<SbomSearch> findSbom(Sources& sources, const std::set<std::string>& images,
                            const std::vector<PublicKey>& keys, size_t most) {
  return Search(sources, images, keys, most).run();
}

}  // namespace cloister::registry
