// The template that `spec` writes: the same container that runc's template describes, so that bundles and
// test suites which edit it find what they look for.
#include "oci-spec/json.h"
#include "oci-spec/config.h"

namespace leash::oci {

namespace {

using json::OrderedValue;

OrderedValue object(std::initializer_list<std::pair<const char*, OrderedValue>> fields) {
  OrderedValue out = OrderedValue::object();
  for (const auto& [key, value] : fields) out[key] = value;
  return out;
}

OrderedValue array(std::initializer_list<const char*> words) {
  OrderedValue out = OrderedValue::array();
  for (const char* word : words) out.push_back(word);
  return out;
}

OrderedValue list(std::initializer_list<OrderedValue> values) {
  OrderedValue out = OrderedValue::array();
  for (const OrderedValue& value : values) out.push_back(value);
  return out;
}

OrderedValue mount(const char* destination, const char* type, const char* source, OrderedValue options) {
  OrderedValue out = object({{"destination", destination}, {"type", type}, {"source", source}});
  if (!options.empty()) out["options"] = std::move(options);
  return out;
}

OrderedValue process() {
  const OrderedValue capabilities = array({"CAP_AUDIT_WRITE", "CAP_KILL", "CAP_NET_BIND_SERVICE"});
  return object({
      {"terminal", true},
      {"user", object({{"uid", 0}, {"gid", 0}})},
      {"args", array({"sh"})},
      {"env", array({"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "TERM=xterm"})},
      {"cwd", "/"},
      {"capabilities", object({{"bounding", capabilities}, {"effective", capabilities}, {"permitted", capabilities}})},
      {"rlimits", list({object({{"type", "RLIMIT_NOFILE"}, {"hard", 1024}, {"soft", 1024}})})},
      {"noNewPrivileges", true},
  });
}

OrderedValue mounts(bool is_rootless) {
  // gid 5 is not mapped in a rootless container, and a sysfs needs the network namespace to be ours.
  OrderedValue pts = array({"nosuid", "noexec", "newinstance", "ptmxmode=0666", "mode=0620"});
  if (!is_rootless) pts.push_back("gid=5");
  OrderedValue sys = is_rootless ? mount("/sys", "none", "/sys", array({"rbind", "nosuid", "noexec", "nodev", "ro"}))
                                 : mount("/sys", "sysfs", "sysfs", array({"nosuid", "noexec", "nodev", "ro"}));
  return list({
      mount("/proc", "proc", "proc", {}),
      mount("/dev", "tmpfs", "tmpfs", array({"nosuid", "strictatime", "mode=755", "size=65536k"})),
      mount("/dev/pts", "devpts", "devpts", pts),
      mount("/dev/shm", "tmpfs", "shm", array({"nosuid", "noexec", "nodev", "mode=1777", "size=65536k"})),
      mount("/dev/mqueue", "mqueue", "mqueue", array({"nosuid", "noexec", "nodev"})),
      std::move(sys),
      mount("/sys/fs/cgroup", "cgroup", "cgroup", array({"nosuid", "noexec", "nodev", "relatime", "ro"})),
  });
}

}  // namespace

std::string default_config(bool rootless, bool has_cgroup_namespace, uint32_t host_uid, uint32_t host_gid) {
  OrderedValue linux_part = OrderedValue::object();
  OrderedValue namespaces = OrderedValue::array();
  for (const char* type : {"pid", "network", "ipc", "uts", "mount", "cgroup", "user"}) {
    std::string_view word(type);
    // A rootless container has the host's network, and needs a user namespace for everything else.
    if (word == (rootless ? "network" : "user")) continue;
    if (word == "cgroup" && !has_cgroup_namespace) continue;
    namespaces.push_back(object({{"type", type}}));
  }
  if (rootless) {
    linux_part["uidMappings"] = list({object({{"containerID", 0}, {"hostID", host_uid}, {"size", 1}})});
    linux_part["gidMappings"] = list({object({{"containerID", 0}, {"hostID", host_gid}, {"size", 1}})});
  } else {
    linux_part["resources"]["devices"] = list({object({{"allow", false}, {"access", "rwm"}})});
  }
  linux_part["namespaces"] = std::move(namespaces);
  linux_part["maskedPaths"] =
      array({"/proc/acpi", "/proc/asound", "/proc/kcore", "/proc/keys", "/proc/latency_stats", "/proc/timer_list",
             "/proc/timer_stats", "/proc/sched_debug", "/sys/firmware", "/proc/scsi"});
  linux_part["readonlyPaths"] = array({"/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"});

  return json::dump(object({
                        {"ociVersion", "1.3.0"},
                        {"process", process()},
                        {"root", object({{"path", "rootfs"}, {"readonly", true}})},
                        {"hostname", "leash"},
                        {"mounts", mounts(rootless)},
                        {"linux", linux_part},
                    }),
                    1, '\t') +
         '\n';
}

}  // namespace leash::oci
