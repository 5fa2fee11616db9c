#include "oci-spec/url_path.h"

#include "tests/unit/catch.h"

namespace leash::oci {
namespace {

TEST_CASE("path: what two servers could read differently is ambiguous, all else has one form") {
  struct Row {
    const char* target;
    const char* path;
    bool ambiguous;
  };
  const Row rows[] = {
      {"", "/", false},
      {"/", "/", false},
      {"/?q=/../x", "/", false},
      {"/a/b", "/a/b", false},
      {"/a/b/", "/a/b", false},
      {"/a/b?x=%2e%2e", "/a/b", false},
      {"/%61dmin", "/admin", false},
      {"/a%20b", "/a b", false},
      {"/%E2%82%AC", "/\xe2\x82\xac", false},
      {"/%7Euser", "/~user", false},
      {"/pub/%2e%2e/admin", "/admin", true},
      {"/pub/../admin", "/admin", true},
      {"/pub/./x", "/pub/x", true},
      {"/../../x", "/x", true},
      {"/pub//admin", "/pub/admin", true},
      {"//evil.test/x", "/evil.test/x", true},
      {"/pub/..;/admin", "/pub/..;/admin", true},
      {"/x;y=1/z", "/x;y=1/z", true},
      {"/;/x", "/;/x", true},
      {"/%2561dmin", "/%61dmin", true},
      {"/a%2fb", "/a/b", true},
      {"/a%5Cb", "/a\\b", true},
      {"/a\\b", "/a\\b", true},
      {"/a%00", nullptr, true},
      {"/a%0d%0ab", nullptr, true},
      {"/a%", nullptr, true},
      {"/a%zz", nullptr, true},
      {"/a%c0%ae", nullptr, true},
      {"/a%e0%80%af", nullptr, true},
      {"/\xc3\xbc", nullptr, true},
      {"/a b", nullptr, true},
      {"/a#b", nullptr, true},
      {"a", nullptr, true},
      {"/a%3Fb", nullptr, true},
      {"/a%3b", nullptr, true},
  };
  for (const Row& row : rows) {
    INFO(row.target);
    const UrlPath path = normalise_path(row.target);
    CHECK(!path.ambiguity.empty() == row.ambiguous);
    if (row.path != nullptr) CHECK(path.path == row.path);
  }
}

TEST_CASE("path: a pattern's stars stop where they say") {
  struct Row {
    const char* pattern;
    const char* path;
    bool matches;
  };
  const Row rows[] = {
      {"/torvalds/linux/**", "/torvalds/linux", true},
      {"/torvalds/linux/**", "/torvalds/linux/x/y", true},
      {"/torvalds/linux/**", "/torvalds/linuxx", false},
      {"/torvalds/linux/**", "/torvalds", false},
      {"/**", "/", true},
      {"/**", "/a/b", true},
      {"/a", "/a", true},
      {"/a", "/a/b", false},
      {"/a/", "/a", true},
      {"/a", "/A", false},
      {"/*", "/a", true},
      {"/*", "/a/b", false},
      {"/*", "/", true},
      {"/*/*/git-upload-pack", "/o/r.git/git-upload-pack", true},
      {"/*/*/git-upload-pack", "/o/git-upload-pack", false},
      {"/*/*/git-upload-pack", "/o/r/x/git-upload-pack", false},
      {"/a/**/z", "/a/z", true},
      {"/a/**/z", "/a/b/c/z", true},
      {"/a/**/z", "/a/bz", false},
      {"/a/**/z", "/az", false},
      {"/v1/*.json", "/v1/x.json", true},
      {"/v1/*.json", "/v1/x/y.json", false},
      {"/v1/**.json", "/v1/x/y.json", true},
      {"/a*b*c", "/abbc", true},
      {"/a*b*c", "/abb", false},
  };
  for (const Row& row : rows) {
    INFO(row.pattern << " " << row.path);
    const auto pattern = PathPattern::parse(row.pattern);
    REQUIRE(pattern);
    CHECK(pattern->matches(row.path) == row.matches);
  }
  CHECK(PathPattern::parse("/Admin/**")->matches("/aDMIN/x", true));
  CHECK(PathPattern::parse("/Admin")->matches("/aDMIN", true));
}

TEST_CASE("path: a pattern that no normalised path can match is refused") {
  for (const char* text : {"", "a", "/a?x", "/a/../b", "/a//b", "/a%2fb", "/***", "/a;b", "/a b"}) {
    INFO(text);
    CHECK(!PathPattern::parse(text));
  }
}

}  // namespace
}  // namespace leash::oci
