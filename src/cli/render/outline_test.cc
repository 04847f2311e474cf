// SPDX-License-Identifier: Apache-2.0
#include "cli/render/outline.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cli/render/screen.h"
#include "cli/render/yaml.h"

namespace cloister::cli {
namespace {

class Table : public testing::Test {
 protected:
  void TearDown() override { setScreen({}); }
};

constexpr Heading kHeadings[] = {{"ID", true}, {"WHAT"}, {"WHY"}};

TEST_F(Table, CutsTheWidestColumnsUntilItFits) {
  const std::vector<std::vector<std::string>> rows = {
      {std::string(30, 'i'), std::string(50, 'a'), std::string(20, 'b')}};
  setScreen({.columns = 80});
  EXPECT_EQ(table(kHeadings, rows), "ID" + std::string(30, ' ') + "WHAT" + std::string(24, ' ') +
                                        "WHY\n" + std::string(30, 'i') + "  " +
                                        std::string(25, 'a') + "…  " + std::string(20, 'b') + "\n");
  setScreen({.columns = 100});
  EXPECT_THAT(table(kHeadings, rows), testing::HasSubstr(std::string(45, 'a') + "…"));
  setScreen({.wide = true, .columns = 80});
  EXPECT_THAT(table(kHeadings, rows), testing::HasSubstr(std::string(50, 'a')));
}

TEST_F(Table, CountsCharactersAndNotBytes) {
  constexpr Heading kTwo[] = {{"A", true}, {"B"}};
  setScreen({.columns = 10});
  EXPECT_EQ(table(kTwo, {{"ä", "öööööööööö"}}), "A  B\nä  öööööö…\n");
}

TEST_F(Table, NeverCutsAnId) {
  setScreen({.columns = 20});
  EXPECT_THAT(table(kHeadings, {{std::string(30, 'i'), "a", ""}}),
              testing::HasSubstr(std::string(30, 'i') + "  a     -\n"));
}

TEST(Yaml, IsWhatReadersExpect) {
  const base::json::value value =
      base::parseJson(
          R"({"id":"ses_1","n":3,"none":null,"yes":"yes","text":"a: b\n","list":["x","1"],)"
          R"("empty":[],"map":{"b-c":{"d":true}},"rows":[{"k":"v","l":[1]},[2]],"date":"2030-01-01"})")
          .value();
  EXPECT_EQ(toYaml(value),
            "id: ses_1\n"
            "\"n\": 3\n"
            "none: null\n"
            "\"yes\": \"yes\"\n"
            "text: \"a: b\\n\"\n"
            "list:\n"
            "- x\n"
            "- \"1\"\n"
            "empty: []\n"
            "map:\n"
            "  b-c:\n"
            "    d: true\n"
            "rows:\n"
            "- k: v\n"
            "  l:\n"
            "  - 1\n"
            "-\n"
            "  - 2\n"
            "date: \"2030-01-01\"\n");
}

}  // namespace
}  // namespace cloister::cli
