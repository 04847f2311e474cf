// SPDX-License-Identifier: Apache-2.0
// Finds secrets in bytes, in every coding in which programs and servers repeat them: raw, base64
// and base64url in three alignments, hex in both cases, percent-encoded, as JSON strings (\u
// escapes too), UTF-16 in both byte orders. Values are at most model::kMaxSecretBytes long; shorter
// values than kMinSecretBytes are refused when set, since short texts occur by chance.
// Hex and base64 may have line breaks, and LF may have become CR LF.
//
// Patterns are immutable and shared between threads. A Stream belongs to one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace cloister::redact {

inline constexpr size_t kMinSecretBytes = 8;

struct Secret {
  std::string name;
  std::string value;
};

// The automaton of a set of secrets.
class Patterns {
 public:
  static std::shared_ptr<const Patterns> make(const std::vector<Secret>& secrets);
  ~Patterns();
  Patterns(const Patterns&) = delete;
  Patterns& operator=(const Patterns&) = delete;

  [[nodiscard]] bool empty() const;
  // The name of the first secret found in the whole text; "" if none is found.
  [[nodiscard]] std::string find(std::string_view text) const;
  // The text with each occurrence replaced by "[secret NAME]".
  [[nodiscard]] std::string redacted(std::string_view text) const;

 private:
  friend class Stream;
  struct Impl;
  explicit Patterns(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

// Replaces the occurrences in a stream. Bytes that may begin an occurrence are held back, at most
// eight for each byte of the longest value.
class Stream {
 public:
  explicit Stream(std::shared_ptr<const Patterns> patterns);
  ~Stream();

  // Returns the settled bytes.
  std::string feed(std::string_view bytes);
  // The rest, after the last bytes.
  std::string finish();
  // Replaced so far, and one more if a complete one is held back: overlapping occurrences are one.
  // And the name of the first.
  [[nodiscard]] uint64_t hits() const;
  [[nodiscard]] const std::string& firstName() const;

 private:
  friend class Patterns;
  struct Impl;
  explicit Stream(const Patterns& patterns);  // outlive the stream
  std::shared_ptr<const Patterns> patterns_;
  std::unique_ptr<Impl> impl_;
};

}  // namespace cloister::redact
