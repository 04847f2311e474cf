// SPDX-License-Identifier: Apache-2.0
// /v1/sessions/{id}/files:watch: the changes in a directory of a session's workspace.
#include "api/feeds/file_feed.h"
#include "api/rest/requests.h"
#include "api/workspace.h"

namespace cloister::api {
namespace {

constexpr std::string_view kRetry = "retry: 1000\n\n";

Result<FilePosition> resumeFrom(const Request& request) {
  if (request.count("last-event-id") > 0) {
    return FilePosition::parse(request.header("last-event-id"));
  }
  if (const auto id = queryText(request, "last_event_id")) return FilePosition::parse(*id);
  return FilePosition{};
}

Task<void> sendEvents(FileFeed feed, BodyWriter& out) {
  if (!co_await out.write(kRetry)) co_return;
  while (const std::optional<Event> event = co_await feed.next()) {
    if (!co_await out.write(toServerSentEvent(*event))) co_return;
  }
}

Task<Result<Response>> watch(RestParts& parts, Request& request) {
  const FilePosition from = CO_TRY(resumeFrom(request));
  const model::FileRoot* root = CO_TRY(rootOf(request));
  const std::string path =
      CO_TRY(checkedPath(queryText(request, "path").value_or(""), "query.path", root));
  const bool all = CO_TRY(queryFlag(request, "recursive"));
  Response response;
  if (from.ended) {
    response.status = 204;  // tells an EventSource not to come back
    co_return response;
  }
  auto reader = co_await parts.sessions.watch(request.principal, request.params[0], path, all);
  if (!reader) co_return about(std::move(reader).error(), "watching", path, "query.path");
  const FileFeed feed(*std::move(reader), shown(path, "", root), from, parts.heartbeat);
  response.with("Content-Type", "text/event-stream").with("X-Accel-Buffering", "no");
  response.stream = [feed](BodyWriter& out) { return sendEvents(feed, out); };
  co_return response;
}

}  // namespace

std::vector<Route> watchRoutes(RestParts& parts) {
  return {{.method = "GET",
           .pattern = "/v1/sessions/{id}/files:watch",
           .access = needs(Permission::kFileRead),
           .query = {"path", "recursive", "last_event_id", "root"},
           .handle = [&parts](Request& request) { return watch(parts, request); }}};
}

}  // namespace cloister::api
