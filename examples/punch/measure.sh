#!/usr/bin/env bash
# Measures examples/punch through NATs in network namespaces, with and without the instant.
# Linux, root, iproute2, nftables, Go.
#
#	examples/punch/measure.sh                  5 kinds of NAT, 50 tries each, about 20 min
#	examples/punch/measure.sh -only reset      the kinds whose name has this
#	examples/punch/measure.sh -quick           a few seconds: is it alive?
exec "$(dirname "$0")/../../internal/netns/measure.sh" examples/punch "punching through NATs" nft "$@"
