#!/usr/bin/env bash
# Provides the real parts that tests and demo run: builds each tool once into a
# cache of the user and links it into target/tools/. See README.md beside it.
#
#   build.sh [TOOL…]     TOOL: kubernetes oracle etcd kwok helm kubeconform kind metrics-server image promql-check
#                        cert-manager prometheus-operator; default: these
#                        or an older Kubernetes, for clusters of other versions: kubernetes-1.34
#
# Nothing is printed when nothing had to be done.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd -P)
target=$(cd "$here/../.." && pwd -P)/target/tools

all_tools='kubernetes oracle etcd kwok helm kubeconform kind metrics-server image promql-check cert-manager
prometheus-operator'

# An older Kubernetes has a directory of its own beside this script, and is linked below target/tools/1.34.
older() {
	case $1 in
	kubernetes-1.*) [ -f "$here/$1/go.mod" ] ;;
	*) return 1 ;;
	esac
}

# Where a tool is found below a directory of tools.
subdirectory() {
	case $1 in
	kubernetes-*) echo "/${1#kubernetes-}" ;;
	cert-manager | prometheus-operator) echo /crds ;;
	esac
}

# The definitions of other projects' kinds that a tool's module has as files: only these are taken from it.
definitions() {
	case $1 in
	cert-manager) printf 'deploy/crds/cert-manager.io_%s.yaml\n' certificates issuers ;;
	prometheus-operator)
		printf 'example/prometheus-operator-crd/monitoring.coreos.com_%s.yaml\n' prometheusrules servicemonitors
		;;
	esac
}

# The commands or files that a tool's module provides, by the names they are linked as.
binaries() {
	case $1 in
	kubernetes) echo kube-apiserver kube-controller-manager kube-scheduler kubectl ;;
	kubernetes-*) echo kube-apiserver kube-controller-manager ;;
	oracle) echo kube-scheduler-oracle ;;
	image) echo image-tool ;;
	cert-manager | prometheus-operator) definitions "$1" | sed 's|.*/||' | tr '\n' ' ' ;;
	*) echo "$1" ;;
	esac
}

# The module whose version a tool is known by.
main_module() {
	case $1 in
	kubernetes | oracle) echo k8s.io/kubernetes ;;
	kubernetes-*) ! older "$1" || echo k8s.io/kubernetes ;;
	etcd) echo go.etcd.io/etcd/server/v3 ;;
	kwok) echo sigs.k8s.io/kwok ;;
	helm) echo helm.sh/helm/v4 ;;
	kubeconform) echo github.com/yannh/kubeconform ;;
	kind) echo sigs.k8s.io/kind ;;
	metrics-server) echo sigs.k8s.io/metrics-server ;;
	image) echo github.com/google/go-containerregistry ;;
	promql-check) echo github.com/prometheus/prometheus ;;
	cert-manager) echo github.com/cert-manager/cert-manager ;;
	prometheus-operator) echo github.com/prometheus-operator/prometheus-operator ;;
	esac
}

say() { printf 'tools: %s\n' "$*" >&2; }
fail() {
	say "$*"
	exit 1
}

# The directory of a tool's module. The oracle is a program of our own in that of Kubernetes: same versions, same sums.
module() {
	case $1 in
	oracle) echo kubernetes ;;
	*) echo "$1" ;;
	esac
}

# What is built there.
packages() {
	case $1 in
	oracle) echo ./oracle ;;
	image | promql-check) echo . ;;
	*) echo tool ;;
	esac
}

# The version of a tool as its go.mod pins it.
version() {
	awk -v module="$(main_module "$1")" '
		{ for (i = 1; i < NF; i++) if ($i == module && $(i + 1) ~ /^v[0-9]/) { print $(i + 1); exit } }
	' "$here/$(module "$1")/go.mod"
}

# Build tags, as in the tool's own release build.
tags() {
	case $1 in
	kubernetes | kubernetes-* | oracle) echo selinux,notest,grpcnotrace ;;
	esac
}

# Linker flags: without symbols, and with the version where a tool's own release
# build sets it by the linker. A module proxy does not tell the commit of a
# version, so none is claimed.
linker_flags() {
	local tool=$1 version=$2 package major minor
	printf '%s' '-s -w'
	case $tool in
	kubernetes | kubernetes-*)
		IFS=. read -r major minor _ <<<"${version#v}"
		for package in k8s.io/component-base/version k8s.io/client-go/pkg/version; do
			printf ' -X %s' "$package.gitVersion=$version" "$package.gitMajor=$major" \
				"$package.gitMinor=$minor" "$package.gitCommit=unknown" "$package.gitTreeState=clean"
		done
		;;
	kwok) printf ' -X %s' "sigs.k8s.io/kwok/pkg/consts.Version=${version#v}" ;;
	helm) printf ' -X %s' "helm.sh/helm/v4/internal/version.version=$version" ;;
	kubeconform) printf ' -X %s' "main.version=$version" ;;
	metrics-server) printf ' -X %s' "k8s.io/client-go/pkg/version.gitVersion=$version" ;;
	esac
}

# Kubernetes also reports when it was built. Kept out of linker_flags because
# these decide the cache's key.
date_flags() {
	local now
	case $1 in kubernetes | kubernetes-*) ;; *) return 0 ;; esac
	now=$(date -u +%Y-%m-%dT%H:%M:%SZ)
	printf ' -X %s' "k8s.io/component-base/version.buildDate=$now" "k8s.io/client-go/pkg/version.buildDate=$now"
}

# Names what a tool is built from: equal keys, equal tools.
cache_key() {
	local tool=$1
	{
		printf '%s\n' "$(uname -sm)" "$(binaries "$tool")" "$(tags "$tool")" \
			"$(linker_flags "$tool" "$(version "$tool")")"
		cat "$here/$(module "$tool")/go.mod" "$here/$(module "$tool")/go.sum"
		case $tool in
		oracle) cat "$here/kubernetes/oracle/"*.go ;;
		image | promql-check) cat "$here/$tool/"*.go ;;
		cert-manager | prometheus-operator) definitions "$tool" ;;
		esac
	} | git hash-object --stdin | cut -c1-16
}

# Whether a tool's command, which can be run, or file is there.
is_there() {
	case $1 in
	*.yaml) [ -s "$1" ] ;;
	*) [ -x "$1" ] ;;
	esac
}

# Whether a directory holds all commands or files of a tool.
has_all() {
	local directory=$1 name
	shift
	for name in "$@"; do
		is_there "$directory/$name" || return 1
	done
}

# Links the commands of a tool from a directory into target/tools/, each in one
# step, so that whoever runs one meanwhile finds the old or the new, never none.
link() {
	local directory=$1 tool=$2 name links
	links=$target$(subdirectory "$tool")
	mkdir -p "$links"
	for name in $(binaries "$tool"); do
		[ "$(readlink "$links/$name" || true)" = "$directory/$name" ] && continue
		ln -s "$directory/$name" "$links/.$name.$$"
		mv -f "$links/.$name.$$" "$links/$name"
	done
}

# Links ready-made tools instead of building any.
link_ready_made() {
	local directory missing='' tool name
	directory=$(cd "$PILOTAGE_TOOLS_DIR" 2>/dev/null && pwd -P) ||
		fail "PILOTAGE_TOOLS_DIR=$PILOTAGE_TOOLS_DIR is not a directory that can be entered"
	for tool in "$@"; do
		for name in $(binaries "$tool"); do
			name=$(subdirectory "$tool")/$name
			is_there "$directory/${name#/}" || missing="$missing ${name#/}"
		done
	done
	[ -z "$missing" ] || fail "PILOTAGE_TOOLS_DIR=$PILOTAGE_TOOLS_DIR lacks:$missing"
	# Linking target/tools/ to itself would destroy it.
	[ "$directory" = "$target" ] && return 0
	for tool in "$@"; do
		link "$directory$(subdirectory "$tool")" "$tool"
	done
}

# Says in one line why nothing can be built, if so.
require_go() {
	local wanted found
	wanted=$(awk '$1 == "go" { print $2; exit }' "$here/$(module "$1")/go.mod")
	local instead='install it (https://go.dev/dl) or let PILOTAGE_TOOLS_DIR name a directory with ready-made tools'
	command -v go >/dev/null 2>&1 ||
		fail "Go $wanted or newer is needed to build $1 and there is no \`go\` in PATH: $instead"
	# Asked outside of any module: inside of one, an old Go refuses to answer.
	found=$(cd / && GOTOOLCHAIN=local go env GOVERSION | sed -n 's/.*go\([0-9][0-9.]*\).*/\1/p')
	awk -v found="$found" -v wanted="$wanted" 'BEGIN {
		split(found, f, "."); split(wanted, w, ".")
		for (i = 1; i <= 3; i++) if (f[i] + 0 != w[i] + 0) exit !(f[i] + 0 > w[i] + 0)
	}' || fail "Go $wanted or newer is needed to build $1 and \`go\` in PATH is ${found:-of unknown version}: $instead"
}

# What must not outlive this process, however it ends.
lock='' stage='' build=''
clean_up() {
	[ -z "$build" ] || kill "$build" 2>/dev/null || true
	[ -z "$stage" ] || rm -rf "$stage" 2>/dev/null || true
	[ -z "$lock" ] || rm -f "$lock"
	lock='' stage='' build=''
}
trap clean_up EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

# Takes a tool's lock: a symbolic link that names its holder, since making one
# is atomic everywhere. It only saves work: if two builds should overlap after
# all (a holder in another container), the first to finish is kept.
take_lock() {
	local path=$1 tool=$2 holder waiting=''
	until ln -s $$ "$path" 2>/dev/null; do
		holder=$(readlink "$path") || continue
		if ! kill -0 "$holder" 2>/dev/null; then
			rm -f "$path"
			continue
		fi
		[ -n "$waiting" ] || say "$tool: process $holder is building it, waiting (lock: $path)"
		waiting=1
		sleep 1
	done
	lock=$path
}

# Removes what killed builds left behind in the cache.
remove_leftovers() {
	local left
	for left in "$1"/*.build.*; do
		[ -e "$left" ] || continue
		kill -0 "${left##*.}" 2>/dev/null || rm -rf "$left" 2>/dev/null || true
	done
}

# Waits for the build that runs, saying how long it has been going on.
await_build() {
	local title=$1 status=0 elapsed
	while kill -0 "$build" 2>/dev/null; do
		sleep 1
		elapsed=$((SECONDS - started))
		if [ -t 2 ]; then
			printf '\rtools: %s: building, %d:%02d ' "$title" $((elapsed / 60)) $((elapsed % 60)) >&2
		elif [ $((elapsed % 30)) -eq 0 ]; then
			say "$(printf '%s: building, %d:%02d' "$title" $((elapsed / 60)) $((elapsed % 60)))"
		fi
	done
	wait "$build" || status=$?
	build=''
	[ ! -t 2 ] || printf '\r\033[K' >&2
	return $status
}

# Copies definitions from a tool's module, whose checksum Go compares. Run in the directory of its go.mod.
take_definitions() {
	local tool=$1 result=$2 module file
	go mod download "$(main_module "$tool")"
	module=$(go list -m -f '{{.Dir}}' "$(main_module "$tool")")
	for file in $(definitions "$tool"); do
		cp "$module/$file" "$result/"
		chmod u+w "$result/${file##*/}"
	done
}

# Builds a tool into its place in the cache.
build_tool() {
	local tool=$1 place=$2 names title elapsed started=$SECONDS
	names=$(binaries "$tool")
	title="$tool $(version "$tool")"
	require_go "$tool"
	mkdir -p "${place%/*}" 2>/dev/null && [ -w "${place%/*}" ] || fail "${place%/*} cannot be written"
	take_lock "$place.lock" "$tool"
	# shellcheck disable=SC2086 # a list of words
	if has_all "$place" $names; then
		rm -f "$lock"
		lock=''
		return
	fi
	rm -rf "$place"
	remove_leftovers "${place%/*}"
	stage=$place.build.$$
	# Named like the place, because moving it then never nests it in a place
	# that came into being meanwhile.
	local result=$stage/${place##*/}
	mkdir -p "$result" "$stage/tmp"
	[ -t 2 ] || say "$title: building"
	(
		cd "$here/$(module "$tool")"
		GOOS=$(cd / && go env GOHOSTOS)
		GOARCH=$(cd / && go env GOHOSTARCH)
		# Everything that could make one user's build differ from another's.
		export GOOS GOARCH GOTOOLCHAIN=local GOFLAGS=-mod=readonly GOWORK=off GO111MODULE=on CGO_ENABLED=0
		export GOTMPDIR="$stage/tmp"
		if [ -n "$(definitions "$tool")" ]; then
			take_definitions "$tool" "$result"
			exit
		fi
		exec go build -o "$result" -buildvcs=false -trimpath -tags "$(tags "$tool")" \
			-ldflags "$(linker_flags "$tool" "$(version "$tool")")$(date_flags "$tool")" "$(packages "$tool")"
	) >"$stage/log" 2>&1 &
	build=$!
	if ! await_build "$title"; then
		say "$title: the build failed; its last words:"
		tail -n 20 "$stage/log" >&2
		exit 1
	fi
	# Go names a command after its directory.
	case $tool in
	etcd) mv "$result/server" "$result/etcd" ;;
	oracle) mv "$result/oracle" "$result/kube-scheduler-oracle" ;;
	image) mv "$result/image" "$result/image-tool" ;;
	esac
	# shellcheck disable=SC2086
	has_all "$result" $names || fail "$title: built, but not all of: $names"
	# shellcheck disable=SC2086
	mv "$result" "${place%/*}/" 2>/dev/null || has_all "$place" $names || fail "$title: $place cannot be made"
	clean_up
	elapsed=$((SECONDS - started))
	say "$(printf '%s: built in %d:%02d' "$title" $((elapsed / 60)) $((elapsed % 60)))"
}

main() {
	local tool place cache
	for tool in "$@"; do
		[ -n "$(main_module "$tool")" ] || fail "no tool is called $tool; there are: $all_tools $(cd "$here" && echo kubernetes-1.*)"
	done
	# shellcheck disable=SC2086 # a list of words
	[ $# -gt 0 ] || set -- $all_tools

	if [ -n "${PILOTAGE_TOOLS_DIR:-}" ]; then
		link_ready_made "$@"
		return
	fi
	command -v git >/dev/null 2>&1 || fail 'git is needed and there is none in PATH'
	case ${XDG_CACHE_HOME:-} in
	/*) cache=$XDG_CACHE_HOME/pilotage/tools ;;
	*) cache=${HOME:?is not set: no place to keep tools}/.cache/pilotage/tools ;;
	esac
	for tool in "$@"; do
		place=$cache/$tool-$(cache_key "$tool")
		# shellcheck disable=SC2046
		has_all "$place" $(binaries "$tool") || build_tool "$tool" "$place"
		link "$place" "$tool"
	done
}

main "$@"
