# Constraints for targets, for nodes in targets, and for both: which one a pod has where.
. "$(dirname "$0")/lib.sh"

# pod NAME ANNOTATION VALUE SELECTOR: an elected pod with this annotation and node selector.
pod() {
  k apply --filename - << YAML
apiVersion: v1
kind: Pod
metadata:
  name: $1
  annotations:
    $PREFIX/elect: ""
    $PREFIX/$2: "$3"
spec:
  nodeSelector: {$4}
  containers:
  - name: $1
    image: registry.k8s.io/pause:3.10
    resources: {requests: {cpu: 50m}}
YAML
}

selector_of() {
  in_target "$2" get pod "$(delegate_of "$1")" --output 'jsonpath={.spec.nodeSelector}'
}

for target in $TARGETS; do
  say "an annotation says $target, and the pod's own selector stays for its nodes"
  pod apart proxy-pod-scheduling-constraints "nodeSelector: {$PREFIX/target-name: $target}" "kubernetes.io/os: linux"
  k wait pod/apart --for=condition=Ready --timeout="$LIMIT"
  [[ $(target_of apart) == "$target" ]] || fail "the pod is in $(target_of apart)"
  [[ $(selector_of apart "$target") == *'"kubernetes.io/os":"linux"'* ]] || fail "its own selector is gone"
  k delete pod apart --grace-period=1 --timeout="$LIMIT"

  say "the pod's own selector says $target"
  pod own use-constraints-from-spec-for-proxy-pod-scheduling "" "$PREFIX/target-name: $target"
  k wait pod/own --for=condition=Ready --timeout="$LIMIT"
  [[ $(target_of own) == "$target" ]] || fail "the pod is in $(target_of own)"
  [[ $(selector_of own "$target") != *target-name* ]] || fail "the delegate has the selector, too"
  k delete pod own --grace-period=1 --timeout="$LIMIT"
done

say "one that can't be read is refused"
if said=$(pod wrong proxy-pod-scheduling-constraints "nodeSelector: [" "" 2>&1); then
  k delete pod wrong
  fail "the pod was taken"
fi
[[ $said == *proxy-pod-scheduling-constraints* ]] || fail "the refusal doesn't name the annotation: $said"
