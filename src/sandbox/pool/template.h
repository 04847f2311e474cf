// SPDX-License-Identifier: Apache-2.0
// Templates: guests' machines as they stood when they had booted and their runner waited, before
// anything of a tenant was in them. Others of the same shape begin as that, each with a copy of
// its own of the memory that it changes.
//
// No machine may change what another begins as. A template is two files in memory, which the node
// makes and, once nothing runs on them, seals: the kernel then lets nobody write to them, though
// each VMM has them open.
//
// Used from one thread.
#pragma once

#include <cstdint>
#include <list>
#include <memory>

#include "base/fd.h"
#include "base/result.h"
#include "confine/confine.h"
#include "runtime/runtime.h"
#include "sandbox/box/live.h"
#include "sandbox/guest.h"
#include "sandbox/host/spawner.h"

namespace cloister::runtime {

class Template {
 public:
  // Empty, for a machine with that much memory.
  static Result<std::shared_ptr<Template>> make(uint64_t memory_bytes);
  Template(Fd memory, Fd state) : memory_(std::move(memory)), state_(std::move(state)) {}

  // Nobody can change it from now on. Fails while a process has it mapped to write to.
  Result<> seal();

  [[nodiscard]] const Fd& memory() const { return memory_; }
  [[nodiscard]] const Fd& state() const { return state_; }  // of its processor and devices

 private:
  Fd memory_;
  Fd state_;
};

// Those of a node, a few: the least recently used makes room for the next.
class Templates {
 public:
  // What machines that may begin as the same have in common.
  struct Shape {
    const Guest* guest = nullptr;       // with its image; outlives what is kept for it
    std::weak_ptr<const Spawner> root;  // the root in which its VMM is found
    SandboxSpec spec;                   // without user ids
  };

  explicit Templates(uint32_t most) : most_(most) {}

  // nullptr where there is none.
  std::shared_ptr<const Template> find(const Shape& shape);
  // Sealed.
  void keep(Shape shape, std::shared_ptr<const Template> kept);
  // One that nothing could begin as.
  void forget(const Template& kept);
  // All of a guest that is given up, or when memory is short.
  void forget(const Guest& guest);

  [[nodiscard]] size_t count() const { return kept_.size(); }
  [[nodiscard]] uint32_t most() const { return most_; }

 private:
  struct Kept {
    Shape shape;
    std::shared_ptr<const Template> kept;
  };

  uint32_t most_;
  std::list<Kept> kept_;  // the latest used first
};

// Tells a guest that begins as a template that it is another: fresh entropy and the time, before
// anything else. An error unless it says that it has both.
Task<Result<>> wake(Live& live);

// Of those, for every result.
inline constexpr char kWeakerFromTemplate[] =
    "begun from a template: its kernel and its runner lie at the addresses, and have the secrets, "
    "of other machines of this node";

}  // namespace cloister::runtime
