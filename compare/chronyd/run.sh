#!/usr/bin/env bash
# Plays the real chronyd in simulated worlds, beside this package. It needs chronyd (Debian's
# chrony), a checkout of github.com/mlichvar/clknetsim, make, g++ and Go, and root, since
# chronyd runs as who started it. clknetsim is under the GPL and no part of this project.
#
#	compare/chronyd/run.sh CLKNETSIM [FOLDER] [-only LAN] [-seeds 3] [-lasting 300s]
#
# FOLDER gets CHRONYD.md; it is compare/report if none is given.
set -euo pipefail

why() {
	echo "chronyd does not run here: $1"
	exit 0
}
[[ $(uname -s) == Linux ]] || why "clknetsim is for Linux"
for tool in chronyd make g++ go; do
	command -v "$tool" >/dev/null || why "there is no $tool"
done
[[ -n ${1:-} && -f $1/clknetsim.bash ]] || why "the first argument is no checkout of clknetsim"

clknetsim=$(realpath "$1")
out=$(realpath -m "${2:-$(dirname "$0")/../report}")
shift $(($# < 2 ? $# : 2))
make -s -C "$clknetsim" >/dev/null
cd "$(dirname "$0")/.."
go run . -chronyd "$clknetsim" -out "$out" "$@"
