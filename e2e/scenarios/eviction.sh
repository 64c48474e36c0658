# A delegate that is evicted in its target takes its proxy pod along, and the controller in the source makes the next.
. "$(dirname "$0")/lib.sh"

say "a Deployment of one"
k apply --filename - << YAML
apiVersion: apps/v1
kind: Deployment
metadata: {name: evicted}
spec:
  replicas: 1
  selector: {matchLabels: {app: evicted}}
  template:
    metadata:
      labels: {app: evicted}
      annotations: {$PREFIX/elect: ""}
    spec:
      terminationGracePeriodSeconds: 1
      containers:
      - name: evicted
        image: registry.k8s.io/pause:3.10
        resources: {requests: {cpu: 50m}}
YAML
k rollout status deployment/evicted --timeout="$LIMIT"
pod=$(k get pods --selector app=evicted --output 'jsonpath={.items[0].metadata.name}')
target=$(target_of "$pod")
delegate=$(delegate_of "$pod")

say "its delegate is evicted in $target"
in_target "$target" create --raw "/api/v1/namespaces/$NAMESPACE/pods/$delegate/eviction" --filename - << JSON
{"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "$delegate", "namespace": "$NAMESPACE"}}
JSON
k wait "pod/$pod" --for=delete --timeout="$LIMIT"

say "the next one runs"
is_replaced() {
  local next
  next=$(k get pods --selector app=evicted --output 'jsonpath={.items[*].metadata.name}')
  [[ -n $next && $next != *"$pod"* ]] && k wait "pod/$next" --for=condition=Ready --timeout=1s
}
eventually "another pod is ready" is_replaced
k delete deployment evicted --cascade=foreground --timeout="$LIMIT"
eventually "$target keeps nothing of the first" \
  bash -c '! kubectl --kubeconfig "$0" --namespace "$1" get pods,podchaperons --output name | grep --quiet "/$2$"' \
  "$KUBECONFIGS/$target" "$NAMESPACE" "$delegate"
