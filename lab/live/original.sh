#!/usr/bin/env bash
# Runs the C++ original live beside this package, over UDP on the loopback interface. It needs
# a checkout of github.com/catid/TimeSync, g++ and Go.
#
#	lab/live/original.sh TIMESYNC [FOLDER] [-only frames] [-lasting 60s]
#
# FOLDER gets ORIGINAL.md. It is lab/measured if none is given; lab/results is that of the project's
# own page. All rows take 7 min.
set -euo pipefail

why() {
	echo "the original does not run here: $1"
	exit 0
}
[[ $(uname -s) == Linux ]] || why "the peer reads Linux's clock"
for tool in g++ go; do
	command -v "$tool" >/dev/null || why "there is no $tool"
done
[[ -n ${1:-} && -f $1/src/TimeSync.cpp ]] || why "the first argument is no checkout of catid/TimeSync"

source=$(realpath "$1")
out=$(realpath -m "${2:-$(dirname "$0")/../measured}")
shift $(($# < 2 ? $# : 2))
cd "$(dirname "$0")/.."
peer=$(mktemp)
trap 'rm -f "$peer"' EXIT
g++ -O2 -std=c++11 -I"$source/inc" -o "$peer" live/original/peer.cpp "$source/src/TimeSync.cpp"
go run ./live -lasting 60s -out "$(realpath --relative-to . "$out")" "$@" original "$peer"
