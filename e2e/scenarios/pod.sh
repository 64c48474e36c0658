# A pod with the annotation "elect" runs in another cluster, and looks like one of this one.
. "$(dirname "$0")/lib.sh"

say "an elected pod"
k apply --filename - << YAML
apiVersion: v1
kind: Pod
metadata:
  name: web
  labels: {app: web}
  annotations: {$PREFIX/elect: ""}
spec:
  containers:
  - name: web
    image: registry.k8s.io/pause:3.10
    resources: {requests: {cpu: 100m}}
YAML
k wait pod/web --for=condition=Ready --timeout="$LIMIT"

say "it stands on a virtual node"
node=$(k get pod web --output 'jsonpath={.spec.nodeName}')
[[ $node == admiralty-* ]] || fail "the pod is on node $node"

say "one pod runs for it, in one target, on a real node"
target=$(target_of web)
in_target "$target" wait "pod/$(delegate_of web)" --for=condition=Ready --timeout="$LIMIT"

say "it goes, and nothing of it stays"
k delete pod web --timeout="$LIMIT"
for target in $TARGETS; do
  eventually "$target keeps nothing" \
    bash -c '! kubectl --kubeconfig "$0" --namespace "$1" get pods,podchaperons --output name | grep --quiet web' \
    "$KUBECONFIGS/$target" "$NAMESPACE"
done
