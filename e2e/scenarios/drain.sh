# A virtual node is drained like any other: its pods go elsewhere, within their budget.
. "$(dirname "$0")/lib.sh"

[[ $TARGETS == *" "* ]] || skip "there is one target: its pods have nowhere to go"

say "a Deployment of three, of which one may be missing"
k apply --filename - << YAML
apiVersion: apps/v1
kind: Deployment
metadata: {name: drained}
spec:
  replicas: 3
  selector: {matchLabels: {app: drained}}
  template:
    metadata:
      labels: {app: drained}
      annotations: {$PREFIX/elect: ""}
    spec:
      containers:
      - name: drained
        image: registry.k8s.io/pause:3.10
        resources: {requests: {cpu: 50m}}
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: drained}
spec:
  maxUnavailable: 1
  selector: {matchLabels: {app: drained}}
YAML
k rollout status deployment/drained --timeout="$LIMIT"

node=$(k get pods --selector app=drained --output 'jsonpath={.items[0].spec.nodeName}')
say "virtual node $node is drained"
trap 'k uncordon "$node"' EXIT
k drain "$node" --pod-selector app=drained --timeout="$LIMIT"
k rollout status deployment/drained --timeout="$LIMIT"
[[ $(k get pods --selector app=drained --output 'jsonpath={.items[*].spec.nodeName}') != *"$node"* ]] ||
  fail "a pod is on $node, which takes none"
k delete deployment,poddisruptionbudget drained --cascade=foreground --timeout="$LIMIT"
