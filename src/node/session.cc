// SPDX-License-Identifier: Apache-2.0
#include "node/session.h"

#include <algorithm>
#include <utility>
#include <vector>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/use_awaitable.hpp>

#include "async/spawn.h"
#include "base/clock.h"
#include "base/log.h"

namespace cloister::node {
namespace {

namespace asio = boost::asio;
using runtime::Task;
using wire::FromNode;
using wire::ToNode;

constexpr uint32_t kMaxPlans = 16;
constexpr auto kTellEvery = std::chrono::seconds(1);
// Time for the cleanup of an ended connection before another control plane may connect. A hanging
// start takes as long as the timeouts of its runner and spawner.
constexpr auto kRemovalPatience = std::chrono::seconds(1);

std::unexpected<Error> broken(std::string_view what) {
  return fail(Code::kInvalid, "the control plane broke the protocol: " + std::string(what));
}

}  // namespace

Session::Session(std::unique_ptr<net::ByteStream> stream, const ServerConfig& config,
                 PermitGate& gate, const Runtimes& runtimes, std::function<size_t()> held_by_others)
    : executor_(stream->executor()),
      connection_(std::make_shared<net::FrameConnection>(std::move(stream))),
      config_(config),
      gate_(gate),
      runtimes_(runtimes),
      held_by_others_(std::move(held_by_others)),
      changed_(executor_),
      tell_(executor_),
      heartbeat_(config.control_silence),
      watch_(executor_) {}

Task<void> Session::run() {
  offer();
  async::spawn(executor_, tellChanges());
  async::spawn(executor_, watch());
  Result<> going;
  while (going) {
    auto frame = co_await connection_->read(wire::kNodeMaxPayload);
    going = frame ? handle(*std::move(frame)) : std::unexpected(std::move(frame).error());
  }
  base::log(base::Level::kInfo, "control connection ended",
            {{"reason", going.error().message}, {"sandboxes", std::to_string(slots_.size())}});
  connection_->close();
  tell_.cancel();
  watch_.cancel();
  std::vector<uint32_t> open;
  for (const auto& [channel, slot] : slots_) {
    if (!slot->closing()) open.push_back(channel);
  }
  for (const uint32_t channel : open) {
    async::spawn(executor_, closeSlot(channel));
  }
  for (const auto& [channel, exec] : execs_)
    exec->close();
  const auto until = base::monotonicNow() + kRemovalPatience;
  while (!idle() && base::monotonicNow() < until)
    co_await changed_.wait(until);
  if (idle()) co_return;
  base::log(base::Level::kWarn, "sandboxes of a lost control plane are still being removed",
            {{"sandboxes", std::to_string(slots_.size())}});
}

Result<> Session::handle(net::Frame frame) {
  const auto type = static_cast<ToNode>(frame.type);
  if (type == ToNode::kProvision) return provision(frame.channel, frame.payload);
  if (type == ToNode::kPlan) return plan(frame.channel, frame.payload);
  if (type == ToNode::kOpen) return open(frame.channel, frame.payload);
  if (type == ToNode::kPing && frame.channel == 0) {
    connection_->post(static_cast<uint16_t>(FromNode::kPong), 0);
    return frame.payload.empty() ? Result<>{} : broken("ping");
  }
  if (type == ToNode::kPong && frame.channel == 0) {
    return frame.payload.empty() && heartbeat_.answered() ? Result<>{} : broken("pong");
  }
  if (const auto exec = execs_.find(frame.channel); exec != execs_.end()) {
    return toExec(*exec->second, std::move(frame));
  }
  const auto found = slots_.find(frame.channel);
  if (found == slots_.end()) {
    // A cancel, an acknowledgement or a teardown may cross a failed start, or an end, on the way.
    return frame.channel <= last_channel_ ? Result<>{} : broken("unknown channel");
  }
  const std::shared_ptr<Slot> slot = found->second;
  switch (type) {
    case ToNode::kExec:
      return exec(*slot, std::move(frame.payload));
    case ToNode::kCancel:
      slot->cancel();
      return {};
    case ToNode::kTeardown:
      return teardown(frame.channel, slot);
    case ToNode::kAck: {
      wire::Reader reader(frame.payload);
      const uint32_t units = reader.u32();
      return reader.done() && slot->acknowledge(units) ? Result<>{} : broken("acknowledgement");
    }
    default:
      return broken("unknown message");
  }
}

Task<void> Session::watch() {
  const auto self = shared_from_this();
  while (!connection_->closed()) {
    watch_.expires_after(heartbeat_.interval());
    co_await watch_.async_wait(asio::as_tuple(asio::use_awaitable));
    if (!connection_->closed()) look();
  }
}

// Every byte is a sign of life: a large frame may take longer to arrive than the silence allows.
void Session::look() {
  const uint64_t heard = connection_->received();
  if (std::exchange(heard_, heard) != heard) heartbeat_.heard();
  const net::Heartbeat::Beat beat = heartbeat_.tick(base::monotonicNow());
  if (beat.gone) {
    base::log(base::Level::kError, "control plane silent",
              {{"milliseconds", std::to_string(config_.control_silence.count())}});
    connection_->close();
  } else if (beat.ask) {
    connection_->post(static_cast<uint16_t>(FromNode::kPing), 0);
  }
}

// Checks all conditions before asking a runtime.
Result<runtime::Runtime*> Session::admit(const model::SignedPermit& permit, bool use,
                                         model::PermitFields& fields) {
  if (use && slots_.size() >= places()) {
    return fail(Code::kQuota, "provisioning: all " + std::to_string(config_.offer.max_sandboxes) +
                                  " sandboxes of this node are in use");
  }
  fields = TRY(gate_.admit(permit, base::wallMicros(), use));
  const auto runtime = runtimes_.find(fields.runtime);
  if (runtime == runtimes_.end()) {
    return fail(Code::kUnsupported, "provisioning: this node has no runtime " + fields.runtime);
  }
  return runtime->second;
}

Result<> Session::provision(uint32_t channel, const std::string& payload) {
  if (channel <= last_channel_) return broken("a channel number used again");
  last_channel_ = channel;
  model::SignedPermit permit = TRY(wire::decodeSignedPermit(payload));
  model::PermitFields fields;
  auto runtime = admit(permit, true, fields);
  if (!runtime) {
    refuse(channel, runtime.error());
    return {};
  }
  slots_[channel] = std::make_shared<Slot>(connection_, executor_, channel, std::move(fields));
  async::spawn(executor_, provisionSlot(channel, *runtime, std::move(permit)));
  return {};
}

Task<void> Session::provisionSlot(uint32_t channel, runtime::Runtime* runtime,
                                  model::SignedPermit permit) {
  const auto self = shared_from_this();
  const std::shared_ptr<Slot> slot = slots_[channel];
  co_await slot->provision(*runtime, std::move(permit));
  if (slot->failed() && !slot->closing()) {
    slots_.erase(channel);
    changed_.notify();
  }
}

Result<> Session::exec(Slot& slot, std::string payload) {
  if (slot.busy()) return broken("an exec before its sandbox, or a second one at once");
  if (slot.closing()) return broken("an exec after the teardown");
  async::spawn(executor_, slot.exec(std::move(payload)));
  return {};
}

Result<> Session::open(uint32_t channel, const std::string& payload) {
  if (channel <= last_channel_) return broken("a channel number used again");
  last_channel_ = channel;
  wire::OpenRequest request = TRY(wire::decodeOpen(payload));
  const auto slot = slots_.find(request.sandbox);
  auto fields = gate_.admit(request.permit, base::wallMicros(), true);
  if (fields && (slot == slots_.end() || slot->second->busy() || slot->second->closing())) {
    fields = fail(Code::kConflict, "running in a session: its sandbox has ended");
  }
  if (!fields) {
    refuse(channel, fields.error());
    return {};
  }
  execs_[channel] = std::make_shared<ExecSlot>(connection_, executor_, channel);
  async::spawn(executor_, runExec(channel, slot->second, *std::move(fields), std::move(request)));
  return {};
}

Task<void> Session::runExec(uint32_t channel, std::shared_ptr<Slot> slot,
                            model::PermitFields permit, wire::OpenRequest request) {
  const auto self = shared_from_this();
  const std::shared_ptr<ExecSlot> exec = execs_[channel];
  co_await exec->run(std::move(slot), std::move(permit), std::move(request));
  execs_.erase(channel);
  changed_.notify();
}

Result<> Session::toExec(ExecSlot& exec, net::Frame frame) {
  wire::Reader reader(frame.payload);
  switch (static_cast<ToNode>(frame.type)) {
    case ToNode::kGo:
      return reader.done() && exec.go() ? Result<>{} : broken("a second go");
    case ToNode::kCancel:
      exec.cancel();
      return {};
    case ToNode::kTeardown:
      if (exec.closing()) return broken("a second teardown");
      exec.close();
      return {};
    case ToNode::kAck: {
      const uint32_t units = reader.u32();
      return reader.done() && exec.acknowledge(units) ? Result<>{} : broken("acknowledgement");
    }
    case ToNode::kInput:
      return exec.input(std::move(frame.payload)) ? Result<>{} : broken("input");
    case ToNode::kSignal: {
      const uint32_t number = reader.u32();
      if (!reader.done() || number == 0 || number > 64) return broken("signal");
      exec.signal(static_cast<int>(number));
      return {};
    }
    case ToNode::kResize: {
      model::TerminalSize size;
      size.cols = reader.u16();
      size.rows = reader.u16();
      if (!reader.done() || !isSize(size)) return broken("terminal size");
      exec.resize(size);
      return {};
    }
    default:
      return broken("unknown message");
  }
}

Result<> Session::teardown(uint32_t channel, const std::shared_ptr<Slot>& slot) {
  if (slot->closing()) return broken("a second teardown");
  async::spawn(executor_, closeSlot(channel));
  return {};
}

Task<void> Session::closeSlot(uint32_t channel) {
  const auto self = shared_from_this();
  const std::shared_ptr<Slot> slot = slots_[channel];
  co_await slot->close();
  slots_.erase(channel);
  changed_.notify();
}

// The images of the single runtime with images and a pool.
Session::Images Session::images() const {
  for (const auto& [name, runtime] : runtimes_) {
    if (auto images = runtime->images()) return images;
  }
  return nullptr;
}

// The runtimes share the node's own image.
std::optional<model::ImageState> Session::image() const {
  for (const auto& [name, runtime] : runtimes_) {
    if (auto image = runtime->image()) return image;
  }
  return std::nullopt;
}

void Session::tellImage() {
  auto now = image();
  if (!now || now == image_told_) return;
  connection_->post(static_cast<uint16_t>(FromNode::kImage), 0,
                    wire::encodeImage({*now, base::wallMicros()}));
  image_told_ = std::move(now);
}

// The node's remaining slots.
uint32_t Session::places() const {
  const uint32_t all = config_.offer.max_sandboxes;
  return all - static_cast<uint32_t>(std::min<size_t>(held_by_others_(), all));
}

void Session::offer() {
  offered_ = images();
  places_offered_ = std::max(places(), 1U);
  model::NodeOffer offer = config_.offer;
  offer.max_sandboxes = places_offered_;
  if (offered_) offer.images = *offered_;
  if (const auto now = image()) offer.image_digest = now->digest;
  connection_->post(static_cast<uint16_t>(FromNode::kOffer), 0, wire::encodeOffer(offer));
}

Task<void> Session::tellChanges() {
  const auto self = shared_from_this();
  std::optional<model::PoolStats> told;
  for (; !connection_->closed(); co_await tell_.async_wait(asio::as_tuple(asio::use_awaitable))) {
    tell_.expires_after(kTellEvery);
    if (connection_->congested()) continue;
    if (images() != offered_ || std::max(places(), 1U) != places_offered_) offer();
    tellImage();
    for (const auto& [name, runtime] : runtimes_) {
      auto now = runtime->pool();
      if (!now) continue;
      if (now != told) {
        connection_->post(static_cast<uint16_t>(FromNode::kPool), 0, wire::encodePool(*now));
        told = std::move(now);
      }
      break;
    }
  }
}

Result<> Session::plan(uint32_t call, const std::string& payload) {
  if (call <= last_channel_) return broken("a call number used again");
  last_channel_ = call;
  model::SignedPermit permit = TRY(wire::decodeSignedPermit(payload));
  model::PermitFields fields;
  auto runtime = admit(permit, false, fields);
  if (runtime && plans_ >= kMaxPlans) runtime = fail(Code::kQuota, "planning: too many at once");
  if (!runtime) {
    refuse(call, runtime.error());
    return {};
  }
  plans_++;
  async::spawn(executor_, answerPlan(call, *runtime, std::move(permit)));
  return {};
}

Task<void> Session::answerPlan(uint32_t call, runtime::Runtime* runtime,
                               model::SignedPermit permit) {
  const auto self = shared_from_this();
  auto plan = co_await runtime->plan(permit);
  if (plan) {
    connection_->post(static_cast<uint16_t>(FromNode::kPlanned), call, base::toJson(*plan));
  } else {
    refuse(call, plan.error());
  }
  plans_--;
  changed_.notify();
}

void Session::refuse(uint32_t channel, const Error& error) {
  connection_->post(static_cast<uint16_t>(FromNode::kFailed), channel, wire::encodeError(error));
}

}  // namespace cloister::node
