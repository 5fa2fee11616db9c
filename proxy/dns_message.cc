#include "proxy/dns_message.h"

#include <algorithm>
#include <charconv>

namespace leash::proxy::dns {
namespace {

constexpr size_t kMaxName = 255;  // RFC 1035, on the wire
constexpr size_t kMaxLabel = 63;
constexpr size_t kMaxRecords = 256;
constexpr size_t kMaxChain = 8;
constexpr uint16_t kUdpSize = 1232;  // what crosses any path unfragmented (DNS flag day 2020)

constexpr uint16_t kFlagResponse = 0x8000;
constexpr uint16_t kFlagTruncated = 0x0200;
constexpr uint16_t kFlagRecursionDesired = 0x0100;
constexpr uint16_t kFlagRecursionAvailable = 0x0080;

char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

std::string to_lower(std::string_view text) {
  std::string result(text);
  std::transform(result.begin(), result.end(), result.begin(), lower);
  return result;
}

bool equal_ignoring_case(std::string_view a, std::string_view b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](char x, char y) { return lower(x) == lower(y); });
}

Error malformed(std::string_view what) { return Error(EBADMSG, "malformed DNS message: " + std::string(what)); }

// Reads from a packet front to back. Every read is checked.
class Reader {
 public:
  explicit Reader(std::string_view packet, size_t position = 0) : packet_(packet), position_(position) {}

  [[nodiscard]] size_t position() const { return position_; }
  [[nodiscard]] bool at_end() const { return position_ == packet_.size(); }

  Result<uint16_t> u16() {
    TRY(const std::string_view bytes, take(2));
    return static_cast<uint16_t>(byte(bytes[0]) << 8 | byte(bytes[1]));
  }
  Result<uint32_t> u32() {
    TRY(const uint16_t high, u16());
    TRY(const uint16_t low, u16());
    return uint32_t{high} << 16 | low;
  }
  Result<std::string_view> take(size_t size) {
    if (size > packet_.size() - position_) return malformed("truncated");
    const std::string_view bytes = packet_.substr(position_, size);
    position_ += size;
    return bytes;
  }

  // A name in text form without the final dot. Pointers must lead to an earlier place than any before,
  // so that there is no loop; without `pointers` one is an error.
  Result<std::string> name(bool pointers) {
    std::string text;
    size_t wire_size = 1;
    size_t at = position_;
    size_t lowest = position_;
    bool jumped = false;
    for (;;) {
      if (at >= packet_.size()) return malformed("truncated name");
      const unsigned length = byte(packet_[at]);
      if (length >= 0xc0) {
        if (!pointers || at + 1 >= packet_.size()) return malformed("compression pointer");
        const size_t target = (length & 0x3fU) << 8 | byte(packet_[at + 1]);
        if (!jumped) position_ = at + 2;
        jumped = true;
        if (target >= lowest || target < kHeaderSize) return malformed("compression pointer that does not lead back");
        lowest = at = target;
        continue;
      }
      if (length > kMaxLabel) return malformed("label type");
      ++at;
      if (length == 0) {
        if (!jumped) position_ = at;
        return text;
      }
      if (length > packet_.size() - at) return malformed("truncated label");
      wire_size += length + 1;
      if (wire_size > kMaxName) return malformed("name longer than 255 bytes");
      const std::string_view label = packet_.substr(at, length);
      for (const char c : label) {
        if (c == '.' || c == '\\' || byte(c) <= 0x20 || byte(c) >= 0x7f) return malformed("label with a character that no host has");
      }
      if (!text.empty()) text += '.';
      text += label;
      at += length;
    }
  }

 private:
  static unsigned byte(char c) { return static_cast<unsigned char>(c); }

  std::string_view packet_;
  size_t position_;
};

void put_u16(std::string& out, unsigned value) {
  out += static_cast<char>(value >> 8);
  out += static_cast<char>(value & 0xff);
}

void put_u32(std::string& out, uint32_t value) {
  put_u16(out, value >> 16);
  put_u16(out, value & 0xffff);
}

Result<void> put_name(std::string& out, std::string_view name) {
  const size_t begin = out.size();
  while (!name.empty()) {
    const size_t dot = std::min(name.find('.'), name.size());
    if (dot == 0 || dot > kMaxLabel) return Error(EINVAL, "name with a label of " + std::to_string(dot) + " bytes");
    out += static_cast<char>(dot);
    out += name.substr(0, dot);
    name.remove_prefix(std::min(dot + 1, name.size()));
  }
  out += '\0';
  if (out.size() - begin > kMaxName) return Error(EINVAL, "name longer than 255 bytes");
  return {};
}

void put_header(std::string& out, uint16_t id, unsigned flags, unsigned questions, unsigned answers, unsigned additional) {
  put_u16(out, id);
  put_u16(out, flags);
  put_u16(out, questions);
  put_u16(out, answers);
  put_u16(out, 0);
  put_u16(out, additional);
}

void put_opt(std::string& out, const Response& response) {
  out += '\0';
  put_u16(out, type::kOpt);
  put_u16(out, kUdpSize);
  put_u32(out, 0);
  if (response.extended == ExtendedError::kNone) {
    put_u16(out, 0);
    return;
  }
  const std::string_view text = response.extended_text.substr(0, 128);
  put_u16(out, static_cast<unsigned>(text.size() + 6));
  put_u16(out, 15);  // OPTION-CODE of an extended error (RFC 8914)
  put_u16(out, static_cast<unsigned>(text.size() + 2));
  put_u16(out, static_cast<unsigned>(response.extended));
  out += text;
}

// One resource record: its owner, fixed fields, and where its data begin.
struct Record {
  std::string owner;
  uint16_t type = 0;
  uint16_t rclass = 0;
  uint32_t ttl = 0;
  std::string_view data;
  size_t data_position = 0;
};

Result<Record> read_record(Reader& reader) {
  Record record;
  TRY(record.owner, reader.name(true));
  TRY(record.type, reader.u16());
  TRY(record.rclass, reader.u16());
  TRY(record.ttl, reader.u32());
  TRY(const uint16_t size, reader.u16());
  record.data_position = reader.position();
  TRY(record.data, reader.take(size));
  // RFC 2181, 8: a TTL with the top bit set is zero.
  if (record.ttl > 0x7fffffff) record.ttl = 0;
  return record;
}

}  // namespace

Result<Query> parse_query(std::string_view packet) {
  if (packet.size() > kMaxQuery) return malformed("query longer than 4096 bytes");
  Reader reader(packet);
  Query query;
  TRY(query.id, reader.u16());
  TRY(const uint16_t flags, reader.u16());
  TRY(const uint16_t questions, reader.u16());
  TRY(const uint16_t answers, reader.u16());
  TRY(const uint16_t authorities, reader.u16());
  TRY(const uint16_t additional, reader.u16());
  if ((flags & kFlagResponse) != 0) return malformed("a response instead of a query");
  query.opcode = static_cast<uint8_t>(flags >> 11 & 15);
  query.recursion_desired = (flags & kFlagRecursionDesired) != 0;
  if (questions != 1 || answers != 0 || authorities != 0 || additional > 1) return malformed("more than one question");
  TRY(query.name, reader.name(false));
  TRY(query.type, reader.u16());
  TRY(query.qclass, reader.u16());
  query.question = packet.substr(kHeaderSize, reader.position() - kHeaderSize);
  if (additional == 1) {
    TRY(const Record record, read_record(reader));
    if (record.type != type::kOpt || !record.owner.empty()) return malformed("an additional record that is not OPT");
    query.has_edns = true;
    query.udp_size = std::clamp<uint16_t>(record.rclass, 512, kUdpSize);
  }
  if (!reader.at_end()) return malformed("bytes after the end");
  return query;
}

std::string build_response(const Query& query, const Response& response, size_t limit) {
  const unsigned opt_count = query.has_edns ? 1 : 0;
  const unsigned flags = kFlagResponse | kFlagRecursionAvailable | (query.recursion_desired ? kFlagRecursionDesired : 0U) |
                         static_cast<unsigned>(query.opcode) << 11 | static_cast<unsigned>(response.rcode);
  std::string records;
  unsigned count = 0;
  // 0xc00c: the name of the question, which stands right after the header.
  for (const oci::IpAddress& address : response.addresses) {
    if (query.type != (address.is_ipv6 ? type::kAaaa : type::kA)) continue;
    const size_t size = address.is_ipv6 ? 16 : 4;
    put_u16(records, 0xc00c);
    put_u16(records, query.type);
    put_u16(records, kClassIn);
    put_u32(records, response.ttl_seconds);
    put_u16(records, static_cast<unsigned>(size));
    records.append(reinterpret_cast<const char*>(address.bytes.data()), size);
    ++count;
  }
  if (!response.pointer.empty()) {
    std::string name;
    if (put_name(name, response.pointer)) {
      put_u16(records, 0xc00c);
      put_u16(records, type::kPtr);
      put_u16(records, kClassIn);
      put_u32(records, response.ttl_seconds);
      put_u16(records, static_cast<unsigned>(name.size()));
      records += name;
      ++count;
    }
  }
  std::string opt;
  if (query.has_edns) put_opt(opt, response);

  std::string out;
  if (kHeaderSize + query.question.size() + records.size() + opt.size() > limit) {
    put_header(out, query.id, flags | kFlagTruncated, 1, 0, opt_count);
    return out + query.question + opt;
  }
  put_header(out, query.id, flags, 1, count, opt_count);
  out += query.question;
  out += records;
  return out + opt;
}

std::string build_format_error(std::string_view packet) {
  std::string out;
  if (packet.size() < kHeaderSize || (static_cast<unsigned char>(packet[2]) & 0x80) != 0) return out;
  const auto id = static_cast<uint16_t>(static_cast<unsigned char>(packet[0]) << 8 | static_cast<unsigned char>(packet[1]));
  put_header(out, id, kFlagResponse | kFlagRecursionAvailable | static_cast<unsigned>(Rcode::kFormErr), 0, 0, 0);
  return out;
}

Result<std::string> build_query(uint16_t id, std::string_view name, uint16_t qtype) {
  std::string out;
  put_header(out, id, kFlagRecursionDesired, 1, 0, 1);
  TRY_VOID(put_name(out, name));
  put_u16(out, qtype);
  put_u16(out, kClassIn);
  put_opt(out, {});
  return out;
}

Result<Answer> parse_answer(std::string_view packet, uint16_t id, std::string_view name, uint16_t qtype, bool exact_case) {
  Reader reader(packet);
  TRY(const uint16_t answered_id, reader.u16());
  TRY(const uint16_t flags, reader.u16());
  TRY(const uint16_t questions, reader.u16());
  TRY(const uint16_t answers, reader.u16());
  TRY_VOID(reader.u16());
  TRY_VOID(reader.u16());
  if (answered_id != id || (flags & kFlagResponse) == 0 || (flags >> 11 & 15) != 0 || questions != 1) {
    return malformed("not the answer to this query");
  }
  TRY(const std::string answered_name, reader.name(false));
  TRY(const uint16_t answered_type, reader.u16());
  TRY(const uint16_t answered_class, reader.u16());
  if (answered_type != qtype || answered_class != kClassIn ||
      !(exact_case ? answered_name == name : equal_ignoring_case(answered_name, name))) {
    return malformed("not the answer to this question");
  }
  Answer answer;
  answer.rcode = static_cast<Rcode>(flags & 15);
  answer.canonical = to_lower(name);
  if ((flags & kFlagTruncated) != 0) {
    answer.is_truncated = true;
    return answer;
  }
  if (answers > kMaxRecords) return malformed("too many records");

  std::vector<Record> records;
  records.reserve(answers);
  for (unsigned i = 0; i < answers; ++i) {
    auto record = read_record(reader);
    // A record whose owner is no host's name (a DNAME's, an RRSIG's ...) makes the packet unreadable
    // from there on; what was read before it counts.
    if (!record) {
      if (records.empty()) return std::move(record).error();
      break;
    }
    if (record->rclass == kClassIn) records.push_back(std::move(record).value());
  }

  uint32_t ttl = UINT32_MAX;
  for (size_t step = 0; step < kMaxChain; ++step) {
    const auto alias = std::find_if(records.begin(), records.end(), [&](const Record& record) {
      return record.type == type::kCname && equal_ignoring_case(record.owner, answer.canonical);
    });
    if (alias == records.end()) break;
    Reader target(packet, alias->data_position);
    TRY(const std::string canonical, target.name(true));
    if (target.position() != alias->data_position + alias->data.size()) return malformed("CNAME");
    answer.canonical = to_lower(canonical);
    ttl = std::min(ttl, alias->ttl);
    records.erase(alias);  // each is followed once, so that a ring ends
  }
  for (const Record& record : records) {
    if (record.type != qtype || !equal_ignoring_case(record.owner, answer.canonical)) continue;
    if (qtype == type::kPtr) {
      Reader target(packet, record.data_position);
      TRY(const std::string pointer, target.name(true));
      answer.pointer = to_lower(pointer);
      ttl = std::min(ttl, record.ttl);
      break;
    }
    const size_t size = qtype == type::kAaaa ? 16 : 4;
    if (record.data.size() != size) return malformed("address of another size");
    if (answer.addresses.size() == kMaxAddresses) break;
    oci::IpAddress address;
    address.is_ipv6 = qtype == type::kAaaa;
    std::transform(record.data.begin(), record.data.end(), address.bytes.begin(), [](char c) { return static_cast<uint8_t>(c); });
    answer.addresses.push_back(address);
    ttl = std::min(ttl, record.ttl);
  }
  answer.ttl_seconds = ttl == UINT32_MAX ? 0 : ttl;
  return answer;
}

std::string type_name(uint16_t qtype) {
  switch (qtype) {
    case type::kA: return "A";
    case type::kNs: return "NS";
    case type::kCname: return "CNAME";
    case type::kSoa: return "SOA";
    case type::kNull: return "NULL";
    case type::kPtr: return "PTR";
    case type::kMx: return "MX";
    case type::kTxt: return "TXT";
    case type::kAaaa: return "AAAA";
    case type::kSrv: return "SRV";
    case type::kOpt: return "OPT";
    case type::kSvcb: return "SVCB";
    case type::kHttps: return "HTTPS";
    case type::kIxfr: return "IXFR";
    case type::kAxfr: return "AXFR";
    case type::kAny: return "ANY";
    default: return "TYPE" + std::to_string(qtype);
  }
}

std::optional<oci::IpAddress> reverse_address(std::string_view name) {
  const std::string text = to_lower(name);
  const std::string_view view(text);
  oci::IpAddress address;
  if (view.ends_with(".in-addr.arpa")) {
    std::string_view rest = view.substr(0, view.size() - std::string_view(".in-addr.arpa").size());
    std::string dotted;
    for (int i = 0; i < 4; ++i) {
      const size_t dot = rest.rfind('.');
      const std::string_view label = dot == std::string_view::npos ? rest : rest.substr(dot + 1);
      dotted += (i == 0 ? "" : ".") + std::string(label);
      if ((dot == std::string_view::npos) != (i == 3)) return std::nullopt;
      if (i < 3) rest = rest.substr(0, dot);
    }
    return oci::parse_ip(dotted);
  }
  constexpr std::string_view kSuffix = ".ip6.arpa";
  if (!view.ends_with(kSuffix) || view.size() != 63 + kSuffix.size()) return std::nullopt;
  address.is_ipv6 = true;
  for (size_t i = 0; i < 32; ++i) {
    const char c = view[2 * i];
    unsigned nibble = 0;
    if (std::from_chars(&c, &c + 1, nibble, 16).ec != std::errc() || (i < 31 && view[2 * i + 1] != '.')) return std::nullopt;
    const size_t position = 31 - i;
    address.bytes[position / 2] = static_cast<uint8_t>(address.bytes[position / 2] | nibble << (position % 2 == 0 ? 4 : 0));
  }
  return address;
}

std::string reverse_name(const oci::IpAddress& address) {
  std::string name;
  if (!address.is_ipv6) {
    for (size_t i = 4; i > 0; --i) name += std::to_string(address.bytes[i - 1]) + ".";
    return name + "in-addr.arpa";
  }
  constexpr std::string_view kHex = "0123456789abcdef";
  for (size_t i = 16; i > 0; --i) {
    const uint8_t byte = address.bytes[i - 1];
    name += {kHex[byte & 15U], '.', kHex[byte >> 4U], '.'};
  }
  return name + "ip6.arpa";
}

}  // namespace leash::proxy::dns
