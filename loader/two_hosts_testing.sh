#!/usr/bin/env bash
# SPDX-FileCopyrightText: 2026 The Tenon Authors
# SPDX-License-Identifier: Apache-2.0
#
# Runs a command as two ranks of Open MPI on two hosts, which are network
# namespaces joined by a pair of veth devices:
#
#   two_hosts_testing.sh COMMAND...
#
# Needs root, ip and mpirun; exits 77 where it may not make them.

set -euo pipefail

skip() {
  echo "no two network namespaces here: $*" >&2
  exit 77
}

((EUID == 0)) || skip "not root"
for tool in ip unshare nsenter mpirun; do
  command -v $tool > /dev/null || skip "$tool is not installed"
done
mpirun --version | grep -q 'Open MPI' || skip "mpirun is not Open MPI's"

# A host lives as long as the process that holds it.
holders=()
agent=$(mktemp)
cleanup() {
  rm -f "$agent"
  ((${#holders[@]} == 0)) || kill "${holders[@]}" 2> /dev/null || true
}
trap cleanup EXIT

for host in 1 2; do
  unshare --net sleep 200 &
  holders+=($!)
done
on() {
  local host=$1
  shift
  nsenter --net="/proc/${holders[host - 1]}/ns/net" "$@"
}

# unshare needs a moment to be in its namespace.
for _ in {1..100}; do
  own=$(readlink /proc/self/ns/net)
  first=$(readlink "/proc/${holders[0]}/ns/net") || skip "unshare failed"
  second=$(readlink "/proc/${holders[1]}/ns/net") || skip "unshare failed"
  [[ $first == "$own" || $second == "$own" ]] || break
  sleep 0.1
done
[[ $first != "$own" && $second != "$own" ]] || skip "unshare made none"

on 1 ip link add host1 type veth peer name host2 netns "${holders[1]}" ||
  skip "no pair of veth devices"
for host in 1 2; do
  on $host ip address add 10.99.0.$host/24 dev host$host
  on $host ip link set lo up
  on $host ip link set host$host up
done

# In place of ssh: [OPTION...] HOST COMMAND... There is one other host.
cat > "$agent" << END
#!/usr/bin/env bash
while [[ \$1 == -* ]]; do shift; done
shift
exec nsenter --net=/proc/${holders[1]}/ns/net bash -c "\$*"
END
chmod +x "$agent"

on 1 timeout 100 mpirun --allow-run-as-root -np 2 \
  --host 10.99.0.1,10.99.0.2 --map-by node --mca plm_rsh_agent "$agent" \
  --mca oob_tcp_if_include 10.99.0.0/24 "$@"
