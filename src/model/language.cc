// SPDX-License-Identifier: Apache-2.0
#include "model/language.h"

#include <algorithm>
#include <filesystem>
#include <set>

#include "base/file.h"
#include "model/yaml.h"

namespace cloister::model {
namespace {

constexpr size_t kMaxFiles = 256;
constexpr size_t kMaxPrestartBytes = 4096;
constexpr size_t kMaxKernelBytes = 100'000;  // an argument of a program: at most 128 KiB

std::string lower(std::string_view text) {
  std::string out(text);
  for (char& c : out) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return out;
}

bool isName(std::string_view text) {
  const auto allowed = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '+' || c == '#' || c == '-' ||
           c == '.' || c == '_';
  };
  return !text.empty() && text.size() <= 32 && std::ranges::all_of(text, allowed);
}

// The code's file name: a plain component, so that the file is in the workspace and nowhere else.
bool isFileName(std::string_view text) {
  const auto allowed = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '.' || c == '_';
  };
  return !text.empty() && text.size() <= 64 && text.front() != '.' && text.front() != '-' &&
         std::ranges::all_of(text, allowed);
}

std::unexpected<Error> wrong(std::string_view key, std::string_view why) {
  return fail(Code::kInvalid, std::string(key) + ": " + std::string(why), std::string(key));
}

Result<> checkArgv(std::string_view key, const std::vector<std::string>& argv) {
  static const std::set<std::string_view> kKnown = {"{source}", "{binary}", "{dir}", "{memory_mb}",
                                                    "{args}"};
  for (const std::string& argument : argv) {
    for (size_t at = argument.find('{'); at != std::string::npos; at = argument.find('{', at + 1)) {
      const size_t end = argument.find('}', at);
      const std::string_view word = std::string_view(argument).substr(at, end - at + 1);
      if (!kKnown.contains(word)) {
        return wrong(key, "braces may hold source, binary, dir, memory_mb or args only");
      }
      if (word == "{args}" && argument != word) return wrong(key, "{args} must stand alone");
    }
  }
  return {};
}

Result<> checkNames(const Language& language) {
  if (!isName(language.name)) return wrong("name", "must be a short lower-case name");
  if (!std::ranges::all_of(language.aliases, isName)) {
    return wrong("aliases", "must be short lower-case names");
  }
  for (const std::string& extension : language.extensions) {
    if (!extension.starts_with('.') || !isFileName(extension.substr(1))) {
      return wrong("extensions", "must be a dot and letters");
    }
  }
  if (!isFileName(language.source)) return wrong("source", "must be a plain file name");
  return {};
}

Result<> check(const Language& language) {
  TRY(checkNames(language));
  if (language.run.empty() || language.run[0].empty()) return wrong("run", "must name a program");
  if (std::ranges::find(language.compile, "{args}") != language.compile.end()) {
    return wrong("compile", "has no arguments of the request");
  }
  TRY(checkArgv("compile", language.compile));
  TRY(checkArgv("run", language.run));
  if (language.prestart && !language.compile.empty()) {
    return wrong("prestart", "is for languages without a compiler");
  }
  if (language.prestart_env.empty() == isFileName(language.prestart_file)) {
    return wrong("prestart_file", "must be a plain file name beside prestart_env, and only there");
  }
  if (!language.prestart_env.empty() && !language.prestart) {
    return wrong("prestart_env", "is for languages with prestart");
  }
  if (!language.zygote.empty() && !language.prestart) {
    return wrong("zygote", "is for languages with prestart");
  }
  if (language.kernel.empty() == isFileName(language.kernel_file)) {
    return wrong("kernel_file", "must be a plain file name beside kernel, and only there");
  }
  if (!std::ranges::all_of(language.kernel_parts, isFileName) ||
      (language.kernel.empty() && !language.kernel_parts.empty())) {
    return wrong("kernel_parts", "must be plain file names beside kernel, and only there");
  }
  for (const std::string& word : language.kernel) {
    if (word != "{kernel}" && word != "{dir}" && word.contains('{')) {
      return wrong("kernel", "braces may hold kernel or dir only, and must stand alone");
    }
  }
  for (const std::string& path : language.requires_paths) {
    if (!path.starts_with('/')) return wrong("requires", "must be absolute paths");
  }
  return {};
}

Result<std::map<std::string, std::string>> readEnvironment(base::ObjectReader& reader,
                                                           std::string_view key) {
  std::map<std::string, std::string> env;
  const base::json::object* object = TRY(reader.object(key));
  if (object == nullptr) return env;
  base::ObjectReader inner(*object, std::string(key));
  for (const auto& member : *object) {
    const std::string name(member.key());
    if (name.empty() || name.find_first_of(std::string_view("=\0", 2)) != std::string::npos) {
      return wrong(key, "has a bad name");
    }
    env[name] = TRY(requiredText(inner, member.key()));
  }
  return env;
}

Result<Language> readLanguage(const base::json::object& object) {
  base::ObjectReader reader(object, "");
  Language language;
  language.name = TRY(requiredText(reader, "name"));
  language.title = TRY(requiredText(reader, "title"));
  language.aliases = TRY(textList(reader, "aliases"));
  language.extensions = TRY(textList(reader, "extensions"));
  language.source = TRY(requiredText(reader, "source"));
  language.compile = TRY(textList(reader, "compile"));
  const auto timeout = TRY(reader.integer("compile_timeout_seconds", 1, 3600));
  if (timeout) language.compile_timeout = std::chrono::seconds(*timeout);
  language.run = TRY(textList(reader, "run"));
  language.env = TRY(readEnvironment(reader, "env"));
  language.prestart = TRY(reader.boolean("prestart")).value_or(false);
  language.prestart_unless = TRY(reader.text("prestart_unless")).value_or("");
  language.prestart_env = TRY(readEnvironment(reader, "prestart_env"));
  language.prestart_file = TRY(reader.text("prestart_file")).value_or("");
  language.zygote = TRY(textList(reader, "zygote"));
  language.kernel = TRY(textList(reader, "kernel"));
  language.kernel_file = TRY(reader.text("kernel_file")).value_or("");
  language.kernel_parts = TRY(textList(reader, "kernel_parts"));
  language.requires_paths = TRY(textList(reader, "requires"));
  language.install = TRY(requiredText(reader, "install"));
  TRY(reader.finish());
  TRY(check(language));
  return language;
}

Result<std::vector<std::filesystem::path>> yamlFiles(const std::string& dir) {
  std::vector<std::filesystem::path> files;
  std::error_code error;
  for (std::filesystem::directory_iterator at(dir, error), end; !error && at != end;
       at.increment(error)) {
    if (at->path().extension() == ".yaml") files.push_back(at->path());
  }
  const std::string doing = "reading languages in " + dir + ": ";
  if (error) return fail(Code::kInvalid, doing + error.message());
  if (files.empty()) return fail(Code::kInvalid, doing + "no .yaml file");
  if (files.size() > kMaxFiles) return fail(Code::kTooLarge, doing + "too many files");
  std::ranges::sort(files);
  return files;
}

}  // namespace

namespace {

Result<std::string> readKernel(const std::string& dir, const Language& language) {
  std::vector<std::string> files = language.kernel_parts;
  files.push_back(language.kernel_file);
  std::string text;
  for (const std::string& file : files)
    text += TRY(base::readFile(dir + file, kMaxKernelBytes));
  if (text.size() > kMaxKernelBytes) {
    return fail(Code::kTooLarge, "reading the kernel of " + language.name +
                                     ": together its files " + "have more than " +
                                     std::to_string(kMaxKernelBytes) + " bytes");
  }
  return text;
}

}  // namespace

Result<Language> parseLanguage(std::string_view yaml, std::string_view name) {
  const base::json::object object = TRY(parseYaml(yaml, name));
  auto language = readLanguage(object);
  if (!language) return std::unexpected(std::move(language).error().within(name));
  return language;
}

Result<LanguageSet> LanguageSet::load(const std::string& dir) {
  LanguageSet set;
  for (const std::filesystem::path& file : TRY(yamlFiles(dir))) {
    const std::string name = file.filename().string();
    const std::string yaml = TRY(base::readFile(file.string(), kMaxYamlBytes));
    Language language = TRY(parseLanguage(yaml, name));
    if (!language.kernel.empty()) {
      language.kernel_text = TRY(readKernel(dir + "/kernels/", language));
    }
    if (!language.prestart_file.empty()) {
      language.prestart_text =
          TRY(base::readFile(dir + "/prestart/" + language.prestart_file, kMaxPrestartBytes));
    }
    std::vector<std::string> names = language.aliases;
    names.push_back(language.name);
    for (const std::string& each : names) {
      if (!set.index_.emplace(each, set.languages_.size()).second) {
        return fail(Code::kInvalid, name + ": the name \"" + each + "\" is taken already");
      }
    }
    set.languages_.push_back(std::move(language));
  }
  return set;
}

const Language* LanguageSet::find(std::string_view name_or_alias) const {
  const auto at = index_.find(lower(name_or_alias));
  return at == index_.end() ? nullptr : &languages_[at->second];
}

}  // namespace cloister::model
