#!/usr/bin/env bash
# Builds the image of the last commit in two new clones, one after the other, which lie elsewhere and share nothing that
# was built; fails unless both archives are the same file. It compiles everything twice.
#
#   twice.sh [ARCH…]     as build.sh
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)
work=$root/target/image-twice
unset CARGO_TARGET_DIR
rm -rf "$work"
mkdir -p "$work/with/a/longer/name"

sums=()
for place in first with/a/longer/name/second; do
	git clone --quiet "$root" "$work/$place"
	(
		cd "$work/$place"
		e2e/tools/build.sh image
		image/build.sh "$@"
	)
	"$work/$place/target/tools/image-tool" verify "$work/$place/target/dist/pilotage.oci.tar"
	sums+=("$(sha256sum <"$work/$place/target/dist/pilotage.oci.tar")")
	mv "$work/$place/target/dist/pilotage.oci.tar" "$work/${place##*/}.oci.tar"
	rm -rf "${work:?}/$place"
done
if [ "${sums[0]}" != "${sums[1]}" ]; then
	echo "image: two builds of one commit differ: $work/first.oci.tar and $work/second.oci.tar" >&2
	exit 1
fi
echo "image: two builds of one commit are one archive, sha256 ${sums[0]%% *}"
rm -rf "$work"
