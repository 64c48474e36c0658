# Pods of an elected DaemonSet stay in their cluster, and node affinity keeps a DaemonSet off virtual nodes.
. "$(dirname "$0")/lib.sh"

say "an elected DaemonSet that tolerates everything"
k apply --filename - << YAML
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: everywhere}
spec:
  selector: {matchLabels: {app: everywhere}}
  template:
    metadata:
      labels: {app: everywhere}
      annotations: {$PREFIX/elect: ""}
    spec:
      tolerations: [{operator: Exists}]
      terminationGracePeriodSeconds: 1
      containers:
      - name: everywhere
        image: registry.k8s.io/pause:3.10
YAML

say "it is told that its pods stay"
is_told() {
  k get events.events.k8s.io --output 'jsonpath={range .items[*]}{.regarding.kind} {.reason}{"\n"}{end}' |
    grep --quiet "^DaemonSet NotDelegated$"
}
eventually "the DaemonSet has an event" is_told
for target in $TARGETS; do
  [[ -z $(in_target "$target" get pods --selector "$PREFIX/app=everywhere" --output name) ]] ||
    fail "$target has a pod of it"
done

say "it wants a pod on each virtual node, until it excludes them"
wanted() {
  [[ $(k get daemonset everywhere --output 'jsonpath={.status.desiredNumberScheduled}') == "$1" ]]
}
count() {
  k get nodes --selector "virtual-kubelet.io/provider$1" --output name | wc -l
}
[[ $(count =admiralty) -gt 0 ]] || fail "there is no virtual node"
k patch daemonset everywhere --patch '{"spec": {"template": {"spec": {"affinity": {"nodeAffinity": {
  "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{"matchExpressions": [
    {"key": "virtual-kubelet.io/provider", "operator": "NotIn", "values": ["admiralty"]}]}]}}}}}}}'
eventually "it wants pods on real nodes alone" wanted "$(count '!=admiralty')"
k rollout status daemonset/everywhere --timeout="$LIMIT"

say "it goes, and no pod hangs"
k delete daemonset everywhere --cascade=foreground --timeout="$LIMIT"
