# The pods of a Job compute something in targets, and the source reads what each of them found.
. "$(dirname "$0")/../../scenarios/lib.sh"

say "a Job that computes"
k apply --filename - << YAML
apiVersion: batch/v1
kind: Job
metadata: {name: compute}
spec:
  completions: 4
  parallelism: 2
  backoffLimit: 0
  template:
    metadata:
      annotations: {$PREFIX/elect: ""}
    spec:
      restartPolicy: Never
      containers:
      - name: compute
        image: registry.k8s.io/e2e-test-images/busybox:1.29-4
        command: [sh, -c, "seq 1 200000 | sha256sum"]
        resources: {requests: {cpu: 50m}}
YAML
k wait job/compute --for=condition=Complete --timeout="$LIMIT"

want=$(seq 1 200000 | sha256sum)
pods=$(k get pods --selector=batch.kubernetes.io/job-name=compute --output name)
[[ $(wc --words <<< "$pods") == 4 ]] || fail "the Job has other pods: $pods"
for pod in $pods; do
  found=$(k logs "$pod")
  [[ $found == "$want" ]] || fail "$pod found '$found' and not '$want'"
done
k delete job compute --timeout="$LIMIT"
