// SPDX-License-Identifier: Apache-2.0
// resources/*: the languages, the limits in force, artifacts and the files of sessions.
#include <chrono>

#include "api/mcp/tool.h"
#include "base/content_type.h"
#include "base/crypto.h"

namespace cloister::api::mcp {
namespace {

constexpr std::string_view kArtifacts = "cloister://artifacts/";
constexpr std::string_view kSessions = "cloister://sessions/";
constexpr std::string_view kFiles = "/files/";

std::unexpected<RpcError> notFound(std::string_view uri, std::string_view why) {
  return rpcError(code::kInvalidParams, "resource not found: " + std::string(why), 200,
                  json::object{{"uri", uri}});
}

json::array namesOf(const std::vector<std::string>& names) {
  json::array out;
  for (const std::string& name : names)
    out.emplace_back(json::string(name));
  return out;
}

json::object languages(Server& server) {
  json::array all;
  for (const model::Language& language : server.rest().languages.all()) {
    all.push_back(json::object{{"name", language.name},
                               {"title", language.title},
                               {"aliases", namesOf(language.aliases)},
                               {"extensions", namesOf(language.extensions)}});
  }
  return {{"languages", std::move(all)}};
}

json::object limits(Server& server) {
  const RestParts& rest = server.rest();
  const auto seconds = [](Millis time) {
    return std::chrono::duration_cast<std::chrono::seconds>(time).count();
  };
  model::Limits unasked;
  model::settle(unasked);
  return {{"most", model::limitsObject(rest.bounds.max)},
          {"unasked", model::limitsObject(unasked)},
          {"session",
           {{"ttl_seconds", seconds(rest.session_bounds.ttl)},
            {"idle_ttl_seconds", seconds(rest.session_bounds.idle_ttl)},
            {"max_ttl_seconds", seconds(rest.session_bounds.max_ttl)}}},
          {"answer",
           {{"output_bytes", server.settings().text_bytes},
            {"download_bytes", server.settings().download_bytes},
            {"wait_seconds", seconds(server.settings().sync_wait)}}}};
}

json::object contentsOf(std::string_view uri, std::string_view content_type,
                        const std::string& bytes) {
  json::object one{{"uri", uri}, {"mimeType", content_type}};
  if (base::isUtf8(bytes) && !bytes.contains('\0') && !isFigure(content_type)) {
    one["text"] = bytes;
  } else {
    one["blob"] = base::toBase64(bytes);
  }
  return {{"contents", json::array{std::move(one)}}, {"ttlMs", 0}, {"cacheScope", "private"}};
}

json::object document(std::string_view uri, const json::object& object) {
  json::object result = contentsOf(uri, "application/json", base::toJson(object));
  result["ttlMs"] = 3'600'000;
  return result;
}

// The error says what to do instead; the client knows the uri.
std::unexpected<RpcError> tooLarge(std::string_view uri, uint64_t size) {
  return rpcError(code::kInvalidParams,
                  "the file has " + std::to_string(size) +
                      " bytes, too many for one answer: read it in parts with the tool download",
                  200, json::object{{"uri", uri}});
}

Task<Reply> readStored(Server& server, Call& call, std::string uri) {
  model::Artifact found;
  const size_t most = server.settings().download_bytes;
  const std::string id = uri.substr(kArtifacts.size());
  const auto part = co_await readArtifact(server, call, id, 0, most, found);
  if (!part) co_return notFound(uri, part.error().message);
  if (part->size > most) co_return tooLarge(uri, part->size);
  co_return contentsOf(uri, found.ref.content_type, part->bytes);
}

Task<Reply> readInSession(Server& server, Call& call, std::string uri) {
  const size_t most = server.settings().download_bytes;
  const std::string rest = uri.substr(kSessions.size());
  const size_t at = rest.find(kFiles);
  if (at == std::string::npos) co_return notFound(uri, "no such resource");
  const auto path = percentDecode(std::string_view(rest).substr(at + kFiles.size()), false);
  if (!path || path->empty()) co_return notFound(uri, "no path");
  const auto part = co_await readFile(server, call, rest.substr(0, at), *path, 0, most);
  if (!part) co_return notFound(uri, part.error().message);
  if (part->size > most) co_return tooLarge(uri, part->size);
  co_return contentsOf(uri, base::sniffContentType(*path, part->bytes), part->bytes);
}

std::unexpected<RpcError> badCursor() {
  return rpcError(code::kInvalidParams, "cursor: not one of this server");
}

}  // namespace

Task<Reply> listResources(Server& server, Call& call, const json::object& params) {
  if (params.contains("cursor")) co_return badCursor();
  json::array all = server.definitions().at("resources").as_array();
  all.insert(all.end(), server.extras().resources.begin(), server.extras().resources.end());
  (void)call;
  co_return json::object{
      {"resources", std::move(all)}, {"ttlMs", 3'600'000}, {"cacheScope", "private"}};
}

Task<Reply> listTemplates(Server& server, Call& call, const json::object& params) {
  if (params.contains("cursor")) co_return badCursor();
  json::array all = server.definitions().at("templates").as_array();
  all.insert(all.end(), server.extras().templates.begin(), server.extras().templates.end());
  (void)call;
  co_return json::object{
      {"resourceTemplates", std::move(all)}, {"ttlMs", 3'600'000}, {"cacheScope", "private"}};
}

Task<Reply> readResource(Server& server, Call& call, const json::object& params) {
  const std::string uri = textIn(params, "uri");
  if (uri.empty()) co_return rpcError(code::kInvalidParams, "uri: is required");
  if (server.extras().read != nullptr) {
    if (auto found = server.extras().read(uri)) co_return *std::move(found);
  }
  if (uri == "cloister://languages") co_return document(uri, languages(server));
  if (uri == "cloister://limits") co_return document(uri, limits(server));
  if (uri.starts_with(kArtifacts) && call.may(Permission::kArtifactRead)) {
    co_return co_await readStored(server, call, uri);
  }
  if (uri.starts_with(kSessions) && call.may(Permission::kFileRead)) {
    co_return co_await readInSession(server, call, uri);
  }
  co_return notFound(uri, "no such resource");
}

}  // namespace cloister::api::mcp
