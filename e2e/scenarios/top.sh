# `kubectl top` shows in the source what pods use in targets, and what a virtual node uses by them.
. "$(dirname "$0")/lib.sh"

# Both metrics-servers look a few times a minute, and twice before they tell.
LIMIT=200s
needs_metrics

say "a pod that uses a tenth of a core"
k apply --filename - << YAML
apiVersion: v1
kind: Pod
metadata:
  name: measured
  annotations: {$PREFIX/elect: ""}
spec:
  terminationGracePeriodSeconds: 1
  containers:
  - name: busy
    image: registry.k8s.io/e2e-test-images/busybox:1.29-4
    command: [sh, -c, "while true; do true; done"]
    resources: {requests: {cpu: 50m}, limits: {cpu: 100m}}
YAML
k wait pod/measured --for=condition=Ready --timeout="$LIMIT"
node=$(k get pod measured --output 'jsonpath={.spec.nodeName}')

# About a tenth of a core, and some memory: tenth CPU MEMORY.
tenth() {
  [[ $1 =~ ^([0-9]+)m$ ]] && ((BASH_REMATCH[1] >= 50 && BASH_REMATCH[1] <= 150)) && [[ $2 =~ ^[0-9]+Mi$ ]]
}
pod_is_shown() {
  local cpu memory
  uses measured 100m 16Mi
  read -r _ cpu memory < <(k top pod measured --no-headers)
  tenth "$cpu" "$memory"
}
eventually "the pod uses a tenth of a core" pod_is_shown

say "its container, and nothing else of it"
container_is_shown() {
  local all pod container cpu memory
  uses measured 100m 16Mi
  all=$(k top pod measured --containers --no-headers)
  read -r pod container cpu memory <<< "$all"
  [[ $(wc --lines <<< "$all") == 1 && $pod == measured && $container == busy ]] && tenth "$cpu" "$memory"
}
eventually "the container uses a tenth of a core" container_is_shown

say "its virtual node $node, which may have other pods"
node_is_shown() {
  local cpu
  uses measured 100m 16Mi
  read -r _ cpu _ < <(k top node "$node" --no-headers)
  [[ $cpu =~ ^([0-9]+)m$ ]] && ((BASH_REMATCH[1] >= 50))
}
eventually "the node uses as much at least" node_is_shown

k delete pod measured --timeout="$LIMIT"
