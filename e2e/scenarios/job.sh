# A Job completes by pods that ran in targets.
. "$(dirname "$0")/lib.sh"

say "a Job with three completions"
k apply --filename - << YAML
apiVersion: batch/v1
kind: Job
metadata: {name: report}
spec:
  completions: 3
  parallelism: 3
  template:
    metadata:
      annotations: {$PREFIX/elect: ""}
    spec:
      restartPolicy: Never
      containers:
      - name: report
        image: registry.k8s.io/e2e-test-images/busybox:1.29-4
        command: ["true"]
        resources: {requests: {cpu: 50m}}
YAML
k wait job/report --for=condition=Complete --timeout="$LIMIT"
[[ $(k get job report --output 'jsonpath={.status.succeeded}') == 3 ]] || fail "not all three succeeded"
k delete job report --timeout="$LIMIT"
