leash_unit_test(runtime-controls
  SOURCES capabilities_test.cc cgroup_test.cc rlimits_test.cc seccomp_test.cc seccomp_floor_test.cc
  LIBRARIES leash_runtime_controls)
