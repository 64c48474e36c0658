# A HorizontalPodAutoscaler in the source goes by what pods use in targets, and the pods that it adds run there, too.
. "$(dirname "$0")/lib.sh"

# Both metrics-servers look a few times a minute, and twice before they tell; then the autoscaler looks.
LIMIT=200s
needs_metrics

say "a Deployment whose pods use twice what they ask for"
k apply --filename - << YAML
apiVersion: apps/v1
kind: Deployment
metadata: {name: busy}
spec:
  selector: {matchLabels: {app: busy}}
  template:
    metadata:
      labels: {app: busy}
      annotations: {$PREFIX/elect: ""}
    spec:
      terminationGracePeriodSeconds: 1
      containers:
      - name: busy
        image: registry.k8s.io/e2e-test-images/busybox:1.29-4
        command: [sh, -c, "while true; do true; done"]
        resources: {requests: {cpu: 50m}, limits: {cpu: 100m}}
---
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata: {name: busy}
spec:
  scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: busy}
  minReplicas: 1
  maxReplicas: 2
  metrics:
  - type: Resource
    resource: {name: cpu, target: {type: Utilization, averageUtilization: 100}}
YAML
k rollout status deployment/busy --timeout="$LIMIT"
[[ $(k get deployment busy --output 'jsonpath={.spec.replicas}') == 1 ]] || fail "it began with more pods than one"

say "a second one is wanted"
pods() {
  k get pods --selector app=busy --output 'jsonpath={.items[*].metadata.name}'
}
is_scaled() {
  local pod
  for pod in $(pods); do
    uses "$pod" 100m 16Mi || true
  done
  [[ $(k get horizontalpodautoscaler busy --output 'jsonpath={.status.desiredReplicas}') == 2 ]]
}
eventually "two pods are wanted" is_scaled
used=$(k get horizontalpodautoscaler busy \
  --output 'jsonpath={.status.currentMetrics[0].resource.current.averageUtilization}')
((used > 110)) || fail "they use $used % of what they ask for, and that isn't too much"

say "both run in targets"
runs_two() {
  [[ $(k get deployment busy --output 'jsonpath={.status.readyReplicas}') == 2 ]]
}
eventually "two pods are ready" runs_two
for pod in $(pods); do
  target=$(target_of "$pod")
  [[ -n $target ]] || fail "pod $pod runs in no target"
done

k delete horizontalpodautoscaler busy
k delete deployment busy --cascade=foreground --timeout="$LIMIT"
