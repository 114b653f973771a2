#!/usr/bin/env bash
# Measures the clock sync on a real queue that TCP or random bursts fill: two hosts and a
# router in network namespaces, 10 Mbit/s and 300 ms of buffer each way. chronyd and ptp4l
# run beside it where they are installed. Linux, root, iproute2, Go.
#
#	lab/live/queue.sh [FOLDER] [-lasting 90s] [-only tcp|cross60|cross80|cross90|cross90-busy] [-seed N] [-record TRACES]
#
# FOLDER gets QUEUE.md and pictures/link-light.png and -dark.png. It is lab/measured if none is given.
# If it is lab/results, the project's own page, README.md gets its figures, too. All loads take 8 min.
# TRACES gets the delays of each datagram.
set -euo pipefail

why() {
	echo "the real queue does not run here: $1"
	exit 0
}
[[ $(uname -s) == Linux ]] || why "network namespaces are Linux's"
[[ $(id -u) == 0 ]] || why "making network namespaces needs root"
for tool in ip tc go; do
	command -v "$tool" >/dev/null || why "there is no $tool (iproute2 has ip and tc)"
done

out=$(realpath -m "${1:-$(dirname "$0")/../measured}")
shift || true
cd "$(dirname "$0")/.."
program=$(mktemp)
a=reallink-a-$$ b=reallink-b-$$ r=reallink-r-$$
clean() {
	for ns in "$a" "$b" "$r"; do
		ip netns pids "$ns" 2>/dev/null | xargs -r kill || true
		ip netns del "$ns" 2>/dev/null || true
	done
	rm -f "$program"
}
trap clean EXIT
go build -o "$program" ./live

for ns in "$a" "$b" "$r"; do
	ip netns add "$ns" 2>/dev/null || why "ip netns add failed: no privilege for it, as in many containers"
	ip -n "$ns" link set lo up
	# CUBIC fills buffers, as most TCP does, and so does Reno, which each kernel has; BBR tries not to.
	ip netns exec "$ns" sh -c 'cd /proc/sys/net/ipv4 && (echo cubic >tcp_congestion_control || echo reno >tcp_congestion_control)' 2>/dev/null
done
# host NAMESPACE NUMBER joins a host to the router by a cable.
host() {
	ip -n "$1" link add eth0 type veth peer name "to$2" netns "$r"
	ip -n "$1" addr add "10.77.$2.2/24" dev eth0
	ip -n "$r" addr add "10.77.$2.1/24" dev "to$2"
	ip -n "$1" link set eth0 up
	ip -n "$r" link set "to$2" up
	ip -n "$1" route add default via "10.77.$2.1"
	# The queue drops packets of 1500 bytes, as a modem does, not bundles of forty.
	ip -n "$1" link set eth0 gso_max_segs 1
	tc -n "$r" qdisc add dev "to$2" root tbf rate 10mbit burst 15kb latency 300ms ||
		why "the kernel has no tbf"
}
host "$a" 1
host "$b" 2
ip netns exec "$r" sh -c 'echo 1 >/proc/sys/net/ipv4/ip_forward'

"$program" -out "$(realpath --relative-to . "$out")" "$@" queue "$a,$b"
