// SPDX-License-Identifier: Apache-2.0
// Record: attempts on their way to the ledger. Attempts with the same destination and rule in the
// same second are one. A batch stays here until the control plane says that the ledger has it.
// Everything is bounded: while there is no room, or the ledger refuses, accepts() is false and no
// new connection is made. One thread.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <string>

#include "wire/egress.h"

namespace cloister::egress {

class Record {
 public:
  // `last`: the number before the first batch. Numbers rise over restarts of the process, when
  // `last` comes from the wall clock.
  Record(size_t attempts_kept, uint64_t last) : most_(attempts_kept), last_(last) {}

  // Distinct refused attempts of one permit in a batch; further ones are only counted. Allowed
  // attempts are never left out, so no noise hides an allowed attempt: the rates of a sandbox bound
  // the number, and accepts() is asked before.
  static constexpr size_t kMostOfPermit = 64;

  // Whether a new connection may be made.
  [[nodiscard]] bool accepts() const { return !stopped_ && attempts_ < most_; }
  // The ledger refuses, or accepts again.
  void stop(bool stopped) { stopped_ = stopped; }

  void add(const wire::egress::Attempts& attempts);
  // Attempts of which nothing but their number is known.
  void leaveOut(uint64_t count) { open_.left_out += count; }
  // Makes a batch of the attempts since the last one. False if there is none to make.
  bool close();

  [[nodiscard]] const std::deque<wire::egress::Batch>& kept() const { return kept_; }
  [[nodiscard]] uint64_t last() const { return last_; }
  // The batches up to this number are in the ledger.
  void taken(uint64_t number);

 private:
  size_t most_;
  size_t attempts_ = 0;  // aggregated, in open_ and kept_
  uint64_t last_;
  bool stopped_ = false;
  wire::egress::Batch open_;
  std::map<std::string, size_t> places_;      // in open_, by what makes attempts equal
  std::map<std::string, size_t> of_permits_;  // number of refused ones in open_
  std::deque<wire::egress::Batch> kept_;
};

}  // namespace cloister::egress
