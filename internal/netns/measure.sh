#!/usr/bin/env bash
# measure.sh FOLDER WHAT TOOL ARGUMENT... runs what measures the program in FOLDER, its program
# measure, in network namespaces. Where that is impossible, as without the TOOL, it says that WHAT
# was not tested. The measure.sh of the examples call it.
set -euo pipefail
folder=$1 what=$2 tool=$3
shift 3
cd "$(dirname "$0")/../../$folder"
why() {
	echo "NOT TESTED: $what: $1"
	exit 0
}
[[ $(uname -s) == Linux ]] || why "network namespaces are Linux's"
for needed in unshare ip "$tool"; do
	command -v "$needed" >/dev/null ||
		why "there is no $needed (Debian: apt-get install util-linux iproute2 nftables)"
done
# Namespaces that are made in a tree of mounts of its own go when the last process in there ends.
alone=(unshare --mount --net sh -c 'mount -t tmpfs none /run && exec "$@"' sh)
no=$("${alone[@]}" ip netns add try 2>&1) ||
	why "no network namespaces here, as in many containers and without root: $no"
programs=$(mktemp -d)
trap 'rm -rf "$programs"' EXIT
go build -o "$programs/" . ./measure
PATH="$programs:$PATH" "${alone[@]}" measure "$@"
