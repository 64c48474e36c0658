#!/usr/bin/env bash
# Writes what the chart takes from the code: definitions, and the roles of each part as `pilotage rbac` prints them, with
# one file more for each option. The templates put them together; charts/pilotage/templates/_roles.tpl says how. And a
# copy of values.yaml, which templates can't read where it is.
#
#   generate.sh PILOTAGE DIRECTORY     PILOTAGE: the binary; DIRECTORY: charts/pilotage/files
set -euo pipefail

pilotage=$1
out=$2

rm -rf "$out/roles" "$out/crds"
"$pilotage" crds --out "$out/crds"
cp "$(dirname "${BASH_SOURCE[0]}")/pilotage/values.yaml" "$out/values.yaml"

# "own" and "given" stand for namespaces that are known when the chart is rendered.
roles() {
	local part=$1 option=$2
	shift 2
	mkdir -p "$out/roles/$part"
	"$pilotage" rbac --component "$part" --namespace own --target-namespaces given "$@" >"$out/roles/$part/$option.yaml"
}

for part in webhook controllers proxy-scheduler candidate-scheduler gardener-scheduler; do
	roles "$part" always
done
for kind in configmaps secrets services ingresses; do
	roles controllers "follow-$kind" --follow "$kind"
	roles controllers "rights-follow-$kind" --rights "follow-$kind"
done
for right in logs exec attach port-forward metrics; do
	roles controllers "rights-$right" --rights "$right"
done
roles controllers kubelet --kubelet
