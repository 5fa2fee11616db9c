#include "proxy/http1_head.h"

#include <string>

#include "tests/unit/catch.h"

namespace leash::proxy {
namespace {

// Scans and parses as the proxy does, the bytes one by one.
bool parse(const std::string& bytes, RequestHead& head, HeadProblem& problem) {
  HeadScanner scanner;
  size_t length = 0;
  HeadStatus status = HeadStatus::kIncomplete;
  for (size_t size = 1; size <= bytes.size() && status == HeadStatus::kIncomplete; ++size) {
    status = scanner.scan(std::string_view(bytes).substr(0, size), length, problem);
  }
  if (status == HeadStatus::kIncomplete) problem = {0, "incomplete"};
  return status == HeadStatus::kComplete && parse_request_head(std::string_view(bytes).substr(0, length), head, problem);
}

std::string request(const std::string& lines) { return "POST / HTTP/1.1\r\nHost: ok.test\r\n" + lines + "\r\n"; }

}  // namespace

TEST_CASE("http1_head: a plain request is read and its bytes are kept") {
  RequestHead head;
  HeadProblem problem;
  const std::string bytes = "GET /x%2Fy/../%41?q=1 HTTP/1.1\r\nHOST:  ok.test \r\nX-a: 1\r\nx-A: 2\r\n\r\n";
  REQUIRE(parse(bytes, head, problem));
  CHECK(head.bytes == bytes);
  CHECK(head.method == "GET");
  CHECK(head.path == "/x%2Fy/../%41?q=1");
  CHECK(head.host == "ok.test");
  CHECK(head.headers.size() == 3);
  CHECK(head.body_kind() == BodyKind::kNone);
  CHECK(head.keeps_alive());
}

TEST_CASE("http1_head: what can be read in two ways is an error") {
  struct Row {
    const char* what;
    std::string bytes;
    int status;
  };
  const Row rows[] = {
      {"te and cl", request("Transfer-Encoding: chunked\r\nContent-Length: 4\r\n"), 400},
      {"cl and te", request("Content-Length: 4\r\nTransfer-Encoding: chunked\r\n"), 400},
      {"xchunked", request("Transfer-Encoding: xchunked\r\n"), 501},
      {"chunked list", request("Transfer-Encoding: gzip, chunked\r\n"), 501},
      {"identity", request("Transfer-Encoding: identity\r\n"), 501},
      {"te twice", request("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n"), 400},
      {"te with quotes", request("Transfer-Encoding: \"chunked\"\r\n"), 501},
      {"te empty", request("Transfer-Encoding:\r\n"), 501},
      {"cl twice, differing", request("Content-Length: 4\r\nContent-Length: 5\r\n"), 400},
      {"cl twice, equal", request("Content-Length: 4\r\nContent-Length: 4\r\n"), 400},
      {"cl list", request("Content-Length: 4, 4\r\n"), 400},
      {"cl plus", request("Content-Length: +4\r\n"), 400},
      {"cl minus", request("Content-Length: -4\r\n"), 400},
      {"cl hex", request("Content-Length: 0x4\r\n"), 400},
      {"cl blank inside", request("Content-Length: 4 4\r\n"), 400},
      {"cl overflow", request("Content-Length: 99999999999999999999\r\n"), 400},
      {"cl empty", request("Content-Length:\r\n"), 400},
      {"cl with underscore", request("Content_Length: 4\r\n"), 400},
      {"te with underscore", request("Transfer_Encoding: chunked\r\n"), 400},
      {"blank before colon", request("X-A : 1\r\n"), 400},
      {"blank before colon of cl", request("Content-Length : 4\r\n"), 400},
      {"obs-fold", request("X-A: 1\r\n 2\r\n"), 400},
      {"obs-fold with tab", request("X-A: 1\r\n\t2\r\n"), 400},
      {"no colon", request("X-A\r\n"), 400},
      {"empty name", request(": 1\r\n"), 400},
      {"nul in value", request(std::string("X-A: 1\0 2\r\n", 11)), 400},
      {"nul in name", request(std::string("X\0A: 1\r\n", 8)), 400},
      {"control in value", request("X-A: \x01\r\n"), 400},
      {"del in value", request("X-A: \x7f\r\n"), 400},
      {"cr in value", request("X-A: 1\r2\r\n"), 400},
      {"utf-8 in name", request("X-\xc3\xa4: 1\r\n"), 400},
      {"bare lf after header", "GET / HTTP/1.1\r\nHost: ok.test\n\r\n", 400},
      {"bare lf after request line", "GET / HTTP/1.1\nHost: ok.test\r\n\r\n", 400},
      {"bare lf alone", "GET / HTTP/1.1\r\nHost: ok.test\r\n\n", 400},
      {"leading empty line", "\r\nGET / HTTP/1.1\r\nHost: ok.test\r\n\r\n", 400},
      {"no host", "GET / HTTP/1.1\r\n\r\n", 400},
      {"no host in 1.0", "GET / HTTP/1.0\r\n\r\n", 400},
      {"empty host", "GET / HTTP/1.1\r\nHost:\r\n\r\n", 400},
      {"two hosts", "GET / HTTP/1.1\r\nHost: ok.test\r\nHost: ok.test\r\n\r\n", 400},
      {"two hosts, cased", "GET / HTTP/1.1\r\nHost: ok.test\r\nhOST: evil.test\r\n\r\n", 400},
      {"lower-case method", "get / HTTP/1.1\r\nHost: ok.test\r\n\r\n", 400},
      {"bad method", "G@T / HTTP/1.1\r\nHost: ok.test\r\n\r\n", 400},
      {"long method", "AAAAAAAAAAAAAAAAAAAAA / HTTP/1.1\r\nHost: ok.test\r\n\r\n", 400},
      {"no version", "GET /\r\nHost: ok.test\r\n\r\n", 400},
      {"version 2", "GET / HTTP/2.0\r\nHost: ok.test\r\n\r\n", 505},
      {"version 0.9", "GET / HTTP/0.9\r\nHost: ok.test\r\n\r\n", 505},
      {"lower-case version", "GET / http/1.1\r\nHost: ok.test\r\n\r\n", 400},
      {"two blanks", "GET  / HTTP/1.1\r\nHost: ok.test\r\n\r\n", 400},
      {"blank in target", "GET /a b HTTP/1.1\r\nHost: ok.test\r\n\r\n", 400},
      {"tab in target", "GET /a\tb HTTP/1.1\r\nHost: ok.test\r\n\r\n", 400},
      {"utf-8 in target", "GET /\xc3\xa4 HTTP/1.1\r\nHost: ok.test\r\n\r\n", 400},
      {"fragment in target", "GET /a#b HTTP/1.1\r\nHost: ok.test\r\n\r\n", 400},
      {"relative target", "GET a HTTP/1.1\r\nHost: ok.test\r\n\r\n", 400},
      {"asterisk with GET", "GET * HTTP/1.1\r\nHost: ok.test\r\n\r\n", 400},
      {"other scheme", "GET ftp://ok.test/ HTTP/1.1\r\nHost: ok.test\r\n\r\n", 400},
      {"user in authority", "GET http://ok.test@evil.test/ HTTP/1.1\r\nHost: ok.test\r\n\r\n", 400},
      {"te in 1.0", "POST / HTTP/1.0\r\nHost: ok.test\r\nTransfer-Encoding: chunked\r\n\r\n", 400},
      {"unknown expectation", request("Expect: magic\r\n"), 417},
      {"two method overrides", request("X-HTTP-Method-Override: DELETE\r\nX-HTTP-Method: GET\r\n"), 400},
      {"two spellings of an override", request("X_HTTP_Method_Override: DELETE\r\nX-HTTP-Method-Override: GET\r\n"), 400},
      {"head too large", request("X-A: " + std::string(70000, 'a') + "\r\n"), 431},
  };
  for (const Row& row : rows) {
    INFO(row.what);
    RequestHead head;
    HeadProblem problem;
    CHECK_FALSE(parse(row.bytes, head, problem));
    CHECK(problem.status == row.status);
  }
}

TEST_CASE("http1_head: too many headers are refused, 200 are not") {
  RequestHead head;
  HeadProblem problem;
  std::string lines;
  for (int i = 0; i < 200; ++i) lines += "X: 1\r\n";
  CHECK(parse(request(lines), head, problem));
  for (int i = 0; i < 100; ++i) lines += "X: 1\r\n";
  CHECK_FALSE(parse(request(lines), head, problem));
  CHECK(problem.status == 431);
}

TEST_CASE("http1_head: absolute form gives authority, scheme and path") {
  RequestHead head;
  HeadProblem problem;
  const std::string bytes = "GET http://evil.test:81/p?q HTTP/1.1\r\nHost: ok.test\r\n\r\n";
  REQUIRE(parse(bytes, head, problem));
  CHECK(head.authority == "evil.test:81");
  CHECK(head.scheme == "http");
  CHECK(head.path == "/p?q");
}

TEST_CASE("http1_head: what overrides method or path is seen in CGI's spelling as well") {
  RequestHead head;
  HeadProblem problem;
  for (const char* const name : {"X-HTTP-Method-Override", "x_http_method_override", "X-HTTP_Method", "X_Method-Override"}) {
    INFO(name);
    REQUIRE(parse(request(std::string(name) + ": DELETE\r\n"), head, problem));
    CHECK(head.method_override == "DELETE");
    CHECK_FALSE(head.overrides_path);
  }
  for (const char* const name : {"X-Original-URL", "x_rewrite_url"}) {
    INFO(name);
    REQUIRE(parse(request(std::string(name) + ": /admin\r\n"), head, problem));
    CHECK(head.overrides_path);
  }
}

TEST_CASE("http1_head: connection lists are read, ignoring case") {
  RequestHead head;
  HeadProblem problem;
  REQUIRE(parse(request("Connection: Foo , CLOSE\r\n"), head, problem));
  CHECK(head.says_close);
  CHECK_FALSE(head.keeps_alive());
  REQUIRE(parse("GET / HTTP/1.0\r\nHost: ok.test\r\nConnection: keep-alive\r\n\r\n", head, problem));
  CHECK(head.keeps_alive());
}

TEST_CASE("http1_head: responses and where their bodies end") {
  struct Row {
    const char* bytes;
    bool to_head;
    BodyKind kind;
  };
  const Row rows[] = {
      {"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n", false, BodyKind::kLength},
      {"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n", true, BodyKind::kNone},
      {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", false, BodyKind::kChunked},
      {"HTTP/1.1 200\r\n\r\n", false, BodyKind::kUntilClose},
      {"HTTP/1.1 204 No\r\n\r\n", false, BodyKind::kNone},
      {"HTTP/1.1 304 No\r\nContent-Length: 5\r\n\r\n", false, BodyKind::kNone},
      {"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n", false, BodyKind::kNone},
      {"HTTP/1.0 200 OK\r\n\r\n", false, BodyKind::kUntilClose},
      {"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", false, BodyKind::kNone},
  };
  for (const Row& row : rows) {
    INFO(row.bytes);
    ResponseHead head;
    HeadProblem problem;
    REQUIRE(parse_response_head(row.bytes, head, problem));
    CHECK(head.body_kind(row.to_head) == row.kind);
  }
  for (const char* const bytes : {"HTTP/1.1 20 OK\r\n\r\n", "HTTP/1.1 099 OK\r\n\r\n", "HTTP/2 200 OK\r\n\r\n", "ICY 200 OK\r\n\r\n",
                                  "HTTP/1.1 200OK\r\n\r\n",
                                  "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n",
                                  "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\n"}) {
    INFO(bytes);
    ResponseHead head;
    HeadProblem problem;
    CHECK_FALSE(parse_response_head(bytes, head, problem));
  }
}

TEST_CASE("http1_head: authorities are taken apart strictly") {
  std::string_view host;
  uint16_t port = 0;
  REQUIRE(split_authority("ok.test:8080", host, port));
  CHECK(host == "ok.test");
  CHECK(port == 8080);
  REQUIRE(split_authority("[::1]:80", host, port));
  CHECK(host == "[::1]");
  REQUIRE(split_authority("[::1]", host, port));
  CHECK(port == 0);
  for (const char* const text : {"", ":80", "ok.test:", "ok.test:0", "ok.test:65536", "ok.test:8x", "[::1", "[::1]80", "a:b:80"}) {
    INFO(text);
    CHECK_FALSE(split_authority(text, host, port));
  }
}

}  // namespace leash::proxy
