// SPDX-License-Identifier: Apache-2.0
#include "model/language.h"

#include <filesystem>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "model/yaml.h"

namespace cloister::model {
namespace {

using ::testing::HasSubstr;

TEST(Yaml, ReadsTheCoreSchema) {
  const auto object = parseYaml(R"(
a: text
b: "1"
c: 1
d: -2.5
e: true
f:
g: [x, 'y', {h: null}]
i: >-
  folded
  text
j: inf
k: 1.2.3
)",
                                "f.yaml");
  ASSERT_TRUE(object) << object.error().message;
  EXPECT_EQ(base::toJson(*object),
            R"({"a":"text","b":"1","c":1,"d":-2.5E0,"e":true,"f":null,"g":["x","y",{"h":null}],)"
            R"("i":"folded text","j":"inf","k":"1.2.3"})");
}

struct BadYaml {
  std::string text;
  std::string_view why;
};

TEST(Yaml, RefusesWhatCanHideOrBlowUp) {
  const BadYaml cases[] = {
      {"", "empty"},
      {"- a", "must be a map"},
      {"a", "must be a map"},
      {"a: &x 1\nb: *x", "line 1: anchors"},
      {"a: [&x [1], 2]", "anchors"},
      {"a: 1\nb: *nowhere", "line 2"},
      {"a: !!python/object 1", "tags"},
      {"a: !x [1]", "tags"},
      {"a: !!str 1", "tags"},
      {"a: 1\na: 2", "line 2: a: given twice"},
      {"a: 1\n---\nb: 2", "more than one document"},
      {",", "more than one document"},
      {"? [a]\n: 1", "a key must be text"},
      {"a: [", "line"},
      {"a: \"\xff\"", ""},
      {"a: " + std::string(17, '[') + std::string(17, ']'), "nested too deeply"},
      {"a: " + std::string(60'000, '['), ""},
      {std::string(kMaxYamlBytes + 1, ' '), "larger than"},
      {"a: 'unfinished", "line"},
      {"\t", ""},
      {"a: b: c", "line"},
  };
  for (const BadYaml& bad : cases) {
    const auto object = parseYaml(bad.text, "f.yaml");
    ASSERT_FALSE(object) << bad.text.substr(0, 100);
    EXPECT_THAT(object.error().message, ::testing::StartsWith("f.yaml: "));
    EXPECT_THAT(object.error().message, HasSubstr(std::string(bad.why)));
  }
}

constexpr std::string_view kGood = R"(
name: x
title: X
aliases: [ex, x++]
extensions: [.x]
source: main.x
compile: [xc, -o, "{binary}", "{source}"]
compile_timeout_seconds: 5
run: ["{binary}", "{args}"]
env: {A: b}
requires: [/usr/bin/xc|/bin/xc]
install: apt-get install xc
)";

TEST(Language, ReadsEveryKey) {
  const Language x = parseLanguage(kGood, "x.yaml").value();
  EXPECT_EQ(x.name, "x");
  EXPECT_EQ(x.title, "X");
  EXPECT_THAT(x.aliases, ::testing::ElementsAre("ex", "x++"));
  EXPECT_THAT(x.extensions, ::testing::ElementsAre(".x"));
  EXPECT_EQ(x.source, "main.x");
  EXPECT_THAT(x.compile, ::testing::ElementsAre("xc", "-o", "{binary}", "{source}"));
  EXPECT_EQ(x.compile_timeout, std::chrono::seconds(5));
  EXPECT_THAT(x.run, ::testing::ElementsAre("{binary}", "{args}"));
  EXPECT_EQ(x.env.at("A"), "b");
  EXPECT_THAT(x.requires_paths, ::testing::ElementsAre("/usr/bin/xc|/bin/xc"));
  EXPECT_EQ(x.install, "apt-get install xc");
}

// The good file with the line of `key` replaced, or left out when `value` is empty.
std::string changed(std::string_view key, std::string_view value) {
  std::string text;
  std::istringstream lines{std::string(kGood)};
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with(std::string(key) + ":")) text += line + "\n";
  }
  if (!value.empty()) text += std::string(key) + ": " + std::string(value) + "\n";
  return text;
}

TEST(Language, NamesTheFileAndTheKeyThatIsWrong) {
  const std::pair<std::string_view, std::string_view> cases[] = {
      {"name", ""},
      {"name", "Upper"},
      {"name", "a b"},
      {"name", "7"},
      {"title", ""},
      {"aliases", "[A]"},
      {"aliases", "x"},
      {"extensions", "[x]"},
      {"extensions", "[../x]"},
      {"source", ""},
      {"source", "../x"},
      {"source", "a/b"},
      {"source", "-rf"},
      {"source", ".x"},
      {"run", ""},
      {"run", "[]"},
      {"run", "[1]"},
      {"run", "['']"},
      {"run", "[a, '{b}']"},
      {"run", "['{source']"},
      {"run", "[a, 'x{args}']"},
      {"compile", "xc"},
      {"env", "[a]"},
      {"env", "{A: 1}"},
      {"env", "{'A=B': c}"},
      {"requires", "[bin/x]"},
      {"install", ""},
      {"compile", "[xc, '{args}']"},
      {"compile_timeout_seconds", "0"},
      {"compile_timeout_seconds", "soon"},
      {"kernel_file", "x.py"},
      {"kernel", "[x, '{kernel}']"},
      {"kernel", "[x, 'a{dir}']"},
      {"prestart_file", "x.js"},
      {"prestart_env", "{A: b}"},
      {"prestart_env", "{'A=': b}"},
      {"surprise", "1"},
  };
  for (const auto& [key, value] : cases) {
    const auto language = parseLanguage(changed(key, value), "x.yaml");
    ASSERT_FALSE(language) << key << ": " << value;
    EXPECT_THAT(language.error().message, ::testing::StartsWith("x.yaml: "));
    EXPECT_THAT(language.error().message, HasSubstr(std::string(key))) << value;
  }
}

class TempLanguages {
 public:
  TempLanguages() {
    std::string name = ::testing::TempDir() + "languages-XXXXXX";
    path_ = ::mkdtemp(name.data());
  }
  TempLanguages(const TempLanguages&) = delete;
  TempLanguages& operator=(const TempLanguages&) = delete;
  ~TempLanguages() { std::filesystem::remove_all(path_); }
  void put(const std::string& name, std::string_view text) const {
    std::ofstream(path_ + "/" + name) << text;
  }
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  std::string path_;
};

TEST(LanguageSet, FindsByNameAndAliasInAnyCase) {
  const TempLanguages dir;
  dir.put("x.yaml", kGood);
  dir.put("README.md", "not a language");
  const LanguageSet set = LanguageSet::load(dir.path()).value();
  EXPECT_EQ(set.all().size(), 1U);
  EXPECT_EQ(set.find("x"), set.all().data());
  EXPECT_EQ(set.find("EX"), set.all().data());
  EXPECT_EQ(set.find("x++"), set.all().data());
  EXPECT_EQ(set.find("y"), nullptr);
  EXPECT_EQ(set.find(""), nullptr);
}

TEST(LanguageSet, AKernelIsAFileBesideTheLanguages) {
  const TempLanguages dir;
  dir.put("x.yaml", std::string(kGood) + "kernel: [x, '{kernel}', '{dir}']\nkernel_file: x.sh\n");
  EXPECT_THAT(LanguageSet::load(dir.path()).error().message, HasSubstr("kernels/x.sh"));
  std::filesystem::create_directory(dir.path() + "/kernels");
  dir.put("kernels/x.sh", "text");
  const auto set = LanguageSet::load(dir.path());
  ASSERT_TRUE(set) << set.error().message;
  EXPECT_EQ(set->find("x")->kernel_text, "text");
  dir.put("kernels/x.sh", std::string(100'001, 'x'));
  EXPECT_FALSE(LanguageSet::load(dir.path()));
}

TEST(LanguageSet, AKernelMayHaveParts) {
  const TempLanguages dir;
  std::filesystem::create_directory(dir.path() + "/kernels");
  const std::string kernel = "kernel: [x, '{kernel}', '{dir}']\nkernel_file: x.sh\n";
  dir.put("x.yaml", std::string(kGood) + kernel + "kernel_parts: [a.sh, b.sh]\n");
  dir.put("kernels/x.sh", "x");
  dir.put("kernels/a.sh", std::string(60'000, 'a'));
  EXPECT_THAT(LanguageSet::load(dir.path()).error().message, HasSubstr("kernels/b.sh"));
  dir.put("kernels/b.sh", "b");
  EXPECT_EQ(LanguageSet::load(dir.path())->find("x")->kernel_text, std::string(60'000, 'a') + "bx");
  dir.put("kernels/b.sh", std::string(40'000, 'b'));  // all but the last byte would do
  EXPECT_THAT(LanguageSet::load(dir.path()).error().message, HasSubstr("together"));
  dir.put("x.yaml", std::string(kGood) + kernel + "kernel_parts: [../a.sh]\n");
  EXPECT_THAT(LanguageSet::load(dir.path()).error().message, HasSubstr("kernel_parts"));
  dir.put("x.yaml", std::string(kGood) + "kernel_parts: [a.sh]\n");
  EXPECT_THAT(LanguageSet::load(dir.path()).error().message, HasSubstr("kernel_parts"));
}

TEST(LanguageSet, WhatAWaitingInterpreterHasIsAFileBesideTheLanguages) {
  const TempLanguages dir;
  const std::string env = "prestart_env: {A: 'b {file}'}\nprestart_file: x.js\n";
  dir.put("x.yaml", changed("compile", "") + env);
  EXPECT_THAT(LanguageSet::load(dir.path()).error().message, HasSubstr("prestart_env"));
  dir.put("x.yaml", changed("compile", "") + "prestart: true\n" + env);
  EXPECT_THAT(LanguageSet::load(dir.path()).error().message, HasSubstr("prestart/x.js"));
  std::filesystem::create_directory(dir.path() + "/prestart");
  dir.put("prestart/x.js", "text");
  const auto set = LanguageSet::load(dir.path());
  ASSERT_TRUE(set) << set.error().message;
  EXPECT_EQ(set->find("x")->prestart_text, "text");
  EXPECT_EQ(set->find("x")->prestart_env.at("A"), "b {file}");
}

TEST(LanguageSet, RefusesABrokenFileAndATakenName) {
  const TempLanguages dir;
  EXPECT_FALSE(LanguageSet::load(dir.path()));
  EXPECT_FALSE(LanguageSet::load(dir.path() + "/nowhere"));
  dir.put("x.yaml", kGood);
  dir.put("y.yaml", changed("name", "ex"));
  EXPECT_THAT(LanguageSet::load(dir.path()).error().message, HasSubstr("y.yaml: the name"));
  dir.put("y.yaml", "name: [");
  EXPECT_THAT(LanguageSet::load(dir.path()).error().message, HasSubstr("y.yaml"));
}

TEST(LanguageSet, TheInstallationsOwnLoad) {
  const auto set = LanguageSet::load(CLOISTER_SOURCE_DIR "/languages");
  ASSERT_TRUE(set) << set.error().message;
  for (const char* name : {"python", "node", "javascript", "typescript", "bash", "c", "cpp", "go",
                           "rust", "java", "r", "py", "js", "ts", "sh", "c++"}) {
    EXPECT_NE(set->find(name), nullptr) << name;
  }
}

}  // namespace
}  // namespace cloister::model
