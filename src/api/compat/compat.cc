// SPDX-License-Identifier: Apache-2.0
#include "api/compat/compat.h"

#include <algorithm>
#include <array>

#include "api/compat/e2b/e2b.h"
#include "api/compat/letta/letta.h"
#include "api/compat/opensandbox/opensandbox.h"
#include "api/rest/requests.h"

namespace cloister::api::compat {
namespace {

// Templates and images that stand for "the usual tools". The embedded image has these.
constexpr auto kWellKnown = std::to_array<std::string_view>(
    {"base", "code-interpreter-v1", "code-interpreter", "code-interpreter-beta", "default",
     "cloister", "python", "node", "ubuntu", "debian"});

// "registry/repository/python:3.11-slim" → "python".
std::string_view plainName(std::string_view image) {
  image = image.substr(0, image.find('@'));
  image.remove_prefix(image.rfind('/') == std::string_view::npos ? 0 : image.rfind('/') + 1);
  return image.substr(0, image.find(':'));
}

}  // namespace

std::vector<Facade> facades(RestParts& parts) {
  std::vector<Facade> all;
  for (auto make : {e2b::facade, opensandbox::facade, letta::facade})
    all.push_back(make(parts));
  return all;
}

Result<std::string> imageOf(const RestParts& parts, std::string_view name) {
  const auto& images = parts.compat.images;
  if (const auto found = images.find(std::string(name)); found != images.end()) {
    return found->second;
  }
  const std::string_view plain = plainName(name);
  // A path says whose image it is: only images without one, or Docker's own, are the usual ones.
  const bool own = !name.contains('/') || name.starts_with("docker.io/library/") ||
                   name.starts_with("library/") || name.starts_with("opensandbox/");
  const auto is = [&](std::string_view known) { return known == plain; };
  if (own && std::ranges::any_of(kWellKnown, is)) return std::string();
  return fail(Code::kNotFound, "template or image '" + std::string(name) +
                                   "' not found; name an image for it in compat.images of the "
                                   "server's configuration");
}

Result<base::json::object> bodyOf(const RestParts& parts, const Request& request) {
  if (request.body.empty()) return base::json::object();
  return parseObject(request.body, parts.bounds);
}

std::string jsonLine(const base::json::value& value) {
  return base::toJson(value) + "\n";
}

std::string sseData(const base::json::value& value) {
  return "data: " + base::toJson(value) + "\n\n";
}

void setJson(Response& response, const base::json::value& value) {
  std::erase_if(response.headers,
                [](const Header& header) { return lowerCase(header.name) == "content-type"; });
  response.with("Content-Type", "application/json");
  response.body = base::toJson(value);
}

}  // namespace cloister::api::compat
