#include "runtime/mount_options.h"

#include <linux/mount.h>
#include <sys/mount.h>

#include <algorithm>

#include "tests/unit/catch.h"

using namespace leash::runtime;

TEST_CASE("mount options: docker's tmpfs is attributes and data") {
  const MountOptions options = parse_mount_options({"nosuid", "strictatime", "mode=755", "size=65536k"});
  CHECK(options.set == (MOUNT_ATTR_NOSUID | MOUNT_ATTR_STRICTATIME));
  REQUIRE(options.fs_data.size() == 2);
  CHECK(options.fs_data[1] == std::pair<std::string, std::string>{"size", "65536k"});
  CHECK_FALSE(options.is_bind);
}

TEST_CASE("mount options: a bind with propagation") {
  const MountOptions options = parse_mount_options({"rbind", "rprivate", "ro"});
  CHECK(options.is_bind);
  CHECK(options.is_recursive);
  CHECK(options.propagation == std::vector<unsigned long>{MS_PRIVATE | MS_REC});
  CHECK(options.set == MOUNT_ATTR_RDONLY);
  CHECK(options.recursive_set == 0);
}

TEST_CASE("mount options: the last of two opposite words wins") {
  CHECK(parse_mount_options({"ro", "rw"}).set == 0);
  CHECK(parse_mount_options({"ro", "rw"}).clear == MOUNT_ATTR_RDONLY);
  CHECK(parse_mount_options({"rw", "ro"}).set == MOUNT_ATTR_RDONLY);
  CHECK(parse_mount_options({"rw", "ro"}).clear == 0);
}

TEST_CASE("mount options: access time is one field") {
  const MountOptions options = parse_mount_options({"noatime", "strictatime"});
  CHECK(options.set == MOUNT_ATTR_STRICTATIME);
  CHECK(options.clear == MOUNT_ATTR__ATIME);
  CHECK(parse_mount_options({"relatime"}).set == 0);
}

TEST_CASE("mount options: rro is for the whole tree, rbind is not 'bind' for it") {
  const MountOptions options = parse_mount_options({"rbind", "rro", "rnosuid"});
  CHECK(options.recursive_set == (MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID));
  CHECK(options.set == 0);
}

TEST_CASE("mount options: words of ours and of the file system are told apart") {
  const MountOptions options = parse_mount_options(
      {"tmpcopyup", "sync", "defaults", "newinstance", "idmap=uids=0-1-10;gids=0-1-10", "copy-symlink"});
  CHECK(options.copies_up);
  CHECK(options.copies_symlink);
  CHECK(options.is_idmap);
  CHECK(options.idmap_text == "uids=0-1-10;gids=0-1-10");
  CHECK(options.fs_flags == std::vector<std::string>{"sync"});
  REQUIRE(options.fs_data.size() == 1);
  CHECK(options.fs_data[0].first == "newinstance");
}

TEST_CASE("mount options: propagation of the root is checked") {
  CHECK(*parse_rootfs_propagation("") == 0);
  CHECK(*parse_rootfs_propagation("rshared") == (MS_SHARED | MS_REC));
  CHECK(parse_rootfs_propagation("sideways").error().message() == "rootfsPropagation=sideways is not supported");
}

TEST_CASE("mount options: every word that features prints is known, once") {
  const std::vector<std::string> words = known_mount_options();
  CHECK(std::is_sorted(words.begin(), words.end()));
  CHECK(std::adjacent_find(words.begin(), words.end()) == words.end());
  for (const std::string& word : words) CHECK(parse_mount_options({word}).fs_data.empty());
  for (const char* word : {"rro", "bind", "tmpcopyup", "nosymfollow", "runbindable"}) {
    CHECK(std::find(words.begin(), words.end(), word) != words.end());
  }
}
