#!/usr/bin/env bash
# Compiles `pilotage` as image and release have it: static, optimized, without symbols, and the same bytes wherever it
# is compiled by the same compilers.
#
#   compile.sh TARGET OUT     TARGET: x86_64-unknown-linux-gnu or aarch64-unknown-linux-gnu
#
# OUT/pilotage is the program, OUT/pilotage.debug what a debugger and `perf` need beside it.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)
[ $# -eq 2 ] || {
	sed -n '2,7s/^# \{0,1\}//p' "$0" >&2
	exit 2
}
target=$1
mkdir -p "$2"
out=$(cd "$2" && pwd -P)
fail() {
	printf 'compile: %s\n' "$*" >&2
	exit 1
}

case $target in
x86_64-unknown-linux-gnu | aarch64-unknown-linux-gnu) ;;
*) fail "no target is called $target" ;;
esac
# What belongs to another machine's architecture bears its name, as Debian's cross compilers do.
prefix=''
[ "${target%%-*}" = "$(uname -m)" ] || prefix=${target/-unknown/}-
for tool in gcc objcopy; do
	command -v "$prefix$tool" >/dev/null || fail "$prefix$tool is needed for $target and isn't in PATH"
done
libraries=$(rustc --print target-libdir --target "$target" 2>/dev/null) && [ -d "$libraries" ] ||
	fail "Rust's library for $target isn't installed: rustup target add $target"

# No name of this machine's directories gets into the program, neither from Rust nor from C.
cargo_home=$(cd "${CARGO_HOME:-$HOME/.cargo}" && pwd -P)
separator=$'\x1f'
flags=(
	-Ctarget-feature=+crt-static
	"--remap-path-prefix=$cargo_home=/cargo"
	"--remap-path-prefix=$root=/pilotage"
	'-Clink-arg=-Wl,--build-id=sha1'
)
CARGO_ENCODED_RUSTFLAGS=$(IFS=$separator && printf '%s' "${flags[*]}")
export CARGO_ENCODED_RUSTFLAGS
variable=${target//-/_}
export "CFLAGS_$variable=-ffile-prefix-map=$cargo_home=/cargo -ffile-prefix-map=$root=/pilotage"
if [ -n "$prefix" ]; then
	export "CC_$variable=${prefix}gcc" "CARGO_TARGET_$(tr '[:lower:]' '[:upper:]' <<<"$variable")_LINKER=${prefix}gcc"
fi

built=${CARGO_TARGET_DIR:-$root/target}
(cd "$root" && "${CARGO:-cargo}" build --workspace --locked --bin pilotage --profile image --target "$target")
program=$built/$target/image/pilotage
"${prefix}objcopy" --only-keep-debug --compress-debug-sections "$program" "$out/pilotage.debug"
# The link between the two has the name of the file, so it is made where both are.
(cd "$out" && "${prefix}objcopy" --strip-all --add-gnu-debuglink=pilotage.debug "$program" pilotage)
