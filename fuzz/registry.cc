// SPDX-License-Identifier: Apache-2.0
// What a registry sends: manifests, lists of referrers, signed texts, bills of materials,
// challenges; and references and logins. The first byte selects the parser.
#include "model/image_name.h"
#include "registry/challenge.h"
#include "registry/credentials.h"
#include "registry/manifest.h"
#include "registry/payload.h"
#include "registry/public_key.h"
#include "registry/reference.h"
#include "registry/sbom.h"

#include "require.h"

namespace model = cloister::model;
namespace registry = cloister::registry;

namespace {

void readManifests(std::string_view text) {
  if (const auto layers = registry::parseArtifact(text)) {
    REQUIRE(layers->size() <= registry::kMostArtifactLayers);
    for (const auto& layer : *layers)
      REQUIRE(model::isImageDigest(layer.digest));
  }
  if (const auto referrers = registry::parseReferrers(text)) {
    REQUIRE(referrers->size() <= registry::kMostReferrers);
    for (const auto& each : *referrers)
      REQUIRE(model::isImageDigest(each.digest));
  }
  const auto index = registry::isIndex(text, "");
  if (!index) REQUIRE(!index.error().message.empty());
}

void readSigned(std::string_view text) {
  if (const auto digest = registry::signedDigest(text)) REQUIRE(model::isImageDigest(*digest));
  if (const auto envelope = registry::parseEnvelope(text, size_t{1} << 20)) {
    REQUIRE(envelope->signatures.size() <= registry::kMostSignatures);
    REQUIRE(envelope->signed_bytes.ends_with(envelope->payload));
  }
  if (const auto statement = registry::parseStatement(text, size_t{1} << 20)) {
    for (const std::string& subject : statement->subjects)
      REQUIRE(model::isImageDigest(subject));
  }
  const auto key = registry::PublicKey::parse(text);
  if (key) REQUIRE(!key->verify("text", "signature"));
}

void readBill(std::string_view text) {
  const auto bill = cloister::base::parseJson(text);
  const auto packages = bill ? registry::parseSbom(*bill) : std::unexpected(bill.error());
  if (packages) REQUIRE(!packages->empty());
  if (const auto package = registry::parsePurl(text)) {
    REQUIRE(!package->name.empty());
    REQUIRE(registry::denies("*", *package));
  }
}

// A canonical reference is read as itself.
void readReference(std::string_view text) {
  const auto reference = registry::parseReference(text);
  if (!reference) return;
  REQUIRE(registry::isRepository(reference->repository));
  const auto again = registry::parseReference(reference->text());
  REQUIRE(again && again->text() == reference->text());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  switch (data[0]) {
    case 'm':
      readManifests(text);
      break;
    case 's':
      readSigned(text);
      break;
    case 'b':
      readBill(text);
      break;
    case 'r':
      readReference(text);
      break;
    case 'c':
      std::ignore = registry::Credentials::parse(text);
      break;
    default:
      if (const auto challenges = registry::parseChallenges(text)) {
        REQUIRE(challenges->size() <= 8);
      }
      if (const auto token = registry::tokenIn(text)) REQUIRE(!token->empty());
  }
  return 0;
}
