#!/usr/bin/env bash
# Three clusters of kind, and the image in each of them: it has to run as nobody, and to reach API servers by name. Then
# the chart is installed, the clusters are connected, and all scenarios run, and then what only real nodes show (real/).
# What can't be shown on these nodes is skipped, and told at the end.
#
#   run.sh           all of it; the clusters are deleted at the end, unless KEEP=1
#   run.sh down      deletes the clusters that an earlier run has left
#
# CHART is the chart's directory, if not charts/pilotage. KIND_NODE_IMAGE is the image of the nodes; otherwise kind loads its
# own one. KIND_NODE_IMAGE_WEST is that of one target's, for another version of Kubernetes there. Kubeconfigs are in
# target/kind.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd -P)
export PATH=$root/target/tools:$PATH
archive=$root/target/dist/pilotage.oci.tar
configs=$root/target/kind
chart=${CHART:-$root/charts/pilotage}
clusters=(source east west)
image=$(tar -xOf "$archive" manifest.json | sed -n 's/.*"RepoTags":\["\([^"]*\)"\].*/\1/p')

say() { printf 'kind: %s\n' "$*"; }
fail() {
	say "FAILED: $*" >&2
	exit 1
}
down() {
	local name
	for name in "${clusters[@]}"; do
		kind delete cluster --quiet --name "pilotage-$name" --kubeconfig "$configs/$name"
	done
}
of() {
	local name=$1
	shift
	kubectl --kubeconfig "$configs/$name" "$@"
}

# once CLUSTER POD PHASE ARGUMENTS: runs the image until it ends so, with the kubeconfigs in its Secret, if there is one.
once() {
	local cluster=$1 pod=$2 phase=$3 argument list=''
	shift 3
	for argument in "$@"; do list+="\"$argument\", "; done
	of "$cluster" apply --filename - >/dev/null <<-YAML
		apiVersion: v1
		kind: Pod
		metadata: {name: $pod}
		spec:
		  restartPolicy: Never
		  automountServiceAccountToken: false
		  securityContext: {runAsNonRoot: true, seccompProfile: {type: RuntimeDefault}}
		  containers:
		  - name: pilotage
		    image: $image
		    imagePullPolicy: Never
		    args: [$list]
		    securityContext: {allowPrivilegeEscalation: false, readOnlyRootFilesystem: true, capabilities: {drop: [ALL]}}
		    volumeMounts: [{name: kubeconfigs, mountPath: /kubeconfigs}]
		  volumes: [{name: kubeconfigs, secret: {secretName: kubeconfigs, optional: true}}]
	YAML
	of "$cluster" wait "pod/$pod" --for "jsonpath={.status.phase}=$phase" --timeout 120s >/dev/null || {
		of "$cluster" describe pod "$pod" >&2
		of "$cluster" logs "$pod" >&2 || true
		fail "$pod isn't $phase"
	}
	of "$cluster" logs "$pod"
	of "$cluster" delete pod "$pod" --wait=false >/dev/null
}

mkdir -p "$configs"
if [ "${1:-}" = down ]; then
	down
	exit
fi
[ $# -eq 0 ] || fail "$1 is no word that this script knows"
[ -f "$chart/Chart.yaml" ] || fail "there is no chart in $chart; CHART names the directory of one"
docker info >/dev/null 2>&1 || fail 'docker does not answer; make kind-node starts it where it is installed'
[ -n "${KEEP:-}" ] || trap down EXIT

declare -A runs
for name in "${clusters[@]}"; do
	node=${KIND_NODE_IMAGE:-}
	[ "$name" != west ] || node=${KIND_NODE_IMAGE_WEST:-$node}
	kind get clusters --quiet | grep --quiet --line-regexp "pilotage-$name" ||
		kind create cluster --quiet --name "pilotage-$name" --kubeconfig "$configs/$name" --wait 180s \
			${node:+--image "$node"}
	kind load image-archive --quiet --name "pilotage-$name" "$archive"
	of "$name" --namespace kube-system rollout status deployment/coredns --timeout 180s >/dev/null
	# Pods need it, and its controller makes it a moment after the namespace.
	of "$name" wait serviceaccount/default --for create --timeout 60s >/dev/null
	say "$name is up and has the image: $(once "$name" version Succeeded --version)"
	runs[$name]=$(of "$name" get --raw /version | sed -n 's/.*"gitVersion": *"\([^"]*\)".*/\1/p')
	# A kept source has virtual nodes, too.
	kubelet=$(of "$name" get nodes --selector node-role.kubernetes.io/control-plane --output 'jsonpath={.items[0].status.nodeInfo.kubeletVersion}')
	[ "$kubelet" = "${runs[$name]}" ] || fail "the API server of $name is ${runs[$name]:-unknown}, its kubelet $kubelet"
	say "$name runs Kubernetes $kubelet"
done
# kind brings no metrics-server. It tells nothing before it has looked twice, so it is waited for below.
metrics=pilotage-metrics-server:local
tar --create --dereference --directory "$root/target/tools" metrics-server |
	docker import --change 'ENTRYPOINT ["/metrics-server"]' - "$metrics" >/dev/null
for name in "${clusters[@]}"; do
	kind load docker-image --quiet --name "pilotage-$name" "$metrics"
	of "$name" apply --filename "$root/crates/testkit/src/plane/metrics-server.yaml" \
		--filename "$root/e2e/kind/metrics-server.yaml" >/dev/null
done

# Clusters that an earlier run has left keep their nodes.
[ -z "${KIND_NODE_IMAGE_WEST:-}" ] || [ "${runs[west]}" != "${runs[source]}" ] ||
	fail "west has the version of the source; if it is left from an earlier run: e2e/kind/run.sh down"

# What the source has to resolve: its own API server, in short as pods call it, and that of another cluster.
secret=()
for name in east:east "kubernetes.default.svc:source" "kubernetes.default:source" "nowhere.default.svc:source"; do
	kind get kubeconfig --name "pilotage-${name#*:}" --internal >"$configs/internal"
	[ "${name%:*}" = east ] || sed -i "s#server: .*#server: https://${name%:*}#" "$configs/internal"
	mv "$configs/internal" "$configs/${name%:*}.internal"
	secret+=(--from-file "${name%:*}=$configs/${name%:*}.internal")
done
of source create secret generic kubeconfigs "${secret[@]}" --dry-run=client --output yaml | of source apply --filename - >/dev/null
rm -f "$configs"/*.internal
for name in east kubernetes.default.svc kubernetes.default; do
	once source "asks-${name//./-}" Succeeded cleanup --dry-run --kubeconfig "/kubeconfigs/$name" >/dev/null
	say "a pod of the source reaches $name"
done
once source asks-nobody Failed cleanup --dry-run --kubeconfig /kubeconfigs/nowhere.default.svc >"$configs/nobody.log"
grep --quiet 'failed to lookup address' "$configs/nobody.log" || fail "no word of the name: $(cat "$configs/nobody.log")"
say 'a name that nobody has is told as such'
of source delete secret kubeconfigs >/dev/null

# install CLUSTER ARGUMENTS: the chart with the image that was loaded.
install() {
	local name=$1
	shift
	helm --kubeconfig "$configs/$name" upgrade --install pilotage "$chart" --namespace pilotage --create-namespace \
		--set "image.repository=${image%:*}" --set "image.tag=${image##*:}" --set image.pullPolicy=Never \
		--wait --timeout 180s "$@" >/dev/null
	say "$name has Pilotage"
}
rights=follow-configmaps,follow-secrets,follow-services,follow-ingresses,logs,exec,attach,port-forward,metrics
install source --set 'follow={configmaps,secrets,services,ingresses}' \
	--set controllerManager.kubelet.enabled=true --set controllerManager.kubelet.selfSigned=true
for name in east west; do
	install "$name" --set webhook.enabled=false \
		--set "rights={$rights}"
done

# The program of the image is the plugin as well.
plugin=$configs/kubectl-pilotage
case $(uname -m) in aarch64 | arm64) arch=arm64 ;; *) arch=amd64 ;; esac
ln -sf "$root/target/dist/$arch/pilotage" "$plugin"
# connect NAMESPACE: lets pods of that namespace into both targets.
connect() {
	local name node
	for name in east west; do
		KUBECONFIG=$configs/source:$configs/$name "$plugin" connect --source kind-pilotage-source \
			--target "kind-pilotage-$name" --name "$name" --namespace "$1" --rights "$rights"
		node=$(of source --namespace "$1" get target "$name" --output 'jsonpath={.status.node}')
		# Its Target is connected a moment before it is made.
		of source wait "node/$node" --for create --timeout 60s >/dev/null
		of source wait "node/$node" --for condition=Ready --timeout 60s >/dev/null
		say "$name is connected for the namespace $1"
	done
}
connect default

for name in "${clusters[@]}"; do
	# Before it is there, an API server that asks for its Service may reach who knows whom, and goes on asking there.
	of "$name" --namespace kube-system rollout status deployment/metrics-server --timeout 180s >/dev/null
	of "$name" apply --filename "$root/e2e/kind/metrics-api.yaml" >/dev/null
	of "$name" wait apiservice/v1beta1.metrics.k8s.io --for condition=Available --timeout 180s >/dev/null
	say "$name has a metrics-server"
done

rm -rf "$configs/scenarios" "$configs/scenarios.log"
mkdir "$configs/scenarios"
for name in "${clusters[@]}"; do cp "$configs/$name" "$configs/scenarios/"; done
# scenarios NAMESPACE ARGUMENTS: runs them there, and keeps what is said of each.
scenarios() {
	local namespace=$1
	shift
	PATH=$configs:$PATH "${CARGO_TARGET_DIR:-$root/target}/debug/e2e" scenarios --kubeconfigs "$configs/scenarios" \
		--namespace "$namespace" "$@" | tee -a "$configs/scenarios.log"
}
scenarios default
# One of them takes its namespace away, so it has one that nobody else needs.
own=e2e-namespace
for name in "${clusters[@]}"; do
	of "$name" create namespace "$own" --dry-run=client --output yaml | of "$name" apply --filename - >/dev/null
done
connect "$own"
scenarios "$own" --only namespace
for name in east west; do of "$name" delete namespace "$own" --timeout 60s >/dev/null; done
# What a cluster on paper can't show: containers have to run.
for script in web secret compute dashboard upgrade uninstall; do
	begin=$SECONDS
	PATH=$configs:$PATH KUBECONFIGS=$configs/scenarios TARGETS='east west' NAMESPACE=default CHART=$chart bash "$root/e2e/kind/real/$script.sh" ||
		fail "real/$script.sh"
	say "$script took $((SECONDS - begin)) s"
done
for name in "${clusters[@]}"; do say "$name ran Kubernetes ${runs[$name]}"; done
[ "${runs[west]}" != "${runs[source]}" ] ||
	say 'not tried: another version of Kubernetes in one target (KIND_NODE_IMAGE_WEST)'
# What one of the runs skipped and none of them showed.
skipped=$(awk '
	$1 == "ok" { shown[$2] }
	$1 == "skipped" { name = $2; sub(/:$/, "", name); lines[name] = $0 }
	END { for (name in lines) if (!(name in shown)) print lines[name] }
' "$configs/scenarios.log" | sort)
if [ -n "$skipped" ]; then
	while read -r line; do say "$line"; done <<<"$skipped"
	say 'all of the rest worked'
else
	say 'all of it worked'
fi
