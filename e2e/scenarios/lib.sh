# What every scenario has: kubectl in the source and in targets, and words for what is wrong.
# Given: KUBECONFIGS (a directory with the kubeconfigs "source" and those of targets), TARGETS (their names), NAMESPACE.

set -euo pipefail

PREFIX=multicluster.admiralty.io
LIMIT=${LIMIT:-60s}

# kubectl in the source's namespace.
k() {
  kubectl --kubeconfig "$KUBECONFIGS/source" --namespace "$NAMESPACE" "$@"
}

# kubectl in a target's namespace: in_target NAME ARGUMENTS.
in_target() {
  local target=$1
  shift
  kubectl --kubeconfig "$KUBECONFIGS/$target" --namespace "$NAMESPACE" "$@"
}

say() {
  echo "-- $*"
}

# Ends a script that can't show anything here: the harness says why.
skip() {
  echo "SKIPPED: $*"
  exit
}

fail() {
  echo "FAILED: $*" >&2
  exit 1
}

# Tries until it works: eventually "what is waited for" COMMAND ARGUMENTS.
eventually() {
  local what=$1 end=$((SECONDS + ${LIMIT%s}))
  shift
  until "$@" > /dev/null 2>&1; do
    if ((SECONDS >= end)); then
      fail "$what, even after $LIMIT"
    fi
    sleep 0.2
  done
}

# The target where a pod of the source runs.
target_of() {
  local uid target
  uid=$(k get pod "$1" --output 'jsonpath={.metadata.uid}')
  for target in $TARGETS; do
    if in_target "$target" get pods --selector "$PREFIX/parent-uid=$uid" --output name | grep --quiet .; then
      echo "$target"
      return
    fi
  done
  fail "no target has a delegate of pod $1"
}

# Name of the delegate of a pod, in its target.
delegate_of() {
  local uid
  uid=$(k get pod "$1" --output 'jsonpath={.metadata.uid}')
  in_target "$(target_of "$1")" get pods --selector "$PREFIX/parent-uid=$uid" --output 'jsonpath={.items[0].metadata.name}'
}

# For scripts that need all clusters to tell what pods use.
needs_metrics() {
  local name
  for name in source $TARGETS; do
    kubectl --kubeconfig "$KUBECONFIGS/$name" get apiservice v1beta1.metrics.k8s.io > /dev/null 2>&1 ||
      skip "$name has no metrics-server"
  done
}

# Writes what a pod uses, in its target, if nodes run nothing there and the metrics API is a mere definition:
# uses POD CPU MEMORY.
uses() {
  local target delegate uid container labels
  target=$(target_of "$1") || return 1
  in_target "$target" get customresourcedefinition pods.metrics.k8s.io > /dev/null 2>&1 || return 0
  delegate=$(delegate_of "$1") || return 1
  read -r uid container labels < <(in_target "$target" get pod "$delegate" --output \
    'jsonpath={.metadata.uid} {.spec.containers[0].name} {.metadata.labels}{"\n"}') || return 1
  in_target "$target" apply --filename - << YAML
apiVersion: metrics.k8s.io/v1beta1
kind: PodMetrics
metadata:
  name: $delegate
  labels: $labels
  ownerReferences: [{apiVersion: v1, kind: Pod, name: $delegate, uid: $uid}]
timestamp: "$(date --utc +%Y-%m-%dT%H:%M:%SZ)"
window: 15s
containers:
- name: $container
  usage: {cpu: $2, memory: $3}
YAML
}
