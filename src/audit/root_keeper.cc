// SPDX-License-Identifier: Apache-2.0
#include "audit/root_keeper.h"

#include <algorithm>
#include <utility>

#include "base/clock.h"
#include "base/id.h"
#include "base/log.h"
#include "store/commit.h"
#include "store/rows/roots.h"

namespace cloister::audit {
namespace {

using std::chrono::microseconds;

constexpr size_t kSecretBytes = 32;
constexpr uint64_t kMostEntries = 65'536;
constexpr uint64_t kEntriesASecond = 1000;
constexpr size_t kMostWaiting = 256;
constexpr size_t kKeptTrees = 2;
constexpr uint32_t kPage = 10'000;
constexpr std::chrono::milliseconds kIdle{500};

int64_t microsOf(std::chrono::seconds time) {
  return std::chrono::duration_cast<microseconds>(time).count();
}

}  // namespace

uint64_t mostEntries(const RootSettings& settings) {
  return std::min(kMostEntries, static_cast<uint64_t>(settings.every.count()) * kEntriesASecond);
}

int64_t endOfPeriod(int64_t now, int64_t last, std::chrono::seconds every) {
  const int64_t step = microsOf(every);
  const int64_t on_grid = now - now % step;
  return last == 0 ? on_grid : std::max(on_grid, last + step);
}

RootKeeper::RootKeeper(store::Store& store, const base::SigningKey& key, RootSettings settings)
    : store_(store), roots_(store::roots(store)), key_(key), settings_(settings) {}

RootKeeper::~RootKeeper() {
  stop_ = true;
  wake_.notifyAll();
  if (thread_.joinable()) thread_.join();
  const store::Lock lock(mutex_);
  for (Waiting& each : waiting_)
    each.done(fail(Code::kUnavailable, "making the proof: the service is stopping"));
}

void RootKeeper::start() {
  thread_ = std::thread([this] { loop(); });
}

void RootKeeper::prove(model::AuditEntry entry, Done done) {
  {
    const store::Lock lock(mutex_);
    if (waiting_.size() < kMostWaiting) {
      waiting_.push_back({std::move(entry), std::move(done)});
      done = nullptr;
    }
  }
  if (!done) return wake_.notifyAll();
  done(fail(Code::kQuota, "making the proof: too many wait; try again"));
}

void RootKeeper::loop() {
  while (!stop_) {
    makeIfDue();
    Waiting next;
    if (take(next)) next.done(proofOf(std::move(next.entry)));
  }
}

// Waits a while for the next proof to make.
bool RootKeeper::take(Waiting& next) {
  const store::Lock lock(mutex_);
  if (waiting_.empty() && !stop_) wake_.waitFor(mutex_, kIdle);
  if (waiting_.empty() || stop_) return false;
  next = std::move(waiting_.front());
  waiting_.pop_front();
  return true;
}

// By the clock of the wall, or after two intervals where this clock was set back.
void RootKeeper::makeIfDue() {
  const int64_t now = base::wallMicros();
  const auto steady = std::chrono::steady_clock::now();
  if (now < due_ && steady - tried_ < 2 * settings_.every) return;
  const bool first = due_ == 0;
  tried_ = steady;
  due_ = now + microsOf(settings_.every);
  const auto newest = roots_.newest();
  const int64_t last = newest && *newest ? (*newest)->root.ends : 0;
  if (first && last > 0 && now < last + microsOf(settings_.every)) {  // a restart within a period
    due_ = last + microsOf(settings_.every);
    return;
  }
  const int64_t ends = endOfPeriod(now, last, settings_.every);
  due_ = ends + microsOf(settings_.every);
  auto made = newest ? make(ends) : std::unexpected(newest.error());
  if (!made && !stop_) {
    base::log(base::Level::kWarn, "no root of the audit log made; the next covers its entries",
              {{"error", made.error().message}});
  }
}

// A long log of an earlier version begins its proofs with its next entry: by parts of it a tenant
// would learn its length.
uint64_t RootKeeper::firstOf(const std::optional<store::StoredRoot>& before, uint64_t head) const {
  if (before) return before->last + 1;
  return head <= mostEntries(settings_) ? uint64_t{1} : head + 1;
}

Result<std::vector<store::EntryHash>> RootKeeper::entriesOf(uint64_t first, uint64_t last) {
  std::vector<store::EntryHash> entries;
  while (first <= last && !stop_) {
    const auto left = static_cast<uint32_t>(std::min<uint64_t>(kPage, last - first + 1));
    auto page = TRY(roots_.hashes(first - 1, left));
    if (page.size() != left || page.front().position != first ||
        page.back().position != first + left - 1) {
      return fail(Code::kInternal, "entry " + std::to_string(first) +
                                       " or one behind it is missing: see cloister audit verify");
    }
    std::ranges::move(page, std::back_inserter(entries));
    first += left;
  }
  return entries;
}

Result<> RootKeeper::make(int64_t ends) {
  const auto before = TRY(roots_.newest());
  const auto head = TRY(store_.head());
  const uint64_t end = head ? head->seq : 0;
  store::StoredRoot made;
  made.secret = base::randomHex(kSecretBytes);
  made.first = firstOf(before, end);
  made.last = std::min(std::max(end, made.first - 1), made.first - 1 + mostEntries(settings_));
  const auto entries = TRY(entriesOf(made.first, made.last));
  const ProofTree tree = TRY(ProofTree::build(made.secret, entries, stop_));
  // The hash of the period's last entry, also of an earlier period.
  const auto last =
      made.last == 0 ? std::vector<store::EntryHash>() : TRY(roots_.hashes(made.last - 1, 1));
  model::AuditRoot& root = made.root;
  root.number = before ? before->root.number + 1 : 1;
  root.begins = before ? before->root.ends : ends - microsOf(settings_.every);
  root.ends = ends;
  root.root = base::hexOf(tree.root());
  root.log = model::sealedEnd(made.secret, made.last,
                              last.empty() ? std::string(64, '0') : last.front().hash);
  root.prev = before ? model::rootDigest(before->root) : std::string(64, '0');
  root.key_id = key_.verifyKey().id();
  root.signature = base::toBase64(key_.sign(model::rootText(root)));
  return store::commit(store_, store::putRoot, std::move(made), settings_.keep);
}

Result<std::shared_ptr<const ProofTree>> RootKeeper::treeOf(const store::StoredRoot& root) {
  const auto found = std::ranges::find(kept_, root.root.number, &Kept::number);
  if (found != kept_.end()) {
    kept_.splice(kept_.begin(), kept_, found);
    return kept_.front().tree;
  }
  const auto entries = TRY(entriesOf(root.first, root.last));
  auto tree = std::make_shared<const ProofTree>(TRY(ProofTree::build(root.secret, entries, stop_)));
  if (base::hexOf(tree->root()) != root.root.root) {
    return fail(Code::kInternal, "root " + std::to_string(root.root.number) +
                                     " is not of the log's entries: see cloister audit verify");
  }
  kept_.push_front({root.root.number, tree});
  if (kept_.size() > kKeptTrees) kept_.pop_back();
  return tree;
}

Error RootKeeper::notCovered(uint64_t position) {
  const auto newest = roots_.newest();
  if (!newest) return newest.error();
  if (*newest && (*newest)->last >= position) {
    return {Code::kConflict,
            "making the proof: the entry is older than the kept roots (audit.roots.keep)",
            {}};
  }
  const int64_t last = *newest ? (*newest)->root.ends : base::wallMicros();
  return {Code::kConflict,
          "making the proof: the entry is in no root yet; ask again after " +
              base::formatTime(std::max(last, base::wallMicros()) + microsOf(settings_.every)),
          {}};
}

Result<model::InclusionProof> RootKeeper::proofOf(model::AuditEntry entry) {
  auto root = TRY(roots_.covering(entry.position));
  if (!root) return std::unexpected(notCovered(entry.position));
  const auto tree = TRY(treeOf(*root));
  model::InclusionProof proof{
      .entry = std::move(entry), .place = 0, .siblings = {}, .record = std::move(root->root)};
  proof.place = tree->placeOf(proof.entry.position);
  proof.siblings = tree->siblings(proof.entry.position);
  return proof;
}

}  // namespace cloister::audit
