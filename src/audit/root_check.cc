// SPDX-License-Identifier: Apache-2.0
#include "audit/root_check.h"

#include <optional>

#include "store/root_store.h"

namespace cloister::audit {
namespace {

constexpr uint32_t kRootPage = 1000;

class RootWalk {
 public:
  RootWalk(store::Store& store, const base::VerifyKey& key)
      : roots_(store::roots(store)), key_(key) {}

  Result<std::string> run() {
    for (uint64_t after = 0;;) {
      const auto page = TRY(roots_.list(after, kRootPage));
      for (const store::StoredRoot& each : page) {
        const std::string problem = TRY(check(each));
        if (!problem.empty()) return problem;
        before_ = each;
      }
      if (page.size() < kRootPage) return std::string();
      after = page.back().root.number;
    }
  }

 private:
  Result<std::string> check(const store::StoredRoot& each) {
    const std::string name = "root " + std::to_string(each.root.number);
    if (const auto valid = model::verifyRoot(each.root, key_); !valid) {
      return valid.error().message;
    }
    if (before_) {
      const bool next = each.root.number == before_->root.number + 1 &&
                        each.root.prev == model::rootDigest(before_->root) &&
                        each.root.begins == before_->root.ends && each.first == before_->last + 1;
      if (!next) return name + ": it does not follow root " + std::to_string(before_->root.number);
    }
    if (!before_ || before_->last != each.last) TRY(readEnd(each.last));
    if (each.root.log == model::sealedEnd(each.secret, each.last, end_)) return std::string();
    return name + ": it is not of the log that ends with entry " + std::to_string(each.last);
  }

  // The hash of the entry at the position; zeros before the first.
  Result<> readEnd(uint64_t position) {
    end_ = std::string(64, '0');
    if (position == 0) return {};
    const auto found = TRY(roots_.hashes(position - 1, 1));
    end_ = found.empty() || found.front().position != position ? std::string() : found.front().hash;
    return {};
  }

  store::RootStore roots_;
  const base::VerifyKey& key_;
  std::optional<store::StoredRoot> before_;
  std::string end_;
};

}  // namespace

Result<std::string> rootsProblem(store::Store& store, const base::VerifyKey& key) {
  return RootWalk(store, key).run();
}

}  // namespace cloister::audit
