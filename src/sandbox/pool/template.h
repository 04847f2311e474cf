// SPDX-License-Identifier: Apache-2.0
// Templates: the state of guests' machines after the boot, with a waiting runner, and before any
// data of a tenant. Other guests of the same shape begin from this state, each with a private copy
// of the memory pages that change.
//
// No machine may change the state from which another begins. A template is two files in memory. The
// node makes the files and, once no machine runs on the files, seals both. The kernel then refuses
// every write, although each VMM has the files open.
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
#include "sandbox/host/guest.h"
#include "sandbox/host/spawner.h"

namespace cloister::runtime {

class Template {
 public:
  // An empty template for a machine with `memory_bytes`.
  static Result<std::shared_ptr<Template>> make(uint64_t memory_bytes);
  Template(Fd memory, Fd state) : memory_(std::move(memory)), state_(std::move(state)) {}

  // Makes the template immutable. Fails while a process has a writable mapping.
  Result<> seal();

  [[nodiscard]] const Fd& memory() const { return memory_; }
  [[nodiscard]] const Fd& state() const { return state_; }  // of its processor and devices

 private:
  Fd memory_;
  Fd state_;
};

// A node's few templates. The least recently used is dropped for a new one.
class Templates {
 public:
  // Common properties of machines that may resume from the same template.
  struct Shape {
    const Guest* guest = nullptr;       // the guest with its image, which must outlive its
                                        // templates
    std::weak_ptr<const Spawner> root;  // the root that contains the VMM
    SandboxSpec spec;                   // without user ids
  };

  explicit Templates(uint32_t most) : most_(most) {}

  // The matching template, or nullptr.
  std::shared_ptr<const Template> find(const Shape& shape);
  // Sealed.
  void keep(Shape shape, std::shared_ptr<const Template> kept);
  // Drops a template that failed to resume.
  void forget(const Template& kept);
  // Drops all templates of a guest that is removed, or when memory is short.
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

// Tells a resumed guest that it is a new machine: sends fresh entropy and the time before anything
// else. Fails unless the guest confirms both.
Task<Result<>> wake(Live& live);

// Weaknesses of resumed machines, for each result.
inline constexpr char kWeakerFromTemplate[] =
    "begun from a template: its kernel and its runner lie at the addresses, and have the secrets, "
    "of other machines of this node";

}  // namespace cloister::runtime
