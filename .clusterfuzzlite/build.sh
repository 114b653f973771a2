#!/usr/bin/env bash
# Builds all fuzz targets into the folder $OUT. In a container of OSS-Fuzz or ClusterFuzzLite,
# which have a program for that, they become fuzzers for libFuzzer. Elsewhere, also offline, each
# becomes a script that runs it with Go's own fuzzing and takes its flags. Run this at the top of
# the repository:
#
#	OUT=$PWD/.cache/fuzz .clusterfuzzlite/build.sh
#	.cache/fuzz/link_FuzzReadHeader -test.fuzztime 10m
#
# What Go finds it keeps in the folder "found" beside the scripts; a failing input goes to
# testdata/fuzz.
set -euo pipefail
mkdir -p "$OUT"

build() { # PACKAGE TARGET NAME
	compile_native_go_fuzzer_v2 "$1" "$2" "$3"
}
if ! command -v compile_native_go_fuzzer_v2 >/dev/null; then
	build() {
		local folder program=$OUT/programs/${3%_*}
		folder=$(go list -f '{{.Dir}}' "$1")
		[[ -e $program ]] || go test -c -fuzz . -o "$program" "$1"
		cat >"$OUT/$3" <<-END
			#!/usr/bin/env bash
			cd '$folder'
			exec '$program' -test.run '^$' -test.fuzz '^$2\$' \\
				-test.fuzzcachedir '$OUT/found/${3%_*}' "\$@"
		END
		chmod +x "$OUT/$3"
	}
	rm -rf "$OUT/programs"
fi

tests=$(grep -rlE --include='*_test.go' --exclude-dir='.?*' '^func Fuzz' .)
folders=$(xargs -n 1 dirname <<<"$tests" | sort -u)
for folder in $folders; do
	cd "$folder"
	package=$(go list .)
	for target in $(sed -nE 's/^func (Fuzz[A-Za-z0-9_]*)\(.*/\1/p' ./*_test.go); do
		build "$package" "$target" "$(tr / _ <<<"${package#*/}")_$target"
	done
	cd "$OLDPWD"
done
