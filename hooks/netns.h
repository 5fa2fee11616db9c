// Network namespaces of a single-threaded process: going into one and coming back, making an empty
// one. Sockets keep the namespace in which they were made, so that a scope lasts only as long as
// the socket(2) call, and everything after works on descriptors.
#pragma once

#include <utility>

#include "base/fd.h"
#include "base/result.h"

namespace leash::hooks {

// While alive, the calling thread is in another network namespace. The way back cannot be allowed to
// fail: code that believes to be at home would act in a container's namespace. So the destructor
// aborts the process when setns(2) refuses.
class NamespaceScope {
 public:
  [[nodiscard]] static Result<NamespaceScope> enter(int netns_fd);
  NamespaceScope(NamespaceScope&&) noexcept = default;
  NamespaceScope& operator=(NamespaceScope&&) = delete;
  ~NamespaceScope();
  // For a thread that has just left `home` by unshare(2).
  [[nodiscard]] static NamespaceScope resume(Fd home) { return NamespaceScope(std::move(home)); }

 private:
  explicit NamespaceScope(Fd home) : home_(std::move(home)) {}
  Fd home_;
};

// A descriptor of the network namespace in which the calling thread is.
[[nodiscard]] Result<Fd> current_network_namespace();
// A new, empty network namespace; it lives as long as something refers to it. The caller stays at home.
[[nodiscard]] Result<Fd> make_network_namespace();
// The same namespace? (nsfs device and inode)
[[nodiscard]] Result<bool> is_same_namespace(int left_fd, int right_fd);

}  // namespace leash::hooks
