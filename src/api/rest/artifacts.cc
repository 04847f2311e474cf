// SPDX-License-Identifier: Apache-2.0
// /v1/artifacts: the files kept by a tenant, as downloads that no browser will execute; and
// /v1/uploads: named uploads under way.
#include <algorithm>
#include <memory>
#include <utility>

#include "api/http/problem.h"
#include "api/rest/download.h"
#include "api/rest/requests.h"
#include "api/rest/rest.h"
#include "base/clock.h"
#include "base/crypto.h"
#include "base/id.h"

namespace cloister::api {
namespace {

constexpr size_t kPiece = size_t{256} << 10;
constexpr int64_t kLinkSeconds = 3600;
constexpr int64_t kMaxLinkSeconds = 7 * 86'400;
constexpr int64_t kLastSecond = 253'402'300'799;  // of the year 9999

Result<orchestrator::NewArtifact> parseUpload(const Request& request) {
  constexpr int64_t kMaxSeconds = int64_t{100} * 365 * 86'400;
  orchestrator::NewArtifact wanted;
  const auto path = queryText(request, "path");
  if (!path) return fail(Code::kInvalid, "query parameter path: required", "query.path");
  wanted.path = *path;
  const auto ttl = TRY(queryInteger(request, "ttl_seconds", 1, kMaxSeconds));
  wanted.ttl_us = ttl.value_or(0) * 1'000'000;
  wanted.size = request.incoming->length();
  const auto named = queryText(request, "upload");
  // "" would say nothing.
  if (named && named->empty())
    return fail(Code::kInvalid, "query parameter upload: empty", "query.upload");
  wanted.upload = named.value_or("");
  const auto offset = TRY(queryInteger(request, "offset", 0, INT64_MAX));
  if (offset) wanted.offset = static_cast<uint64_t>(*offset);
  wanted.sha256 = queryText(request, "sha256").value_or("");
  wanted.stop = [incoming = request.incoming] { incoming->stop(); };
  return wanted;
}

Task<Result<Response>> upload(RestParts& parts, Request& request) {
  orchestrator::NewArtifact wanted = CO_TRY(parseUpload(request));
  if (!wanted.upload.empty()) {
    CO_TRY(co_await parts.artifacts.interrupt(request.principal, wanted.upload));
  }
  const auto upload = CO_TRY(parts.artifacts.begin(request.principal, std::move(wanted)));
  while (true) {
    auto piece = co_await request.incoming->read();
    if (!piece) co_return std::unexpected(std::move(piece).error());
    if (piece->empty()) break;
    auto written = co_await parts.artifacts.write(upload, *std::move(piece));
    if (!written) co_return std::unexpected(std::move(written).error());
  }
  auto finished = co_await parts.artifacts.finish(upload);
  const model::Artifact artifact = CO_TRY(std::move(finished));
  co_return jsonResponse(201, model::toJsonObject(artifact))
      .with("Location", "/v1/artifacts/" + artifact.ref.id);
}

base::json::object uploadObject(const orchestrator::UploadState& upload) {
  const auto text_or_null = [](std::string text) {
    return text.empty() ? base::json::value(nullptr) : base::json::value(std::move(text));
  };
  return {{"upload", upload.name},
          {"path", upload.path},
          {"size", upload.size},
          {"expires_at", text_or_null(base::formatTime(upload.expires_at))},
          {"artifact_id", text_or_null(upload.artifact_id)}};
}

Task<Result<Response>> showUpload(RestParts& parts, Request& request) {
  co_return jsonResponse(
      200, uploadObject(CO_TRY(parts.artifacts.upload(request.principal, request.params[0]))));
}

Task<Result<Response>> listUploads(RestParts& parts, Request& request) {
  base::json::array items;
  for (const orchestrator::UploadState& upload : parts.artifacts.uploads(request.principal))
    items.push_back(uploadObject(upload));
  co_return jsonResponse(200, base::json::object{{"uploads", std::move(items)}});
}

Task<Result<Response>> dropUpload(RestParts& parts, Request& request) {
  CO_TRY(co_await parts.artifacts.dropUpload(request.principal, request.params[0]));
  co_return noContent();
}

Task<Result<Response>> show(RestParts& parts, Request& request) {
  co_return jsonResponse(
      200, model::toJsonObject(CO_TRY(parts.artifacts.get(request.principal, request.params[0]))));
}

Task<Result<Response>> list(RestParts& parts, Request& request) {
  store::ArtifactQuery query;
  const auto limit = CO_TRY(queryInteger(request, "limit", 1, kMaxList));
  if (limit) query.limit = static_cast<uint32_t>(*limit);
  if (const auto cursor = queryText(request, "cursor")) {
    query.before_id = base::fromBase64(*cursor).value_or("");
    if (!base::isId("art", query.before_id)) {
      co_return fail(Code::kInvalid, "query parameter cursor: not one of this service",
                     "query.cursor");
    }
  }
  const auto artifacts = CO_TRY(parts.artifacts.list(request.principal, query));
  base::json::array items;
  for (const model::Artifact& artifact : artifacts)
    items.push_back(model::toJsonObject(artifact));
  base::json::value cursor = nullptr;
  if (artifacts.size() == query.limit) cursor = base::toBase64(artifacts.back().ref.id);
  co_return jsonResponse(
      200, base::json::object{{"artifacts", std::move(items)}, {"next_cursor", std::move(cursor)}});
}

Task<Result<Response>> remove(RestParts& parts, Request& request) {
  auto removed = co_await parts.artifacts.remove(request.principal, request.params[0]);
  if (!removed) co_return std::unexpected(std::move(removed).error());
  co_return noContent();
}

Task<Result<Response>> forget(RestParts& parts, Request& request) {
  auto forgotten = co_await parts.artifacts.forget(request.principal, request.params[0]);
  const uint64_t artifacts = CO_TRY(std::move(forgotten));
  co_return jsonResponse(
      200, base::json::object{{"tenant", request.params[0]}, {"artifacts", artifacts}});
}

Task<Result<Response>> link(RestParts& parts, Request& request) {
  const model::Artifact artifact =
      CO_TRY(parts.artifacts.get(request.principal, request.params[0]));
  const auto seconds = CO_TRY(queryInteger(request, "expires_seconds", 1, kMaxLinkSeconds));
  const std::string& made_with = request.credential.id;
  const int64_t expires_at = linkEnd(request.credential, seconds.value_or(kLinkSeconds));
  const std::string signature = CO_TRY(parts.artifacts.sign(artifact, expires_at, made_with));
  co_return jsonResponse(
      200, base::json::object{{"url", "/v1/artifacts/" + artifact.ref.id +
                                          "/content?expires=" + std::to_string(expires_at) +
                                          "&credential=" + made_with + "&signature=" + signature},
                              {"expires_at", base::formatTime(expires_at * kMicrosPerSecond)}});
}

// The artifact that the key or the link may read.
Result<model::Artifact> readable(RestParts& parts, Request& request) {
  const auto signature = queryText(request, "signature");
  const auto expires = TRY(queryInteger(request, "expires", 0, kLastSecond));
  const auto made_with = queryText(request, "credential");
  if (!signature && expires) {
    return fail(Code::kInvalid, "query parameter expires: goes with a signature", "query.expires");
  }
  if (!signature && made_with) {
    return fail(Code::kInvalid, "query parameter credential: goes with a signature",
                "query.credential");
  }
  if (!signature) return parts.artifacts.get(request.principal, request.params[0]);
  if (!made_with) {
    return fail(Code::kUnauthorized, "the link lacks its credential; ask for another");
  }
  model::Artifact artifact = TRY(parts.artifacts.verify(request.params[0], expires.value_or(0),
                                                        made_with.value_or(""), *signature));
  answerForLink(request, made_with.value_or(""), expires.value_or(0));
  return artifact;
}

Task<Result<std::string>> readPiece(RestParts& parts, std::shared_ptr<artifacts::BlobReader> reader,
                                    ByteRange range) {
  co_return co_await parts.artifacts.read(std::move(reader), range.from,
                                          std::min<uint64_t>(kPiece, range.to - range.from));
}

// `first`: the first piece of the range, read before the head was sent.
Task<void> streamArtifact(RestParts& parts, std::shared_ptr<artifacts::BlobReader> reader,
                          ByteRange range, std::shared_ptr<std::string> first, BodyWriter& out) {
  Result<std::string> piece = std::exchange(*first, {});
  // After the head, only a broken connection can tell the client that the body is incomplete.
  while (piece && !piece->empty() && co_await out.write(*piece)) {
    range.from += piece->size();
    if (range.from >= range.to) co_return;
    piece = co_await readPiece(parts, reader, range);
  }
}

Task<Result<Response>> content(RestParts& parts, Request& request) {
  const model::Artifact found = CO_TRY(readable(parts, request));
  const model::ArtifactRef& artifact = found.ref;
  const std::string etag = "\"" + artifact.sha256 + "\"";
  Response response;
  response.with("ETag", etag).with("Accept-Ranges", "bytes");
  if (request.header("if-none-match") == etag) {
    response.status = 304;
    co_return response;
  }
  ByteRange range{0, artifact.size};
  const std::string_view if_range = request.header("if-range");
  const bool ranged = if_range.empty() || if_range == etag;
  const RangeKind kind =
      ranged ? parseRange(request.header("range"), artifact.size, range) : RangeKind::kWhole;
  if (kind == RangeKind::kNone) co_return outsideOf(artifact.size);
  if (kind == RangeKind::kPart) setPart(response, range, artifact.size);
  const auto reader = CO_TRY(co_await parts.artifacts.open(found));
  auto first = std::make_shared<std::string>(CO_TRY(co_await readPiece(parts, reader, range)));
  setDownload(response, artifact.content_type, artifact.path);
  response.stream_length = range.to - range.from;
  response.stream = [&parts, reader, range, first](BodyWriter& out) {
    return streamArtifact(parts, reader, range, first, out);
  };
  co_return response;
}

}  // namespace

std::vector<Route> artifactRoutes(RestParts& parts) {
  return {{.method = "POST",
           .pattern = "/v1/artifacts",
           .access = needs(Permission::kArtifactWrite),
           .query = {"path", "ttl_seconds", "upload", "offset", "sha256"},
           .handle = [&parts](Request& request) { return upload(parts, request); },
           .stream_body = UINT64_MAX},
          {.method = "GET",
           .pattern = "/v1/artifacts",
           .access = needs(Permission::kArtifactRead),
           .query = {"limit", "cursor"},
           .handle = [&parts](Request& request) { return list(parts, request); }},
          {.method = "GET",
           .pattern = "/v1/artifacts/{id}",
           .access = needs(Permission::kArtifactRead),
           .query = {},
           .handle = [&parts](Request& request) { return show(parts, request); }},
          {.method = "DELETE",
           .pattern = "/v1/artifacts/{id}",
           .access = needs(Permission::kArtifactDelete),
           .query = {},
           .handle = [&parts](Request& request) { return remove(parts, request); }},
          {.method = "GET",
           .pattern = "/v1/artifacts/{id}/content",
           .access = needs(Permission::kArtifactRead, Access::Or::kLink),
           .query = {"expires", "credential", "signature"},
           .handle = [&parts](Request& request) { return content(parts, request); }},
          {.method = "GET",
           .pattern = "/v1/artifacts/{id}/url",
           .access = needs(Permission::kArtifactRead),
           .query = {"expires_seconds"},
           .handle = [&parts](Request& request) { return link(parts, request); }},
          {.method = "GET",
           .pattern = "/v1/uploads",
           .access = needs(Permission::kArtifactWrite),
           .query = {},
           .handle = [&parts](Request& request) { return listUploads(parts, request); }},
          {.method = "GET",
           .pattern = "/v1/uploads/{upload}",
           .access = needs(Permission::kArtifactWrite),
           .query = {},
           .handle = [&parts](Request& request) { return showUpload(parts, request); }},
          {.method = "DELETE",
           .pattern = "/v1/uploads/{upload}",
           .access = needs(Permission::kArtifactWrite),
           .query = {},
           .handle = [&parts](Request& request) { return dropUpload(parts, request); }},
          {.method = "DELETE",
           .pattern = "/v1/tenants/{id}/artifacts",
           .access = needs(Permission::kTenantErase),
           .query = {},
           .handle = [&parts](Request& request) { return forget(parts, request); }}};
}

}  // namespace cloister::api
