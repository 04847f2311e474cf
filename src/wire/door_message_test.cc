// SPDX-License-Identifier: Apache-2.0
#include "wire/door_message.h"

#include <gtest/gtest.h>

namespace cloister::wire::egress {
namespace {

constexpr uint64_t kSomeDoor = 0x1122334455667788;

Door someDoor() {
  return {.id = kSomeDoor,
          .permit = "permit_0123456789abcdef0123456789abcdef",
          .plan_sha256 = std::string(64, 'a'),
          .transparent = true,
          .listeners = 2,
          .has_dns = true,
          .has_log = true};
}

TEST(DoorMessage, ComesBackAsSent) {
  const auto attach = decodeDoorPacket(encodeAttach(someDoor()));
  ASSERT_TRUE(attach) << attach.error().message;
  EXPECT_EQ(attach->type, DoorMessage::kAttach);
  EXPECT_EQ(attach->door.id, kSomeDoor);
  EXPECT_EQ(attach->door.listeners, 2U);
  for (const DoorMessage type :
       {DoorMessage::kDetach, DoorMessage::kAttached, DoorMessage::kDetached}) {
    const auto packet = decodeDoorPacket(encodeDoorId(type, kSomeDoor));
    ASSERT_TRUE(packet);
    EXPECT_EQ(packet->type, type);
    EXPECT_EQ(packet->door.id, kSomeDoor);
  }
  const auto refused =
      decodeDoorPacket(encodeRefused(kSomeDoor, {Code::kDenied, "no plan", "", 0}));
  ASSERT_TRUE(refused);
  EXPECT_EQ(refused->door.id, kSomeDoor);
  EXPECT_EQ(refused->why.code, Code::kDenied);
  EXPECT_EQ(refused->why.message, "no plan");
}

TEST(DoorMessage, AQuestionAboutAProgramAndItsAnswerComeBack) {
  const Who who{.number = 7,
                .client = 0xC6120002,
                .client_port = 40'000,
                .asked = 0xC612004D,
                .asked_port = 443};
  const auto question = decodeDoorPacket(encodeWho(kSomeDoor, who));
  ASSERT_TRUE(question) << question.error().message;
  EXPECT_EQ(question->type, DoorMessage::kWho);
  EXPECT_EQ(question->door.id, kSomeDoor);
  EXPECT_EQ(question->who, who);
  const auto answer = decodeDoorPacket(encodeProgram(kSomeDoor, 7, "curl"));
  ASSERT_TRUE(answer) << answer.error().message;
  EXPECT_EQ(answer->type, DoorMessage::kProgram);
  EXPECT_EQ(answer->who.number, 7U);
  EXPECT_EQ(answer->program, "curl");
  EXPECT_EQ(decodeDoorPacket(encodeProgram(1, 7, ""))->program, "");
  EXPECT_EQ(decodeDoorPacket(encodeProgram(1, 7, std::string(100, 'x')))->program.size(),
            kMaxProgram);
  EXPECT_TRUE(decodeDoorPacket(encodeProgram(1, 7, "\xFF\xFE"))) << "a program chooses its name";
  for (const std::string& whole :
       {encodeWho(kSomeDoor, who), encodeProgram(kSomeDoor, 7, "curl")}) {
    for (size_t length = 0; length < whole.size(); ++length)
      EXPECT_FALSE(decodeDoorPacket(whole.substr(0, length))) << length;
    EXPECT_FALSE(decodeDoorPacket(whole + "x"));
  }
}

TEST(DoorMessage, RefusesEveryOtherPacket) {
  const std::string detach = encodeDoorId(DoorMessage::kDetach, kSomeDoor);
  for (size_t length = 0; length < detach.size(); ++length)
    EXPECT_FALSE(decodeDoorPacket(detach.substr(0, length))) << length;
  EXPECT_FALSE(decodeDoorPacket(detach + "x"));
  EXPECT_FALSE(decodeDoorPacket(encodeDoorId(static_cast<DoorMessage>(4), kSomeDoor)));
  EXPECT_FALSE(decodeDoorPacket(encodeAttach(someDoor()) + "x"));
  EXPECT_FALSE(decodeDoorPacket(encodeDoorId(DoorMessage::kRefused, kSomeDoor) + "x"));
  EXPECT_FALSE(decodeDoorPacket(std::string(kMaxDoorMessage + 1, '\1')));
}

}  // namespace
}  // namespace cloister::wire::egress
