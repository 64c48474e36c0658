#!/usr/bin/env bash
# Builds the image of all subcommands as an OCI archive, without a daemon and without a base image.
#
#   build.sh [ARCH…]     ARCH: amd64 arm64; default: this machine's
#
# All goes into target/dist. IMAGE is the image's name, SOURCE_DATE_EPOCH its time (otherwise that of the commit).
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)
cd "$root"
tool=target/tools/image-tool
out=target/dist

target_of() {
	case $1 in
	amd64) echo x86_64-unknown-linux-gnu ;;
	arm64) echo aarch64-unknown-linux-gnu ;;
	*)
		echo "image: no architecture is called $1: amd64, arm64" >&2
		exit 1
		;;
	esac
}

if [ $# -eq 0 ]; then
	case $(uname -m) in aarch64 | arm64) set -- arm64 ;; *) set -- amd64 ;; esac
fi
version=$(awk -F '"' '/^version = / { print $2; exit }' Cargo.toml)
repository=$(awk -F '"' '/^repository = / { print $2; exit }' Cargo.toml)
revision=$(git describe --always --abbrev=40 --dirty --exclude '*')
created=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}

programs=() platforms=()
for arch in "$@"; do
	target=$(target_of "$arch")
	image/compile.sh "$target" "$out/$arch"
	programs+=(--program "$arch=$out/$arch/pilotage")
	platforms+=(--filter-platform "$target")
done

# What the image says about itself: files below /usr/share/doc/pilotage, and the same ones in a release.
rm -rf "$out/doc"
mkdir -p "$out/doc"
"${CARGO:-cargo}" metadata --locked --format-version 1 "${platforms[@]}" >"$out/metadata.json"
linked=(
	--linked "rust-std=$(rustc --version | cut -d ' ' -f 2)=MIT OR Apache-2.0"
	--linked "glibc=$(getconf GNU_LIBC_VERSION | cut -d ' ' -f 2)=LGPL-2.1-or-later"
)
"$tool" sbom --metadata "$out/metadata.json" --lock Cargo.lock --created "$created" \
	"${linked[@]}" --out "$out/doc/sbom.cdx.json"
"$tool" licences --metadata "$out/metadata.json" --also LICENSE --also image/not-crates.txt --also image/LGPL-2.1.txt \
	--out "$out/doc/licences.txt"

name=${IMAGE:-ghcr.io/pilotage/pilotage:$version}
rm -rf "$out/root"
"$tool" build "${programs[@]}" --name "$name" --created "$created" --files "$out/doc" --root "$out/root" \
	--label "org.opencontainers.image.title=Pilotage" \
	--label "org.opencontainers.image.description=Runs pods of one Kubernetes cluster in other clusters" \
	--label "org.opencontainers.image.licenses=Apache-2.0" \
	--label "org.opencontainers.image.source=$repository" \
	--label "org.opencontainers.image.version=$version" \
	--label "org.opencontainers.image.revision=$revision" \
	--label "io.github.pilotage.sbom=/usr/share/doc/pilotage/sbom.cdx.json" \
	--out "$out/pilotage.oci.tar"
"$tool" verify "$out/pilotage.oci.tar" >/dev/null
echo "$name: $out/pilotage.oci.tar"
