# Programs and scripts that drive the real binaries through real engines. The fixture starts one lab (a private engine
# and a small internet, see tests/lib) for all of them; they run one at a time, because records and memory are shared.
set(LEASH_LAB leash-ctest CACHE STRING "Name of the lab that CTest starts")
set(lab_environment "LEASH_LAB=${LEASH_LAB}" "LEASH_BIN=${CMAKE_RUNTIME_OUTPUT_DIRECTORY}")
find_program(LEASH_PYTHON python3 PATHS /usr/bin NO_DEFAULT_PATH REQUIRED)

add_test(NAME lab-up COMMAND ${PROJECT_SOURCE_DIR}/tests/lib/lab.sh up)
add_test(NAME lab-down COMMAND ${PROJECT_SOURCE_DIR}/tests/lib/lab.sh down)
set_tests_properties(lab-up PROPERTIES FIXTURES_SETUP lab TIMEOUT 900)
set_tests_properties(lab-down PROPERTIES FIXTURES_CLEANUP lab TIMEOUT 120)
set_tests_properties(lab-up lab-down PROPERTIES LABELS lab ENVIRONMENT "${lab_environment}" RUN_SERIAL ON)

# leash_lab_test(NAME FILE LABEL [VARIABLE=VALUE...]): a program that uses the lab.
function(leash_lab_test name file label)
  add_test(NAME ${name} COMMAND ${LEASH_PYTHON} -B ${CMAKE_CURRENT_SOURCE_DIR}/${file})
  set_tests_properties(${name} PROPERTIES
    FIXTURES_REQUIRED lab RUN_SERIAL ON LABELS ${label} TIMEOUT 900 ENVIRONMENT "${lab_environment};${ARGN}")
endfunction()

leash_lab_test(docker_lifecycle integration/docker_lifecycle.py integration)
# The tests are tested: the common contract must hold for runc as well, and for ours with its features off.
leash_lab_test(docker_lifecycle-runc integration/docker_lifecycle.py peer RUNTIME=runc)
leash_lab_test(docker_lifecycle-plain integration/docker_lifecycle.py integration RUNTIME=leash-none)
leash_lab_test(runtime_commands integration/runtime_commands.py integration RUNTIME=leash-none)
leash_lab_test(runtime_commands-runc integration/runtime_commands.py peer RUNTIME=runc)
leash_lab_test(runtime_oci integration/runtime_oci.py integration RUNTIME=leash-none)
leash_lab_test(runtime_oci-runc integration/runtime_oci.py peer RUNTIME=runc)
leash_lab_test(runtime_leash integration/runtime_leash.py integration)
leash_lab_test(network integration/network.py integration)
leash_lab_test(policy integration/policy.py integration)
leash_lab_test(attacks attacks/attacks.py attacks)
leash_lab_test(http integration/http.py integration)
leash_lab_test(secrets integration/secrets.py integration)
leash_lab_test(dns integration/dns.py integration)
leash_lab_test(logs integration/logs.py integration)
leash_lab_test(failure integration/failure.py integration)
leash_lab_test(podman integration/podman.py integration)
leash_lab_test(podman-runc integration/podman.py peer RUNTIME=runc)
add_test(NAME lint COMMAND ${LEASH_PYTHON} -B ${PROJECT_SOURCE_DIR}/tests/lint/lint.py)
set_tests_properties(lint PROPERTIES LABELS unit)
leash_lab_test(docker_trust integration/docker_trust.py integration)
leash_lab_test(docker_operator integration/docker_operator.py integration)

# The first command of the README must show all that it promises, and leave nothing.
add_test(NAME try COMMAND ${PROJECT_SOURCE_DIR}/examples/try.sh)
set_tests_properties(try PROPERTIES LABELS demo RUN_SERIAL ON TIMEOUT 900 ENVIRONMENT "LEASH_LAB=${LEASH_LAB}-try;LEASH_PRESET=release")
