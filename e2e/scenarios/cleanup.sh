# `kubectl pilotage uninstall --check` tells on both sides what would be left. `cleanup` takes nothing from a pod that
# runs, and of other objects the finalizers of Admiralty, which nobody waits for.
. "$(dirname "$0")/lib.sh"

command -v kubectl-pilotage > /dev/null || skip "PATH has no kubectl-pilotage"

# The plugin in a cluster: pilotage CLUSTER ARGUMENTS.
pilotage() {
  local cluster=$1
  shift
  kubectl pilotage "$@" --kubeconfig "$KUBECONFIGS/$cluster" 2>&1
}

say "a pod that runs"
k apply --filename - << YAML
apiVersion: v1
kind: Pod
metadata:
  name: kept
  annotations: {$PREFIX/elect: ""}
spec:
  terminationGracePeriodSeconds: 1
  containers:
  - name: kept
    image: registry.k8s.io/pause:3.10
    resources: {requests: {cpu: 50m}}
YAML
k wait pod/kept --for=condition=Ready --timeout="$LIMIT"
target=$(target_of kept)

# checks CLUSTER WORDS: what is left there, in these words, and the command says by its exit code that something is.
checks() {
  local said code=0
  said=$(pilotage "$1" uninstall --check) || code=$?
  [[ $code == 3 ]] || fail "it ended with $code in $1: $said"
  grep --quiet --extended-regexp "$2" <<< "$said" || fail "nothing of '$2' in $1: $said"
}
say "uninstall --check tells of it in the source and in $target"
checks source "^(Cluster)?Target .*$target \(connected\): .*\<$NAMESPACE/kept\>"
checks source "[0-9]+ pods? runs? elsewhere for this cluster"
checks "$target" "^source .*: [0-9]+ pods? runs? here, PodChaperons [0-9]+"

say "cleanup tells what it would take off, and takes off nothing"
finalizers() {
  k get pod kept --output 'jsonpath={.metadata.finalizers}'
}
before=$(finalizers)
said=$(pilotage source cleanup --dry-run --in-namespace "$NAMESPACE") || fail "it failed: $said"
grep --quiet "^pods/$NAMESPACE/kept: $PREFIX/" <<< "$said" || fail "nothing of the pod's finalizer: $said"
[[ -n $before && $(finalizers) == "$before" ]] || fail "the pod had $before and has $(finalizers)"

# The command looks for as long as a Lease lasts whether somebody renews it: 15 s, unless somebody wants it otherwise.
lasts=0
while read -r name seconds; do
  [[ $name != pilotage-* || $seconds -le $lasts ]] || lasts=$seconds
done < <(kubectl --kubeconfig "$KUBECONFIGS/source" get leases --all-namespaces \
  --output 'jsonpath={range .items[*]}{.metadata.name} {.spec.leaseDurationSeconds}{"\n"}{end}')
if ((lasts > 0 && lasts <= 30)); then
  say "cleanup refuses while Pilotage runs"
  if said=$(pilotage source cleanup --in-namespace "$NAMESPACE"); then
    fail "it took finalizers off: $said"
  fi
  [[ $said == *"Pilotage runs here"* ]] || fail "it said something else: $said"
  [[ $(finalizers) == "$before" ]] || fail "the pod had $before and has $(finalizers)"
else
  say "that cleanup refuses while Pilotage runs isn't tried: it would take $lasts s"
fi

say "a finalizer of Admiralty goes, and the pod's stays"
k create configmap forgotten --from-literal=colour=blue
k patch configmap forgotten --type=merge --patch "{\"metadata\": {\"finalizers\": [\"$PREFIX/default-gone\"]}}"
k delete configmap forgotten --wait=false
deleted=$(k get configmap forgotten --output 'jsonpath={.metadata.deletionTimestamp}')
[[ -n $deleted ]] || fail "the ConfigMap isn't deleted"
said=$(pilotage source cleanup --admiralty --in-namespace "$NAMESPACE") || fail "it failed: $said"
grep --quiet "^configmaps/$NAMESPACE/forgotten: $PREFIX/default-gone\$" <<< "$said" ||
  fail "nothing of the ConfigMap: $said"
k wait configmap/forgotten --for=delete --timeout="$LIMIT"
[[ $(finalizers) == "$before" ]] || fail "the pod had $before and has $(finalizers)"
k wait pod/kept --for=condition=Ready --timeout="$LIMIT"

say "it goes, and leaves nothing that has to be cleaned up"
k delete pod kept --timeout="$LIMIT"
keeps_nothing() {
  local said
  said=$(pilotage "$1" cleanup --dry-run --in-namespace "$NAMESPACE") && [[ $said != */kept* ]]
}
for cluster in source "$target"; do
  eventually "$cluster keeps nothing of it" keeps_nothing "$cluster"
done
