// SPDX-License-Identifier: Apache-2.0
// `cloister-image`: the operator's tool for the store of images. A separate program, so that no
// other program loads the library that reads archives; `cloister image` executes this program.
#include <poll.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <cstdio>
#include <span>
#include <string_view>

#include "base/file.h"
#include "base/flags.h"
#include "base/log.h"
#include "bin/image_pull.h"
#include "cli/render/outline.h"
#include "cli/render/terminal.h"
#include "cli/render/verdict.h"
#include "images/import.h"
#include "images/store.h"
#include "model/config.h"

namespace cloister {
namespace {

using base::Flag;
using base::Flags;
using cli::printable;
using cli::writeTo;

using cli::kStatusNo;
using cli::kStatusUsage;

constexpr int kInterrupted = 130;

constexpr Flag kFlags[] = {
    {.name = "images", .value = "DIR", .help = "the store"},
    {.name = "config", .value = "FILE", .help = "the configuration"},
    {.name = "replace", .value = "", .help = "replace the image"},
    {.name = "name", .value = "NAME", .help = "the name of a pulled image"},
    {.name = "no-squashfs", .value = "", .help = "not for virtual machines"},
    {.name = "json", .value = "", .help = "print JSON"},
    {.name = "help", .value = "", .help = "print this", .letter = 'h'},
};

constexpr std::string_view kUsage =
    "usage: cloister-image import [--replace] [--no-squashfs] NAME PATH   make an image of an "
    "archive or "
    "directory\n"
    "       cloister-image pull [--name NAME] [--replace] [--no-squashfs] REF@sha256:DIGEST   "
    "fetch an "
    "image from a registry\n"
    "       cloister-image list                           the images there are, and what is "
    "broken\n"
    "       cloister-image verify NAME                    compare with its digest; 1 if it "
    "differs\n"
    "       cloister-image remove NAME                    remove one that no sandbox uses\n"
    "\n"
    "  --images DIR     the store (default: node.images, else /var/lib/cloister-images for root,\n"
    "                   ~/.local/share/cloister/images for others)\n"
    "  --config FILE    the configuration of the server\n"
    "  --json           print JSON\n"
    "\n"
    "PATH is an OCI archive, what `docker save` writes, a directory in OCI layout, or a root file\n"
    "system: a directory, or a tar of one as `docker export` writes it; gzip or zstd throughout.\n"
    "\n"
    "examples:\n"
    "  docker save python:3.12-slim | zstd > python.tar.zst\n"
    "  cloister-image import python-3.12 python.tar.zst\n"
    "  cloister-image import --replace tools /srv/chroots/tools\n"
    "  cloister-image pull --config /etc/cloister.yaml registry.example/team/app@sha256:…\n"
    "  cloister-image list --json\n";

struct Invocation {
  images::Store store;
  model::ImageSettings settings;
  Flags flags;
  std::string command;
  std::vector<std::string> operands;
  Fd cancel = {};  // readable once the command is interrupted
};

Result<Invocation> invocationOf(Flags flags) {
  model::Config config;
  if (const auto path = flags.text("config")) config = TRY(model::loadConfig(*path));
  const std::string directory = flags.text("images").value_or(images::storeDir(config.node.images));
  if (directory.empty()) {
    return fail(Code::kInvalid, "no store of images is known: set HOME, or give --images",
                "images");
  }
  std::vector<std::string> words = flags.operands();
  words.insert(words.end(), flags.rest().begin(), flags.rest().end());
  Invocation out{images::Store(directory),
                 std::move(config.images),
                 std::move(flags),
                 words.empty() ? "" : words[0],
                 {},
                 {}};
  if (!words.empty()) out.operands.assign(words.begin() + 1, words.end());
  return out;
}

void printImage(const images::Found& found, bool as_json) {
  base::json::object object = model::toJsonObject(found.image);
  if (as_json) {
    cli::printJson(object);
    return;
  }
  object["size_bytes"] = cli::humanBytes(found.image.size_bytes);
  object["root"] = found.root;
  writeTo(STDOUT_FILENO, cli::outline(object));
}

// SIGINT and SIGTERM as a descriptor, so that an interrupted import removes its files.
Result<Fd> interrupts() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGTERM);
  if (::sigprocmask(SIG_BLOCK, &signals, nullptr) != 0) return failErrno("sigprocmask");
  Fd fd(::signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK));
  return fd ? Result<Fd>(std::move(fd)) : failErrno("signalfd");
}

bool isInterrupted(const Invocation& invocation) {
  pollfd polled{invocation.cancel.get(), POLLIN, 0};
  return ::poll(&polled, 1, 0) > 0 && (polled.revents & POLLIN) != 0;
}

// Imports, with the options that all sources have in common, and prints the image.
Result<int> importOf(Invocation& invocation, images::ImportOptions options,
                     cli::Progress& progress) {
  options.replace = invocation.flags.has("replace");
  options.squashfs = !invocation.flags.has("no-squashfs");
  options.bounds = {invocation.settings.max_mb << 20, invocation.settings.max_files};
  options.progress = [&](const std::string& what) { progress.tick(what); };
  const auto imported = images::importImage(invocation.store, options);
  progress.stop();
  if (!imported) return std::unexpected(imported.error());
  for (const std::string& note : imported->notes)
    writeTo(STDERR_FILENO, "note: " + printable(note) + "\n");
  printImage(imported->found, invocation.flags.has("json"));
  return 0;
}

Result<int> import(Invocation& invocation) {
  invocation.cancel = TRY(interrupts());
  cli::Progress progress(!invocation.flags.has("json"));
  return importOf(invocation,
                  {.name = invocation.operands[0],
                   .path = invocation.operands[1],
                   .cancel = invocation.cancel.get()},
                  progress);
}

Result<int> pull(Invocation& invocation) {
  const registry::Reference reference = TRY(registry::parseReference(invocation.operands[0]));
  const std::string name = invocation.flags.text("name").value_or(nameOfPulled(reference));
  const auto good = images::checkNewName(invocation.store, name, invocation.flags.has("replace"));
  if (!good) {
    const bool invalid = good.error().code == Code::kInvalid && !invocation.flags.has("name");
    return fail(good.error().code, good.error().message + (invalid ? "; give --name NAME" : ""));
  }
  invocation.cancel = TRY(interrupts());
  cli::Progress progress(!invocation.flags.has("json"));
  const images::Unfinished work = TRY(invocation.store.begin());
  const std::string layout = work.path() + "/layout";
  auto pulled = pullInChild({.reference = reference,
                             .settings = invocation.settings,
                             .directory = layout,
                             .progress = [&](const std::string& what) { progress.tick(what); }},
                            invocation.cancel.get());
  progress.clear();
  if (!pulled) return std::unexpected(std::move(pulled).error());
  if (!invocation.flags.has("config")) {
    pulled->notes.emplace_back(
        "without --config no signature, bill of materials or advisory is checked");
  }
  for (const std::string& note : pulled->notes)
    writeTo(STDERR_FILENO, "note: " + printable(note) + "\n");
  return importOf(invocation,
                  {.name = name,
                   .path = layout,
                   .title = reference.text(),
                   .verified = pulled->verified,
                   .cancel = invocation.cancel.get()},
                  progress);
}

Result<int> list(Invocation& invocation) {
  const images::Listing listing = TRY(invocation.store.list());
  if (invocation.flags.has("json")) {
    base::json::array found;
    base::json::array broken;
    for (const auto& each : listing.images)
      found.emplace_back(model::toJsonObject(each.image));
    for (const auto& each : listing.broken)
      broken.emplace_back(base::json::object{{"name", each.name}, {"why", each.why}});
    cli::printJson(base::json::object{{"images", std::move(found)}, {"broken", std::move(broken)}});
    return 0;
  }
  constexpr cli::Heading kHeadings[] = {{"NAME", true}, {"SIZE"},    {"FILES"}, {"SOURCE"},
                                        {"SQUASHFS"},   {"CREATED"}, {"DIGEST"}};
  std::vector<std::vector<std::string>> rows;
  for (const auto& [image, root, squashfs] : listing.images) {
    rows.push_back({image.name, cli::humanBytes(image.size_bytes), std::to_string(image.files),
                    image.source, image.squashfs ? "yes" : "no", printable(image.created),
                    image.digest});
  }
  writeTo(STDOUT_FILENO, cli::table(kHeadings, rows));
  for (const auto& [name, why] : listing.broken)
    writeTo(STDERR_FILENO, printable(name) + ": broken: " + printable(why) + "\n");
  return 0;
}

Result<int> verify(Invocation& invocation) {
  const images::Used used = TRY(invocation.store.use(invocation.operands[0]));
  const std::string digest = TRY(images::computeDigest(used.found));
  const bool same = digest == used.found.image.digest;
  if (invocation.flags.has("json")) {
    cli::printJson(base::json::object{{"name", used.found.image.name},
                                      {"digest", used.found.image.digest},
                                      {"computed", digest},
                                      {"intact", same}});
  } else if (same) {
    writeTo(STDOUT_FILENO, used.found.image.name + ": intact, " + digest + "\n");
  } else {
    writeTo(STDOUT_FILENO, used.found.image.name + ": changed: its content has the digest " +
                               digest + ", imported was " + used.found.image.digest +
                               "; import it again with --replace\n");
  }
  return same ? 0 : kStatusNo;
}

Result<int> remove(Invocation& invocation) {
  TRY(invocation.store.remove(invocation.operands[0]));
  if (!invocation.flags.has("json")) {
    writeTo(STDOUT_FILENO, printable(invocation.operands[0]) + ": removed\n");
  }
  return 0;
}

struct Command {
  std::string_view name;
  size_t operands;
  Result<int> (*run)(Invocation&);
};
constexpr Command kCommands[] = {{"import", 2, import},
                                 {"pull", 1, pull},
                                 {"list", 0, list},
                                 {"verify", 1, verify},
                                 {"remove", 1, remove}};

void complain(const std::string& message) {
  writeTo(STDERR_FILENO, "cloister-image: " + printable(message) + "\n");
}

int run(const std::vector<std::string>& arguments) {
  auto flags = Flags::parse(kFlags, arguments);
  if (flags && flags->has("help")) {
    writeTo(STDOUT_FILENO, std::string(kUsage));
    return 0;
  }
  auto invocation = flags ? invocationOf(*std::move(flags)) : std::unexpected(flags.error());
  if (!invocation) {
    complain(invocation.error().message);
    return kStatusUsage;
  }
  for (const Command& command : kCommands) {
    if (command.name != invocation->command) continue;
    if (command.operands != invocation->operands.size()) break;
    const Result<int> status = command.run(*invocation);
    if (status) return *status;
    complain(status.error().message);
    return isInterrupted(*invocation) ? kInterrupted : cli::errorStatus(status.error());
  }
  writeTo(STDERR_FILENO, std::string(kUsage));
  return kStatusUsage;
}

}  // namespace
}  // namespace cloister

int main(int argc, char** argv) {
  cloister::base::initLog("cloister-image");
  return cloister::run({argv + 1, argv + argc});
}
