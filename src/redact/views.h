// SPDX-License-Identifier: Apache-2.0
// The codings in which the matcher reads a stream. A view decodes the stream as if all of it were
// in one coding, and follows the automaton of the values over the decoded bytes. Each decoded byte
// knows which bytes of the stream it came from, so a match is an extent of the stream.
//
// Decoding, instead of patterns for each coding, finds every spelling of a coding (which characters
// a program escapes, upper and lower case, line breaks), and needs one automaton of the values.
//
// A view belongs to one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "redact/automaton.h"

namespace cloister::redact {

// A match: [begin, end) of the stream. Offsets count from the stream's beginning.
struct Extent {
  uint64_t begin = 0;
  uint64_t end = 0;
  uint16_t pattern = 0;
};

inline constexpr uint64_t kNowhere = UINT64_MAX;

// Follows the automaton over decoded bytes.
class Follower {
 public:
  explicit Follower(const Automaton& automaton);

  // A decoded byte, which [begin, end) of the stream stands for. Matches are appended to `found`.
  void take(unsigned char byte, uint64_t begin, uint64_t end, std::vector<Extent>& found);
  void reset() { state_ = Automaton::kRoot; }
  [[nodiscard]] bool idle() const { return state_ == Automaton::kRoot; }
  [[nodiscard]] const Automaton& automaton() const { return *automaton_; }
  // Where the bytes begin that may become a match; kNowhere if there are none.
  [[nodiscard]] uint64_t earliest() const;

 private:
  [[nodiscard]] uint64_t beginOf(uint32_t length) const;

  const Automaton* automaton_;
  Automaton::State state_ = Automaton::kRoot;
  uint64_t count_ = 0;
  std::vector<uint64_t> begins_;  // of the last decoded bytes, in a ring
  size_t mask_ = 0;
};

class View {
 public:
  View() = default;
  virtual ~View() = default;
  View(const View&) = delete;
  View& operator=(const View&) = delete;

  // The next bytes of the stream; `offset` is that of the first.
  virtual void feed(std::string_view bytes, uint64_t offset, std::vector<Extent>& found) = 0;
  // After the last byte.
  virtual void end(std::vector<Extent>& found) = 0;
  // Bytes from here on may belong to a match that is not complete; kNowhere if none do.
  [[nodiscard]] virtual uint64_t earliest() const = 0;
  // Forgets a match that has begun.
  virtual void reset() = 0;
};

// `folded`: the automaton of the values with " " instead of "+", for forms.
std::vector<std::unique_ptr<View>> makeViews(const Automaton& values, const Automaton& folded);

}  // namespace cloister::redact
