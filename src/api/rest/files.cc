// SPDX-License-Identifier: Apache-2.0
// /v1/sessions/{id}/files: the content of a session's workspace, home directory and /tmp, as a
// single file or an archive.
#include <algorithm>
#include <memory>
#include <utility>

#include "api/http/problem.h"
#include "api/rest/download.h"
#include "api/rest/requests.h"
#include "api/workspace.h"
#include "base/clock.h"
#include "base/content_type.h"
#include "base/json.h"
#include "base/log.h"
#include "orchestrator/core/display_path.h"

namespace cloister::api {
namespace {

namespace json = base::json;
namespace files = wire::files;
using orchestrator::FileCall;
using orchestrator::FileRequest;
using CallPtr = std::shared_ptr<FileCall>;

constexpr int64_t kMaxDepth = files::kMaxDepth;
constexpr int64_t kEntries = 1'000;

Result<std::string> pathInUrl(const Request& request) {
  return checkedPath(request.params[1], "url.path", TRY(rootOf(request)));
}

Result<std::string> pathInQuery(const Request& request) {
  return checkedPath(queryText(request, "path").value_or(""), "query.path", TRY(rootOf(request)));
}

// As answers show the path of a request.
std::string shownPath(const Request& request, const std::string& path) {
  return shown(path, "", rootOf(request).value_or(nullptr));
}

Task<Result<CallPtr>> ask(RestParts& parts, Request& request, FileRequest wanted) {
  return parts.sessions.files(request.principal, request.params[0], std::move(wanted));
}

Task<Result<files::Entry>> statOf(RestParts& parts, Request& request, std::string path,
                                  std::string field) {
  const CallPtr call = CO_TRY(co_await ask(parts, request, {{"stat", path}, false, ""}));
  auto entry = co_await onlyEntry(call);
  if (!entry) co_return about(std::move(entry).error(), "looking at", path, field);
  co_return entry;
}

Task<Result<Response>> list(RestParts& parts, Request& request) {
  const std::string path = CO_TRY(pathInQuery(request));
  const auto depth = CO_TRY(queryInteger(request, "depth", 0, kMaxDepth));
  const auto limit = CO_TRY(queryInteger(request, "limit", 1, kMaxEntries));
  Listed listed;
  if (depth == 0) {
    listed.entries.push_back(CO_TRY(co_await statOf(parts, request, path, "query.path")));
  } else {
    const CallPtr call = CO_TRY(co_await ask(parts, request,
                                             {{"list", path, std::to_string(depth.value_or(1)),
                                               std::to_string(limit.value_or(kEntries))},
                                              false,
                                              ""}));
    auto all = co_await collect(call);
    if (!all) co_return about(std::move(all).error(), "listing", path, "query.path");
    listed = *std::move(all);
  }
  json::array entries;
  const model::FileRoot* root = CO_TRY(rootOf(request));
  for (const files::Entry& entry : listed.entries)
    entries.push_back(entryObject(entry, path, entry.path, root));
  co_return jsonResponse(
      200, json::object{{"entries", std::move(entries)}, {"left_out", listed.left_out}});
}

// `head` has been read already.
Task<void> streamAnswer(CallPtr call, std::string head, uint64_t left, BodyWriter& out) {
  for (std::string piece = std::move(head); left > 0;) {
    piece.resize(std::min<uint64_t>(piece.size(), left));
    if (piece.empty() || !co_await out.write(piece)) co_return;
    left -= piece.size();
    if (left == 0) break;
    auto next = co_await call->read();
    if (!next) {
      base::log(base::Level::kWarn, "file cut short", {{"error", next.error().message}});
      co_return out.cutShort();
    }
    piece = *std::move(next);
  }
}

std::string etagOf(const files::Entry& entry) {
  return "\"" + std::to_string(entry.modified_at) + "-" + std::to_string(entry.size) + "\"";
}

Task<Result<Response>> read(RestParts& parts, Request& request) {
  const std::string path = CO_TRY(pathInUrl(request));
  ByteRange range{0, UINT64_MAX};
  RangeKind kind = RangeKind::kWhole;
  if (request.count("range") > 0 || request.count("if-none-match") > 0) {
    const files::Entry now = CO_TRY(co_await statOf(parts, request, path, "url.path"));
    const std::string etag = etagOf(now);
    if (request.header("if-none-match") == etag) {
      Response unchanged;
      unchanged.status = 304;
      co_return unchanged.with("ETag", etag);
    }
    const std::string_view if_range = request.header("if-range");
    if (if_range.empty() || if_range == etag) {
      kind = parseRange(request.header("range"), now.size, range);
    }
    if (kind == RangeKind::kNone) co_return outsideOf(now.size);
  }
  const CallPtr call = CO_TRY(co_await ask(
      parts, request,
      {{"read", path, std::to_string(range.from), std::to_string(range.to - range.from)},
       false,
       ""}));
  const auto entry = co_await call->entry();
  if (!entry) co_return about(entry.error(), "reading", path, "url.path");
  if (kind == RangeKind::kPart && range.to > entry->size) co_return outsideOf(entry->size);
  if (kind == RangeKind::kWhole) range = {0, entry->size};
  auto head = co_await call->read();
  if (!head) co_return about(head.error(), "reading", path, "url.path");
  Response response;
  response.with("ETag", etagOf(*entry)).with("Accept-Ranges", "bytes");
  if (kind == RangeKind::kPart) setPart(response, range, entry->size);
  setDownload(response, base::sniffContentType(path, range.from == 0 ? *head : ""), path);
  const uint64_t length = range.to - range.from;
  response.stream_length = length;
  response.stream = [call, head = *std::move(head), length](BodyWriter& out) {
    return streamAnswer(call, head, length, out);
  };
  co_return response;
}

// The request's body into the call, to its end.
Task<Result<>> sendBody(Request& request, CallPtr call) {
  for (bool more = request.incoming != nullptr; more;) {
    std::string piece = CO_TRY(co_await request.incoming->read());
    more = !piece.empty();
    if (more) CO_TRY(co_await call->send(std::move(piece)));
  }
  co_return co_await call->send("");
}

// The holder of a link writes as the session's owner.
Result<> enterByLink(RestParts& parts, Request& request, const std::string& path) {
  const auto signature = queryText(request, "signature");
  if (!signature) return {};
  const std::string& session = request.params[0];
  auto owner = parts.sessions.ownerOf(session);
  const auto link =
      TRY(parts.port_links.verifyFile(owner ? owner->tenant : "", session, path, *signature));
  answerForLink(request, link.made_with, link.expires_at);
  request.principal = TRY(std::move(owner));
  return {};
}

Task<Result<Response>> write(RestParts& parts, Request& request) {
  const std::string path = CO_TRY(pathInUrl(request));
  CO_TRY(enterByLink(parts, request, path));
  const auto offset = CO_TRY(queryInteger(request, "offset", 0, INT64_MAX));
  const std::string mode = queryText(request, "mode").value_or("");
  const bool octal = mode.size() <= 4 && mode.find_first_not_of("01234567") == std::string::npos;
  if (!octal || (!mode.empty() && std::stoul(mode, nullptr, 8) > 0777)) {
    co_return fail(Code::kInvalid, "query parameter mode: must be octal, at most 0777",
                   "query.mode");
  }
  if (offset && !mode.empty()) {
    co_return fail(Code::kInvalid, "query parameter mode: not together with offset", "query.mode");
  }
  FileRequest wanted{
      {"write", path, mode.empty() ? "" : std::to_string(std::stoul(mode, nullptr, 8))},
      true,
      "file.written"};
  if (offset) wanted.argv = {"append", path, std::to_string(*offset)};
  const CallPtr call = CO_TRY(co_await ask(parts, request, std::move(wanted)));
  if (auto sent = co_await sendBody(request, call); !sent) {
    co_return about(std::move(sent).error(), "writing", path, "url.path");
  }
  const auto entry = co_await onlyEntry(call);
  if (!entry) co_return about(entry.error(), "writing", path, "url.path");
  co_return jsonResponse(200, entryObject(*entry, path, "", CO_TRY(rootOf(request))));
}

Task<Result<Response>> remove(RestParts& parts, Request& request) {
  const std::string path = CO_TRY(pathInUrl(request));
  const bool all = CO_TRY(queryFlag(request, "recursive"));
  const CallPtr call = CO_TRY(
      co_await ask(parts, request, {{"remove", path, all ? "1" : "0"}, false, "file.removed"}));
  const auto done = co_await call->finish();
  if (!done) co_return about(done.error(), "removing", path, "url.path");
  co_return noContent();
}

Task<Result<Response>> move(RestParts& parts, Request& request) {
  const json::object body = CO_TRY(parseObject(request.body, parts.bounds));
  base::ObjectReader reader(body, "");
  const auto from = CO_TRY(reader.text("from"));
  const auto to = CO_TRY(reader.text("to"));
  const bool overwrite = CO_TRY(reader.boolean("overwrite")).value_or(false);
  CO_TRY(reader.finish());
  if (!from || !to) {
    co_return fail(Code::kInvalid, std::string(from ? "to" : "from") + ": required",
                   from ? "to" : "from");
  }
  const model::FileRoot* root = CO_TRY(rootOf(request));
  const std::string source = CO_TRY(checkedPath(*from, "from", root));
  const std::string target = CO_TRY(checkedPath(*to, "to", root));
  const CallPtr call = CO_TRY(co_await ask(
      parts, request, {{"move", source, target, overwrite ? "1" : "0"}, false, "file.moved"}));
  const auto done = co_await call->finish();
  if (!done) co_return about(done.error(), "moving", source, "from");
  co_return noContent();
}

Task<Result<Response>> makeDirectory(RestParts& parts, Request& request) {
  const json::object body = CO_TRY(parseObject(request.body, parts.bounds));
  base::ObjectReader reader(body, "");
  const auto wanted = CO_TRY(reader.text("path"));
  CO_TRY(reader.finish());
  if (!wanted) co_return fail(Code::kInvalid, "path: required", "path");
  const model::FileRoot* root = CO_TRY(rootOf(request));
  const std::string path = CO_TRY(checkedPath(*wanted, "path", root));
  const CallPtr call =
      CO_TRY(co_await ask(parts, request, {{"mkdir", path}, false, "file.directory_made"}));
  const auto entry = co_await onlyEntry(call);
  if (!entry) co_return about(entry.error(), "making", path, "path");
  co_return jsonResponse(200, entryObject(*entry, path, "", root));
}

Task<Result<Response>> pack(RestParts& parts, Request& request) {
  const std::string path = CO_TRY(pathInQuery(request));
  const CallPtr call = CO_TRY(co_await ask(parts, request, {{"pack", path}, false, ""}));
  auto head = co_await call->read();
  if (!head) co_return about(head.error(), "packing", path, "query.path");
  Response response;
  const std::string name = shownPath(request, path);
  const model::FileRoot* root = CO_TRY(rootOf(request));
  const std::string_view whole = root == nullptr ? model::kFileRoots[0].name : root->name;
  setDownload(response, "application/x-tar", (name.empty() ? std::string(whole) : name) + ".tar");
  response.stream = [call, head = *std::move(head)](BodyWriter& out) {
    return streamAnswer(call, head, UINT64_MAX, out);
  };
  co_return response;
}

Task<Result<Response>> unpack(RestParts& parts, Request& request) {
  const std::string path = CO_TRY(pathInQuery(request));
  const CallPtr call =
      CO_TRY(co_await ask(parts, request, {{"unpack", path}, true, "file.unpacked"}));
  if (auto sent = co_await sendBody(request, call); !sent) {
    co_return about(std::move(sent).error(), "unpacking into", path, "query.path");
  }
  const auto listed = co_await collect(call);
  if (!listed) co_return about(listed.error(), "unpacking into", path, "query.path");
  CO_TRY(co_await call->finish());
  co_return jsonResponse(200, json::object{{"left_out", listed->left_out}});
}

}  // namespace

std::vector<Route> fileRoutes(RestParts& parts) {
  const auto with = [&parts](auto handler) {
    return [&parts, handler](Request& request) { return handler(parts, request); };
  };
  return {
      {.method = "GET",
       .pattern = "/v1/sessions/{id}/files",
       .access = needs(Permission::kFileRead),
       .query = {"path", "depth", "limit", "root"},
       .handle = with(list)},
      {.method = "GET",
       .pattern = "/v1/sessions/{id}/files/{path}",
       .access = needs(Permission::kFileRead),
       .query = {"root"},
       .handle = with(read)},
      {.method = "PUT",
       .pattern = "/v1/sessions/{id}/files/{path}",
       .access = needs(Permission::kFileWrite, Access::Or::kLink),
       .query = {"mode", "offset", "root", "signature"},
       .handle = with(write),
       .stream_body = UINT64_MAX},
      {.method = "DELETE",
       .pattern = "/v1/sessions/{id}/files/{path}",
       .access = needs(Permission::kFileWrite),
       .query = {"recursive", "root"},
       .handle = with(remove)},
      {.method = "POST",
       .pattern = "/v1/sessions/{id}/files:move",
       .access = needs(Permission::kFileWrite),
       .query = {"root"},
       .handle = with(move),
       .json_body = true},
      {.method = "POST",
       .pattern = "/v1/sessions/{id}/files:mkdir",
       .access = needs(Permission::kFileWrite),
       .query = {"root"},
       .handle = with(makeDirectory),
       .json_body = true},
      {.method = "GET",
       .pattern = "/v1/sessions/{id}/archive",
       .access = needs(Permission::kFileRead),
       .query = {"path", "root"},
       .handle = with(pack)},
      {.method = "PUT",
       .pattern = "/v1/sessions/{id}/archive",
       .access = needs(Permission::kFileWrite),
       .query = {"path", "root"},
       .handle = with(unpack),
       .stream_body = UINT64_MAX},
  };
}

}  // namespace cloister::api
