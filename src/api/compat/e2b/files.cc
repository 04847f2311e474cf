// SPDX-License-Identifier: Apache-2.0
#include "api/compat/e2b/files.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "api/compat/e2b/entries.h"
#include "api/compat/e2b/paths.h"
#include "api/compat/gunzip.h"
#include "api/compat/multipart.h"
#include "api/http/problem.h"
#include "api/rest/download.h"
#include "api/rest/requests.h"
#include "base/clock.h"
#include "base/crypto.h"
#include "base/log.h"

namespace cloister::api::compat::e2b {
namespace {

namespace json = base::json;
namespace files = wire::files;

constexpr uint16_t kInterpreterPort = 49'999;
constexpr size_t kMostFiles = 1000;  // of a form

// --- signatures
//
// "v1_" and the unpadded base64 of SHA-256("<path>:<read|write>:<user>:<token>[:<expiry>]"). The
// token is the key of the signature, and only a requester of the sandbox knows the token.

std::string base64OfHex(const std::string& hex) {
  std::string bytes;
  for (size_t i = 0; i + 1 < hex.size(); i += 2)
    bytes.push_back(static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16)));
  std::string text = base::toBase64(bytes);
  while (text.ends_with('='))
    text.pop_back();
  return text;
}

std::string signatureOf(const Request& request, std::string_view operation,
                        const std::string& token) {
  std::string text = queryText(request, "path").value_or("") + ":" + std::string(operation) + ":" +
                     queryText(request, "username").value_or("") + ":" + token;
  if (const auto expiry = queryText(request, "signature_expiration")) text += ":" + *expiry;
  return "v1_" + base64OfHex(base::sha256Hex(text));
}

// The running sandbox whose creator's token made the signature: of the host's name, or any. Without
// a name each running sandbox is tried, so a peer has few tries.
Result<model::Session> signedFor(RestParts& parts, const Request& request,
                                 std::string_view operation) {
  const std::string shown = queryText(request, "signature").value_or("");
  const auto expiry = TRY(queryInteger(request, "signature_expiration", 0, INT64_MAX));
  if (expiry && *expiry <= base::wallMicros() / kMicrosPerSecond) {
    return fail(Code::kUnauthorized, "the signature has expired; make another URL");
  }
  TRY(parts.authenticator.mayTry(request.peer));
  const std::string named = sandboxOf(request);
  for (const std::string& id : named.empty() ? parts.sessions.running() : std::vector{named}) {
    const auto session = parts.store.session(store::Scope::allTenants(), id);
    if (!session || session->status != model::SessionStatus::kRunning) continue;
    const auto token = tokenOf(parts, *session, {.id = session->principal.key_id});
    if (token && base::equalSecret(signatureOf(request, operation, *token), shown)) return *session;
  }
  parts.authenticator.noteWrong(request.peer);
  return fail(Code::kUnauthorized, "the signature is of no running sandbox");
}

// Makes the requester the holder of the key whose token signed the request.
Result<model::Session> admitSigned(RestParts& parts, Request& request, std::string_view operation,
                                   Permission permission) {
  const model::Session session = TRY(signedFor(parts, request, operation));
  const std::string& key = session.principal.key_id;
  request.principal = TRY(parts.authenticator.holderOf(key, request.peer));
  if (!request.principal.may(permission)) return fail(Code::kDenied, "the key may not do that");
  request.principal.request = request.id;
  request.principal.trace = request.trace;
  request.credential = {.id = key};
  request.answer_for_credential();
  return session;
}

using Handler = Task<Result<Response>> (*)(RestParts&, Request&, const model::Session&);

std::function<Task<Result<Response>>(Request&)> signedOrNot(RestParts& parts,
                                                            std::string_view operation,
                                                            Permission permission, Handler handle) {
  auto plain = inSandbox(parts, [&parts, handle](Request& request, const model::Session& session) {
    return handle(parts, request, session);
  });
  return [=, &parts, plain = std::move(plain)](Request& request) -> Task<Result<Response>> {
    if (!request.principal.tenant.empty()) co_return co_await plain(request);
    const model::Session session = CO_TRY(admitSigned(parts, request, operation, permission));
    co_return co_await handle(parts, request, session);
  };
}

// --- reading

Task<void> sendFile(FileCallPtr call, std::string head, uint64_t left, BodyWriter& out) {
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

Task<Result<Response>> download(RestParts& parts, Request& request, const model::Session& session) {
  const Place place = CO_TRY(placeOf(queryText(request, "path").value_or(""), "query.path"));
  const PlaceCalls calls(parts, request.principal, session.id);
  const files::Entry now = CO_TRY(co_await calls.stat(place));
  if (now.kind == files::Kind::kDirectory) {
    co_return fail(Code::kInvalid, "path '" + place.shown + "' is a directory", "query.path");
  }
  ByteRange range{0, now.size};
  const RangeKind kind = parseRange(request.header("range"), now.size, range);
  if (kind == RangeKind::kNone) co_return outsideOf(now.size);
  const FileCallPtr call = CO_TRY(co_await calls.ask(
      {{"read", place.served, std::to_string(range.from), std::to_string(range.to - range.from)},
       false,
       ""}));
  const files::Entry entry = CO_TRY(co_await call->entry());
  if (range.to > entry.size) co_return outsideOf(entry.size);
  std::string head = CO_TRY(co_await call->read());
  Response response;
  response.with("Accept-Ranges", "bytes");
  if (kind == RangeKind::kPart) setPart(response, range, entry.size);
  setDownload(response, "application/octet-stream", baseName(place.shown));
  const uint64_t length = range.to - range.from;
  response.stream_length = length;
  response.stream = [call, head = std::move(head), length](BodyWriter& out) {
    return sendFile(call, head, length, out);
  };
  co_return response;
}

// --- writing

using Source = MultipartReader::Source;

// The body as the client made it, without its content coding.
Result<Source> decodedBody(Request& request) {
  const auto incoming = request.incoming;
  Source plain = [incoming]() -> Task<Result<std::string>> {
    if (!incoming) co_return std::string();
    co_return co_await incoming->read();
  };
  const std::string coding = lowerCase(request.header("content-encoding"));
  if (coding.empty() || coding == "identity") return plain;
  if (coding != "gzip") {
    return fail(Code::kInvalid, "Content-Encoding: must be gzip or identity",
                "header.Content-Encoding");
  }
  return [plain, gunzip = std::make_shared<Gunzip>()]() -> Task<Result<std::string>> {
    while (true) {
      std::string piece = CO_TRY(gunzip->next());
      if (!piece.empty() || gunzip->done()) co_return piece;
      const std::string bytes = CO_TRY(co_await plain());
      if (bytes.empty()) {
        co_return fail(Code::kInvalid, "request body: the gzip stream ends early");
      }
      gunzip->feed(bytes);
    }
  };
}

// A full workspace is 507 for these clients.
Error asNoSpace(Error error) {
  if (error.code == Code::kTooLarge) error.code = Code::kNoSpace;
  return error;
}

Task<Result<json::object>> writeFile(const PlaceCalls& calls, Place place, Source source) {
  const auto there = CO_TRY(co_await calls.look(place));
  if (there && there->kind == files::Kind::kDirectory) {
    co_return fail(Code::kInvalid, "path '" + place.shown + "' is a directory", "query.path");
  }
  const FileCallPtr call =
      CO_TRY(co_await calls.ask({{"write", place.served, ""}, true, "file.written"}));
  for (bool more = true; more;) {
    std::string piece = CO_TRY(co_await source());
    more = !piece.empty();
    auto sent = co_await call->send(std::move(piece));
    if (!sent) co_return std::unexpected(asNoSpace(std::move(sent).error()));
  }
  const auto entry = co_await onlyEntry(call);
  if (!entry) co_return std::unexpected(asNoSpace(entry.error()));
  co_return json::object{{"path", place.shown}, {"name", baseName(place.shown)}, {"type", "file"}};
}

// Each part `file` is a file, at `path` or at the part's own name.
Task<Result<json::array>> writeForm(const PlaceCalls& calls, Request& request, Source source) {
  MultipartReader form =
      CO_TRY(MultipartReader::make(request.header("content-type"), std::move(source)));
  json::array written;
  while (const auto part = CO_TRY(co_await form.next())) {
    if (part->name != "file") continue;
    const auto path = queryText(request, "path");
    if (!path && !part->filename) {
      co_return fail(Code::kInvalid, "file: has no name; name it, or give path", "query.path");
    }
    if (written.size() >= kMostFiles || (path && !written.empty())) {
      co_return fail(Code::kInvalid, path ? "path: is of one file, and the form has more"
                                          : "file: at most 1000 files are allowed in a form");
    }
    const Place place = CO_TRY(placeOf(path.value_or(part->filename.value_or("")), "query.path"));
    const Source content = [&form]() -> Task<Result<std::string>> { return form.read(); };
    written.push_back(CO_TRY(co_await writeFile(calls, place, content)));
  }
  if (written.empty()) co_return fail(Code::kInvalid, "file: the form has no such part", "file");
  co_return written;
}

Task<Result<Response>> upload(RestParts& parts, Request& request, const model::Session& session) {
  for (const Header& header : request.headers) {
    if (!header.name.starts_with("x-metadata-")) continue;
    co_return fail(Code::kUnsupported, "metadata: this service keeps none with files; leave it out",
                   "metadata");
  }
  const PlaceCalls calls(parts, request.principal, session.id);
  Source source = CO_TRY(decodedBody(request));
  const std::string type = lowerCase(request.header("content-type"));
  if (type.starts_with("multipart/form-data")) {
    co_return jsonResponse(200, CO_TRY(co_await writeForm(calls, request, std::move(source))));
  }
  const auto path = queryText(request, "path");
  if (!path) co_return fail(Code::kInvalid, "path: required for a body of this type", "query.path");
  const Place place = CO_TRY(placeOf(*path, "query.path"));
  json::object entry = CO_TRY(co_await writeFile(calls, place, std::move(source)));
  co_return jsonResponse(200, json::array{std::move(entry)});
}

// --- health

Task<Result<Response>> health(Request& request, const model::Session& /*session*/) {
  Response response;
  response.status = 204;
  if (portOf(request) != kInterpreterPort) co_return response;
  response.status = 200;
  response.body = "OK";
  co_return response;
}

}  // namespace

std::vector<Route> contentRoutes(RestParts& parts) {
  return {
      {.method = "GET",
       .pattern = "/e2b/health",
       .access = needs(Permission::kSessionRead),
       .query = {},
       .handle = inSandbox(parts, health)},
      {.method = "GET",
       .pattern = "/e2b/files",
       .access = needs(Permission::kFileRead, Access::Or::kLink),
       .query = {},
       .handle = signedOrNot(parts, "read", Permission::kFileRead, download)},
      {.method = "POST",
       .pattern = "/e2b/files",
       .access = needs(Permission::kFileWrite, Access::Or::kLink),
       .query = {},
       .handle = signedOrNot(parts, "write", Permission::kFileWrite, upload),
       .decodes = true,
       .stream_body = UINT64_MAX},
  };
}

}  // namespace cloister::api::compat::e2b
