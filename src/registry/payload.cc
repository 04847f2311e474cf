// SPDX-License-Identifier: Apache-2.0
#include "registry/payload.h"

#include <utility>

#include "base/crypto.h"
#include "model/image_name.h"

namespace cloister::registry {
namespace {

namespace json = base::json;

constexpr size_t kMostSignatureText = 1024;
constexpr size_t kMostType = 1024;

std::unexpected<Error> invalid(const std::string& what) {
  return fail(Code::kInvalid, what);
}

base::JsonLimits limitsOf(size_t bytes) {
  return {.max_bytes = bytes, .max_depth = 64, .max_values = std::max<size_t>(bytes / 8, 1000)};
}

Result<json::object> objectOf(std::string_view text, size_t most) {
  json::value value = TRY(base::parseJson(text, limitsOf(most)));
  if (!value.is_object()) return invalid("must be an object");
  return std::move(value.get_object());
}

Result<const json::object*> inner(const json::object& object, const std::string& name) {
  const json::value* found = object.if_contains(name);
  if (found == nullptr || !found->is_object()) return invalid(name + ": must be an object");
  return &found->get_object();
}

Result<std::string> textOf(const json::object& object, const std::string& name, size_t most) {
  const json::value* found = object.if_contains(name);
  if (found == nullptr || !found->is_string() || found->get_string().size() > most) {
    return invalid(name + ": must be text of at most " + std::to_string(most) + " bytes");
  }
  return std::string(found->get_string());
}

Result<const json::array*> listOf(const json::object& object, const std::string& name,
                                  size_t most) {
  const json::value* found = object.if_contains(name);
  if (found == nullptr || !found->is_array()) return invalid(name + ": must be a list");
  if (found->get_array().size() <= most) return &found->get_array();
  return fail(Code::kTooLarge, name + ": more than " + std::to_string(most) + " elements");
}

Result<std::string> decoded(const json::object& object, const std::string& name, size_t most) {
  auto bytes = base::fromBase64(TRY(textOf(object, name, most)));
  if (!bytes) return invalid(name + ": must be base64");
  return bytes;
}

}  // namespace

Result<std::string> signedDigest(std::string_view payload) {
  const json::object object = TRY(objectOf(payload, kMostPayload));
  const json::object* critical = TRY(inner(object, "critical"));
  if (TRY(textOf(*critical, "type", kMostType)) != "cosign container image signature") {
    return invalid("critical.type: must be \"cosign container image signature\"");
  }
  const json::object* image = TRY(inner(*critical, "image"));
  std::string digest = TRY(textOf(*image, "docker-manifest-digest", kMostType));
  if (model::isImageDigest(digest)) return digest;
  return invalid("critical.image.docker-manifest-digest: must be sha256: and 64 hex digits");
}

Result<Envelope> parseEnvelope(std::string_view text, size_t most) {
  const json::object object = TRY(objectOf(text, most));
  const json::object* envelope =
      object.contains("dsseEnvelope") ? TRY(inner(object, "dsseEnvelope")) : &object;
  const std::string type = TRY(textOf(*envelope, "payloadType", kMostType));
  if (type != "application/vnd.in-toto+json") {
    return invalid("payloadType: must be application/vnd.in-toto+json");
  }
  Envelope out;
  out.payload = TRY(decoded(*envelope, "payload", most));
  // https://github.com/secure-systems-lab/dsse/blob/master/protocol.md
  out.signed_bytes = "DSSEv1 " + std::to_string(type.size()) + " " + type + " " +
                     std::to_string(out.payload.size()) + " " + out.payload;
  for (const json::value& item : *TRY(listOf(*envelope, "signatures", kMostSignatures))) {
    if (!item.is_object()) return invalid("signatures: must be objects");
    out.signatures.push_back(TRY(decoded(item.get_object(), "sig", kMostSignatureText)));
  }
  return out;
}

Result<Statement> parseStatement(std::string_view payload, size_t most) {
  json::object object = TRY(objectOf(payload, most));
  const std::string type = TRY(textOf(object, "_type", kMostType));
  if (!type.starts_with("https://in-toto.io/Statement/")) {
    return invalid("_type: must be a statement of in-toto");
  }
  Statement out;
  out.predicate_type = TRY(textOf(object, "predicateType", kMostType));
  for (const json::value& item : *TRY(listOf(object, "subject", kMostSubjects))) {
    if (!item.is_object()) return invalid("subject: must be objects");
    const json::object* digests = TRY(inner(item.get_object(), "digest"));
    if (!digests->contains("sha256")) continue;
    std::string digest = "sha256:" + TRY(textOf(*digests, "sha256", kMostType));
    if (!model::isImageDigest(digest))
      return invalid("subject.digest.sha256: must be 64 hex digits");
    out.subjects.push_back(std::move(digest));
  }
  if (json::value* predicate = object.if_contains("predicate")) {
    out.predicate = std::move(*predicate);
  }
  return out;
}

}  // namespace cloister::registry
