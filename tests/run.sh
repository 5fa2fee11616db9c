#!/usr/bin/env bash
# The second command of the README: installs what is missing, builds, runs every test, and ends with CTest's line.
#
#   sudo tests/run.sh                 everything
#   sudo tests/run.sh -R docker       arguments go to ctest
set -euo pipefail
. "$(dirname "$0")/lib/common.sh"
need_root
cd "$LAB_SOURCE"

# Two runs at once would take each other's lab away.
exec 9>/run/leash-tests.lock
flock --nonblock 9 || { say "another tests/run.sh is running: waiting for its end"; flock 9; }

finish() {
  # CTest's own cleanup does not run when it is interrupted.
  LEASH_LAB=leash-ctest tests/lib/lab.sh down || true
  LEASH_LAB=leash-ctest-try tests/lib/lab.sh down || true
}
trap finish EXIT
trap 'exit 130' INT TERM

started=$SECONDS
say "== packages"
tests/lib/packages.sh test
say "== build (preset $LEASH_PRESET)"
cmake --preset "$LEASH_PRESET" >build-configure.log 2>&1 || { cat build-configure.log; rm -f build-configure.log; exit 1; }
rm -f build-configure.log
cmake --build --preset "$LEASH_PRESET" -j2
say "== images"
tests/lib/lab.sh images
say "== tests ($((SECONDS - started)) s so far)"
code=0
ctest --test-dir "build/$LEASH_PRESET" --output-on-failure --timeout 900 "$@" 9>&- || code=$?
exit $code
