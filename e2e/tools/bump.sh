#!/usr/bin/env bash
# Pins a tool to a version: writes its go.mod anew and has Go complete it.
#
#   bump.sh TOOL VERSION     for example: bump.sh kubernetes v1.36.3
#
# Run with the version that is already pinned, it changes nothing.
set -euo pipefail

e2e=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)

usage() {
	sed -n '2,6s/^# \{0,1\}//p' "${BASH_SOURCE[0]}" >&2
	exit 2
}
[ $# -eq 2 ] || usage
tool=$1 version=$2
case $version in v[0-9]*) ;; *) usage ;; esac

case $tool in
kubernetes)
	module=k8s.io/kubernetes
	commands='kube-apiserver kube-controller-manager kube-scheduler kubectl'
	;;
kubernetes-1.*)
	module=k8s.io/kubernetes
	commands='kube-apiserver kube-controller-manager'
	;;
etcd) module=go.etcd.io/etcd/server/v3 commands='' ;;
kwok) module=sigs.k8s.io/kwok commands=kwok ;;
helm) module=helm.sh/helm/v4 commands=helm ;;
kubeconform) module=github.com/yannh/kubeconform commands=kubeconform ;;
kind) module=sigs.k8s.io/kind commands='' ;;
metrics-server) module=sigs.k8s.io/metrics-server commands=metrics-server ;;
promql-check) module=github.com/prometheus/prometheus commands=none ;;
cert-manager) module=github.com/cert-manager/cert-manager commands=none ;;
prometheus-operator) module=github.com/prometheus-operator/prometheus-operator commands=none ;;
*) usage ;;
esac

# The toolchain that is here decides, whatever the user's environment says.
export GOTOOLCHAIN=local GOWORK=off GO111MODULE=on GOFLAGS=-mod=mod

# The go.mod of the tool itself, as published.
cd /
published=$(go mod download -json "$module@$version" | sed -n 's/^[[:space:]]*"GoMod": "\(.*\)",*$/\1/p')
[ -s "$published" ] || { echo "$module $version cannot be had" >&2; exit 1; }

# pin DIRECTORY COMMANDS: writes go.mod and go.sum of a directory of e2e.
pin() {
	local directory=$1 commands=$2 command
	mkdir -p "$e2e/$directory"
	cd "$e2e/$directory"
	rm -f go.sum
	{
		printf 'module github.com/pilotage/pilotage/e2e/%s\n\ngo 1.26.0\n\n' "$directory"
		case $commands in
		none) ;;
		'') printf 'tool %s\n\n' "$module" ;;
		*)
			printf 'tool (\n'
			for command in $commands; do printf '\t%s/cmd/%s\n' "$module" "$command"; done
			printf ')\n\n'
			;;
		esac
		# An older one behaves as the Go of its release did.
		case $tool in
		kubernetes-*) awk '/^godebug default=/ { print $0 "\n" }' "$published" ;;
		esac
		printf 'require %s %s\n' "$module" "$version"
		if [ "$module" = k8s.io/kubernetes ]; then
			cat <<-'COMMENT'

				// Kubernetes replaces its staging modules by directories of its own
				// repository. Replacements do not reach those who depend on a module, so each
				// is repeated here as the published module of the same release.
			COMMENT
			printf 'replace (\n'
			awk -v version="v0.${version#v*.}" '
				{ sub(/^replace /, "") }
				$2 == "=>" && $3 ~ /^\.\/staging\// { print "\t" $1 " => " $1 " " version }
			' "$published"
			printf ')\n'
		fi
	} >go.mod
	case $tool in
	# Files are taken from these, and no package: tidying would leave nothing of them.
	cert-manager | prometheus-operator) go mod download "$module" ;;
	*) go mod tidy ;;
	esac
}

pin "tools/$tool" "$commands"
# And what nodes of that version have beside it.
case $tool in
kubernetes-*) pin "kind/programs/$tool" 'kube-proxy kube-scheduler kubeadm kubectl kubelet' ;;
esac
