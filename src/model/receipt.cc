// SPDX-License-Identifier: Apache-2.0
#include "model/receipt.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "model/audit_entry.h"

namespace cloister::model {
namespace {

namespace json = base::json;

constexpr size_t kNamed = 10;  // number of fields named by an error
constexpr std::string_view kAlgorithm = "ed25519";

using Digests = std::map<std::string, std::string>;  // JSON Pointer → hex SHA-256

std::unexpected<Error> wrong(const std::string& field, const std::string& why) {
  return fail(Code::kInvalid, field + ": " + why, field);
}

std::string under(const std::string& pointer, std::string_view name) {
  std::string out = pointer + "/";
  for (const char c : name) {
    if (c == '~') {
      out += "~0";
    } else if (c == '/') {
      out += "~1";
    } else {
      out += c;
    }
  }
  return out;
}

std::string digestOf(const std::string& pointer, const json::value& value) {
  std::string text = "cloister receipt field v1";
  text += '\0';
  text += pointer;
  text += '\0';
  return base::sha256Hex(text + canonicalJson(value));
}

// Adds digests of all scalar values, and of all empty arrays and objects.
void addDigests(const std::string& pointer, const json::value& value, Digests& out) {
  if (value.is_object() && !value.get_object().empty()) {
    for (const auto& [name, member] : value.get_object())
      addDigests(under(pointer, name), member, out);
  } else if (value.is_array() && !value.get_array().empty()) {
    size_t index = 0;
    for (const json::value& item : value.get_array())
      addDigests(under(pointer, std::to_string(index++)), item, out);
  } else {
    out.emplace(pointer, digestOf(pointer, value));
  }
}

Digests digestsOf(const json::object& facts) {
  Digests out;
  for (const auto& [name, member] : facts)
    addDigests(under("", name), member, out);
  return out;
}

// Covers the digests, and the facts as a whole: an array and an object with the members "0", "1" …
// have the same digests, and so have a fraction and its text.
std::string signedText(const json::object& facts, const json::object& fields,
                       const std::string& key) {
  return std::string(kReceiptFormat) + "\n" + key + "\n" + base::sha256Hex(canonicalJson(facts)) +
         "\n" + base::sha256Hex(canonicalJson(fields)) + "\n";
}

bool hasFraction(const json::value& value) {
  if (value.is_object()) {
    return std::ranges::any_of(value.get_object(),
                               [](const auto& member) { return hasFraction(member.value()); });
  }
  if (value.is_array()) return std::ranges::any_of(value.get_array(), hasFraction);
  return value.is_double();
}

Result<const json::object*> objectIn(const json::object& receipt, std::string_view name) {
  const json::value* found = receipt.if_contains(name);
  if (found == nullptr) return wrong("/" + std::string(name), "is missing");
  if (!found->is_object()) return wrong("/" + std::string(name), "must be an object");
  return &found->get_object();
}

Result<std::string> textIn(const json::object& object, std::string_view name,
                           const std::string& pointer) {
  const json::value* found = object.if_contains(name);
  if (found != nullptr && found->is_string()) return std::string(found->get_string());
  return wrong(pointer, "must be a string");
}

Result<Digests> statedDigests(const json::object& fields) {
  Digests out;
  for (const auto& [pointer, value] : fields) {
    if (!value.is_string()) return wrong(under("/fields", pointer), "must be a string");
    out.emplace(pointer, value.get_string());
  }
  return out;
}

Result<> compare(const Digests& stated, const Digests& found) {
  std::vector<std::pair<std::string, std::string>> bad;
  for (const auto& [pointer, digest] : stated) {
    const auto at = found.find(pointer);
    if (at == found.end()) {
      bad.emplace_back(pointer, "was removed");
    } else if (at->second != digest) {
      bad.emplace_back(pointer, "was changed");
    }
  }
  for (const auto& [pointer, digest] : found) {
    if (!stated.contains(pointer)) bad.emplace_back(pointer, "was added");
  }
  if (bad.empty()) return {};
  std::string message;
  for (size_t i = 0; i < bad.size() && i < kNamed; ++i) {
    message += (i == 0 ? "" : "; ") + bad[i].first + ": " + bad[i].second;
  }
  if (bad.size() > kNamed) message += "; and " + std::to_string(bad.size() - kNamed) + " more";
  return fail(Code::kInvalid, message, bad.front().first);
}

}  // namespace

json::object sealReceipt(json::object facts, const base::SigningKey& key) {
  facts["format"] = kReceiptFormat;
  json::object fields;
  for (const auto& [pointer, digest] : digestsOf(facts))
    fields[pointer] = digest;
  const std::string id = key.verifyKey().id();
  const std::string signature = key.sign(signedText(facts, fields, id));
  facts["fields"] = std::move(fields);
  facts["signature"] = {
      {"algorithm", kAlgorithm}, {"key", id}, {"value", base::toBase64(signature)}};
  return facts;
}

Result<> verifyReceipt(const json::object& receipt, const base::VerifyKey& key) {
  const json::object& fields = *TRY(objectIn(receipt, "fields"));
  const json::object& signature = *TRY(objectIn(receipt, "signature"));
  if (TRY(textIn(receipt, "format", "/format")) != kReceiptFormat) {
    return wrong("/format", "is not \"" + std::string(kReceiptFormat) + "\"");
  }
  json::object facts = receipt;
  facts.erase("fields");
  facts.erase("signature");
  const Digests stated = TRY(statedDigests(fields));
  TRY(compare(stated, digestsOf(facts)));
  if (hasFraction(facts)) return fail(Code::kInvalid, "a number has a fraction, as none may have");

  if (TRY(textIn(signature, "algorithm", "/signature/algorithm")) != kAlgorithm) {
    return wrong("/signature/algorithm", "is not \"" + std::string(kAlgorithm) + "\"");
  }
  const std::string by = TRY(textIn(signature, "key", "/signature/key"));
  if (by != key.id())
    return wrong("/signature/key", "it is signed by another key than " + key.id());
  if (signature.size() != 3) return wrong("/signature", "has members that do not belong there");
  const std::string text = TRY(textIn(signature, "value", "/signature/value"));
  const auto bytes = base::fromBase64(text);
  if (!bytes || !key.verify(signedText(facts, fields, by), *bytes)) {
    return wrong("/signature/value", "is not the signature of this receipt");
  }
  return {};
}

}  // namespace cloister::model
