// SPDX-License-Identifier: Apache-2.0
// Names: the synthetic addresses of one door. A look-up of an allowed name gives an address of a
// pool; a connection to that address is relayed to the name. An address stands for one name as long
// as the door lives, so a program that keeps an address never reaches another host. After a restart
// of the process the door begins anew at another place of the pool, so that an address from before
// has no name, as a rule.
//
// Not thread-safe. The names come from the sandbox, so their number is bounded.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/network.h"
#include "base/result.h"

namespace cloister::egress {

class Names {
 public:
  // Bounds the memory of one door to about 1.5 MiB.
  static constexpr size_t kMost = 4096;
  static constexpr std::string_view kDefaultPool = "198.18.0.0/15";
  // The first addresses of a pool are the door's own (docs/adr/0100): the network, the listener and
  // the source.
  static constexpr uint32_t kOwn = 3;

  // kInvalid: `pool` is not of IPv4, or has less than 16 addresses. At most `most` names get an
  // address, and at most as many as the pool has room for.
  // `place`: where in the pool the addresses begin, modulo its room.
  static Result<Names> make(const base::Network& pool, size_t most = kMost, uint32_t place = 0);
  Names(Names&&) = default;
  Names& operator=(Names&&) = default;
  Names(const Names&) = delete;
  Names& operator=(const Names&) = delete;
  ~Names() = default;

  // The same address for the same name. nullopt: there is no room for another name. Names with an
  // address keep it.
  std::optional<base::Address> addressOf(std::string_view name);
  // The name whose address it is; nullopt: no name has it.
  [[nodiscard]] std::optional<std::string_view> nameOf(const base::Address& address) const;
  // Whether the address is one of the pool, with or without a name.
  [[nodiscard]] bool inPool(const base::Address& address) const;
  [[nodiscard]] size_t size() const { return names_.size(); }

 private:
  Names(const base::Network& pool, size_t most, uint32_t room, uint32_t place)
      : pool_(pool), most_(most), room_(room), place_(place % room) {}

  base::Network pool_;
  size_t most_;
  uint32_t room_;   // addresses for names
  uint32_t place_;  // of the first name among these
  std::map<std::string, uint32_t, std::less<>> indices_;
  std::vector<std::string_view> names_;  // views of the keys, which never move
};

}  // namespace cloister::egress
