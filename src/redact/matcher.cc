// SPDX-License-Identifier: Apache-2.0
#include "redact/matcher.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "redact/automaton.h"
#include "redact/views.h"

namespace cloister::redact {
namespace {

// The coding with the longest spelling has six bytes for one (\u0041, or a hex digit with two
// separators each). A longer spelling is given up.
constexpr uint64_t kMostHeldPerByte = 8;
// Bounds the matches in memory.
constexpr size_t kSlice = size_t{64} << 10;

// As the automaton has values: see Follower::take().
std::string withoutReturns(std::string_view value) {
  std::string kept(value);
  std::erase(kept, '\r');
  while (kept.ends_with('\n'))
    kept.pop_back();
  return kept;
}

std::vector<std::string> patternsOf(const std::vector<Secret>& secrets) {
  std::vector<std::string> patterns;
  patterns.reserve(secrets.size());
  for (const Secret& each : secrets)
    patterns.push_back(withoutReturns(each.value));
  return patterns;
}

std::vector<std::string> folded(std::vector<std::string> patterns) {
  for (std::string& each : patterns)
    std::ranges::replace(each, '+', ' ');
  return patterns;
}

}  // namespace

struct Patterns::Impl {
  explicit Impl(const std::vector<Secret>& secrets)
      : values(patternsOf(secrets)), forms(folded(patternsOf(secrets))) {
    for (const Secret& each : secrets)
      names.push_back(each.name);
  }
  Automaton values;
  Automaton forms;  // with " " instead of "+"
  std::vector<std::string> names;
};

Patterns::Patterns(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Patterns::~Patterns() = default;

std::shared_ptr<const Patterns> Patterns::make(const std::vector<Secret>& secrets) {
  return std::shared_ptr<const Patterns>(new Patterns(std::make_unique<Impl>(secrets)));
}

bool Patterns::empty() const {
  return impl_->values.longest() == 0;
}

std::string Patterns::find(std::string_view text) const {
  if (empty()) return {};
  Stream stream(*this);
  stream.feed(text);
  stream.finish();
  return stream.firstName();
}

std::string Patterns::redacted(std::string_view text) const {
  if (empty()) return std::string(text);
  Stream stream(*this);
  std::string safe = stream.feed(text);
  return safe += stream.finish();
}

struct Stream::Impl {
  explicit Impl(const Patterns::Impl& patterns)
      : names(patterns.names),
        views(makeViews(patterns.values, patterns.forms)),
        most_held(kMostHeldPerByte * patterns.values.longest()) {}

  // Reads bytes, and appends settled bytes to `out`.
  void slice(std::string_view bytes, std::string& out) {
    for (const auto& view : views)
      view->feed(bytes, total, found);
    held.append(bytes);
    total += bytes.size();
    passOn(settledUpTo(), out);
  }

  // Every later match begins at this offset or behind.
  uint64_t settledUpTo() {
    const uint64_t oldest = total - std::min(total, most_held);
    uint64_t earliest = total;
    for (const auto& view : views) {
      if (view->earliest() < oldest) view->reset();
      earliest = std::min(earliest, view->earliest());
    }
    return earliest;
  }

  // Appends the bytes up to `end`, with the matches replaced.
  void passOn(uint64_t end, std::string& out) {
    std::ranges::sort(found, [](const Extent& left, const Extent& right) {
      return std::tuple(left.begin, right.end) < std::tuple(right.begin, left.end);
    });
    size_t next = 0;
    while (passed < end) {
      if (passed < covered_up_to) {  // in a match whose replacement is written already
        passed = std::min(covered_up_to, end);
        continue;
      }
      for (; next < found.size() && found[next].begin <= passed; ++next)
        cover(found[next], out);
      if (passed < covered_up_to) continue;
      const uint64_t until = next < found.size() ? std::min(found[next].begin, end) : end;
      out.append(held, passed - held_begin, until - passed);
      passed = until;
    }
    for (; next < found.size() && found[next].begin < covered_up_to; ++next) {
      covered_up_to = std::max(covered_up_to, found[next].end);
    }
    found.erase(found.begin(), found.begin() + static_cast<ptrdiff_t>(next));
    held.erase(0, passed - held_begin);
    held_begin = passed;
  }

  void cover(const Extent& match, std::string& out) {
    if (match.begin >= covered_up_to) {
      if (hits++ == 0) first_name = names[match.pattern];
      out.append("[secret ").append(names[match.pattern]).append("]");
    }
    covered_up_to = std::max(covered_up_to, match.end);
  }

  std::vector<std::string> names;
  std::vector<std::unique_ptr<View>> views;
  uint64_t most_held;
  std::vector<Extent> found;  // matches without a replacement yet
  std::string held;           // the bytes [held_begin, total)
  uint64_t held_begin = 0;
  uint64_t passed = 0;  // up to here the bytes were passed on or replaced
  uint64_t total = 0;
  uint64_t covered_up_to = 0;  // up to here the bytes are replaced
  uint64_t hits = 0;
  std::string first_name;
};

Stream::Stream(std::shared_ptr<const Patterns> patterns)
    : patterns_(std::move(patterns)), impl_(std::make_unique<Impl>(*patterns_->impl_)) {}
Stream::Stream(const Patterns& patterns) : impl_(std::make_unique<Impl>(*patterns.impl_)) {}
Stream::~Stream() = default;

std::string Stream::feed(std::string_view bytes) {
  std::string out;
  for (; !bytes.empty(); bytes.remove_prefix(std::min(bytes.size(), kSlice))) {
    impl_->slice(bytes.substr(0, kSlice), out);
  }
  return out;
}

std::string Stream::finish() {
  std::string out;
  for (const auto& view : impl_->views)
    view->end(impl_->found);
  impl_->passOn(impl_->total, out);
  return out;
}

uint64_t Stream::hits() const {
  return impl_->hits + (impl_->found.empty() ? 0 : 1);
}

const std::string& Stream::firstName() const {
  if (impl_->hits > 0 || impl_->found.empty()) return impl_->first_name;
  return impl_->names[impl_->found.front().pattern];
}

}  // namespace cloister::redact
