# A StatefulSet comes up in order, its pods keep who they are, and it scales down from the end.
. "$(dirname "$0")/lib.sh"

say "a StatefulSet of two"
k apply --filename - << YAML
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: db}
spec:
  replicas: 2
  serviceName: db
  selector: {matchLabels: {app: db}}
  template:
    metadata:
      labels: {app: db}
      annotations: {$PREFIX/elect: ""}
    spec:
      containers:
      - name: db
        image: registry.k8s.io/pause:3.10
        resources: {requests: {cpu: 50m}}
YAML
k rollout status statefulset/db --timeout="$LIMIT"

say "each pod is called the same where it runs"
for pod in db-0 db-1; do
  hostname=$(in_target "$(target_of "$pod")" get pod "$(delegate_of "$pod")" --output 'jsonpath={.spec.hostname}')
  [[ $hostname == "$pod" ]] || fail "the delegate of $pod is called $hostname"
done

say "one that is deleted comes again, when nothing of it is left there"
target=$(target_of db-1)
delegate=$(delegate_of db-1)
k delete pod db-1 --timeout="$LIMIT"
in_target "$target" get pod "$delegate" --output name && fail "$delegate is still in $target"
k rollout status statefulset/db --timeout="$LIMIT"

say "it scales down from the end"
k scale statefulset/db --replicas=1
k wait pod/db-1 --for=delete --timeout="$LIMIT"
k get pod db-0
k delete statefulset db --cascade=foreground --timeout="$LIMIT"
