# Jobs of other kinds: indexed ones, ones that succeed early, suspended ones, and those of a CronJob.
. "$(dirname "$0")/lib.sh"

# A Job's template: each pod checks that it knows its index, if it has one.
template() {
  cat << YAML
    metadata:
      annotations: {$PREFIX/elect: ""}
    spec:
      restartPolicy: Never
      containers:
      - name: work
        image: registry.k8s.io/e2e-test-images/busybox:1.29-4
        command: [sh, -c, '$1']
        resources: {requests: {cpu: 50m}}
YAML
}

say "an indexed Job"
k apply --filename - << YAML
apiVersion: batch/v1
kind: Job
metadata: {name: indexed}
spec:
  completions: 3
  parallelism: 3
  completionMode: Indexed
  template:
$(template 'test "$HOSTNAME" = "indexed-$JOB_COMPLETION_INDEX"')
YAML
k wait job/indexed --for=condition=Complete --timeout="$LIMIT"
[[ $(k get job indexed --output 'jsonpath={.status.completedIndexes}') == 0-2 ]] || fail "not all indexes completed"

say "a Job of which the first pod will do"
k apply --filename - << YAML
apiVersion: batch/v1
kind: Job
metadata: {name: early}
spec:
  completions: 3
  parallelism: 3
  completionMode: Indexed
  successPolicy: {rules: [{succeededIndexes: "0"}]}
  template:
$(template 'test $JOB_COMPLETION_INDEX = 0 || sleep 3600')
YAML
k wait job/early --for=condition=SuccessCriteriaMet --timeout="$LIMIT"
k wait job/early --for=condition=Complete --timeout="$LIMIT"

say "a suspended Job"
k apply --filename - << YAML
apiVersion: batch/v1
kind: Job
metadata: {name: suspended}
spec:
  suspend: true
  template:
$(template true)
YAML
k wait job/suspended --for=condition=Suspended --timeout="$LIMIT"
[[ -z $(k get pods --selector batch.kubernetes.io/job-name=suspended --output name) ]] || fail "it has a pod"
k patch job suspended --type=merge --patch '{"spec": {"suspend": false}}'
k wait job/suspended --for=condition=Complete --timeout="$LIMIT"

say "a CronJob"
k apply --filename - << YAML
apiVersion: batch/v1
kind: CronJob
metadata: {name: hourly}
spec:
  schedule: "0 * * * *"
  suspend: true
  jobTemplate:
    spec:
      template:
$(template true | sed 's/^/    /')
YAML
# As if its last turn had been two hours ago.
k patch cronjob hourly --subresource=status --type=merge --patch \
  "{\"status\": {\"lastScheduleTime\": \"$(date --utc --date='2 hours ago' +%Y-%m-%dT%H:%M:%SZ)\"}}"
k patch cronjob hourly --type=merge --patch '{"spec": {"suspend": false}}'
k wait cronjob/hourly --for='jsonpath={.status.lastSuccessfulTime}' --timeout="$LIMIT"

k delete job,cronjob --all --cascade=foreground --timeout="$LIMIT"
