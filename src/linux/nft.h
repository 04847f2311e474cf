// SPDX-License-Identifier: Apache-2.0
// nf_tables as data: a chain is a list of rules, a rule a list of expressions, and encodeChain()
// gives the batch of messages that the kernel reads (linux/netfilter/nf_tables.h). The rules of the
// door (ADR 0100) need no other part of nf_tables. Expressions hand values on in the registers
// NFT_REG_1 and NFT_REG_2.
#pragma once

#include <netinet/in.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/fd.h"
#include "base/result.h"

namespace cloister::linux::nft {

struct Expression {
  std::string name;        // the kernel's: "cmp"
  std::string attributes;  // encoded
};

// Most expressions match: the rule ends where one does not.
struct Rule {
  std::string_view why;
  std::vector<Expression> expressions;
};

// A base chain of family inet at the hook prerouting, of type filter. Packets that no rule accepts
// are dropped.
struct Chain {
  std::string table;
  std::string name;
  int32_t priority = 0;
  std::vector<Rule> rules;
};

// --- matches

Expression loadFamily();      // register 1 = NFPROTO_IPV4 or NFPROTO_IPV6
Expression loadProtocol();    // register 1 = IPPROTO_*, behind extension headers
Expression loadInterface();   // register 1 = the number of the interface, in 4 bytes
Expression loadPacketType();  // register 1 = PACKET_* of packet(7), in a byte
// Register 1 = `length` bytes at `offset` of the network or transport header.
Expression loadNetwork(uint32_t offset, uint32_t length);
Expression loadTransport(uint32_t offset, uint32_t length);
Expression mask(std::string_view bits);  // register 1 &= bits
Expression equal(std::string_view value);
Expression differ(std::string_view value);

// --- actions

// Gives the packet to the TCP or UDP socket at this address and port. Where none listens, the rule
// ends as if it did not match.
std::vector<Expression> redirect4(in_addr address, uint16_t port);
// Sends the packet's first `length` bytes to the log group, each packet at once.
Expression log(uint16_t group, uint32_t length);
// NFT_REJECT_ICMPX_UNREACH with an NFT_REJECT_ICMPX_* code, or NFT_REJECT_TCP_RST.
Expression rejectWithIcmp(uint8_t code);
Expression rejectWithReset();
Expression accept();
Expression drop();

// The batch: a new table with the chain.
std::string encodeChain(const Chain& chain);
// Installs the batch in the network namespace of `socket` (NETLINK_NETFILTER), as a whole or not at
// all. Needs CAP_NET_ADMIN there.
Result<> install(int socket, const Chain& chain);

}  // namespace cloister::linux::nft
