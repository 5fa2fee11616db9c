# What confines a container's process: capabilities, limits, seccomp, control groups.
# The archive, since leash-runtime is linked statically.
find_library(LEASH_SECCOMP_ARCHIVE NAMES libseccomp.a REQUIRED)
add_library(leash_runtime_controls STATIC
  capabilities.cc
  cgroup.cc
  cgroup_devices.cc
  cgroup_files.cc
  cgroup_host.cc
  cgroup_stats.cc
  cgroup_v1.cc
  cgroup_v2.cc
  rlimits.cc
  seccomp.cc
  seccomp_floor.cc)
target_link_libraries(leash_runtime_controls PUBLIC leash_base leash_oci_spec PRIVATE ${LEASH_SECCOMP_ARCHIVE})
