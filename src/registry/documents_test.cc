// SPDX-License-Identifier: Apache-2.0
// Manifests, signed texts and bills of materials of hostile registries.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/crypto.h"
#include "registry/manifest.h"
#include "registry/payload.h"
#include "registry/public_key.h"
#include "registry/sbom.h"

namespace cloister::registry {
namespace {

using testing::HasSubstr;

const std::string kHex(64, 'a');
const std::string kDigest = "sha256:" + kHex;
constexpr std::string_view kManifestType = "application/vnd.oci.image.manifest.v1+json";
constexpr std::string_view kIndexType = "application/vnd.oci.image.index.v1+json";

TEST(Kind, IsReadInOneWayOnly) {
  EXPECT_FALSE(isIndex(R"({"config":{},"layers":[]})", kManifestType).value());
  EXPECT_TRUE(isIndex(R"({"manifests":[]})", kIndexType).value());
  EXPECT_TRUE(isIndex(R"({"manifests":[]})", "text/plain").value());
  const auto refused = [](std::string_view text, std::string_view type, const char* why) {
    const auto kind = isIndex(text, type);
    ASSERT_FALSE(kind) << text;
    EXPECT_THAT(kind.error().message, HasSubstr(why));
  };
  refused(R"({"manifests":[],"layers":[]})", kIndexType, "two ways");
  refused(R"({"manifests":[],"config":{}})", kIndexType, "two ways");
  refused(R"({"manifests":[]})", kManifestType, "not of its type");
  refused(R"({"layers":[]})", kIndexType, "not of its type");
  refused(R"({"layers":[],"mediaType":"application/vnd.oci.image.index.v1+json"})", "",
          "not of its type");
  refused(R"({"schemaVersion":1,"fsLayers":[]})", "", "schema 1");
  refused("{}", "", "neither");
  refused("[]", "", "object");
  refused("{", "", "");
  refused(std::string(10'000, '['), "", "");
}

TEST(Artifact, HasBoundedLayers) {
  const std::string good = R"({"layers":[{"mediaType":"x","digest":")" + kDigest +
                           R"(","size":3,"new":1,"annotations":{"other":1,
      "dev.cosignproject.cosign/signature":"AAAA","dev.sigstore.sbom.scope":"all"}}]})";
  const auto layers = parseArtifact(good);
  ASSERT_TRUE(layers) << layers.error().message;
  EXPECT_EQ(layers->front().signature, "AAAA");
  EXPECT_EQ(layers->front().scope, "all");
  EXPECT_EQ(layers->front().size, 3U);
  const auto refused = [](const std::string& layer) {
    EXPECT_FALSE(parseArtifact(R"({"layers":[)" + layer + "]}")) << layer;
  };
  refused("1");
  refused("{}");
  refused(R"({"digest":"sha256:12","size":1})");
  refused(R"({"digest":")" + kDigest + R"("})");
  refused(R"({"digest":")" + kDigest + R"(","size":-1})");
  refused(R"({"digest":")" + kDigest +
          R"(","size":1,"annotations":{"dev.cosignproject.cosign/signature":7}})");
  refused(R"({"digest":")" + kDigest +
          R"(","size":1,"annotations":{"dev.cosignproject.cosign/signature":")" +
          std::string(9000, 'A') + R"("}})");
  std::string many;
  for (int i = 0; i < 65; ++i)
    many += (i > 0 ? "," : "") + (R"({"digest":")" + kDigest + R"(","size":1})");
  refused(many);
  EXPECT_FALSE(parseArtifact(R"({"manifests":[]})"));
  EXPECT_FALSE(parseReferrers(R"({"layers":[]})"));
  const auto referrers = parseReferrers(R"({"manifests":[{"digest":")" + kDigest +
                                        R"(","size":1,"artifactType":"t"}]})");
  ASSERT_TRUE(referrers);
  EXPECT_EQ(referrers->front().artifact_type, "t");
}

std::string payload(const std::string& type, const std::string& digest) {
  return R"({"critical":{"identity":{"docker-reference":"a"},"image":{"docker-manifest-digest":")" +
         digest + R"("},"type":")" + type + R"("},"optional":{"more":1}})";
}

TEST(Payload, NamesOneImage) {
  const std::string type = "cosign container image signature";
  EXPECT_EQ(signedDigest(payload(type, kDigest)).value(), kDigest);
  EXPECT_FALSE(signedDigest(payload("other", kDigest)));
  EXPECT_FALSE(signedDigest(payload(type, "sha256:12")));
  EXPECT_FALSE(signedDigest(payload(type, "sha256:" + std::string(64, 'A'))));
  for (const char* bad : {"", "[]", "{}", R"({"critical":[]})", R"({"critical":{"type":1}})"})
    EXPECT_FALSE(signedDigest(bad)) << bad;
  // A second member of the name could be read by others.
  EXPECT_FALSE(signedDigest(R"({"critical":{},"critical":{}})"));
  EXPECT_FALSE(signedDigest(payload(type, kDigest) + std::string(70'000, ' ')));
}

std::string envelope(const std::string& text,
                     const std::string& type = "application/vnd.in-toto+json") {
  return R"({"payloadType":")" + type + R"(","payload":")" + base::toBase64(text) +
         R"(","signatures":[{"keyid":"","sig":"AAAA"}]})";
}

TEST(Envelope, SignsItsTypeToo) {
  const auto read = parseEnvelope(envelope("{}"), 1000);
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(read->payload, "{}");
  EXPECT_EQ(read->signed_bytes, "DSSEv1 28 application/vnd.in-toto+json 2 {}");
  EXPECT_EQ(read->signatures, std::vector<std::string>{std::string(3, '\0')});
  const auto bundled = parseEnvelope(
      R"({"mediaType":"m","verificationMaterial":{},"dsseEnvelope":)" + envelope("{}") + "}", 1000);
  ASSERT_TRUE(bundled);
  EXPECT_EQ(bundled->payload, "{}");
  EXPECT_FALSE(parseEnvelope(envelope("{}", "text/plain"), 1000));
  EXPECT_FALSE(parseEnvelope(envelope(std::string(1000, 'x')), 1000));
  for (const char* bad :
       {"{}", "[]", R"({"dsseEnvelope":1})",
        R"({"payloadType":"application/vnd.in-toto+json","payload":"*","signatures":[]})"}) {
    EXPECT_FALSE(parseEnvelope(bad, 1000)) << bad;
  }
}

TEST(Statement, HasSubjects) {
  const auto read = parseStatement(
      R"({"_type":"https://in-toto.io/Statement/v0.1","predicateType":"https://cyclonedx.org/bom",
          "subject":[{"name":"a","digest":{"sha256":")" +
          kHex + R"("}},{"digest":{"sha512":"00"}}],"predicate":{"x":1}})",
      10'000);
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(read->subjects, std::vector<std::string>{kDigest});
  EXPECT_EQ(read->predicate.as_object().at("x").as_int64(), 1);
  for (
      const char* bad :
      {"{}", R"({"_type":"x","predicateType":"y","subject":[]})",
       R"({"_type":"https://in-toto.io/Statement/v1","predicateType":"y"})",
       R"({"_type":"https://in-toto.io/Statement/v1","predicateType":"y","subject":[{"digest":{"sha256":"12"}}]})"}) {
    EXPECT_FALSE(parseStatement(bad, 10'000)) << bad;
  }
}

constexpr char kEcKey[] = R"(-----BEGIN PUBLIC KEY-----
MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEtLmcy/EP/7CiFsmXizY7WIYKoP/A
JZlXU4EPYqBJeRtFiU730+JAYEnlnb2y6TUkeOeSgmV6zY3FvF8F9ggoZA==
-----END PUBLIC KEY-----
)";
constexpr char kEdKey[] = R"(-----BEGIN PUBLIC KEY-----
MCowBQYDK2VwAyEAadNLhLy/CR22y5Bg0Am3QW85Jtihs2qUvST5i7cG6zY=
-----END PUBLIC KEY-----
)";
constexpr char kP384Key[] = R"(-----BEGIN PUBLIC KEY-----
MHYwEAYHKoZIzj0CAQYFK4EEACIDYgAEQwHnUBUacIEETgQ9Lft8EFadGryZKdQF
ugj7jHb2ao8W+XERSs7b55QJ75fAJU9m1n+dy9B4h1yNCX6phrNFRkdLFnhx6hMv
ydWwfUusbj0KYtQC/BbgOlUn51Atysnh
-----END PUBLIC KEY-----
)";

TEST(PublicKey, VerifiesWhatOpensslSigns) {
  const std::string ec =
      base::fromBase64(
          "MEUCIGNaXIk+6uPDmZDFCO5Zz7uYK3i88K/Gt6eTqRrtcx6pAiEAogw3TJt8wpkyMizbX1wwN3Ql"
          "pR5hYTKfp/41KgBAA64=")
          .value();
  const std::string ed =
      base::fromBase64(
          "84dA7Nc+TW6sbn45CknHbX49g8bisQOjNnA75wsUI9JPUP3hLiYoljVcL/fjBHMqXv9ogBpFbXAW"
          "ZoLHfo+jCQ==")
          .value();
  const auto first = PublicKey::parse(kEcKey);
  const auto second = PublicKey::parse(kEdKey);
  ASSERT_TRUE(first && second);
  EXPECT_EQ(first->id(), "sha256:eb0c56830322f4965ef3f123530b23e0eff5c8de5ca6063cc618b9dfab78b0da");
  const std::vector<PublicKey> keys = {*first, *second};
  EXPECT_EQ(verifier(keys, "hello", ec), keys.data());
  EXPECT_EQ(verifier(keys, "hello", ed), &keys[1]);
  EXPECT_EQ(verifier(keys, "hellp", ec), nullptr);
  EXPECT_EQ(verifier(keys, "hellp", ed), nullptr);
  EXPECT_FALSE(first->verify("hello", ed));
  EXPECT_FALSE(second->verify("hello", ec));
  for (const std::string& signature : {ec, ed}) {
    for (size_t i = 0; i < signature.size(); ++i) {
      std::string changed = signature;
      changed[i] = static_cast<char>(changed[i] ^ 1);
      EXPECT_EQ(verifier(keys, "hello", changed), nullptr) << i;
    }
    EXPECT_EQ(verifier(keys, "hello", signature.substr(1)), nullptr);
  }
  EXPECT_EQ(verifier(keys, "hello", ""), nullptr);
  EXPECT_EQ(verifier(keys, "hello", std::string(5000, 'x')), nullptr);
}

TEST(PublicKey, OtherKindsAreRefused) {
  EXPECT_THAT(PublicKey::parse(kP384Key).error().message, HasSubstr("P-256"));
  EXPECT_THAT(PublicKey::parse("").error().message, HasSubstr("no public key"));
  EXPECT_THAT(PublicKey::parse("-----BEGIN ENCRYPTED SIGSTORE PRIVATE KEY-----\n").error().message,
              HasSubstr("private key"));
  EXPECT_THAT(loadKeys({"/nowhere.pub"}).error().message, HasSubstr("images.keys: /nowhere.pub"));
}

TEST(Purl, IsReadAsItsSpecificationSays) {
  const auto deb = parsePurl(
      "pkg:deb/debian/"
      "libssl3@3.0.11-1~deb12u2?arch=amd64&upstream=openssl%403.0.11&distro=debian-12");
  ASSERT_TRUE(deb);
  EXPECT_EQ(deb->text(), "deb/debian/libssl3 3.0.11-1~deb12u2");
  EXPECT_EQ(deb->upstream, "openssl@3.0.11");
  EXPECT_EQ(deb->distro, "debian-12");
  for (const char* scoped : {"pkg:npm/%40scope/name@1.0.0", "pkg:npm/@scope/name@1.0.0#sub/path"}) {
    const auto npm = parsePurl(scoped);
    ASSERT_TRUE(npm) << scoped;
    EXPECT_EQ(npm->fullName(), "@scope/name");
    EXPECT_EQ(npm->version, "1.0.0");
  }
  EXPECT_EQ(parsePurl("pkg:PyPI/requests")->text(), "pypi/requests");
  EXPECT_EQ(parsePurl("pkg:npm/@scope/name")->version, "");
  for (const std::string bad :
       {"", "pkg:", "pkg:npm", "pkg:npm/", "pkg:/a@1", "npm/a@1", "pkg:npm/a%2", "pkg:npm/a%zz"}) {
    EXPECT_FALSE(parsePurl(bad)) << bad;
  }
  EXPECT_FALSE(parsePurl("pkg:npm/" + std::string(5000, 'a')));
}

Result<std::vector<SbomPackage>> sbom(std::string_view text) {
  return parseSbom(base::parseJson(text).value());
}

TEST(Sbom, CycloneDxAndSpdxAreRead) {
  const auto cyclone = sbom(
      R"({"bomFormat":"CycloneDX","specVersion":"1.5","components":[
          {"type":"library","name":"a","version":"1","purl":"pkg:pypi/a@1","components":[{"type":"library","name":"inner"}]},
          {"type":"file","name":"/etc/x"},{"type":"operating-system","name":"debian","version":"12"}]})");
  ASSERT_TRUE(cyclone) << cyclone.error().message;
  ASSERT_EQ(cyclone->size(), 3U);
  EXPECT_EQ(cyclone->at(0).text(), "pypi/a 1");
  EXPECT_EQ(cyclone->at(1).text(), "generic/inner");
  const auto spdx = sbom(
      R"({"spdxVersion":"SPDX-2.3","packages":[{"name":"x","versionInfo":"2",
          "externalRefs":[{"referenceType":"cpe23Type","referenceLocator":"cpe"},
                          {"referenceType":"purl","referenceLocator":"pkg:deb/debian/x@2?distro=debian-12"}]},
          {"name":"y","versionInfo":"3"}]})");
  ASSERT_TRUE(spdx) << spdx.error().message;
  ASSERT_EQ(spdx->size(), 2U);
  EXPECT_EQ(spdx->at(0).distro, "debian-12");
  EXPECT_EQ(spdx->at(1).version, "3");
  for (const char* bad :
       {"[]", "{}", R"({"bomFormat":"CycloneDX"})", R"({"bomFormat":"CycloneDX","components":{}})",
        R"({"bomFormat":"CycloneDX","components":[1]})",
        R"({"bomFormat":"CycloneDX","components":[{"type":"library"}]})",
        R"({"bomFormat":"CycloneDX","components":[{"name":"a","purl":"x"}]})",
        R"({"spdxVersion":"SPDX-3.0","packages":[{"name":"x"}]})",
        R"({"spdxVersion":"SPDX-2.3","packages":[{"name":"x","externalRefs":1}]})"}) {
    EXPECT_FALSE(sbom(bad)) << bad;
  }
  EXPECT_TRUE(isSbomType("application/vnd.cyclonedx+json"));
  EXPECT_TRUE(isSbomType("application/spdx+json"));
  EXPECT_TRUE(isSbomType("text/spdx+json"));
  EXPECT_FALSE(isSbomType("application/vnd.cyclonedx+xml"));
  EXPECT_FALSE(isSbomType("application/json"));
}

TEST(Deny, CoversNamesAndTypes) {
  const auto covers = [](std::string_view item, std::string_view purl) {
    return denies(item, parsePurl(purl).value());
  };
  EXPECT_TRUE(covers("openssl", "pkg:deb/debian/openssl@3"));
  EXPECT_TRUE(covers("deb/openssl", "pkg:deb/debian/openssl@3"));
  EXPECT_TRUE(covers("deb/debian/open*", "pkg:deb/debian/openssl@3"));
  EXPECT_TRUE(covers("pkg:npm/@scope/*", "pkg:npm/%40scope/x@1"));
  EXPECT_TRUE(covers("*/log4j*", "pkg:maven/org.apache/log4j-core@1"));
  EXPECT_FALSE(covers("npm/openssl", "pkg:deb/debian/openssl@3"));
  EXPECT_FALSE(covers("openss", "pkg:deb/debian/openssl@3"));
  EXPECT_FALSE(covers("x", "pkg:npm/%40scope/x@1"));
}

}  // namespace
}  // namespace cloister::registry
