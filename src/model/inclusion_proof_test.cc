// SPDX-License-Identifier: Apache-2.0
// Proofs as a verifier reads them, held to the vector of docs/AUDIT.md.
#include "model/inclusion_proof.h"

#include <functional>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/file.h"

namespace cloister::model {
namespace {

namespace json = base::json;
using ::testing::HasSubstr;

json::object vector() {
  const auto text = base::readFile(CLOISTER_SOURCE_DIR "/tests/data/audit_proof.json", 1 << 20);
  return base::parseJson(text.value()).value().as_object();
}

base::VerifyKey keyOf(const json::object& all) {
  return base::VerifyKey::fromBase64(all.at("public_key").as_string()).value();
}

json::object proofOf(const json::object& all) {
  return all.at("proof").as_object();
}

// The field and the message of the refusal; "" for a valid proof.
std::string refusal(const json::object& object, const base::VerifyKey& key) {
  const auto proof = parseInclusionProof(object);
  if (!proof) return proof.error().field + " " + proof.error().message;
  const auto valid = verifyInclusion(*proof, key);
  return valid ? "" : valid.error().field + " " + valid.error().message;
}

TEST(InclusionProof, IsThatOfTheDocument) {
  const json::object all = vector();
  EXPECT_EQ(refusal(proofOf(all), keyOf(all)), "");
  const InclusionProof proof = parseInclusionProof(proofOf(all)).value();
  EXPECT_EQ(base::hexOf(leafDigest(proof.place, base::digestFromHex(proof.entry.hash).value())),
            "cd2e7735d1b7dfa5b91dfb4b04867326aecc19bd090a0dbf95423e382695eb40");
  EXPECT_EQ(rootDigest(proof.record).size(), 64U);
  const auto seed = base::SigningKey::fromBase64(all.at("seed").as_string());
  EXPECT_EQ(base::toBase64(seed.value().sign(rootText(proof.record))), proof.record.signature);
}

TEST(InclusionProof, NamesTheFirstDefect) {
  const json::object all = vector();
  const auto changed = [&](const std::function<void(json::object&)>& change) {
    json::object proof = proofOf(all);
    change(proof);
    return refusal(proof, keyOf(all));
  };
  const auto in = [](std::string_view part, std::string_view name, json::value value) {
    return [=](json::object& proof) { proof[part].as_object()[name] = value; };
  };
  const json::string zeros(64, '0');
  EXPECT_THAT(changed(in("entry", "user", "x")), HasSubstr("its bytes do not match its hash"));
  EXPECT_THAT(changed(in("entry", "details", json::object())), HasSubstr("entry"));
  EXPECT_THAT(changed(in("entry", "hash", zeros)), HasSubstr("its bytes do not match its hash"));
  EXPECT_THAT(changed(in("entry", "more", 1)), HasSubstr("entry.more"));
  EXPECT_THAT(changed([](json::object& proof) {
                proof["entry"].as_object()["sealed"].as_object()["reason"].as_object()["value"] = 1;
              }),
              HasSubstr("entry.sealed.reason"));
  EXPECT_THAT(changed([](json::object& proof) { proof["place"] = "8123456789abcdef"; }),
              HasSubstr("they do not lead from the entry to root 7"));
  for (size_t at = 0; at < kProofDepth; ++at) {
    EXPECT_THAT(changed([&](json::object& proof) { proof["siblings"].as_array()[at] = zeros; }),
                HasSubstr("they do not lead"))
        << at;
  }
  EXPECT_THAT(changed([](json::object& proof) { proof["siblings"].as_array().pop_back(); }),
              HasSubstr("must be a list of 64 digests"));
  EXPECT_THAT(changed([](json::object& proof) { proof["version"] = 2; }), HasSubstr("version"));
  EXPECT_THAT(changed(in("record", "root", zeros)), HasSubstr("they do not lead"));
  for (const std::string_view name : {"log", "prev"}) {
    EXPECT_THAT(changed(in("record", name, zeros)), HasSubstr("a signature that is not valid"));
  }
  for (const std::string_view name : {"number", "begins", "ends"}) {
    EXPECT_THAT(changed(in("record", name, 3)), HasSubstr("a signature that is not valid"));
  }
  EXPECT_THAT(changed(in("record", "key", "0123456789abcdef")), HasSubstr("by another key"));
  EXPECT_THAT(changed(in("record", "signature", "AAAA")), HasSubstr("signature"));
  EXPECT_THAT(refusal(proofOf(all), base::SigningKey::generate().verifyKey()),
              HasSubstr("by another key"));
}

// Three records in a row.
std::vector<AuditRoot> row(const base::SigningKey& key) {
  std::vector<AuditRoot> roots;
  for (uint64_t number = 1; number <= 3; ++number) {
    AuditRoot root{.number = number,
                   .begins = static_cast<int64_t>(number) * 60,
                   .ends = static_cast<int64_t>(number) * 60 + 60,
                   .root = std::string(64, 'a'),
                   .log = std::string(64, 'b'),
                   .prev = roots.empty() ? std::string(64, '0') : rootDigest(roots.back()),
                   .key_id = key.verifyKey().id(),
                   .signature = {}};
    root.signature = base::toBase64(key.sign(rootText(root)));
    roots.push_back(std::move(root));
  }
  return roots;
}

TEST(AuditRoots, FormARow) {
  const base::SigningKey key = base::SigningKey::generate();
  const auto roots = row(key);
  EXPECT_TRUE(verifyRoots(roots, key.verifyKey()));
  EXPECT_TRUE(verifyRoots({roots[1], roots[2]}, key.verifyKey())) << "older ones may be dropped";
  const auto gap = verifyRoots({roots[0], roots[2]}, key.verifyKey());
  EXPECT_THAT(gap.error().message, HasSubstr("root 1 is followed by root 3"));
  auto forged = roots;
  forged[1].root = std::string(64, 'c');
  forged[1].signature = base::toBase64(key.sign(rootText(forged[1])));
  const auto other = verifyRoots(forged, key.verifyKey());
  EXPECT_THAT(other.error().message, HasSubstr("root 3 does not follow root 2"));
  const InclusionProof proof{.entry = {}, .place = 0, .siblings = {}, .record = roots[1]};
  EXPECT_TRUE(verifyKept(proof, roots));
  EXPECT_THAT(verifyKept(proof, forged).error().message, HasSubstr("the kept root 2 is another"));
  EXPECT_THAT(verifyKept(proof, {roots[0]}).error().message, HasSubstr("have no root 2"));
}

TEST(AuditRoots, AreReadFromLines) {
  const base::SigningKey key = base::SigningKey::generate();
  std::string text;
  for (const AuditRoot& each : row(key))
    text += base::toJson(toJsonObject(each)) + "\n";
  EXPECT_EQ(parseRoots(text, "roots").value(), row(key));
  EXPECT_THAT(parseRoots(text + "{}\n", "roots").error().message, HasSubstr("roots: line 4"));
  EXPECT_EQ(parseRoots(text + "{\"cut", "roots").value().size(), 3U) << "a line without an end";
}

}  // namespace
}  // namespace cloister::model
