// SPDX-License-Identifier: Apache-2.0
#include "model/inclusion_proof.h"

#include <algorithm>
#include <limits>
#include <utility>

namespace cloister::model {
namespace {

namespace json = base::json;
using base::ObjectReader;

constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
constexpr std::string_view kZeros =
    "0000000000000000000000000000000000000000000000000000000000000000";

std::unexpected<Error> wrongProof(const std::string& field, const std::string& why) {
  return fail(Code::kInvalid, field + ": " + why, field);
}

Result<std::string> needText(ObjectReader& reader, std::string_view name) {
  auto text = TRY(reader.text(name));
  if (text) return *std::move(text);
  return wrongProof(reader.pathOf(name), "is required");
}

Result<std::string> needDigest(ObjectReader& reader, std::string_view name) {
  std::string text = TRY(needText(reader, name));
  if (const auto digest = base::digestFromHex(text); !digest) {
    return wrongProof(reader.pathOf(name), digest.error().message);
  }
  return text;
}

Result<int64_t> needNumber(ObjectReader& reader, std::string_view name, int64_t least) {
  const auto number = TRY(reader.integer(name, least, kMost));
  if (number) return *number;
  return wrongProof(reader.pathOf(name), "is required");
}

Result<std::vector<SealedMember>> readSealed(const json::object* sealed) {
  std::vector<SealedMember> members;
  if (sealed == nullptr) return members;
  for (const auto& [name, value] : *sealed) {
    const std::string path = "entry.sealed." + std::string(name);
    if (!value.is_object()) return wrongProof(path, "must be an object");
    ObjectReader reader(value.get_object(), path);
    SealedMember member{
        .name = std::string(name), .salt = TRY(needText(reader, "salt")), .value = {}};
    const json::value* text = reader.any("value");
    if (text == nullptr) return wrongProof(path, "has no value");
    member.value = *text;
    TRY(reader.finish());
    members.push_back(std::move(member));
  }
  return members;
}

Result<AuditEntry> readEntry(const json::object& object) {
  ObjectReader reader(object, "entry");
  AuditEntry entry;
  entry.seq = static_cast<uint64_t>(TRY(needNumber(reader, "seq", 1)));
  entry.at = TRY(needNumber(reader, "at", 0));
  entry.event.action = TRY(needText(reader, "action"));
  entry.event.subject = TRY(needText(reader, "subject"));
  Principal& who = entry.event.principal;
  who.tenant = TRY(needText(reader, "tenant"));
  who.app = TRY(needText(reader, "app"));
  who.agent = TRY(needText(reader, "agent"));
  who.user = TRY(needText(reader, "user"));
  who.key_id = TRY(needText(reader, "key"));
  const json::object* details = TRY(reader.object("details"));
  if (details == nullptr) return wrongProof("entry.details", "is required");
  entry.event.details = *details;
  entry.prev = TRY(needDigest(reader, "prev"));
  entry.hash = TRY(needDigest(reader, "hash"));
  entry.position = static_cast<uint64_t>(TRY(reader.integer("position", 1, kMost)).value_or(0));
  const json::object* sealed = TRY(reader.object("sealed"));
  entry.sealed = TRY(readSealed(sealed));
  TRY(reader.finish());
  return entry;
}

Result<std::vector<base::Digest>> readSiblings(const json::array* array) {
  if (array == nullptr || array->size() != kProofDepth) {
    return wrongProof("siblings", "must be a list of " + std::to_string(kProofDepth) + " digests");
  }
  std::vector<base::Digest> siblings;
  for (const json::value& each : *array) {
    const auto digest =
        each.is_string() ? base::digestFromHex(each.get_string()) : fail(Code::kInvalid, "");
    if (!digest) {
      return wrongProof("siblings[" + std::to_string(siblings.size()) + "]",
                        "must be 64 lower-case hex digits");
    }
    siblings.push_back(*digest);
  }
  return siblings;
}

Result<> verifySeals(const AuditEntry& entry) {
  for (const SealedMember& member : entry.sealed) {
    const json::value* seal = entry.event.details.if_contains(member.name);
    if (seal == nullptr || sealIn(*seal) != sealOf(member)) {
      return wrongProof("entry.sealed." + member.name, "is not the text that the entry sealed");
    }
  }
  return {};
}

std::string recordName(const AuditRoot& root) {
  return "root " + std::to_string(root.number);
}

}  // namespace

std::string rootText(const AuditRoot& root) {
  return "cloister-audit-root v1\n" + std::to_string(root.number) + "\n" +
         std::to_string(root.begins) + "\n" + std::to_string(root.ends) + "\n" + root.root + "\n" +
         root.log + "\n" + root.prev + "\n";
}

std::string rootDigest(const AuditRoot& root) {
  return base::sha256Hex(rootText(root));
}

json::object toJsonObject(const AuditRoot& root) {
  return {{"number", root.number}, {"begins", root.begins},
          {"ends", root.ends},     {"root", root.root},
          {"log", root.log},       {"prev", root.prev},
          {"key", root.key_id},    {"signature", root.signature}};
}

Result<AuditRoot> parseAuditRoot(const json::object& object, const std::string& path) {
  ObjectReader reader(object, path);
  AuditRoot root;
  root.number = static_cast<uint64_t>(TRY(needNumber(reader, "number", 1)));
  root.begins = TRY(needNumber(reader, "begins", 0));
  root.ends = TRY(needNumber(reader, "ends", 0));
  root.root = TRY(needDigest(reader, "root"));
  root.log = TRY(needDigest(reader, "log"));
  root.prev = TRY(needDigest(reader, "prev"));
  root.key_id = TRY(needText(reader, "key"));
  root.signature = TRY(needText(reader, "signature"));
  TRY(reader.finish());
  return root;
}

Result<> verifyRoot(const AuditRoot& root, const base::VerifyKey& key) {
  if (root.key_id != key.id()) {
    return wrongProof("record.key", recordName(root) + " is signed by another key, " + root.key_id);
  }
  const auto signature = base::fromBase64(root.signature);
  if (!signature || !key.verify(rootText(root), *signature)) {
    return wrongProof("record.signature", recordName(root) + " has a signature that is not valid");
  }
  return {};
}

Result<> verifyRoots(const std::vector<AuditRoot>& roots, const base::VerifyKey& key) {
  const AuditRoot* before = nullptr;
  for (const AuditRoot& root : roots) {
    TRY(verifyRoot(root, key));
    const bool first = before == nullptr;
    if (first && root.number == 1 && root.prev != kZeros) {
      return wrongProof("prev", recordName(root) + " is the first, and names a record before it");
    }
    if (!first && root.number != before->number + 1) {
      return wrongProof("number", recordName(*before) + " is followed by " + recordName(root));
    }
    if (!first && root.prev != rootDigest(*before)) {
      return wrongProof("prev", recordName(root) + " does not follow " + recordName(*before) +
                                    ", whose digest it does not carry");
    }
    before = &root;
  }
  return {};
}

Result<std::vector<AuditRoot>> parseRoots(std::string_view text, const std::string& name) {
  std::vector<AuditRoot> roots;
  for (size_t start = 0, end; (end = text.find('\n', start)) != std::string_view::npos;
       start = end + 1) {
    const std::string line = name + ": line " + std::to_string(roots.size() + 1);
    const auto value = base::parseJson(text.substr(start, end - start));
    if (!value || !value->is_object()) return fail(Code::kInvalid, line + " is not a root");
    auto root = parseAuditRoot(value->get_object(), "");
    if (!root) return fail(Code::kInvalid, line + ": " + root.error().message);
    roots.push_back(*std::move(root));
  }
  return roots;
}

std::string sealedEnd(std::string_view secret, uint64_t position, std::string_view hash) {
  std::string text = "cloister-audit-root-log v1\n";
  text.append(secret).append("\n").append(std::to_string(position)).append("\n");
  return base::sha256Hex(text.append(hash).append("\n"));
}

base::Digest leafDigest(uint64_t place, const base::Digest& entry_hash) {
  std::string bytes = "cloister-audit-leaf v1\n";
  return base::sha256Bytes(bytes.append(base::bigEndian64(place)).append(base::textOf(entry_hash)));
}

base::Digest nodeDigest(const base::Digest& left, const base::Digest& right) {
  std::array<char, 1 + sizeof(base::Digest) * 2> bytes{1};
  std::ranges::copy(base::textOf(left), bytes.begin() + 1);
  std::ranges::copy(base::textOf(right), bytes.begin() + 1 + sizeof(base::Digest));
  return base::sha256Bytes({bytes.data(), bytes.size()});
}

base::Digest climb(uint64_t place, base::Digest leaf, const std::vector<base::Digest>& siblings) {
  for (size_t i = 0; i < siblings.size(); ++i) {
    const bool right = (place >> i & 1) != 0;
    leaf = right ? nodeDigest(siblings[i], leaf) : nodeDigest(leaf, siblings[i]);
  }
  return leaf;
}

Result<json::object> toJsonObject(const InclusionProof& proof, std::string_view line) {
  json::array siblings;
  for (const base::Digest& each : proof.siblings)
    siblings.push_back(json::string(base::hexOf(each)));
  return json::object{{"version", 1},
                      {"entry", TRY(base::parseJson(line))},
                      {"place", base::toHex(base::bigEndian64(proof.place))},
                      {"siblings", std::move(siblings)},
                      {"record", toJsonObject(proof.record)}};
}

Result<InclusionProof> parseInclusionProof(const json::object& object) {
  ObjectReader reader(object, "");
  if (TRY(reader.integer("version", 0, kMost)) != 1) {
    return wrongProof("version", "must be 1: another program made this proof, or it is none");
  }
  InclusionProof proof;
  const json::object* entry = TRY(reader.object("entry"));
  if (entry == nullptr) return wrongProof("entry", "is required");
  proof.entry = TRY(readEntry(*entry));
  const std::string place_text = TRY(needText(reader, "place"));
  const auto place = base::number64FromHex(place_text);
  if (!place) return wrongProof("place", place.error().message);
  proof.place = *place;
  const json::array* siblings = TRY(reader.array("siblings"));
  proof.siblings = TRY(readSiblings(siblings));
  const json::object* record = TRY(reader.object("record"));
  if (record == nullptr) return wrongProof("record", "is required");
  proof.record = TRY(parseAuditRoot(*record, "record"));
  TRY(reader.finish());
  return proof;
}

Result<> verifyInclusion(const InclusionProof& proof, const base::VerifyKey& key) {
  if (base::sha256Hex(canonicalForm(proof.entry)) != proof.entry.hash) {
    return wrongProof("entry", "its bytes do not match its hash");
  }
  TRY(verifySeals(proof.entry));
  const base::Digest hash = TRY(base::digestFromHex(proof.entry.hash));
  const base::Digest root = climb(proof.place, leafDigest(proof.place, hash), proof.siblings);
  if (base::hexOf(root) != proof.record.root) {
    return wrongProof("siblings", "they do not lead from the entry to " + recordName(proof.record));
  }
  return verifyRoot(proof.record, key);
}

Result<> verifyKept(const InclusionProof& proof, const std::vector<AuditRoot>& kept) {
  const auto found = std::ranges::find(kept, proof.record.number, &AuditRoot::number);
  if (found == kept.end()) {
    return wrongProof("record", "the kept roots have no " + recordName(proof.record) +
                                    "; fetch the newer ones and keep them too");
  }
  if (*found == proof.record) return {};
  return wrongProof("record", "the kept " + recordName(proof.record) + " is another");
}

}  // namespace cloister::model
