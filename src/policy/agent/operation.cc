// SPDX-License-Identifier: Apache-2.0
#include "policy/agent/operation.h"

#include "policy/command/effects.h"

namespace cloister::policy {
namespace {

namespace json = base::json;
using base::ObjectReader;

constexpr std::pair<std::string_view, FileAccess> kAccesses[] = {{"read", FileAccess::kRead},
                                                                 {"write", FileAccess::kWrite},
                                                                 {"create", FileAccess::kCreate},
                                                                 {"delete", FileAccess::kDelete}};
constexpr uint64_t kMiB = uint64_t{1} << 20;

std::unexpected<Error> wrong(const ObjectReader& reader, std::string_view name,
                             std::string_view why) {
  const std::string field = reader.pathOf(name);
  return fail(Code::kInvalid, field + ": " + std::string(why), field);
}

Result<std::string> needed(ObjectReader& reader, std::string_view name) {
  auto text = TRY(reader.text(name));
  if (text && !text->empty() && !text->contains('\0')) return *std::move(text);
  return wrong(reader, name, "is required, and not empty");
}

Result<FileOperation> parseFile(ObjectReader& reader) {
  FileOperation file;
  const std::string access = TRY(needed(reader, "operation"));
  bool known = false;
  for (const auto& [name, value] : kAccesses) {
    if (access != name) continue;
    file.access = value;
    known = true;
  }
  if (!known) return wrong(reader, "operation", "must be read, write, create or delete");
  file.path = TRY(needed(reader, "path"));
  file.recursive = TRY(reader.boolean("recursive")).value_or(false);
  return file;
}

Result<CommandOperation> parseCommand(ObjectReader& reader) {
  CommandOperation command;
  command.text = TRY(reader.text("command"));
  const json::array* items = TRY(reader.array("argv"));
  if (command.text.has_value() == (items != nullptr)) {
    return wrong(reader, "command", "give either command (text for bash) or argv (a list)");
  }
  if (items == nullptr) return command;
  for (const json::value& item : *items) {
    if (!item.is_string()) return wrong(reader, "argv", "must be a list of strings");
    command.argv.emplace_back(item.get_string());
  }
  if (command.argv.empty()) return wrong(reader, "argv", "must have a word; the program first");
  return command;
}

Result<Resources> parseResources(ObjectReader& reader) {
  constexpr int64_t kMostMib = int64_t{1} << 30;
  constexpr int64_t kMostPercent = 1'000'000;
  constexpr int64_t kMostSeconds = int64_t{366} * 24 * 3600;
  Resources wanted;
  if (const auto n = TRY(reader.integer("memory_mb", 0, kMostMib)))
    wanted.memory_bytes = static_cast<uint64_t>(*n) * kMiB;
  if (const auto n = TRY(reader.integer("cpu_percent", 0, kMostPercent)))
    wanted.cpu_millis = static_cast<uint32_t>(*n) * 10;
  if (const auto n = TRY(reader.integer("time_seconds", 0, kMostSeconds)))
    wanted.time_ms = static_cast<uint64_t>(*n) * 1000;
  if (const auto n = TRY(reader.integer("disk_mb", 0, kMostMib)))
    wanted.disk_bytes = static_cast<uint64_t>(*n) * kMiB;
  if (const auto n = TRY(reader.integer("file_mb", 0, kMostMib)))
    wanted.file_bytes = static_cast<uint64_t>(*n) * kMiB;
  TRY(reader.finish());
  return wanted;
}

template <class... Cases>
struct Overloaded : Cases... {
  using Cases::operator()...;
};

}  // namespace

std::string_view nameOf(const Operation& operation) {
  if (const auto* file = std::get_if<FileOperation>(&operation.what)) {
    constexpr std::string_view kNames[] = {"file_read", "file_write", "file_create", "file_delete"};
    return kNames[static_cast<size_t>(file->access)];
  }
  constexpr std::string_view kOthers[] = {"", "command_execution", "network", "quality_gate",
                                          "workflow"};
  return kOthers[operation.what.index()];
}

std::string targetOf(const Operation& operation) {
  return std::visit(
      Overloaded{[](const FileOperation& file) { return absolutePath(file.path); },
                 [](const CommandOperation& command) {
                   if (command.text) return *command.text;
                   std::string text;
                   for (const std::string& word : command.argv)
                     (text += text.empty() ? "" : " ") += word;
                   return text;
                 },
                 [](const NetworkOperation& network) { return network.url; },
                 [](const GateOperation& gate) { return gate.gate; },
                 [](const WorkflowOperation& flow) { return flow.workflow + ":" + flow.action; }},
      operation.what);
}

std::string absolutePath(std::string_view path) {
  return plainPath(path.starts_with('/') ? std::string(path) : "/workspace/" + std::string(path));
}

Result<Operation> parseOperation(const json::object& object, const std::string& path) {
  ObjectReader reader(object, path);
  const std::string type = TRY(reader.text("type")).value_or("");
  Operation operation;
  if (type == "file") {
    operation.what = TRY(parseFile(reader));
  } else if (type == "command") {
    operation.what = TRY(parseCommand(reader));
  } else if (type == "network") {
    NetworkOperation network{.url = TRY(needed(reader, "url"))};
    network.method = TRY(reader.text("method")).value_or("GET");
    operation.what = std::move(network);
  } else if (type == "quality_gate") {
    operation.what = GateOperation{TRY(needed(reader, "gate"))};
  } else if (type == "workflow") {
    WorkflowOperation flow{.workflow = TRY(needed(reader, "workflow"))};
    flow.action = TRY(reader.text("action")).value_or("run");
    operation.what = std::move(flow);
  } else {
    return wrong(reader, "type", "must be file, command, network, quality_gate or workflow");
  }
  if (const json::object* wanted = TRY(reader.object("resources"))) {
    ObjectReader inner(*wanted, reader.pathOf("resources"));
    operation.wanted = TRY(parseResources(inner));
  }
  TRY(reader.finish());
  return operation;
}

}  // namespace cloister::policy
