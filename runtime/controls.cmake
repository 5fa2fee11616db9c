# What confines a container's process: capabilities, limits, seccomp, control groups.
pkg_check_modules(SECCOMP REQUIRED IMPORTED_TARGET libseccomp)
add_library(leash_runtime_controls STATIC
  capabilities.cc
  rlimits.cc
  seccomp.cc
  seccomp_floor.cc)
target_link_libraries(leash_runtime_controls PUBLIC leash_base leash_oci_spec PRIVATE PkgConfig::SECCOMP)
