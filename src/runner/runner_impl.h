// SPDX-License-Identifier: Apache-2.0
// The runner's inside: runner.cc receives the node's frames and starts programs; runner_end.cc
// passes on the programs' output and notices their ends.
#pragma once

#include <poll.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/types.h>

#include <climits>
#include <cstdint>
#include <string_view>

#include "base/fd.h"
#include "runner/channel.h"
#include "runner/command_text.h"
#include "runner/kernel_output.h"
#include "runner/left_over.h"
#include "runner/link.h"
#include "runner/open_files.h"
#include "runner/unfinished.h"
#include "runner/workspace.h"
#include "wire/frame.h"
#include "wire/runner.h"

namespace cloister::runner {

using wire::FromRunner;
using wire::ToRunner;

inline constexpr size_t kChannels = 32;
// Number of polled descriptors after the first two: programs' pipes, then pipes without another
// reader.
inline constexpr size_t kPolled = 3 * kChannels + LeftOver::kMost + 2 * KernelOutputs::kMost;

inline constexpr char kWorkspace[] = "/workspace";
// The temporary name of a file that replaces a FIFO when complete.
inline constexpr char kStaged[] = ".cloister-staged";

class Runner {
 public:
  void start(const char* adopted, const char* writes);
  [[noreturn]] void loop();

 private:
  void handle(const wire::FrameHeader& header, std::string_view payload);
  void onFile(uint32_t channel, std::string_view payload);
  void onFileData(uint32_t channel, std::string_view payload);
  void onRemove(std::string_view payload);
  void onText(uint32_t channel, std::string_view payload);
  void onStart(uint32_t channel, std::string_view payload);
  void onStdin(uint32_t channel, std::string_view payload);
  void onSignal(uint32_t channel, std::string_view payload);
  void onGroups(uint32_t channel, std::string_view payload);
  void onTaken(uint32_t channel, std::string_view payload);
  void onResize(uint32_t channel, std::string_view payload);
  void onKill(uint32_t channel, std::string_view payload);
  void rest();
  void hello();
  void onCollect(uint32_t channel, std::string_view payload);
  void collect(uint32_t channel, std::string_view payload);

  int beginSecret(std::string_view path, uint32_t mode, uint64_t size);
  void stageSecret(uint32_t channel);
  void stageFile(uint32_t channel);
  void launch(Channel& channel, uint8_t flags, const char* cwd);
  void launchTerminal(Channel& channel, const char* cwd);
  void noteServers() const;
  void rehearse(Channel& channel);
  bool prepareNotes(const Channel& channel);
  [[nodiscard]] Unfinished& notesOf(const Channel& channel) const {
    return unfinished_[&channel - channels_];
  }
  [[nodiscard]] bool isHeld() const;
  void undoNotes(Channel& channel);
  bool openInput(Channel& channel, uint8_t flags, Fd& theirs);
  bool makeFifo(Fd& ours);
  void adopt(Channel& channel);
  void startFailed(uint32_t channel, int error, std::string_view what);
  void fileFailed(uint32_t channel, int error);
  void tellTaken(Channel& channel);
  // Forwards at most a frame of a stream. False at its end or without data.
  bool relay(Channel& channel, Fd& fd, FromRunner type, uint32_t* left = nullptr);
  bool drain(Channel& channel);
  void takeSignals();
  void onDone(const signalfd_siginfo& info);
  void stop(Channel& channel);
  void reap(bool wait);
  void account(pid_t pid, int status, const rusage& usage);
  void killRest();
  void finish(Channel& channel);
  void keepOutput(Channel& channel);
  void sendScratch(const Channel& channel);
  // From now on looks at the program's open files.
  void begin(Channel& channel);
  [[nodiscard]] bool anyWatched() const;
  void lookIfDue();

  Channel* find(uint32_t number);
  Channel* freeChannel();
  size_t fillPoll(pollfd* fds);
  void notePoll(const pollfd* fds, size_t count);
  void serve();

  Link link_;
  Fd signals_;
  Fd workspace_;
  Fd null_;
  FileWriter writer_;
  bool staged_ = false;  // the current file will replace fifo_
  char fifo_[NAME_MAX + 1] = "";
  Fd secrets_;                  // the folder of a secret's file that is being written
  char secret_[PATH_MAX] = "";  // its path there
  uint16_t cols_ = 0;           // of the terminal being started
  uint16_t rows_ = 0;
  pid_t adopted_ = -1;  // a program without a channel yet
  uint32_t writer_channel_ = 0;
  uint32_t text_channel_ = 0;
  uint32_t groups_channel_ = 0;
  uint32_t group_count_ = 0;
  Fd groups_[wire::kMaxGroups];
  bool text_begun_ = false;
  Channel channels_[kChannels];
  LookTimer look_;
  bool alone_ = false;     // wait4(2) reported no other process
  bool* polled_[kPolled];  // flags of readiness for each descriptor after the first two
  LeftOver left_over_;
  Unfinished* unfinished_ = nullptr;  // of each channel, once there was a request for files
  bool owed_[kChannels] = {};         // notes to undo when the workspace is no longer held
  CommandText text_;
  CollectRules rules_;
  // A kCollect waiting for the end of its channel's program.
  std::string_view later_;
  uint32_t later_channel_ = 0;
  char later_bytes_[wire::kRunnerMaxPayload];
};

}  // namespace cloister::runner
