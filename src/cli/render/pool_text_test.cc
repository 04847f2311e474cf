// SPDX-License-Identifier: Apache-2.0
#include "cli/render/pool_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace cloister::cli {
namespace {

using testing::HasSubstr;
using testing::Not;

base::json::object parsed(std::string_view text) {
  return base::parseJson(text).value().as_object();
}

const char* const kDurations =
    R"({"count":200,"sum":300000,"buckets":[{"le":250,"count":99},{"le":500,"count":100},)"
    R"({"le":5000000,"count":197}]})";

TEST(PoolText, SharesOfAHistogram) {
  const auto durations = parsed(kDurations);
  EXPECT_EQ(withinOf(durations, 49), "0.25 ms");
  EXPECT_EQ(withinOf(durations, 50), "0.5 ms");
  EXPECT_EQ(withinOf(durations, 90), "5 s");
  EXPECT_EQ(withinOf(durations, 99), "more than 5 s");
  EXPECT_EQ(withinOf(parsed(R"({"count":0,"sum":0,"buckets":[]})"), 50), "-");
  EXPECT_EQ(withinOf({}, 50), "-");
}

TEST(PoolText, SaysWhatThereIs) {
  const std::string durations = kDurations;
  const std::string text = poolText(
      parsed(R"({"kinds":[{"language":"py\u001bthon","limits":"default","scratch_bytes":201326592,)"
             R"("ready":3,"wanted":4,"making":1,"waiting":0}],"held":"memory","claims":{"ready":7,)"
             R"("none":0},"claim_us":)" +
             durations + R"(,"refill_us":{"count":0,"sum":0,"buckets":[]},"teardown_backlog":2,)" +
             R"("zygotes":1,"copies":5,"dead":6,"drained":8})"));
  EXPECT_THAT(text, HasSubstr("py?thon   default  192.0 MiB  3      4       1       0\n"));
  EXPECT_THAT(text, HasSubstr("7 ready, 0 none\n"));
  EXPECT_THAT(text, HasSubstr("200, half within 0.5 ms, 99 % within more than 5 s, 1.5 ms on"));
  EXPECT_THAT(text, HasSubstr("none yet\n"));
  EXPECT_THAT(text, HasSubstr("memory is short"));
  EXPECT_THAT(text, HasSubstr("1 standing, 5 copies made\n"));
  EXPECT_THAT(text, HasSubstr("6 found dead, 8 while memory was short\n"));
  EXPECT_THAT(text, HasSubstr("2 under way\n"));
  EXPECT_THAT(text, Not(HasSubstr("\x1b")));
}

TEST(PoolText, AnAnswerOfAnotherShapeIsNoHarm) {
  EXPECT_THAT(poolText({}), HasSubstr("nothing is kept ready"));
  EXPECT_THAT(poolText(parsed(R"({"kinds":[1,{}],"claims":{"ready":{}},"claim_us":{"count":1}})")),
              HasSubstr("more than 0 ms"));
}

}  // namespace
}  // namespace cloister::cli
