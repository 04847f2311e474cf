// SPDX-License-Identifier: Apache-2.0
// Requests for files that are killed half-way, without a sandbox: the changes left to undo, and the
// effects of undoing.
#include "runner/unfinished.h"

#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/fd.h"
#include "base/id.h"
#include "runner/files.h"

namespace cloister::runner {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

// As gVisor: no files without a name, no openat2(2).
void beAsGvisor() {
  constexpr auto kFlags = offsetof(seccomp_data, args) + 2 * sizeof(uint64_t);
  constexpr uint32_t kUnnamed = O_TMPFILE & ~O_DIRECTORY;
  sock_filter filter[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_openat2, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_openat, 0, 3),
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, kFlags),
      BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, kUnnamed, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EOPNOTSUPP),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  const sock_fprog program{.len = std::size(filter), .filter = filter};
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
      prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0)
    _exit(99);
}

class UnfinishedTest : public ::testing::Test {
 protected:
  UnfinishedTest() : root_("/tmp/cloister-test-" + base::randomHex(8)) {
    fs::create_directory(root_);
    workspace_.reset(open(root_.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
    notes_ = static_cast<Unfinished*>(
        mmap(nullptr, sizeof *notes_, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  }
  ~UnfinishedTest() override {
    if (pid_ > 0) end(SIGKILL);
    munmap(notes_, sizeof *notes_);
    for (bool more = true; more;) {
      more = false;
      std::error_code ignored;
      for (const auto& entry : fs::recursive_directory_iterator(root_, ignored)) {
        if (!entry.is_directory() || (modeOf(entry.path()) & 0700U) == 0700U) continue;
        chmod(entry.path().c_str(), 0700);
        more = true;
        break;
      }
    }
    fs::remove_all(root_);
  }

  // Starts a request as the runner does.
  void start(std::vector<std::string> request, bool as_gvisor = false) {
    int in[2];
    int out[2];
    ASSERT_EQ(pipe2(in, O_CLOEXEC), 0);
    ASSERT_EQ(pipe2(out, O_CLOEXEC), 0);
    pid_ = fork();
    ASSERT_GE(pid_, 0);
    if (pid_ == 0) {
      signal(SIGPIPE, SIG_DFL);
      noteIn(notes_);
      dup2(in[0], STDIN_FILENO);
      dup2(out[1], STDOUT_FILENO);
      for (const int fd : {in[0], in[1], out[0], out[1]})
        close(fd);
      if (as_gvisor) beAsGvisor();
      std::vector<char*> argv;
      for (std::string& argument : request)
        argv.push_back(argument.data());
      argv.push_back(nullptr);
      _exit(serveFiles(workspace_.get(), argv.data()));
    }
    close(in[0]);
    close(out[1]);
    in_.reset(in[1]);
    out_.reset(out[0]);
  }
  void take(size_t bytes) {
    std::string buffer(bytes, '\0');
    for (size_t got = 0; got < bytes;) {
      const ssize_t n = read(out_.get(), buffer.data(), bytes - got);
      ASSERT_GT(n, 0);
      got += static_cast<size_t>(n);
    }
  }
  // Its wait status.
  int end(int signal = 0) {
    if (signal != 0) kill(pid_, signal);
    int status = 0;
    waitpid(std::exchange(pid_, -1), &status, 0);
    return status;
  }
  void undone() { undo(workspace_.get(), *notes_); }

  std::string at(const std::string& path) const { return root_ + "/" + path; }
  static mode_t modeOf(const std::string& path) {
    struct stat st{};
    return stat(path.c_str(), &st) == 0 ? st.st_mode & 07777 : 07777;
  }
  void file(const std::string& path, const std::string& content, mode_t mode = 0644) const {
    std::ofstream(at(path)) << content;
    chmod(at(path).c_str(), mode);
  }
  std::vector<std::string> names(const std::string& path = "") const {
    std::vector<std::string> found;
    for (const auto& entry : fs::directory_iterator(at(path)))
      found.push_back(entry.path().filename());
    std::ranges::sort(found);
    return found;
  }
  // Makes a large unreadable file in two directories that cannot be entered.
  void makeClosed() const {
    fs::create_directories(at("src/shut/in"));
    file("src/shut/in/large", std::string(4 << 20, 'x'), 0);
    chmod(at("src/shut/in").c_str(), 0300);
    chmod(at("src/shut").c_str(), 0);
  }
  // The modes of these, outermost first. Opens each on the way.
  std::vector<mode_t> closedModes() const {
    std::vector<mode_t> modes;
    for (const char* path : {"src/shut", "src/shut/in", "src/shut/in/large"}) {
      modes.push_back(modeOf(at(path)));
      chmod(at(path).c_str(), 0700);
    }
    return modes;
  }

  std::string root_;
  Fd workspace_;
  Unfinished* notes_ = nullptr;
  pid_t pid_ = -1;
  Fd in_;
  Fd out_;
};

TEST_F(UnfinishedTest, AnArchiveThatIsKilledGivesTheModesBack) {
  for (const bool as_gvisor : {false, true}) {
    makeClosed();
    start({"pack", "src"}, as_gvisor);
    take(500'000);
    EXPECT_EQ(modeOf(at("src/shut")), 0500U);
    EXPECT_EQ(modeOf(at("src/shut/in")), 0700U);
    EXPECT_EQ(modeOf(at("src/shut/in/large")), 0U) << "it is open already";
    end(SIGKILL);
    EXPECT_EQ(modeOf(at("src/shut")), 0500U);
    undone();
    EXPECT_THAT(closedModes(), ElementsAre(0U, 0300U, 0U));
  }
}

TEST_F(UnfinishedTest, OneThatNobodyReadsDoesToo) {
  makeClosed();
  start({"pack", ""});
  take(500'000);
  out_.reset();
  EXPECT_EQ(WTERMSIG(end()), SIGPIPE);
  undone();
  EXPECT_THAT(closedModes(), ElementsAre(0U, 0300U, 0U));
}

TEST_F(UnfinishedTest, OneThatEndsWellLeavesNothingToUndo) {
  makeClosed();
  start({"pack", "src"});
  char buffer[65'536];
  while (read(out_.get(), buffer, sizeof buffer) > 0) {
  }
  EXPECT_EQ(end(), 0);
  EXPECT_EQ(notes_->count, 0U);
  EXPECT_THAT(closedModes(), ElementsAre(0U, 0300U, 0U));
}

TEST_F(UnfinishedTest, AnUploadThatIsKilledLeavesNoFile) {
  for (const bool as_gvisor : {false, true}) {
    start({"write", "dir/file", ""}, as_gvisor);
    ASSERT_EQ(write(in_.get(), "half", 4), 4);
    if (as_gvisor) {
      const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(60);
      while (notes_->count == 0 || names("dir").empty()) {
        ASSERT_LT(std::chrono::steady_clock::now(), until);
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      }
    }
    end(SIGKILL);
    undone();
    if (fs::exists(at("dir"))) EXPECT_THAT(names("dir"), IsEmpty());
  }
}

TEST_F(UnfinishedTest, OneThatArrivesStays) {
  for (const bool as_gvisor : {false, true}) {
    for (const std::string text : {"new", "newer"}) {  // and in the place of another
      start({"write", "dir/file", ""}, as_gvisor);
      ASSERT_EQ(write(in_.get(), text.data(), text.size()), static_cast<ssize_t>(text.size()));
      in_.reset();
      EXPECT_EQ(end(), 0);
      EXPECT_EQ(notes_->count, 0U);
      undone();
      EXPECT_THAT(names("dir"), ElementsAre("file"));
      std::string content;
      std::getline(std::ifstream(at("dir/file")), content);
      EXPECT_EQ(content, text);
    }
    fs::remove_all(at("dir"));
  }
}

TEST_F(UnfinishedTest, WhatElseStandsThereReachesNothing) {
  fs::create_directory(at("dir"));
  file("kept", "x");
  file("dir/kept", "x");
  symlink("dir", at("link").c_str());
  const auto forge = [&](const std::string& base, const std::string& path, uint32_t mode,
                         uint64_t inode = 0) {
    base.copy(notes_->base, sizeof notes_->base);
    notes_->base[base.size()] = '\0';
    path.copy(notes_->path, sizeof notes_->path);
    notes_->steps[0] = {.length = static_cast<uint32_t>(path.size()), .mode = mode, .inode = inode};
    notes_->count = 1;
    undone();
    EXPECT_EQ(notes_->count, 0U);
  };
  constexpr uint32_t kRemove = Unfinished::kRemove;
  const std::string upload = wire::files::kUploadName + std::string("1");
  file(upload, "x");
  file("dir/" + upload, "x");
  forge("", "kept", kRemove);
  forge("dir", "../" + upload, kRemove);
  forge("", "dir/" + upload, kRemove);
  forge("link", upload, kRemove);
  forge("..", root_.substr(root_.rfind('/') + 1), 0);
  forge("/etc", "kept", 0);  // no root of the runner
  forge("", "link/kept", 0);
  forge("", "kept", 0, 1);
  forge("", "", 0);
  forge("", "kept/", 0);
  notes_->steps[0].length = UINT32_MAX;
  notes_->count = UINT32_MAX;
  undone();
  EXPECT_THAT(names(), ElementsAre(upload, "dir", "kept", "link"));
  EXPECT_THAT(names("dir"), ElementsAre(upload, "kept"));
  EXPECT_EQ(modeOf(at("kept")), 0644U);
  EXPECT_EQ(modeOf(at("dir/kept")), 0644U);
  forge("dir", upload, kRemove);
  EXPECT_THAT(names("dir"), ElementsAre("kept")) << "what it is for";
}

}  // namespace
}  // namespace cloister::runner
