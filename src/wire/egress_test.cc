// SPDX-License-Identifier: Apache-2.0
#include "wire/egress.h"

#include <functional>

#include <gtest/gtest.h>

#include "base/json.h"

namespace cloister::wire::egress {
namespace {

const std::string kSomeDigest(64, 'a');

Attempts sampleAttempts() {
  return {.permit = "permit_1",
          .plan_sha256 = kSomeDigest,
          .host = "evil.test",
          .address = "",
          .port = 443,
          .transport = "tcp",
          .allowed = false,
          .rule = "",
          .reason = "No rule allows evil.test:443.",
          .at = 1'700'000'000'000'000,
          .count = 2,
          .bytes_in = 3,
          .bytes_out = 4};
}

Batch sampleBatch() {
  Attempts allowed = sampleAttempts();
  allowed.host = "api.example.com";
  allowed.address = "203.0.113.9";
  allowed.allowed = true;
  allowed.rule = "api";
  allowed.reason = "";
  return {.number = 7, .attempts = {sampleAttempts(), allowed}, .left_out = 9};
}

Wanted sampleWanted() {
  return {.permit = "permit_1",
          .host = "evil.test",
          .port = 443,
          .protocol = "tls",
          .rule = "api",
          .program = "curl",
          .waits = true};
}

Door sampleDoor() {
  return {.id = 5,
          .permit = "permit_1",
          .plan_sha256 = kSomeDigest,
          .transparent = true,
          .listeners = 1,
          .has_dns = true,
          .has_log = false};
}

TEST(EgressMessages, BatchesAreReadBack) {
  const std::string bytes = encodeBatch(sampleBatch());
  const auto batch = decodeBatch(bytes);
  ASSERT_TRUE(batch) << batch.error().message;
  EXPECT_EQ(batch->number, 7U);
  EXPECT_EQ(batch->left_out, 9U);
  ASSERT_EQ(batch->attempts.size(), 2U);
  const Attempts& refused = batch->attempts[0];
  EXPECT_EQ(refused.permit, "permit_1");
  EXPECT_EQ(refused.plan_sha256, kSomeDigest);
  EXPECT_EQ(refused.host, "evil.test");
  EXPECT_EQ(refused.port, 443);
  EXPECT_EQ(refused.transport, "tcp");
  EXPECT_FALSE(refused.allowed);
  EXPECT_EQ(refused.reason, "No rule allows evil.test:443.");
  EXPECT_EQ(refused.at, 1'700'000'000'000'000);
  EXPECT_EQ(refused.count, 2U);
  EXPECT_EQ(refused.bytes_in, 3U);
  EXPECT_EQ(refused.bytes_out, 4U);
  EXPECT_EQ(batch->attempts[1].address, "203.0.113.9");
  EXPECT_TRUE(batch->attempts[1].allowed);
  EXPECT_EQ(batch->attempts[1].rule, "api");
  EXPECT_EQ(encodeBatch(*batch), bytes);
}

TEST(EgressMessages, WantedDestinationsAreReadBack) {
  const std::string bytes = encodeWanted(sampleWanted());
  const auto wanted = decodeWanted(bytes);
  ASSERT_TRUE(wanted) << wanted.error().message;
  EXPECT_EQ(wanted->permit, "permit_1");
  EXPECT_EQ(wanted->host, "evil.test");
  EXPECT_EQ(wanted->port, 443);
  EXPECT_EQ(wanted->protocol, "tls");
  EXPECT_EQ(wanted->rule, "api");
  EXPECT_EQ(wanted->program, "curl");
  EXPECT_TRUE(wanted->waits);
  EXPECT_EQ(encodeWanted(*wanted), bytes);
}

TEST(EgressMessages, DoorsAreReadBack) {
  const std::string bytes = encodeDoor(sampleDoor());
  const auto door = decodeDoor(bytes);
  ASSERT_TRUE(door) << door.error().message;
  EXPECT_EQ(door->id, 5U);
  EXPECT_EQ(door->permit, "permit_1");
  EXPECT_EQ(door->plan_sha256, kSomeDigest);
  EXPECT_TRUE(door->transparent);
  EXPECT_EQ(door->listeners, 1U);
  EXPECT_TRUE(door->has_dns);
  EXPECT_FALSE(door->has_log);
  EXPECT_EQ(encodeDoor(*door), bytes);
}

TEST(EgressMessages, SignedPlansAreReadBack) {
  const model::SignedPlan plan{.encoded = "{}", .signature = std::string(64, 's')};
  const auto read = decodeSignedPlan(encodeSignedPlan(plan));
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(read->encoded, plan.encoded);
  EXPECT_EQ(read->signature, plan.signature);
  EXPECT_FALSE(decodeSignedPlan(encodeSignedPlan({"{}", std::string(63, 's')})));
  EXPECT_FALSE(decodeSignedPlan(encodeSignedPlan({"{}", std::string(65, 's')})));
  const std::string most(model::kMaxPlanBytes, ' ');
  EXPECT_TRUE(decodeSignedPlan(encodeSignedPlan({most, plan.signature})));
  EXPECT_FALSE(decodeSignedPlan(encodeSignedPlan({most + " ", plan.signature})));
}

TEST(EgressMessages, NothingShorterOrLongerIsAccepted) {
  const std::pair<std::string, std::function<bool(std::string_view)>> messages[] = {
      {encodeSignedPlan({"{}", std::string(64, 's')}),
       [](auto bytes) { return decodeSignedPlan(bytes).has_value(); }},
      {encodeBatch(sampleBatch()), [](auto bytes) { return decodeBatch(bytes).has_value(); }},
      {encodeWanted(sampleWanted()), [](auto bytes) { return decodeWanted(bytes).has_value(); }},
      {encodeDoor(sampleDoor()), [](auto bytes) { return decodeDoor(bytes).has_value(); }},
  };
  for (const auto& [bytes, accepts] : messages) {
    EXPECT_TRUE(accepts(bytes));
    EXPECT_FALSE(accepts(bytes + "x"));
    for (size_t n = 0; n < bytes.size(); ++n)
      EXPECT_FALSE(accepts(std::string_view(bytes).substr(0, n))) << n;
  }
}

bool acceptsAttempts(const std::function<void(Attempts&)>& change) {
  Batch batch = sampleBatch();
  change(batch.attempts[0]);
  return decodeBatch(encodeBatch(batch)).has_value();
}

TEST(EgressMessages, AttemptsAreSound) {
  EXPECT_TRUE(acceptsAttempts([](auto&) {}));
  EXPECT_TRUE(acceptsAttempts([](auto& a) { a.plan_sha256 = ""; })) << "before any plan";
  for (const char* transport : {"tcp", "udp", "dns", "icmp", "other"})
    EXPECT_TRUE(acceptsAttempts([&](auto& a) { a.transport = transport; }));
  EXPECT_FALSE(acceptsAttempts([](auto& a) { a.permit = ""; }));
  EXPECT_FALSE(acceptsAttempts([](auto& a) { a.permit = std::string(257, 'p'); }));
  EXPECT_FALSE(acceptsAttempts([](auto& a) { a.permit = "\xff"; }));
  EXPECT_FALSE(acceptsAttempts([](auto& a) { a.plan_sha256 = "aa"; }));
  EXPECT_FALSE(acceptsAttempts([](auto& a) { a.plan_sha256 = std::string(64, 'A'); }));
  EXPECT_TRUE(acceptsAttempts([](auto& a) { a.address = std::string(65, '1'); })) << "cut";
  EXPECT_FALSE(acceptsAttempts([](auto& a) { a.transport = "quic"; }));
  EXPECT_TRUE(acceptsAttempts([](auto& a) { a.count = 0; })) << "further bytes";
  EXPECT_FALSE(acceptsAttempts([](auto& a) { a.count = a.bytes_in = a.bytes_out = 0; }));
}

TEST(EgressMessages, BatchesAreBounded) {
  Batch batch = sampleBatch();
  Attempts large = sampleAttempts();
  large.permit = std::string(256, 'p');
  large.address = std::string(64, '1');
  large.host = large.rule = large.reason = std::string(5000, 'x');
  batch.attempts.assign(kMaxBatch, large);
  const std::string bytes = encodeBatch(batch);
  EXPECT_LT(bytes.size(), kMaxPayload);
  EXPECT_TRUE(decodeBatch(bytes));
  batch.attempts.push_back(sampleAttempts());
  EXPECT_FALSE(decodeBatch(encodeBatch(batch)));
}

// The sender makes texts of programs acceptable, so that no program can end the connection.
TEST(EgressMessages, TextsOfProgramsAreCutAndMadeUtf8) {
  const std::string binary = "a\xff\x01" + std::string(3000, '\xfe');
  const std::string wide = "a" + std::string(1000, 'b') + "\u00fc";
  for (const std::string& text : {binary, wide}) {
    Wanted wanted = sampleWanted();
    wanted.host = wanted.rule = wanted.program = text;
    const auto read = decodeWanted(encodeWanted(wanted));
    ASSERT_TRUE(read) << read.error().message;
    for (const std::string& each : {read->host, read->rule, read->program}) {
      EXPECT_TRUE(each.starts_with("a"));
      EXPECT_LE(each.size(), 256U);
      EXPECT_TRUE(base::isUtf8(each));
    }
    Batch batch = sampleBatch();
    batch.attempts[0].host = batch.attempts[0].rule = batch.attempts[0].reason = text;
    EXPECT_TRUE(decodeBatch(encodeBatch(batch)));
  }
  Wanted cut = sampleWanted();
  cut.program = std::string(255, 'p') + "\u00fc";
  EXPECT_EQ(decodeWanted(encodeWanted(cut))->program, std::string(255, 'p'));
}

TEST(EgressMessages, WantedDestinationsAreSound) {
  const auto accepts = [](auto change) {
    Wanted wanted = sampleWanted();
    change(wanted);
    return decodeWanted(encodeWanted(wanted)).has_value();
  };
  EXPECT_TRUE(accepts([](auto& w) { w.rule = w.program = ""; }));
  EXPECT_FALSE(accepts([](auto& w) { w.permit = ""; }));
  EXPECT_FALSE(accepts([](auto& w) { w.protocol = ""; }));
  EXPECT_FALSE(accepts([](auto& w) { w.protocol = "udp"; }));
}

TEST(EgressMessages, DoorsAreSound) {
  const auto accepts = [](auto change) {
    Door door = sampleDoor();
    change(door);
    return decodeDoor(encodeDoor(door)).has_value();
  };
  EXPECT_TRUE(accepts([](auto& d) { d.transparent = false; }));
  EXPECT_TRUE(accepts([](auto& d) { d.listeners = kMaxDoorListeners; }));
  EXPECT_FALSE(accepts([](auto& d) { d.listeners = kMaxDoorListeners + 1; }));
  EXPECT_FALSE(accepts([](auto& d) { d.listeners = 0; }));
  EXPECT_FALSE(accepts([](auto& d) { d.permit = ""; }));
  EXPECT_FALSE(accepts([](auto& d) { d.plan_sha256 = ""; }));
  EXPECT_FALSE(accepts([](auto& d) { d.plan_sha256 = std::string(64, 'g'); }));
}

TEST(EgressMessages, SecretsAreReadBack) {
  const Secrets secrets{.permit = "permit_1",
                        .values = {{"s1", "value-1"}, {"s2", std::string("\0\xff", 2)}}};
  const std::string bytes = encodeSecrets(secrets);
  const auto read = decodeSecrets(bytes);
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(read->permit, "permit_1");
  ASSERT_EQ(read->values.size(), 2U);
  EXPECT_EQ(read->values[0].id, "s1");
  EXPECT_EQ(read->values[0].value, "value-1");
  EXPECT_EQ(read->values[1].value, secrets.values[1].value);
  for (size_t size = 0; size < bytes.size(); ++size)
    EXPECT_FALSE(decodeSecrets(std::string_view(bytes).substr(0, size))) << size;
  EXPECT_FALSE(decodeSecrets(bytes + "x"));
}

TEST(EgressMessages, RefusesOddSecrets) {
  const auto reads = [](const Secrets& secrets) {
    return decodeSecrets(encodeSecrets(secrets)).has_value();
  };
  EXPECT_TRUE(reads({.permit = "p", .values = {{"s1", "v"}}}));
  EXPECT_FALSE(reads({.permit = "", .values = {{"s1", "v"}}}));
  EXPECT_FALSE(reads({.permit = "\xff", .values = {{"s1", "v"}}}));
  EXPECT_FALSE(reads({.permit = "p", .values = {{"", "v"}}}));
  EXPECT_FALSE(reads({.permit = "p", .values = {{"s1", ""}}}));
  EXPECT_FALSE(
      reads({.permit = "p", .values = {{"s1", std::string(model::kMaxSecretBytes + 1, 'v')}}}));
  EXPECT_FALSE(
      reads({.permit = "p",
             .values = std::vector<model::SecretValue>(model::kMaxSecretUses + 1, {"s1", "v"})}));
  // A refusal never repeats a value.
  const auto refused = decodeSecrets(encodeSecrets({.permit = "", .values = {{"s1", "hunter22"}}}));
  EXPECT_FALSE(refused.error().message.contains("hunter22"));
}

}  // namespace
}  // namespace cloister::wire::egress
