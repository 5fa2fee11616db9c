#include "proxy/redaction.h"

#include "proxy/base64.h"
#include "proxy/secret_store.h"
#include "tests/unit/catch.h"

namespace leash::proxy {
namespace {

constexpr const char* kValue = "sk-real-0123456789abcdef";
constexpr const char* kPlaceholder = "sk-fake-ZZZZZZZZZZZZZZZZ";

SecretStore store() {
  SecretStore secrets;
  oci::ProxySecret document;
  document.name = "API_KEY";
  document.placeholder = kPlaceholder;
  document.value = kValue;
  document.hosts = {"api.test"};
  REQUIRE(secrets.add(std::move(document)));
  return secrets;
}

std::string chunked(const std::string& text, size_t size) {
  std::string out;
  for (size_t i = 0; i < text.size(); i += size) {
    const std::string part = text.substr(i, size);
    char line[20];
    std::snprintf(line, sizeof line, "%zx\r\n", part.size());
    out += line + part + "\r\n";
  }
  return out + "0\r\n\r\n";
}

// What comes out when `raw` arrives in parts of `step` bytes.
std::string pass(SecretStore& secrets, BodyScanner scanner, const std::string& raw, size_t step) {
  StreamRedactor redactor(secrets.patterns_for("api.test"));
  std::string out;
  for (size_t i = 0; i < raw.size(); i += step) {
    const std::string_view part = std::string_view(raw).substr(i, step);
    std::vector<Piece> pieces;
    size_t consumed = 0;
    REQUIRE(scanner.scan(part, consumed, pieces) != BodyStatus::kBad);
    redactor.pass(part, pieces, scanner.done(), out);
  }
  return out;
}

}  // namespace

TEST_CASE("redaction: a value is replaced whatever the borders of reads and chunks") {
  SecretStore secrets = store();
  const std::string text = "before " + std::string(kValue) + " between sk-real-012 " + kValue;
  const std::string wanted = "before " + std::string(kPlaceholder) + " between sk-real-012 " + kPlaceholder;
  for (const size_t chunk : {1U, 2U, 5U, 23U, 24U, 1000U}) {
    for (const size_t step : {1U, 2U, 7U, 30U, 4096U}) {
      INFO(chunk << " " << step);
      CHECK(pass(secrets, BodyScanner(BodyKind::kChunked, 0), chunked(text, chunk), step) == chunked(wanted, chunk));
    }
  }
  for (size_t step = 1; step < 60; ++step) {
    CHECK(pass(secrets, BodyScanner(BodyKind::kLength, text.size()), text, step) == wanted);
  }
}

TEST_CASE("redaction: the value's base64, hexadecimal and percent forms are found too") {
  SecretStore secrets = store();
  const auto patterns = secrets.patterns_for("api.test");
  for (const std::string& prefix : {std::string(), std::string("u:"), std::string("us:"), std::string("use:")}) {
    std::string text = base64_encode(prefix + kValue + ":tail");
    patterns->replace(text);
    INFO(prefix);
    CHECK(base64_decode(text).value().find("0123456789abc") == std::string::npos);
  }
  std::string hex = "736b2d7265616c2d303132333435363738396162636465663b";
  CHECK(patterns->replace(hex) == 1);
}

TEST_CASE("redaction: a value in a chunk extension or a trailer is replaced whatever the borders of reads") {
  SecretStore secrets = store();
  const auto message = [](const std::string& word) {
    return "5;echo=\"" + word + "\"\r\nhello\r\n1\r\n \r\n0;" + word + "\r\nX-Echo: " + word + "\r\n\r\n";
  };
  for (size_t step = 1; step < 80; ++step) {
    INFO(step);
    CHECK(pass(secrets, BodyScanner(BodyKind::kChunked, 0), message(kValue), step) == message(kPlaceholder));
  }
}

TEST_CASE("redaction: a value that the end of the body cuts short is replaced as far as it goes") {
  SecretStore secrets = store();
  const std::string cut = std::string(kValue).substr(0, std::string(kValue).size() - 1);
  const std::string wanted = std::string(kPlaceholder).substr(0, cut.size());
  for (size_t step = 1; step < 40; ++step) {
    INFO(step);
    CHECK(pass(secrets, BodyScanner(BodyKind::kLength, cut.size() + 1), "x" + cut, step) == "x" + wanted);
    CHECK(pass(secrets, BodyScanner(BodyKind::kChunked, 0), chunked(cut, 3), step) == chunked(wanted, 3));
  }
  // Too short to be anybody's value: data stays as it is.
  CHECK(pass(secrets, BodyScanner(BodyKind::kLength, 7), "sk-real", 100) == "sk-real");
}

TEST_CASE("redaction: what cannot be the beginning of a value is not held back") {
  SecretStore secrets = store();
  StreamRedactor redactor(secrets.patterns_for("api.test"));
  std::string out;
  const std::string event = "data: {\"x\":1}\n\n";
  redactor.pass(event, {{0, event.size()}}, false, out);
  CHECK(out == event);
}

TEST_CASE("redaction: other hosts than the secret's are not searched") {
  SecretStore secrets = store();
  CHECK(secrets.patterns_for("other.test") == nullptr);
}

TEST_CASE("pattern_set: finds at every position and among many patterns") {
  const PatternSet set({{"aaaaaaaab", "XXXXXXXXX"}, {"12345678", "YYYYYYYY"}, {"short", "ZZZZZ"}});
  for (size_t before = 0; before < 40; ++before) {
    std::string text = std::string(before, 'a') + "aaaaaaaab" + std::string(before % 7, '1') + "12345678";
    CHECK(set.replace(text) == 2);
    CHECK(text == std::string(before, 'a') + "XXXXXXXXX" + std::string(before % 7, '1') + "YYYYYYYY");
  }
  std::string text = "short";
  CHECK(set.replace(text) == 0);
}

TEST_CASE("base64: RFC 4648's own examples") {
  const std::pair<const char*, const char*> rows[] = {{"", ""}, {"f", "Zg=="}, {"fo", "Zm8="}, {"foo", "Zm9v"}, {"foob", "Zm9vYg=="},
                                                      {"fooba", "Zm9vYmE="}, {"foobar", "Zm9vYmFy"}};
  for (const auto& [plain, encoded] : rows) {
    CHECK(base64_encode(plain) == encoded);
    CHECK(base64_decode(encoded).value() == plain);
  }
  CHECK_FALSE(base64_decode("Zg*=").has_value());
}

}  // namespace leash::proxy
