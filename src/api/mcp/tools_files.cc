// SPDX-License-Identifier: Apache-2.0
// upload, download, list_artifacts: files of sessions, and artifacts.
#include <algorithm>
#include <charconv>

#include "api/mcp/text.h"
#include "api/mcp/tool.h"
#include "api/rest/requests.h"
#include "api/workspace.h"
#include "base/content_type.h"
#include "base/crypto.h"
#include "base/id.h"
#include "orchestrator/core/display_path.h"

namespace cloister::api::mcp {
namespace {

using orchestrator::FileRequest;
namespace files = wire::files;

constexpr size_t kPiece = size_t{64} << 10;

Task<Result<FileCallPtr>> ask(Server& server, Call& call, std::string session, FileRequest wanted) {
  return server.rest().sessions.files(call.principal, std::move(session), std::move(wanted));
}

// The type by the name's ending, for unread files; "" if unknown.
std::string typeByName(std::string_view path) {
  struct Row {
    std::string_view ending;
    std::string_view type;
  };
  constexpr Row kRows[] = {
      {".png", "image/png"},  {".jpg", "image/jpeg"},  {".jpeg", "image/jpeg"},
      {".gif", "image/gif"},  {".webp", "image/webp"}, {".json", "application/json"},
      {".csv", "text/plain"}, {".txt", "text/plain"},  {".md", "text/plain"},
      {".py", "text/plain"},  {".js", "text/plain"},   {".ts", "text/plain"},
      {".log", "text/plain"}, {".html", "text/plain"}, {".svg", "text/plain"},
  };
  for (const Row& row : kRows) {
    if (path.ends_with(row.ending)) return std::string(row.type);
  }
  return "";
}

// Files of no interest: hidden files, caches, and the executed code itself.
bool isIncidental(std::string_view path) {
  for (size_t at = 0; at <= path.size();) {
    const size_t end = std::min(path.find('/', at), path.size());
    const std::string_view part = path.substr(at, end - at);
    if (part.starts_with('.') || part == "__pycache__" || part == "node_modules") return true;
    at = end + 1;
  }
  return false;
}

// Encodes a path for a URI: slashes stay.
std::string encodePath(std::string_view path) {
  std::string encoded;
  for (size_t at = 0; at <= path.size();) {
    const size_t end = std::min(path.find('/', at), path.size());
    encoded += (at == 0 ? "" : "/") + percentEncode(path.substr(at, end - at));
    at = end + 1;
  }
  return encoded;
}

bool isText(std::string_view content_type, std::string_view bytes) {
  const bool named = content_type.starts_with("text/") || content_type.contains("json");
  return (named || !bytes.contains('\0')) && !isFigure(content_type) && base::isUtf8(bytes);
}

std::string listText(const std::vector<FileFacts>& found) {
  std::string text;
  for (const FileFacts& file : found) {
    text += lineOf(file) + "\n";
  }
  return text.empty() ? "no files\n" : text;
}

Answer listAnswer(const std::vector<FileFacts>& found) {
  Answer answer;
  json::array items;
  for (const FileFacts& file : found)
    items.push_back(fileObject(file));
  answer.structured = {{"status", "ok"}, {"artifacts", std::move(items)}};
  answer.text = listText(found);
  return answer;
}

FileFacts factsOf(const model::ArtifactRef& artifact) {
  return {.path = artifact.path,
          .uri = artifactUri(artifact.id),
          .id = artifact.id,
          .size = artifact.size,
          .content_type = artifact.content_type,
          .full_size = artifact.full_size};
}

Result<std::string> bytesOf(base::ObjectReader& reader) {
  const auto content = TRY(reader.text("content"));
  const auto bytes = TRY(reader.text("bytes"));
  const auto encoding = TRY(reader.text("encoding"));
  if (content.has_value() == bytes.has_value()) {
    return fail(Code::kInvalid, "content: give the file as content, or base64 of it as bytes",
                "content");
  }
  if (bytes) return model::decodeText({"bytes", "encoding"}, *bytes, "base64");
  return model::decodeText({"content", "encoding"}, *content, encoding);
}

Task<Result<files::Entry>> send(FileCallPtr file, const std::string& bytes) {
  for (size_t at = 0; at < bytes.size(); at += kPiece)
    CO_TRY(co_await file->send(bytes.substr(at, kPiece)));
  CO_TRY(co_await file->send(""));
  co_return co_await onlyEntry(file);
}

}  // namespace

std::string lineOf(const FileFacts& file) {
  const std::string cut =
      file.full_size > 0 ? ", the beginning of " + std::to_string(file.full_size) : "";
  return file.path + " (" + (file.content_type.empty() ? "" : file.content_type + ", ") +
         std::to_string(file.size) + " bytes" + cut + ") " + (file.id.empty() ? file.uri : file.id);
}

std::string artifactUri(std::string_view id) {
  return "cloister://artifacts/" + std::string(id);
}

std::string fileUri(std::string_view session, std::string_view path) {
  return "cloister://sessions/" + std::string(session) + "/files/" + encodePath(path);
}

bool isFigure(std::string_view content_type) {
  return content_type == "image/png" || content_type == "image/jpeg" ||
         content_type == "image/gif" || content_type == "image/webp";
}

json::object fileObject(const FileFacts& file) {
  json::object object{{"path", file.path}, {"uri", file.uri}, {"size", file.size}};
  if (!file.content_type.empty()) object["content_type"] = file.content_type;
  if (!file.id.empty()) object["id"] = file.id;
  if (file.full_size > 0) object["full_size"] = file.full_size;
  return object;
}

json::object linkBlock(const FileFacts& file) {
  json::object block{
      {"type", "resource_link"}, {"uri", file.uri}, {"name", file.path}, {"size", file.size}};
  if (!file.content_type.empty()) block["mimeType"] = file.content_type;
  return block;
}

Task<Result<FilePart>> readFile(Server& server, Call& call, std::string session, std::string path,
                                uint64_t offset, uint64_t length) {
  const std::string checked = CO_TRY(checkedPath(std::move(path), "path"));
  FileRequest wanted{{"read", checked, std::to_string(offset), std::to_string(length)}, false, ""};
  const FileCallPtr file = CO_TRY(co_await ask(server, call, session, std::move(wanted)));
  const auto entry = co_await file->entry();
  if (!entry) co_return about(entry.error(), "reading", checked, "path");
  FilePart part{.size = entry->size, .bytes = {}};
  while (part.bytes.size() < length) {
    auto piece = co_await file->read();
    if (!piece) co_return about(piece.error(), "reading", checked, "path");
    if (piece->empty()) break;
    part.bytes += piece->substr(0, length - part.bytes.size());
  }
  co_return part;
}

Task<Result<FilePart>> readArtifact(Server& server, Call& call, std::string id, uint64_t offset,
                                    uint64_t length, model::Artifact& found) {
  orchestrator::ArtifactService& service = server.rest().artifacts;
  found = CO_TRY(service.get(call.principal, id));
  FilePart part{.size = found.ref.size, .bytes = {}};
  if (offset >= part.size) co_return part;
  const auto reader = CO_TRY(co_await service.open(found));
  const uint64_t end = offset + std::min(length, part.size - offset);
  while (offset < end) {
    const std::string piece = CO_TRY(co_await service.read(reader, offset, end - offset));
    if (piece.empty()) break;
    part.bytes += piece;
    offset += piece.size();
  }
  co_return part;
}

Task<Result<std::pair<std::vector<FileFacts>, uint32_t>>> listFiles(Server& server, Call& call,
                                                                    std::string session,
                                                                    Wanted wanted) {
  const std::string path = CO_TRY(checkedPath(wanted.path, "path"));
  FileRequest request{
      {"list", path, std::to_string(wanted.depth), std::to_string(kMaxEntries)}, false, ""};
  const FileCallPtr file = CO_TRY(co_await ask(server, call, session, std::move(request)));
  auto listed = co_await collect(file);
  if (!listed) co_return about(std::move(listed).error(), "listing", path, "path");
  std::pair<std::vector<FileFacts>, uint32_t> found{{}, listed->left_out};
  for (const files::Entry& entry : listed->entries) {
    if (entry.kind != files::Kind::kFile || entry.modified_at < wanted.since) continue;
    if (entry.path.starts_with(".cloister-")) continue;
    if (wanted.since > 0 && isIncidental(entry.path)) continue;
    if (static_cast<int64_t>(found.first.size()) >= wanted.limit) {
      ++found.second;
      continue;
    }
    const std::string whole = path.empty() ? entry.path : path + "/" + entry.path;
    found.first.push_back({.path = shown(path, entry.path),
                           .uri = fileUri(session, whole),
                           .id = {},
                           .size = entry.size,
                           .content_type = typeByName(whole)});
  }
  co_return found;
}

namespace {

constexpr int64_t kLinkSeconds = 900;

// A link by which a client without a key writes the file.
Result<Answer> presignUpload(Server& server, const Call& call, const std::string& session,
                             const std::string& path) {
  RestParts& rest = server.rest();
  const model::Session of =
      TRY(rest.sessions.mayConnect(call.principal, session, "making a link to a file"));
  const int64_t expires_at =
      linkEnd({.id = call.principal.key_id, .ends_at = call.principal.ends_at}, kLinkSeconds);
  const std::string signature = TRY(rest.port_links.signFile(of.principal.tenant, of.id, path,
                                                             expires_at, call.principal.key_id));
  const std::string url =
      "/v1/sessions/" + of.id + "/files/" + encodePath(path) + "?signature=" + signature;
  const std::string end = base::formatTime(expires_at * kMicrosPerSecond);
  Answer answer;
  answer.structured = {
      {"status", "ok"},
      {"session_id", of.id},
      {"path", path},
      {"uri", fileUri(of.id, path)},
      {"presigned_upload", {{"method", "PUT"}, {"url", url}, {"expires_at", end}}}};
  answer.text = "PUT the bytes to " + url + " of this service, without a key, until " + end;
  return answer;
}

}  // namespace

Task<Outcome> uploadTool(Server& server, Call& call, json::object arguments) {
  base::ObjectReader reader(arguments, "");
  const std::string session = CO_TRY(reader.text("session_id")).value_or("");
  const std::string asked = CO_TRY(reader.text("path")).value_or("");
  const bool executable = CO_TRY(reader.boolean("executable")).value_or(false);
  if (asked.empty()) co_return fail(Code::kInvalid, "path: is required", "path");
  const std::string path = CO_TRY(checkedPath(asked, "path"));
  if (CO_TRY(reader.boolean("presigned_upload")).value_or(false)) {
    CO_TRY(reader.finish());
    if (executable) {
      co_return fail(Code::kInvalid,
                     "executable: not together with presigned_upload; PUT takes mode",
                     "executable");
    }
    co_return presignUpload(server, call, session, path);
  }
  const std::string bytes = CO_TRY(bytesOf(reader));
  CO_TRY(reader.finish());
  constexpr auto kExecutable = "493";  // 0755
  FileRequest wanted{{"write", path, executable ? kExecutable : ""}, true, "file.written"};
  const FileCallPtr file = CO_TRY(co_await ask(server, call, session, std::move(wanted)));
  const auto entry = co_await send(file, bytes);
  if (!entry) co_return about(entry.error(), "writing", path, "path");
  Answer answer;
  answer.structured = {{"status", "ok"},
                       {"session_id", session},
                       {"path", path},
                       {"uri", fileUri(session, path)},
                       {"size", entry->size}};
  const std::string whole = path.starts_with('/') ? path : "/workspace/" + path;
  answer.text =
      "wrote " + std::to_string(entry->size) + " bytes to " + orchestrator::displayFilePath(whole);
  co_return answer;
}

namespace {

struct Asked {
  std::string session;
  std::string path;
  std::string artifact;
  uint64_t offset = 0;
  uint64_t length = 0;
};

Result<Asked> readAsked(const Server& server, const json::object& arguments) {
  const auto most = static_cast<int64_t>(server.settings().download_bytes);
  base::ObjectReader reader(arguments, "");
  Asked asked;
  asked.session = TRY(reader.text("session_id")).value_or("");
  asked.path = TRY(reader.text("path")).value_or("");
  asked.artifact = TRY(reader.text("artifact_id")).value_or("");
  asked.offset = static_cast<uint64_t>(TRY(reader.integer("offset", 0, INT64_MAX)).value_or(0));
  asked.length = static_cast<uint64_t>(TRY(reader.integer("length", 1, most)).value_or(most));
  TRY(reader.finish());
  if (asked.artifact.empty() != (!asked.session.empty() && !asked.path.empty())) {
    return fail(Code::kInvalid, "artifact_id: give it, or session_id and path", "artifact_id");
  }
  return asked;
}

// The bytes as a block: text as text, a figure as an image, the rest as a resource.
json::object contentBlock(const FileFacts& file, const std::string& bytes, bool whole) {
  if (isText(file.content_type, base::withoutCutCharacter(bytes))) return textBlock(bytes);
  if (isFigure(file.content_type) && whole) return imageBlock(bytes, file.content_type);
  return {{"type", "resource"},
          {"resource",
           {{"uri", file.uri}, {"mimeType", file.content_type}, {"blob", base::toBase64(bytes)}}}};
}

}  // namespace

Task<Outcome> downloadTool(Server& server, Call& call, json::object arguments) {
  const Asked asked = CO_TRY(readAsked(server, arguments));
  FileFacts file;
  FilePart part;
  if (asked.artifact.empty()) {
    part = CO_TRY(
        co_await readFile(server, call, asked.session, asked.path, asked.offset, asked.length));
    file = {
        .path = orchestrator::displayPath(asked.path),
        .uri = fileUri(asked.session, asked.path),
        .id = {},
        .size = part.size,
        .content_type = base::sniffContentType(asked.path, asked.offset == 0 ? part.bytes : "")};
  } else {
    model::Artifact found;
    part = CO_TRY(
        co_await readArtifact(server, call, asked.artifact, asked.offset, asked.length, found));
    file = factsOf(found.ref);
  }
  const bool text = isText(file.content_type, base::withoutCutCharacter(part.bytes));
  const uint64_t end = asked.offset + part.bytes.size();
  // A character is not cut between two calls.
  if (text && end < part.size) part.bytes = base::withoutCutCharacter(part.bytes);
  const uint64_t next = asked.offset + part.bytes.size();
  Answer answer;
  answer.structured = {{"status", "ok"},
                       {"path", file.path},
                       {"uri", file.uri},
                       {"size", part.size},
                       {"offset", asked.offset},
                       {"length", part.bytes.size()},
                       {"content_type", file.content_type}};
  answer.text = file.path + " (" + file.content_type + "), bytes " + std::to_string(asked.offset) +
                " to " + std::to_string(next) + " of " + std::to_string(part.size);
  if (next < part.size) {
    answer.structured["next_offset"] = next;
    answer.text += "; go on with offset " + std::to_string(next);
  }
  answer.more.push_back(contentBlock(file, part.bytes, part.bytes.size() == part.size));
  co_return answer;
}

namespace {

Task<Outcome> listStored(Server& server, Call& call, base::ObjectReader& reader, int64_t limit) {
  store::ArtifactQuery query;
  query.limit = static_cast<uint32_t>(std::min(limit, kMaxList));
  if (const auto cursor = CO_TRY(reader.text("cursor"))) {
    query.before_id = *cursor;
    if (!base::isId("art", query.before_id)) {
      co_return fail(Code::kInvalid, "cursor: not one of this service", "cursor");
    }
  }
  CO_TRY(reader.finish());
  const auto artifacts = CO_TRY(server.rest().artifacts.list(call.principal, query));
  std::vector<FileFacts> found;
  found.reserve(artifacts.size());
  for (const model::Artifact& artifact : artifacts)
    found.push_back(factsOf(artifact.ref));
  Answer answer = listAnswer(found);
  if (artifacts.size() == query.limit) {
    answer.structured["next_cursor"] = artifacts.back().ref.id;
    answer.text +=
        "there may be more: call again with the cursor " + artifacts.back().ref.id + "\n";
  }
  co_return answer;
}

}  // namespace

Task<Outcome> listArtifactsTool(Server& server, Call& call, json::object arguments) {
  constexpr int64_t kUnasked = 200;
  constexpr int64_t kMost = 1'000;
  base::ObjectReader reader(arguments, "");
  const std::string session = CO_TRY(reader.text("session_id")).value_or("");
  const std::string execution = CO_TRY(reader.text("execution_id")).value_or("");
  Wanted wanted;
  wanted.path = CO_TRY(reader.text("path")).value_or("");
  wanted.depth = CO_TRY(reader.integer("depth", 1, files::kMaxDepth)).value_or(wanted.depth);
  wanted.limit = CO_TRY(reader.integer("limit", 1, kMost)).value_or(kUnasked);
  if (!session.empty() && !execution.empty()) {
    co_return fail(Code::kInvalid, "execution_id: not together with session_id", "execution_id");
  }
  if (session.empty() && execution.empty()) {
    co_return co_await listStored(server, call, reader, wanted.limit);
  }
  CO_TRY(reader.finish());
  if (!execution.empty()) {
    const model::Execution run = CO_TRY(server.rest().service.get(call.principal, execution));
    std::vector<FileFacts> found;
    for (const model::ArtifactRef& artifact : run.artifacts)
      found.push_back(factsOf(artifact));
    co_return listAnswer(found);
  }
  const auto found = CO_TRY(co_await listFiles(server, call, session, std::move(wanted)));
  Answer answer = listAnswer(found.first);
  answer.structured["left_out"] = found.second;
  if (found.second > 0) {
    answer.text += std::to_string(found.second) +
                   " more are not listed: name a directory with path, or ask for more with limit\n";
  }
  co_return answer;
}

}  // namespace cloister::api::mcp
