// SPDX-License-Identifier: Apache-2.0
// The parts of the service that need no socket.
#include <gtest/gtest.h>

#include "egress/service/bucket.h"
#include "egress/service/record.h"

namespace cloister::egress {
namespace {

using wire::egress::Attempts;

Attempts attemptTo(const std::string& host, const std::string& permit = "permit_1") {
  Attempts attempts;
  attempts.permit = permit;
  attempts.host = host;
  attempts.transport = "tcp";
  attempts.count = 1;
  return attempts;
}

TEST(Record, EqualAttemptsAreOne) {
  Record record(100, 10);
  Attempts more = attemptTo("a.test");
  more.bytes_in = 5;
  more.bytes_out = 7;
  record.add(attemptTo("a.test"));
  record.add(more);
  record.add(attemptTo("b.test"));
  Attempts allowed = attemptTo("a.test");
  allowed.allowed = true;
  record.add(allowed);
  ASSERT_TRUE(record.close());
  EXPECT_FALSE(record.close()) << "nothing new";
  ASSERT_EQ(record.kept().size(), 1U);
  const auto& batch = record.kept().front();
  EXPECT_EQ(batch.number, 11U);
  ASSERT_EQ(batch.attempts.size(), 3U);
  EXPECT_EQ(batch.attempts[0].count, 2U);
  EXPECT_EQ(batch.attempts[0].bytes_in, 5U);
  EXPECT_EQ(batch.attempts[0].bytes_out, 7U);
}

TEST(Record, APermitHasItsPartOfABatch) {
  Record record(10'000, 0);
  for (size_t i = 0; i < 2 * Record::kMostOfPermit; ++i)
    record.add(attemptTo(std::to_string(i) + ".test"));
  record.add(attemptTo("other.test", "permit_2"));
  ASSERT_TRUE(record.close());
  EXPECT_EQ(record.kept().front().attempts.size(), Record::kMostOfPermit + 1);
  EXPECT_EQ(record.kept().front().left_out, Record::kMostOfPermit);
}

TEST(Record, AFullBatchIsClosed) {
  Record record(10'000, 0);
  for (size_t i = 0; i <= wire::egress::kMaxBatch; ++i)
    record.add(attemptTo("a.test", "permit_" + std::to_string(i)));
  ASSERT_EQ(record.kept().size(), 1U);
  EXPECT_EQ(record.kept().front().attempts.size(), wire::egress::kMaxBatch);
}

TEST(Record, AttemptsWithoutRoomAreCounted) {
  Record record(2, 0);
  record.add(attemptTo("a.test"));
  EXPECT_TRUE(record.accepts());
  record.add(attemptTo("b.test"));
  EXPECT_FALSE(record.accepts());
  record.add(attemptTo("c.test"));
  record.add(attemptTo("a.test"));
  ASSERT_TRUE(record.close());
  EXPECT_EQ(record.kept().front().left_out, 1U);
  EXPECT_EQ(record.kept().front().attempts[0].count, 2U);
  record.add(attemptTo("d.test"));
  EXPECT_FALSE(record.close()) << "only counted ones wait for the next batch";
  record.taken(1);
  EXPECT_TRUE(record.accepts());
  ASSERT_TRUE(record.close());
  EXPECT_EQ(record.kept().front().left_out, 1U);
}

TEST(Record, ALedgerThatRefusesStopsConnections) {
  Record record(2, 0);
  record.stop(true);
  EXPECT_FALSE(record.accepts());
  record.stop(false);
  EXPECT_TRUE(record.accepts());
}

TEST(Record, ReasonsAreCutBetweenCharacters) {
  Record record(2, 0);
  Attempts attempts = attemptTo("a.test");
  for (int i = 0; i < 400; ++i)
    attempts.reason += "ä";
  attempts.reason = "x" + attempts.reason;
  record.add(attempts);
  ASSERT_TRUE(record.close());
  EXPECT_EQ(record.kept().front().attempts[0].reason.size(), 511U);
}

TEST(Bucket, GivesItsBurstAndThenItsRate) {
  Bucket bucket(10, 2);
  const base::Monotonic begun = base::monotonicNow();
  EXPECT_TRUE(bucket.take(begun));
  EXPECT_TRUE(bucket.take(begun));
  EXPECT_FALSE(bucket.take(begun));
  EXPECT_FALSE(bucket.take(begun + Millis(50)));
  EXPECT_TRUE(bucket.take(begun + Millis(150)));
  EXPECT_FALSE(bucket.take(begun + Millis(160)));
  const base::Monotonic late = begun + Millis(3'600'000);
  EXPECT_TRUE(bucket.take(late));
  EXPECT_TRUE(bucket.take(late));
  EXPECT_FALSE(bucket.take(late)) << "never more than the burst";
  EXPECT_FALSE(bucket.full(late + Millis(100)));
  EXPECT_TRUE(bucket.full(late + Millis(201)));
}

}  // namespace
}  // namespace cloister::egress
