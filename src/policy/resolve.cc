// SPDX-License-Identifier: Apache-2.0
// From what was asked to what is run.
#include <algorithm>

#include "base/nearest.h"
#include "policy/decide.h"

namespace cloister::policy {
namespace {

using model::Language;
using model::RunRequest;
using Argv = std::vector<std::string>;

// Hidden in /tmp, so that neither a listing of /workspace nor its artifacts show them.
constexpr std::string_view kBinary = "/tmp/.cloister-program";
constexpr std::string_view kBuildDir = "/tmp/.cloister-build";

constexpr std::pair<std::string_view, std::string_view> kBaseEnvironment[] = {
    {"HOME", "/workspace"},
    {"LANG", "C.UTF-8"},
    {"PATH", "/usr/local/bin:/usr/bin:/bin"},
    {"TMPDIR", "/tmp"},
};

void replaceAll(std::string& text, std::string_view what, std::string_view with) {
  for (size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + with.size()))
    text.replace(at, what.size(), with);
}

Argv expand(const Argv& pattern, const Language& language, const RunRequest& request) {
  const std::string memory_mb = std::to_string(request.limits.memory_bytes >> 20);
  Argv argv;
  for (std::string word : pattern) {
    if (word == "{args}") {
      argv.insert(argv.end(), request.args.begin(), request.args.end());
      continue;
    }
    replaceAll(word, "{source}", language.source);
    replaceAll(word, "{binary}", kBinary);
    replaceAll(word, "{dir}", kBuildDir);
    replaceAll(word, "{memory_mb}", memory_mb);
    argv.push_back(std::move(word));
  }
  return argv;
}

Argv commandArgv(const RunRequest& request) {
  Argv argv;
  if (const auto* text = std::get_if<std::string>(&request.command)) {
    argv = {"bash", "-c", *text, "bash"};  // the second is the shell's $0, as in a terminal
  } else {
    argv = std::get<Argv>(request.command);
  }
  argv.insert(argv.end(), request.args.begin(), request.args.end());
  return argv;
}

// The request's own variables win over the language's, those over the base.
std::vector<std::string> environment(const RunRequest& request, const Language* language) {
  std::map<std::string, std::string> env = request.env;
  if (language != nullptr) env.insert(language->env.begin(), language->env.end());
  env.insert(std::begin(kBaseEnvironment), std::end(kBaseEnvironment));
  std::vector<std::string> list;
  list.reserve(env.size());
  for (const auto& [name, value] : env)
    list.push_back(name + "=" + value);
  return list;
}

Result<> addCode(const RunRequest& request, const Language& language, model::ExecSpec& spec) {
  const auto clash = std::ranges::find_if(request.files, [&](const model::FileSpec& file) {
    return file.path == language.source || file.path.starts_with(language.source + "/");
  });
  if (clash != request.files.end()) {
    return fail(Code::kInvalid,
                "files: \"" + clash->path + "\" is where the code goes; use another name", "files");
  }
  spec.files.push_back({language.source, request.code, 0644});
  if (!language.compile.empty()) {
    spec.compile.push_back({expand(language.compile, language, request), language.compile_timeout});
  }
  spec.run.argv = expand(language.run, language, request);
  return {};
}

std::unexpected<Error> unknownLanguage(const std::string& name,
                                       const model::LanguageSet& languages) {
  std::vector<std::string> names;
  std::string list;
  for (const Language& language : languages.all()) {
    names.push_back(language.name);
    list += (list.empty() ? "" : ", ") + language.name;
  }
  const std::string nearest = base::nearestName(name, names);
  return fail(Code::kInvalid,
              "language: \"" + name + "\" is not known" +
                  (nearest.empty() ? "" : "; did you mean " + nearest + "?") + " (known: " + list +
                  ")",
              "language");
}

}  // namespace

Result<model::ExecSpec> resolve(const RunRequest& request, const model::LanguageSet& languages) {
  const Language* language = nullptr;
  if (!request.language.empty()) {
    language = languages.find(request.language);
    if (language == nullptr) return unknownLanguage(request.language, languages);
  }
  model::ExecSpec spec;
  if (!std::holds_alternative<std::monostate>(request.command)) {
    spec.run.argv = commandArgv(request);
  } else if (language != nullptr) {
    TRY(addCode(request, *language, spec));
  } else {
    return fail(Code::kInvalid, "language: is required with code", "language");
  }
  spec.run.timeout = request.limits.wall;
  spec.files.insert(spec.files.end(), request.files.begin(), request.files.end());
  spec.env = environment(request, language);
  spec.input = request.input;
  spec.artifacts.globs = request.artifacts;
  return spec;
}

}  // namespace cloister::policy
