# Priority class and service account of a delegate are the target's own, of the pod's names; one that is missing there
# is told.
. "$(dirname "$0")/lib.sh"

class="e2e-classes-$$"
finish() {
  k delete priorityclass "$class" --ignore-not-found
  k delete serviceaccount robot homeless --ignore-not-found
  for target in $TARGETS; do
    in_target "$target" delete priorityclass "$class" --ignore-not-found
    in_target "$target" delete serviceaccount robot --ignore-not-found
  done
}
trap finish EXIT

say "a class and an account, in all clusters"
k create priorityclass "$class" --value=1000
k create serviceaccount robot
k create serviceaccount homeless
for target in $TARGETS; do
  in_target "$target" create priorityclass "$class" --value=2000
  in_target "$target" create serviceaccount robot
done

# pod NAME ACCOUNT
pod() {
  k apply --filename - << YAML
apiVersion: v1
kind: Pod
metadata:
  name: $1
  annotations: {$PREFIX/elect: ""}
spec:
  priorityClassName: $class
  serviceAccountName: $2
  containers:
  - name: $1
    image: registry.k8s.io/pause:3.10
    resources: {requests: {cpu: 50m}}
YAML
}

say "the delegate has the target's"
pod classed robot
k wait pod/classed --for=condition=Ready --timeout="$LIMIT"
has=$(in_target "$(target_of classed)" get pod "$(delegate_of classed)" \
  --output 'jsonpath={.spec.priorityClassName} {.spec.priority} {.spec.serviceAccountName}')
[[ $has == "$class 2000 robot" ]] || fail "the delegate has $has"
k delete pod classed --grace-period=1 --timeout="$LIMIT"

say "an account that no target has"
pod stranger homeless
says() {
  k get pod stranger --output 'jsonpath={.status.conditions[?(@.type=="PodScheduled")].message}' | grep --quiet "$1"
}
for target in $TARGETS; do
  eventually "the pod says what $target lacks" says "$target.*homeless"
done
k delete pod stranger --grace-period=1 --timeout="$LIMIT"
