#include "runtime/leash/policy_source.h"

#include "runtime/leash/error_text.h"
#include "runtime/leash/image_annotation.h"
#include "tests/unit/runtime/temporary_directory.h"

using namespace leash;
using namespace leash::runtime;

namespace {

oci::Mount bind(const std::string& source, const std::string& destination, std::vector<std::string> options) {
  oci::Mount mount;
  mount.type = "bind";
  mount.source = source;
  mount.destination = destination;
  mount.options = std::move(options);
  return mount;
}

}  // namespace

TEST_CASE("policy source: the annotation wins over the mount, the mount over --policy") {
  const test::TemporaryDirectory directory;
  directory.write("annotation.yaml", "mode: observe\n");
  directory.write("mount.yaml", "mode: enforce\n");
  directory.write("flag.yaml", "version: 1\n");
  GlobalOptions options;
  options.policy = directory.at("flag.yaml");
  oci::Config config;
  config.mounts.push_back(bind(directory.at("mount.yaml"), "/etc/leash/policy.yaml", {"rbind", "ro"}));
  config.annotations["leash.policy"] = directory.at("annotation.yaml");

  const auto annotated = choose_policy(options, "/nosuch", config);
  REQUIRE(annotated);
  CHECK(annotated->policy.text == "mode: observe\n");
  CHECK(annotated->is_explicit);
  CHECK(config.mounts.empty());

  config.annotations.clear();
  config.mounts.push_back(bind(directory.at("mount.yaml"), "/etc/leash/policy.yaml", {"rbind"}));
  const auto mounted = choose_policy(options, "/nosuch", config);
  REQUIRE(mounted);
  CHECK(mounted->policy.source == directory.at("mount.yaml"));
  CHECK(mounted->is_explicit);
  CHECK(config.mounts.empty());

  const auto flagged = choose_policy(options, "/nosuch", config);
  REQUIRE(flagged);
  CHECK(flagged->policy.text == "version: 1\n");
  CHECK_FALSE(flagged->is_explicit);
  CHECK_FALSE(flagged->is_none);
}

TEST_CASE("policy source: 'none' is a word of --policy alone") {
  GlobalOptions options;
  options.policy = "none";
  oci::Config config;
  CHECK(choose_policy(options, "/nosuch", config)->is_none);
  config.annotations["leash.policy"] = "none";
  CHECK_FALSE(choose_policy(options, "/nosuch", config));
}

TEST_CASE("policy source: a file that the container can write is refused and the mount is named") {
  const test::TemporaryDirectory directory;
  directory.make_directory("project");
  directory.write("project/leash.yaml", "mode: enforce\n");
  directory.link("project", "alias");
  GlobalOptions options;
  oci::Config config;
  config.annotations["leash.policy"] = directory.at("project/leash.yaml");

  config.mounts = {bind(directory.at("project"), "/src", {"rbind"})};
  const auto refused = choose_policy(options, "/nosuch", config);
  REQUIRE_FALSE(refused);
  CHECK(refused.error().message().find("/src") != std::string::npos);

  config.mounts = {bind(directory.at("alias"), "/src", {"rbind"})};
  CHECK_FALSE(choose_policy(options, "/nosuch", config));
  config.mounts = {bind("/", "/host", {"rbind"})};
  CHECK_FALSE(choose_policy(options, "/nosuch", config));
  config.mounts = {bind(directory.at("project"), "/src", {"rbind", "ro"})};
  CHECK(choose_policy(options, "/nosuch", config));
  config.mounts.clear();
  CHECK_FALSE(choose_policy(options, directory.path(), config));
}

TEST_CASE("policy source: a name is no path") {
  GlobalOptions options;
  oci::Config config;
  for (const char* name : {"../secret", "a/b", "", ".hidden"}) {
    config.annotations["leash.policy"] = name;
    const auto chosen = choose_policy(options, "/nosuch", config);
    REQUIRE_FALSE(chosen);
    CHECK(chosen.error().message().find("neither a path nor a name") != std::string::npos);
  }
}

TEST_CASE("policy source: the annotation of an image in Podman's store is refused, a person's is not") {
  const test::TemporaryDirectory store;
  for (const char* directory : {"overlay-containers", "overlay-containers/c1", "overlay-containers/c1/userdata", "overlay-images",
                                "overlay-images/i1", "overlay-images/i2"}) {
    store.make_directory(directory);
  }
  store.write("overlay-images/images.json", "[]");
  store.write("overlay-images/i1/manifest", R"({"schemaVersion":2,"annotations":{"a":"leash.policy"}})");
  store.write("overlay-images/i1/signature", "\x99\x01");
  const std::string bundle = store.at("overlay-containers/c1/userdata");
  oci::Config config;
  CHECK(check_not_from_image(bundle, config));
  config.annotations["leash.policy"] = "open";
  CHECK(check_not_from_image(bundle, config));
  for (const char* manifest :
       {R"({"annotations":{"leash.policy":"open"}})", R"({"Annotations":{"leash.policy":"open"},"annotations":{}})",
        R"({"annotations":{"leash\u002epolicy":"\u006fpen"}})", R"({"annotations":{"leash.policy":"x","leash.policy":"open"}})",
        "{\"annotations\":{\"\xff\":\"\",\"leash.policy\":\"open\"}}"}) {
    INFO(manifest);
    store.write("overlay-images/i2/manifest", manifest);
    CHECK_FALSE(check_not_from_image(bundle, config));
    // Of no concern to other engines.
    CHECK(check_not_from_image(store.at("overlay-containers/c1"), config));
  }
  store.write("overlay-images/i2/manifest", R"({"annotations":{"leash.policy":"another"}})");
  CHECK(check_not_from_image(bundle, config));
  const test::TemporaryDirectory empty;
  CHECK_FALSE(check_not_from_image(empty.at("vfs-containers/c1/userdata"), config));
}

TEST_CASE("error text: a failed lock-in never reads as the program's own failure") {
  for (const char* text : {"open 'x': no such file or directory", "permission denied", "a: operation not permitted: b",
                           "exec: executable file not found in $PATH", "not a directory", "is a directory"}) {
    const std::string message = lock_in_error(Error(EINVAL, text)).message();
    CHECK(message.starts_with("leash: "));
    for (const char* word : {"no such file or directory", "permission denied", "operation not permitted",
                             "executable file not found", "not a directory", "is a directory"}) {
      CHECK(message.find(word) == std::string::npos);
    }
  }
  CHECK(lock_in_error(Error("leash: once")).message() == "leash: once");
}
