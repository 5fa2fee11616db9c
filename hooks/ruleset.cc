#include "hooks/ruleset.h"

// Before the kernel's headers, which otherwise define the same things once more.
#include <netinet/in.h>

#include <libnftnl/chain.h>
#include <libnftnl/common.h>
#include <libnftnl/expr.h>
#include <libnftnl/rule.h>
#include <libnftnl/table.h>
#include <libnftnl/udata.h>
#include <linux/netfilter.h>
#include <linux/netfilter/nf_conntrack_common.h>
#include <linux/netfilter/nf_nat.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter/nfnetlink.h>
#include <sys/socket.h>

#include <cstring>
#include <optional>

#include "hooks/netlink.h"

namespace leash::hooks {
namespace {

constexpr uint8_t kTcpFin = 0x01;
constexpr uint8_t kTcpSyn = 0x02;
constexpr uint8_t kTcpRst = 0x04;
constexpr uint8_t kTcpAck = 0x10;
constexpr uint32_t kRouteTypeLocal = 2;  // RTN_LOCAL
constexpr int kSendBuffer = 8 << 20;

struct NftDeleter {
  void operator()(nftnl_table* table) const { nftnl_table_free(table); }
  void operator()(nftnl_chain* chain) const { nftnl_chain_free(chain); }
  void operator()(nftnl_rule* rule) const { nftnl_rule_free(rule); }
};
template <class T>
using Nft = std::unique_ptr<T, NftDeleter>;

Rule::Expr make_expr(const char* name) { return Rule::Expr(nftnl_expr_alloc(name)); }

std::string text_of(const nftnl_expr* expr) {
  std::string name = nftnl_expr_get_str(expr, NFTNL_EXPR_NAME);
  // Traffic moves the counters between sending and reading.
  if (name == "counter") return name;
  char buffer[512] = {};
  nftnl_expr_snprintf(buffer, sizeof(buffer), expr, NFTNL_OUTPUT_DEFAULT, 0);
  name += ' ';
  name += buffer;
  while (!name.empty() && name.back() == ' ') name.pop_back();
  return name;
}

uint32_t hook_number(Hook hook) {
  switch (hook) {
    case Hook::kPrerouting: return NF_INET_PRE_ROUTING;
    case Hook::kInput: return NF_INET_LOCAL_IN;
    case Hook::kForward: return NF_INET_FORWARD;
    case Hook::kOutput: return NF_INET_LOCAL_OUT;
    case Hook::kNone: break;
  }
  return NF_INET_NUMHOOKS;
}

std::string describe(const Chain& chain) {
  if (chain.hook == Hook::kNone) return "chain without a hook";
  return "type " + chain.type + " hook " + std::to_string(hook_number(chain.hook)) + " priority " +
         std::to_string(chain.priority) + " policy " + (chain.drops ? "drop" : "accept");
}

std::string describe(const nftnl_chain* chain) {
  if (!nftnl_chain_is_set(chain, NFTNL_CHAIN_HOOKNUM)) return "chain without a hook";
  const char* type = nftnl_chain_get_str(chain, NFTNL_CHAIN_TYPE);
  return std::string("type ") + (type != nullptr ? type : "?") + " hook " +
         std::to_string(nftnl_chain_get_u32(chain, NFTNL_CHAIN_HOOKNUM)) + " priority " +
         std::to_string(nftnl_chain_get_s32(chain, NFTNL_CHAIN_PRIO)) + " policy " +
         (nftnl_chain_get_u32(chain, NFTNL_CHAIN_POLICY) == NF_DROP ? "drop" : "accept");
}

// A transaction: begin, the changes, end. Each change has a name for errors.
class Transaction {
 public:
  Transaction() {
    bounds([](char* buffer, uint32_t sequence) { return nftnl_batch_begin(buffer, sequence); }, "begin a transaction");
  }

  template <class Object, class Build>
  void add(uint16_t type, uint16_t flags, std::string name, Object* object, Build build) {
    auto* header = nftnl_nlmsg_build_hdr(scratch_, type, NFPROTO_INET, flags, next());
    build(header, object);
    last_ = bytes_.size();
    append(header, std::move(name));
  }

  Result<void> commit(int socket_fd) && {
    // One acknowledgement, for the last change: the kernel says it after the commit.
    reinterpret_cast<nlmsghdr*>(bytes_.data() + last_)->nlmsg_flags |= NLM_F_ACK;
    const uint32_t last_sequence = reinterpret_cast<nlmsghdr*>(bytes_.data() + last_)->nlmsg_seq;
    bounds([](char* buffer, uint32_t sequence) { return nftnl_batch_end(buffer, sequence); }, "end a transaction");

    ::setsockopt(socket_fd, SOL_SOCKET, SO_SNDBUFFORCE, &kSendBuffer, sizeof(kSendBuffer));
    sockaddr_nl kernel{};
    kernel.nl_family = AF_NETLINK;
    while (::sendto(socket_fd, bytes_.data(), bytes_.size(), 0, reinterpret_cast<sockaddr*>(&kernel),
                    sizeof(kernel)) < 0) {
      if (errno != EINTR) return Error::last_errno("send the nftables transaction");
    }
    std::vector<char> buffer;
    for (;;) {
      TRY(const size_t size, receive_netlink(socket_fd, buffer).context("nftables transaction"));
      int left = static_cast<int>(size);
      for (auto* message = reinterpret_cast<const nlmsghdr*>(buffer.data()); mnl_nlmsg_ok(message, left);
           message = mnl_nlmsg_next(message, &left)) {
        if (message->nlmsg_type != NLMSG_ERROR) continue;
        const NetlinkAck ack = parse_ack(message);
        const uint32_t position = ack.sequence - first_sequence_;
        if (position >= names_.size()) continue;  // of an earlier transaction
        if (ack.error != 0)
          return NetlinkBatch::Outcome{names_[position], ack.error, ack.explanation}.as_error();
        if (ack.sequence == last_sequence) return {};
      }
    }
  }

 private:
  template <class Build>
  void bounds(Build build, const char* name) {
    append(build(scratch_, next()), name);
  }
  uint32_t next() { return first_sequence_ + static_cast<uint32_t>(names_.size()); }
  void append(const nlmsghdr* header, std::string name) {
    names_.push_back(std::move(name));
    bytes_.insert(bytes_.end(), scratch_, scratch_ + MNL_ALIGN(header->nlmsg_len));
  }

  static uint32_t fresh_sequence() {
    static uint32_t sequence = 0;
    return sequence += 1u << 16;
  }

  alignas(nlmsghdr) char scratch_[16 << 10] = {};
  std::vector<char> bytes_;
  size_t last_ = 0;
  std::vector<std::string> names_;
  uint32_t first_sequence_ = fresh_sequence();
};

Nft<nftnl_table> make_table(const std::string& name) {
  Nft<nftnl_table> table(nftnl_table_alloc());
  nftnl_table_set_u32(table.get(), NFTNL_TABLE_FAMILY, NFPROTO_INET);
  nftnl_table_set_str(table.get(), NFTNL_TABLE_NAME, name.c_str());
  return table;
}

Nft<nftnl_chain> make_chain(const std::string& table, const Chain& description) {
  Nft<nftnl_chain> chain(nftnl_chain_alloc());
  nftnl_chain_set_u32(chain.get(), NFTNL_CHAIN_FAMILY, NFPROTO_INET);
  nftnl_chain_set_str(chain.get(), NFTNL_CHAIN_TABLE, table.c_str());
  nftnl_chain_set_str(chain.get(), NFTNL_CHAIN_NAME, description.name.c_str());
  if (description.hook != Hook::kNone) {
    nftnl_chain_set_str(chain.get(), NFTNL_CHAIN_TYPE, description.type.c_str());
    nftnl_chain_set_u32(chain.get(), NFTNL_CHAIN_HOOKNUM, hook_number(description.hook));
    nftnl_chain_set_s32(chain.get(), NFTNL_CHAIN_PRIO, description.priority);
    nftnl_chain_set_u32(chain.get(), NFTNL_CHAIN_POLICY, description.drops ? NF_DROP : NF_ACCEPT);
  }
  return chain;
}

Nft<nftnl_rule> make_rule(const std::string& table, const Rule& description) {
  Nft<nftnl_rule> rule(nftnl_rule_alloc());
  nftnl_rule_set_u32(rule.get(), NFTNL_RULE_FAMILY, NFPROTO_INET);
  nftnl_rule_set_str(rule.get(), NFTNL_RULE_TABLE, table.c_str());
  nftnl_rule_set_str(rule.get(), NFTNL_RULE_CHAIN, description.chain().c_str());
  nftnl_udata_buf* comment = nftnl_udata_buf_alloc(NFT_USERDATA_MAXLEN);
  nftnl_udata_put_strz(comment, NFTNL_UDATA_RULE_COMMENT, description.name().c_str());
  nftnl_rule_set_data(rule.get(), NFTNL_RULE_USERDATA, nftnl_udata_buf_data(comment), nftnl_udata_buf_len(comment));
  nftnl_udata_buf_free(comment);
  return rule;
}

// Of a rule that was read: nft's comment, or empty.
std::string name_of(const nftnl_rule* rule) {
  uint32_t size = 0;
  const void* data = nftnl_rule_get_data(rule, NFTNL_RULE_USERDATA, &size);
  std::string name;
  if (data == nullptr) return name;
  nftnl_udata_parse(
      data, size,
      [](const nftnl_udata* attribute, void* result) {
        const auto* text = static_cast<const char*>(nftnl_udata_get(attribute));
        if (nftnl_udata_type(attribute) == NFTNL_UDATA_RULE_COMMENT)
          static_cast<std::string*>(result)->assign(text, strnlen(text, nftnl_udata_len(attribute)));
        return 0;
      },
      &name);
  return name;
}

struct ReadRule {
  std::string chain;
  std::string name;
  std::vector<std::string> text;
  std::optional<RuleCounter> counter;
};

Result<std::vector<ReadRule>> read_rules(int socket_fd, const std::string& table) {
  std::vector<ReadRule> rules;
  NetlinkMessage request((NFNL_SUBSYS_NFTABLES << 8) | NFT_MSG_GETRULE, 0);
  request.extra<nfgenmsg>()->nfgen_family = NFPROTO_INET;
  mnl_attr_put_strz(request.header(), NFTA_RULE_TABLE, table.c_str());
  TRY_VOID(dump(socket_fd, request, "read the rules back", [&] { rules.clear(); },
                [&](const nlmsghdr* message) -> Result<void> {
                  const Nft<nftnl_rule> rule(nftnl_rule_alloc());
                  if (nftnl_rule_nlmsg_parse(message, rule.get()) < 0) return Error("a rule that cannot be parsed");
                  ReadRule read;
                  read.chain = nftnl_rule_get_str(rule.get(), NFTNL_RULE_CHAIN);
                  // The filter of the dump is a wish: an old kernel sends all tables.
                  if (table != nftnl_rule_get_str(rule.get(), NFTNL_RULE_TABLE)) return {};
                  read.name = name_of(rule.get());
                  nftnl_expr_foreach(
                      rule.get(),
                      [](nftnl_expr* expr, void* data) {
                        auto* to = static_cast<ReadRule*>(data);
                        to->text.push_back(text_of(expr));
                        if (to->text.back() == "counter")
                          to->counter = RuleCounter{to->chain, to->name, nftnl_expr_get_u64(expr, NFTNL_EXPR_CTR_PACKETS),
                                                    nftnl_expr_get_u64(expr, NFTNL_EXPR_CTR_BYTES)};
                        return 0;
                      },
                      &read);
                  rules.push_back(std::move(read));
                  return {};
                }));
  return rules;
}

std::string quoted(const std::string& text) { return "'" + text + "'"; }

Result<void> compare_tables(int socket_fd, const Ruleset& ruleset) {
  bool is_there = false;
  std::string other;
  bool is_dormant = false;
  NetlinkMessage request((NFNL_SUBSYS_NFTABLES << 8) | NFT_MSG_GETTABLE, 0);
  request.extra<nfgenmsg>()->nfgen_family = NFPROTO_UNSPEC;
  TRY_VOID(dump(socket_fd, request, "read the tables back", [&] { is_there = false; other.clear(); },
                [&](const nlmsghdr* message) -> Result<void> {
                  const Nft<nftnl_table> table(nftnl_table_alloc());
                  if (nftnl_table_nlmsg_parse(message, table.get()) < 0) return Error("a table that cannot be parsed");
                  const std::string name = nftnl_table_get_str(table.get(), NFTNL_TABLE_NAME);
                  if (nftnl_table_get_u32(table.get(), NFTNL_TABLE_FAMILY) != NFPROTO_INET || name != ruleset.table) {
                    other = name;
                    return {};
                  }
                  is_there = true;
                  is_dormant = (nftnl_table_get_u32(table.get(), NFTNL_TABLE_FLAGS) & NFT_TABLE_F_DORMANT) != 0;
                  return {};
                }));
  if (!is_there) return Error("table " + quoted(ruleset.table) + " is not there");
  if (is_dormant) return Error("table " + quoted(ruleset.table) + " is dormant");
  if (ruleset.is_alone && !other.empty()) return Error("unexpected table " + quoted(other));
  return {};
}

Result<void> compare_chains(int socket_fd, const Ruleset& ruleset) {
  std::vector<bool> is_there(ruleset.chains.size());
  std::string difference;
  NetlinkMessage request((NFNL_SUBSYS_NFTABLES << 8) | NFT_MSG_GETCHAIN, 0);
  request.extra<nfgenmsg>()->nfgen_family = NFPROTO_INET;
  TRY_VOID(dump(
      socket_fd, request, "read the chains back",
      [&] {
        is_there.assign(ruleset.chains.size(), false);
        difference.clear();
      },
      [&](const nlmsghdr* message) -> Result<void> {
        const Nft<nftnl_chain> chain(nftnl_chain_alloc());
        if (nftnl_chain_nlmsg_parse(message, chain.get()) < 0) return Error("a chain that cannot be parsed");
        if (ruleset.table != nftnl_chain_get_str(chain.get(), NFTNL_CHAIN_TABLE)) return {};
        const std::string name = nftnl_chain_get_str(chain.get(), NFTNL_CHAIN_NAME);
        for (size_t i = 0; i < ruleset.chains.size(); ++i) {
          if (ruleset.chains[i].name != name) continue;
          is_there[i] = true;
          const std::string wanted = describe(ruleset.chains[i]);
          const std::string found = describe(chain.get());
          if (wanted != found) difference = "chain " + quoted(name) + " is '" + found + "', not '" + wanted + "'";
          return {};
        }
        difference = "unexpected chain " + quoted(name);
        return {};
      }));
  if (!difference.empty()) return Error(difference);
  for (size_t i = 0; i < is_there.size(); ++i)
    if (!is_there[i]) return Error("chain " + quoted(ruleset.chains[i].name) + " is not there");
  return {};
}

Result<void> compare_rules(int socket_fd, const Ruleset& ruleset) {
  TRY(const auto found, read_rules(socket_fd, ruleset.table));
  for (const Chain& chain : ruleset.chains) {
    std::vector<const Rule*> wanted_rules;
    std::vector<const ReadRule*> found_rules;
    for (const Rule& rule : ruleset.rules)
      if (rule.chain() == chain.name) wanted_rules.push_back(&rule);
    for (const ReadRule& rule : found)
      if (rule.chain == chain.name) found_rules.push_back(&rule);
    for (size_t i = 0; i < wanted_rules.size(); ++i) {
      const std::string object = "rule " + quoted(wanted_rules[i]->name()) + " of chain " + quoted(chain.name);
      if (i >= found_rules.size()) return Error(object + " is not there");
      const auto wanted = wanted_rules[i]->text();
      if (found_rules[i]->text == wanted && found_rules[i]->name == wanted_rules[i]->name()) continue;
      for (size_t line = 0; line < wanted.size() && line < found_rules[i]->text.size(); ++line)
        if (wanted[line] != found_rules[i]->text[line])
          return Error(object + " has '" + found_rules[i]->text[line] + "', not '" + wanted[line] + "'");
      return Error(object + " is another one");
    }
    if (found_rules.size() > wanted_rules.size())
      return Error("unexpected rule " + quoted(found_rules[wanted_rules.size()]->name) + " in chain " +
                   quoted(chain.name));
  }
  return {};
}

}  // namespace

void Rule::ExprDeleter::operator()(nftnl_expr* expr) const { nftnl_expr_free(expr); }

// ---- building blocks; all of them work on register 1 ----

void Rule::load_meta(uint32_t key) {
  Expr expr = make_expr("meta");
  nftnl_expr_set_u32(expr.get(), NFTNL_EXPR_META_KEY, key);
  nftnl_expr_set_u32(expr.get(), NFTNL_EXPR_META_DREG, NFT_REG_1);
  add(std::move(expr));
}

void Rule::load_payload(uint32_t base, uint32_t offset, uint32_t length) {
  Expr expr = make_expr("payload");
  nftnl_expr_set_u32(expr.get(), NFTNL_EXPR_PAYLOAD_DREG, NFT_REG_1);
  nftnl_expr_set_u32(expr.get(), NFTNL_EXPR_PAYLOAD_BASE, base);
  nftnl_expr_set_u32(expr.get(), NFTNL_EXPR_PAYLOAD_OFFSET, offset);
  nftnl_expr_set_u32(expr.get(), NFTNL_EXPR_PAYLOAD_LEN, length);
  add(std::move(expr));
}

void Rule::load_conntrack(uint32_t key) {
  Expr expr = make_expr("ct");
  nftnl_expr_set_u32(expr.get(), NFTNL_EXPR_CT_KEY, key);
  nftnl_expr_set_u32(expr.get(), NFTNL_EXPR_CT_DREG, NFT_REG_1);
  add(std::move(expr));
}

void Rule::load_route(uint32_t key) {
  Expr expr = make_expr("rt");
  nftnl_expr_set_u32(expr.get(), NFTNL_EXPR_RT_KEY, key);
  nftnl_expr_set_u32(expr.get(), NFTNL_EXPR_RT_DREG, NFT_REG_1);
  add(std::move(expr));
}

void Rule::mask(uint32_t bits, uint32_t length) {
  const uint32_t zero = 0;
  Expr expr = make_expr("bitwise");
  nftnl_expr_set_u32(expr.get(), NFTNL_EXPR_BITWISE_SREG, NFT_REG_1);
  nftnl_expr_set_u32(expr.get(), NFTNL_EXPR_BITWISE_DREG, NFT_REG_1);
  nftnl_expr_set_u32(expr.get(), NFTNL_EXPR_BITWISE_OP, 0);  // mask and xor
  nftnl_expr_set_u32(expr.get(), NFTNL_EXPR_BITWISE_LEN, length);
  nftnl_expr_set(expr.get(), NFTNL_EXPR_BITWISE_MASK, &bits, length);
  nftnl_expr_set(expr.get(), NFTNL_EXPR_BITWISE_XOR, &zero, length);
  add(std::move(expr));
}

void Rule::compare(uint32_t operation, const void* data, uint32_t length) {
  Expr expr = make_expr("cmp");
  nftnl_expr_set_u32(expr.get(), NFTNL_EXPR_CMP_SREG, NFT_REG_1);
  nftnl_expr_set_u32(expr.get(), NFTNL_EXPR_CMP_OP, operation);
  nftnl_expr_set(expr.get(), NFTNL_EXPR_CMP_DATA, data, length);
  add(std::move(expr));
}

void Rule::verdict(int code, const char* chain) {
  Expr expr = make_expr("immediate");
  nftnl_expr_set_u32(expr.get(), NFTNL_EXPR_IMM_DREG, NFT_REG_VERDICT);
  nftnl_expr_set_u32(expr.get(), NFTNL_EXPR_IMM_VERDICT, static_cast<uint32_t>(code));
  if (chain != nullptr) nftnl_expr_set_str(expr.get(), NFTNL_EXPR_IMM_CHAIN, chain);
  add(std::move(expr));
}

void Rule::reject(uint32_t type, uint8_t code) {
  Expr expr = make_expr("reject");
  nftnl_expr_set_u32(expr.get(), NFTNL_EXPR_REJECT_TYPE, type);
  nftnl_expr_set_u8(expr.get(), NFTNL_EXPR_REJECT_CODE, code);
  add(std::move(expr));
}

// ---- matches ----

Rule&& Rule::in_interface_is(const std::string& name) && {
  char padded[16] = {};  // IFNAMSIZ; compared whole, so that "lo" is not "lo1"
  std::memcpy(padded, name.data(), std::min(name.size(), sizeof(padded) - 1));
  load_meta(NFT_META_IIFNAME);
  compare(NFT_CMP_EQ, padded, sizeof(padded));
  return std::move(*this);
}

Rule&& Rule::protocol_is(uint8_t protocol) && {
  load_meta(NFT_META_L4PROTO);
  compare(NFT_CMP_EQ, &protocol, sizeof(protocol));
  return std::move(*this);
}

Rule&& Rule::ip4_destination_is(std::array<uint8_t, 4> address) && {
  const uint8_t family = NFPROTO_IPV4;
  load_meta(NFT_META_NFPROTO);
  compare(NFT_CMP_EQ, &family, sizeof(family));
  load_payload(NFT_PAYLOAD_NETWORK_HEADER, 16, 4);
  compare(NFT_CMP_EQ, address.data(), 4);
  return std::move(*this);
}

Rule&& Rule::ip4_destination_is_loopback() && {
  const uint8_t family = NFPROTO_IPV4;
  const uint8_t first_byte = 127;
  load_meta(NFT_META_NFPROTO);
  compare(NFT_CMP_EQ, &family, sizeof(family));
  load_payload(NFT_PAYLOAD_NETWORK_HEADER, 16, 1);
  compare(NFT_CMP_EQ, &first_byte, sizeof(first_byte));
  return std::move(*this);
}

Rule&& Rule::ip6_destination_is_loopback() && {
  const uint8_t family = NFPROTO_IPV6;
  const in6_addr loopback = IN6ADDR_LOOPBACK_INIT;
  load_meta(NFT_META_NFPROTO);
  compare(NFT_CMP_EQ, &family, sizeof(family));
  load_payload(NFT_PAYLOAD_NETWORK_HEADER, 24, 16);
  compare(NFT_CMP_EQ, &loopback, sizeof(loopback));
  return std::move(*this);
}

Rule&& Rule::destination_port_in(uint8_t protocol, uint16_t first, uint16_t last) && {
  load_meta(NFT_META_L4PROTO);
  compare(NFT_CMP_EQ, &protocol, sizeof(protocol));
  load_payload(NFT_PAYLOAD_TRANSPORT_HEADER, 2, 2);
  const uint16_t from = htons(first);
  const uint16_t to = htons(last);
  if (first == last) {
    compare(NFT_CMP_EQ, &from, sizeof(from));
  } else {
    compare(NFT_CMP_GTE, &from, sizeof(from));
    compare(NFT_CMP_LTE, &to, sizeof(to));
  }
  return std::move(*this);
}

Rule&& Rule::icmp6_type_in(uint8_t first, uint8_t last) && {
  const uint8_t protocol = IPPROTO_ICMPV6;
  load_meta(NFT_META_L4PROTO);
  compare(NFT_CMP_EQ, &protocol, sizeof(protocol));
  load_payload(NFT_PAYLOAD_TRANSPORT_HEADER, 0, 1);
  compare(NFT_CMP_GTE, &first, sizeof(first));
  compare(NFT_CMP_LTE, &last, sizeof(last));
  return std::move(*this);
}

Rule&& Rule::destination_is_local() && {
  Expr expr = make_expr("fib");
  nftnl_expr_set_u32(expr.get(), NFTNL_EXPR_FIB_DREG, NFT_REG_1);
  nftnl_expr_set_u32(expr.get(), NFTNL_EXPR_FIB_RESULT, NFT_FIB_RESULT_ADDRTYPE);
  nftnl_expr_set_u32(expr.get(), NFTNL_EXPR_FIB_FLAGS, NFTA_FIB_F_DADDR);
  add(std::move(expr));
  compare(NFT_CMP_EQ, &kRouteTypeLocal, sizeof(kRouteTypeLocal));
  return std::move(*this);
}

Rule&& Rule::is_reply() && {
  const uint8_t reply = IP_CT_DIR_REPLY;
  load_conntrack(NFT_CT_DIRECTION);
  compare(NFT_CMP_EQ, &reply, sizeof(reply));
  return std::move(*this);
}

Rule&& Rule::is_established(bool or_related) && {
  const uint32_t zero = 0;
  load_conntrack(NFT_CT_STATE);
  mask(NF_CT_STATE_BIT(IP_CT_ESTABLISHED) | (or_related ? NF_CT_STATE_BIT(IP_CT_RELATED) : 0), sizeof(uint32_t));
  compare(NFT_CMP_NEQ, &zero, sizeof(zero));
  return std::move(*this);
}

Rule&& Rule::was_redirected(bool yes) && {
  const uint32_t zero = 0;
  load_conntrack(NFT_CT_STATUS);
  mask(IPS_DST_NAT, sizeof(uint32_t));
  compare(yes ? NFT_CMP_NEQ : NFT_CMP_EQ, &zero, sizeof(zero));
  return std::move(*this);
}

Rule&& Rule::is_lone_syn() && {
  const uint8_t syn = kTcpSyn;
  load_payload(NFT_PAYLOAD_TRANSPORT_HEADER, 13, 1);
  mask(kTcpFin | kTcpSyn | kTcpRst | kTcpAck, sizeof(uint8_t));
  compare(NFT_CMP_EQ, &syn, sizeof(syn));
  return std::move(*this);
}

Rule&& Rule::next_hop_is(std::array<uint8_t, 4> address) && {
  load_route(NFT_RT_NEXTHOP4);
  compare(NFT_CMP_EQ, address.data(), address.size());
  return std::move(*this);
}

Rule&& Rule::next_hop_is(std::array<uint8_t, 16> address) && {
  load_route(NFT_RT_NEXTHOP6);
  compare(NFT_CMP_EQ, address.data(), address.size());
  return std::move(*this);
}

Rule&& Rule::has_user_socket() && {
  // Loading the owner ends the rule for a packet that no process's socket sent; any owner will do.
  const uint32_t zero = 0;
  load_meta(NFT_META_SKUID);
  compare(NFT_CMP_GTE, &zero, sizeof(zero));
  return std::move(*this);
}

Rule&& Rule::within_rate(uint64_t per_second, uint32_t burst) && {
  Expr expr = make_expr("limit");
  nftnl_expr_set_u64(expr.get(), NFTNL_EXPR_LIMIT_RATE, per_second);
  nftnl_expr_set_u64(expr.get(), NFTNL_EXPR_LIMIT_UNIT, 1);
  nftnl_expr_set_u32(expr.get(), NFTNL_EXPR_LIMIT_BURST, burst);
  nftnl_expr_set_u32(expr.get(), NFTNL_EXPR_LIMIT_TYPE, NFT_LIMIT_PKTS);
  nftnl_expr_set_u32(expr.get(), NFTNL_EXPR_LIMIT_FLAGS, 0);
  add(std::move(expr));
  return std::move(*this);
}

// ---- statements ----

Rule&& Rule::count() && {
  Expr expr = make_expr("counter");
  nftnl_expr_set_u64(expr.get(), NFTNL_EXPR_CTR_PACKETS, 0);
  nftnl_expr_set_u64(expr.get(), NFTNL_EXPR_CTR_BYTES, 0);
  add(std::move(expr));
  return std::move(*this);
}

Rule&& Rule::log(uint16_t group) && {
  Expr expr = make_expr("log");
  nftnl_expr_set_u16(expr.get(), NFTNL_EXPR_LOG_GROUP, group);
  add(std::move(expr));
  return std::move(*this);
}

Rule&& Rule::redirect_to(uint16_t port) && {
  const uint16_t value = htons(port);
  Expr immediate = make_expr("immediate");
  nftnl_expr_set_u32(immediate.get(), NFTNL_EXPR_IMM_DREG, NFT_REG_1);
  nftnl_expr_set(immediate.get(), NFTNL_EXPR_IMM_DATA, &value, sizeof(value));
  add(std::move(immediate));
  // Range and flag are what the kernel would add by itself: written out so that it reads back alike.
  Expr redirect = make_expr("redir");
  nftnl_expr_set_u32(redirect.get(), NFTNL_EXPR_REDIR_REG_PROTO_MIN, NFT_REG_1);
  nftnl_expr_set_u32(redirect.get(), NFTNL_EXPR_REDIR_REG_PROTO_MAX, NFT_REG_1);
  nftnl_expr_set_u32(redirect.get(), NFTNL_EXPR_REDIR_FLAGS, NF_NAT_RANGE_PROTO_SPECIFIED);
  add(std::move(redirect));
  return std::move(*this);
}

Rule&& Rule::accept() && { verdict(NF_ACCEPT); return std::move(*this); }
Rule&& Rule::drop() && { verdict(NF_DROP); return std::move(*this); }
Rule&& Rule::return_() && { verdict(NFT_RETURN); return std::move(*this); }
Rule&& Rule::go_to(const std::string& chain) && { verdict(NFT_GOTO, chain.c_str()); return std::move(*this); }
Rule&& Rule::reject_tcp_reset() && { reject(NFT_REJECT_TCP_RST, 0); return std::move(*this); }
Rule&& Rule::reject_prohibited() && {
  reject(NFT_REJECT_ICMPX_UNREACH, NFT_REJECT_ICMPX_ADMIN_PROHIBITED);
  return std::move(*this);
}

std::vector<std::string> Rule::text() const {
  std::vector<std::string> lines;
  for (const Expr& expr : expressions_) lines.push_back(text_of(expr.get()));
  return lines;
}

// ---- the kernel's side ----

namespace {

enum class Existing { kIsError, kIsReplaced };

Result<void> send_ruleset(int socket_fd, const Ruleset& ruleset, Existing existing) {
  Transaction transaction;
  const auto table = make_table(ruleset.table);
  const std::string name = "nftables table " + quoted(ruleset.table);
  // Delete and add: within one transaction, so that there is no moment without rules.
  if (existing == Existing::kIsReplaced)
    transaction.add(NFT_MSG_DELTABLE, 0, name, table.get(), nftnl_table_nlmsg_build_payload);
  transaction.add(NFT_MSG_NEWTABLE, NLM_F_CREATE | NLM_F_EXCL, name, table.get(), nftnl_table_nlmsg_build_payload);
  for (const Chain& description : ruleset.chains) {
    const auto chain = make_chain(ruleset.table, description);
    transaction.add(NFT_MSG_NEWCHAIN, NLM_F_CREATE, "nftables chain " + quoted(description.name), chain.get(),
                    nftnl_chain_nlmsg_build_payload);
  }
  for (const Rule& description : ruleset.rules) {
    const auto rule = make_rule(ruleset.table, description);
    transaction.add(NFT_MSG_NEWRULE, NLM_F_CREATE | NLM_F_APPEND,
                    "nftables rule " + quoted(description.name()) + " of chain " + quoted(description.chain()), rule.get(),
                    [&](nlmsghdr* header, nftnl_rule* object) {
                      nftnl_rule_nlmsg_build_payload(header, object);
                      // By hand, since a nftnl_rule would become the owner of what is ours.
                      nlattr* list = mnl_attr_nest_start(header, NFTA_RULE_EXPRESSIONS);
                      for (const Rule::Expr& expr : description.expressions()) {
                        nlattr* element = mnl_attr_nest_start(header, NFTA_LIST_ELEM);
                        nftnl_expr_build_payload(header, expr.get());
                        mnl_attr_nest_end(header, element);
                      }
                      mnl_attr_nest_end(header, list);
                    });
  }
  return std::move(transaction).commit(socket_fd);
}

}  // namespace

Result<void> install(int socket_fd, const Ruleset& ruleset) {
  // Optimistic: a transaction that deletes makes the close of the socket wait for a grace period (10 ms).
  auto sent = send_ruleset(socket_fd, ruleset, Existing::kIsError);
  if (sent || sent.error().code() != EEXIST || ruleset.is_alone) return sent;
  return send_ruleset(socket_fd, ruleset, Existing::kIsReplaced);
}

Result<void> compare_with_kernel(int socket_fd, const Ruleset& ruleset) {
  TRY_VOID(compare_tables(socket_fd, ruleset));
  TRY_VOID(compare_chains(socket_fd, ruleset));
  return compare_rules(socket_fd, ruleset);
}

Result<void> remove_table(int socket_fd, const std::string& name) {
  Transaction transaction;
  const auto table = make_table(name);
  transaction.add(NFT_MSG_DELTABLE, 0, "remove nftables table " + quoted(name), table.get(),
                  nftnl_table_nlmsg_build_payload);
  auto removed = std::move(transaction).commit(socket_fd);
  if (!removed && removed.error().code() == ENOENT) return {};
  return removed;
}

Result<std::vector<RuleCounter>> read_counters(int socket_fd, const std::string& table) {
  TRY(auto rules, read_rules(socket_fd, table));
  std::vector<RuleCounter> counters;
  for (ReadRule& rule : rules)
    if (rule.counter) counters.push_back(*std::move(rule.counter));
  return counters;
}

}  // namespace leash::hooks
