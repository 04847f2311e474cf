// SPDX-License-Identifier: Apache-2.0
// ResultParts: splits a cell's result into parts on arrival, so that an oversized part costs only
// the part itself. A result is a JSON object from mime type to data; its members are the parts.
// Text over the bound is cut, every other oversized part is left out. The whole input comes from
// the sandbox, so memory never exceeds the bound. One thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"

namespace cloister::orchestrator {

// A missing or cut part.
struct LeftOutPart {
  std::string type;
  uint64_t bytes = 0;       // size of the part, as JSON
  uint64_t kept_bytes = 0;  // 0: missing
};

class ResultParts {
 public:
  static constexpr size_t kMaxTypes = 16;

  // `most`: bytes for all parts together.
  explicit ResultParts(uint64_t most = 0) : most_(most) {}

  void add(std::string_view bytes);

  // At the end of the input: the kept parts. Invalid input has no parts.
  [[nodiscard]] base::json::object& parts() { return parts_; }
  [[nodiscard]] std::vector<LeftOutPart>& leftOut() { return left_out_; }
  // False if the input was not an object of parts.
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
  // Takes bytes of a value; returns the number taken.
  size_t inValue(std::string_view bytes);
  [[nodiscard]] uint64_t room() const;
  void keep(std::string_view bytes);
  void endValue();
  // Keeps the content of `value_`.
  bool keepValue();
  bool keepCut();

  uint64_t most_;
  uint64_t used_ = 0;
  State state_ = State::kStart;
  std::string type_;
  std::string value_;         // as far as bounded
  uint64_t value_bytes_ = 0;  // of the whole value
  uint32_t depth_ = 0;
  bool in_string_ = false;  // of a value
  bool escaped_ = false;
  base::json::object parts_;
  std::vector<LeftOutPart> left_out_;
};

}  // namespace cloister::orchestrator
