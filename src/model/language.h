// SPDX-License-Identifier: Apache-2.0
// Languages as data: one YAML file each in languages/. Adding one is adding a file.
#pragma once

#include <chrono>
#include <map>
#include <string>
#include <vector>

#include "base/result.h"
#include "model/run_request.h"

namespace cloister::model {

// In argv, {source} (the code's file), {binary} (an executable to make), {dir} (a directory to
// make, for what is built) and {memory_mb} (the sandbox's memory limit) are replaced; an item
// {args} of `run` stands for the request's arguments.
struct Language {
  std::string name;
  std::string title;
  std::vector<std::string> aliases;
  std::vector<std::string> extensions;  // ".py", for the CLI's FILE argument
  std::string source;                   // file name the code gets in /workspace
  std::vector<std::string> compile;     // argv, empty without a compiler
  std::chrono::milliseconds compile_timeout{60'000};
  std::vector<std::string> run;  // argv
  std::map<std::string, std::string> env;
  bool prestart = false;        // can be started ahead of its code, read from a FIFO
  std::string prestart_unless;  // except for code with this text in its first two lines; "" for all
  // Additional environment of a program started ahead; {file} is the path of a file with the text
  // of languages/prestart/FILE. Empty if none.
  std::map<std::string, std::string> prestart_env;
  std::string prestart_file;  // FILE
  std::string prestart_text;  // set by load()
  // Command of an interpreter that keeps its state between a session's cells: empty if none.
  // {kernel} is the text of languages/kernels/FILE, {dir} the directory of its FIFOs
  // (wire/kernel.h).
  std::vector<std::string> kernel;
  std::string kernel_file;                // FILE
  std::vector<std::string> kernel_parts;  // files whose text precedes FILE's
  std::string kernel_text;                // set by load()
  std::vector<std::string> zygote;  // modules to import ahead; empty: the language has no zygote
  std::vector<std::string>
      requires_paths;   // absolute; `a|b` means either; all must exist in the image
  std::string install;  // packages for the operator to install
};

// Parses a file; `name` is the file's stem, for messages. Unknown keys are errors.
Result<Language> parseLanguage(std::string_view yaml, std::string_view name);

// All languages by name and alias. Immutable once loaded, so shared between threads.
class LanguageSet {
 public:
  // Reads every *.yaml in `dir`; a broken file or a name given twice is an error naming the file.
  static Result<LanguageSet> load(const std::string& dir);

  // By name or alias; nullptr if unknown.
  [[nodiscard]] const Language* find(std::string_view name_or_alias) const;
  [[nodiscard]] const std::vector<Language>& all() const { return languages_; }

  // Variables for every program of a sandbox with a network (model/packages.h), whatever its
  // language. Set before the set is shared.
  using Environment = std::vector<std::pair<std::string, std::string>>;
  void setWithNetwork(Environment env) { with_network_ = std::move(env); }
  [[nodiscard]] const Environment& withNetwork() const { return with_network_; }

 private:
  std::vector<Language> languages_;
  std::map<std::string, size_t, std::less<>> index_;
  Environment with_network_;
};

}  // namespace cloister::model
