// SPDX-License-Identifier: Apache-2.0
#include "orchestrator/runs/workspace_list.h"

#include <sys/stat.h>

#include <algorithm>
#include <cstdio>
#include <string_view>
#include <unordered_set>
#include <vector>

#include <time.h>

#include "base/crypto.h"
#include "base/json.h"
#include "model/shown_text.h"
#include "orchestrator/core/stored_request.h"

namespace cloister::orchestrator {
namespace {

namespace json = base::json;
using wire::files::State;

constexpr size_t kMostNamed = 10'000;  // words of a request compared with the names
constexpr size_t kMostOfWord = 4096;

std::string_view typeOf(uint32_t mode) {
  if (S_ISREG(mode)) return "file";
  if (S_ISDIR(mode)) return "directory";
  if (S_ISLNK(mode)) return "link";
  if (S_ISFIFO(mode)) return "fifo";
  return S_ISSOCK(mode) ? "socket" : "device";
}

// RFC 3339, or null: RFC 3339 has no years of more than four digits.
json::value timeModified(const State& name) {
  constexpr int64_t kFirst = -62'167'219'200;  // of the year 0
  constexpr int64_t kLast = 253'402'300'799;   // of the year 9999
  const time_t seconds = name.modified_s;
  if (!S_ISREG(name.mode) || seconds < kFirst || seconds > kLast) return nullptr;
  struct tm utc{};
  ::gmtime_r(&seconds, &utc);
  char text[96];
  std::snprintf(text, sizeof text, "%04d-%02d-%02dT%02d:%02d:%02d.%09uZ", utc.tm_year + 1900,
                utc.tm_mon + 1, utc.tm_mday, utc.tm_hour, utc.tm_min, utc.tm_sec, name.modified_ns);
  return json::value(text);
}

// `first`: the first name of the same file, or nullptr.
std::string entryOf(const State& name, const State* first) {
  char mode[8];
  std::snprintf(mode, sizeof mode, "%04o", name.mode & 07777U);
  const bool file = S_ISREG(name.mode);
  const bool link = S_ISLNK(name.mode);
  return base::toJson(json::object{
      {"path", name.path.empty() ? "." : model::markedText(name.path)},
      {"type", typeOf(name.mode)},
      {"mode", mode},
      {"bytes", file ? json::value(name.size) : json::value(nullptr)},
      {"sha256", file ? json::value(base::toHex(name.sum)) : json::value(nullptr)},
      {"target", link ? json::value(model::markedText(name.sum)) : json::value(nullptr)},
      {"modified", timeModified(name)},
      {"hard_link_of",
       first != nullptr ? json::value(model::markedText(first->path)) : json::value(nullptr)}});
}

// The words of a request, as paths beneath the workspace.
class Words {
 public:
  explicit Words(const json::object& request) {
    if (const json::value* cwd = request.if_contains("cwd"); cwd != nullptr && cwd->is_string()) {
      cwd_ = beneath(std::string_view(cwd->get_string()));
      if (!cwd_.empty()) cwd_ += '/';
    }
    look(request);
  }
  [[nodiscard]] bool have(const std::string& path) const { return words_.contains(path); }

 private:
  static std::string beneath(std::string_view path) {
    constexpr std::string_view kWorkspace = "/workspace";
    if (path == kWorkspace) return "";
    if (path.starts_with("/workspace/")) path.remove_prefix(kWorkspace.size() + 1);
    while (path.starts_with("./"))
      path.remove_prefix(2);
    while (path.ends_with('/'))
      path.remove_suffix(1);
    return std::string(path);
  }

  void look(const json::value& value) {
    if (value.is_string()) return split(value.get_string());
    if (const json::array* items = value.if_array()) {
      for (const json::value& item : *items)
        look(item);
    } else if (const json::object* members = value.if_object()) {
      for (const auto& member : *members)
        look(member.value());
    }
  }

  void split(std::string_view text) {
    constexpr std::string_view kBetween = " \t\r\n\"'`;|&()<>[]{}$,=:";
    while (!text.empty() && words_.size() < kMostNamed) {
      const size_t end = std::min(text.find_first_of(kBetween), text.size());
      if (end > 0 && end <= kMostOfWord) {
        const std::string word = beneath(text.substr(0, end));
        if (!cwd_.empty()) words_.insert(cwd_ + word);
        words_.insert(word);
      }
      text.remove_prefix(std::min(end + 1, text.size()));
    }
  }

  std::string cwd_;
  std::unordered_set<std::string> words_;
};

// The listed names, each as JSON, or "".
std::vector<std::string> entriesOf(const WorkspaceState& workspace, const Words& words) {
  const std::vector<State>& names = workspace.names();
  std::vector<std::string> entries(names.size());
  size_t count = 0;
  size_t bytes = 0;
  for (const bool named : {true, false}) {
    for (size_t i = 0; i < names.size(); ++i) {
      if (!entries[i].empty() || (named && !words.have(names[i].path))) continue;
      std::string entry = entryOf(names[i], workspace.hardLinkOf(i));
      if (count == kMostListed || bytes + entry.size() > kMostListedBytes) break;
      bytes += entry.size() + 1;
      ++count;
      entries[i] = std::move(entry);
    }
  }
  return entries;
}

}  // namespace

std::string listOf(const WorkspaceState& workspace, const std::string& request_json) {
  const Words words(parseStored(request_json).value_or(json::object{}));
  std::string list;
  size_t left_out = 0;
  for (const std::string& entry : entriesOf(workspace, words)) {
    if (entry.empty()) ++left_out;
    if (!entry.empty()) list += (list.empty() ? "" : ",") + entry;
  }
  return R"({"sha256":")" + workspace.sha256() + R"(","files":)" +
         std::to_string(workspace.files()) + R"(,"bytes":)" + std::to_string(workspace.bytes()) +
         R"(,"names":[)" + list + R"(],"left_out":)" + std::to_string(left_out) + "}";
}

}  // namespace cloister::orchestrator
