// SPDX-License-Identifier: Apache-2.0
#include "orchestrator/runs/workspace_state.h"

#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/crypto.h"
#include "base/json.h"
#include "orchestrator/runs/workspace_links.h"
#include "orchestrator/runs/workspace_list.h"

namespace cloister::orchestrator {
namespace {

using wire::files::State;

std::vector<State> names() {
  return {{.mode = 0100644, .size = 2, .path = "b", .sum = "two"},
          {.mode = 0100755, .size = 1, .path = "a", .sum = "one"},
          {.mode = 0120777, .size = 0, .path = "c", .sum = "a"}};
}

std::optional<std::string> change(std::vector<State> now) {
  return WorkspaceState(names()).firstChange(WorkspaceState(std::move(now)));
}

TEST(WorkspaceState, TheOrderOfNamesIsNothing) {
  std::vector<State> other = names();
  std::swap(other[0], other[2]);
  EXPECT_FALSE(change(other));
  EXPECT_EQ(WorkspaceState(names()).sha256(), WorkspaceState(other).sha256());
  EXPECT_TRUE(
      WorkspaceState(names()).shown().starts_with("3 files and directories, 3 bytes, sha256 "));
}

TEST(WorkspaceState, TheFirstNameThatDiffersIsTold) {
  std::vector<State> now = names();
  now[0].sum = "TWO";
  EXPECT_EQ(change(now), "b has changed");
  now[1].mode = 0100644;
  EXPECT_EQ(change(now), "a has another type or mode");
  now = names();
  now[2].sum = "b";
  EXPECT_EQ(change(now), "c has changed");
  now.pop_back();
  EXPECT_EQ(change(now), "c was removed");
  now = names();
  now.erase(now.begin());
  EXPECT_EQ(change(now), "b was removed");
  now = names();
  now.push_back({.mode = 0100644, .size = 0, .path = "aa\u202e", .sum = ""});
  EXPECT_EQ(change(now), "aa\\u{202e} is new");
  now.back().path = "z";
  EXPECT_EQ(change(now), "z is new");
  EXPECT_EQ(change({}), "a was removed");
}

TEST(WorkspaceState, ItsOwnModeIsAPartOfIt) {
  std::vector<State> one = names();
  one.push_back({.mode = 040755, .size = 0, .path = "", .sum = ""});
  std::vector<State> two = one;
  two.back().mode = 040777;
  const WorkspaceState was(one);
  EXPECT_EQ(was.firstChange(WorkspaceState(two)), "the workspace itself has another type or mode");
  EXPECT_TRUE(was.shown().starts_with("3 files and directories, 3 bytes")) << was.shown();
}

// Python and make compare modification times to choose between a file and its product.
TEST(WorkspaceState, TimesOfFilesAreAPartOfIt) {
  std::vector<State> now = names();
  now[1].modified_s = 1;
  EXPECT_EQ(change(now), "a has another modification time");
  now = names();
  now[0].modified_ns = 1;
  EXPECT_EQ(change(now), "b has another modification time");
  now[0].sum = "TWO";
  EXPECT_EQ(change(now), "b has changed");
}

// A write to one of these names changes the other.
TEST(WorkspaceState, NamesOfOneFileAreAPartOfIt) {
  const auto linked = [](size_t one, size_t two, uint64_t inode, uint64_t device = 1) {
    std::vector<State> all;
    for (const char* path : {"c", "a", "b"})
      all.push_back({.mode = 0100644, .size = 0, .path = path, .sum = "x"});
    for (const size_t each : {one, two}) {
      all[each].device = device;
      all[each].inode = inode;
    }
    return all;
  };
  const WorkspaceState was(linked(0, 1, 7));
  EXPECT_FALSE(was.firstChange(WorkspaceState(linked(1, 0, 9, 2)))) << "in another sandbox";
  EXPECT_EQ(was.firstChange(WorkspaceState(linked(1, 2, 7))), "b has other hard links");
  EXPECT_EQ(was.firstChange(WorkspaceState(linked(0, 2, 7))), "a has other hard links");
  std::vector<State> apart = linked(0, 1, 7);
  apart[1].device = 2;
  EXPECT_EQ(was.firstChange(WorkspaceState(apart)), "c has other hard links");
}

TEST(WorkspaceState, TellsWhatHasNoContent) {
  EXPECT_EQ(WorkspaceState(names()).firstWithoutContent(), std::nullopt);
  for (const auto& [mode, what] : std::initializer_list<std::pair<uint32_t, std::string>>{
           {010644, "the FIFO d/p"}, {0140755, "the socket d/p"}, {020666, "the device d/p"}}) {
    std::vector<State> with = names();
    with.push_back({.mode = mode, .size = 0, .path = "d/p", .sum = ""});
    with.push_back({.mode = 040755, .size = 0, .path = "d", .sum = ""});
    EXPECT_EQ(WorkspaceState(with).firstWithoutContent(), what);
  }
}

// No names that run into each other give the digest of others.
TEST(WorkspaceState, NamesAndContentAreApart) {
  const std::vector<State> one = {{.mode = 1, .size = 1, .path = "ab", .sum = "c"}};
  const std::vector<State> two = {{.mode = 1, .size = 1, .path = "a", .sum = "bc"}};
  EXPECT_NE(WorkspaceState(one).sha256(), WorkspaceState(two).sha256());
}

// As docs/ESCALATIONS.md says.
TEST(WorkspaceState, ItsDigestCanBeMadeByHand) {
  using namespace std::string_literals;
  const auto file = [](const char* path, int64_t s, uint32_t ns, uint64_t inode) {
    return State{.mode = 0100644,
                 .size = 5,
                 .path = path,
                 .sum = "\x12\xab",
                 .modified_s = s,
                 .modified_ns = ns,
                 .device = inode,
                 .inode = inode};
  };
  const WorkspaceState state({file("d", -1, 500'000'000, 0),
                              file("c", 1, 20, 7),
                              file("b", 1, 20, 7),
                              file("e", -2, 750'000'000, 0),
                              file("f", -3, 0, 0),
                              {.mode = 0120777, .size = 0, .path = "a/l", .sum = "../b"},
                              {.mode = 040755, .size = 0, .path = "", .sum = ""}});
  EXPECT_EQ(state.sha256(), base::sha256Hex("cloister-workspace v3\0"
                                            "40755 0 - - .\0\0"
                                            "120777 0 "s +
                                            base::sha256Hex("../b") +
                                            " - a/l\0\0"
                                            "100644 5 12ab 1.000000020 b\0b\0"
                                            "100644 5 12ab 1.000000020 c\0b\0"
                                            "100644 5 12ab -0.500000000 d\0\0"
                                            "100644 5 12ab -1.250000000 e\0\0"
                                            "100644 5 12ab -3.000000000 f\0\0"s));
}

base::json::object listed(std::vector<State> names, const char* request = "{}") {
  return base::parseJson(listOf(WorkspaceState(std::move(names)), request))->as_object();
}

TEST(WorkspaceList, HasAllThatIsBound) {
  const base::json::object list =
      listed({{.mode = 0100755, .size = 5, .path = "d/\u0430\xff", .sum = "\x12\xab"},
              {.mode = 0120777, .size = 0, .path = "l", .sum = "/usr/\u202e"},
              {.mode = 040711, .size = 0, .path = "", .sum = ""}});
  EXPECT_EQ(list.at("files"), 2);
  EXPECT_EQ(list.at("bytes"), 5);
  EXPECT_EQ(list.at("left_out"), 0);
  EXPECT_EQ(std::string(list.at("sha256").as_string()).size(), 64U);
  EXPECT_EQ(base::toJson(list.at("names")),
            R"([{"path":".","type":"directory","mode":"0711","bytes":null,"sha256":null,)"
            R"("target":null,"modified":null,"hard_link_of":null},)"
            R"({"path":"d/\\u{430}\\xff","type":"file","mode":"0755","bytes":5,"sha256":"12ab",)"
            R"("target":null,"modified":"1970-01-01T00:00:00.000000000Z","hard_link_of":null},)"
            R"({"path":"l","type":"link","mode":"0777","bytes":null,"sha256":null,)"
            R"("target":"/usr/\\u{202e}","modified":null,"hard_link_of":null}])");
}

TEST(WorkspaceList, HasTimesAndHardLinks) {
  const auto file = [](const char* path, int64_t s, uint32_t ns, uint64_t inode) {
    return State{.mode = 0100644,
                 .size = 0,
                 .path = path,
                 .sum = "x",
                 .modified_s = s,
                 .modified_ns = ns,
                 .device = 1,
                 .inode = inode};
  };
  const base::json::object list =
      listed({file("\u0430", 1'000'000'000, 1, 7), file("c", -1, 999'999'999, 7),
              file("d", 253'402'300'800, 0, 8), file("e", INT64_MIN, 0, 0)});
  std::string told;
  for (const auto& each : list.at("names").as_array())
    told += base::toJson(each.at("modified")) + " " + base::toJson(each.at("hard_link_of")) + "\n";
  EXPECT_EQ(told,
            "\"1969-12-31T23:59:59.999999999Z\" null\n"
            "null null\n"
            "null null\n"
            "\"2001-09-09T01:46:40.000000001Z\" \"c\"\n");
}

// Many earlier names must not hide the program from the approver.
TEST(WorkspaceList, IsBoundedAndHasWhatTheRequestNames) {
  std::vector<State> names = {{.mode = 0100644, .size = 1, .path = "z/deploy.sh", .sum = "x"},
                              {.mode = 0100644, .size = 1, .path = "zz", .sum = "x"}};
  for (size_t i = 0; i < kMostListed; ++i)
    names.push_back({.mode = 0100644, .size = 1, .path = "a" + std::to_string(i), .sum = "x"});
  const auto last = [](const base::json::object& list) {
    return std::string(list.at("names").as_array().back().at("path").as_string());
  };
  for (const char* request :
       {R"({"command":"cd z;bash ./z/deploy.sh"})", R"({"command":["bash","deploy.sh"],"cwd":"z"})",
        R"j({"code":"open('/workspace/z/deploy.sh')","cwd":"/workspace"})j"}) {
    const base::json::object list = listed(names, request);
    EXPECT_EQ(list.at("names").as_array().size(), kMostListed);
    EXPECT_EQ(list.at("left_out"), 2);
    EXPECT_EQ(last(list), "z/deploy.sh") << request;
  }
  for (State& each : names)
    each.path.insert(0, 1000, 'a');
  const std::string text = listOf(WorkspaceState(names), "{}");
  EXPECT_LT(text.size(), kMostListedBytes + 200);
  EXPECT_GT(text.size(), kMostListedBytes - 2000);
}

std::string leads(std::vector<std::pair<std::string, std::string>> links) {
  std::vector<State> names;
  for (auto& [path, target] : links)
    names.push_back({.mode = 0120777, .size = 0, .path = path, .sum = target});
  const auto out = linkOut(WorkspaceState(names));
  return out ? out->link + " " + out->where : "";
}

TEST(WorkspaceLinks, ThoseToWhatChangesAreFound) {
  EXPECT_EQ(leads({{"deploy.sh", "/tmp/real.sh"}}), "deploy.sh /tmp/real.sh");
  EXPECT_EQ(leads({{"b/c", "../../dev/shm/x"}}), "b/c /dev/shm/x");
  EXPECT_EQ(leads({{"d", "/dev/"}}), "d /dev");
  EXPECT_EQ(leads({{"d", "/dev/."}}), "d /dev");
  EXPECT_EQ(leads({{"d", "/dev/fd/3"}}), "d /dev/fd/3");
  EXPECT_EQ(leads({{"d", "//proc/./7/fd/3"}}), "d /proc/./7/fd/3");
  for (const char* place : {"/", "/..", "/var", "/usr", "/run/x", "/var/run/x", "/var/tmp",
                            "/var/lock", "/sys/x", "../tmp", "/workspace/../tmp/x"})
    EXPECT_NE(leads({{"d", place}}), "") << place;
  // Through others of the workspace, and from the directory that they are.
  EXPECT_EQ(leads({{"a", "b/x"}, {"b", "../tmp"}}), "a /tmp/x");
  EXPECT_EQ(leads({{"a", "e/f/up/tmp/x"}, {"e/f/up", "../../.."}}), "a /tmp/x");
  EXPECT_EQ(leads({{"a", "l/../../tmp/x"}, {"l", "d/e"}}), "") << "beneath d, it is /workspace/tmp";
  EXPECT_EQ(leads({{"a", "l/../../tmp/x"}, {"l", "d"}}), "a /tmp/x");
  // In the image it may go up from anywhere.
  EXPECT_EQ(leads({{"a", "/usr/lib/ssl/certs/../../../tmp"}}), "a /usr/lib/ssl/certs/../../../tmp");
}

TEST(WorkspaceLinks, OthersAreNone) {
  for (const char* target : {"/usr/bin/python3", "../usr/bin/python3", "/bin/sh", "/etc/hosts",
                             "/opt/x", "b", "./b/../c", "/workspace", "/workspace/tmp/x", "tmp/x",
                             "/tmpx", "/dev/null", "/dev/./urandom", "none"})
    EXPECT_EQ(leads({{"a", target}}), "") << target;
  EXPECT_EQ(leads({{"a", "a"}, {"b", "c"}, {"c", "b"}}), "") << "nothing can open them";
  EXPECT_FALSE(linkOut(WorkspaceState(names())));
}

// Many links, each of which goes through all the parts of another.
TEST(WorkspaceLinks, WhatTakesTooLongIsRefused) {
  std::string long_way;
  while (long_way.size() < 4000)
    long_way += "./";
  std::vector<std::pair<std::string, std::string>> links = {{"z", long_way + "x"}};
  for (int i = 0; i < 40'000; ++i)
    links.emplace_back("a" + std::to_string(i), "z");
  EXPECT_THAT(leads(links), testing::HasSubstr("too much to follow"));
}

}  // namespace
}  // namespace cloister::orchestrator
