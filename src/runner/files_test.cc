// SPDX-License-Identifier: Apache-2.0
// The runner's own program, through the whole runner: files in and out, and archives.
#include "runner/files.h"

#include <errno.h>

#include <map>
#include <tuple>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/crypto.h"
#include "base/file.h"
#include "runner/testing/jail.h"
#include "wire/files.h"

namespace cloister::runner {
namespace {

using testing::Ended;
using ::testing::IsEmpty;
using testing::Jail;
using ::testing::Pair;
using ::testing::UnorderedElementsAre;
using wire::ToRunner;
using wire::files::Kind;

struct Entry {
  Kind kind = Kind::kEnd;
  uint32_t mode = 0;
  uint64_t size = 0;
  std::string path;
};

struct Answered {
  int error = 0;
  std::vector<Entry> entries;
  uint32_t left_out = 0;
  std::string rest;  // bytes after the first entry, if raw bytes follow
};

class FilesTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto jail = Jail::start(base::programDir() + "/cloister-runner");
    if (!jail) GTEST_SKIP() << jail.error().message;
    jail_ = std::move(*jail);
  }

  Ended serve(const std::vector<std::string>& request, const std::string& input) {
    jail_->startProgram(7, request, wire::kStartFiles | wire::kStartStdin);
    for (std::string_view rest = input; !rest.empty();) {
      const std::string_view piece = rest.substr(0, wire::kRunnerMaxPayload);
      jail_->send(ToRunner::kStdin, 7, piece);
      rest.remove_prefix(piece.size());
    }
    jail_->send(ToRunner::kStdin, 7);
    return jail_->finish(7);
  }

  Answered ask(const std::vector<std::string>& request, const std::string& input = "") {
    const Ended ended = serve(request, input);
    Answered answered;
    if (ended.code == wire::files::kFailed) {
      answered.error = static_cast<int>(wire::Reader(ended.err).u32());
      return answered;
    }
    EXPECT_EQ(ended.code, 0U) << ended.err;
    wire::Reader r(ended.out);
    while (!r.done()) {
      const auto kind = static_cast<Kind>(r.u8());
      if (kind == Kind::kEnd) {
        answered.left_out = r.u32();
        EXPECT_TRUE(r.done());
        break;
      }
      Entry entry{.kind = kind, .mode = r.u32(), .size = r.u64(), .path = {}};
      r.i64();
      entry.path = r.bytes();
      answered.entries.push_back(entry);
      if (request[0] != "read") continue;
      answered.rest = ended.out.substr(1 + 4 + 8 + 8 + 4 + entry.path.size());
      break;
    }
    return answered;
  }

  std::string content(const std::string& path) {
    return ask({"read", path, "0", "1000000000"}).rest;
  }
  std::map<std::string, Kind> tree(const std::string& path = "") {
    std::map<std::string, Kind> all;
    for (const Entry& entry : ask({"list", path, "128", "100000"}).entries)
      all[entry.path] = entry.kind;
    return all;
  }
  std::string packed(const std::string& path) { return serve({"pack", path}, "").out; }
  int shell(const std::string& script) { return static_cast<int>(jail_->shell(script).code); }

  std::unique_ptr<Jail> jail_;
};

TEST_F(FilesTest, WritesAndReadsInWholeAndInPart) {
  const std::string big(200'000, 'x');
  const Answered written = ask({"write", "dir/in/file", "384"}, big + "end");
  ASSERT_EQ(written.entries.size(), 1U);
  EXPECT_EQ(written.entries[0].size, 200'003U);
  EXPECT_EQ(written.entries[0].mode, 0600U);
  EXPECT_EQ(content("dir/in/file"), big + "end");
  EXPECT_EQ(ask({"read", "dir/in/file", "200000", "2"}).rest, "en");
  EXPECT_EQ(ask({"read", "dir/in/file", "200003", "2"}).rest, "");
  EXPECT_EQ(ask({"read", "dir/in/file", "999999999999", "2"}).rest, "");
  ask({"write", "dir/in/file", ""}, "new");
  EXPECT_EQ(content("dir/in/file"), "new");
  EXPECT_EQ(ask({"stat", "dir/in/file"}).entries.at(0).mode, 0600U) << "as it was";
  ask({"write", "empty", ""});
  EXPECT_EQ(ask({"stat", "empty"}).entries.at(0).mode, 0644U);
}

TEST_F(FilesTest, AnUploadThatEndsMidwayChangesNothing) {
  ask({"write", "file", ""}, "old");
  jail_->startProgram(7, {"write", "file", ""}, wire::kStartFiles | wire::kStartStdin);
  jail_->send(ToRunner::kStdin, 7, "half");
  jail_->send(ToRunner::kKill, 7);
  jail_->finish(7);
  EXPECT_EQ(content("file"), "old");
  EXPECT_THAT(tree(), UnorderedElementsAre(Pair("file", Kind::kFile)));
}

TEST_F(FilesTest, AppendsOnlyWhereItEnds) {
  EXPECT_EQ(ask({"append", "dir/file", "1"}, "x").error, ENOENT);
  ask({"append", "dir/file", "0"}, "one");
  EXPECT_EQ(ask({"append", "dir/file", "3"}, "two").entries.at(0).size, 6U);
  EXPECT_EQ(ask({"append", "dir/file", "3"}, "three").error, ESPIPE);
  EXPECT_EQ(content("dir/file"), "onetwo");
}

TEST_F(FilesTest, ListsAsDeepAndAsMuchAsAsked) {
  shell("mkdir -p a/b/c; touch a/1 a/b/2 a/b/c/3; ln -s /etc link; mkfifo fifo");
  EXPECT_THAT(tree("a"),
              UnorderedElementsAre(Pair("1", Kind::kFile), Pair("b", Kind::kDirectory),
                                   Pair("b/2", Kind::kFile), Pair("b/c", Kind::kDirectory),
                                   Pair("b/c/3", Kind::kFile)));
  const Answered top = ask({"list", "", "1", "100"});
  EXPECT_EQ(top.entries.size(), 3U);
  EXPECT_EQ(top.left_out, 0U);
  EXPECT_EQ(tree()["link"], Kind::kLink);
  EXPECT_EQ(tree()["fifo"], Kind::kOther);
  const Answered cut = ask({"list", "", "9", "2"});
  EXPECT_EQ(cut.entries.size(), 2U);
  EXPECT_GT(cut.left_out, 0U);
  EXPECT_EQ(ask({"list", "a/1", "1", "9"}).error, ENOTDIR);
  EXPECT_EQ(ask({"list", "link", "1", "9"}).error, ENOTDIR);
}

TEST_F(FilesTest, FollowsNoLinkAndLeavesTheWorkspaceNowhere) {
  shell("ln -s /etc/passwd file; ln -s /etc dir; ln -s / root; echo kept > real; ln -s real near");
  for (const std::string path : {"file", "near", "dir/passwd", "root/etc/passwd"}) {
    EXPECT_EQ(ask({"read", path, "0", "9"}).error, ELOOP) << path;
    EXPECT_NE(ask({"append", path, "0"}, "x").error, 0) << path;
    EXPECT_NE(ask({"list", path, "1", "9"}).error, 0) << path;
  }
  for (const std::string path :
       {"/etc/passwd", "../etc/passwd", "a/../../etc", ".", "..", "a//b", "a/", "./a"}) {
    for (const std::vector<std::string>& request :
         {std::vector<std::string>{"read", path, "0", "9"},
          {"write", path, ""},
          {"stat", path},
          {"append", path, "0"},
          {"mkdir", path},
          {"remove", path, "1"},
          {"move", path, "x", "1"},
          {"move", "real", path, "1"},
          {"pack", path},
          {"unpack", path},
          {"list", path, "1", "1"}})
      EXPECT_EQ(ask(request).error, EINVAL) << request[0] << " " << path;
  }
  EXPECT_EQ(ask({"write", "dir/new", ""}, "x").error, ENOTDIR);
  EXPECT_EQ(ask({"mkdir", "dir/new"}).error, ENOTDIR);
  ask({"write", "file", ""}, "mine");  // takes the link's place
  EXPECT_EQ(tree()["file"], Kind::kFile);
  EXPECT_EQ(ask({"remove", "root", "1"}).error, 0) << "the link goes, not what it names";
  EXPECT_EQ(shell("test -e /bin/sh"), 0);
}

TEST_F(FilesTest, ServesEachRootAndNothingBeyond) {
  shell("ln -s /workspace /home/user/out; mkdir /home/other; echo kept > kept");
  for (const std::string root : {"/workspace", "/home/user", "/tmp"}) {
    ask({"write", root + "/in/file", "384"}, "one");
    EXPECT_EQ(content(root + "/in/file"), "one") << root;
    EXPECT_EQ(ask({"append", root + "/in/file", "3"}, "two").entries.at(0).size, 6U) << root;
    EXPECT_EQ(jail_->shell("cat " + root + "/in/file; stat -c %a " + root + "/in/file").out,
              "onetwo600\n");
    EXPECT_THAT(tree(root + "/in"), UnorderedElementsAre(Pair("file", Kind::kFile)));
    EXPECT_EQ(ask({"stat", root}).entries.at(0).kind, Kind::kDirectory);
    EXPECT_EQ(ask({"mkdir", root + "/made/here"}).error, 0);
    EXPECT_EQ(ask({"move", root + "/in/file", root + "/made/file", "0"}).error, 0);
    const std::string archive = packed(root + "/made");
    EXPECT_EQ(ask({"unpack", root + "/again"}, archive).error, 0);
    EXPECT_EQ(content(root + "/again/file"), "onetwo");
    EXPECT_EQ(ask({"remove", root, "1"}).error, EINVAL);
    for (const std::string path : {"/", "/..", "/../etc", "/a/../b", "/./a", "//a", "/a/", "x/a"})
      EXPECT_EQ(ask({"write", root + path, ""}, "x").error, EINVAL) << root << path;
  }
  for (const std::string path :
       {"/", "/home", "/home/other/x", "/home/userx", "/dev/shm/x", "/etc"})
    EXPECT_EQ(ask({"write", path, ""}, "x").error, EINVAL) << path;
  EXPECT_EQ(ask({"read", "/home/user/out/kept", "0", "9"}).error, ELOOP);
  EXPECT_EQ(ask({"move", "kept", "/home/user/kept", "0"}).error, EXDEV);
}

TEST_F(FilesTest, WhatIsNoFileIsNotReadAndHoldsNothingUp) {
  shell("mkfifo fifo; mkdir dir");
  EXPECT_EQ(ask({"read", "fifo", "0", "9"}).error, EINVAL);
  EXPECT_EQ(ask({"read", "dir", "0", "9"}).error, EISDIR);
  EXPECT_EQ(ask({"write", "dir", ""}, "x").error, EISDIR);
  EXPECT_EQ(ask({"append", "fifo", "0"}, "x").error, ENXIO);
  EXPECT_EQ(ask({"read", "gone", "0", "9"}).error, ENOENT);
  EXPECT_EQ(ask({"pack", "fifo"}).error, EINVAL);
}

TEST_F(FilesTest, MakesMovesAndRemoves) {
  EXPECT_EQ(ask({"mkdir", "a/b"}).entries.at(0).kind, Kind::kDirectory);
  EXPECT_EQ(ask({"mkdir", "a/b"}).error, 0);
  ask({"write", "a/b/file", ""}, "x");
  ask({"write", "other", ""}, "y");
  EXPECT_EQ(ask({"mkdir", "other"}).error, ENOTDIR);
  EXPECT_EQ(ask({"move", "a/b/file", "other", "0"}).error, EEXIST);
  EXPECT_EQ(ask({"move", "a/b/file", "other", "1"}).error, 0);
  EXPECT_EQ(content("other"), "x");
  EXPECT_EQ(ask({"move", "other", "new/place", "0"}).error, 0);
  EXPECT_EQ(ask({"remove", "new", "0"}).error, ENOTEMPTY);
  EXPECT_EQ(ask({"remove", "a/b", "0"}).error, 0);
  EXPECT_EQ(ask({"remove", "new", "1"}).error, 0);
  EXPECT_EQ(ask({"remove", "new", "1"}).error, ENOENT);
  EXPECT_THAT(tree(), UnorderedElementsAre(Pair("a", Kind::kDirectory)));
}

TEST_F(FilesTest, RemovesAWideTreeWhole) {
  shell(
      "for d in 1 2 3; do mkdir -p t/$d/e; i=0; while [ $i -lt 700 ]; do : > t/$d/e/f$i;"
      " i=$((i+1)); done; done");
  EXPECT_EQ(ask({"remove", "t", "1"}).error, 0);
  EXPECT_THAT(tree(), IsEmpty());
}

TEST_F(FilesTest, RefusesWhatItDoesNotKnow) {
  for (const std::vector<std::string>& request : {std::vector<std::string>{"run", "x"},
                                                  {"read"},
                                                  {"read", "x", "0"},
                                                  {""},
                                                  {"stat", "x", "y"}})
    EXPECT_EQ(ask(request).error, ENOSYS);
  for (const std::string number : {"", "-1", "x", "1x", "99999999999999999999"})
    EXPECT_EQ(ask({"read", "x", number, "1"}).error, EINVAL) << number;
}

// A header block with a correct checksum.
std::string block(const std::string& name, char type, const std::string& link = "",
                  uint64_t size = 0, const std::string& mode = "0006777") {
  std::string b(512, '\0');
  b.replace(0, name.size(), name);
  b.replace(100, mode.size(), mode);
  char digits[12];
  std::snprintf(digits, sizeof digits, "%011llo", static_cast<unsigned long long>(size));
  b.replace(124, 11, digits, 11);
  b[156] = type;
  b.replace(157, link.size(), link);
  b.replace(257, 8, std::string("ustar\00000", 8));
  b.replace(148, 8, 8, ' ');
  unsigned sum = 0;
  for (const char c : b)
    sum += static_cast<unsigned char>(c);
  std::snprintf(digits, sizeof digits, "%06o", sum);
  b.replace(148, 6, digits, 6);
  b[154] = '\0';
  return b;
}
std::string padded(std::string text) {
  text.resize((text.size() + 511) / 512 * 512);
  return text;
}
const std::string kNoMore(1024, '\0');

TEST_F(FilesTest, SavesAndRestoresTheHomeDirectory) {
  const std::string deep = std::string(90, 'd') + "/" + std::string(90, 'e');
  shell("echo w > w; mkdir -p home/user; echo no > home/user/f; mkdir -p /home/user/.local/" +
        deep + " /home/user/.shut /home/user/" + deep +
        "; cd /home/user; echo h > .profile; echo z > .shut/f; ln -s .profile link;"
        " echo deep > " +
        deep + "/f; chmod 0 .shut; chmod 444 .profile; touch -d @77 .profile");
  const std::string look =
      "chmod 700 /home/user/.shut; cd /; find workspace home/user -printf '%p %y %l %m\\n' | sort;"
      " cat home/user/.shut/f home/user/.profile home/user/" +
      deep + "/f; stat -c %Y home/user/.profile";
  const std::string archive = serve({"save"}, "").out;
  const std::string before = jail_->shell(look).out;
  shell("rm -rf /workspace/* /home/user/.[a-z]* /home/user/*");
  EXPECT_EQ(ask({"restore"}, archive).error, 0);
  EXPECT_EQ(jail_->shell("stat -c %a /home/user/.shut").out, "0\n");
  EXPECT_EQ(jail_->shell(look).out, before);
  EXPECT_EQ(ask({"unpack", ""}, archive).error, EINVAL) << "clients' archives stay in one place";
  const std::string elsewhere = block("/home/userx/f", '0') + kNoMore;
  EXPECT_EQ(ask({"restore"}, elsewhere).error, EINVAL);
  for (const std::string name : {"/home/user/../x", "/home/user/", "/home/user//x", "/etc/x"})
    EXPECT_EQ(ask({"restore"}, block(name, '0') + kNoMore).error, EINVAL) << name;
  EXPECT_EQ(ask({"restore"}, block("/home/user/h", '1', "/etc/passwd") + kNoMore).error, EINVAL);
}

TEST_F(FilesTest, PacksWhatTarUnpacksAndTheOtherWay) {
  const std::string deep = std::string(90, 'd') + "/" + std::string(90, 'e');
  shell("mkdir -p src/" + deep +
        "; printf one > src/file; chmod 750 src/file; mkfifo src/fifo;"
        " printf two > 'src/with space'; ln -s nowhere src/link; yes | head -c 100000 > src/" +
        deep + "/zeros; touch -d @1000000000 src/file");
  const std::string archive = packed("src");
  EXPECT_EQ(archive.size() % 512, 0U);
  ask({"write", "a.tar", ""}, archive);
  if (shell("command -v tar") == 0) {
    const Ended tar = jail_->shell(
        "mkdir theirs && tar -xf a.tar -C theirs && rm src/fifo &&"
        " diff -r --no-dereference src theirs && stat -c %a-%Y theirs/file");
    EXPECT_EQ(tar.out, "750-1000000000\n") << tar.err;
    shell("ln src/file src/twin");
    const std::string made = jail_->shell("tar -C src -cf - .; rm src/twin").out;
    EXPECT_EQ(ask({"unpack", "again"}, made).error, 0);
    EXPECT_EQ(
        jail_->shell("ln src/file src/twin; diff -r --no-dereference src again; rm src/twin").out,
        "");
  }
  EXPECT_EQ(ask({"unpack", "mine"}, archive).error, 0);
  EXPECT_EQ(shell("rm -f src/fifo; diff -r --no-dereference src mine"), 0);
  EXPECT_EQ(packed("src/file").substr(0, 5), std::string("file\0", 5));
}

TEST_F(FilesTest, ArchivesKeepTheModesAndTimesOfAll) {
  shell(
      "mkdir -p src/closed/in src/shut src/gone; echo x > src/closed/in/f; echo x > src/shut/f;"
      " echo x > src/none; echo x > src/read; ln -s nowhere src/l; touch -hd @77 src/l;"
      " touch -d @1000000000.123456789 src/closed/in src/read; chmod 444 src/read;"
      " chmod 555 src/closed src/closed/in; chmod 0 src/none src/shut; chmod 300 src/gone;"
      " touch -d @1000000001 src/closed src/gone");
  const std::string list = " -mindepth 1 -printf '%P %y %m %T@\\n' 2>&1 | sort";
  const std::string before = jail_->shell("cd src; find ." + list).out;
  const std::string archive = packed("src");
  EXPECT_EQ(jail_->shell("cd src; find ." + list).out, before) << "packing changes nothing";
  EXPECT_EQ(ask({"unpack", "mine"}, archive).error, 0);
  EXPECT_EQ(jail_->shell("cd mine; find ." + list).out, before);
  EXPECT_EQ(ask({"unpack", "twice/two"},
                block("d/", '5', "", 0, "0000700") + block("d/e/", '5', "", 0, "0000111") + kNoMore)
                .error,
            0);
  EXPECT_EQ(jail_->shell("stat -c %a twice/two/d twice/two/d/e").out, "700\n111\n");
}

TEST_F(FilesTest, AnArchiveThatIsKilledLeavesTheModesAsTheyWere) {
  shell(
      "mkdir -p src/shut; yes | head -c 4000000 > src/shut/large;"
      " chmod 0 src/shut/large src/shut");
  jail_->startProgram(7, {"pack", "src"}, wire::kStartFiles);
  // Waits until writing is under way, with more data than all buffers hold.
  for (size_t got = 0; got < 200'000;) {
    const auto frame = jail_->next();
    ASSERT_TRUE(frame) << frame.error().message << " after " << got;
    if (frame->type == wire::FromRunner::kStdout) got += frame->payload.size();
  }
  jail_->send(ToRunner::kKill, 7);
  jail_->finish(7);
  EXPECT_EQ(jail_->shell("stat -c %a src/shut; chmod 700 src/shut; stat -c %a src/shut/large").out,
            "0\n0\n");
}

TEST_F(FilesTest, SavesWhileAllElseIsStoppedAndLetsItGoOn) {
  const auto beside = [&](const std::string& script) {
    jail_->startProgram(1, {"sh", "-c", script}, 0);
    return jail_->finish(1).out;
  };
  const std::string stopped = "cat /proc/[0-9]*/stat | grep -c ') T '";
  beside(
      "exec >&- 2>&-; sleep 1000 & kill -STOP $!; (while :; do echo x >> log; done) &"
      " until test -s log; do :; done");
  EXPECT_EQ(beside(stopped), "1\n");
  const Ended saved = serve({"save"}, "");
  EXPECT_EQ(saved.code, 0U) << saved.err;
  EXPECT_NE(saved.out.find(std::string("log\0", 4)), std::string::npos);
  EXPECT_EQ(beside(stopped), "1\n") << "what was stopped before";
  const std::string size = beside("stat -c %s log");
  EXPECT_NE(beside("for i in $(seq 100); do test $(stat -c %s log) != " +
                   size.substr(0, size.size() - 1) + " && break; sleep 0.1; done; stat -c %s log"),
            size);
}

struct More {
  std::string modified;  // "seconds.nanoseconds"
  uint64_t device = 0;
  uint64_t inode = 0;
};

// path → mode, size and sum, from `state` and `hold`.
std::map<std::string, std::string> states(const std::string& out,
                                          std::map<std::string, More>* more = nullptr) {
  std::map<std::string, std::string> all;
  wire::Reader r(out);
  while (static_cast<Kind>(r.u8()) == Kind::kState) {
    char head[48];
    const uint32_t mode = r.u32();
    snprintf(head, sizeof head, "%o %llu ", mode, static_cast<unsigned long long>(r.u64()));
    const std::string path(r.bytes());
    const std::string_view sum = r.bytes();
    all[path] = head + base::toHex(sum);
    More told;
    told.modified = std::to_string(r.i64()) + "." + std::to_string(r.u32());
    told.device = r.u64();
    told.inode = r.u64();
    if (more != nullptr) (*more)[path] = told;
  }
  EXPECT_EQ(r.u32(), 0U);
  EXPECT_TRUE(r.done());
  return all;
}

TEST_F(FilesTest, TellsTheStateOfEachName) {
  shell(
      "chmod 711 .; mkdir -p d/e; printf abc > d/abc; chmod 640 d/abc; : > none; chmod 0 none; ln "
      "-s ../x d/l;"
      " mkfifo -m 600 p; chmod 755 d d/e; printf %0119d 0 > long");
  const std::map<std::string, std::string> expected = {
      {"", "40711 0 "},
      {"d", "40755 0 "},
      {"d/e", "40755 0 "},
      {"d/abc", "100640 3 ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"},
      {"none", "100000 0 e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"},
      {"d/l", "120777 0 " + base::toHex("../x")},
      {"p", "10600 0 "},
      {"long", "100644 119 " + base::sha256Hex(std::string(119, '0'))},
  };
  EXPECT_EQ(states(serve({"state", "1000", "10"}, "").out), expected);
  EXPECT_EQ(jail_->shell("stat -c %a none").out, "0\n");
  EXPECT_EQ(ask({"state", "121", "10"}).error, EFBIG);
  EXPECT_EQ(ask({"state", "1000", "6"}).error, EFBIG);
  EXPECT_EQ(ask({"state", "1000"}).error, ENOSYS);
  EXPECT_EQ(states(serve({"hold", "alone", "1000", "10"}, "").out), expected);
}

// Times and second names of other kinds than regular files are not reported.
TEST_F(FilesTest, TellsTimesAndWhichNamesAreOneFile) {
  EXPECT_EQ(shell("mkdir d; echo x > a; ln a d/b; echo x > c; touch -d @1000000000.123456789 a;"
                  " touch -d @-5.5 c; ln -s a l; ln l m; mkfifo p; ln p q; touch -d @7 d p"),
            0);
  std::map<std::string, More> more;
  EXPECT_EQ(states(serve({"state", "1000", "20"}, "").out, &more).size(), 9U);
  EXPECT_EQ(more["a"].modified, "1000000000.123456789");
  EXPECT_EQ(more["c"].modified, "-6.500000000");
  EXPECT_NE(more["a"].inode, 0U);
  EXPECT_EQ(more["a"].inode, more["d/b"].inode);
  EXPECT_EQ(more["a"].device, more["d/b"].device);
  EXPECT_EQ(more["c"].inode, 0U) << "it has one name";
  for (const char* none : {"", "d", "l", "m", "p", "q"}) {
    EXPECT_EQ(more[none].modified, "0.0") << none;
    EXPECT_EQ(more[none].inode, 0U) << none;
  }
}

// Longer than a read, and than a frame of the answer.
TEST_F(FilesTest, TellsTheDigestOfALongFile) {
  std::string content(200'003, '\0');
  for (size_t i = 0; i < content.size(); ++i)
    content[i] = static_cast<char>(i * i % 251);
  EXPECT_EQ(ask({"write", "long", "420"}, content).error, 0);
  const auto told = states(serve({"state", "1000000", "10"}, "").out);
  EXPECT_EQ(told.at("long"), "100644 200003 " + base::sha256Hex(content));
}

// The upload's data is not yet in the workspace, and appears there when its input ends.
TEST_F(FilesTest, AnUploadUnderWayIsAnother) {
  for (const std::vector<std::string>& request :
       {std::vector<std::string>{"write", "up", "420"}, {"append", "up", "0"}, {"unpack", "u"}}) {
    jail_->startProgram(8, request, wire::kStartFiles | wire::kStartStdin);
    EXPECT_EQ(ask({"hold", "alone", "1000", "10"}).error, EBUSY) << request[0];
    jail_->send(ToRunner::kStdin, 8);
    std::ignore = jail_->finish(8);
  }
  jail_->startProgram(8, {"watch", "", "1", "10"}, wire::kStartFiles | wire::kStartStdin);
  EXPECT_EQ(serve({"hold", "alone", "1000", "10"}, "").code, 0U) << "it changes nothing";
  jail_->send(ToRunner::kKill, 8);
  std::ignore = jail_->finish(8);
}

// Undoing its steps would change the held workspace.
TEST_F(FilesTest, ARequestThatIsKilledMeanwhileIsUndoneAfterwards) {
  shell(
      "mkdir -p src/shut; yes | head -c 4000000 > src/shut/large;"
      " chmod 0 src/shut/large src/shut");
  const auto mode = [&] {
    jail_->startProgram(1, {"stat", "-c", "%a", "src/shut"}, 0);
    return jail_->finish(1).out;
  };
  jail_->startProgram(8, {"pack", "src"}, wire::kStartFiles | wire::kStartWindow);
  for (size_t got = 0; got < 200'000;) {
    const auto frame = jail_->next();
    ASSERT_TRUE(frame) << frame.error().message;
    if (frame->type == wire::FromRunner::kStdout) got += frame->payload.size();
  }
  jail_->startProgram(7, {"hold", "frozen", "9000000", "10"},
                      wire::kStartFiles | wire::kStartStdin);
  for (bool told = false; !told;) {
    const auto frame = jail_->next();
    ASSERT_TRUE(frame) << frame.error().message;
    told = frame->type == wire::FromRunner::kStdout && frame->channel == 7;
  }
  jail_->send(ToRunner::kKill, 8);
  jail_->send(ToRunner::kTaken, 8, std::string("\xa0\x86\x01\0", 4));
  jail_->finish(8);
  const std::string open = mode();
  EXPECT_NE(open, "0\n");
  jail_->startProgram(9, {"list", "", "1", "10"}, wire::kStartFiles);
  jail_->finish(9);
  EXPECT_EQ(mode(), open) << "its notes are no other's";
  jail_->send(ToRunner::kStdin, 7);
  EXPECT_EQ(jail_->finish(7).code, 0U);
  EXPECT_EQ(mode(), "0\n");
}

// Each process of the chain is gone before the look.
TEST_F(FilesTest, AChainOfProcessesIsAnother) {
  jail_->startProgram(1, {"sh", "-c", "exec >&- 2>&-; f() { f & }; f; exit 0"}, 0);
  EXPECT_EQ(jail_->finish(1).code, 0U);
  for (int i = 0; i < 30; ++i)
    ASSERT_EQ(ask({"hold", "alone", "1000", "10"}).error, EBUSY) << i;
}

TEST_F(FilesTest, HoldsUntilItsInputEndsAndOnlyAlone) {
  jail_->startProgram(7, {"hold", "alone", "1000", "10"}, wire::kStartFiles | wire::kStartStdin);
  for (bool told = false; !told;) {
    const auto frame = jail_->next();
    ASSERT_TRUE(frame) << frame.error().message;
    told = frame->type == wire::FromRunner::kStdout;
  }
  jail_->startProgram(1, {"sh", "-c", "exec >&- 2>&-; sleep 1000 & exit 0"}, 0);
  EXPECT_EQ(jail_->finish(1).code, 0U) << "beside it, as an approved program";
  jail_->send(ToRunner::kStdin, 7);
  EXPECT_EQ(jail_->finish(7).code, 0U);
  EXPECT_EQ(ask({"hold", "alone", "1000", "10"}).error, EBUSY) << "the sleep was left";
  EXPECT_EQ(serve({"hold", "frozen", "1000", "10"}, "").code, 0U);
}

TEST_F(FilesTest, AnArchiveReachesNothingOutside) {
  const std::string body = padded("x");
  for (const std::string name : {"../x", "/tmp/x", "a/../../x", "a//x", "..", "a/./x"})
    EXPECT_EQ(ask({"unpack", "t"}, block(name, '0', "", 1) + body + kNoMore).error, EINVAL) << name;
  EXPECT_EQ(
      ask({"unpack", "t"}, block("l", '2', "/tmp") + block("l/x", '0', "", 1) + body + kNoMore)
          .error,
      ENOTDIR);
  EXPECT_EQ(ask({"unpack", "t"}, block("h", '1', "/etc/passwd") + kNoMore).error, EINVAL);
  EXPECT_EQ(ask({"unpack", "t"}, block("h", '1', "../../etc/passwd") + kNoMore).error, EINVAL);
  EXPECT_EQ(ask({"unpack", "t"}, block("h", '1', "l/x") + kNoMore).error, ENOTDIR);
  EXPECT_EQ(ask({"unpack", "t"}, block("pax", 'x', "", 21) + padded("21 path=../../up/abc\n") +
                                     block("y", '0') + kNoMore)
                .error,
            EINVAL);
  EXPECT_EQ(shell("test -e /tmp/x"), 1);
}

TEST_F(FilesTest, AnArchiveGivesNoModesDevicesOrTricks) {
  const Answered done =
      ask({"unpack", "t"}, block("set", '0', "", 1) + padded("x") + block("dev", '3') +
                               block("blk", '4') + block("pipe", '6') + block("./", '5') +
                               block("d/", '5') + block("d/set", '1', "set") + kNoMore);
  EXPECT_EQ(done.error, 0);
  EXPECT_EQ(done.left_out, 3U);
  EXPECT_EQ(ask({"stat", "t/set"}).entries.at(0).mode, 0777U);
  EXPECT_EQ(content("t/d/set"), "x");
}

TEST_F(FilesTest, RefusesWhatIsNoArchive) {
  std::string broken = block("x", '0');
  broken[0] = 'y';
  const std::string sparse = "21 GNU.sparse.size=1\n";
  for (const std::string& bytes :
       {broken, std::string("short"), block("x", '0', "", 100) + "cut",
        block("x", 'x', "", 4) + padded("bad\n"), block("x", 'x', "", 21) + padded(sparse),
        block("x", 'x', "", 9) + padded("99999999\n"), block("x", '2')})
    EXPECT_EQ(ask({"unpack", "t"}, bytes).error, EINVAL);
  for (const char type : {'x', 'L', 'K'})
    EXPECT_EQ(ask({"unpack", "t"}, block("x", type, "", 100'000) + kNoMore).error, EFBIG);
  EXPECT_EQ(ask({"unpack", "t"}, "").error, 0) << "an empty one";
}

TEST_F(FilesTest, AFileTakesThePlaceOfALinkAndNotOfWhatItNames) {
  shell("mkdir t; echo kept > real; ln -s ../real t/x; mkdir t/d; touch t/d/f");
  EXPECT_EQ(ask({"unpack", "t"}, block("x", '0', "", 1) + padded("y") + kNoMore).error, 0);
  EXPECT_EQ(content("real"), "kept\n");
  EXPECT_EQ(ask({"unpack", "t"}, block("d", '0', "", 1) + padded("y") + kNoMore).error, EISDIR);
}

}  // namespace
}  // namespace cloister::runner
