#!/usr/bin/env bash
# Gathers what a release consists of in target/dist/release, from what build.sh has left: the image, the program for each
# architecture with its symbols beside it, the list of components, the licences, the definitions, what shells complete, krew's
# manifest of the plugin, and all checksums. RELEASE_URL is where the files will be found; default: the repository's release.
# DIST is where build.sh has left them, if not target/dist.
set -euo pipefail
export LC_ALL=C

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)
cd "${DIST:-$root/target/dist}"
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

# The plugin for `kubectl krew install --manifest`; only archives of this release are in it.
krew() {
	local repository url arch
	repository=$(awk -F '"' '/^repository = / { print $2; exit }' "$root/Cargo.toml")
	url=${RELEASE_URL:-$repository/releases/download/v$version}
	cat <<-EOF
		apiVersion: krew.googlecontainertools.github.com/v1alpha2
		kind: Plugin
		metadata:
		  name: pilotage
		spec:
		  version: v$version
		  homepage: $repository
		  shortDescription: Connect clusters and see where pods run and why
		  description: |
		    Connects clusters with Pilotage, which runs pods of one cluster in others: connect and disconnect clusters,
		    see targets and pods, and why a pod waits or went where it is.
		  platforms:
	EOF
	for arch in amd64 arm64; do
		local archive=kubectl-pilotage-$version-linux-$arch.tar.gz
		[ -e "$to/$archive" ] || continue
		cat <<-EOF
			  - selector:
			      matchLabels:
			        os: linux
			        arch: $arch
			    uri: $url/$archive
			    sha256: $(sha256sum "$to/$archive" | cut -d ' ' -f 1)
			    bin: kubectl-pilotage
		EOF
	done
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
	# krew takes no archive with a link in it.
	mv -f parts/pilotage parts/kubectl-pilotage
	pack "kubectl-pilotage-$version-linux-$arch" parts LICENSE licences.txt kubectl-pilotage
	pack "pilotage-$version-linux-$arch-debug" "$arch" pilotage.debug
	rm -rf parts
done
case $(uname -m) in aarch64 | arm64) own=arm64 ;; *) own=amd64 ;; esac
# Who builds for other machines alone can't run what was built.
if [ -e "$to/pilotage-$version-linux-$own.tar.gz" ]; then
	mkdir parts
	for shell in bash zsh fish; do
		"$own/pilotage" completion "$shell" >"parts/pilotage.$shell"
	done
	"$own/pilotage" completion kubectl >parts/kubectl_complete-pilotage
	chmod +x parts/kubectl_complete-pilotage
	pack "pilotage-$version-completions" parts pilotage.bash pilotage.zsh pilotage.fish kubectl_complete-pilotage
	rm -rf parts
fi
krew >"$to/pilotage-$version.krew.yaml"
pack "pilotage-chart-$version" "$root/charts" pilotage
for file in "$root"/crds/*.yaml; do
	echo ---
	cat "$file"
done >"$to/pilotage-$version.crds.yaml"
(cd release && sha256sum -- * >SHA256SUMS)
(cd release && du --apparent-size --human-readable -- *)
