#!/usr/bin/env bash
# measure.sh EXAMPLE WHAT ARGUMENT... runs what measures an example in network namespaces, or
# says that WHAT was not tested. The measure.sh of the examples call it.
set -euo pipefail
example=$1 what=$2
shift 2
cd "$(dirname "$0")/../../$example/measure"
[[ $(uname -s) == Linux ]] || { echo "NOT TESTED: $what: network namespaces are Linux's"; exit 0; }
program=$(mktemp)
trap 'rm -f "$program"' EXIT
go build -o "$program" .
"$program" "$@"
