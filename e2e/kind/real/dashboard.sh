# The live page, by a port-forward into a real container: its user sees it, and a pod of the cluster doesn't.
# Given besides: CHART, the chart's directory.
. "$(dirname "$0")/../../scenarios/lib.sh"

LIMIT=60s
scratch=$(mktemp --directory)
forward=
finish() {
  [[ -z $forward ]] || kill "$forward" 2> /dev/null || true
  rm --recursive --force "$scratch"
}
trap finish EXIT

say "the page is switched on"
helm --kubeconfig "$KUBECONFIGS/source" upgrade pilotage "$CHART" --namespace pilotage --reuse-values \
  --set proxyScheduler.dashboard=true --wait --timeout 300s > /dev/null

# opens: "kubectl pilotage dashboard" says where the page is.
opens() {
  [[ -n $forward ]] && kill -0 "$forward" 2> /dev/null || {
    kubectl pilotage dashboard --kubeconfig "$KUBECONFIGS/source" > "$scratch/said" 2>&1 &
    forward=$!
  }
  grep --quiet 'http://127.0.0.1:[0-9]*/dashboard' "$scratch/said"
}
eventually "a page to look at" opens
port=$(sed --quiet 's#.*http://127.0.0.1:\([0-9]*\)/dashboard.*#\1#p' "$scratch/said")

# page: what a browser would get.
page() {
  exec 3<> "/dev/tcp/127.0.0.1/$port"
  printf 'GET /dashboard HTTP/1.1\r\nHost: 127.0.0.1:%s\r\nConnection: close\r\n\r\n' "$port" >&3
  cat <&3
  exec 3>&-
}
page > "$scratch/page"
head --lines=1 "$scratch/page" | grep --quiet ' 200 ' || fail "the page says: $(head --lines=20 "$scratch/page")"
grep --quiet '<html' "$scratch/page" || fail "that is no page: $(head --lines=20 "$scratch/page")"
leader=$(sed --quiet 's#.* shows what \([^ ]*\) knows.*#\1#p' "$scratch/said")
address=$(kubectl --kubeconfig "$KUBECONFIGS/source" --namespace pilotage get pod "$leader" --output \
  'jsonpath={.status.podIP}')

say "a pod asks $leader at its own address"
k apply --filename - << YAML
apiVersion: v1
kind: Pod
metadata: {name: stranger}
spec:
  restartPolicy: Never
  containers:
  - name: stranger
    image: registry.k8s.io/e2e-test-images/busybox:1.29-4
    command: [wget, -O, "-", "http://$address:8080/dashboard"]
YAML
k wait pod/stranger --for=jsonpath='{.status.phase}'=Failed --timeout="$LIMIT"
k logs stranger | grep --quiet 403 || fail "a stranger is told: $(k logs stranger)"
k delete pod stranger --timeout="$LIMIT"
