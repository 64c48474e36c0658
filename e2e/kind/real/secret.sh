# A pod that needs a Secret doesn't start before its copy is in the target, however long that takes.
. "$(dirname "$0")/../../scenarios/lib.sh"

# A refused copy is tried again after pauses of up to two minutes.
LIMIT=180s

finish() {
  for target in $TARGETS; do
    in_target "$target" delete resourcequota no-secrets --ignore-not-found
  done
  k delete secret word --ignore-not-found
}
trap finish EXIT

# A quota counts from when its controller has looked.
refuses() {
  ! in_target "$1" create secret generic probe --dry-run=server
}
say "targets that take no Secrets"
for target in $TARGETS; do
  in_target "$target" create quota no-secrets --hard=count/secrets=0
  eventually "the quota of $target is in force" refuses "$target"
done

say "a pod that says what is in one"
k create secret generic word --from-literal=word=swordfish
k apply --filename - << YAML
apiVersion: v1
kind: Pod
metadata:
  name: needs
  annotations: {$PREFIX/elect: ""}
spec:
  terminationGracePeriodSeconds: 1
  containers:
  - name: needs
    image: registry.k8s.io/e2e-test-images/busybox:1.29-4
    command: [sh, -c, 'echo "\$WORD"; sleep 3600']
    env: [{name: WORD, valueFrom: {secretKeyRef: {name: word, key: word}}}]
YAML
state() {
  k get pod needs --output "jsonpath={.status.containerStatuses[0].state$1}"
}
waits() {
  [[ $(state .waiting.reason) == CreateContainerConfigError ]]
}
eventually "its container waits for the Secret" waits
is_told() {
  k get events.events.k8s.io --field-selector reason=NotFollowed --output 'jsonpath={.items[*].note}' |
    grep --quiet "Secret word.*exceeded quota"
}
eventually "an event says what keeps the Secret away" is_told
[[ -z $(state .running)$(state .terminated) ]] || fail "it ran without the Secret"

say "the Secret may come"
for target in $TARGETS; do
  in_target "$target" delete resourcequota no-secrets
done
k wait pod/needs --for=condition=Ready --timeout="$LIMIT"
[[ $(k logs needs) == swordfish ]] || fail "it says $(k logs needs)"
k delete pod needs --timeout="$LIMIT"
