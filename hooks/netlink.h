// A netlink socket and batches of messages, for rtnetlink and nfnetlink. libmnl builds and parses;
// the sockets are ours, because they must be Fds that are made inside another network namespace.
#pragma once

#include <libmnl/libmnl.h>
#include <linux/netlink.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/fd.h"
#include "base/result.h"

namespace leash::hooks {

// A netlink socket (close-on-exec) that belongs to `netns_fd`'s namespace for good. `groups` is the
// mask of rtnetlink multicast groups to listen to.
[[nodiscard]] Result<Fd> open_netlink(int netns_fd, int protocol, uint32_t groups = 0);

// One request under construction; the attributes go in with mnl_attr_put*.
class NetlinkMessage {
 public:
  NetlinkMessage(uint16_t type, uint16_t flags);
  NetlinkMessage(const NetlinkMessage&) = delete;
  NetlinkMessage& operator=(const NetlinkMessage&) = delete;

  [[nodiscard]] nlmsghdr* header() { return reinterpret_cast<nlmsghdr*>(buffer_); }
  // The fixed header behind the nlmsghdr (ifinfomsg, rtmsg, ...), zeroed.
  template <class T>
  T* extra() {
    return static_cast<T*>(mnl_nlmsg_put_extra_header(header(), sizeof(T)));
  }
  [[nodiscard]] static constexpr size_t capacity() { return sizeof(buffer_); }

 private:
  alignas(nlmsghdr) char buffer_[4096];
};

// Requests that travel together in one sendmsg(2). Each has a name for errors.
class NetlinkBatch {
 public:
  void add(NetlinkMessage& message, std::string name);
  [[nodiscard]] bool empty() const { return entries_.empty(); }

  struct Outcome {
    std::string name;
    int error = 0;            // errno, 0: done
    std::string explanation;  // of the kernel (extended acknowledgement), often empty
    [[nodiscard]] Error as_error() const;
  };
  // Sends all and waits for each acknowledgement. The error of the call itself is one of the socket;
  // what the kernel said to each request is in the outcomes, in order.
  [[nodiscard]] Result<std::vector<Outcome>> run(int socket_fd);
  // As run(), for when every request must succeed.
  [[nodiscard]] Result<void> run_all(int socket_fd);

 private:
  struct Entry {
    std::vector<char> bytes;
    std::string name;
  };
  std::vector<Entry> entries_;
};

// Sends a dump request and calls `handle` for every message of the answer. An answer that changed
// while it was read (NLM_F_DUMP_INTR) is read anew after a call of `restart`.
[[nodiscard]] Result<void> dump(int socket_fd, NetlinkMessage& request, std::string_view name,
                                const std::function<void()>& restart,
                                const std::function<Result<void>(const nlmsghdr*)>& handle);

// Sends one request whose answer is one message; returns that message.
[[nodiscard]] Result<std::vector<char>> ask(int socket_fd, NetlinkMessage& request, std::string_view name);

// Calls `handle(type, payload)` for each attribute in `bytes`; what does not fit ends the walk. (libmnl's own
// macros are C only.)
template <class Handle>
void for_each_attribute(std::span<const uint8_t> bytes, Handle&& handle) {
  while (bytes.size() >= sizeof(nlattr)) {
    nlattr head;
    std::memcpy(&head, bytes.data(), sizeof(head));
    if (head.nla_len < sizeof(head) || head.nla_len > bytes.size()) return;
    handle(static_cast<uint16_t>(head.nla_type & NLA_TYPE_MASK),
           bytes.subspan(sizeof(head), head.nla_len - sizeof(head)));
    bytes = bytes.subspan(std::min<size_t>(MNL_ALIGN(head.nla_len), bytes.size()));
  }
}
// The bytes of a message behind its fixed header of `fixed_header` bytes.
[[nodiscard]] std::span<const uint8_t> attributes_of(const nlmsghdr* message, size_t fixed_header);

// The error of an NLMSG_ERROR message (errno, positive; 0 is an acknowledgement), with the kernel's
// explanation if it gave one.
struct NetlinkAck {
  uint32_t sequence = 0;
  int error = 0;
  std::string explanation;
};
[[nodiscard]] NetlinkAck parse_ack(const nlmsghdr* message);

// One packet of the socket; waits at most a few seconds, because the kernel answers at once or not at all.
[[nodiscard]] Result<size_t> receive_netlink(int socket_fd, std::vector<char>& buffer);

}  // namespace leash::hooks
