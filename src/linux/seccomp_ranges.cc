// SPDX-License-Identifier: Apache-2.0
#include "linux/seccomp_ranges.h"

#include <linux/seccomp.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <limits>
#include <optional>
#include <set>

namespace cloister::linux {
namespace {

using Program = std::vector<sock_filter>;

constexpr uint16_t kLoad = BPF_LD | BPF_W | BPF_ABS;
constexpr uint16_t kMask = BPF_ALU | BPF_AND | BPF_K;
constexpr uint16_t kReturn = BPF_RET | BPF_K;
constexpr uint16_t kJump = BPF_JMP | BPF_JA;
constexpr uint32_t kNumber = offsetof(seccomp_data, nr);
constexpr uint32_t kArchitecture = offsetof(seccomp_data, arch);
constexpr size_t kFarthest = std::numeric_limits<uint8_t>::max();
// So many ranges have at most as many comparisons and outcomes together as a jump can pass.
constexpr size_t kSharing = kFarthest / 2;

bool isComparison(const sock_filter& f) {
  return f.code == (BPF_JMP | BPF_JEQ | BPF_K) || f.code == (BPF_JMP | BPF_JGT | BPF_K) ||
         f.code == (BPF_JMP | BPF_JGE | BPF_K);
}

// The target of a comparison of `a`, or of a jump, at `at`.
size_t follow(const sock_filter& f, uint32_t a, size_t at) {
  if (f.code == kJump) return at + 1 + f.k;
  const bool holds = f.code == (BPF_JMP | BPF_JEQ | BPF_K)   ? a == f.k
                     : f.code == (BPF_JMP | BPF_JGT | BPF_K) ? a > f.k
                                                             : a >= f.k;
  return at + 1 + (holds ? f.jt : f.jf);
}

// Skips comparisons without effect: libseccomp compares both halves of an argument, and masks the
// upper half to zero if only the lower half matters.
size_t pastVoid(const Program& filter, size_t at) {
  while (at + 2 < filter.size() && filter[at].code == kLoad && filter[at + 1].code == kMask &&
         filter[at + 1].k == 0 && isComparison(filter[at + 2])) {
    const size_t next = follow(filter[at + 2], 0, at + 2);
    const bool looks_anew =
        next < filter.size() && (filter[next].code == kLoad || filter[next].code == kReturn);
    if (!looks_anew) break;
    at = next;
  }
  return at;
}

// Possible next instructions after `at`, unless the filter ends there.
std::array<size_t, 2> nextOf(const Program& filter, size_t at) {
  const sock_filter& f = filter[at];
  if (!isComparison(f) && f.code != kJump) return {at + 1, at + 1};
  const size_t always = f.code == kJump ? f.k : 0;
  return {pastVoid(filter, at + 1 + (isComparison(f) ? f.jt : always)),
          pastVoid(filter, at + 1 + (isComparison(f) ? f.jf : always))};
}

// The result for a call up to its arguments: an answer, or the place in the filter where the
// arguments are examined.
struct Outcome {
  bool answered = false;
  uint32_t value = 0;

  friend bool operator==(const Outcome&, const Outcome&) = default;
};

using Values = std::set<uint32_t>;

// A comparison with `constant` may end otherwise from these values on.
void addCuts(Values& cuts, uint32_t constant) {
  cuts.insert({constant, constant + 1});
}

// `compared`: receives the values compared with the architecture.
std::optional<Outcome> outcomeOf(const Program& filter, uint32_t architecture, uint32_t number,
                                 Values& compared) {
  uint32_t a = 0;
  bool holds_architecture = false;
  for (size_t at = 0; at < filter.size();) {
    const sock_filter& f = filter[at];
    if (f.code == kReturn) return Outcome{true, f.k};
    if (f.code == kLoad && f.k != kNumber && f.k != kArchitecture) {
      return Outcome{false, static_cast<uint32_t>(pastVoid(filter, at))};
    }
    if (f.code == kLoad) {
      holds_architecture = f.k == kArchitecture;
      a = holds_architecture ? architecture : number;
      ++at;
    } else if (f.code == kJump || isComparison(f)) {
      if (isComparison(f) && holds_architecture) addCuts(compared, f.k);
      at = follow(f, a, at);
    } else {
      return std::nullopt;
    }
  }
  return std::nullopt;
}

struct Range {
  uint32_t first;  // to the next one's first
  Outcome outcome;
};

std::optional<std::vector<Range>> rangesOf(const Program& filter, uint32_t architecture,
                                           Values& compared) {
  Values cuts = {0};
  for (const sock_filter& f : filter) {
    if (isComparison(f)) addCuts(cuts, f.k);
  }
  std::vector<Range> ranges;
  for (const uint32_t first : cuts) {
    const auto outcome = outcomeOf(filter, architecture, first, compared);
    if (!outcome) return std::nullopt;
    if (ranges.empty() || ranges.back().outcome != *outcome) ranges.push_back({first, *outcome});
  }
  return ranges;
}

// The single answer to calls of all other architectures. `compared`: values compared with ours.
std::optional<uint32_t> answerToOthers(const Program& filter, uint32_t architecture,
                                       Values compared) {
  std::optional<uint32_t> answer;
  compared.insert(0);
  // The set grows, since another architecture may reach further comparisons.
  for (Values tried = {architecture};;) {
    const auto other = std::ranges::find_if(compared, [&](auto v) { return !tried.contains(v); });
    if (other == compared.end()) break;
    tried.insert(*other);
    const auto ranges = rangesOf(filter, *other, compared);
    if (!ranges || ranges->size() != 1 || !ranges->front().outcome.answered) return std::nullopt;
    const uint32_t its = ranges->front().outcome.value;
    if (answer.value_or(its) != its) return std::nullopt;
    answer = its;
  }
  return answer;
}

// The instructions that examine arguments, in order.
std::optional<std::vector<size_t>> argumentsPart(const Program& filter,
                                                 const std::vector<Range>& ranges) {
  std::vector<bool> reached(filter.size(), false);
  for (const Range& range : ranges) {
    if (!range.outcome.answered) reached[range.outcome.value] = true;
  }
  std::vector<size_t> part;
  for (size_t at = 0; at < filter.size(); ++at) {
    if (!reached[at]) continue;
    const sock_filter& f = filter[at];
    part.push_back(at);
    if (f.code == kReturn) continue;
    const bool branches = f.code == kJump || isComparison(f);
    if (!branches && f.code != kLoad && f.code != kMask) return std::nullopt;
    for (const size_t next : nextOf(filter, at)) {
      if (next >= filter.size()) return std::nullopt;
      reached[next] = true;
    }
  }
  return part;
}

// The binary search among ranges, with a jump wherever arguments are to be looked at.
class Search {
 public:
  explicit Search(const std::vector<Range>& ranges) : ranges_(ranges) { add(0, ranges.size()); }

  // Returns the program with its jumps aimed at `part`, which follows.
  Program aimedAt(const std::vector<size_t>& part) && {
    for (const Leap& leap : leaps_) {
      const auto index = std::ranges::lower_bound(part, leap.to) - part.begin();
      program_[leap.from].k =
          static_cast<uint32_t>(program_.size() - leap.from - 1 + static_cast<size_t>(index));
    }
    return std::move(program_);
  }

 private:
  struct Leap {
    size_t from, to;
  };
  struct End {
    size_t from;
    bool holds;
    Outcome outcome;
  };

  void add(size_t from, size_t to) {
    if (to - from <= kSharing) return addSharing(from, to);
    const size_t middle = from + (to - from) / 2;
    const size_t at = addComparison(middle);
    add(from, middle);
    const size_t lower = program_.size() - at - 1;
    if (lower <= kFarthest) {
      program_[at].jt = static_cast<uint8_t>(lower);
    } else {
      jumpOver(at, lower);
    }
    add(middle, to);
  }

  size_t addComparison(size_t middle) {
    program_.push_back(BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, ranges_[middle].first, 0, 0));
    return program_.size() - 1;
  }

  // Adds only comparisons, followed by each outcome once.
  void addSharing(size_t from, size_t to) {
    ends_.clear();
    if (to - from == 1) return addOutcome(ranges_[from].outcome);
    addComparisons(from, to);
    std::vector<std::pair<Outcome, size_t>> placed;
    for (const End& end : ends_) {
      auto known = std::ranges::find(placed, end.outcome, &std::pair<Outcome, size_t>::first);
      if (known == placed.end()) {
        known = placed.insert(placed.end(), {end.outcome, program_.size()});
        addOutcome(end.outcome);
      }
      sock_filter& f = program_[end.from];
      (end.holds ? f.jt : f.jf) = static_cast<uint8_t>(known->second - end.from - 1);
    }
  }

  void addComparisons(size_t from, size_t to) {
    const size_t middle = from + (to - from) / 2;
    const size_t at = addComparison(middle);
    if (middle - from == 1) {
      ends_.push_back({at, false, ranges_[from].outcome});
    } else {
      addComparisons(from, middle);  // follows directly
    }
    if (to - middle == 1) {
      ends_.push_back({at, true, ranges_[middle].outcome});
    } else {
      program_[at].jt = static_cast<uint8_t>(program_.size() - at - 1);
      addComparisons(middle, to);
    }
  }

  void addOutcome(const Outcome& outcome) {
    if (outcome.answered) return program_.push_back(BPF_STMT(kReturn, outcome.value));
    leaps_.push_back({program_.size(), outcome.value});
    program_.push_back(BPF_STMT(kJump, 0));
  }

  // Adds a long jump: a comparison's own jump cannot reach past the inserted instructions.
  void jumpOver(size_t at, size_t length) {
    program_[at].jf = 1;
    program_.insert(program_.begin() + static_cast<ptrdiff_t>(at) + 1,
                    BPF_STMT(kJump, static_cast<uint32_t>(length)));
    for (Leap& leap : leaps_)
      leap.from += leap.from > at ? 1 : 0;
  }

  const std::vector<Range>& ranges_;
  Program program_;
  std::vector<Leap> leaps_;
  std::vector<End> ends_;
};

// Copies the instructions of `part` in order. nullopt if a jump does not fit, since skipping
// comparisons without effect may lengthen a jump.
std::optional<Program> copyOf(const Program& filter, const std::vector<size_t>& part) {
  Program copy;
  for (const size_t at : part) {
    sock_filter f = filter[at];
    const auto distance = [&](size_t to) {
      const auto place = std::ranges::lower_bound(part, to) - part.begin();
      return static_cast<size_t>(place) - copy.size() - 1;
    };
    const auto [holds, fails] = nextOf(filter, at);
    if (f.code == kJump) f.k = static_cast<uint32_t>(distance(holds));
    if (isComparison(f)) {
      if (distance(holds) > kFarthest || distance(fails) > kFarthest) return std::nullopt;
      f.jt = static_cast<uint8_t>(distance(holds));
      f.jf = static_cast<uint8_t>(distance(fails));
    }
    copy.push_back(f);
  }
  return copy;
}

}  // namespace

std::vector<sock_filter> dispatchByRange(const std::vector<sock_filter>& filter,
                                         uint32_t architecture) {
  Values compared;
  const auto ranges = rangesOf(filter, architecture, compared);
  const auto others = answerToOthers(filter, architecture, compared);
  const auto part = ranges ? argumentsPart(filter, *ranges) : std::nullopt;
  const auto arguments = part ? copyOf(filter, *part) : std::nullopt;
  if (!others || !arguments) return filter;
  Program program = {
      BPF_STMT(kLoad, kArchitecture),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, architecture, 1, 0),
      BPF_STMT(kReturn, *others),
      BPF_STMT(kLoad, kNumber),
  };
  const auto append = [&](const Program& more) {
    program.insert(program.end(), more.begin(), more.end());
  };
  append(Search(*ranges).aimedAt(*part));
  append(*arguments);
  return program.size() < filter.size() ? program : filter;
}

}  // namespace cloister::linux
