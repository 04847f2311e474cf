// SPDX-License-Identifier: Apache-2.0
#include "sandbox/box/beside.h"

#include <tuple>
#include <utility>

namespace cloister::runtime {
namespace {

class Beside final : public Apart, public std::enable_shared_from_this<Beside> {
 public:
  Beside(std::shared_ptr<Live> session, model::Limits limits, MakeBeside make)
      : session_(std::move(session)), limits_(limits), make_(std::move(make)) {}

  Task<Result<std::shared_ptr<Housing>>> make() override {
    const auto self = shared_from_this();
    live_ = CO_TRY(co_await make_(session_, limits_));
    live_->settle();
    live_->settleIo();
    live_->watchLocks();
    if (ended_) live_->kill();
    co_return std::shared_ptr<Housing>(live_);
  }

  void take(const model::Usage& usage) override {
    moved_ = {.read = usage.io_read_bytes, .written = usage.io_write_bytes};
  }

  void end() override {
    ended_ = true;
    if (live_) live_->kill();
  }

  Task<void> bury() override {
    const auto self = shared_from_this();
    if (live_) live_->handOverIo(moved_);
    end();
    if (live_) std::ignore = co_await live_->bury();
  }

 private:
  std::shared_ptr<Live> session_;
  const model::Limits limits_;
  MakeBeside make_;
  std::shared_ptr<Live> live_;
  linux::IoBytes moved_;  // known storage traffic of its program
  bool ended_ = false;
};

}  // namespace

std::shared_ptr<Apart> besideOf(std::shared_ptr<Live> session, model::Limits limits,
                                MakeBeside make) {
  return std::make_shared<Beside>(std::move(session), limits, std::move(make));
}

}  // namespace cloister::runtime
