// SPDX-License-Identifier: Apache-2.0
#include "egress/h2/session.h"

#include <algorithm>
#include <charconv>
#include <cstring>

namespace cloister::egress::h2 {
namespace {

constexpr size_t kMostAcks = 200;         // that wait to be sent
constexpr size_t kMostSettings = 32;      // entries of a frame
constexpr size_t kMostContinuations = 8;  // frames of a head
constexpr uint64_t kResets = 200;         // RST_STREAM of the peer at once
constexpr uint64_t kResetsPerSecond = 33;
constexpr size_t kMostSentHead = size_t{256} << 10;  // with the values of secrets

struct FreeOptions {
  void operator()(nghttp2_option* options) const { nghttp2_option_del(options); }
};
struct FreeCallbacks {
  void operator()(nghttp2_session_callbacks* callbacks) const {
    nghttp2_session_callbacks_del(callbacks);
  }
};

std::string_view textOf(const uint8_t* bytes, size_t size) {
  return {reinterpret_cast<const char*>(bytes), size};
}

bool ends(const nghttp2_frame& frame) {
  return (frame.hd.flags & NGHTTP2_FLAG_END_STREAM) != 0;
}

// Fields in the form of nghttp2, which copies them.
class Block {
 public:
  void add(std::string_view name, std::string_view value, uint8_t flags = NGHTTP2_NV_FLAG_NONE) {
    const auto bytes = [](std::string_view text) {
      return const_cast<uint8_t*>(reinterpret_cast<const uint8_t*>(text.data()));
    };
    block_.push_back({bytes(name), bytes(value), name.size(), value.size(), flags});
  }
  // A secret value stays out of the tables of compression, here and at the peer (RFC 7541 §7.1.3).
  void add(const Fields& fields, bool sensitive = false) {
    const uint8_t flags = sensitive ? NGHTTP2_NV_FLAG_NO_INDEX : NGHTTP2_NV_FLAG_NONE;
    for (const auto& [name, value] : fields)
      add(name, value, flags);
  }
  [[nodiscard]] const nghttp2_nv* data() const { return block_.data(); }
  [[nodiscard]] size_t size() const { return block_.size(); }

 private:
  std::vector<nghttp2_nv> block_;
};

void takeField(std::string_view name, std::string_view value, Message& message) {
  if (name == ":method") {
    message.method = value;
  } else if (name == ":scheme") {
    message.scheme = value;
  } else if (name == ":authority") {
    message.authority = value;
  } else if (name == ":path") {
    message.path = value;
  } else if (name == ":status") {
    std::from_chars(value.data(), value.data() + value.size(), message.status);
  } else {
    message.fields.emplace_back(name, value);
  }
}

}  // namespace

struct Session::Callbacks {
  static int beginHead(nghttp2_session*, const nghttp2_frame* frame, void* self) {
    auto& session = *static_cast<Session*>(self);
    session.heads_[frame->hd.stream_id] = {};
    session.head_bytes_[frame->hd.stream_id] = 0;
    return 0;
  }
  static int field(nghttp2_session*, const nghttp2_frame* frame, const uint8_t* name,
                   size_t name_size, const uint8_t* value, size_t value_size, uint8_t, void* self) {
    auto& session = *static_cast<Session*>(self);
    const auto found = session.heads_.find(frame->hd.stream_id);
    if (found == session.heads_.end()) return 0;
    Message& message = found->second;
    size_t& bytes = session.head_bytes_[frame->hd.stream_id];
    bytes += name_size + value_size;
    message.too_large = message.too_large || bytes > session.limits_.head_bytes ||
                        message.fields.size() >= session.limits_.head_fields;
    if (!message.too_large) {
      takeField(textOf(name, name_size), textOf(value, value_size), message);
    }
    return 0;
  }
  static int frame(nghttp2_session*, const nghttp2_frame* frame, void* self) {
    auto& session = *static_cast<Session*>(self);
    session.received(*frame);
    return session.flooded_ ? NGHTTP2_ERR_CALLBACK_FAILURE : 0;
  }
  static int data(nghttp2_session*, uint8_t, int32_t stream, const uint8_t* bytes, size_t size,
                  void* self) {
    static_cast<Session*>(self)->events_.data(stream, textOf(bytes, size));
    return 0;
  }
  static int closed(nghttp2_session*, int32_t stream, uint32_t error, void* self) {
    auto& session = *static_cast<Session*>(self);
    session.heads_.erase(stream);
    session.head_bytes_.erase(stream);
    session.bodies_.erase(stream);
    session.events_.closed(stream, error);
    return 0;
  }
  static int sent(nghttp2_session*, const nghttp2_frame* frame, void* self) {
    static_cast<Session*>(self)->leftFrame(*frame);
    return 0;
  }
  static ssize_t body(nghttp2_session*, int32_t stream, uint8_t* into, size_t size, uint32_t* flags,
                      nghttp2_data_source*, void* self) {
    return static_cast<Session*>(self)->readBody(stream, into, size, flags);
  }
  static nghttp2_data_provider provider() {
    return {.source = {.ptr = nullptr}, .read_callback = body};
  }
};

Result<std::unique_ptr<Session>> Session::make(Role role, Events& events, const Limits& limits) {
  std::unique_ptr<Session> made(new Session(role, events, limits));
  TRY(made->start());
  return made;
}

Session::~Session() = default;

Result<> Session::start() {
  const auto refuse = [] { return fail(Code::kInternal, "starting HTTP/2: nghttp2 refuses"); };
  nghttp2_session_callbacks* callbacks = nullptr;
  nghttp2_option* options = nullptr;
  if (nghttp2_session_callbacks_new(&callbacks) != 0) return refuse();
  const std::unique_ptr<nghttp2_session_callbacks, FreeCallbacks> owned(callbacks);
  if (nghttp2_option_new(&options) != 0) return refuse();
  const std::unique_ptr<nghttp2_option, FreeOptions> owned_options(options);
  nghttp2_session_callbacks_set_on_begin_headers_callback(callbacks, Callbacks::beginHead);
  nghttp2_session_callbacks_set_on_header_callback(callbacks, Callbacks::field);
  nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, Callbacks::frame);
  nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, Callbacks::data);
  nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, Callbacks::closed);
  nghttp2_session_callbacks_set_on_frame_send_callback(callbacks, Callbacks::sent);
  nghttp2_option_set_no_auto_window_update(options, 1);
  nghttp2_option_set_max_outbound_ack(options, kMostAcks);
  nghttp2_option_set_max_settings(options, kMostSettings);
  nghttp2_option_set_max_continuations(options, kMostContinuations);
  nghttp2_option_set_stream_reset_rate_limit(options, kResets, kResetsPerSecond);
  nghttp2_option_set_max_send_header_block_length(options, kMostSentHead);
  nghttp2_session* session = nullptr;
  const int made = role_ == Role::kServer
                       ? nghttp2_session_server_new2(&session, callbacks, this, options)
                       : nghttp2_session_client_new2(&session, callbacks, this, options);
  if (made != 0) return refuse();
  session_.reset(session);
  std::vector<nghttp2_settings_entry> settings = {
      {NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, limits_.window},
      {NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, limits_.head_bytes}};
  if (role_ == Role::kServer) {
    settings.push_back({NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, limits_.streams});
  } else {
    settings.push_back({NGHTTP2_SETTINGS_ENABLE_PUSH, 0});
  }
  const bool good =
      nghttp2_submit_settings(session, NGHTTP2_FLAG_NONE, settings.data(), settings.size()) == 0 &&
      nghttp2_session_set_local_window_size(session, NGHTTP2_FLAG_NONE, 0,
                                            static_cast<int32_t>(limits_.connection_window)) == 0;
  if (!good) return refuse();
  return {};
}

Result<> Session::feed(std::string_view bytes) {
  const auto* data = reinterpret_cast<const uint8_t*>(bytes.data());
  const ssize_t used = nghttp2_session_mem_recv(session_.get(), data, bytes.size());
  if (flooded_) {
    terminate(NGHTTP2_ENHANCE_YOUR_CALM);
    return fail(Code::kInvalid, "HTTP/2: too many control frames");
  }
  if (used < 0) {
    return fail(Code::kInvalid, std::string("HTTP/2: ") + nghttp2_strerror(static_cast<int>(used)));
  }
  if (ended() && !leaving_) return fail(Code::kInvalid, "HTTP/2: the peer broke the protocol");
  return {};
}

bool Session::ended() const {
  return nghttp2_session_want_read(session_.get()) == 0;
}

std::string Session::take(size_t most) {
  std::string out;
  while (out.size() < most) {
    const uint8_t* bytes = nullptr;
    const ssize_t size = nghttp2_session_mem_send(session_.get(), &bytes);
    if (size <= 0) break;
    out.append(textOf(bytes, static_cast<size_t>(size)));
  }
  return out;
}

bool Session::congested() const {
  return nghttp2_session_get_outbound_queue_size(session_.get()) > limits_.queued_frames;
}

int32_t Session::request(const Message& message, bool end) {
  if (nghttp2_session_check_request_allowed(session_.get()) == 0) return 0;
  Block block;
  block.add(":method", message.method);
  block.add(":scheme", message.scheme);
  block.add(":authority", message.authority);
  block.add(":path", message.path);
  block.add(message.fields, true);
  const nghttp2_data_provider provider = Callbacks::provider();
  const int32_t stream = nghttp2_submit_request(session_.get(), nullptr, block.data(), block.size(),
                                                end ? nullptr : &provider, nullptr);
  if (stream <= 0) return 0;
  if (!end) bodies_[stream] = {};
  return stream;
}

void Session::interim(int32_t stream, const Message& message) {
  const std::string status = std::to_string(message.status);
  Block block;
  block.add(":status", status);
  block.add(message.fields);
  nghttp2_submit_headers(session_.get(), NGHTTP2_FLAG_NONE, stream, nullptr, block.data(),
                         block.size(), nullptr);
}

void Session::respond(int32_t stream, const Message& message, bool end) {
  const std::string status = std::to_string(message.status);
  Block block;
  block.add(":status", status);
  block.add(message.fields);
  const nghttp2_data_provider provider = Callbacks::provider();
  if (!end) bodies_[stream] = {};
  nghttp2_submit_response(session_.get(), stream, block.data(), block.size(),
                          end ? nullptr : &provider);
}

void Session::send(int32_t stream, std::string_view bytes) {
  const auto found = bodies_.find(stream);
  if (found == bodies_.end() || bytes.empty()) return;
  Out& out = found->second;
  out.bytes.erase(0, std::exchange(out.from, 0));
  out.bytes += bytes;
  nghttp2_session_resume_data(session_.get(), stream);
}

void Session::finish(int32_t stream, Fields trailers) {
  const auto found = bodies_.find(stream);
  if (found == bodies_.end()) return;
  found->second.ended = true;
  found->second.trailers = std::move(trailers);
  nghttp2_session_resume_data(session_.get(), stream);
}

void Session::leave(int32_t stream) {
  const auto found = bodies_.find(stream);
  if (found != bodies_.end() && !found->second.end_left) {
    found->second.alone = true;
  } else if (nghttp2_session_get_stream_remote_close(session_.get(), stream) == 0) {
    reset(stream, NGHTTP2_NO_ERROR);
  }
}

void Session::reset(int32_t stream, uint32_t error) {
  nghttp2_submit_rst_stream(session_.get(), NGHTTP2_FLAG_NONE, stream, error);
}

void Session::consumed(int32_t stream, size_t bytes) {
  if (bytes > 0) nghttp2_session_consume(session_.get(), stream, bytes);
}

void Session::goAway() {
  leaving_ = true;
  nghttp2_submit_goaway(session_.get(), NGHTTP2_FLAG_NONE,
                        nghttp2_session_get_last_proc_stream_id(session_.get()), NGHTTP2_NO_ERROR,
                        nullptr, 0);
}

void Session::terminate(uint32_t error) {
  terminated_ = true;
  nghttp2_session_terminate_session(session_.get(), error);
}

bool Session::takeControlFrame() {
  const base::Monotonic now = base::monotonicNow();
  const std::chrono::duration<double> since = now - refilled_;
  refilled_ = now;
  budget_ =
      std::min(limits_.control_frames, budget_ + since.count() * limits_.control_frames_per_second);
  budget_ -= 1;
  return budget_ >= 0;
}

ssize_t Session::readBody(int32_t stream, uint8_t* into, size_t size, uint32_t* flags) {
  const auto found = bodies_.find(stream);
  if (found == bodies_.end()) return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
  Out& out = found->second;
  const size_t count = std::min(size, out.left());
  if (count == 0 && !out.ended) return NGHTTP2_ERR_DEFERRED;
  std::memcpy(into, out.bytes.data() + out.from, count);
  out.from += count;
  if (out.left() == 0) {
    out.bytes.clear();
    out.from = 0;
  }
  if (out.left() == 0 && out.ended) {
    *flags |= NGHTTP2_DATA_FLAG_EOF;
    if (!out.trailers.empty()) {
      Block block;
      block.add(out.trailers);
      *flags |= NGHTTP2_DATA_FLAG_NO_END_STREAM;
      nghttp2_submit_trailer(session_.get(), stream, block.data(), block.size());
    }
  }
  if (count > 0) events_.sent(stream, count, out.left());
  return static_cast<ssize_t>(count);
}

void Session::received(const nghttp2_frame& frame) {
  switch (frame.hd.type) {
    case NGHTTP2_HEADERS:
      return receivedHead(frame);
    case NGHTTP2_DATA:
      if (ends(frame)) return events_.end(frame.hd.stream_id);
      if (frame.hd.length == frame.data.padlen) flooded_ = flooded_ || !takeControlFrame();
      return;
    case NGHTTP2_PING:
    case NGHTTP2_SETTINGS:
    case NGHTTP2_PRIORITY:
    case NGHTTP2_RST_STREAM:
      flooded_ = flooded_ || !takeControlFrame();
      return;
    case NGHTTP2_GOAWAY:
      leaving_ = true;
      return events_.goingAway();
    default:
      return;
  }
}

void Session::receivedHead(const nghttp2_frame& frame) {
  const auto found = heads_.find(frame.hd.stream_id);
  if (found == heads_.end()) return;
  Message message = std::move(found->second);
  heads_.erase(found);
  head_bytes_.erase(frame.hd.stream_id);
  const bool first = frame.headers.cat == NGHTTP2_HCAT_REQUEST ||
                     frame.headers.cat == NGHTTP2_HCAT_RESPONSE || message.status != 0;
  events_.head(frame.hd.stream_id, std::move(message), !first, ends(frame));
}

void Session::leftFrame(const nghttp2_frame& frame) {
  if (frame.hd.type == NGHTTP2_GOAWAY) {
    broken_ = broken_ || (frame.goaway.error_code != NGHTTP2_NO_ERROR && !terminated_);
    return;
  }
  // An answer that is complete before its request: the peer need not send the rest (RFC 9113 §8.1).
  const bool body = frame.hd.type == NGHTTP2_DATA || frame.hd.type == NGHTTP2_HEADERS;
  if (role_ != Role::kServer || !body || !ends(frame)) return;
  const int32_t stream = frame.hd.stream_id;
  const auto found = bodies_.find(stream);
  if (found == bodies_.end()) return;
  found->second.end_left = true;
  if (!found->second.alone) return;
  if (nghttp2_session_get_stream_remote_close(session_.get(), stream) == 0) {
    reset(stream, NGHTTP2_NO_ERROR);
  }
}

}  // namespace cloister::egress::h2
