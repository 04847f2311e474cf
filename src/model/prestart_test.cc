// SPDX-License-Identifier: Apache-2.0
#include "model/prestart.h"

#include <gtest/gtest.h>

namespace cloister::model {
namespace {

ExecSpec specOf(const std::string& code) {
  ExecSpec spec;
  spec.files.push_back({"main.py", code, 0644});
  spec.run.argv = {"python3", "main.py"};
  spec.env = {"A=1"};
  return spec;
}

TEST(Prestart, OnlyTheCodeMayDiffer) {
  const std::string key = prestartKey(specOf("print(1)"));
  EXPECT_EQ(key.size(), 64U);
  EXPECT_EQ(prestartKey(specOf("print(2)")), key);
  ExecSpec other = specOf("");
  other.run.argv.emplace_back("argument");
  EXPECT_NE(prestartKey(other), key);
  other = specOf("");
  other.env = {"A=2"};
  EXPECT_NE(prestartKey(other), key);
  other = specOf("");
  other.files[0].path = "other.py";
  EXPECT_NE(prestartKey(other), key);
}

TEST(Prestart, NothingElseMayBeNeeded) {
  ExecSpec with = specOf("");
  with.files.push_back({"data", "", 0644});
  EXPECT_EQ(prestartKey(with), "");
  with = specOf("");
  with.input = "x";
  EXPECT_EQ(prestartKey(with), "");
  with = specOf("");
  with.compile.push_back({{"cc"}, {}});
  EXPECT_EQ(prestartKey(with), "");
  EXPECT_EQ(prestartKey({}), "");
}

TEST(Prestart, TheLanguageSaysOfWhatCode) {
  Language language;
  EXPECT_FALSE(mayPrestart(language, ""));
  language.prestart = true;
  language.prestart_unless = "coding";
  EXPECT_TRUE(mayPrestart(language, "print(1)\nprint(2)\n# coding: latin-1\n"));
  EXPECT_FALSE(mayPrestart(language, "# coding: latin-1\n"));
  EXPECT_FALSE(mayPrestart(language, "#!/usr/bin/python3\n# coding: latin-1"));
  EXPECT_TRUE(mayPrestart(language, ""));
}

}  // namespace
}  // namespace cloister::model
