// SPDX-License-Identifier: Apache-2.0
#include "model/run_request.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <set>

#include "base/crypto.h"
#include "model/dependency.h"
#include "model/escalation.h"
#include "model/image_name.h"
#include "model/tool.h"

namespace cloister::model {
namespace {

using base::ObjectReader;
namespace json = base::json;

constexpr uint64_t kMiB = uint64_t{1} << 20;
constexpr size_t kMaxName = 256;          // of an environment variable or metadata member
constexpr size_t kMaxArgument = 131'071;  // the kernel's MAX_ARG_STRLEN, less the final NUL
// PATH_MAX, less the final NUL and "/workspace/": the longest path that a program can open in full.
constexpr size_t kMaxPath = 4096 - 1 - 11;
constexpr size_t kMaxComponent = 255;

std::unexpected<Error> invalid(const std::string& field, std::string_view why) {
  return fail(Code::kInvalid, field + ": " + std::string(why), field);
}

Result<> atMost(const std::string& field, size_t size, size_t max, std::string_view unit) {
  if (size <= max) return {};
  return fail(Code::kTooLarge,
              field + ": " + std::to_string(size) + " " + std::string(unit) + ", but at most " +
                  std::to_string(max) + " are allowed",
              field);
}

// Arguments and environment entries end at their first NUL, so refuse NUL.
Result<> noNul(const std::string& field, std::string_view text) {
  if (text.find('\0') == std::string_view::npos) return {};
  return invalid(field, "must not contain NUL");
}

struct ListBounds {
  size_t count;
  size_t bytes;  // of an item
};

Result<std::vector<std::string>> textItems(const json::array& items, const std::string& field,
                                           const ListBounds& bounds) {
  TRY(atMost(field, items.size(), bounds.count, "items"));
  std::vector<std::string> texts;
  for (const json::value& item : items) {
    const std::string at = field + "[" + std::to_string(texts.size()) + "]";
    if (!item.is_string()) return invalid(at, "must be a string");
    std::string text(item.get_string());
    TRY(atMost(at, text.size(), bounds.bytes, "bytes"));
    TRY(noNul(at, text));
    texts.push_back(std::move(text));
  }
  return texts;
}

Result<std::optional<std::vector<std::string>>> textList(ObjectReader& reader,
                                                         std::string_view name,
                                                         const ListBounds& bounds) {
  const json::array* items = TRY(reader.array(name));
  if (items == nullptr) return std::nullopt;
  return TRY(textItems(*items, reader.pathOf(name), bounds));
}

// As textList, for names and patterns, where an empty item can only be a mistake.
Result<std::optional<std::vector<std::string>>> nameList(ObjectReader& reader,
                                                         std::string_view name,
                                                         const ListBounds& bounds) {
  auto list = TRY(textList(reader, name, bounds));
  const auto at =
      list ? std::ranges::find(*list, std::string()) : std::vector<std::string>::iterator();
  if (list && at != list->end()) {
    return invalid(reader.pathOf(name) + "[" + std::to_string(at - list->begin()) + "]",
                   "must not be empty");
  }
  return list;
}

Result<std::map<std::string, std::string>> textMap(ObjectReader& reader, std::string_view name,
                                                   size_t count, size_t value_bytes) {
  std::map<std::string, std::string> map;
  const json::object* object = TRY(reader.object(name));
  if (object == nullptr) return map;
  TRY(atMost(reader.pathOf(name), object->size(), count, "members"));
  for (const auto& member : *object) {
    const std::string key(member.key());
    const std::string at = reader.pathOf(name) + "." + key.substr(0, kMaxName);
    if (!member.value().is_string()) return invalid(at, "must be a string");
    std::string value(member.value().get_string());
    TRY(atMost(at, key.size(), kMaxName, "bytes in the name"));
    TRY(atMost(at, value.size(), value_bytes, "bytes"));
    TRY(noNul(at, key));
    TRY(noNul(at, value));
    map.emplace(key, std::move(value));
  }
  return map;
}

}  // namespace

bool isEnvironmentName(std::string_view name) {
  const auto word = [](char c) {
    return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || c == '_' || (c >= '0' && c <= '9');
  };
  return !name.empty() && !(name[0] >= '0' && name[0] <= '9') && std::ranges::all_of(name, word);
}

namespace {

Result<> parseCommand(const json::value& value, const RequestBounds& bounds, RunRequest& request) {
  if (const json::string* text = value.if_string()) {
    if (text->empty()) return invalid("command", "must not be empty");
    TRY(atMost("command", text->size(), kMaxArgument, "bytes"));
    TRY(noNul("command", *text));
    request.command = std::string(*text);
    return {};
  }
  if (const json::array* items = value.if_array()) {
    auto argv = TRY(textItems(*items, "command", {bounds.args, bounds.text_bytes}));
    if (argv.empty() || argv[0].empty()) return invalid("command", "must name a program");
    request.command = std::move(argv);
    return {};
  }
  return invalid("command", "must be a string for the shell or an array of arguments");
}

Result<> readLanguage(ObjectReader& reader, std::string& language) {
  language = TRY(reader.text("language")).value_or(language);
  TRY(atMost("language", language.size(), kMaxName, "bytes"));
  return noNul("language", language);
}

Result<> parseProgram(ObjectReader& reader, const RequestBounds& bounds, RunRequest& request) {
  const std::optional<std::string> code = TRY(reader.text("code"));
  const json::value* command = reader.any("command");
  if (command != nullptr) {
    if (code) return invalid("command", "give either code or command, not both");
    return parseCommand(*command, bounds, request);
  }
  if (!code) return invalid("code", "is required (or give a command)");
  if (request.language.empty()) return invalid("language", "is required with code");
  TRY(atMost("code", code->size(), bounds.code_bytes, "bytes"));
  TRY(noNul("code", *code));
  request.code = *code;
  return {};
}

Result<> parseInput(ObjectReader& reader, const RequestBounds& bounds, RunRequest& request) {
  const auto encoding = TRY(reader.text("encoding"));
  const auto text = TRY(reader.text("input"));
  request.input = TRY(decodeText({"input", "encoding"}, text.value_or(""), encoding));
  return atMost("input", request.input.size(), bounds.input_bytes, "bytes");
}

Result<> checkPath(const std::string& field, std::string_view path) {
  if (path.empty()) return invalid(field, "must not be empty");
  TRY(atMost(field, path.size(), kMaxPath, "bytes"));
  if (path.front() == '/') return invalid(field, "must be relative to the workspace");
  const auto control = [](char c) { return static_cast<uint8_t>(c) < 0x20 || c == 0x7f; };
  if (std::ranges::any_of(path, control)) {
    return invalid(field, "must not contain control characters");
  }
  for (size_t at = 0; at <= path.size();) {
    const size_t end = std::min(path.find('/', at), path.size());
    const std::string_view part = path.substr(at, end - at);
    if (part.empty() || part == "." || part == "..") {
      return invalid(field, R"(must have no empty, "." or ".." component)");
    }
    if (part.size() > kMaxComponent) {
      return invalid(field, "has a component longer than 255 bytes");
    }
    at = end + 1;
  }
  return {};
}

Result<FileSpec> parseFile(const json::object& object, const std::string& at) {
  ObjectReader reader(object, at);
  FileSpec file;
  const auto path = TRY(reader.text("path"));
  if (!path) return invalid(at + ".path", "is required");
  TRY(checkPath(at + ".path", *path));
  file.path = *path;
  const auto content = TRY(reader.text("content"));
  if (!content) return invalid(at + ".content", "is required");
  const auto encoding = TRY(reader.text("encoding"));
  file.content = TRY(decodeText({at + ".content", at + ".encoding"}, *content, encoding));
  if (TRY(reader.boolean("executable")).value_or(false)) file.mode = 0755;
  TRY(reader.finish());
  return file;
}

// After sorting by path: no path occurs twice or is another's directory.
Result<> checkDistinct(const std::vector<FileSpec>& files) {
  std::set<std::string_view> paths;
  for (const FileSpec& file : files) {
    if (!paths.insert(file.path).second) {
      return invalid("files", "\"" + file.path + "\" is given twice");
    }
    for (size_t slash = file.path.find('/'); slash != std::string::npos;
         slash = file.path.find('/', slash + 1)) {
      if (paths.contains(std::string_view(file.path).substr(0, slash))) {
        return invalid("files", "\"" + file.path + "\" needs another file as its directory");
      }
    }
  }
  return {};
}

Result<> parseFiles(ObjectReader& reader, const RequestBounds& bounds, RunRequest& request) {
  const json::array* items = TRY(reader.array("files"));
  if (items == nullptr) return {};
  TRY(atMost("files", items->size(), bounds.files, "files"));
  size_t total = 0;
  for (const json::value& item : *items) {
    const std::string at = "files[" + std::to_string(request.files.size()) + "]";
    const json::object* object = item.if_object();
    if (object == nullptr) return invalid(at, "must be an object");
    request.files.push_back(TRY(parseFile(*object, at)));
    total += request.files.back().content.size();
    TRY(atMost("files", total, bounds.files_bytes, "bytes in all"));
  }
  std::ranges::sort(request.files, {}, &FileSpec::path);
  return checkDistinct(request.files);
}

ListBounds namesOf(const RequestBounds& bounds) {
  return {bounds.items, 1024};
}

Result<> parseLists(ObjectReader& reader, const RequestBounds& bounds, RunRequest& request) {
  request.args =
      TRY(textList(reader, "args", {bounds.args, bounds.text_bytes})).value_or(request.args);
  request.artifacts =
      TRY(nameList(reader, "artifacts", namesOf(bounds))).value_or(request.artifacts);
  return {};
}

// Metadata, environment and dependencies.
Result<> parseSurroundings(ObjectReader& reader, const RequestBounds& bounds, RunRequest& request) {
  request.deps = TRY(nameList(reader, "deps", namesOf(bounds))).value_or(request.deps);
  request.metadata = TRY(textMap(reader, "metadata", bounds.items, bounds.text_bytes));
  const auto own = request.metadata.lower_bound(std::string(kReservedMetadata));
  if (!bounds.own_metadata && own != request.metadata.end() &&
      own->first.starts_with(kReservedMetadata)) {
    return invalid("metadata." + own->first,
                   "names that begin with cloister. are the service's own");
  }
  const auto type = request.metadata.find("tool_type");
  if (!bounds.own_metadata && type != request.metadata.end() &&
      type->second.starts_with(kReservedMetadata)) {
    return invalid("metadata.tool_type", "types that begin with cloister. are the service's own");
  }
  request.env = TRY(textMap(reader, "env", bounds.env, bounds.text_bytes));
  for (const auto& [name, value] : request.env) {
    if (!isEnvironmentName(name)) {
      return invalid("env." + name,
                     "a name is letters, digits and _, and does not begin with a digit");
    }
  }
  return {};
}

Result<> parseSecrets(ObjectReader& reader, RunRequest& request) {
  const json::value* given = reader.any("secrets");
  if (given == nullptr) return {};
  request.secrets = TRY(readSecretUses(*given, reader.pathOf("secrets")));
  for (size_t i = 0; i < request.secrets.size(); ++i) {
    const SecretUse& use = request.secrets[i];
    const std::string at = "secrets[" + std::to_string(i) + "]";
    if (request.env.contains(use.variable)) {
      return invalid(at + ".variable", "has a value in env already; leave one of them out");
    }
    if (use.as == SecretAs::kBroker && request.network.tier == "none") {
      const std::string to = use.host + ":" + std::to_string(use.port);
      return invalid(at + ".as",
                     "a brokered secret needs a network; add \"network_policy\": {\"tier\": "
                     "\"restricted\", \"allow\": [\"" +
                         to + "\"]} (--allow " + to + ")");
    }
  }
  return {};
}

// A secret's file is no other file of the request.
Result<> checkSecretPlaces(const RunRequest& request) {
  for (size_t i = 0; i < request.secrets.size(); ++i) {
    const std::string& path = request.secrets[i].path;
    if (path.empty() ||
        std::ranges::find(request.files, path, &FileSpec::path) == request.files.end())
      continue;
    return invalid("secrets[" + std::to_string(i) + "].path", "is one of files; name another");
  }
  return {};
}

// All data copied by execve(2) must fit onto the new stack, or the program cannot start.
Result<> checkCommandBytes(const RunRequest& request, size_t max) {
  size_t total = 0;
  if (const auto* text = std::get_if<std::string>(&request.command)) total += text->size();
  if (const auto* argv = std::get_if<std::vector<std::string>>(&request.command)) {
    for (const std::string& argument : *argv)
      total += argument.size() + 1;
  }
  for (const std::string& argument : request.args)
    total += argument.size() + 1;
  for (const auto& [name, value] : request.env)
    total += name.size() + value.size() + 2;
  return atMost(std::holds_alternative<std::monostate>(request.command) ? "args" : "command", total,
                max, "bytes with arguments and environment");
}

std::string shortNumber(double number) {
  std::string text = std::to_string(number);
  text.erase(text.find_last_not_of('0') + 1);
  if (text.back() == '.') text.pop_back();
  return text;
}

// A limit in a request's form.
struct LimitField {
  std::string_view name;
  double min;  // in the field's unit, like `max`
  double max;
  bool whole = true;
};

Result<std::optional<double>> limit(ObjectReader& reader, const LimitField& field) {
  const json::value* value = reader.any(field.name);
  if (value == nullptr) return std::nullopt;
  const std::string path = reader.pathOf(field.name);
  if (!value->is_number()) return invalid(path, "must be a number");
  const auto number = value->to_number<double>();
  if (field.whole && number != std::floor(number)) return invalid(path, "must be a whole number");
  if (number < field.min) return invalid(path, "must be at least " + shortNumber(field.min));
  if (number > field.max) {
    return invalid(path, shortNumber(number) + " is over the most that this server allows, " +
                             shortNumber(field.max) + "; ask for less, or raise limits." +
                             std::string(field.name) + " in the server's configuration");
  }
  return number;
}

constexpr double mib(uint64_t bytes) {
  return static_cast<double>(bytes) / kMiB;
}

constexpr double seconds(std::chrono::milliseconds time) {
  return static_cast<double>(time.count()) / 1000;
}

Result<> parseTimes(ObjectReader& reader, const Limits& max, Limits& limits) {
  const auto read = [&](std::string_view name, std::chrono::milliseconds most,
                        std::chrono::milliseconds& out) -> Result<> {
    const auto value = TRY(limit(reader, {name, 0.001, seconds(most), false}));
    if (value) out = std::chrono::milliseconds(std::llround(std::ceil(*value * 1000)));
    return {};
  };
  TRY(read(limit_name::kWall, max.wall, limits.wall));
  return read(limit_name::kCpuTime, max.cpu_time, limits.cpu_time);
}

Result<> parseSizes(ObjectReader& reader, const Limits& max, Limits& limits) {
  struct Size {
    std::string_view name;
    double min;
    uint64_t max;
    uint64_t* out;
  };
  const std::array<Size, 3> sizes = {
      Size{limit_name::kMemory, 4, max.memory_bytes, &limits.memory_bytes},
      Size{limit_name::kDisk, 1, max.disk_bytes, &limits.disk_bytes},
      Size{limit_name::kFileSize, 1, max.file_bytes, &limits.file_bytes},
  };
  for (const Size& size : sizes) {
    const auto value = TRY(limit(reader, {size.name, size.min, mib(size.max)}));
    if (value) *size.out = static_cast<uint64_t>(*value) * kMiB;
  }
  return {};
}

Result<> parseCounts(ObjectReader& reader, const Limits& max, Limits& limits) {
  const auto read = [&](const LimitField& field, auto& out) -> Result<> {
    const auto value = TRY(limit(reader, field));
    if (value) out = static_cast<std::remove_reference_t<decltype(out)>>(*value);
    return {};
  };
  const auto number = [](uint64_t n) { return static_cast<double>(n); };
  // The kernel's smallest CPU quota is 1 ms in 100.
  TRY(read({limit_name::kCpuMillis, 10, number(max.cpu_millis)}, limits.cpu_millis));
  TRY(read({limit_name::kPids, 1, number(max.pids)}, limits.pids));
  TRY(read({limit_name::kInodes, 16, number(max.inodes)}, limits.inodes));
  TRY(read({limit_name::kOpenFiles, 16, number(max.open_files)}, limits.open_files));
  return read({limit_name::kOutput, 1, number(max.output_bytes)}, limits.output_bytes);
}

template <size_t N>
Result<> oneOf(const std::string& field, const std::string& word,
               const std::array<std::string_view, N>& words) {
  if (std::ranges::find(words, word) != words.end()) return {};
  std::string list;
  for (const std::string_view each : words)
    list += (list.empty() ? "" : ", ") + std::string(each);
  return invalid(field, "must be one of " + list);
}

// The stored form has all limits; a limit with the default value was named only if listed here.
Result<> readNamedLimits(ObjectReader& reader, const RequestBounds& bounds, RunRequest& request) {
  if (!bounds.own_metadata) return {};
  const Limits usual = usualLimits(request.limits);
  for (size_t i = 0; i < kLimitCount; ++i) {
    const LimitKind& field = limitKinds()[i];
    if (field.get(request.limits) == field.get(usual)) request.named_limits.reset(i);
  }
  const json::array* names = TRY(reader.array("named_limits"));
  for (size_t i = 0; names != nullptr && i < names->size(); ++i) {
    const json::string* name = (*names)[i].if_string();
    const size_t index = name == nullptr ? kLimitCount : limitIndex(std::string(*name));
    if (index == kLimitCount) {
      return invalid(reader.pathOf("named_limits"), "must be names of limits");
    }
    request.named_limits.set(index);
  }
  return {};
}

Result<> parseSurroundingWalls(ObjectReader& reader, RunRequest& request) {
  if (const json::object* network = TRY(reader.object("network_policy"))) {
    request.network = TRY(readNetworkRequest(*network, "network_policy"));
  }
  request.image = TRY(reader.text("image")).value_or("");
  if (!request.image.empty() && !isImageName(request.image)) {
    return invalid("image", "must be the name of an image, as in GET /v1/images, or \"host\"");
  }
  return readPlacement(reader, request);
}

}  // namespace

Result<> readPlacement(ObjectReader& reader, RunRequest& request) {
  request.runtime = TRY(reader.text("runtime")).value_or("");
  TRY(atMost("runtime", request.runtime.size(), kMaxName, "bytes"));
  TRY(noNul("runtime", request.runtime));
  request.tier = TRY(reader.text("tier")).value_or("");
  return request.tier.empty() ? Result<>() : oneOf("tier", request.tier, kTierNames);
}

Result<std::string> decodeText(const TextField& field, std::string text,
                               const std::optional<std::string>& encoding) {
  if (!encoding || *encoding == "utf8") return text;
  if (*encoding != "base64") return invalid(field.encoding, R"(must be "utf8" or "base64")");
  auto bytes = base::fromBase64(text);
  if (!bytes) return invalid(field.name, "is not base64 (RFC 4648 section 4, with padding)");
  return bytes;
}

Result<> readLimits(ObjectReader& reader, const Limits& max, Limits& limits, LimitSet* named) {
  for (size_t i = 0; named != nullptr && i < kLimitCount; ++i) {
    if (reader.any(limitKinds()[i].name) != nullptr) named->set(i);
  }
  TRY(parseTimes(reader, max, limits));
  TRY(parseSizes(reader, max, limits));
  TRY(parseCounts(reader, max, limits));
  const bool derived = limits.cpu_time.count() == 0;
  settle(limits);
  if (derived) limits.cpu_time = std::min(limits.cpu_time, max.cpu_time);
  return {};
}

RequestBounds defaultBounds() {
  RequestBounds bounds;
  bounds.max.wall = std::chrono::hours(1);
  bounds.max.cpu_time = std::chrono::hours(16);
  bounds.max.cpu_millis = 16'000;
  bounds.max.memory_bytes = uint64_t{16} << 30;
  bounds.max.disk_bytes = uint64_t{16} << 30;
  bounds.max.inodes = uint64_t{1} << 20;
  bounds.max.file_bytes = uint64_t{16} << 30;
  bounds.max.open_files = 65'536;
  bounds.max.pids = 4096;
  bounds.max.output_bytes = uint64_t{16} << 20;
  return bounds;
}

Result<> readSettings(ObjectReader& reader, const RequestBounds& bounds, RunRequest& request) {
  TRY(readLanguage(reader, request.language));
  TRY(parseSurroundings(reader, bounds, request));
  TRY(readLimits(reader, bounds.max, request.limits, &request.named_limits));
  TRY(readNamedLimits(reader, bounds, request));
  TRY(parseSurroundingWalls(reader, request));
  TRY(parseSecrets(reader, request));
  return checkCommandBytes(request, bounds.command_bytes);
}

namespace {

// The text of a sent file; "" without the file.
std::string_view fileNamed(const RunRequest& request, std::string_view path) {
  const auto found = std::ranges::find(request.files, path, &FileSpec::path);
  return found == request.files.end() ? std::string_view() : std::string_view(found->content);
}

// `deps_from` adds the requirements that the code or the sent files name.
Result<> readDepsFrom(ObjectReader& reader, RunRequest& request) {
  const std::string from = TRY(reader.text("deps_from")).value_or("");
  if (from.empty()) return {};
  std::vector<std::string> deps;
  if (from == "script") {
    deps = TRY(depsOfScript(request.code));
  } else if (from == "files") {
    const bool python = request.language.starts_with("py");
    deps = python ? TRY(depsOfRequirements(fileNamed(request, "requirements.txt")))
                  : TRY(depsOfPackageJson(fileNamed(request, "package.json")));
  } else {
    return invalid(reader.pathOf("deps_from"),
                   "must be script (a block of PEP 723 in the code) or files (requirements.txt or "
                   "package.json among the files)");
  }
  if (deps.empty()) {
    return invalid(reader.pathOf("deps_from"), "the " + from + " names no requirements");
  }
  request.deps.insert(request.deps.end(), deps.begin(), deps.end());
  return {};
}

}  // namespace

Result<> readRunRequest(ObjectReader& reader, const RequestBounds& bounds, RunRequest& request) {
  TRY(readSettings(reader, bounds, request));
  request.approval = TRY(reader.text("approval")).value_or("");
  if (!request.approval.empty() && !isEscalationId(request.approval)) {
    return invalid(reader.pathOf("approval"), "must be the id of an escalation, as ESC-2026-001");
  }
  TRY(parseProgram(reader, bounds, request));
  TRY(parseInput(reader, bounds, request));
  TRY(parseLists(reader, bounds, request));
  TRY(parseFiles(reader, bounds, request));
  TRY(checkSecretPlaces(request));
  TRY(readDepsFrom(reader, request));
  return checkCommandBytes(request, bounds.command_bytes);
}

Result<RunRequest> parseRunRequest(const json::object& body, const RequestBounds& bounds) {
  ObjectReader reader(body, "");
  RunRequest request;
  TRY(readRunRequest(reader, bounds, request));
  TRY(reader.finish());
  return request;
}

}  // namespace cloister::model
