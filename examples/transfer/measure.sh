#!/usr/bin/env bash
# Measures examples/transfer on real queues beside the kernel's TCP: hosts and a router in
# network namespaces. Linux, root, iproute2, Go.
#
#	examples/transfer/measure.sh                    both networks, about 20 min
#	examples/transfer/measure.sh -only CUBIC        the rows whose name has this
#	examples/transfer/measure.sh -quick             a few seconds: is it alive?
exec "$(dirname "$0")/../../internal/netns/measure.sh" examples/transfer "a transfer on a real queue" tc "$@"
