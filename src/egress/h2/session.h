// SPDX-License-Identifier: Apache-2.0
// One end of an HTTP/2 connection (RFC 9113), over nghttp2, without I/O: bytes in, events and bytes
// out. The peer is hostile: the sizes of heads, streams, queues and buffers are bounded, and floods
// of control frames end the connection. One thread.
//
// Received bodies are not acknowledged by themselves: the receiver calls consumed() when it has
// passed them on, so a slow receiver stops the sender.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <nghttp2/nghttp2.h>

#include "base/clock.h"
#include "base/result.h"

namespace cloister::egress::h2 {

using Fields = std::vector<std::pair<std::string, std::string>>;  // names in lower case

enum class Role : uint8_t { kServer, kClient };

// The head of a request or an answer, or trailers.
struct Message {
  std::string method = {};  // of a request, with scheme, authority and path
  std::string scheme = {};
  std::string authority = {};
  std::string path = {};
  int status = 0;  // of an answer
  Fields fields = {};
  bool too_large = false;  // fields are missing
};

struct Limits {
  uint32_t streams = 100;                   // that the peer may have open
  uint32_t window = 128U << 10;             // bytes of a stream on the way
  uint32_t connection_window = 512U << 10;  // of all streams
  uint32_t head_bytes = 64U << 10;          // names and values of a head
  size_t head_fields = 128;
  double control_frames = 1000;  // PING, SETTINGS, PRIORITY, RST_STREAM, empty DATA
  double control_frames_per_second = 200;
  size_t queued_frames = 1000;  // see congested()
};

// What happened, in the order of arrival. Called within feed() and take(): an event may submit
// frames, but calls neither of them.
class Events {
 public:
  Events() = default;
  Events(const Events&) = delete;
  Events& operator=(const Events&) = delete;
  virtual ~Events() = default;

  // A request or an answer (also an interim one) begins, or trailers end it. `end`: no body
  // follows.
  virtual void head(int32_t stream, Message message, bool trailers, bool end) = 0;
  virtual void data(int32_t stream, std::string_view bytes) = 0;
  virtual void end(int32_t stream) = 0;
  // Both directions are over; `error`: RFC 9113 §7.
  virtual void closed(int32_t stream, uint32_t error) = 0;
  // `bytes` of the stream's body left its buffer, in which `left` bytes are.
  virtual void sent(int32_t stream, size_t bytes, size_t left) = 0;
  // The peer takes no further streams.
  virtual void goingAway() = 0;
};

class Session {
 public:
  // `events` lives longer. kInternal: no memory.
  static Result<std::unique_ptr<Session>> make(Role role, Events& events, const Limits& limits);
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  // kInvalid: the peer broke the protocol, or sent too many control frames. take() then has the
  // farewell.
  Result<> feed(std::string_view bytes);
  // The peer broke the protocol, and take() gave the farewell.
  [[nodiscard]] bool broken() const { return broken_; }
  // Neither streams nor bytes of the peer are to come.
  [[nodiscard]] bool ended() const;
  // Bytes for the peer, at most about `most`; "": none.
  std::string take(size_t most);
  // Whether the peer reads less than it makes this end write: do not feed().
  [[nodiscard]] bool congested() const;

  // --- a client's requests. 0: the peer takes none.
  int32_t request(const Message& message, bool end);
  // --- a server's answers
  void interim(int32_t stream, const Message& message);
  void respond(int32_t stream, const Message& message, bool end);

  // Adds to the body, which is bounded by the windows of its source.
  void send(int32_t stream, std::string_view bytes);
  // Ends the body, with trailers if there are any.
  void finish(int32_t stream, Fields trailers = {});
  // A server's: the peer need not send the rest of its request once it has the whole answer.
  void leave(int32_t stream);
  void reset(int32_t stream, uint32_t error);
  void consumed(int32_t stream, size_t bytes);
  // No further streams of the peer; open ones continue.
  void goAway();
  // All streams end.
  void terminate(uint32_t error);

 private:
  struct Out {
    std::string bytes;
    size_t from = 0;  // sent of `bytes`
    bool ended = false;
    bool end_left = false;  // the end was sent
    bool alone = false;     // leave()
    Fields trailers;
    [[nodiscard]] size_t left() const { return bytes.size() - from; }
  };
  struct Callbacks;
  struct Free {
    void operator()(nghttp2_session* session) const { nghttp2_session_del(session); }
  };

  Session(Role role, Events& events, const Limits& limits)
      : role_(role), events_(events), limits_(limits), budget_(limits.control_frames) {}
  Result<> start();
  bool takeControlFrame();
  ssize_t readBody(int32_t stream, uint8_t* into, size_t size, uint32_t* flags);
  void received(const nghttp2_frame& frame);
  void receivedHead(const nghttp2_frame& frame);
  void leftFrame(const nghttp2_frame& frame);

  Role role_;
  Events& events_;
  Limits limits_;
  std::unique_ptr<nghttp2_session, Free> session_;
  std::map<int32_t, Message> heads_;  // that are arriving
  std::map<int32_t, size_t> head_bytes_;
  std::map<int32_t, Out> bodies_;
  double budget_;
  base::Monotonic refilled_ = base::monotonicNow();
  bool flooded_ = false;
  bool broken_ = false;
  bool terminated_ = false;  // by terminate()
  bool leaving_ = false;     // a GOAWAY came, or goAway() was called
};

}  // namespace cloister::egress::h2
