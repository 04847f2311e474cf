// SPDX-License-Identifier: Apache-2.0
// Encodes the plans that the node makes once. The spawner and the zygotes receive the bytes as a
// sealed file; all of these programs come from one build. The encoding is not for the wire: no
// other program reads or writes the bytes.
#pragma once

#include <linux/filter.h>

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "confine/confine.h"
#include "confine/mount_plan.h"
#include "wire/codec.h"

namespace cloister::runtime {

// Appends; the encoder of the wire writes into room of a known size.
class PlanWriter {
 public:
  template <class T>
  void number(T value) {
    raw(&value, sizeof value);
  }
  void text(std::string_view value) {
    number(static_cast<uint32_t>(value.size()));
    raw(value.data(), value.size());
  }
  template <class List, class Each>
  void list(const List& items, Each&& each) {
    number(static_cast<uint32_t>(items.size()));
    for (const auto& item : items)
      each(item);
  }
  void texts(const std::vector<std::string>& values) {
    list(values, [&](const std::string& value) { text(value); });
  }
  // Without the `why`.
  void steps(const std::vector<MountStep>& steps);
  void filter(const std::vector<sock_filter>& filter);
  // But for the runner's program, and the filter for disks.
  void confinement(const Confinement& confinement, const std::vector<MountStep>& root);
  std::string take() { return std::move(bytes_); }

 private:
  void raw(const void* data, size_t size) { bytes_.append(static_cast<const char*>(data), size); }
  std::string bytes_;
};

template <class T, class Each>
std::vector<T> readList(wire::Reader& r, Each&& each) {
  std::vector<T> items;
  for (uint32_t left = r.u32(); left > 0 && r.ok(); --left)
    items.push_back(each());
  return items;
}
std::vector<std::string> readTexts(wire::Reader& r);
std::vector<MountStep> readSteps(wire::Reader& r);
Confinement readConfinement(wire::Reader& r);

// Reads a whole file from its beginning, whatever the current offset.
Result<std::string> readPlan(int fd);

}  // namespace cloister::runtime
