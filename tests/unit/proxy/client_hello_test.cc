#include "proxy/client_hello.h"

#include "tests/unit/catch.h"

namespace leash::proxy {
namespace {

std::string number(size_t value, size_t width) {
  std::string text;
  for (size_t i = width; i-- > 0;) text += static_cast<char>(value >> (8 * i) & 255);
  return text;
}

std::string vector(const std::string& body, size_t width) { return number(body.size(), width) + body; }

std::string extension(size_t type, const std::string& body) { return number(type, 2) + vector(body, 2); }

std::string server_name(const std::string& name) {
  return extension(0, vector(std::string(1, '\0') + vector(name, 2), 2));
}

std::string message(const std::string& extensions) {
  std::string body = number(0x0303, 2) + std::string(32, 'r') + vector(std::string(32, 's'), 1) +
                     vector(number(0x1301, 2), 2) + vector(std::string(1, '\0'), 1) + vector(extensions, 2);
  return std::string(1, '\1') + vector(body, 3);
}

// `fragment`: bytes of the message in each record.
std::string records(const std::string& text, size_t fragment) {
  std::string out;
  for (size_t i = 0; i < text.size(); i += fragment) {
    out += std::string("\x16\x03\x01", 3) + vector(text.substr(i, fragment), 2);
  }
  return out;
}

std::string hello(const std::string& extensions) { return records(message(extensions), 16384); }

HelloStatus parse(const std::string& bytes) {
  ClientHello ignored;
  return parse_client_hello(bytes, ignored);
}

}  // namespace

TEST_CASE("client_hello: name, protocols and ECH are read") {
  ClientHello parsed;
  const std::string bytes = hello(server_name("ok.test") +
                                  extension(16, vector(vector("h2", 1) + vector("http/1.1", 1), 2)) +
                                  extension(0xfe0d, "x"));
  REQUIRE(parse_client_hello(bytes, parsed) == HelloStatus::kComplete);
  CHECK(parsed.server_name == "ok.test");
  CHECK(parsed.alpn == std::vector<std::string>{"h2", "http/1.1"});
  CHECK(parsed.has_encrypted_hello);
}

TEST_CASE("client_hello: every beginning of a hello is incomplete, never refused and never complete") {
  const std::string bytes = records(message(server_name("ok.test")), 7);
  for (size_t length = 0; length < bytes.size(); ++length) {
    INFO(length);
    CHECK(parse(bytes.substr(0, length)) == HelloStatus::kIncomplete);
  }
  CHECK(parse(bytes) == HelloStatus::kComplete);
}

TEST_CASE("client_hello: a name past byte 1024 and over records is found") {
  for (const size_t fragment : {1U, 3U, 100U, 1200U}) {
    ClientHello parsed;
    const std::string bytes = records(message(extension(51, std::string(1216, 'k')) + server_name("late.test")), fragment);
    INFO(fragment);
    REQUIRE(parse_client_hello(bytes, parsed) == HelloStatus::kComplete);
    CHECK(parsed.server_name == "late.test");
  }
}

TEST_CASE("client_hello: a large hello within the limit is read, beyond it refused") {
  CHECK(parse(records(message(extension(21, std::string(20000, 'p')) + server_name("big.test")), 16384)) ==
        HelloStatus::kComplete);
  CHECK(parse(records(message(extension(21, std::string(40000, 'p'))), 16384)) == HelloStatus::kMalformed);
}

TEST_CASE("client_hello: what two parsers could read differently is refused") {
  const std::string two_names = extension(0, vector(std::string(1, '\0') + vector("a.test", 2) + std::string(1, '\0') + vector("b.test", 2), 2));
  CHECK(parse(hello(two_names)) == HelloStatus::kMalformed);
  CHECK(parse(hello(server_name("a.test") + server_name("b.test"))) == HelloStatus::kMalformed);
  CHECK(parse(hello(server_name(""))) == HelloStatus::kMalformed);
  CHECK(parse(hello(server_name(std::string("a\0b", 3)))) == HelloStatus::kMalformed);
  CHECK(parse(hello(extension(0, vector(std::string(1, '\0') + vector("a.test", 2), 2) + "x"))) == HelloStatus::kMalformed);
  CHECK(parse(hello(extension(16, ""))) == HelloStatus::kMalformed);
  std::string trailing = message(server_name("a.test")) + "x";
  CHECK(parse(records(trailing, 16384)) == HelloStatus::kMalformed);
}

TEST_CASE("client_hello: what is not TLS is known at its first bytes") {
  CHECK(parse("G") == HelloStatus::kMalformed);
  CHECK(parse("SSH-2.0-x\r\n") == HelloStatus::kMalformed);
  CHECK(parse("\x16\x02") == HelloStatus::kMalformed);
  CHECK(parse(std::string("\x16\x03\x01\x00\x00", 5)) == HelloStatus::kMalformed);
  CHECK(parse(std::string("\x16\x03\x01\x00\x01\x02", 6)) == HelloStatus::kMalformed);  // a ServerHello
}

TEST_CASE("client_hello: lengths that point past their container are refused") {
  std::string bytes = hello(server_name("ok.test"));
  // Each length byte of the body made larger: never complete, never a crash.
  for (size_t i = 9; i < bytes.size(); ++i) {
    std::string broken = bytes;
    broken[i] = static_cast<char>(broken[i] + 1);
    ClientHello ignored;
    (void)parse_client_hello(broken, ignored);
  }
  CHECK(parse(bytes) == HelloStatus::kComplete);
}

}  // namespace leash::proxy
