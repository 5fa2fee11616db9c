#include "proxy/client_hello.h"

#include <algorithm>
#include <optional>

namespace leash::proxy {

namespace {

constexpr uint8_t kHandshakeRecord = 22;
constexpr uint8_t kClientHelloMessage = 1;
constexpr uint16_t kServerNameExtension = 0;
constexpr uint16_t kAlpnExtension = 16;
constexpr uint16_t kEncryptedHelloExtension = 0xfe0d;
constexpr size_t kMaxRecord = size_t{1} << 14;

// A cursor that fails for good once it has run over the end.
class Reader {
 public:
  explicit Reader(std::string_view bytes) : bytes_(bytes) {}

  [[nodiscard]] std::optional<uint32_t> number(size_t width) {
    const auto text = take(width);
    if (!text) return std::nullopt;
    uint32_t value = 0;
    for (const char byte : *text) value = (value << 8) | static_cast<uint8_t>(byte);
    return value;
  }
  [[nodiscard]] std::optional<std::string_view> take(size_t length) {
    if (length > bytes_.size()) return std::nullopt;
    const std::string_view text = bytes_.substr(0, length);
    bytes_.remove_prefix(length);
    return text;
  }
  // A vector with a length in front, RFC 8446 section 3.4.
  [[nodiscard]] std::optional<Reader> vector(size_t width) {
    const auto length = number(width);
    if (!length) return std::nullopt;
    const auto text = take(*length);
    if (!text) return std::nullopt;
    return Reader(*text);
  }
  [[nodiscard]] bool empty() const { return bytes_.empty(); }
  [[nodiscard]] size_t size() const { return bytes_.size(); }
  [[nodiscard]] std::string_view rest() const { return bytes_; }

 private:
  std::string_view bytes_;
};

bool parse_server_name(Reader extension, ClientHello& hello) {
  auto list = extension.vector(2);
  if (!list || !extension.empty() || list->empty()) return false;
  while (!list->empty()) {
    const auto type = list->number(1);
    auto name = list->vector(2);
    if (!type || !name) return false;
    if (*type != 0) continue;
    // One host_name alone, RFC 6066 section 3: with two, we and the origin might pick differently.
    if (!hello.server_name.empty() || name->empty()) return false;
    hello.server_name = name->rest();
    if (hello.server_name.find('\0') != std::string::npos) return false;
  }
  return true;
}

bool parse_alpn(Reader extension, ClientHello& hello) {
  auto list = extension.vector(2);
  if (!list || !extension.empty() || list->empty()) return false;
  while (!list->empty()) {
    const auto name = list->vector(1);
    if (!name || name->empty()) return false;
    hello.alpn.emplace_back(name->rest());
  }
  return true;
}

bool parse_message(std::string_view message, ClientHello& hello) {
  Reader reader(message);
  const auto version = reader.number(2);
  const auto random = reader.take(32);
  const auto session = reader.vector(1);
  const auto ciphers = reader.vector(2);
  const auto compression = reader.vector(1);
  if (!version || !random || !session || !ciphers || !compression) return false;
  if (session->size() > 32 || ciphers->empty() || ciphers->size() % 2 != 0 || compression->empty()) return false;
  hello.legacy_version = static_cast<uint16_t>(*version);
  if (reader.empty()) return true;  // a TLS 1.2 hello may have no extensions
  auto extensions = reader.vector(2);
  if (!extensions || !reader.empty()) return false;
  std::vector<uint16_t> seen;
  while (!extensions->empty()) {
    const auto type = extensions->number(2);
    const auto body = extensions->vector(2);
    if (!type || !body) return false;
    const uint16_t number = static_cast<uint16_t>(*type);
    // No extension twice, RFC 8446 section 4.2.
    if (std::find(seen.begin(), seen.end(), number) != seen.end()) return false;
    seen.push_back(number);
    if (number == kServerNameExtension && !parse_server_name(*body, hello)) return false;
    if (number == kAlpnExtension && !parse_alpn(*body, hello)) return false;
    if (number == kEncryptedHelloExtension) hello.has_encrypted_hello = true;
  }
  return true;
}

}  // namespace

HelloStatus parse_client_hello(std::string_view bytes, ClientHello& hello) {
  // Records are joined until the handshake message that they carry is whole.
  std::string message;
  size_t wanted = 4;
  Reader reader(bytes);
  for (;;) {
    if (bytes.size() - reader.size() > kMaxHelloBytes || wanted > kMaxHelloBytes) return HelloStatus::kMalformed;
    // Judged byte by byte, so that what is not TLS is known at its first byte.
    const std::string_view rest = reader.rest();
    if (!rest.empty() && static_cast<uint8_t>(rest[0]) != kHandshakeRecord) return HelloStatus::kMalformed;
    if (rest.size() > 1 && rest[1] != 3) return HelloStatus::kMalformed;
    if (rest.size() < 5) return HelloStatus::kIncomplete;
    (void)reader.take(3);
    const uint32_t length = reader.number(2).value_or(0);
    if (length == 0 || length > kMaxRecord) return HelloStatus::kMalformed;
    const bool whole = reader.size() >= length;
    message += reader.take(std::min<size_t>(length, reader.size())).value_or(std::string_view());
    if (!message.empty() && static_cast<uint8_t>(message[0]) != kClientHelloMessage) return HelloStatus::kMalformed;
    if (message.size() >= 4) wanted = 4 + Reader(std::string_view(message).substr(1)).number(3).value_or(0);
    if (message.size() >= 4 && message.size() >= wanted) break;
    if (!whole) return HelloStatus::kIncomplete;
  }
  // Nothing follows the hello within its record: the client has no keys yet.
  if (message.size() != wanted) return HelloStatus::kMalformed;
  ClientHello parsed;
  if (!parse_message(std::string_view(message).substr(4), parsed)) return HelloStatus::kMalformed;
  hello = std::move(parsed);
  return HelloStatus::kComplete;
}

}  // namespace leash::proxy
