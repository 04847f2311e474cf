// SPDX-License-Identifier: Apache-2.0
// Codec, frames, and the strictness of the decoders.
#include <limits>
#include <utility>

#include <gtest/gtest.h>

#include "wire/archive.h"
#include "wire/files_codec.h"
#include "wire/frame.h"
#include "wire/node.h"

namespace cloister::wire {
namespace {

TEST(Codec, RoundTrips) {
  char buffer[64];
  Writer w(buffer, sizeof buffer);
  w.u8(1);
  w.u16(2);
  w.u32(3);
  w.u64(4);
  w.i64(-5);
  w.bytes("six");
  ASSERT_TRUE(w.ok());
  Reader r(w.view());
  EXPECT_EQ(r.u8(), 1);
  EXPECT_EQ(r.u16(), 2);
  EXPECT_EQ(r.u32(), 3U);
  EXPECT_EQ(r.u64(), 4U);
  EXPECT_EQ(r.i64(), -5);
  EXPECT_EQ(r.bytes(), "six");
  EXPECT_TRUE(r.done());
}

TEST(Codec, WriterNeverPassesItsEnd) {
  char buffer[5] = {0, 0, 0, 0, 'x'};
  Writer w(buffer, 4);
  w.u32(1);
  EXPECT_TRUE(w.ok());
  w.u8(2);
  EXPECT_FALSE(w.ok());
  EXPECT_EQ(buffer[4], 'x');
}

TEST(Codec, ReaderGivesZeroAfterTheFirstFault) {
  Reader r(
      std::string_view("\xff\xff\xff\xff"
                       "abc",
                       7));
  EXPECT_EQ(r.bytes(), "");
  EXPECT_FALSE(r.ok());
  EXPECT_EQ(r.u8(), 0);
  EXPECT_FALSE(r.done());
}

TEST(Frame, RefusesOtherGenerationsAndReservedBits) {
  char bytes[kHeaderBytes];
  FrameHeader header;
  encodeHeader(bytes, 7, 9, 100);
  ASSERT_TRUE(decodeHeader({bytes, sizeof bytes}, header));
  EXPECT_EQ(header.type, 7);
  EXPECT_EQ(header.channel, 9U);
  EXPECT_EQ(header.length, 100U);
  bytes[4] = kGeneration + 1;
  EXPECT_FALSE(decodeHeader({bytes, sizeof bytes}, header));
  bytes[4] = kGeneration;
  bytes[5] = 1;
  EXPECT_FALSE(decodeHeader({bytes, sizeof bytes}, header));
  EXPECT_FALSE(decodeHeader({bytes, 5}, header));
}

TEST(Decoders, RefuseValuesOutOfTheirBounds) {
  model::Outcome outcome;
  outcome.end = static_cast<model::End>(0);
  EXPECT_FALSE(decodeOutcome(encodeOutcome(outcome)));
  outcome.end = static_cast<model::End>(8);
  EXPECT_FALSE(decodeOutcome(encodeOutcome(outcome)));
  outcome.end = model::End::kExited;
  EXPECT_TRUE(decodeOutcome(encodeOutcome(outcome)));
  outcome.message = std::string(60'000, 'x');  // any program's words
  EXPECT_EQ(decodeOutcome(encodeOutcome(outcome))->message.size(), 4096U);

  model::ExecSpec spec;
  spec.files = {{"a", "", 04755}};
  EXPECT_FALSE(decodeExecSpec(encodeExecSpec(spec))) << "setuid";
  spec.files.clear();
  spec.compile.resize(2);
  EXPECT_FALSE(decodeExecSpec(encodeExecSpec(spec))) << "two compile steps";
  spec.compile.clear();
  spec.run.timeout = std::chrono::milliseconds(-1);
  EXPECT_FALSE(decodeExecSpec(encodeExecSpec(spec)));
  spec.run.timeout = std::chrono::milliseconds::max();
  EXPECT_FALSE(decodeExecSpec(encodeExecSpec(spec)));

  model::PermitFields permit;
  permit.tenant = std::string(257, 't');
  EXPECT_FALSE(decodePermit(encodePermit(permit)));
}

TEST(Decoders, DoNotBelieveACount) {
  // A count of four billion without elements.
  Encoder e;
  e.text("process", 0);
  e.text("local", 0);
  e.text("sha256:00", 0);
  e.number(std::numeric_limits<uint32_t>::max());
  EXPECT_FALSE(decodeProvisioned(e.take()));
}

TEST(Decoders, RefuseFlagsThatAreNeitherYesNorNo) {
  model::Outcome outcome;
  outcome.end = model::End::kExited;
  std::string bytes = encodeOutcome(outcome);
  bytes[bytes.size() - 17] = 2;  // artifacts_truncated, before two times of 8 bytes
  EXPECT_FALSE(decodeOutcome(bytes));
}

TEST(Decoders, RefuseAPoolBeyondItsBounds) {
  model::PoolStats full;
  full.kinds.resize(model::PoolStats::kMaxKinds, {.language = std::string(256, 'l')});
  const std::string bytes = encodePool(full);
  EXPECT_LE(bytes.size(), kMaxPool);
  EXPECT_EQ(decodePool(bytes), full);
  model::PoolStats more = full;
  more.kinds.emplace_back();
  EXPECT_FALSE(decodePool(encodePool(more)));
  for (auto* number : {&full.kinds[0].ready, &full.kinds[0].waiting, &full.zygotes, &full.dying}) {
    const uint32_t before = std::exchange(*number, 1'000'001);
    EXPECT_FALSE(decodePool(encodePool(full)));
    *number = before;
  }
  full.held = static_cast<model::PoolStats::Held>(3);
  EXPECT_FALSE(decodePool(encodePool(full)));
}

TEST(Usage, SaysWhatNobodyCounted) {
  model::Usage usage{.processes = 7};
  EXPECT_EQ(decodeUsage(encodeUsage(usage)), usage);
  usage.processes.reset();
  const auto read = decodeUsage(encodeUsage(usage));
  ASSERT_TRUE(read);
  EXPECT_EQ(read->processes, std::nullopt);
}

TEST(SandboxEnds, AreThoseThatANodeCanTell) {
  using Kind = model::SandboxEnd::Kind;
  for (const Kind kind : {Kind::kMemory, Kind::kRunnerLost}) {
    const auto read = decodeSandboxEnd(encodeSandboxEnd({kind, std::string(10'000, 'x')}));
    ASSERT_TRUE(read);
    EXPECT_EQ(read->kind, kind);
    EXPECT_EQ(read->message.size(), 4096U);
  }
  for (const Kind kind : {Kind::kNodeLost, Kind::kTornDown}) {
    EXPECT_FALSE(decodeSandboxEnd(encodeSandboxEnd({kind, "x"})));
  }
}

TEST(Errors, AreCutToWhatTheOtherSideAccepts) {
  const Error error{Code::kInternal, std::string(10'000, 'x'), std::string(10'000, 'f')};
  const auto back = decodeError(encodeError(error));
  ASSERT_TRUE(back);
  EXPECT_EQ(back->message.size(), 4096U);
}

TEST(FilePartTest, TheStateOfAName) {
  const files::State sent{.mode = 0100644,
                          .size = 5,
                          .path = "a/b",
                          .sum = std::string(32, '\x7f'),
                          .modified_s = -7,
                          .modified_ns = 999'999'999,
                          .device = 3,
                          .inode = uint64_t{1} << 60};
  const std::string bytes = files::encode(sent);
  for (size_t cut = 0; cut < bytes.size(); ++cut) {
    std::string_view rest = std::string_view(bytes).substr(0, cut);
    const auto part = files::takePart(rest);
    EXPECT_TRUE(part && !*part) << cut;
    EXPECT_EQ(rest.size(), cut) << "it takes nothing before all is there";
  }
  const std::string more = bytes + files::encode(files::EndOfEntries{0});
  std::string_view rest = more;
  const auto part = files::takePart(rest);
  ASSERT_TRUE(part && *part);
  const auto* state = std::get_if<files::State>(&**part);
  ASSERT_NE(state, nullptr);
  EXPECT_EQ(state->mode, sent.mode);
  EXPECT_EQ(state->size, sent.size);
  EXPECT_EQ(state->path, sent.path);
  EXPECT_EQ(state->sum, sent.sum);
  EXPECT_EQ(state->modified_s, sent.modified_s);
  EXPECT_EQ(state->modified_ns, sent.modified_ns);
  EXPECT_EQ(state->device, sent.device);
  EXPECT_EQ(state->inode, sent.inode);
  EXPECT_EQ(rest.size(), more.size() - bytes.size());
  const std::string long_path =
      files::encode(files::State{.mode = 0, .size = 0, .path = std::string(4097, 'x'), .sum = ""});
  rest = long_path;
  EXPECT_FALSE(files::takePart(rest));
}

TEST(ToolCallTest, OneAfterTheOtherAndNothingElse) {
  const std::string both = files::toolAnswerHead(2, 3) + "abc" + files::toolAnswerHead(7, 0);
  std::string_view rest = std::string_view(both).substr(0, 10);
  auto call = files::takeToolCall(rest);
  ASSERT_TRUE(call);
  EXPECT_FALSE(*call);  // not whole yet
  rest = both;
  call = files::takeToolCall(rest);
  ASSERT_TRUE(call && *call);
  EXPECT_EQ((*call)->caller, 2U);
  EXPECT_EQ((*call)->line, "abc");
  call = files::takeToolCall(rest);
  ASSERT_TRUE(call && *call);
  EXPECT_EQ((*call)->line, "");
  EXPECT_TRUE(rest.empty());
  for (const std::string& bad : {files::toolAnswerHead(files::kMostToolCallers, 1),
                                 files::toolAnswerHead(0, files::kMaxToolRequest + 1)}) {
    rest = bad;
    EXPECT_FALSE(files::takeToolCall(rest));
  }
}

}  // namespace
}  // namespace cloister::wire
