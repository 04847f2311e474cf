// SPDX-License-Identifier: Apache-2.0
#include "registry/credentials.h"

#include <utility>

#include "base/crypto.h"
#include "base/file.h"
#include "base/json.h"
#include "model/shown_text.h"
#include "registry/reference.h"

namespace cloister::registry {
namespace {

namespace json = base::json;

constexpr size_t kMostFile = size_t{256} << 10;
constexpr size_t kMostLogin = 8192;  // tokens of clouds are passwords of some kilobytes
constexpr base::JsonLimits kLimits{.max_bytes = kMostFile, .max_depth = 8, .max_values = 10'000};

// "https://index.docker.io/v1/" and "registry.example" → the host of references.
std::string hostOf(std::string_view key) {
  for (const std::string_view scheme : {"https://", "http://"}) {
    if (key.starts_with(scheme)) key.remove_prefix(scheme.size());
  }
  const std::string host(key.substr(0, key.find('/')));
  return host == "index.docker.io" || host == "registry-1.docker.io" ? std::string(kDockerHub)
                                                                     : host;
}

std::string textOf(const json::object& object, std::string_view name) {
  const json::value* found = object.if_contains(name);
  return found != nullptr && found->is_string() ? std::string(found->get_string()) : "";
}

Result<Login> loginOf(const std::string& host, const json::value& value) {
  const std::string at = "auths." + model::safeText(host, 256);
  const auto wrong = [&](std::string_view why) {
    return fail(Code::kInvalid, at + ": " + std::string(why), "images.credentials_file");
  };
  if (!value.is_object()) return wrong("must be an object");
  const json::object& object = value.get_object();
  Login login{textOf(object, "username"), textOf(object, "password")};
  const std::string auth = textOf(object, "auth");
  if (!auth.empty()) {
    const auto pair = base::fromBase64(auth);
    const size_t colon = pair ? pair->find(':') : std::string::npos;
    if (colon == std::string::npos) return wrong("`auth` must be the base64 of USER:PASSWORD");
    login = {pair->substr(0, colon), pair->substr(colon + 1)};
  }
  if (login.user.empty() || login.user == "<token>") {
    return fail(Code::kUnsupported,
                at + " has no user and password; a program that keeps logins (credsStore, "
                     "credHelpers) and an identity token are not used: write `auth`, the base64 of "
                     "USER:PASSWORD",
                "images.credentials_file");
  }
  if (login.user.size() + login.password.size() > kMostLogin) return wrong("is too long");
  return login;
}

}  // namespace

std::string Login::basic() const {
  return "Basic " + base::toBase64(user + ":" + password);
}

Result<Credentials> Credentials::load(const std::string& path) {
  if (path.empty()) return Credentials();
  constexpr std::string_view kKey = "images.credentials_file";
  const auto text = base::readFile(path, kMostFile);
  if (!text) return std::unexpected(Error(text.error()).within(kKey));
  auto parsed = parse(*text);
  if (!parsed)
    return std::unexpected(std::move(parsed).error().within(std::string(kKey) + ": " + path));
  return parsed;
}

Result<Credentials> Credentials::parse(std::string_view text) {
  const json::value value = TRY(base::parseJson(text, kLimits));
  const json::object* object = value.if_object();
  const json::value* auths = object == nullptr ? nullptr : object->if_contains("auths");
  if (auths == nullptr || !auths->is_object()) {
    return fail(Code::kInvalid, "must be an object with `auths`, as docker's config.json",
                "images.credentials_file");
  }
  Credentials out;
  for (const auto& entry : auths->get_object()) {
    const std::string host = hostOf(std::string_view(entry.key()));
    out.logins_.emplace(host, loginOf(host, entry.value()));
  }
  return out;
}

Result<std::optional<Login>> Credentials::at(std::string_view registry) const {
  const auto found = logins_.find(registry);
  if (found == logins_.end()) return std::nullopt;
  if (!found->second) return std::unexpected(found->second.error());
  return *found->second;
}

}  // namespace cloister::registry
