# Labels of a pod get a prefix in its target, but for those that it names, and for all where the Target keeps them.
. "$(dirname "$0")/lib.sh"

finish() {
  for target in $TARGETS; do
    k annotate target "$target" "$PREFIX/keep-labels-"
  done
}
trap finish EXIT

pod() {
  k apply --filename - << YAML
apiVersion: v1
kind: Pod
metadata:
  name: $1
  labels: {app: labelled, team: blue}
  annotations:
    $PREFIX/elect: ""
    $PREFIX/no-prefix-label-regexp: "^team="
spec:
  containers:
  - name: $1
    image: registry.k8s.io/pause:3.10
    resources: {requests: {cpu: 50m}}
YAML
  k wait "pod/$1" --for=condition=Ready --timeout="$LIMIT"
}

# has POD SELECTOR: whether the delegate has these labels.
has() {
  local delegate
  delegate=$(delegate_of "$1")
  in_target "$(target_of "$1")" get pods --selector "$2" --output name | grep --quiet "/$delegate$"
}

say "one label keeps its name, the other has a prefix"
pod labelled
has labelled "team=blue,$PREFIX/app=labelled,!app" || fail "the delegate has other labels"
k delete pod labelled --grace-period=1 --timeout="$LIMIT"

say "targets keep all labels"
for target in $TARGETS; do
  k annotate target "$target" "$PREFIX/keep-labels=true"
done
# A pod that was under way when the Target changed has its labels as before.
kept() {
  k delete pod kept --ignore-not-found --grace-period=1 --timeout="$LIMIT"
  pod kept
  has kept "team=blue,$PREFIX/app=labelled,app=labelled"
}
eventually "a pod has both" kept
k delete pod kept --grace-period=1 --timeout="$LIMIT"
