// SPDX-License-Identifier: Apache-2.0
// A tool: its row in the table, and its answer. Arguments are flat; each answer has a small
// structured part, which fits the tool's output schema, and a text that stands alone.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "api/mcp/server.h"
#include "model/execution.h"

namespace cloister::api::mcp {

struct Answer {
  json::object structured;
  std::string text;
  json::array more;  // further blocks of content: images, links, resources
  bool is_error = false;
};

// An error becomes the tool's own error, with its cause and the next step.
using Outcome = Result<Answer>;
using ToolHandler = Task<Outcome> (*)(Server&, Call&, json::object arguments);

// By file: tools_run.cc, tools_session.cc, tools_files.cc,
// tools_memory.cc.
Task<Outcome> runTool(Server& server, Call& call, json::object arguments);
Task<Outcome> execTool(Server& server, Call& call, json::object arguments);
Task<Outcome> logsTool(Server& server, Call& call, json::object arguments);
Task<Outcome> cancelTool(Server& server, Call& call, json::object arguments);
Task<Outcome> createSessionTool(Server& server, Call& call, json::object arguments);
Task<Outcome> listSessionsTool(Server& server, Call& call, json::object arguments);
Task<Outcome> terminateTool(Server& server, Call& call, json::object arguments);
Task<Outcome> uploadTool(Server& server, Call& call, json::object arguments);
Task<Outcome> downloadTool(Server& server, Call& call, json::object arguments);
Task<Outcome> listArtifactsTool(Server& server, Call& call, json::object arguments);
Task<Outcome> setMemoryTool(Server& server, Call& call, json::object arguments);
Task<Outcome> getMemoryTool(Server& server, Call& call, json::object arguments);
Task<Outcome> listMemoryTool(Server& server, Call& call, json::object arguments);
Task<Outcome> deleteMemoryTool(Server& server, Call& call, json::object arguments);

// Takes a text out of the arguments; "" if absent.
Result<std::string> takeText(json::object& arguments, std::string_view name);
// Turns `env`, a list of NAME=VALUE, into the object that requests have.
Result<> listedEnv(json::object& arguments);
// Turns `network_policy`, a tier or an object, the list `network_allow` and `on_denied` into the
// object that requests have.
Result<> namedNetwork(json::object& arguments);
// The same for `idempotency_key`, as REST's Idempotency-Key.
Result<std::string> takeKey(json::object& arguments);

// The result of tools/call.
json::object toResult(Answer answer);
Answer errorAnswer(const Error& error);
json::object textBlock(std::string_view text);
json::object imageBlock(std::string_view bytes, std::string_view content_type);

// A file as content: the bytes of a figure that may be shown, a link to any file.
struct FileFacts {
  std::string path;
  std::string uri;
  std::string id;  // of an artifact
  uint64_t size = 0;
  std::string content_type;  // "" if unknown
  uint64_t full_size = 0;    // as model::ArtifactRef
};
std::string lineOf(const FileFacts& file);
json::object fileObject(const FileFacts& file);
json::object linkBlock(const FileFacts& file);
bool isFigure(std::string_view content_type);

std::string artifactUri(std::string_view id);
std::string fileUri(std::string_view session, std::string_view path);

// At most `length` bytes from `offset` of a file in a session.
struct FilePart {
  uint64_t size = 0;  // of all
  std::string bytes;
};
Task<Result<FilePart>> readFile(Server& server, Call& call, std::string session, std::string path,
                                uint64_t offset, uint64_t length);
Task<Result<FilePart>> readArtifact(Server& server, Call& call, std::string id, uint64_t offset,
                                    uint64_t length, model::Artifact& found);
// The files of a session, without directories, at most `limit`, changed at `since` (wall-clock
// microseconds) or later.
struct Wanted {
  std::string path;
  int64_t depth = 4;
  int64_t limit = 200;
  int64_t since = 0;
};
Task<Result<std::pair<std::vector<FileFacts>, uint32_t>>> listFiles(Server& server, Call& call,
                                                                    std::string session,
                                                                    Wanted wanted);

}  // namespace cloister::api::mcp
