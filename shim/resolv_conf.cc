#include "shim/resolv_conf.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <algorithm>
#include <sstream>

#include "base/sys.h"

namespace leash::shim {

namespace {

constexpr size_t kMaxServers = 3;  // MAXNS of resolv.h
constexpr size_t kMaxFile = size_t{64} << 10;

bool is_address(const std::string& text) {
  struct in6_addr address = {};
  const std::string plain = text.substr(0, text.find('%'));
  return ::inet_pton(AF_INET, plain.c_str(), &address) == 1 || ::inet_pton(AF_INET6, plain.c_str(), &address) == 1;
}

// Never a fifo or a device: the file may be the image's.
Result<std::string> read_regular(const Fd& fd) {
  TRY(const struct stat status, sys::fstat(fd.get()));
  if (!S_ISREG(status.st_mode)) return Error(EINVAL, "/etc/resolv.conf is not a regular file");
  return sys::read_all(fd.get(), kMaxFile).context("/etc/resolv.conf");
}

}  // namespace

Resolvers parse_resolv_conf(std::string_view text) {
  Resolvers result;
  std::istringstream lines{std::string(text)};
  std::string line;
  size_t count = 0;
  while (std::getline(lines, line)) {
    std::istringstream words(line);
    std::string keyword;
    std::string address;
    words >> keyword >> address;
    if (keyword != "nameserver" || !is_address(address) || count == kMaxServers) continue;
    ++count;
    if (address == "127.0.0.11") {
      result.has_engine_dns = true;
      continue;
    }
    if (address.starts_with("127.")) result.loopback.push_back(address);
    result.servers.push_back(address);
  }
  return result;
}

Result<Resolvers> read_resolvers(const oci::PrepareRequest& request) {
  constexpr int kFlags = O_RDONLY | O_NONBLOCK | O_NOCTTY;
  Result<Fd> opened = Error(ENOENT, "");
  const auto last = std::find_if(request.mounts.rbegin(), request.mounts.rend(),
                                 [](const oci::ExtraMount& mount) { return mount.destination == "/etc/resolv.conf"; });
  if (last != request.mounts.rend()) {
    // A relative source is relative to the bundle (runtime-spec, config.md#mounts).
    opened = sys::open(last->source.starts_with('/') ? last->source : request.bundle + "/" + last->source, kFlags);
    if (!opened) return Error(opened.error()).context("the container's /etc/resolv.conf");
  } else {
    TRY(const Fd root, sys::open(request.rootfs, O_PATH | O_DIRECTORY));
    opened = sys::open_in_root(root.get(), "/etc/resolv.conf", kFlags);
    if (!opened) return Resolvers();
  }
  TRY(const std::string text, read_regular(*opened));
  return parse_resolv_conf(text);
}

}  // namespace leash::shim
