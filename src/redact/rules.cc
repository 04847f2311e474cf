// SPDX-License-Identifier: Apache-2.0
#include "redact/rules.h"

#include <algorithm>
#include <utility>

#include <re2/re2.h>

namespace cloister::redact {
namespace {

constexpr int64_t kMaxMemory = int64_t{8} << 20;  // of a rule's automaton

RE2::Options options() {
  RE2::Options options;
  options.set_log_errors(false);
  options.set_never_nl(true);
  options.set_max_mem(kMaxMemory);
  return options;
}

}  // namespace

struct Rules::Compiled {
  std::vector<std::unique_ptr<RE2>> patterns;
};

Rules::Rules(std::vector<Rule> rules, size_t longest)
    : rules_(std::move(rules)), compiled_(std::make_unique<Compiled>()), longest_(longest) {}

Rules::~Rules() = default;

std::expected<std::shared_ptr<const Rules>, Rules::Fault> Rules::make(std::vector<Rule> rules,
                                                                      size_t longest) {
  std::shared_ptr<Rules> made(new Rules(std::move(rules), longest));
  for (size_t i = 0; i < made->rules_.size(); ++i) {
    const Rule& rule = made->rules_[i];
    // "^" and "$" are the ends of lines.
    auto pattern = std::make_unique<RE2>("(?m:" + rule.pattern + ")", options());
    if (!pattern->ok()) return std::unexpected(Fault{i, pattern->error()});
    made->compiled_->patterns.push_back(std::move(pattern));
    made->changes_ = made->changes_ || rule.action != RuleAction::kReport;
  }
  return made;
}

RuleStream::RuleStream(std::shared_ptr<const Rules> rules)
    : rules_(std::move(rules)), hits_(rules_->all().size()), searched_(rules_->all().size()) {}

bool RuleStream::anyHit() const {
  return std::ranges::any_of(hits_, [](uint64_t count) { return count > 0; });
}

std::string RuleStream::feed(std::string_view bytes) {
  if (refusing_ != nullptr) return {};
  text_ += bytes;
  masked_ += bytes;
  std::string settled = pass(false);
  return rules_->changes() ? settled : std::string(bytes);
}

std::string RuleStream::finish() {
  if (refusing_ != nullptr) return {};
  std::string settled = pass(true);
  return rules_->changes() ? settled : std::string();
}

// Searches whole lines, and pieces of a line that is too long to wait for.
std::string RuleStream::pass(bool last) {
  size_t limit = text_.size();
  bool open = false;  // the text goes on behind `limit`
  if (!last) {
    const size_t line = text_.rfind('\n');
    const bool has_line = line != std::string::npos && line + 1 > passed_;
    open = !has_line && limit - passed_ > 2 * rules_->longest_;
    if (!has_line && !open) return {};
    if (has_line) limit = line + 1;
  }
  size_t settled = open ? limit - rules_->longest_ : limit;
  for (size_t i = 0; i < hits_.size(); ++i)
    search(i, limit, open, settled);
  std::string out = masked_.substr(passed_, settled - std::min(settled, passed_));
  passed_ = std::max(settled, passed_);
  // The byte before is context for "\b" and "^".
  const size_t gone = passed_ == 0 ? 0 : passed_ - 1;
  text_.erase(0, gone);
  masked_.erase(0, gone);
  passed_ -= gone;
  for (size_t& each : searched_)
    each -= std::min(each, gone);
  return out;
}

// Lowers `settled` to the begin of a match that may go on, or that refuses.
void RuleStream::search(size_t rule, size_t limit, bool open, size_t& settled) {
  const RE2& pattern = *rules_->compiled_->patterns[rule];
  const RuleAction action = rules_->all()[rule].action;
  const re2::StringPiece text(text_.data(), limit);
  size_t at = std::max(searched_[rule], std::min(passed_, limit));
  re2::StringPiece match;
  while (at < limit && pattern.Match(text, at, limit, RE2::UNANCHORED, &match, 1)) {
    const auto begin = static_cast<size_t>(match.data() - text.data());
    const size_t end = begin + match.size();
    if (match.empty()) {
      at = begin + 1;
      continue;
    }
    if (open && end == limit && match.size() < rules_->longest_) {
      searched_[rule] = begin;
      settled = std::min(settled, begin);
      return;
    }
    ++hits_[rule];
    if (action != RuleAction::kReport)
      std::fill_n(masked_.begin() + static_cast<ptrdiff_t>(begin), end - begin, '*');
    if (action == RuleAction::kRefuse) {
      if (refusing_ == nullptr || begin < settled) refusing_ = &rules_->all()[rule];
      settled = std::min(settled, begin);
      return;
    }
    at = end;
  }
  const size_t kept = open ? limit - rules_->longest_ : limit;
  searched_[rule] = std::max(at, kept);
}

std::string masked(const std::shared_ptr<const Rules>& rules, std::string_view text,
                   std::vector<uint64_t>& hits) {
  hits.resize(rules->all().size());
  RuleStream stream(rules);
  std::string out = stream.feed(text) + stream.finish();
  for (size_t i = 0; i < hits.size(); ++i)
    hits[i] += stream.hits()[i];
  if (out.size() < text.size()) out.append(text.size() - out.size(), '*');
  return out;
}

}  // namespace cloister::redact
