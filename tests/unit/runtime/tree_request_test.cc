#include "runtime/tree_request.h"

#include "tests/unit/catch.h"

using namespace leash;
using namespace leash::runtime;

TEST_CASE("tree request: what was printed is parsed, whatever the path holds") {
  for (const char* path : {"/a b\n7 8", "relative/path", "/", "//double"}) {
    TreeRequest request;
    request.path = path;
    request.is_recursive = true;
    request.uid_mappings = {{0, 100000, 65536}, {65536, 5, 1}};
    request.gid_mappings = {{0, 1, 2}};
    const auto parsed = parse_tree_request(print(request));
    REQUIRE(parsed);
    CHECK(parsed->path == path);
    CHECK(parsed->is_recursive);
    CHECK_FALSE(parsed->is_nofollow);
    REQUIRE(parsed->uid_mappings.size() == 2);
    CHECK(parsed->uid_mappings[0].host_id == 100000);
    CHECK(parsed->gid_mappings[0].size == 2);
  }
  CHECK_FALSE(parse_tree_request("1 0 0 x"));
}
