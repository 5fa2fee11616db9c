#include "runtime/capabilities.h"

#include <linux/capability.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "base/file.h"
#include "tests/unit/catch.h"
#include "tests/unit/runtime/in_child.h"

using namespace leash;
using tests::in_child;

namespace {

constexpr uint64_t bit(int number) { return uint64_t{1} << number; }

// The hexadecimal field of /proc/self/status, e.g. "CapEff".
uint64_t status_field(const std::string& name) {
  Result<std::string> text = file::read("/proc/self/status");
  if (!text) return ~uint64_t{0};
  const size_t at = text->find(name + ":\t");
  return at == std::string::npos ? ~uint64_t{0} : std::stoull(text->substr(at + name.size() + 2), nullptr, 16);
}

}  // namespace

TEST_CASE("capabilities: names become bits, unknown ones are told once and left out") {
  oci::Capabilities names;
  names.bounding = {"CAP_CHOWN", "CAP_NOSUCH", "CAP_CHECKPOINT_RESTORE"};
  names.permitted = {"CAP_CHOWN", "CAP_NOSUCH", "CAP_ALSO_NOT", "chown"};
  std::vector<std::string> unknown;
  const runtime::CapabilitySets sets = runtime::parse_capabilities(names, unknown);
  CHECK(sets.bounding == (bit(CAP_CHOWN) | bit(40)));
  CHECK(sets.permitted == bit(CAP_CHOWN));
  CHECK(unknown == std::vector<std::string>{"CAP_ALSO_NOT", "CAP_NOSUCH", "chown"});
}

TEST_CASE("capabilities: ambient ones that the kernel would not raise are left out") {
  oci::Capabilities names;
  names.permitted = {"CAP_KILL", "CAP_CHOWN"};
  names.inheritable = {"CAP_KILL"};
  names.ambient = {"CAP_KILL", "CAP_CHOWN"};
  std::vector<std::string> unknown;
  CHECK(runtime::parse_capabilities(names, unknown).ambient == bit(CAP_KILL));
}

TEST_CASE("capabilities: all five sets arrive over a change of user") {
  if (geteuid() != 0) SUCCEED("needs root");
  runtime::CapabilitySets sets;
  sets.bounding = bit(CAP_KILL) | bit(CAP_CHOWN) | bit(CAP_SETUID);
  sets.permitted = bit(CAP_KILL) | bit(CAP_CHOWN);
  sets.effective = bit(CAP_KILL);
  sets.inheritable = bit(CAP_KILL);
  sets.ambient = bit(CAP_KILL);
  const int code = in_child([&] {
    if (!runtime::drop_bounding(sets)) return 1;
    if (!runtime::keep_over_setuid(true)) return 2;
    if (setresgid(1234, 1234, 1234) != 0 || setresuid(1234, 1234, 1234) != 0) return 3;
    if (!runtime::set_capabilities(sets)) return 4;
    if (!runtime::keep_over_setuid(false)) return 5;
    if (status_field("CapBnd") != sets.bounding) return 6;
    if (status_field("CapPrm") != sets.permitted) return 7;
    if (status_field("CapEff") != sets.effective) return 8;
    if (status_field("CapInh") != sets.inheritable) return 9;
    if (status_field("CapAmb") != sets.ambient) return 10;
    return 0;
  });
  CHECK(code == 0);
}

TEST_CASE("capabilities: no names are no capabilities") {
  const int code = in_child([] {
    if (!runtime::drop_bounding({}) || !runtime::set_capabilities({})) return 1;
    return status_field("CapBnd") == 0 && status_field("CapEff") == 0 && status_field("CapPrm") == 0 ? 0 : 2;
  });
  CHECK(code == 0);
}

TEST_CASE("capabilities: asking for more than one has is an error, not less") {
  runtime::CapabilitySets none;
  runtime::CapabilitySets more;
  more.permitted = bit(CAP_SYS_ADMIN);
  const int code = in_child([&] {
    if (!runtime::set_capabilities(none)) return 1;
    Result<void> outcome = runtime::set_capabilities(more);
    return !outcome && outcome.error().message() == "unable to apply caps: operation not permitted" ? 0 : 2;
  });
  CHECK(code == 0);
}

TEST_CASE("capabilities: no_new_privs is set for good") {
  CHECK(in_child([] { return runtime::set_no_new_privileges() && prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1 ? 0 : 1; }) == 0);
}
