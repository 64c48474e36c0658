# A pod with the annotation "no-reservation" is left to its own scheduler in the target, and says what that says.
. "$(dirname "$0")/lib.sh"

say "a pod that keeps its scheduler"
k apply --filename - << YAML
apiVersion: v1
kind: Pod
metadata:
  name: free
  annotations: {$PREFIX/elect: "", $PREFIX/no-reservation: ""}
spec:
  containers:
  - name: free
    image: registry.k8s.io/pause:3.10
    resources: {requests: {cpu: 50m}}
YAML
k wait pod/free --for=condition=Ready --timeout="$LIMIT"
target=$(target_of free)
scheduler=$(in_target "$target" get pod "$(delegate_of free)" --output 'jsonpath={.spec.schedulerName}')
[[ $scheduler == default-scheduler ]] || fail "in $target the scheduler $scheduler placed it"
k delete pod free --grace-period=1 --timeout="$LIMIT"

say "one for which no scheduler has a node"
k apply --filename - << YAML
apiVersion: v1
kind: Pod
metadata:
  name: huge
  annotations: {$PREFIX/elect: "", $PREFIX/no-reservation: ""}
spec:
  containers:
  - name: huge
    image: registry.k8s.io/pause:3.10
    resources: {requests: {cpu: "5000"}}
YAML
says() {
  k get pod huge --output 'jsonpath={.status.conditions[?(@.type=="PodScheduled")].message}' | grep --quiet "$1"
}
eventually "the pod says what is missing" says "Insufficient cpu"
k delete pod huge --timeout="$LIMIT"
for target in $TARGETS; do
  eventually "$target keeps nothing" \
    bash -c '! kubectl --kubeconfig "$0" --namespace "$1" get pods,podchaperons --output name | grep --quiet huge' \
    "$KUBECONFIGS/$target" "$NAMESPACE"
done
