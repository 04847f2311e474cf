// SPDX-License-Identifier: Apache-2.0
// `cloister cp`: files between here and a session's workspace.
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <utility>

#include "cli/api.h"
#include "cli/command.h"
#include "cli/commands/copy_place.h"
#include "cli/fresh.h"
#include "cli/render/outline.h"
#include "cli/render/terminal.h"
#include "cli/render/verdict.h"
#include "cli/tar.h"
#include "cli/transfer.h"
#include "supervisor/signals.h"

namespace cloister::cli {
namespace {

using base::Flag;

struct Copy {
  net::BlockingClient& client;
  Place from;
  Place to;
  bool recursive;
  bool show;  // a meter may be shown
  uint64_t bytes = 0;
};

std::string below(const Place& place, const std::string& rest) {
  return "/v1/sessions/" + net::percentEncode(place.session) + rest;
}

std::string fileTarget(const Place& place) {
  return below(place, "/files/" + encodePath(place.path));
}

std::string archiveTarget(const Place& place) {
  return below(place, "/archive?path=" + net::percentEncode(place.path));
}

bool isDirectory(const std::string& path) {
  struct stat status{};
  return ::stat(path.c_str(), &status) == 0 && S_ISDIR(status.st_mode);
}

std::unexpected<Error> wantsRecursive(const Place& place) {
  return fail(Code::kInvalid, "copying " + printable(place.text()) +
                                  ": it is a directory; give -r to copy all that is in it");
}

// - up -

void tellLeftOut(const json::object& answer) {
  const int64_t count = integerOf(answer, "left_out");
  if (count == 0) return;
  writeTo(STDERR_FILENO, "cloister: left out " + std::to_string(count) +
                             ", which are no files, directories or links\n");
}

Result<> sendFile(Copy& copy) {
  Source source = TRY(openSource(copy.from.path));
  std::string target = copy.recursive ? archiveTarget(copy.to) : fileTarget(copy.to);
  if (source.mode && !copy.recursive) {
    char mode[16];
    std::snprintf(mode, sizeof mode, "?mode=%04o", static_cast<unsigned>(*source.mode));
    target += mode;
  }
  Meter meter(copy.show, source.size);
  const auto next = [&]() -> Result<std::string> {
    std::string piece = TRY(nextPiece(source));
    meter.add(piece.size());
    return piece;
  };
  const json::object answer = TRY(upload(copy.client, "PUT", target, next, source.size));
  meter.clear();
  copy.bytes = meter.bytes();
  tellLeftOut(answer);
  return {};
}

Result<> sendDirectory(Copy& copy) {
  Tar tar = TRY(Tar::packing(copy.from.path));
  Meter meter(copy.show, std::nullopt);
  const auto next = [&]() -> Result<std::string> {
    std::string piece = TRY(tar.read());
    meter.add(piece.size());
    return piece;
  };
  const json::object answer =
      TRY(upload(copy.client, "PUT", archiveTarget(copy.to), next, std::nullopt));
  meter.clear();
  copy.bytes = meter.bytes();
  tellLeftOut(answer);
  return {};
}

Result<> copyUp(Copy& copy) {
  const bool directory = !copy.from.standard() && isDirectory(copy.from.path);
  if (directory && !copy.recursive) return wantsRecursive(copy.from);
  if (!directory && !copy.from.standard()) copy.recursive = false;
  if (copy.to.into && !copy.from.standard()) {
    copy.to.path = joinPath(copy.to.path, nameOf(copy.from.path));
  }
  if (!copy.recursive && (copy.to.path.empty() || (copy.from.standard() && copy.to.into))) {
    return fail(Code::kInvalid, "copying to " + printable(copy.to.text()) +
                                    ": it is a directory; say what the file is to be called there");
  }
  return directory ? sendDirectory(copy) : sendFile(copy);
}

// - down -

// GET with the meter, ended by a signal; read() alone does not notice a signal while bytes keep
// coming.
Result<> receive(Copy& copy, const std::string& target, std::optional<uint64_t> size,
                 const supervisor::Signals* signals, const Take& take) {
  const bool apart = !copy.to.standard() || !isTerminal(STDOUT_FILENO);
  Meter meter(copy.show && apart, size);
  TRY(download(copy.client, target, copy.from.text(), [&](std::string_view piece) -> Result<> {
    pollfd polled{signals != nullptr ? signals->fd() : -1, POLLIN, 0};
    if (::poll(&polled, 1, 0) > 0) return fail(Code::kUnavailable, "interrupted");
    meter.add(piece.size());
    return take(piece);
  }));
  copy.bytes = meter.bytes();
  return {};
}

Result<> receiveInto(Copy& copy, const std::string& target, std::optional<uint64_t> size,
                     const supervisor::Signals* signals, int file) {
  return receive(copy, target, size, signals, [&](std::string_view piece) -> Result<> {
    if (!writeTo(file, piece)) return failErrno("writing " + copy.to.path);
    return {};
  });
}

Result<> receiveFile(Copy& copy, const json::object& entry, const supervisor::Signals& signals) {
  const auto size = static_cast<uint64_t>(integerOf(entry, "size"));
  const auto mode = static_cast<mode_t>(std::strtoul(textOf(entry, "mode").c_str(), nullptr, 8));
  struct stat status{};
  const bool there = ::stat(copy.to.path.c_str(), &status) == 0;
  if (there && S_ISDIR(status.st_mode)) {
    return fail(Code::kConflict, "creating " + copy.to.path +
                                     ": it is a directory; remove it, or give another name");
  }
  if (there && !S_ISREG(status.st_mode)) {  // a device or FIFO is written to
    const Fd file(::open(copy.to.path.c_str(), O_WRONLY | O_CLOEXEC));
    if (!file) return failErrno("opening " + copy.to.path);
    return receiveInto(copy, fileTarget(copy.from), size, &signals, file.get());
  }
  FreshFile file = TRY(FreshFile::make(copy.to.path, mode));
  TRY(receiveInto(copy, fileTarget(copy.from), size, &signals, file.fd()));
  return file.keep();
}

Result<> receiveDirectory(Copy& copy, const supervisor::Signals& signals) {
  FreshDirectory directory = TRY(FreshDirectory::make(copy.to.path));
  Tar tar = TRY(Tar::unpacking(directory.path()));
  TRY(receive(copy, archiveTarget(copy.from), std::nullopt, &signals,
              [&](std::string_view piece) { return tar.write(piece); }));
  TRY(tar.finish());
  TRY(checkUnpacked(directory.path()));
  return directory.keep();
}

// The entry of the file or directory to copy.
Result<json::object> look(net::BlockingClient& client, const Place& place) {
  const json::object listed = TRY(
      call(client, "GET", below(place, "/files?depth=0&path=" + net::percentEncode(place.path))));
  const json::array& entries = arrayOf(listed, "entries");
  if (!entries.empty() && entries[0].is_object()) return entries[0].get_object();
  return fail(Code::kUnavailable, "looking at " + place.text() + ": the server did not say");
}

Result<> copyDown(Copy& copy, const supervisor::Signals* signals) {
  const json::object entry = TRY(look(copy.client, copy.from));
  const bool directory = textOf(entry, "type") == "directory";
  if (directory && !copy.recursive) return wantsRecursive(copy.from);
  if (copy.to.standard()) {
    const auto size = directory ? std::nullopt : std::optional<uint64_t>(integerOf(entry, "size"));
    return receiveInto(copy, directory ? archiveTarget(copy.from) : fileTarget(copy.from), size,
                       signals, STDOUT_FILENO);
  }
  if (copy.to.into || isDirectory(copy.to.path)) {
    copy.to.path = joinPath(copy.to.path, nameOf(copy.from.path));
  }
  return directory ? receiveDirectory(copy, *signals) : receiveFile(copy, entry, *signals);
}

// - both -

void tell(const Invocation& invocation, const Copy& copy) {
  if (!invocation.globals.json) return;
  const json::object done = {
      {"from", copy.from.text()}, {"to", copy.to.text()}, {"bytes", copy.bytes}};
  const std::string text = streamed(done);
  writeTo(copy.to.standard() ? STDERR_FILENO : STDOUT_FILENO, text);
}

struct Places {
  Place from;
  Place to;
};

Result<Places> placesOf(const Invocation& invocation) {
  const auto& operands = invocation.flags.operands();
  if (operands.size() < 2) {
    return fail(Code::kInvalid,
                "what to copy, and where: give SRC and DST, one of them as "
                "SESSION:PATH");
  }
  Places places{.from = TRY(parsePlace(operands[0])), .to = TRY(parsePlace(operands[1]))};
  if (places.from.local() && places.to.local()) {
    return fail(Code::kInvalid,
                "neither " + printable(operands[0]) + " nor " + printable(operands[1]) +
                    " is in a session: write SESSION:PATH (see `cloister session list`)");
  }
  if (!places.from.local() && !places.to.local()) {
    return fail(Code::kInvalid,
                "both are in a session: copy here first; a local name with ':' is "
                "written ./NAME");
  }
  return places;
}

Result<int> copy(const Invocation& invocation) {
  Places places = TRY(placesOf(invocation));
  const bool up = places.from.local();
  // Signals must not simply end the command, because incomplete local files must be removed.
  std::optional<supervisor::Signals> signals;
  if (!up && !places.to.standard())
    signals.emplace(TRY(supervisor::Signals::block({SIGINT, SIGTERM, SIGHUP})));
  net::BlockingClient client = TRY(connect(invocation.globals, signals ? signals->fd() : -1));
  Copy copy{.client = client,
            .from = std::move(places.from),
            .to = std::move(places.to),
            .recursive = invocation.flags.has("recursive"),
            .show = !invocation.globals.quiet};
  const Result<> done = up ? copyUp(copy) : copyDown(copy, signals ? &*signals : nullptr);
  if (done) {
    tell(invocation, copy);
    return 0;
  }
  const int signal = signals ? signals->take() : 0;
  if (signal > 0) return kStatusSignal + signal;
  return std::unexpected(done.error());
}

constexpr Flag kFlags[] = {
    {.name = "recursive", .value = "", .help = "copy directories, with all in them", .letter = 'r'},
};

}  // namespace

const Command kCopy = {
    .name = "cp",
    .operands = "SRC DST",
    .max_operands = 2,
    .summary = "copy files into a session, or out of it",
    .details =
        "One of both is SESSION:PATH, in the session's /workspace; the other is local, or - for\n"
        "standard input or output (with -r: of a tar archive). A DST that ends in / or is a local\n"
        "directory takes the source's name. Permissions are kept, owners are not. A download\n"
        "replaces a file once all of it is here, and makes a directory that is not there yet, or\n"
        "is empty; one that breaks off leaves nothing.",
    .flags = kFlags,
    .examples =
        "cloister cp data.csv $S:\n"
        "cloister cp $S:results/plot.png .\n"
        "cloister cp -r src $S:project/\n"
        "cloister cp -r $S:project/out results\n"
        "printf 'hi\\n' | cloister cp - $S:hi.txt\n"
        "cloister cp -r $S: - | tar tv",
    .run = copy};

}  // namespace cloister::cli
