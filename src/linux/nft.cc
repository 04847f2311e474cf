// SPDX-License-Identifier: Apache-2.0
#include "linux/nft.h"

#include <linux/netfilter.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter/nfnetlink.h>
#include <linux/netlink.h>

#include <utility>

#include <arpa/inet.h>

#include "linux/netlink.h"

namespace cloister::linux::nft {
namespace {

// The attributes of an expression alone are built as a message whose header is cut off.
class Attributes : public NetlinkMessages {
 public:
  Attributes() { begin(0, 0, {}); }
  [[nodiscard]] std::string take() const { return bytes().substr(sizeof(nlmsghdr)); }
};

void addValue(Attributes& attributes, uint16_t type, std::string_view value) {
  attributes.open(type);
  attributes.add(NFTA_DATA_VALUE, value);
  attributes.close();
}

Expression loadMeta(uint32_t key) {
  Attributes all;
  all.addBig32(NFTA_META_KEY, key);
  all.addBig32(NFTA_META_DREG, NFT_REG_1);
  return {"meta", all.take()};
}

Expression loadPayload(uint32_t base, uint32_t offset, uint32_t length) {
  Attributes all;
  all.addBig32(NFTA_PAYLOAD_DREG, NFT_REG_1);
  all.addBig32(NFTA_PAYLOAD_BASE, base);
  all.addBig32(NFTA_PAYLOAD_OFFSET, offset);
  all.addBig32(NFTA_PAYLOAD_LEN, length);
  return {"payload", all.take()};
}

Expression compare(uint32_t how, std::string_view value) {
  Attributes all;
  all.addBig32(NFTA_CMP_SREG, NFT_REG_1);
  all.addBig32(NFTA_CMP_OP, how);
  addValue(all, NFTA_CMP_DATA, value);
  return {"cmp", all.take()};
}

Expression immediate(uint32_t to, std::string_view value) {
  Attributes all;
  all.addBig32(NFTA_IMMEDIATE_DREG, to);
  addValue(all, NFTA_IMMEDIATE_DATA, value);
  return {"immediate", all.take()};
}

Expression reject(uint32_t type, uint8_t code) {
  Attributes all;
  all.addBig32(NFTA_REJECT_TYPE, type);
  all.add(NFTA_REJECT_ICMP_CODE, bytesOf(code));
  return {"reject", all.take()};
}

}  // namespace

Expression loadFamily() {
  return loadMeta(NFT_META_NFPROTO);
}

Expression loadProtocol() {
  return loadMeta(NFT_META_L4PROTO);
}

Expression loadInterface() {
  return loadMeta(NFT_META_IIF);
}

Expression loadPacketType() {
  return loadMeta(NFT_META_PKTTYPE);
}

Expression loadNetwork(uint32_t offset, uint32_t length) {
  return loadPayload(NFT_PAYLOAD_NETWORK_HEADER, offset, length);
}

Expression loadTransport(uint32_t offset, uint32_t length) {
  return loadPayload(NFT_PAYLOAD_TRANSPORT_HEADER, offset, length);
}

Expression mask(std::string_view bits) {
  Attributes all;
  all.addBig32(NFTA_BITWISE_SREG, NFT_REG_1);
  all.addBig32(NFTA_BITWISE_DREG, NFT_REG_1);
  all.addBig32(NFTA_BITWISE_LEN, static_cast<uint32_t>(bits.size()));
  addValue(all, NFTA_BITWISE_MASK, bits);
  addValue(all, NFTA_BITWISE_XOR, std::string(bits.size(), '\0'));
  return {"bitwise", all.take()};
}

Expression equal(std::string_view value) {
  return compare(NFT_CMP_EQ, value);
}

Expression differ(std::string_view value) {
  return compare(NFT_CMP_NEQ, value);
}

std::vector<Expression> redirect4(in_addr address, uint16_t port) {
  Attributes all;
  all.addBig32(NFTA_TPROXY_FAMILY, NFPROTO_IPV4);
  all.addBig32(NFTA_TPROXY_REG_ADDR, NFT_REG_1);
  all.addBig32(NFTA_TPROXY_REG_PORT, NFT_REG_2);
  const uint16_t big = htons(port);
  return {immediate(NFT_REG_1, bytesOf(address)),
          immediate(NFT_REG_2, bytesOf(big)),
          {"tproxy", all.take()},
          accept()};
}

Expression log(uint16_t group, uint32_t length) {
  Attributes all;
  all.addBig16(NFTA_LOG_GROUP, group);
  all.addBig32(NFTA_LOG_SNAPLEN, length);
  all.addBig16(NFTA_LOG_QTHRESHOLD, 1);
  return {"log", all.take()};
}

Expression rejectWithIcmp(uint8_t code) {
  return reject(NFT_REJECT_ICMPX_UNREACH, code);
}

Expression rejectWithReset() {
  return reject(NFT_REJECT_TCP_RST, 0);
}

namespace {

Expression verdict(uint32_t code) {
  Attributes all;
  all.addBig32(NFTA_IMMEDIATE_DREG, NFT_REG_VERDICT);
  all.open(NFTA_IMMEDIATE_DATA);
  all.open(NFTA_DATA_VERDICT);
  all.addBig32(NFTA_VERDICT_CODE, code);
  all.close();
  all.close();
  return {"immediate", all.take()};
}

}  // namespace

Expression accept() {
  return verdict(NF_ACCEPT);
}

Expression drop() {
  return verdict(NF_DROP);
}

namespace {

void begin(NetlinkMessages& batch, uint16_t type, uint16_t flags, uint8_t family,
           uint16_t resource) {
  const nfgenmsg header{.nfgen_family = family, .version = NFNETLINK_V0, .res_id = htons(resource)};
  batch.begin(type, flags, bytesOf(header));
}

void beginOf(NetlinkMessages& batch, uint16_t message, uint16_t flags) {
  begin(batch, static_cast<uint16_t>(NFNL_SUBSYS_NFTABLES << 8 | message), flags, NFPROTO_INET, 0);
}

void addChain(NetlinkMessages& batch, const Chain& chain) {
  beginOf(batch, NFT_MSG_NEWCHAIN, NLM_F_CREATE | NLM_F_EXCL);
  batch.addText(NFTA_CHAIN_TABLE, chain.table);
  batch.addText(NFTA_CHAIN_NAME, chain.name);
  batch.open(NFTA_CHAIN_HOOK);
  batch.addBig32(NFTA_HOOK_HOOKNUM, NF_INET_PRE_ROUTING);
  batch.addBig32(NFTA_HOOK_PRIORITY, static_cast<uint32_t>(chain.priority));
  batch.close();
  batch.addBig32(NFTA_CHAIN_POLICY, NF_DROP);
  batch.addText(NFTA_CHAIN_TYPE, "filter");
}

void addRule(NetlinkMessages& batch, const Chain& chain, const Rule& rule) {
  beginOf(batch, NFT_MSG_NEWRULE, NLM_F_CREATE | NLM_F_APPEND);
  batch.addText(NFTA_RULE_TABLE, chain.table);
  batch.addText(NFTA_RULE_CHAIN, chain.name);
  batch.open(NFTA_RULE_EXPRESSIONS);
  for (const Expression& each : rule.expressions) {
    batch.open(NFTA_LIST_ELEM);
    batch.addText(NFTA_EXPR_NAME, each.name);
    batch.add(NFTA_EXPR_DATA | NLA_F_NESTED, each.attributes);
    batch.close();
  }
  batch.close();
}

// The last message within the batch asks for the acknowledgement: kernels before 6.10 acknowledge
// no end of a batch.
NetlinkMessages batchOf(const Chain& chain) {
  NetlinkMessages batch;
  begin(batch, NFNL_MSG_BATCH_BEGIN, 0, AF_UNSPEC, NFNL_SUBSYS_NFTABLES);
  beginOf(batch, NFT_MSG_NEWTABLE, NLM_F_CREATE | NLM_F_EXCL);
  batch.addText(NFTA_TABLE_NAME, chain.table);
  addChain(batch, chain);
  for (const Rule& rule : chain.rules)
    addRule(batch, chain, rule);
  batch.acknowledge();
  begin(batch, NFNL_MSG_BATCH_END, 0, AF_UNSPEC, NFNL_SUBSYS_NFTABLES);
  return batch;
}

}  // namespace

std::string encodeChain(const Chain& chain) {
  return batchOf(chain).bytes();
}

Result<> install(int socket, const Chain& chain) {
  return transact(socket, batchOf(chain), "installing the rules of nf_tables");
}

}  // namespace cloister::linux::nft
