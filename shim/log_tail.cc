#include "shim/log_tail.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>

#include "base/sys.h"
#include "oci-spec/event.h"

namespace leash::shim {

namespace {

Result<std::string> read_range(int fd, off_t from, size_t length) {
  std::string data(length, '\0');
  size_t done = 0;
  while (done < length) {
    const ssize_t got = ::pread(fd, data.data() + done, length - done, from + static_cast<off_t>(done));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return Error::last_errno("read");
    if (got == 0) break;
    done += static_cast<size_t>(got);
  }
  data.resize(done);
  return data;
}

}  // namespace

Result<uint64_t> repair_tail(int fd) {
  TRY(const struct stat status, sys::fstat(fd));
  off_t size = status.st_size;
  // Two longest lines: a torn one and the whole one before it.
  constexpr off_t kWindow = static_cast<off_t>(2 * oci::kMaxEventLine) + 2;
  const off_t from = std::max<off_t>(0, size - kWindow);
  TRY(std::string tail, read_range(fd, from, static_cast<size_t>(size - from)));
  if (!tail.empty() && tail.back() != '\n') {
    const size_t newline = tail.rfind('\n');
    const size_t kept = newline == std::string::npos ? 0 : newline + 1;
    if (newline == std::string::npos && from > 0) return Error(EPROTO, "the last line is longer than any of ours");
    size = from + static_cast<off_t>(kept);
    if (::ftruncate(fd, size) < 0) return Error::last_errno("truncate");
    tail.resize(kept);
  }
  return oci::last_seq(tail);
}

}  // namespace leash::shim
