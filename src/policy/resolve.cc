// SPDX-License-Identifier: Apache-2.0
// Turns the request into the command to run.
#include <algorithm>

#include "base/nearest.h"
#include "model/dependency.h"
#include "policy/decide.h"

namespace cloister::policy {
namespace {

using model::Language;
using model::RunRequest;
using Argv = std::vector<std::string>;

// Hidden in /tmp, so that neither listings of /workspace nor artifacts include these files.
constexpr std::string_view kBinary = "/tmp/.cloister-program";
constexpr std::string_view kBuildDir = "/tmp/.cloister-build";
constexpr std::string_view kInWorkspace = "/workspace/";

// Paths of a program's code and compiled files.
struct Places {
  std::string source;  // in the workspace
  std::string named;   // the same, as named in its command
  std::string binary;
  std::string dir;
};

// A run alone has the plain names. Programs of one session must not overwrite each other's code,
// nor a file of the session's, and may be started elsewhere than in the workspace.
Places placesOf(const Language& language, std::string_view tag) {
  if (tag.empty()) {
    return {language.source, language.source, std::string(kBinary), std::string(kBuildDir)};
  }
  const std::string suffix = "-" + std::string(tag);
  const std::string source =
      ".cloister" + suffix +
      language.source.substr(std::min(language.source.rfind('.'), language.source.size()));
  return {source, std::string(kInWorkspace) + source, std::string(kBinary) + suffix,
          std::string(kBuildDir) + suffix};
}

constexpr std::pair<std::string_view, std::string_view> kBaseEnvironment[] = {
    {"HOME", model::kHome},
    {"LANG", "C.UTF-8"},
    {"PATH", model::kDefaultPath},
    {"TMPDIR", "/tmp"},
};

// Without a network every retry is in vain: `npm i` would hang for 72 s. Debian's pip would refuse
// before it asks (PEP 668), and so would hide the true reason.
constexpr std::pair<std::string_view, std::string_view> kWithoutNetwork[] = {
    {"PIP_BREAK_SYSTEM_PACKAGES", "1"},
    {"PIP_RETRIES", "0"},
    {"npm_config_fetch_retries", "0"},
};

void replaceAll(std::string& text, std::string_view what, std::string_view with) {
  for (size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + with.size()))
    text.replace(at, what.size(), with);
}

Argv expand(const Argv& pattern, const Places& places, const RunRequest& request) {
  const std::string memory_mb = std::to_string(request.limits.memory_bytes >> 20);
  Argv argv;
  for (std::string word : pattern) {
    if (word == "{args}") {
      argv.insert(argv.end(), request.args.begin(), request.args.end());
      continue;
    }
    replaceAll(word, "{source}", places.named);
    replaceAll(word, "{binary}", places.binary);
    replaceAll(word, "{dir}", places.dir);
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

// The request's own variables take precedence over the language's, and those over the base.
std::vector<std::string> environment(const RunRequest& request, const Language* language,
                                     const model::LanguageSet::Environment& with_network) {
  std::map<std::string, std::string> env = request.env;
  if (language != nullptr) env.insert(language->env.begin(), language->env.end());
  if (request.network.tier != "none") env.insert(with_network.begin(), with_network.end());
  env.insert(std::begin(kBaseEnvironment), std::end(kBaseEnvironment));
  const bool layered = !request.deps.empty() || !request.layers_of.empty();
  const std::string& of = !request.layers_of.empty() ? request.layers_of
                          : language != nullptr      ? language->name
                                                     : request.language;
  if (const auto ecosystem = model::ecosystemOf(of); layered && ecosystem) {
    model::addLayerEnv(*ecosystem, env);
  }
  if (request.network.tier == "none")
    env.insert(std::begin(kWithoutNetwork), std::end(kWithoutNetwork));
  std::vector<std::string> list;
  list.reserve(env.size());
  for (const auto& [name, value] : env)
    list.push_back(name + "=" + value);
  return list;
}

Result<> addCode(const RunRequest& request, const Language& language, const Places& places,
                 model::ExecSpec& spec) {
  const auto clash = std::ranges::find_if(request.files, [&](const model::FileSpec& file) {
    return file.path == places.source || file.path.starts_with(places.source + "/");
  });
  if (clash != request.files.end()) {
    return fail(Code::kInvalid,
                "files: \"" + clash->path + "\" is where the code goes; use another name", "files");
  }
  spec.files.push_back({places.source, request.code, 0644});
  if (!language.compile.empty()) {
    spec.compile.push_back({expand(language.compile, places, request), language.compile_timeout});
  }
  spec.run.argv = expand(language.run, places, request);
  if (places.named != places.source) {
    spec.temporary.push_back(places.named);
    if (!spec.compile.empty()) {
      spec.temporary.push_back(places.binary);
      spec.temporary.push_back(places.dir);
    }
  }
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

model::ExecSpec resolveKernel(const Language& language, const RunRequest& request,
                              const std::string& dir, const model::LanguageSet& languages) {
  model::ExecSpec spec;
  for (std::string word : language.kernel) {
    replaceAll(word, "{dir}", dir);
    if (word == "{kernel}") word = language.kernel_text;
    spec.run.argv.push_back(std::move(word));
  }
  spec.env = environment(request, &language, languages.withNetwork());
  return spec;
}

Result<model::ExecSpec> resolve(const RunRequest& request, const model::LanguageSet& languages,
                                std::string_view tag) {
  const Language* language = nullptr;
  if (!request.language.empty()) {
    language = languages.find(request.language);
    if (language == nullptr) return unknownLanguage(request.language, languages);
  }
  model::ExecSpec spec;
  if (!std::holds_alternative<std::monostate>(request.command)) {
    spec.run.argv = commandArgv(request);
  } else if (language != nullptr) {
    TRY(addCode(request, *language, placesOf(*language, tag), spec));
  } else {
    return fail(Code::kInvalid, "language: is required with code", "language");
  }
  spec.run.timeout = request.limits.wall;
  spec.files.insert(spec.files.end(), request.files.begin(), request.files.end());
  spec.env = environment(request, language, languages.withNetwork());
  spec.input = request.input;
  spec.artifacts.globs = request.artifacts;
  return spec;
}

}  // namespace cloister::policy
