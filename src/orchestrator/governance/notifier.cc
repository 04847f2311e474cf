// SPDX-License-Identifier: Apache-2.0
#include "orchestrator/governance/notifier.h"

#include <algorithm>
#include <utility>

#include "async/signal.h"
#include "async/spawn.h"
#include "base/log.h"
#include "orchestrator/core/ledger.h"
#include "store/rows/escalation_rows.h"

namespace cloister::orchestrator {
namespace {

constexpr uint32_t kBatch = 50;
constexpr Millis kTick{1'000};
constexpr size_t kShown = 500;

}  // namespace

base::json::object toldOf(const model::Escalation& e) {
  base::json::object told = toJsonObject(e);
  told.erase("display");
  told.erase("decisions");
  for (const char* name : {"subject", "reason"}) {
    told[name] = model::safeText(std::string(told.at(name).get_string()), kShown);
  }
  told["tenant"] = e.requester.tenant;
  return told;
}

struct Notifier::Impl : std::enable_shared_from_this<Notifier::Impl> {
  Impl(boost::asio::any_io_executor on, store::Store& with, std::vector<Channel> to,
       NotifierConfig how)
      : executor(on), store(with), channels(std::move(to)), config(how), changed(on) {}

  boost::asio::awaitable<void> deliverTo(size_t channel);
  boost::asio::awaitable<void> deliver(const Channel& channel, store::Notification row);
  boost::asio::awaitable<void> giveUp(store::Notification row, std::string why);
  boost::asio::awaitable<void> dropUnknown();
  [[nodiscard]] Millis pauseAfter(uint32_t attempts) const;
  [[nodiscard]] store::Escalations& ledger() const { return store.escalations(); }

  boost::asio::any_io_executor executor;
  store::Store& store;
  std::vector<Channel> channels;
  NotifierConfig config;
  async::Signal changed;
  bool stopped = false;
};

Notifier::Notifier(boost::asio::any_io_executor executor, store::Store& store,
                   std::vector<Channel> channels, NotifierConfig config)
    : impl_(std::make_shared<Impl>(executor, store, std::move(channels), config)) {
  async::spawn(executor, impl_->dropUnknown());
  for (size_t i = 0; i < impl_->channels.size(); i++)
    async::spawn(executor, impl_->deliverTo(i));
}

Notifier::~Notifier() {
  impl_->stopped = true;
  impl_->changed.notify();
}

void Notifier::wake() {
  impl_->changed.notify();
}

boost::asio::awaitable<void> Notifier::Impl::deliverTo(size_t index) {
  const auto self = shared_from_this();
  const Channel& channel = channels[index];
  while (!stopped) {
    const auto due = ledger().dueNotifications(channel.name, base::wallMicros(), kBatch);
    if (!due) {
      base::log(base::Level::kError, "notifications not read", {{"reason", due.error().message}});
    } else {
      for (const store::Notification& row : *due) {
        if (stopped) co_return;
        co_await deliver(channel, row);
      }
    }
    co_await changed.wait(base::monotonicNow() + kTick);
  }
}

Millis Notifier::Impl::pauseAfter(uint32_t attempts) const {
  Millis pause = config.first_pause;
  for (uint32_t i = 0; i < attempts && pause < config.longest_pause; i++)
    pause *= 2;
  return std::min(pause, config.longest_pause);
}

boost::asio::awaitable<void> Notifier::Impl::deliver(const Channel& channel,
                                                     store::Notification row) {
  const auto escalation = ledger().get(store::Scope::ofTenant(row.tenant), row.escalation);
  if (!escalation) co_return co_await giveUp(row, escalation.error().message);
  const auto sent = co_await channel.send(
      {.number = row.seq, .event = row.event, .escalation = *escalation, .at = row.created_at});
  if (sent) {
    const auto done =
        co_await Ledger(store).write(store::finishNotification, row.seq, std::nullopt);
    if (done) co_return;
  }
  const std::string why = sent ? "delivered, which could not be recorded" : sent.error().message;
  base::log(base::Level::kWarn, "notification not delivered",
            {{"channel", channel.name}, {"escalation", row.escalation}, {"reason", why}});
  if (row.attempts + 1 >= config.attempts) co_return co_await giveUp(row, why);
  const int64_t next =
      base::wallMicros() + std::chrono::duration_cast<Micros>(pauseAfter(row.attempts)).count();
  std::ignore = co_await Ledger(store).write(store::retryNotification, row.seq, next);
}

boost::asio::awaitable<void> Notifier::Impl::giveUp(store::Notification row, std::string why) {
  model::Principal service;
  service.tenant = row.tenant;
  service.app = "cloister";
  service.roles = {};
  const model::AuditEvent event{.action = "escalation.notification_failed",
                                .subject = row.escalation,
                                .principal = service,
                                .details = {{"channel", row.channel},
                                            {"event", row.event},
                                            {"attempts", row.attempts + 1},
                                            {"reason", why}}};
  base::log(base::Level::kError, "notification given up",
            {{"channel", row.channel}, {"escalation", row.escalation}, {"reason", why}});
  std::ignore = co_await Ledger(store).write(store::finishNotification, row.seq, event);
}

// Drops the notifications for channels that the configuration no longer has.
boost::asio::awaitable<void> Notifier::Impl::dropUnknown() {
  const auto self = shared_from_this();
  const auto due = ledger().dueNotifications("", INT64_MAX, UINT32_MAX);
  if (!due) co_return;
  for (const store::Notification& row : *due) {
    const auto found = std::ranges::find(channels, row.channel, &Channel::name);
    if (found == channels.end()) co_await giveUp(row, "the channel is not configured any more");
  }
}

}  // namespace cloister::orchestrator
