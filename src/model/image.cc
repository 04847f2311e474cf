// SPDX-License-Identifier: Apache-2.0
#include "model/image.h"

#include <algorithm>

#include "model/run_request.h"

namespace cloister::model {
namespace {

namespace json = base::json;

constexpr size_t kMaxText = 64;
constexpr size_t kMaxReference = 1024;
constexpr int64_t kMost = INT64_MAX;
constexpr std::string_view kSources[] = {"oci", "docker", "directory"};
constexpr base::JsonLimits kLimits{
    .max_bytes = size_t{256} << 10, .max_depth = 3, .max_values = 512};

std::unexpected<Error> invalid(const std::string& field, std::string_view why) {
  return fail(Code::kInvalid, field + ": " + std::string(why), field);
}

Result<std::string> textOf(base::ObjectReader& reader, const char* name) {
  auto text = TRY(reader.text(name));
  if (!text) return invalid(name, "must be there");
  return *std::move(text);
}

Result<uint64_t> countOf(base::ObjectReader& reader, const char* name) {
  const auto number = TRY(reader.integer(name, 0, kMost));
  if (!number) return invalid(name, "must be there");
  return static_cast<uint64_t>(*number);
}

json::value orNull(const std::string& text) {
  return text.empty() ? json::value(nullptr) : json::value(text);
}

Result<> check(const Image& image) {
  if (!validImageName(image.name)) return invalid("name", "no name of an image");
  if (!isImageDigest(image.digest)) return invalid("digest", "must be sha256: and 64 hex digits");
  if (std::ranges::find(kSources, image.source) == std::end(kSources)) {
    return invalid("source", "must be oci, docker or directory");
  }
  if (!image.reference.empty() && !isImageDigest(image.reference)) {
    return invalid("reference", "must be sha256: and 64 hex digits, or null");
  }
  if (image.created.empty() || image.created.size() > kMaxText) {
    return invalid("created", "must be a time");
  }
  return {};
}

}  // namespace

bool validImageName(std::string_view name) {
  return isImageName(name) && name != kHostImage;
}

json::value toJsonValue(const std::optional<VerifiedImage>& verified) {
  if (!verified) return nullptr;
  return json::object{{"reference", verified->reference},
                      {"key", orNull(verified->key)},
                      {"sbom", orNull(verified->sbom)}};
}

json::object toJsonObject(const Image& image) {
  json::object env;
  for (const auto& [name, value] : image.env)
    env[name] = value;
  return {{"name", image.name},         {"digest", image.digest},
          {"source", image.source},     {"reference", orNull(image.reference)},
          {"env", std::move(env)},      {"size_bytes", image.size_bytes},
          {"files", image.files},       {"created", image.created},
          {"squashfs", image.squashfs}, {"verified", toJsonValue(image.verified)}};
}

std::string toJson(const Image& image) {
  return base::toJson(toJsonObject(image));
}

Result<ImageEnv> parseImageEnv(const json::object& variables) {
  if (variables.size() > kMaxImageEnv) {
    return fail(Code::kTooLarge,
                "env: " + std::to_string(variables.size()) + " variables, but at most " +
                    std::to_string(kMaxImageEnv) + " are allowed",
                "env");
  }
  ImageEnv env;
  size_t bytes = 0;
  for (const auto& member : variables) {
    const std::string name(member.key());
    const json::string* value = member.value().if_string();
    if (!isEnvironmentName(name)) return invalid("env", "a name that no variable can have");
    if (value == nullptr || value->find('\0') != json::string::npos) {
      return invalid("env." + name.substr(0, kMaxText), "must be text without NUL");
    }
    bytes += name.size() + value->size();
    if (bytes > kMaxImageEnvBytes) {
      return fail(Code::kTooLarge,
                  "env: more than " + std::to_string(kMaxImageEnvBytes) +
                      " bytes of names and values together",
                  "env");
    }
    env.emplace_back(name, std::string(*value));
  }
  return env;
}

Result<VerifiedImage> parseVerifiedImage(const json::object& object) {
  base::ObjectReader reader(object, "verified");
  VerifiedImage out;
  out.reference = TRY(reader.text("reference")).value_or("");
  out.key = TRY(reader.text("key")).value_or("");
  out.sbom = TRY(reader.text("sbom")).value_or("");
  TRY(reader.finish());
  if (out.reference.empty() || out.reference.size() > kMaxReference) {
    return invalid("verified.reference", "must be a reference");
  }
  for (const auto& [name, digest] : {std::pair<std::string, std::string>{"verified.key", out.key},
                                     {"verified.sbom", out.sbom}}) {
    if (!digest.empty() && !isImageDigest(digest)) {
      return invalid(name, "must be sha256: and 64 hex digits, or null");
    }
  }
  return out;
}

Result<Image> parseImage(std::string_view text) {
  const json::value value = TRY(base::parseJson(text, kLimits));
  if (!value.is_object()) return fail(Code::kInvalid, "must be an object");
  base::ObjectReader reader(value.get_object(), "");
  Image image;
  image.name = TRY(textOf(reader, "name"));
  image.digest = TRY(textOf(reader, "digest"));
  image.source = TRY(textOf(reader, "source"));
  image.reference = TRY(reader.text("reference")).value_or("");
  const json::object* env = TRY(reader.object("env"));
  if (env != nullptr) image.env = TRY(parseImageEnv(*env));
  image.size_bytes = TRY(countOf(reader, "size_bytes"));
  image.files = TRY(countOf(reader, "files"));
  image.created = TRY(textOf(reader, "created"));
  image.squashfs = TRY(reader.boolean("squashfs")).value_or(false);
  if (const json::object* verified = TRY(reader.object("verified"))) {
    image.verified = TRY(parseVerifiedImage(*verified));
  }
  TRY(reader.finish());
  TRY(check(image));
  return image;
}

}  // namespace cloister::model
