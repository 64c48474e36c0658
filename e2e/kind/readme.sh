#!/usr/bin/env bash
# What README.md says below "Install it on your clusters", by its commands alone, in a fresh clone and on two fresh
# clusters of kind, with a stop-watch: at the end its pod runs in the target.
#
#   readme.sh                             all of it; clone and clusters are deleted at the end, unless KEEP=1
#   readme.sh DOCUMENT HEADING            the commands below another heading, in a copy of the release that was gathered;
#                                         then the last two steps of README.md, which are the same
#   readme.sh print [DOCUMENT HEADING]    prints the commands, a heading before each step
#
# KIND_NODE_IMAGE is the image of the nodes; otherwise kind loads its own one. Nothing of yours is touched: clone, home
# directory and kubeconfig are below target/kind. What isn't committed isn't tried.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd -P)
work=$root/target/kind/readme
clusters=(london paris)

say() { printf 'readme: %s\n' "$*"; }
fail() {
	say "FAILED: $*" >&2
	exit 1
}

# steps DOCUMENT HEADING: the blocks of commands of a section, of which each is a step.
steps() {
	awk -v heading="$2" '
		/^ *```sh$/ && inside { block = 1; step += 1; print "# step " step; next }
		/^ *```/ { block = 0; next }
		!block && /^#+ / { title = $0; sub(/^#+ /, "", title); inside = title == heading }
		block { sub(/^   /, ""); print }
	' "$root/$1"
}
readme=(README.md 'Install it on your clusters')

print=
[ "${1:-}" != print ] || { print=1 && shift; }
case $# in
0) section=("${readme[@]}") ;;
2) section=("$1" "$2") ;;
*) fail 'it takes a document and a heading, or neither' ;;
esac
[ -f "$root/${section[0]}" ] || fail "there is no document ${section[0]}"
[ -n "$(steps "${section[@]}")" ] || fail "${section[0]} has no commands below \"${section[1]}\""
all_steps() {
	steps "${section[@]}"
	[ "${section[0]}" = README.md ] || steps "${readme[@]}" | sed -n '/^# step 4$/,$p'
}
if [ -n "$print" ]; then
	all_steps
	exit
fi
docker info >/dev/null 2>&1 || fail 'docker does not answer; make kind-node starts it where it is installed'

export PATH=$root/target/tools:$PATH
for name in "${clusters[@]}"; do
	! kind get clusters --quiet | grep --quiet --line-regexp "$name" ||
		fail "there is a cluster $name already, and it has to be a fresh one: kind delete cluster --name $name"
done
# Compilers find what they know in the old home directory: sources that were loaded are there, nothing that was built.
CARGO_HOME=${CARGO_HOME:-$HOME/.cargo} RUSTUP_HOME=${RUSTUP_HOME:-$HOME/.rustup}
GOPATH=$(go env GOPATH) GOMODCACHE=$(go env GOMODCACHE)
export CARGO_HOME RUSTUP_HOME GOPATH GOMODCACHE
unset CARGO_TARGET_DIR GOCACHE XDG_CACHE_HOME
rm -rf "$work"
mkdir -p "$work/home"
if [ "${section[0]}" = README.md ]; then
	git clone --quiet "$root" "$work/pilotage"
else
	[ -f "$root/target/dist/release/SHA256SUMS" ] || fail 'there is no release in target/dist/release: make release'
	cp -r "$root/target/dist/release" "$work/pilotage"
fi
export HOME=$work/home KUBECONFIG=$work/kubeconfig

down() {
	local name
	for name in "${clusters[@]}"; do kind delete cluster --quiet --name "$name"; done
	rm -rf "$work/pilotage" "$work/home"
}
[ -n "${KEEP:-}" ] || trap down EXIT
for name in "${clusters[@]}"; do
	kind create cluster --quiet --name "$name" --wait 180s ${KIND_NODE_IMAGE:+--image "$KIND_NODE_IMAGE"}
	# Pods need it, and its controller makes it a moment after the namespace.
	kubectl --context "kind-$name" wait serviceaccount/default --for create --timeout 60s >/dev/null
done
say 'two fresh clusters are up'

# One shell, as somebody types; it says how long each step took.
{
	printf 'set -euo pipefail\nstep=\nbegan=0\n'
	printf 'took() {\n%s\n}\n' '[ -z "$step" ] || printf "readme: step %s took %s s\n" "$step" "$((SECONDS - began))"'
	all_steps | sed 's/^# step \(.*\)/took; step=\1 began=$SECONDS/'
	printf 'took\n'
} >"$work/steps.sh"
begin=$SECONDS
(cd "$work/pilotage" && bash "$work/steps.sh") || fail "a command of ${section[0]} failed"
took=$((SECONDS - begin))

phase=$(kubectl --context kind-london --namespace shop get pod web --output 'jsonpath={.status.phase}')
[ "$phase" = Running ] || fail "the pod is $phase in the source"
kubectl --context kind-paris --namespace shop get pods \
	--selector multicluster.admiralty.io/parent-name=web --output name | grep --quiet . ||
	fail 'the pod has no delegate in the target'
say "a pod runs in the target, $took s after the first command"
