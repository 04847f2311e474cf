// SPDX-License-Identifier: Apache-2.0
// `cloister artifact …`: stored files.
#include <fcntl.h>
#include <unistd.h>

#include <utility>

#include "cli/commands/resources.h"
#include "cli/download.h"
#include "cli/file_upload.h"
#include "cli/render/amounts.h"
#include "cli/render/outline.h"
#include "cli/render/terminal.h"
#include "cli/transfer.h"

namespace cloister::cli {
namespace {

using base::Flag;

constexpr std::string_view kWhich = "which artifact: give its id (see `cloister artifact list`)";

std::string baseName(std::string_view path) {
  const size_t slash = path.rfind('/');
  return std::string(slash == std::string_view::npos ? path : path.substr(slash + 1));
}

// The full size of a cut artifact; 0 for a whole artifact.
uint64_t fullSizeOf(const json::object& artifact) {
  return static_cast<uint64_t>(integerOf(artifact, "full_size"));
}

std::string sizeOf(const json::object& artifact, std::string_view name) {
  const std::string size = bytesOf(artifact, name);
  const uint64_t full = fullSizeOf(artifact);
  return full > 0 ? size + " of " + humanBytes(full) : size;
}

void noteCut(const json::object& artifact) {
  if (fullSizeOf(artifact) == 0) return;
  writeTo(STDERR_FILENO, "cloister: the artifact was cut at a limit: it is the first " +
                             std::to_string(integerOf(artifact, "size")) + " of " +
                             std::to_string(fullSizeOf(artifact)) + " bytes\n");
}

constexpr Verb kMade = {.said = "{id}\n"};

Result<int> put(const Invocation& invocation) {
  if (invocation.flags.operands().empty()) {
    return fail(Code::kInvalid, "which file: give its path, or - for standard input");
  }
  const std::string& file = invocation.flags.operands()[0];
  const auto path = invocation.flags.text("path");
  if (file == "-" && !path) return fail(Code::kInvalid, "--path: required with standard input");
  std::string target = "/v1/artifacts?path=" + net::percentEncode(path.value_or(baseName(file)));
  const auto ttl = TRY(secondsFlag(invocation.flags, "ttl"));
  if (ttl) target += "&ttl_seconds=" + std::to_string(*ttl);
  Source source = TRY(openSource(file));
  net::BlockingClient client = TRY(connect(invocation.globals));
  const json::object artifact = TRY(
      source.size ? FileUpload(client, target, std::move(source)).run()
                  : upload(client, "POST", target, [&source] { return nextPiece(source); }, {}));
  return showAnswer(kMade, invocation, artifact);
}

Result<int> get(const Invocation& invocation) {
  const std::string target =
      TRY(requestTarget({.path = "/v1/artifacts/{}", .missing = kWhich}, invocation.flags));
  net::BlockingClient client = TRY(connect(invocation.globals));
  const json::object artifact = TRY(call(client, "GET", target));
  const std::string name = baseName(textOf(artifact, "path"));
  const auto& operands = invocation.flags.operands();
  const std::string path = operands.size() > 1 ? operands[1] : name;
  if (path == "-") {
    TRY(fetchArtifact(client, artifact, STDOUT_FILENO));
    noteCut(artifact);
    return 0;
  }
  Fd file;
  if (operands.size() > 1) {
    file.reset(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
    if (!file) return failErrno("creating " + path);
  } else {
    file = TRY(createBelow(".", name));
  }
  TRY(fetchArtifact(client, artifact, file.get()));
  noteCut(artifact);
  if (invocation.globals.json) {
    printJson(artifact);
  } else {
    writeTo(STDOUT_FILENO, printable(path) + "\n");
  }
  return 0;
}

Result<int> url(const Invocation& invocation) {
  std::string target =
      TRY(requestTarget({.path = "/v1/artifacts/{}/url", .missing = kWhich}, invocation.flags));
  const auto seconds = TRY(secondsFlag(invocation.flags, "expires"));
  if (seconds) target += "?expires_seconds=" + std::to_string(*seconds);
  net::BlockingClient client = TRY(connect(invocation.globals));
  json::object link = TRY(call(client, "GET", target));
  link["url"] = client.url().origin() + textOf(link, "url");
  return showAnswer({.said = "{url}\n"}, invocation, link);
}

constexpr Column kArtifacts[] = {
    {"ID", "id"},
    {"PATH", "path"},
    {"SIZE", "size", sizeOf},
    {"TYPE", "content_type"},
    {"AGE", "created_at", ageOf},
    {"EXPIRES", "expires_at", dueOf},
};
constexpr Verb kList = {
    .path = "/v1/artifacts", .items = "artifacts", .paged = true, .columns = kArtifacts};
constexpr Verb kRemove = {
    .method = "DELETE", .path = "/v1/artifacts/{}", .missing = kWhich, .each = "deleted"};
constexpr Verb kDestroy = {.method = "DELETE",
                           .path = "/v1/tenants/{}/artifacts",
                           .missing = "whose artifacts: give the tenant",
                           .said = "{}: {artifacts} artifacts destroyed with their key\n"};
constexpr Flag kListFlags[] = {
    {.name = "limit", .value = "N", .help = "how many (default 20)"},
};
constexpr Flag kPutFlags[] = {
    {.name = "path", .value = "PATH", .help = "what it is called (default: the file's name)"},
    {.name = "ttl",
     .value = "TIME",
     .help = "how long it is kept, as 7d (default: as long as may be)"},
};
constexpr Flag kUrlFlags[] = {
    {.name = "expires", .value = "TIME", .help = "how long it is good, as 10m (default 1h)"},
};
constexpr size_t kManyIds = 1000;

}  // namespace

const Command kArtifactList = {.name = "artifact list",
                               .summary = "list stored files, newest first",
                               .flags = kListFlags,
                               .run = carryOut<kList>};
const Command kArtifactPut = {
    .name = "artifact put",
    .operands = "FILE | -",
    .max_operands = 1,
    .summary = "store a file, and print its id",
    .details =
        "Where the connection breaks, a file goes on at what has come, up to 8 times.\n"
        "Standard input cannot: it is not there to be read again.",
    .flags = kPutFlags,
    .examples =
        "cloister artifact put data.csv\n"
        "tar c src | cloister artifact put - --path src.tar",
    .run = put};
const Command kArtifactGet = {.name = "artifact get",
                              .operands = "ID [FILE | -]",
                              .max_operands = 2,
                              .summary = "download a stored file, and check its digest",
                              .details = "Without FILE it is written here under its own name.",
                              .run = get};
const Command kArtifactUrl = {.name = "artifact url",
                              .operands = "ID",
                              .max_operands = 1,
                              .summary = "print a link that downloads a stored file without a key",
                              .flags = kUrlFlags,
                              .run = url};
const Command kArtifactRm = {.name = "artifact rm",
                             .operands = "ID...",
                             .max_operands = kManyIds,
                             .summary = "delete stored files",
                             .run = carryOut<kRemove>};
const Command kArtifactDestroy = {
    .name = "artifact destroy",
    .operands = "TENANT",
    .max_operands = 1,
    .summary = "destroy a tenant's key, and with it all of its stored files",
    .details = "For administrators. Nothing of them can be read again.",
    .run = carryOut<kDestroy>};

}  // namespace cloister::cli
