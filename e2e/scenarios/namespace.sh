# A namespace of the source goes with its pods, and leaves nothing in targets.
. "$(dirname "$0")/lib.sh"

[[ $NAMESPACE == e2e-namespace ]] || skip "other scripts need the namespace $NAMESPACE"

say "a Deployment and what it uses"
k create configmap settings --from-literal=colour=blue
k apply --filename - << YAML
apiVersion: apps/v1
kind: Deployment
metadata: {name: leaving}
spec:
  replicas: 3
  selector: {matchLabels: {app: leaving}}
  template:
    metadata:
      labels: {app: leaving}
      annotations: {$PREFIX/elect: ""}
    spec:
      terminationGracePeriodSeconds: 1
      containers:
      - name: leaving
        image: registry.k8s.io/pause:3.10
        envFrom: [{configMapRef: {name: settings}}]
        resources: {requests: {cpu: 50m}}
YAML
k rollout status deployment/leaving --timeout="$LIMIT"

say "the namespace is deleted, with the Targets in it"
k delete namespace "$NAMESPACE" --timeout="$LIMIT"
for target in $TARGETS; do
  left=$(in_target "$target" get pods,podchaperons,configmaps --selector "$PREFIX/parent-uid" --output name)
  [[ -z $left ]] || fail "$target keeps $left"
done
