# Helm takes Pilotage away while a pod runs in a target, first in the source, with its Job for what comes after, then in
# the targets: the pod runs on, and an elected pod that comes then is one like others. The last script: no other can run
# after it.
. "$(dirname "$0")/../../scenarios/lib.sh"

LIMIT=180s
IMAGE=registry.k8s.io/pause:3.10
in_source() {
  kubectl --kubeconfig "$KUBECONFIGS/source" "$@"
}

# elected NAME: makes an elected pod.
elected() {
  k apply --filename - << YAML
apiVersion: v1
kind: Pod
metadata:
  name: $1
  annotations: {$PREFIX/elect: ""}
spec:
  terminationGracePeriodSeconds: 0
  containers:
  - {name: pause, image: $IMAGE, resources: {requests: {cpu: 10m}}}
YAML
  k wait "pod/$1" --for=condition=Ready --timeout="$LIMIT"
}

elected before
target=$(target_of before)
delegate=$(delegate_of before)
state='{.metadata.uid} {.status.containerStatuses[0].containerID} {.status.containerStatuses[0].restartCount}'
was=$(in_target "$target" get pod "$delegate" --output "jsonpath=$state")

say "the source is rid of Pilotage"
helm --kubeconfig "$KUBECONFIGS/source" uninstall pilotage --namespace pilotage --wait --timeout "$LIMIT" > /dev/null
kinds=mutatingwebhookconfigurations,validatingadmissionpolicies,validatingadmissionpolicybindings
left=$(in_source get "$kinds" --output name | grep pilotage || true)
[[ -z $left ]] || fail "the Job after it has left $left"
left=$(in_source --namespace pilotage get deployments,jobs,serviceaccounts,secrets --output name |
  grep --invert-match 'serviceaccount/default$' || true)
[[ -z $left ]] || fail "in its namespace there is $left"
elected after
node=$(k get pod after --output 'jsonpath={.spec.nodeName}')
[[ $(in_source get node "$node" --output 'jsonpath={.metadata.labels.type}') != virtual-kubelet ]] ||
  fail "a pod goes to the virtual node $node although nobody looks after it"

say "so are the targets"
for name in $TARGETS; do
  helm --kubeconfig "$KUBECONFIGS/$name" uninstall pilotage --namespace pilotage --wait --timeout "$LIMIT" > /dev/null
done
is=$(in_target "$target" get pod "$delegate" --output "jsonpath=$state")
[[ $is == "$was" ]] || fail "the delegate was '$was' and is '$is'"
kinds=$(in_source get customresourcedefinitions --output name | grep --count multicluster.admiralty.io || true)
((kinds > 0)) || fail "the definitions are gone, and with them all Targets"
