#!/usr/bin/env bash
# Provides the headless browser of `make page-test`: Debian's chromium, with the libraries and the font that this machine
# lacks, unpacked into target/tools/browser. Nothing is installed, and no root is needed; it needs apt and dpkg.
#
# Nothing is done if it is there. What it prints last is the program's path.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd -P)
browser=$(cd "$here/../.." && pwd -P)/target/tools/browser
packages=(chromium-headless-shell fonts-dejavu-core)
program=$browser/chromium

fail() {
	printf 'browser: %s\n' "$*" >&2
	exit 1
}

if [ ! -x "$program" ]; then
	command -v apt-get >/dev/null && command -v dpkg >/dev/null ||
		fail 'it comes from packages of Debian, and this machine has no apt; name a chromium by PILOTAGE_CHROMIUM'
	rm -rf "$browser"
	mkdir -p "$browser"/{lists,cache/archives,root,fonts}/partial
	printf 'browser: unpacking %s\n' "${packages[*]}" >&2
	apt=(apt-get -qq -o Debug::NoLocking=1 -o APT::Sandbox::User= -o Dir::State::lists="$browser/lists" -o Dir::Cache="$browser/cache")
	"${apt[@]}" update || fail "the lists of packages can't be had"
	"${apt[@]}" install --no-install-recommends --download-only --yes "${packages[@]}" >"$browser/log" ||
		fail "the packages can't be had: $browser/log"
	for package in "$browser"/cache/archives/*.deb; do dpkg -x "$package" "$browser/root"; done
	rm -rf "$browser"/{lists,cache}
	cat >"$browser/fonts/fonts.conf" <<-END
		<?xml version="1.0"?>
		<!DOCTYPE fontconfig SYSTEM "fonts.dtd">
		<fontconfig>
		<dir>/usr/share/fonts/truetype/dejavu</dir>
		<dir>$browser/root/usr/share/fonts</dir>
		<cachedir>$browser/fonts/cache</cachedir>
		</fontconfig>
	END
	libraries=$(find "$browser/root" -name '*.so*' -printf '%h\n' | sort -u | paste -sd:)
	cat >"$program.new" <<-END
		#!/bin/sh
		LD_LIBRARY_PATH='$libraries' FONTCONFIG_FILE='$browser/fonts/fonts.conf' \\
		  exec '$browser/root/usr/lib/chromium/chromium-headless-shell' "\$@"
	END
	chmod +x "$program.new"
	missing=$(LD_LIBRARY_PATH=$libraries ldd "$browser/root/usr/lib/chromium/chromium-headless-shell" | awk '/not found/ { print $1 }')
	[ -z "$missing" ] || fail "these libraries are missing: $missing"
	mv "$program.new" "$program"
fi
echo "$program"
