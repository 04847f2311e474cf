// SPDX-License-Identifier: Apache-2.0
// Reactors: gRPC's callbacks of a call, joined to the coroutine on the io thread that serves the
// call. gRPC makes a request's message and keeps it until the end of the call. A coroutine waits
// for each write: gRPC reports a write when it has room for the next, so a slow reader of a stream
// stops the reading of the service's answer, and nothing grows.
#pragma once

#include <functional>
#include <memory>
#include <utility>

#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <grpcpp/server_context.h>
#include <grpcpp/support/server_callback.h>

#include "async/awaiting.h"
#include "async/spawn.h"
#include "rpc/call.h"
#include "rpc/upstream.h"

namespace cloister::rpc {

inline grpc::Status finalStatus(grpc::CallbackServerContext& context, const Call& call,
                                const Reply<>& reply) {
  for (const auto& [name, value] : call.trailers)
    context.AddTrailingMetadata(name, value);
  return reply ? grpc::Status::OK : reply.error().status;
}

// Serves a call on the io thread, and then finishes its reactor, which is gone after that. `body`
// outlives its coroutine here.
template <class Reactor, class Body>
Task<void> serve(grpc::CallbackServerContext& context, Reactor& reactor, CallPtr call, Body body) {
  call->owner().add(*call);
  const Reply<> reply = co_await body(*call, reactor);
  const grpc::Status status = finalStatus(context, *call, reply);
  call.reset();  // the place is free before the client has the answer
  reactor.Finish(status);
}

template <class Reactor, class Body>
Reactor* started(Calls& calls, grpc::CallbackServerContext* context, Reactor* reactor, Body body) {
  CallPtr call = calls.start(*context);
  if (!call) {
    reactor->Finish(busy("too many calls at once (--max-calls); try again").status);
    return reactor;
  }
  reactor->watch(*context, calls, call);
  boost::asio::post(calls.executor(), [&calls, context, reactor, call = std::move(call),
                                       body = std::move(body)]() mutable {
    async::spawn(calls.executor(), serve(*context, *reactor, std::move(call), std::move(body)));
  });
  return reactor;
}

// Tells the call when its client is gone. `Base` is a reactor of gRPC.
template <class Base>
class Watching : public Base {
 public:
  void watch(grpc::CallbackServerContext& context, Calls& calls, const CallPtr& call) {
    context_ = &context;
    calls_ = &calls;
    call_ = call;
  }
  void OnCancel() override {
    if (calls_ != nullptr) calls_->cancelled(call_);
  }
  void OnDone() override { delete this; }

 protected:
  // Waits for an operation of the stream that `start` begins. The call is given up if it takes too
  // long.
  Task<bool> finished(std::function<void()> start) {
    const auto waiting = std::make_shared<bool>(true);
    boost::asio::steady_timer stall(calls_->executor(), calls_->stall());
    stall.async_wait([this, waiting](const boost::system::error_code&) {
      if (!*waiting) return;
      if (const CallPtr call = call_.lock()) call->end(Call::End::kStalled);
      context_->TryCancel();
    });
    const bool ok = co_await async::callback<bool>([this, &start](std::function<void(bool)> done) {
      done_ = std::move(done);
      start();
    });
    *waiting = false;
    co_return ok;
  }
  void finish(bool ok) { std::exchange(done_, nullptr)(ok); }

 private:
  grpc::CallbackServerContext* context_ = nullptr;
  Calls* calls_ = nullptr;
  std::weak_ptr<Call> call_;
  std::function<void(bool)> done_;
};

class UnaryReactor final : public Watching<grpc::ServerUnaryReactor> {};

template <class Message>
class Sender final : public Watching<grpc::ServerWriteReactor<Message>> {
 public:
  // False: the client is gone. Keep the message until then.
  Task<bool> send(const Message& message) {
    return this->finished([this, &message] { this->StartWrite(&message); });
  }
  void OnWriteDone(bool ok) override { this->finish(ok); }
};

template <class Message>
class Receiver final : public Watching<grpc::ServerReadReactor<Message>> {
 public:
  // False: the client sends no more, or is gone.
  Task<bool> receive(Message& message) {
    return this->finished([this, &message] { this->StartRead(&message); });
  }
  void OnReadDone(bool ok) override { this->finish(ok); }
};

// `body`: Task<Reply<>>(Call&).
template <class Body>
grpc::ServerUnaryReactor* unary(Calls& calls, grpc::CallbackServerContext* context, Body body) {
  return started(calls, context, new UnaryReactor,
                 [body = std::move(body)](Call& call, UnaryReactor&) { return body(call); });
}

// `body`: Task<Reply<>>(Call&, Sender<Message>&).
template <class Message, class Body>
grpc::ServerWriteReactor<Message>* sending(Calls& calls, grpc::CallbackServerContext* context,
                                           Body body) {
  return started(calls, context, new Sender<Message>, std::move(body));
}

// `body`: Task<Reply<>>(Call&, Receiver<Message>&).
template <class Message, class Body>
grpc::ServerReadReactor<Message>* receiving(Calls& calls, grpc::CallbackServerContext* context,
                                            Body body) {
  return started(calls, context, new Receiver<Message>, std::move(body));
}

}  // namespace cloister::rpc
