// DNS messages (RFC 1035, 6891, 8914), read strictly and written minimally.
//
// Both sides are hostile: the container writes queries, and whoever runs an allowed zone writes
// answers. So a query is one question and an OPT record at most; of an answer only A, AAAA and CNAME
// of the asked name are read; compression pointers only lead backwards; all is bounded. What goes out
// is built from scratch: no byte of one side's packet reaches the other but the question's own.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "oci-spec/ip_class.h"

namespace leash::proxy::dns {

namespace type {
inline constexpr uint16_t kA = 1;
inline constexpr uint16_t kNs = 2;
inline constexpr uint16_t kCname = 5;
inline constexpr uint16_t kSoa = 6;
inline constexpr uint16_t kNull = 10;
inline constexpr uint16_t kPtr = 12;
inline constexpr uint16_t kMx = 15;
inline constexpr uint16_t kTxt = 16;
inline constexpr uint16_t kAaaa = 28;
inline constexpr uint16_t kSrv = 33;
inline constexpr uint16_t kOpt = 41;
inline constexpr uint16_t kSvcb = 64;
inline constexpr uint16_t kHttps = 65;
inline constexpr uint16_t kIxfr = 251;
inline constexpr uint16_t kAxfr = 252;
inline constexpr uint16_t kAny = 255;
}  // namespace type

inline constexpr uint16_t kClassIn = 1;
inline constexpr size_t kHeaderSize = 12;
inline constexpr size_t kMaxQuery = 4096;
inline constexpr size_t kMaxMessage = 65535;

enum class Rcode : uint8_t { kNoError = 0, kFormErr = 1, kServFail = 2, kNxDomain = 3, kNotImp = 4, kRefused = 5 };

// RFC 8914.
enum class ExtendedError : uint16_t { kNone = 0, kBlocked = 15, kNoReachableAuthority = 22 };

struct Query {
  uint16_t id = 0;
  uint8_t opcode = 0;
  bool recursion_desired = false;
  std::string name;  // text form without the final dot, letters as sent; "" is the root
  uint16_t type = 0;
  uint16_t qclass = 0;
  bool has_edns = false;
  uint16_t udp_size = 512;
  std::string question;  // the question section as sent, for the echo
};

// Anything but one question and at most one OPT is an error; so are labels with a dot, a NUL or a
// backslash inside, which no host has.
[[nodiscard]] Result<Query> parse_query(std::string_view packet);

struct Response {
  Rcode rcode = Rcode::kNoError;
  std::vector<oci::IpAddress> addresses;  // of the family that was asked for
  std::string pointer;                    // PTR: the one name
  uint32_t ttl_seconds = 0;
  ExtendedError extended = ExtendedError::kNone;  // written if the query has EDNS
  std::string_view extended_text;
};

// `limit`: 512 or the client's size over UDP, kMaxMessage over TCP. What does not fit is dropped with TC set.
[[nodiscard]] std::string build_response(const Query& query, const Response& response, size_t limit);
// For a packet that parse_query() refused: the header's id and FORMERR. Empty if there is no header, or
// if it is a response itself (two servers must not answer each other's errors).
[[nodiscard]] std::string build_format_error(std::string_view packet);

// An upstream query: RD set, EDNS with 1232 bytes. `name` goes out letter by letter as given.
[[nodiscard]] Result<std::string> build_query(uint16_t id, std::string_view name, uint16_t qtype);

struct Answer {
  Rcode rcode = Rcode::kNoError;
  bool is_truncated = false;
  std::vector<oci::IpAddress> addresses;  // at most kMaxAddresses
  std::string canonical;  // where the CNAME chain ended; lower case
  std::string pointer;    // of a PTR query; lower case
  uint32_t ttl_seconds = 0;  // the least of those that count; 0 if nothing does
};
inline constexpr size_t kMaxAddresses = 16;

// The answer to the query of build_query(). An error if it is not: another id, another question
// (compared letter by letter when `exact_case`), not a response, malformed where it is read.
[[nodiscard]] Result<Answer> parse_answer(std::string_view packet, uint16_t id, std::string_view name, uint16_t qtype,
                                          bool exact_case);

// "A", "AAAA", "HTTPS" ..., "TYPE123".
[[nodiscard]] std::string type_name(uint16_t qtype);
// The address behind 4.3.2.1.in-addr.arpa or its ip6.arpa twin; nullopt for another name.
[[nodiscard]] std::optional<oci::IpAddress> reverse_address(std::string_view name);
[[nodiscard]] std::string reverse_name(const oci::IpAddress& address);

}  // namespace leash::proxy::dns
