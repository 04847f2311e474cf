// SPDX-License-Identifier: Apache-2.0
// The runner's inside: runner.cc hears the node and starts programs, runner_end.cc passes on what
// they say and sees them end.
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
// What is polled behind the first two: pipes of programs, then what nobody else reads.
inline constexpr size_t kPolled = 3 * kChannels + LeftOver::kMost + 2 * KernelOutputs::kMost;

inline constexpr char kWorkspace[] = "/workspace";
// Where a file is written that takes a FIFO's place when it is whole.
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
  // Passes on what one stream has to say, a frame at most. False at its end or when it is empty.
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
  // From now on the files that it has open are looked at.
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
  bool staged_ = false;  // what is written now is to take the place of fifo_
  char fifo_[NAME_MAX + 1] = "";
  uint16_t cols_ = 0;  // of the terminal that is started
  uint16_t rows_ = 0;
  pid_t adopted_ = -1;  // a program that has no channel yet
  uint32_t writer_channel_ = 0;
  uint32_t text_channel_ = 0;
  uint32_t groups_channel_ = 0;
  uint32_t group_count_ = 0;
  Fd groups_[wire::kMaxGroups];
  bool text_begun_ = false;
  Channel channels_[kChannels];
  LookTimer look_;
  bool alone_ = false;     // wait4(2) has said that there is no other process
  bool* polled_[kPolled];  // what says of each descriptor behind the first two that it is ready
  LeftOver left_over_;
  Unfinished* unfinished_ = nullptr;  // of each channel, once there was a request for files
  bool owed_[kChannels] = {};  // what it noted is undone when the workspace is held no longer
  CommandText text_;
  CollectRules rules_;
  // A kCollect that waits for the end of its channel's program.
  std::string_view later_;
  uint32_t later_channel_ = 0;
  char later_bytes_[wire::kRunnerMaxPayload];
};

}  // namespace cloister::runner
