# A small internet in a network namespace: a resolver, web servers, and a host behind every other address. Sourced.
#
#   lab-internet [wan 203.0.113.2, any address] <== veth ==> [wan 203.0.113.1] lab-engine [docker0 ...] containers
#
# The engine's namespace has its default route into this one and the real network in neither, so whatever a container
# manages to send anywhere ends here, is answered, and stands in records/*.jsonl.
LAB_RESOLVER=203.0.113.53
LAB_POOL4=172.30.0.0/16          # all addresses of the engine's networks
LAB_POOL6=fd00:1ea5::/32

internet_up() {
  local ns=$LAB_INTERNET_NS engine=$LAB_ENGINE_NS
  mkdir -p "$LEASH_LAB_RUN/records" "$LEASH_LAB_RUN/www" "$LEASH_LAB_CACHE"
  LAB_PYTHON=$LAB_PYTHON "$LAB_LIB/internet/certificates.sh" "$LEASH_LAB_CACHE/certificates-3"
  ln -sfn "$LEASH_LAB_CACHE/certificates-3" "$LEASH_LAB_RUN/certificates"

  ip netns add "$engine"
  ip netns add "$ns"
  ip link add wan netns "$engine" type veth peer name wan netns "$ns"
  local n
  for n in "$engine" "$ns"; do
    in_ns "$n" sysctl -qw net.ipv6.conf.all.disable_ipv6=0 net.ipv6.conf.default.disable_ipv6=0 \
      net.ipv6.conf.wan.accept_dad=0 net.ipv6.conf.wan.accept_ra=0
    ip -n "$n" link set lo up
  done
  ip -n "$engine" addr add 203.0.113.1 peer 203.0.113.2 dev wan
  ip -n "$engine" addr add 2001:db8::1/64 dev wan nodad
  ip -n "$ns" addr add 203.0.113.2 peer 203.0.113.1 dev wan
  ip -n "$ns" addr add 2001:db8::2/64 dev wan nodad
  ip -n "$engine" link set wan up
  ip -n "$ns" link set wan up
  ip -n "$engine" route replace default via 203.0.113.2
  ip -n "$engine" -6 route replace default via 2001:db8::2
  ip -n "$ns" route replace "$LAB_POOL4" via 203.0.113.1
  ip -n "$ns" -6 route replace "$LAB_POOL6" via 2001:db8::1
  # Every address is this namespace's own. For IPv4 that route must stand in the local table, where the kernel looks for
  # its own addresses (AnyIP), so the engine's are looked up before it; for IPv6 it is enough that it holds for what
  # arrives on the link, and neighbour discovery needs the local table first.
  ip -n "$ns" rule add to 203.0.113.1 lookup main pref 10
  ip -n "$ns" rule add to "$LAB_POOL4" lookup main pref 10
  ip -n "$ns" rule add lookup local pref 100
  ip -n "$ns" rule del lookup local pref 0
  ip -n "$ns" route add local default dev lo table local
  ip -n "$ns" -6 rule add iif wan lookup 100 pref 10
  ip -n "$ns" -6 route add local default dev lo table 100
  in_ns "$ns" sysctl -qw net.ipv6.ip_nonlocal_bind=1 net.ipv4.ip_nonlocal_bind=1
  in_ns "$ns" nft -f - <<'NFT'
table inet catchall {
	chain prerouting {
		type nat hook prerouting priority dstnat
		iifname "wan" tcp dport != { 53, 80, 443 } redirect to :9999
	}
}
NFT
  start_in_ns "$ns" "$LEASH_LAB_RUN/internet.pid" "$LEASH_LAB_RUN/internet.log" "$LAB_PYTHON" -B "$LAB_LIB/internet/serve.py" \
    "$LEASH_LAB_RUN/certificates" "$LEASH_LAB_RUN/www" "$LEASH_LAB_RUN/records"
  start_in_ns "$engine" "$LEASH_LAB_RUN/wire.pid" "$LEASH_LAB_RUN/wire.log" "$LAB_PYTHON" -B "$LAB_LIB/internet/wire.py" \
    "$LEASH_LAB_RUN/records/wire.jsonl"
  wait_until 10 in_ns "$engine" curl -sf -m 2 http://203.0.113.20/ ||
    die "the test internet does not answer: $(cat "$LEASH_LAB_RUN/internet.log")"
}

internet_down() {
  end_by_pid_file "$LEASH_LAB_RUN/internet.pid" 2
  end_by_pid_file "$LEASH_LAB_RUN/wire.pid" 2
  local n
  for n in "$LAB_INTERNET_NS" "$LAB_ENGINE_NS"; do
    [ ! -e "/run/netns/$n" ] || ip netns delete "$n"
  done
}
