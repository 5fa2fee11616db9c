#include "hooks/refusal_log.h"

#include <arpa/inet.h>
#include <linux/netfilter/nfnetlink.h>
#include <linux/netfilter/nfnetlink_log.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cstring>

#include "base/sys.h"
#include "hooks/netlink.h"

namespace leash::hooks {
namespace {

// An IPv6 header, a few extension headers, the ports.
constexpr uint32_t kCopiedBytes = 160;
constexpr size_t kMaxExtensionHeaders = 8;
constexpr size_t kMaxReportsPerRead = 1024;

class NflogRequest {
 public:
  NflogRequest() : message_((NFNL_SUBSYS_ULOG << 8) | NFULNL_MSG_CONFIG, 0) {
    auto* header = message_.extra<nfgenmsg>();
    header->nfgen_family = AF_UNSPEC;
    header->version = NFNETLINK_V0;
    header->res_id = htons(kRefusalGroup);
  }
  template <class T>
  NflogRequest& put(uint16_t type, const T& value) {
    mnl_attr_put(message_.header(), type, sizeof(value), &value);
    return *this;
  }
  void into(NetlinkBatch& batch, const char* name) { batch.add(message_, name); }

 private:
  NetlinkMessage message_;
};

uint16_t big_endian16(std::span<const uint8_t> bytes) { return static_cast<uint16_t>(bytes[0] << 8 | bytes[1]); }

std::string protocol_name(uint8_t protocol) {
  switch (protocol) {
    case IPPROTO_TCP: return "tcp";
    case IPPROTO_UDP: return "udp";
    case IPPROTO_ICMP: return "icmp";
    case IPPROTO_ICMPV6: return "icmpv6";
    case IPPROTO_SCTP: return "sctp";
    case IPPROTO_UDPLITE: return "udplite";
    case IPPROTO_DCCP: return "dccp";
    default: return std::to_string(protocol);
  }
}

// Destination port, for the protocols that have one at this place.
uint16_t port_in(uint8_t protocol, std::span<const uint8_t> transport) {
  switch (protocol) {
    case IPPROTO_TCP: case IPPROTO_UDP: case IPPROTO_SCTP: case IPPROTO_UDPLITE: case IPPROTO_DCCP:
      return transport.size() >= 4 ? big_endian16(transport.subspan(2)) : uint16_t{0};
    default:
      return 0;
  }
}

std::string address_text(int family, const uint8_t* bytes) {
  char buffer[INET6_ADDRSTRLEN] = {};
  inet_ntop(family, bytes, buffer, sizeof(buffer));
  return buffer;
}

std::optional<oci::RefusedPacket> parse_ipv4(std::span<const uint8_t> packet) {
  if (packet.size() < 20) return std::nullopt;
  oci::RefusedPacket refused;
  refused.destination = address_text(AF_INET, packet.data() + 16);
  refused.bytes = big_endian16(packet.subspan(2));
  refused.protocol = protocol_name(packet[9]);
  const size_t header_length = size_t{4} * (packet[0] & 0x0f);
  const bool is_first_fragment = (big_endian16(packet.subspan(6)) & 0x1fff) == 0;
  if (header_length >= 20 && header_length <= packet.size() && is_first_fragment)
    refused.port = port_in(packet[9], packet.subspan(header_length));
  return refused;
}

std::optional<oci::RefusedPacket> parse_ipv6(std::span<const uint8_t> packet) {
  if (packet.size() < 40) return std::nullopt;
  oci::RefusedPacket refused;
  refused.destination = address_text(AF_INET6, packet.data() + 24);
  refused.bytes = uint64_t{40} + big_endian16(packet.subspan(4));
  uint8_t next = packet[6];
  std::span<const uint8_t> rest = packet.subspan(40);
  bool is_first_fragment = true;
  for (size_t i = 0; i < kMaxExtensionHeaders; ++i) {
    const bool is_option = next == IPPROTO_HOPOPTS || next == IPPROTO_ROUTING || next == IPPROTO_DSTOPTS;
    if (!is_option && next != IPPROTO_FRAGMENT) break;
    if (rest.size() < 8) break;
    const size_t length = is_option ? size_t{8} * (rest[1] + size_t{1}) : size_t{8};
    if (next == IPPROTO_FRAGMENT) is_first_fragment = (big_endian16(rest.subspan(2)) & 0xfff8) == 0;
    next = rest[0];
    if (length > rest.size()) {
      rest = {};
      break;
    }
    rest = rest.subspan(length);
  }
  refused.protocol = protocol_name(next);
  if (is_first_fragment) refused.port = port_in(next, rest);
  return refused;
}

}  // namespace

std::optional<oci::RefusedPacket> parse_refused_packet(std::span<const uint8_t> packet) {
  if (packet.empty()) return std::nullopt;
  switch (packet[0] >> 4) {
    case 4: return parse_ipv4(packet);
    case 6: return parse_ipv6(packet);
    default: return std::nullopt;
  }
}

Result<RefusalLog> RefusalLog::open(int netns_fd) {
  TRY(Fd socket, open_netlink(netns_fd, NETLINK_NETFILTER));
  NetlinkBatch batch;
  NflogRequest()
      .put(NFULA_CFG_CMD, nfulnl_msg_config_cmd{.command = NFULNL_CFG_CMD_BIND})
      .into(batch, "bind the group of the refusal log");
  NflogRequest()
      .put(NFULA_CFG_MODE,
           nfulnl_msg_config_mode{.copy_range = htonl(kCopiedBytes), .copy_mode = NFULNL_COPY_PACKET, ._pad = 0})
      .put(NFULA_CFG_QTHRESH, htonl(1))  // each packet at once
      .into(batch, "configure the refusal log");
  TRY_VOID(batch.run_all(socket.get()));
  TRY_VOID(sys::set_nonblocking(socket.get(), true));
  return RefusalLog(std::move(socket));
}

Result<std::vector<oci::RefusedPacket>> RefusalLog::read() const {
  std::vector<oci::RefusedPacket> refused;
  std::vector<char> buffer(64 << 10);
  while (refused.size() < kMaxReportsPerRead) {
    const ssize_t size = ::recv(socket_.get(), buffer.data(), buffer.size(), MSG_DONTWAIT);
    if (size < 0 && errno == EAGAIN) break;
    // ENOBUFS: reports were dropped because nobody read. The counters have them.
    if (size < 0 && (errno == EINTR || errno == ENOBUFS)) continue;
    if (size < 0) return Error::last_errno("read the refusal log");
    int left = static_cast<int>(size);
    for (auto* message = reinterpret_cast<const nlmsghdr*>(buffer.data()); mnl_nlmsg_ok(message, left);
         message = mnl_nlmsg_next(message, &left)) {
      if (message->nlmsg_type != ((NFNL_SUBSYS_ULOG << 8) | NFULNL_MSG_PACKET)) continue;
      for_each_attribute(attributes_of(message, sizeof(nfgenmsg)), [&](uint16_t type, std::span<const uint8_t> payload) {
        if (type != NFULA_PAYLOAD) return;
        if (auto packet = parse_refused_packet(payload)) refused.push_back(*std::move(packet));
      });
    }
  }
  return refused;
}

}  // namespace leash::hooks
