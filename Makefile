# CONTRIBUTING.md says when to use which, and how long each takes.

# make quick tests what is not committed yet. To include the last three commits: make quick since=HEAD~3
since ?= HEAD

.PHONY: quick test fuzz race report all

# The packages whose files were changed, briefly.
quick:
	@.ci/quick $(since)

# README's command, and the nested modules.
test:
	go test ./...
	.ci/step nested

# Each fuzz target for FUZZTIME: make fuzz FUZZTIME=1m
fuzz:
	.ci/step fuzz

race:
	.ci/step race

# All methods on the same packets; writes lab/results.
report:
	cd lab && go run ./report

# What has to pass before a change lands.
all:
	.ci/run
