# A target whose quota is used up refuses pods, in the words of its API server; they go to the others, or wait.
. "$(dirname "$0")/lib.sh"

finish() {
  for target in $TARGETS; do
    in_target "$target" delete resourcequota no-pods --ignore-not-found
  done
}
trap finish EXIT

refuses() {
  local said
  said=$(in_target "$1" run probe --image=registry.k8s.io/pause:3.10 --dry-run=server 2>&1 || true)
  [[ $said == *"exceeded quota"* ]]
}

forbid() {
  in_target "$1" create quota no-pods --hard=pods=0
  eventually "the quota of $1 is in force" refuses "$1"
}

pod() {
  k apply --filename - << YAML
apiVersion: v1
kind: Pod
metadata:
  name: $1
  annotations: {$PREFIX/elect: ""}
spec:
  containers:
  - name: $1
    image: registry.k8s.io/pause:3.10
    resources: {requests: {cpu: 50m}}
YAML
}

last=${TARGETS##* }
for target in $TARGETS; do
  [[ $target == "$last" ]] || forbid "$target"
done

say "only $last takes pods"
pod lucky
k wait pod/lucky --for=condition=Ready --timeout="$LIMIT"
[[ $(target_of lucky) == "$last" ]] || fail "the pod is in $(target_of lucky)"

say "nobody takes pods"
forbid "$last"
pod late
says() {
  k get pod late --output 'jsonpath={.status.conditions[?(@.type=="PodScheduled")].message}' | grep --quiet "$1"
}
for target in $TARGETS; do
  eventually "the pod says that $target has no quota for it" says "$target.*exceeded quota"
done

say "a quota goes"
in_target "$last" delete resourcequota no-pods
k wait pod/late --for=condition=Ready --timeout="$LIMIT"
k delete pod lucky late --grace-period=1 --timeout="$LIMIT"
