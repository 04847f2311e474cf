// SPDX-License-Identifier: Apache-2.0
// One Link per connection: a reader that takes frames to their channels, and a watchdog for a
// silent node. Each sandbox pulls from its channel at its own pace and acknowledges the frames that
// it has passed on, so a slow observer stalls only its own program.
#include "runtime/remote/remote.h"

#include <algorithm>
#include <utility>

#include "async/spawn.h"
#include "base/log.h"
#include "net/heartbeat.h"
#include "net/unix_stream.h"
#include "runtime/remote/channels.h"
#include "runtime/remote/told.h"
#include "wire/node.h"

namespace cloister::runtime {
namespace {

namespace asio = boost::asio;
using wire::FromNode;
using wire::ToNode;
using State = Channel::State;

constexpr Millis kOfferPatience{10'000};
constexpr Millis kPatience{60'000};  // beyond the program's own time limits
// More than the node gives the slowest of its guests to start (runtime/microvm).
constexpr Millis kProvisionPatience{150'000};
constexpr uint32_t kAckEvery = wire::kOutputWindow / 4;

class Link : public std::enable_shared_from_this<Link> {
 public:
  Link(std::unique_ptr<net::ByteStream> stream, Silence silence)
      : executor_(stream->executor()),
        peer_(stream->peer().value_or(net::ByteStream::Peer{}).pid),
        connection_(std::make_shared<net::FrameConnection>(std::move(stream))),
        heartbeat_(silence.patience),
        hung_(std::move(silence.hung)),
        changed_(executor_),
        offer_due_(base::monotonicNow() + kOfferPatience) {}

  void start() {
    async::spawn(executor_, readAll(shared_from_this()));
    async::spawn(executor_, watch(shared_from_this()));
  }

  // Waits for the first message.
  Task<Result<>> offered() {
    while (!offer_ && !ended())
      co_await changed_.wait();
    if (ended()) co_return lost();
    co_return Result<>{};
  }

  static Task<void> waitEnd(std::shared_ptr<Link> self) {
    while (!self->ended())
      co_await self->changed_.wait();
  }

  void end(std::string reason) {
    if (std::exchange(ended_, true)) return;
    reason_ = std::move(reason);
    connection_->close();
    channels_.notifyAll();
    changed_.notify();
  }

  // The channel's next frame; kUnavailable once the link has ended and nothing is left.
  Task<Result<net::Frame>> next(Channel& channel) {
    while (channel.inbox.empty() && !ended())
      co_await channel.changed.wait();
    if (channel.inbox.empty()) co_return lost();
    net::Frame frame = std::move(channel.inbox.front());
    channel.inbox.pop_front();
    channel.due = base::monotonicNow() + channel.patience;
    co_return frame;
  }

  Task<Result<>> send(ToNode type, uint32_t number, std::string payload) {
    const bool sent =
        co_await connection_->send(static_cast<uint16_t>(type), number, std::move(payload));
    if (!sent) co_return lost();
    co_return Result<>{};
  }

  void post(ToNode type, uint32_t number, std::string payload = {}) {
    connection_->post(static_cast<uint16_t>(type), number, std::move(payload));
  }

  [[nodiscard]] bool congested() const { return connection_->congested(); }

  struct Opened {
    uint32_t number;
    std::shared_ptr<Channel> channel;
  };
  // Opens a channel with its first message. Opens sequentially, since the node requires rising
  // numbers.
  Task<Result<Opened>> open(ToNode type, Channel::Kind kind, Millis patience, std::string payload) {
    const auto self = shared_from_this();
    while (opening_ && !ended())
      co_await changed_.wait();
    if (ended()) co_return lost();
    opening_ = true;
    auto [number, channel] = channels_.open(executor_, kind, patience);
    auto sent = co_await send(type, number, std::move(payload));
    opening_ = false;
    changed_.notify();
    if (!sent) co_return std::unexpected(std::move(sent).error());
    co_return Opened{number, channel};
  }
  [[nodiscard]] bool ended() const { return ended_ || connection_->closed(); }
  [[nodiscard]] const model::NodeOffer& offer() const { return *offer_; }
  void onOffer(std::function<void()> changed) { on_offer_ = std::move(changed); }
  [[nodiscard]] const std::optional<model::PoolStats>& pool() const { return pool_; }
  [[nodiscard]] const std::optional<model::ImageState>& image() const { return image_; }
  [[nodiscard]] std::unexpected<Error> lost() const {
    return fail(Code::kUnavailable,
                "node lost: " + (reason_.empty() ? "the connection ended" : reason_));
  }

 private:
  static Task<void> readAll(std::shared_ptr<Link> self) {
    Result<> going;
    while (going && !self->ended_) {
      auto frame =
          co_await self->connection_->read(self->offer_ ? wire::kNodeMaxPayload : wire::kMaxOffer);
      if (frame) self->heartbeat_.heard();
      going = frame ? self->take(*std::move(frame)) : std::unexpected(std::move(frame).error());
    }
    if (going || self->ended_) co_return;
    base::log(base::Level::kWarn, "node connection ended", {{"reason", going.error().message}});
    self->end(std::move(going).error().message);
  }

  Result<> take(net::Frame frame) {
    if (frame.type == static_cast<uint16_t>(FromNode::kOffer)) return takeOffer(frame);
    if (offer_ && frame.type == static_cast<uint16_t>(FromNode::kPool)) return takePool(frame);
    if (offer_ && frame.type == static_cast<uint16_t>(FromNode::kImage)) return takeImage(frame);
    if (offer_ && frame.type == static_cast<uint16_t>(FromNode::kPong)) return takePong(frame);
    if (offer_ && frame.type == static_cast<uint16_t>(FromNode::kPing)) return answerPing(frame);
    if (offer_) return channels_.deliver(std::move(frame));
    return fail(Code::kInvalid, "reading the node's offer: another message came first");
  }

  Result<> takeOffer(const net::Frame& frame) {
    if (frame.channel != 0 || frame.payload.size() > wire::kMaxOffer) {
      return fail(Code::kInvalid, "reading the node's offer: out of its bounds");
    }
    const bool again = offer_.has_value();
    offer_ = TRY(wire::decodeOffer(frame.payload));
    changed_.notify();
    if (again && on_offer_) on_offer_();
    return {};
  }

  Result<> takePool(const net::Frame& frame) {
    if (frame.channel != 0 || frame.payload.size() > wire::kMaxPool) {
      return fail(Code::kInvalid, "reading what the node keeps ready: out of its bounds");
    }
    pool_ = TRY(wire::decodePool(frame.payload));
    return {};
  }

  Result<> takeImage(const net::Frame& frame) {
    image_ = TRY(toldImage(frame));
    offer_->image_digest = image_->digest;
    if (on_offer_) on_offer_();
    return {};
  }

  Result<> takePong(const net::Frame& frame) {
    if (frame.channel == 0 && frame.payload.empty() && heartbeat_.answered()) return {};
    return fail(Code::kInvalid, "hearing the node: it answers what was not asked");
  }

  // The node gives up a control plane that answers none.
  Result<> answerPing(const net::Frame& frame) {
    if (frame.channel != 0 || !frame.payload.empty()) {
      return fail(Code::kInvalid, "hearing the node: a malformed ping");
    }
    post(ToNode::kPong, 0);
    return {};
  }

  static Task<void> watch(std::shared_ptr<Link> self) {
    while (!self->ended()) {
      co_await self->changed_.wait(base::monotonicNow() + self->heartbeat_.interval());
      if (!self->ended()) self->look(base::monotonicNow());
    }
    self->end("the connection was closed");
  }

  void look(base::Monotonic now) {
    const net::Heartbeat::Beat beat = heartbeat_.tick(now);
    channels_.postpone(beat.slept);
    offer_due_ += beat.slept;
    if (beat.gone || (!offer_ && now > offer_due_)) {
      base::log(base::Level::kError, "node hangs", {{"pid", std::to_string(peer_)}});
      if (hung_) hung_(peer_);
      end("it said nothing for too long");
    } else if (channels_.overdue(now)) {
      end("the node did not answer in time");
    } else if (beat.ask && offer_) {
      post(ToNode::kPing, 0);
    }
  }

  asio::any_io_executor executor_;
  pid_t peer_;  // the process at the other end; 0: unknown
  std::shared_ptr<net::FrameConnection> connection_;
  net::Heartbeat heartbeat_;
  std::function<void(pid_t)> hung_;
  Channels channels_;
  async::Signal changed_;  // the offer has come, or the link has ended
  base::Monotonic offer_due_;
  std::optional<model::NodeOffer> offer_;
  std::function<void()> on_offer_;
  std::optional<model::PoolStats> pool_;    // the last report
  std::optional<model::ImageState> image_;  // the last report, with times by our clock
  bool opening_ = false;
  bool ended_ = false;
  std::string reason_;
};

Millis patienceFor(const model::ExecSpec& spec) {
  Millis patience = kPatience + spec.run.timeout;
  for (const model::Command& command : spec.compile)
    patience += command.timeout;
  return patience;
}

std::string u32Payload(uint32_t value) {
  std::string payload(sizeof value, '\0');
  wire::Writer(payload.data(), payload.size()).u32(value);
  return payload;
}

// The control plane's end of a channel.
class Peer {
 public:
  Peer(std::shared_ptr<Link> link, uint32_t number, std::shared_ptr<Channel> channel)
      : link_(std::move(link)), number_(number), channel_(std::move(channel)) {}

  [[nodiscard]] Link& link() const { return *link_; }
  [[nodiscard]] const std::shared_ptr<Link>& sharedLink() const { return link_; }
  [[nodiscard]] uint32_t number() const { return number_; }
  [[nodiscard]] Channel& channel() const { return *channel_; }
  [[nodiscard]] bool running() const {
    return channel_->state == State::kStarting || channel_->state == State::kRunning;
  }
  [[nodiscard]] bool held() const { return channel_->state == State::kHeld; }

  // Forwards the program's output up to its end.
  Task<Result<model::Outcome>> relay(ExecObserver& observer) {
    while (true) {
      const net::Frame frame = CO_TRY(co_await link_->next(*channel_));
      const auto type = static_cast<FromNode>(frame.type);
      if (type == FromNode::kFailed) co_return std::unexpected(toldByNode(frame.payload));
      if (type == FromNode::kFinished) co_return finished(frame.payload);
      if (type == FromNode::kTornDown) {
        co_return fail(Code::kConflict, "running a program: it was given up");
      }
      CO_TRY(co_await pass(type, frame.payload, observer));
      acknowledge(type, frame.payload.size());
    }
  }

  void cancel() {
    if (running() || held()) link_->post(ToNode::kCancel, number_);
  }

  // Orders the teardown of the channel; drops all later messages.
  void abandon() {
    if (channel_->state == State::kClosing || channel_->state == State::kGone) return;
    channel_->inbox.clear();
    channel_->expect(State::kClosing, kPatience);
    link_->post(ToNode::kTeardown, number_);
    channel_->changed.notify();
  }

 private:
  Result<model::Outcome> finished(const std::string& payload) {
    auto outcome = wire::decodeOutcome(payload);
    if (!outcome) {
      link_->end("its result is malformed: " + outcome.error().message);
      return link_->lost();
    }
    return outcome;
  }

  Task<Result<>> pass(FromNode type, const std::string& payload, ExecObserver& observer) {
    switch (type) {
      case FromNode::kStarted:
        observer.onStarted();
        break;
      case FromNode::kOutput:
        co_await observer.onOutput(static_cast<model::Stream>(payload[0]),
                                   std::string_view(payload).substr(1));
        break;
      case FromNode::kFileBegin: {
        wire::Reader reader(payload);
        std::string path(reader.bytes());
        co_await observer.onFileBegin(std::move(path), reader.u64());
        break;
      }
      case FromNode::kFileData:
        co_await observer.onFileData(payload);
        break;
      case FromNode::kFileEnd:
        co_await observer.onFileEnd();
        break;
      default:
        if (auto usage = wire::decodeUsage(payload)) {
          observer.onUsage(*usage);
        } else {
          link_->end("its usage report is malformed: " + usage.error().message);
          co_return link_->lost();
        }
    }
    co_return Result<>{};
  }

  // Opens the window again in steps of a quarter, to send few messages. Less than a quarter stays
  // unacknowledged, so the node always has room.
  void acknowledge(FromNode type, size_t payload_bytes) {
    if (type == FromNode::kStarted || type == FromNode::kUsage) return;
    consumed_ += wire::windowCost(payload_bytes);
    if (consumed_ < kAckEvery) return;
    channel_->unacknowledged -= consumed_;
    link_->post(ToNode::kAck, number_, u32Payload(std::exchange(consumed_, 0)));
  }

  std::shared_ptr<Link> link_;
  uint32_t number_;
  std::shared_ptr<Channel> channel_;
  uint32_t consumed_ = 0;  // window units passed on and not yet acknowledged
};

// A program in a session's sandbox: the node has received the program, and holds its start until
// run().
class RemoteExec final : public Exec {
 public:
  RemoteExec(Peer peer, const model::ExecSpec& spec)
      : state_(std::make_shared<Shared>(std::move(peer))),
        patience_(patienceFor(spec)),
        keeps_input_(spec.keep_input),
        has_terminal_(spec.terminal.has_value()) {}
  RemoteExec(const RemoteExec&) = delete;
  RemoteExec& operator=(const RemoteExec&) = delete;
  ~RemoteExec() override { state_->peer.abandon(); }

  Task<Result<model::Outcome>> run(ExecObserver& observer) override {
    const std::shared_ptr<Shared> state = state_;
    Peer& peer = state->peer;
    if (peer.held()) {
      peer.channel().expect(State::kStarting, patience_);
      CO_TRY(co_await peer.link().send(ToNode::kGo, peer.number(), {}));
    }
    co_return co_await peer.relay(observer);
  }

  void cancel() override { state_->peer.cancel(); }

  Task<Result<>> input(std::string bytes) override {
    const std::shared_ptr<Shared> state = state_;
    if (!keeps_input_) {
      co_return fail(Code::kConflict, "sending input: the program was started without");
    }
    if (state->peer.held())
      co_return fail(Code::kConflict, "sending input: the program does not run yet");
    while (state->sending && !state->peer.link().ended())
      co_await state->peer.channel().changed.wait();
    state->sending = true;
    auto sent = co_await send(*state, bytes);
    state->sending = false;
    state->peer.channel().changed.notify();
    co_return sent;
  }

  Result<> signal(int number) override {
    const Peer& peer = state_->peer;
    if (peer.channel().state != State::kRunning) {
      return fail(Code::kConflict, "sending a signal: the program does not run");
    }
    if (peer.link().congested()) return tooMany("sending a signal");
    peer.link().post(ToNode::kSignal, peer.number(), u32Payload(static_cast<uint32_t>(number)));
    return {};
  }

  Result<> resize(model::TerminalSize size) override {
    const Peer& peer = state_->peer;
    if (peer.channel().state != State::kRunning || !has_terminal_) {
      return fail(Code::kConflict, "resizing a terminal: the program has none now");
    }
    if (peer.link().congested()) return tooMany("resizing a terminal");
    std::string payload(4, '\0');
    wire::Writer w(payload.data(), payload.size());
    w.u16(size.cols);
    w.u16(size.rows);
    peer.link().post(ToNode::kResize, peer.number(), std::move(payload));
    return {};
  }

 private:
  // May outlive the object while run() or input() is under way.
  struct Shared {
    explicit Shared(Peer with) : peer(std::move(with)) {}
    Peer peer;
    bool sending = false;
    bool input_ended = false;
  };

  // Posted messages have no window, and would end the connection if the node falls far behind.
  static std::unexpected<Error> tooMany(const std::string& doing) {
    return fail(Code::kQuota, doing + ": the node has too much to do; try again");
  }

  // Sends as much as the window allows.
  static Task<Result<>> send(Shared& state, std::string_view rest) {
    const Peer& peer = state.peer;
    Channel& channel = peer.channel();
    const bool end = rest.empty();
    for (bool more = true; more; more = !rest.empty()) {
      if (peer.link().ended()) co_return peer.link().lost();
      if (state.input_ended || !peer.running()) {
        co_return fail(Code::kConflict, state.input_ended ? "sending input: its end was sent before"
                                                          : "sending input: the program has ended");
      }
      const size_t size = std::min<size_t>({rest.size(), wire::kInputPiece, channel.input_window});
      if (size == 0 && !end) {
        co_await channel.changed.wait();
        continue;  // `rest` is not empty
      }
      channel.input_window -= static_cast<uint32_t>(size);
      state.input_ended = end;
      CO_TRY(co_await peer.link().send(ToNode::kInput, peer.number(),
                                       std::string(rest.substr(0, size))));
      rest.remove_prefix(size);
    }
    co_return Result<>{};
  }

  std::shared_ptr<Shared> state_;
  Millis patience_;
  bool keeps_input_;
  bool has_terminal_;
};

class RemoteSandbox final : public Sandbox {
 public:
  RemoteSandbox(Peer peer, wire::Provisioned info) : peer_(std::move(peer)) {
    info_ = {std::move(info.runtime), std::move(info.node), std::move(info.image),
             std::move(info.image_digest), std::move(info.weakened)};
  }
  RemoteSandbox(const RemoteSandbox&) = delete;
  RemoteSandbox& operator=(const RemoteSandbox&) = delete;
  ~RemoteSandbox() override { peer_.abandon(); }

  const SandboxInfo& info() const override { return info_; }

  Task<Result<model::Outcome>> exec(const model::ExecSpec& spec, ExecObserver& observer) override {
    if (peer_.channel().state != State::kIdle) {
      co_return peer_.link().ended()
          ? Result<model::Outcome>(peer_.link().lost())
          : fail(Code::kInternal, "running a program: the sandbox was used");
    }
    peer_.channel().expect(State::kStarting, patienceFor(spec));
    CO_TRY(co_await peer_.link().send(ToNode::kExec, peer_.number(), wire::encodeExecSpec(spec)));
    co_return co_await peer_.relay(observer);
  }

  void cancel() override { peer_.cancel(); }

  Task<Result<std::unique_ptr<Exec>>> open(const model::SignedPermit& permit,
                                           const model::ExecSpec& spec) override {
    if (peer_.link().ended()) co_return peer_.link().lost();
    if (peer_.channel().state != State::kIdle) {
      co_return fail(Code::kConflict, "running in a session: its sandbox has ended");
    }
    const std::shared_ptr<Link> link = peer_.sharedLink();
    const wire::OpenRequest request{peer_.number(), permit, wire::encodeExecSpec(spec)};
    const auto [number, channel] = CO_TRY(co_await link->open(
        ToNode::kOpen, Channel::Kind::kProgram, kPatience, wire::encodeOpen(request)));
    co_return std::make_unique<RemoteExec>(Peer(link, number, channel), spec);
  }

  std::optional<model::Usage> used() const override { return peer_.channel().used; }

  Task<model::SandboxEnd> died() override {
    const std::shared_ptr<Link> link = peer_.sharedLink();
    Channel& channel = peer_.channel();
    while (channel.state == State::kIdle && !link->ended())
      co_await channel.changed.wait();
    if (!link->ended() && channel.state != State::kEnded) co_return model::SandboxEnd{};
    if (!link->ended()) {
      auto told = wire::decodeSandboxEnd(channel.inbox.front().payload);
      if (told) co_return *std::move(told);
      link->end("what it says of a sandbox's end is malformed: " + told.error().message);
    }
    co_return model::SandboxEnd{model::SandboxEnd::Kind::kNodeLost, link->lost().error().message};
  }

  Task<Result<>> teardown() override {
    peer_.abandon();
    while (peer_.channel().state == State::kClosing && !peer_.link().ended())
      co_await peer_.channel().changed.wait();
    co_return Result<>{};
  }

 private:
  Peer peer_;
  SandboxInfo info_;
};

class RemoteNodeImpl final : public RemoteNode {
 public:
  explicit RemoteNodeImpl(std::shared_ptr<Link> link) : link_(std::move(link)) {}
  RemoteNodeImpl(const RemoteNodeImpl&) = delete;
  RemoteNodeImpl& operator=(const RemoteNodeImpl&) = delete;
  ~RemoteNodeImpl() override { link_->end("the connection was closed"); }

  const model::NodeOffer& offer() const override { return link_->offer(); }
  void onOffer(std::function<void()> changed) override { link_->onOffer(std::move(changed)); }
  std::optional<model::PoolStats> pool() const override { return link_->pool(); }
  std::optional<model::ImageState> image() const override { return link_->image(); }
  Task<void> closed() override { return Link::waitEnd(link_); }

  Task<Result<std::unique_ptr<Sandbox>>> provision(const model::SignedPermit& permit) override {
    const std::shared_ptr<Link> link = link_;
    const auto fields = wire::decodePermit(permit.encoded);
    const bool session = fields && !fields->session_id.empty();
    const auto [number, channel] = CO_TRY(co_await link->open(
        ToNode::kProvision, session ? Channel::Kind::kSession : Channel::Kind::kSandbox,
        kProvisionPatience, wire::encodeSignedPermit(permit)));
    const net::Frame answer = CO_TRY(co_await link->next(*channel));
    if (answer.type == static_cast<uint16_t>(FromNode::kFailed)) {
      co_return std::unexpected(toldByNode(answer.payload));
    }
    auto info = wire::decodeProvisioned(answer.payload);
    if (!info) {
      link->end("its sandbox description is malformed: " + info.error().message);
      co_return link->lost();
    }
    co_return std::make_unique<RemoteSandbox>(Peer(link, number, channel), *std::move(info));
  }

  Task<Result<base::json::object>> plan(const model::SignedPermit& permit) override {
    const std::shared_ptr<Link> link = link_;
    const auto [number, channel] = CO_TRY(co_await link->open(
        ToNode::kPlan, Channel::Kind::kPlan, kPatience, wire::encodeSignedPermit(permit)));
    const net::Frame answer = CO_TRY(co_await link->next(*channel));
    if (answer.type == static_cast<uint16_t>(FromNode::kFailed)) {
      co_return std::unexpected(toldByNode(answer.payload));
    }
    auto plan = CO_TRY(base::parseJson(answer.payload));
    if (!plan.is_object()) co_return fail(Code::kInternal, "planning: the node sent no object");
    co_return std::move(plan.as_object());
  }

 private:
  std::shared_ptr<Link> link_;
};

}  // namespace

Task<Result<std::unique_ptr<RemoteNode>>> adoptNode(std::unique_ptr<net::ByteStream> stream,
                                                    Silence silence) {
  auto link = std::make_shared<Link>(std::move(stream), std::move(silence));
  link->start();
  CO_TRY(co_await link->offered());
  co_return std::make_unique<RemoteNodeImpl>(std::move(link));
}

Task<Result<std::unique_ptr<RemoteNode>>> connectNode(std::string socket_path, Silence silence) {
  auto stream = CO_TRY(co_await net::connectUnix(std::move(socket_path)));
  co_return co_await adoptNode(std::move(stream), std::move(silence));
}

}  // namespace cloister::runtime
