#!/usr/bin/env bash
# Gathers what a release consists of in target/dist/release, from what build.sh has left: the image, the program for each
# architecture with its symbols beside it, the list of components, the licences, the definitions, and all checksums.
set -euo pipefail
export LC_ALL=C

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)
cd "$root/target/dist"
version=$(awk -F '"' '/^version = / { print $2; exit }' "$root/Cargo.toml")
created=${SOURCE_DATE_EPOCH:-$(git -C "$root" log -1 --format=%ct)}
to=$PWD/release

# pack NAME DIRECTORY FILE…: the same archive of the same files.
pack() {
	local name=$1 directory=$2
	shift 2
	tar --create --sort=name --mtime="@$created" --owner=0 --group=0 --numeric-owner --mode=u=rwX,go=rX --format=ustar \
		--directory "$directory" "$@" | gzip -9n >"$to/$name.tar.gz"
}

rm -rf release
mkdir release
cp pilotage.oci.tar "$to/pilotage-$version.oci.tar"
cp doc/sbom.cdx.json "$to/pilotage-$version.sbom.cdx.json"
cp doc/licences.txt "$to/pilotage-$version.licences.txt"
for arch in amd64 arm64; do
	# What the image doesn't have isn't of this build.
	grep --quiet --text "\"architecture\":\"$arch\"" pilotage.oci.tar || continue
	rm -rf parts
	mkdir parts
	cp "$root/LICENSE" doc/licences.txt "$arch/pilotage" parts/
	ln -s pilotage parts/kubectl-pilotage
	pack "pilotage-$version-linux-$arch" parts LICENSE licences.txt pilotage kubectl-pilotage
	pack "pilotage-$version-linux-$arch-debug" "$arch" pilotage.debug
	rm -rf parts
done
pack "pilotage-chart-$version" "$root/charts" pilotage
for file in "$root"/crds/*.yaml; do
	echo ---
	cat "$file"
done >"$to/pilotage-$version.crds.yaml"
(cd release && sha256sum -- * >SHA256SUMS)
(cd release && du --apparent-size --human-readable -- *)
