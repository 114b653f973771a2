#!/usr/bin/env bash
# Plays the real chronyd in simulated worlds, beside this package. It needs chronyd (Debian's
# chrony), a checkout of github.com/mlichvar/clknetsim, make, g++ and Go, and root, since
# chronyd runs as who started it. clknetsim is under the GPL and no part of this project.
#
#	lab/live/chronyd.sh CLKNETSIM                   all worlds, an hour on 2 cores
#	lab/live/chronyd.sh CLKNETSIM -only LAN         those whose name has this
#
# It writes chronyd.csv and chronyd-seconds.csv in lab/results. The report is made from them:
# cd lab && go run ./report
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
shift
make -s -C "$clknetsim" >/dev/null
cd "$(dirname "$0")/.."
go run ./live -out results "$@" chronyd "$clknetsim"
