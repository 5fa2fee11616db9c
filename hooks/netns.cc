#include "hooks/netns.h"

#include <sched.h>

#include <cstdio>
#include <cstdlib>

#include "base/sys.h"

namespace leash::hooks {

Result<Fd> current_network_namespace() { return sys::open("/proc/thread-self/ns/net", O_RDONLY); }

Result<NamespaceScope> NamespaceScope::enter(int netns_fd) {
  TRY(Fd home, current_network_namespace());
  TRY_VOID(sys::setns(netns_fd, CLONE_NEWNET).context("enter the network namespace"));
  return NamespaceScope(std::move(home));
}

NamespaceScope::~NamespaceScope() {
  if (!home_) return;  // moved from
  if (auto back = sys::setns(home_.get(), CLONE_NEWNET); !back) {
    std::fprintf(stderr, "cannot leave a network namespace: %s\n", back.error().message().c_str());
    std::abort();
  }
}

Result<Fd> make_network_namespace() {
  TRY(Fd home, current_network_namespace());
  TRY_VOID(sys::unshare(CLONE_NEWNET).context("make a network namespace"));
  // The scope is what goes home, whether or not the open succeeds.
  const NamespaceScope scope = NamespaceScope::resume(std::move(home));
  return current_network_namespace();
}

Result<bool> is_same_namespace(int left_fd, int right_fd) {
  TRY(const struct stat left, sys::fstat(left_fd));
  TRY(const struct stat right, sys::fstat(right_fd));
  return left.st_dev == right.st_dev && left.st_ino == right.st_ino;
}

}  // namespace leash::hooks
