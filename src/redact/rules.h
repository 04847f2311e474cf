// SPDX-License-Identifier: Apache-2.0
// Rules: regular expressions of RE2 for texts that must not leave (docs/DLP.md). A match stays
// within a line. A line longer than twice the bound of a match is searched in pieces that overlap
// by the bound, so longer matches in it may be missed.
//
// A masked text has a "*" for each byte, so lengths stay as they are.
//
// Rules are immutable and shared between threads. A RuleStream belongs to one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <expected>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace cloister::redact {

enum class RuleAction : uint8_t {
  kReport,  // the text passes
  kRedact,  // the text is masked
  kRefuse,  // nothing passes from the text on
};

struct Rule {
  std::string name;
  std::string pattern;
  RuleAction action = RuleAction::kReport;
};

class Rules {
 public:
  struct Fault {
    size_t rule = 0;  // its index
    std::string why;  // RE2's words
  };
  // `longest`: the bound of a match, in bytes.
  static std::expected<std::shared_ptr<const Rules>, Fault> make(std::vector<Rule> rules,
                                                                 size_t longest);
  ~Rules();
  Rules(const Rules&) = delete;
  Rules& operator=(const Rules&) = delete;

  [[nodiscard]] const std::vector<Rule>& all() const { return rules_; }
  // Whether a rule may change the bytes, which are then held back up to the end of their line.
  [[nodiscard]] bool changes() const { return changes_; }

 private:
  friend class RuleStream;
  struct Compiled;
  Rules(std::vector<Rule> rules, size_t longest);

  std::vector<Rule> rules_;
  std::unique_ptr<Compiled> compiled_;
  size_t longest_;
  bool changes_ = false;
};

// Applies the rules to a stream.
class RuleStream {
 public:
  explicit RuleStream(std::shared_ptr<const Rules> rules);

  // Returns the bytes that pass. Bytes of an unfinished line are held back, if a rule may change
  // them, up to twice the bound of a match.
  std::string feed(std::string_view bytes);
  // The rest, after the last bytes.
  std::string finish();

  // Matches so far, for each of Rules::all().
  [[nodiscard]] const std::vector<uint64_t>& hits() const { return hits_; }
  [[nodiscard]] bool anyHit() const;
  // The rule that refuses the stream; null: none. No further byte passes.
  [[nodiscard]] const Rule* refusing() const { return refusing_; }

 private:
  std::string pass(bool last);
  void search(size_t rule, size_t limit, bool open, size_t& settled);

  std::shared_ptr<const Rules> rules_;
  std::vector<uint64_t> hits_;
  std::vector<size_t> searched_;  // by rule: the next match begins here or later
  std::string text_;              // as it came, from a byte before the unsettled ones
  std::string masked_;            // the same, masked
  size_t passed_ = 0;             // bytes of masked_ that have passed
  const Rule* refusing_ = nullptr;
};

// A whole text, masked where a rule redacts, and from there on where one refuses. Adds to `hits`,
// one for each rule.
std::string masked(const std::shared_ptr<const Rules>& rules, std::string_view text,
                   std::vector<uint64_t>& hits);

}  // namespace cloister::redact
