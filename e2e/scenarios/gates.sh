# A pod with a scheduling gate is asked for nowhere, and runs when the gate goes.
. "$(dirname "$0")/lib.sh"

say "a gated pod"
k apply --filename - << YAML
apiVersion: v1
kind: Pod
metadata:
  name: gated
  annotations: {$PREFIX/elect: ""}
spec:
  schedulingGates: [{name: example.com/wait}]
  containers:
  - name: gated
    image: registry.k8s.io/pause:3.10
    resources: {requests: {cpu: 50m}}
YAML
reason=$(k get pod gated --output 'jsonpath={.status.conditions[?(@.type=="PodScheduled")].reason}')
[[ $reason == SchedulingGated ]] || fail "it says $reason"
for target in $TARGETS; do
  [[ -z $(in_target "$target" get podchaperons --output name | grep gated) ]] || fail "$target was asked"
done

say "the gate goes"
k patch pod gated --type=merge --patch '{"spec":{"schedulingGates":[]}}'
k wait pod/gated --for=condition=Ready --timeout="$LIMIT"
k delete pod gated --timeout="$LIMIT"
