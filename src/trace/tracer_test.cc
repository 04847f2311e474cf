// SPDX-License-Identifier: Apache-2.0
#include "trace/tracer.h"

#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "trace/otlp/spans_json.h"

namespace cloister::trace {
namespace {

struct Kept final : Tracer {
  model::TraceContext admit(std::string_view) override { return {}; }
  void ended(Span span) override { spans.push_back(std::move(span)); }
  std::vector<Span> spans;
};

model::TraceContext sampled(bool flag = true) {
  auto context =
      *model::parseTraceparent("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01");
  context.sampled = flag;
  return context;
}

TEST(Step, IsASpanWithinItsParent) {
  Kept kept;
  Step outer(&kept, sampled(), "outer");
  Step inner = outer.within("inner");
  inner.set("a", int64_t{1});
  inner.fail("NOT_FOUND");
  inner.end();
  inner.end();
  ASSERT_EQ(kept.spans.size(), 1U);
  const Span& span = kept.spans[0];
  EXPECT_EQ(span.parent, outer.context().span);
  EXPECT_EQ(span.at.trace, sampled().trace);
  EXPECT_NE(span.at.span, outer.context().span);
  EXPECT_EQ(span.error, "NOT_FOUND");
  EXPECT_LE(span.start_us, span.end_us);
  Step moved = std::move(outer);
  EXPECT_FALSE(outer.recorded());  // NOLINT(bugprone-use-after-move)
  moved = {};
  EXPECT_EQ(kept.spans.back().name, "outer");
  EXPECT_EQ(kept.spans.back().parent, sampled().span);
}

TEST(Step, RecordsNothingOutsideOfATrace) {
  Kept kept;
  {
    Step one(&kept, sampled(false), "x");
    EXPECT_FALSE(one.recorded());
    EXPECT_FALSE(one.context());
    Step within = one.within("y");
    Step two(&kept, {}, "x");
    Step three(nullptr, sampled(), "x");
    three.set("a", true);
  }
  EXPECT_TRUE(kept.spans.empty());
}

TEST(Step, EndsByAResult) {
  Kept kept;
  Step step(&kept, sampled(), "x");
  EXPECT_EQ(step.endedBy(Result<int>(3)).value(), 3);
  Step failed(&kept, sampled(), "x");
  EXPECT_FALSE(failed.endedBy(Result<int>(fail(Code::kNotFound, "with a secret"))));
  ASSERT_EQ(kept.spans.size(), 2U);
  EXPECT_EQ(kept.spans[0].error, "");
  EXPECT_EQ(kept.spans[1].error, base::codeName(Code::kNotFound));
}

TEST(SpansJson, IsAnExportRequest) {
  Span span{.at = sampled(),
            .parent = {},
            .name = "a \"name\"",
            .kind = Kind::kServer,
            .start_us = 1'700'000'000'000'001,
            .end_us = 1'700'000'000'000'002,
            .attributes = {{"n", int64_t{-5}}, {"b", true}, {"t", std::string("x")}},
            .error = ""};
  const std::string text = otlp::toRequest({.version = "1.2", .instance = "svc_1"}, {&span, 1});
  EXPECT_NE(text.find(R"("startTimeUnixNano":"1700000000000001000")"), std::string::npos) << text;
  EXPECT_NE(text.find(R"({"key":"n","value":{"intValue":"-5"}})"), std::string::npos) << text;
  EXPECT_NE(text.find(R"({"key":"b","value":{"boolValue":true}})"), std::string::npos) << text;
  EXPECT_NE(text.find(R"("traceId":"4bf92f3577b34da6a3ce929d0e0e4736")"), std::string::npos);
  EXPECT_EQ(text.find("parentSpanId"), std::string::npos);
  EXPECT_EQ(text.find("status"), std::string::npos);
}

TEST(SpansJson, CountsWhatWasRejected) {
  EXPECT_EQ(otlp::rejectedIn(R"({"partialSuccess":{"rejectedSpans":"7"}})"), 7U);
  EXPECT_EQ(otlp::rejectedIn(R"({"partialSuccess":{"rejectedSpans":3}})"), 3U);
  for (const std::string_view none : {"", "{}", "[]", "no json", R"({"partialSuccess":null})",
                                      R"({"partialSuccess":{"rejectedSpans":-1}})",
                                      R"({"partialSuccess":{"rejectedSpans":"x"}})"})
    EXPECT_EQ(otlp::rejectedIn(none), 0U) << none;
}

}  // namespace
}  // namespace cloister::trace
