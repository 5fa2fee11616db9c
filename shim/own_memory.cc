#include "shim/own_memory.h"

#include <linux/capability.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/result.h"
#include "shim/journal.h"

namespace leash::shim {

void lock_memory() {
  struct __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
  struct __user_cap_data_struct sets[2] = {};
  const bool has_ipc_lock =
      ::syscall(SYS_capget, &header, sets) == 0 && (sets[0].effective & (1U << CAP_IPC_LOCK)) != 0;
  struct rlimit limit = {};
  const bool is_unlimited = ::getrlimit(RLIMIT_MEMLOCK, &limit) == 0 && limit.rlim_cur == RLIM_INFINITY;
  // Under a limit mlockall would succeed now and make a later allocation fail.
  if (!has_ipc_lock && !is_unlimited) {
    note("memory is not locked: neither CAP_IPC_LOCK nor an unlimited RLIMIT_MEMLOCK");
  } else if (::mlockall(MCL_CURRENT | MCL_FUTURE | MCL_ONFAULT) < 0) {
    note("memory is not locked: " + errno_text(errno));
  }
}

}  // namespace leash::shim
