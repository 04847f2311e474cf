// SPDX-License-Identifier: Apache-2.0
#include "runtime/remote/channels.h"

#include <utility>

#include "wire/node.h"

namespace cloister::runtime {
namespace {

using wire::FromNode;
using State = Channel::State;

constexpr size_t kMaxPath = 4096;
constexpr size_t kMaxSmall = size_t{64} << 10;  // limit of a message other than output or a result

bool isStream(const std::string& payload) {
  return payload.size() > 1 && (payload[0] == static_cast<char>(model::Stream::kStdout) ||
                                payload[0] == static_cast<char>(model::Stream::kStderr));
}

// A file's bytes must not exceed its announced size.
bool fitsFile(Channel& channel, FromNode type, const net::Frame& frame) {
  switch (type) {
    case FromNode::kFileBegin: {
      wire::Reader reader(frame.payload);
      const size_t path = reader.bytes().size();
      channel.file_left = reader.u64();
      return !std::exchange(channel.in_file, true) && reader.done() && path > 0 && path <= kMaxPath;
    }
    case FromNode::kFileData:
      if (!channel.in_file || frame.payload.size() > channel.file_left) return false;
      channel.file_left -= frame.payload.size();
      return true;
    default:
      return std::exchange(channel.in_file, false) && frame.payload.empty();
  }
}

// The program has ended, or could not be started.
bool end(Channel& channel, bool well_formed) {
  channel.state = channel.kind == Channel::Kind::kProgram ? State::kGone : State::kEnded;
  return well_formed;
}

bool openInput(Channel& channel, const net::Frame& frame) {
  wire::Reader reader(frame.payload);
  const uint32_t taken = reader.u32();
  const bool fits = reader.done() && channel.kind == Channel::Kind::kProgram &&
                    taken <= wire::kInputWindow - channel.input_window;
  if (fits) channel.input_window += taken;
  return fits;
}

// Whether a frame is permitted while the program runs. Updates the state.
bool stepRunning(Channel& channel, FromNode type, const net::Frame& frame) {
  switch (type) {
    case FromNode::kOutput:
      return isStream(frame.payload) && !channel.in_file;
    case FromNode::kFileBegin:
    case FromNode::kFileData:
    case FromNode::kFileEnd:
      return fitsFile(channel, type, frame);
    case FromNode::kUsage:
      return frame.payload.size() <= kMaxSmall;
    case FromNode::kInputTaken:
      return openInput(channel, frame);
    case FromNode::kFinished:
      return end(channel, true);  // an interrupted file is invalid
    case FromNode::kFailed:
      return end(channel, frame.payload.size() <= kMaxSmall);
    default:
      return false;
  }
}

bool stepStarting(Channel& channel, FromNode type, const net::Frame& frame) {
  if (type == FromNode::kStarted) {
    channel.state = State::kRunning;
    return frame.payload.empty();
  }
  return end(channel, type == FromNode::kFinished ||
                          (type == FromNode::kFailed && frame.payload.size() <= kMaxSmall));
}

bool hearUsed(Channel& channel, const net::Frame& frame) {
  const auto used = wire::decodeUsage(frame.payload);
  if (used) channel.used = *used;
  return used.has_value();
}

// The program's end may cross the order to close. A session's sandbox reports its usage before its
// end.
bool stepClosing(Channel& channel, FromNode type, const net::Frame& frame) {
  if (channel.kind == Channel::Kind::kSession && type == FromNode::kUsage) {
    return hearUsed(channel, frame);
  }
  const bool ended = channel.kind == Channel::Kind::kProgram &&
                     (type == FromNode::kFinished || type == FromNode::kFailed);
  if (type == FromNode::kTornDown || ended) channel.state = State::kGone;
  return true;
}

bool stepIdle(Channel& channel, FromNode type, const net::Frame& frame) {
  if (channel.kind != Channel::Kind::kSession) return false;
  if (type == FromNode::kUsage) return hearUsed(channel, frame);
  if (type != FromNode::kDied) return false;
  channel.state = State::kEnded;
  return !frame.payload.empty() && frame.payload.size() <= kMaxSmall;
}

bool stepProvisioning(Channel& channel, FromNode type, const net::Frame& frame) {
  channel.state = type == FromNode::kProvisioned ? State::kIdle : State::kGone;
  return (type == FromNode::kProvisioned || type == FromNode::kFailed) &&
         frame.payload.size() <= kMaxSmall;
}

bool step(Channel& channel, FromNode type, const net::Frame& frame) {
  switch (channel.state) {
    case State::kProvisioning:
      return stepProvisioning(channel, type, frame);
    case State::kStarting:
      return stepStarting(channel, type, frame);
    case State::kRunning:
      return stepRunning(channel, type, frame);
    case State::kClosing:
      return stepClosing(channel, type, frame);
    case State::kPlanning:
      channel.state = State::kGone;
      return type == FromNode::kPlanned || type == FromNode::kFailed;
    case State::kIdle:
      return stepIdle(channel, type, frame);
    case State::kHeld:
      return end(channel, type == FromNode::kFailed && frame.payload.size() <= kMaxSmall);
    case State::kEnded:
    case State::kGone:
      return false;
  }
  return false;
}

bool usesWindow(FromNode type) {
  return type == FromNode::kOutput || type == FromNode::kFileBegin || type == FromNode::kFileData ||
         type == FromNode::kFileEnd;
}

std::unexpected<Error> broken(const net::Frame& frame, std::string_view what) {
  return fail(Code::kInvalid, "message " + std::to_string(frame.type) + " on channel " +
                                  std::to_string(frame.channel) + ": " + std::string(what));
}

}  // namespace

Result<> Channels::deliver(net::Frame frame) {
  const auto found = channels_.find(frame.channel);
  if (found == channels_.end()) return broken(frame, "unknown channel");
  const std::shared_ptr<Channel> channel = found->second;
  const auto type = static_cast<FromNode>(frame.type);
  const bool closing = channel->state == State::kClosing;
  if (!step(*channel, type, frame)) return broken(frame, "out of order or malformed");
  if (channel->state == State::kGone) channels_.erase(found);
  channel->due = base::monotonicNow() + channel->patience;
  if (usesWindow(type) && !closing) {
    const uint64_t used =
        uint64_t{channel->unacknowledged} + wire::windowCost(frame.payload.size());
    if (used > wire::kOutputWindow) return broken(frame, "more than the window allows");
    channel->unacknowledged = static_cast<uint32_t>(used);
  }
  // Only the last of several usage reports counts, so reports need no window.
  const bool again = type == FromNode::kUsage && !channel->inbox.empty() &&
                     channel->inbox.back().type == frame.type;
  if (again) channel->inbox.pop_back();
  const bool kept = type == FromNode::kInputTaken ||
                    (type == FromNode::kUsage && channel->kind == Channel::Kind::kSession);
  const bool wanted = !kept && (!closing || channel->state == State::kGone);
  if (wanted) channel->inbox.push_back(std::move(frame));
  channel->changed.notify();
  return {};
}

Channel::Channel(boost::asio::any_io_executor executor, Kind what)
    : kind(what),
      state(what == Kind::kProgram ? State::kHeld
            : what == Kind::kPlan  ? State::kPlanning
                                   : State::kProvisioning),
      input_window(what == Kind::kProgram ? wire::kInputWindow : 0),
      changed(std::move(executor)) {}

std::pair<uint32_t, std::shared_ptr<Channel>> Channels::open(boost::asio::any_io_executor executor,
                                                             Channel::Kind kind, Millis patience) {
  auto channel = std::make_shared<Channel>(std::move(executor), kind);
  channel->expect(channel->state, patience);
  channels_.emplace(next_, channel);
  return {next_++, std::move(channel)};
}

void Channels::notifyAll() {
  for (const auto& [number, channel] : channels_)
    channel->changed.notify();
}

bool Channels::overdue(base::Monotonic now) const {
  for (const auto& [number, channel] : channels_) {
    const bool due = channel->state != State::kIdle && channel->state != State::kHeld &&
                     channel->state != State::kEnded;
    if (due && channel->inbox.empty() && now > channel->due) return true;
  }
  return false;
}

void Channels::postpone(Millis by) {
  for (const auto& [number, channel] : channels_)
    channel->due += by;
}

}  // namespace cloister::runtime
