# A pod that fits nowhere waits and says why, target by target, and runs once it fits.
. "$(dirname "$0")/lib.sh"

say "a pod that no node can take"
k apply --filename - << YAML
apiVersion: v1
kind: Pod
metadata:
  name: huge
  annotations: {$PREFIX/elect: ""}
spec:
  containers:
  - name: huge
    image: registry.k8s.io/pause:3.10
    resources: {requests: {cpu: "5000"}}
YAML
k wait pod/huge --for=condition=PodScheduled=False --timeout="$LIMIT"
says() {
  k get pod huge --output 'jsonpath={.status.conditions[?(@.type=="PodScheduled")].message}' | grep --quiet "$1"
}
for target in $TARGETS; do
  eventually "the pod says what $target lacks" says "$target.*Insufficient cpu"
done
k get pod huge --output 'jsonpath={.status.conditions[?(@.type=="PodScheduled")].message}{"\n"}'
k delete pod huge --timeout="$LIMIT"
