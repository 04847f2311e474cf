// SPDX-License-Identifier: Apache-2.0
// ResultParts: takes a result of a cell apart as it arrives, so that one part that does not fit
// costs that part only. A result is a JSON object from mime type to data; its members are its
// parts. Text that is over the bound is cut, every other part is left out. All of it comes from
// the sandbox: no more than the bound is ever held. One thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"

namespace cloister::orchestrator {

// A part that is not there, or not whole.
struct LeftOutPart {
  std::string type;
  uint64_t bytes = 0;       // that the part took, as JSON
  uint64_t kept_bytes = 0;  // 0: none of it is there
};

class ResultParts {
 public:
  static constexpr size_t kMaxTypes = 16;

  // `most`: bytes that the parts may take together.
  explicit ResultParts(uint64_t most = 0) : most_(most) {}

  void add(std::string_view bytes);

  // Once all is there: the parts that could be kept. There are none in what was no result.
  [[nodiscard]] base::json::object& parts() { return parts_; }
  [[nodiscard]] std::vector<LeftOutPart>& leftOut() { return left_out_; }
  // False when what came is no object of parts.
  [[nodiscard]] bool isResult() const { return state_ == State::kEnd; }
  [[nodiscard]] uint64_t bytes() const { return used_; }  // of the parts kept

 private:
  enum class State : uint8_t {
    kStart,
    kFirstKey,
    kKey,
    kInKey,
    kColon,
    kValue,
    kInValue,
    kEnd,
    kBad
  };

  [[nodiscard]] State between(char c) const;
  void inKey(char c);
  // Takes what it can of a value's bytes; returns how many.
  size_t inValue(std::string_view bytes);
  [[nodiscard]] uint64_t room() const;
  void keep(std::string_view bytes);
  void endValue();
  // Of its value what `value_` holds.
  bool keepValue();
  bool keepCut();

  uint64_t most_;
  uint64_t used_ = 0;
  State state_ = State::kStart;
  std::string type_;
  std::string value_;         // as far as it fits
  uint64_t value_bytes_ = 0;  // of all of it
  uint32_t depth_ = 0;
  bool in_string_ = false;  // of a value
  bool escaped_ = false;
  base::json::object parts_;
  std::vector<LeftOutPart> left_out_;
};

}  // namespace cloister::orchestrator
