// SPDX-License-Identifier: Apache-2.0
#include "egress/dial/resolver.h"

#include <sys/stat.h>

#include <algorithm>
#include <optional>
#include <tuple>
#include <utility>

namespace cloister::egress {

// A query in flight. Callers that ask for the same name wait for the same query.
struct Resolver::LookUp {
  explicit LookUp(const boost::asio::any_io_executor& executor) : ended(executor) {}
  async::Signal ended;
  std::optional<Result<Answer>> result;
};

namespace {

std::unexpected<Error> tooMany(const std::string& name) {
  return fail(Code::kQuota, "resolving " + name + ": too many look-ups are under way");
}

std::unexpected<Error> late(const std::string& name) {
  return fail(Code::kUnavailable, "resolving " + name + ": no answer in time");
}

}  // namespace

Result<std::unique_ptr<Resolver>> Resolver::make(boost::asio::any_io_executor executor,
                                                 ResolverOptions options) {
  const bool fixed = !options.servers.empty();
  std::unique_ptr<Resolver> made(new Resolver(std::move(executor), std::move(options)));
  if (fixed) TRY(made->channel());
  return made;
}

Resolver::Resolver(boost::asio::any_io_executor executor, ResolverOptions options)
    : executor_(std::move(executor)),
      options_(std::move(options)),
      in_flight_(std::make_shared<size_t>(0)),
      self_(std::make_shared<Resolver*>(this)) {}

Resolver::~Resolver() {
  *self_ = nullptr;  // a query may end later
  if (channel_) channel_->cancel();
}

Resolver::File Resolver::resolvConf() const {
  struct stat at{};
  if (::stat(options_.resolv_conf.c_str(), &at) != 0) return {};
  constexpr int64_t kNanos = 1'000'000'000;
  return {at.st_mtim.tv_sec * kNanos + at.st_mtim.tv_nsec, at.st_ino, at.st_size};
}

// Queries of a replaced channel continue on it.
Result<std::shared_ptr<AresChannel>> Resolver::channel() {
  const File file = options_.servers.empty() ? resolvConf() : File{};
  if (channel_ && file == file_) return channel_;
  channel_ = TRY(AresChannel::make(executor_, {.servers = options_.servers,
                                               .resolv_conf = options_.resolv_conf,
                                               .port = options_.port,
                                               .timeout = options_.try_time}));
  file_ = file;
  cache_.clear();
  ages_.clear();
  return channel_;
}

const Resolver::Answer* Resolver::cached(const std::string& name) {
  const auto found = cache_.find(name);
  if (found == cache_.end()) return nullptr;
  if (found->second.until > base::monotonicNow()) return &found->second.answer;
  ages_.erase(found->second.age);
  cache_.erase(found);
  return nullptr;
}

void Resolver::keep(const std::string& name, const AresChannel::Found& found) {
  const int64_t ttl = std::min(found.ttl, options_.most_ttl);
  if (ttl <= 0 || found.addresses.empty() || options_.most_cached == 0) return;
  std::ignore = cached(name);
  if (cache_.contains(name)) return;
  while (cache_.size() >= options_.most_cached) {
    cache_.erase(ages_.front());
    ages_.pop_front();
  }
  ages_.push_back(name);
  cache_[name] = {found.addresses, base::monotonicNow() + std::chrono::seconds(ttl),
                  std::prev(ages_.end())};
}

std::shared_ptr<Resolver::LookUp> Resolver::start(const std::shared_ptr<AresChannel>& channel,
                                                  const std::string& name,
                                                  std::shared_ptr<size_t> of_one) {
  auto look_up = std::make_shared<LookUp>(executor_);
  looking_[name] = look_up;
  if (!of_one) of_one = std::make_shared<size_t>(0);
  ++*in_flight_;
  ++*of_one;
  // The channel lives as long as its queries.
  channel->addresses(name, [self = self_, in_flight = in_flight_, of_one = std::move(of_one),
                            channel, look_up, name](Result<AresChannel::Found> found) {
    --*in_flight;
    --*of_one;
    if (Resolver* const resolver = *self) {
      const auto here = resolver->looking_.find(name);
      if (here != resolver->looking_.end() && here->second == look_up) {
        resolver->looking_.erase(here);
      }
      if (found && channel == resolver->channel_) resolver->keep(name, *found);
    }
    if (!found) {
      look_up->result = std::unexpected(std::move(found).error());
    } else if (found->addresses.empty()) {
      look_up->result = fail(Code::kNotFound, "resolving " + name + ": it has no address");
    } else {
      look_up->result = std::move(found->addresses);
    }
    look_up->ended.notify();
  });
  return look_up;
}

bool Resolver::isFull(const std::shared_ptr<size_t>& of_one) const {
  return *in_flight_ >= options_.most_in_flight || (of_one && *of_one >= options_.most_of_one);
}

Resolver::Task<Result<Resolver::Answer>> Resolver::addresses(std::string name,
                                                             std::shared_ptr<size_t> of_one) {
  const base::Monotonic deadline = base::monotonicNow() + options_.most_time;
  const auto channel = CO_TRY(this->channel());
  if (const Answer* answer = cached(name)) co_return *answer;
  const auto running = looking_.find(name);
  std::shared_ptr<LookUp> look_up;
  if (running != looking_.end()) {
    look_up = running->second;
  } else {
    if (isFull(of_one)) co_return tooMany(name);
    look_up = start(channel, name, std::move(of_one));
  }
  while (!look_up->result && base::monotonicNow() < deadline)
    co_await look_up->ended.wait(deadline);
  if (!look_up->result) co_return late(name);
  co_return *look_up->result;
}

Resolver::Task<Result<std::string>> Resolver::message(std::string name, uint16_t type,
                                                      std::shared_ptr<size_t> of_one) {
  struct Question {
    explicit Question(const boost::asio::any_io_executor& executor) : ended(executor) {}
    async::Signal ended;
    std::optional<Result<std::string>> result;
  };
  const base::Monotonic deadline = base::monotonicNow() + options_.most_time;
  const auto channel = CO_TRY(this->channel());
  if (isFull(of_one)) co_return tooMany(name);
  if (!of_one) of_one = std::make_shared<size_t>(0);
  ++*in_flight_;
  ++*of_one;
  const auto question = std::make_shared<Question>(executor_);
  channel->message(name, type,
                   [question, channel, in_flight = in_flight_,
                    of_one = std::move(of_one)](Result<std::string> answer) {
                     --*in_flight;
                     --*of_one;
                     question->result = std::move(answer);
                     question->ended.notify();
                   });
  while (!question->result && base::monotonicNow() < deadline)
    co_await question->ended.wait(deadline);
  if (!question->result) co_return late(name);
  co_return *std::move(question->result);
}

}  // namespace cloister::egress
