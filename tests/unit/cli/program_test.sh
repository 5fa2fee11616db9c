#!/bin/sh
# The program `leash` as people call it: exit codes, help, and messages on the right stream.
set -u
leash=$1
directory=$(mktemp -d)
trap 'rm -rf "$directory"' EXIT
failures=0

# check NAME WANTED-EXIT PATTERN COMMAND...: the pattern must stand in what the command writes.
check() {
	name=$1 wanted=$2 pattern=$3
	shift 3
	output=$("$@" 2>&1 </dev/null)
	code=$?
	if [ "$code" -ne "$wanted" ]; then
		echo "FAILED $name: exit code $code, not $wanted: $output"
		failures=$((failures + 1))
	elif ! printf '%s' "$output" | grep -Eq -- "$pattern"; then
		echo "FAILED $name: no '$pattern' in: $output"
		failures=$((failures + 1))
	fi
}

printf 'allow:\n  - api.example.com\n' >"$directory/good.yaml"
printf 'allow:\n  - api.example.com\nalow: [x]\n' >"$directory/bad.yaml"

check "version" 0 '^leash [0-9]+\.[0-9]+' "$leash" version
check "--version" 0 '^leash [0-9]+\.[0-9]+' "$leash" --version
check "help names every command" 0 'doctor' "$leash" --help
check "no command is a usage error" 2 'subcommand' "$leash"
check "an unknown command is a usage error" 2 'subcommand is required' "$leash" unknown
check "a wrong state is a usage error" 2 'inspected' "$leash" logs --state other
check "a valid policy" 0 'good.yaml: valid, enforce, 1 allow rule' "$leash" policy check "$directory/good.yaml"
check "an invalid policy has file, line and column" 1 'bad\.yaml:3:1: ' "$leash" policy check "$directory/bad.yaml"
check "a policy that is not there" 1 'no such file' "$leash" policy check "$directory/none.yaml"
check "explain allows" 0 'verdict +allowed' "$leash" policy explain --policy "$directory/good.yaml" GET https://api.example.com/
check "explain blocks" 3 'host_not_allowed' "$leash" policy explain --policy "$directory/good.yaml" GET https://evil.test/
check "explain wants a policy" 2 'policy|container' "$leash" policy explain GET https://evil.test/
check "explain of an unknown container" 1 "no leashed container 'no-such-container'" \
	"$leash" policy explain --container no-such-container GET https://evil.test/
check "logs of an unknown container" 1 "no leashed container 'no-such-container'" "$leash" logs no-such-container
check "ps has a header" 0 '^CONTAINER +NAME +STATE' "$leash" ps
if [ "$("$leash" policy check "$directory/bad.yaml" 2>/dev/null)" != "" ]; then
	echo "FAILED errors belong on standard error"
	failures=$((failures + 1))
fi
[ "$failures" -eq 0 ] || exit 1
