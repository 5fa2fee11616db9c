#include "runtime/mount_options.h"

#include <linux/mount.h>
#include <sys/mount.h>

#include <algorithm>
#include <array>

namespace leash::runtime {

namespace {

struct Attribute {
  std::string_view word;
  bool is_clear;
  uint64_t bits;
};

// The access time settings are one field, not bits: whichever is set, MOUNT_ATTR__ATIME is cleared first.
constexpr std::array kAttributes = {
    Attribute{"ro", false, MOUNT_ATTR_RDONLY},
    Attribute{"rw", true, MOUNT_ATTR_RDONLY},
    Attribute{"nosuid", false, MOUNT_ATTR_NOSUID},
    Attribute{"suid", true, MOUNT_ATTR_NOSUID},
    Attribute{"nodev", false, MOUNT_ATTR_NODEV},
    Attribute{"dev", true, MOUNT_ATTR_NODEV},
    Attribute{"noexec", false, MOUNT_ATTR_NOEXEC},
    Attribute{"exec", true, MOUNT_ATTR_NOEXEC},
    Attribute{"nodiratime", false, MOUNT_ATTR_NODIRATIME},
    Attribute{"diratime", true, MOUNT_ATTR_NODIRATIME},
    Attribute{"nosymfollow", false, MOUNT_ATTR_NOSYMFOLLOW},
    Attribute{"symfollow", true, MOUNT_ATTR_NOSYMFOLLOW},
    Attribute{"noatime", false, MOUNT_ATTR_NOATIME},
    Attribute{"atime", true, MOUNT_ATTR_NOATIME},
    Attribute{"strictatime", false, MOUNT_ATTR_STRICTATIME},
    Attribute{"nostrictatime", true, MOUNT_ATTR_STRICTATIME},
    Attribute{"relatime", false, MOUNT_ATTR_RELATIME},
    Attribute{"norelatime", true, MOUNT_ATTR_RELATIME},
};

struct Propagation {
  std::string_view word;
  unsigned long flags;
};

constexpr std::array kPropagations = {
    Propagation{"private", MS_PRIVATE},       Propagation{"rprivate", MS_PRIVATE | MS_REC},
    Propagation{"slave", MS_SLAVE},           Propagation{"rslave", MS_SLAVE | MS_REC},
    Propagation{"shared", MS_SHARED},         Propagation{"rshared", MS_SHARED | MS_REC},
    Propagation{"unbindable", MS_UNBINDABLE}, Propagation{"runbindable", MS_UNBINDABLE | MS_REC},
};

// Super block flags that fsconfig(2) takes by name.
constexpr std::array<std::string_view, 4> kFsFlags = {"sync", "dirsync", "lazytime", "mand"};
// Words of mount(8) that ask for what is so anyway, or that the kernel no longer has as a flag.
constexpr std::array<std::string_view, 13> kNoEffect = {"defaults", "async",  "nolazytime", "nomand", "loud",
                                                        "silent",   "iversion", "noiversion", "acl", "noacl",
                                                        "remount",  "rsync", "_netdev"};
constexpr std::array<std::string_view, 8> kOwn = {"bind",   "rbind",        "tmpcopyup",     "copy-symlink",
                                                  "idmap",  "ridmap",       "src-nofollow",  "dest-nofollow"};

void apply(const Attribute& attribute, uint64_t& set, uint64_t& clear) {
  if (attribute.bits == MOUNT_ATTR_NOATIME || attribute.bits == MOUNT_ATTR_STRICTATIME ||
      attribute.bits == MOUNT_ATTR_RELATIME) {
    // relatime is 0: "relatime", "atime", "nostrictatime" all say the default.
    set &= ~uint64_t{MOUNT_ATTR__ATIME};
    clear |= MOUNT_ATTR__ATIME;
    if (!attribute.is_clear) set |= attribute.bits;
    return;
  }
  if (attribute.is_clear) {
    set &= ~attribute.bits;
    clear |= attribute.bits;
  } else {
    set |= attribute.bits;
    clear &= ~attribute.bits;
  }
}

const Attribute* find_attribute(std::string_view word) {
  for (const Attribute& attribute : kAttributes) {
    if (attribute.word == word) return &attribute;
  }
  return nullptr;
}

}  // namespace

MountOptions parse_mount_options(const std::vector<std::string>& options) {
  MountOptions parsed;
  for (const std::string& option : options) {
    if (const Attribute* attribute = find_attribute(option)) {
      apply(*attribute, parsed.set, parsed.clear);
      continue;
    }
    // "rro", "rnosuid", ...: the same for the whole tree (mount_setattr(2) with AT_RECURSIVE).
    if (option.size() > 1 && option[0] == 'r') {
      if (const Attribute* attribute = find_attribute(std::string_view(option).substr(1))) {
        apply(*attribute, parsed.recursive_set, parsed.recursive_clear);
        continue;
      }
    }
    const auto propagation = std::find_if(kPropagations.begin(), kPropagations.end(),
                                          [&](const Propagation& entry) { return entry.word == option; });
    if (propagation != kPropagations.end()) {
      parsed.propagation.push_back(propagation->flags);
    } else if (option == "bind" || option == "rbind") {
      parsed.is_bind = true;
      parsed.is_recursive = option == "rbind";
    } else if (option == "tmpcopyup") {
      parsed.copies_up = true;
    } else if (option == "copy-symlink") {
      parsed.copies_symlink = true;
    } else if (option == "src-nofollow") {
      parsed.source_nofollow = true;
    } else if (option == "dest-nofollow") {
      parsed.destination_nofollow = true;
    } else if (option == "idmap" || option == "ridmap" || option.starts_with("idmap=") ||
               option.starts_with("ridmap=")) {
      parsed.is_idmap = true;
      parsed.is_recursive_idmap = option[0] == 'r';
      const size_t equals = option.find('=');
      if (equals != std::string::npos) parsed.idmap_text = option.substr(equals + 1);
    } else if (std::find(kFsFlags.begin(), kFsFlags.end(), option) != kFsFlags.end()) {
      parsed.fs_flags.push_back(option);
    } else if (std::find(kNoEffect.begin(), kNoEffect.end(), option) == kNoEffect.end()) {
      const size_t equals = option.find('=');
      parsed.fs_data.emplace_back(option.substr(0, equals),
                                  equals == std::string::npos ? std::string() : option.substr(equals + 1));
    }
  }
  return parsed;
}

Result<unsigned long> parse_rootfs_propagation(std::string_view word) {
  if (word.empty()) return 0UL;
  for (const Propagation& entry : kPropagations) {
    if (entry.word == word) return entry.flags;
  }
  return Error(EINVAL, "rootfsPropagation=" + std::string(word) + " is not supported");
}

std::vector<std::string> known_mount_options() {
  std::vector<std::string> words;
  for (const Attribute& attribute : kAttributes) {
    words.emplace_back(attribute.word);
    words.push_back("r" + std::string(attribute.word));
  }
  for (const Propagation& entry : kPropagations) words.emplace_back(entry.word);
  words.insert(words.end(), kFsFlags.begin(), kFsFlags.end());
  words.insert(words.end(), kNoEffect.begin(), kNoEffect.end());
  words.insert(words.end(), kOwn.begin(), kOwn.end());
  std::sort(words.begin(), words.end());
  words.erase(std::unique(words.begin(), words.end()), words.end());
  return words;
}

}  // namespace leash::runtime
