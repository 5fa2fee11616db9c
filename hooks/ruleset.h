// One nftables table of family inet as a value: built with libnftnl, sent in one transaction, read back
// and compared. The kernel either takes the whole table or none of it, and says which rule it did not
// like; the comparison proves that what is active is what was sent, rule by rule.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"

struct nftnl_expr;

namespace leash::hooks {

enum class Hook { kNone, kPrerouting, kInput, kForward, kOutput };  // kNone: a chain to go to

struct Chain {
  std::string name;
  std::string type = "filter";  // or "nat"; unused without a hook
  Hook hook = Hook::kNone;
  int32_t priority = 0;
  bool drops = false;  // the policy
};

// A rule grows from left to right, as nft(8) writes it. The name travels with it as nft's comment.
class Rule {
 public:
  Rule(std::string chain, std::string name) : chain_(std::move(chain)), name_(std::move(name)) {}

  // Matches. Those on addresses and ports include the match on the protocol they need.
  Rule&& in_interface_is(const std::string& name) &&;
  Rule&& protocol_is(uint8_t protocol) &&;
  Rule&& ip4_destination_is(std::array<uint8_t, 4> address) &&;
  Rule&& ip4_destination_is_loopback() &&;  // 127.0.0.0/8
  Rule&& ip6_destination_is_loopback() &&;  // ::1
  Rule&& destination_port_in(uint8_t protocol, uint16_t first, uint16_t last) &&;
  Rule&& destination_port_is(uint8_t protocol, uint16_t port) && {
    return std::move(*this).destination_port_in(protocol, port, port);
  }
  Rule&& icmp6_type_in(uint8_t first, uint8_t last) &&;
  Rule&& destination_is_local() &&;  // fib daddr type local
  Rule&& is_reply() &&;              // ct direction reply
  Rule&& is_established(bool or_related) &&;
  Rule&& was_redirected(bool yes) &&;  // ct status & dnat
  Rule&& is_lone_syn() &&;             // tcp flags & (fin|syn|rst|ack) == syn
  Rule&& next_hop_is(std::array<uint8_t, 4> address) &&;
  Rule&& next_hop_is(std::array<uint8_t, 16> address) &&;
  Rule&& has_user_socket() &&;         // not made by the kernel itself
  Rule&& within_rate(uint64_t per_second, uint32_t burst) &&;

  // Statements.
  Rule&& count() &&;
  Rule&& log(uint16_t group) &&;
  Rule&& redirect_to(uint16_t port) &&;
  Rule&& accept() &&;
  Rule&& drop() &&;
  Rule&& return_() &&;
  Rule&& go_to(const std::string& chain) &&;
  Rule&& reject_tcp_reset() &&;
  Rule&& reject_prohibited() &&;  // icmpx admin-prohibited

  struct ExprDeleter {
    void operator()(nftnl_expr* expr) const;
  };
  using Expr = std::unique_ptr<nftnl_expr, ExprDeleter>;

  [[nodiscard]] const std::string& chain() const { return chain_; }
  [[nodiscard]] const std::string& name() const { return name_; }
  [[nodiscard]] const std::vector<Expr>& expressions() const { return expressions_; }
  // One expression per line, as libnftnl prints it; the values of counters are left out.
  [[nodiscard]] std::vector<std::string> text() const;

 private:
  void add(Expr expr) { expressions_.push_back(std::move(expr)); }
  void load_meta(uint32_t key);
  void load_payload(uint32_t base, uint32_t offset, uint32_t length);
  void load_conntrack(uint32_t key);
  void load_route(uint32_t key);
  void mask(uint32_t bits, uint32_t length);
  void compare(uint32_t operation, const void* data, uint32_t length);
  void verdict(int code, const char* chain = nullptr);
  void reject(uint32_t type, uint8_t code);

  std::string chain_;
  std::string name_;
  std::vector<Expr> expressions_;
};

struct Ruleset {
  std::string table;
  std::vector<Chain> chains;
  std::vector<Rule> rules;
  bool is_alone = false;  // no other table may exist in the namespace
};

// `socket_fd`: NETLINK_NETFILTER, in the namespace. Replaces a table of the same name, unless the ruleset
// is to be alone: then EEXIST.
[[nodiscard]] Result<void> install(int socket_fd, const Ruleset& ruleset);
// The error names the first table, chain or rule that is not what `ruleset` says.
[[nodiscard]] Result<void> compare_with_kernel(int socket_fd, const Ruleset& ruleset);
// No such table is success.
[[nodiscard]] Result<void> remove_table(int socket_fd, const std::string& table);

struct RuleCounter {
  std::string chain;
  std::string rule;
  uint64_t packets = 0;
  uint64_t bytes = 0;
};
// Of the rules that count, in their order.
[[nodiscard]] Result<std::vector<RuleCounter>> read_counters(int socket_fd, const std::string& table);

}  // namespace leash::hooks
