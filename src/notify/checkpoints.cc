// SPDX-License-Identifier: Apache-2.0
#include "notify/checkpoints.h"

#include <algorithm>
#include <utility>

#include "async/awaiting.h"
#include "async/signal.h"
#include "async/spawn.h"
#include "base/log.h"
#include "net/signed_post.h"
#include "store/sql/checkpoint_file.h"

namespace cloister::notify {
namespace {

template <class T>
using Task = boost::asio::awaitable<T>;

constexpr Millis kFirstPause{1'000};
constexpr Millis kPostTimeout{10'000};

Task<Result<uint64_t>> newestOf(boost::asio::thread_pool& background, std::string file) {
  co_return co_await async::inBackground<Result<uint64_t>>(
      background, [file]() -> Result<uint64_t> {
        const auto lines = TRY(store::readCheckpoints(file));
        return lines.empty() ? 0 : lines.back().seq;
      });
}

Task<Result<>> append(boost::asio::thread_pool& background, std::string file,
                      model::Checkpoint head) {
  co_return co_await async::inBackground<Result<>>(
      background, [file, head] { return store::appendCheckpoint(file, head); });
}

CheckpointPlace openFile(const std::string& file) {
  return {.name = "file",
          .newest = [file](auto& background) { return newestOf(background, file); },
          .publish =
              [file](auto& background, model::Checkpoint head) {
                return append(background, file, std::move(head));
              }};
}

Task<Result<uint64_t>> unknown() {
  co_return 0;
}

Task<Result<>> post(std::shared_ptr<net::SignedPost> hook, model::Checkpoint head) {
  const uint64_t seq = head.seq;
  base::json::object body = {{"event", "audit.checkpoint"},
                             {"delivery", seq},
                             {"at", base::formatTime(base::wallMicros())},
                             {"checkpoint", toJsonObject(head)}};
  co_return co_await hook->send(seq, std::move(body));
}

}  // namespace

Result<std::vector<CheckpointPlace>> openCheckpointPlaces(
    const model::Config::Audit::Publish& config) {
  std::vector<CheckpointPlace> places;
  if (!config.file.empty()) places.push_back(openFile(config.file));
  if (!config.webhook.url.empty()) {
    const auto hook = TRY(net::SignedPost::open("audit.publish.webhook", config.webhook.url,
                                                config.webhook.secret_file, config.webhook.ca_file,
                                                kPostTimeout));
    places.push_back(
        {.name = "webhook",
         .newest = [](auto&) { return unknown(); },
         .publish = [hook](auto&, model::Checkpoint head) { return post(hook, std::move(head)); }});
  }
  return places;
}

struct CheckpointPublisher::Impl : std::enable_shared_from_this<Impl> {
  Impl(const boost::asio::any_io_executor& executor, store::Store& with,
       boost::asio::thread_pool& threads, std::vector<CheckpointPlace> to, Millis every, Told tell)
      : store(with),
        background(threads),
        places(std::move(to)),
        interval(every),
        told(std::move(tell)),
        woken(executor) {}

  Task<void> keep(size_t place);
  Task<uint64_t> whatIsThere(const CheckpointPlace& place);
  Task<bool> publish(const CheckpointPlace& place, uint64_t& sent);
  Task<Result<uint64_t>> publishNewer(const CheckpointPlace& place, uint64_t sent);

  store::Store& store;
  boost::asio::thread_pool& background;
  std::vector<CheckpointPlace> places;
  Millis interval;
  Told told;
  async::Signal woken;
  bool stopped = false;
};

CheckpointPublisher::CheckpointPublisher(const boost::asio::any_io_executor& executor,
                                         store::Store& store, boost::asio::thread_pool& background,
                                         std::vector<CheckpointPlace> places, Millis interval,
                                         Told told)
    : impl_(std::make_shared<Impl>(executor, store, background, std::move(places), interval,
                                   std::move(told))) {
  for (size_t i = 0; i < impl_->places.size(); ++i)
    async::spawn(executor, impl_->keep(i));
}

CheckpointPublisher::~CheckpointPublisher() {
  impl_->stopped = true;
  impl_->woken.notify();
}

Task<void> CheckpointPublisher::Impl::keep(size_t index) {
  const auto self = shared_from_this();
  const CheckpointPlace& place = places[index];
  uint64_t sent = co_await whatIsThere(place);
  Millis pause = kFirstPause;
  while (!stopped) {
    const bool done = co_await publish(place, sent);
    if (stopped) co_return;
    const Millis next = done ? interval : std::min(pause, interval);
    pause = done ? kFirstPause : std::min(pause * 2, interval);
    co_await woken.wait(base::monotonicNow() + next);
  }
}

// A file ahead of the log is the evidence that checkpoints exist for.
Task<uint64_t> CheckpointPublisher::Impl::whatIsThere(const CheckpointPlace& place) {
  const auto newest = co_await place.newest(background);
  if (!newest) {
    base::log(base::Level::kError, "published checkpoints not read",
              {{"place", place.name}, {"reason", newest.error().message}});
    co_return 0;
  }
  const auto head = store.head().value_or(std::nullopt);
  const uint64_t last = head ? head->seq : 0;
  if (*newest > last) {
    base::log(base::Level::kError, "the audit log ends before what was published of it",
              {{"place", place.name},
               {"published", std::to_string(*newest)},
               {"log", std::to_string(last)}});
  }
  co_return *newest;
}

// False if a retry is due.
Task<bool> CheckpointPublisher::Impl::publish(const CheckpointPlace& place, uint64_t& sent) {
  const auto done = co_await publishNewer(place, sent);
  if (done && *done == sent) co_return true;
  if (done) {
    sent = *done;
    told(place.name, sent);
    co_return true;
  }
  base::log(base::Level::kWarn, "audit checkpoint not published",
            {{"place", place.name}, {"reason", done.error().message}});
  told(place.name, std::nullopt);
  co_return false;
}

// Gives the entry then at the place.
Task<Result<uint64_t>> CheckpointPublisher::Impl::publishNewer(const CheckpointPlace& place,
                                                               uint64_t sent) {
  const std::optional<model::Checkpoint> head = CO_TRY(store.head());
  if (!head || head->seq <= sent) co_return sent;
  CO_TRY(co_await place.publish(background, *head));
  co_return head->seq;
}

}  // namespace cloister::notify
