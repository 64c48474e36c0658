# Who attaches to a pod of the source hears what its container says in the target, until the pod ends.
. "$(dirname "$0")/lib.sh"

scratch=$(mktemp --directory)
finish() {
  local jobs
  jobs=$(jobs -p)
  [[ -z $jobs ]] || kill $jobs 2> /dev/null || true
  rm --recursive --force "$scratch"
}
trap finish EXIT

k apply --filename - << YAML
apiVersion: v1
kind: Pod
metadata:
  name: ticker
  annotations: {$PREFIX/elect: ""}
spec:
  containers:
  - name: ticker
    image: registry.k8s.io/e2e-test-images/busybox:1.29-4
    command: [sh, -c, "while true; do echo tick; sleep 1; done"]
YAML
k wait pod/ticker --for=condition=Ready --timeout="$LIMIT"
target=$(target_of ticker)
node=$(in_target "$target" get pod "$(delegate_of ticker)" --output 'jsonpath={.spec.nodeName}')

# A node that only says that it runs pods has nothing new to say.
mark='{.metadata.annotations.kwok\.x-k8s\.io/node}'
speaks=$(in_target "$target" get node "$node" --output "jsonpath=$mark")

attach() {
  # It says of each request how that was answered, which is all there is to see on a node that has nothing to say.
  k attach ticker --v=6 > "$scratch/heard" 2> "$scratch/wrong" &
  attached=$!
  eventually "kubectl is let in" grep --quiet "101 Switching Protocols" "$scratch/wrong"
  [[ $speaks == fake ]] || eventually "the container is heard" grep --quiet tick "$scratch/heard"
  # Whoever is let in and then refused hears of it while a whole command goes the same way.
  k exec ticker -- true
  kill -0 "$attached" || fail "kubectl ended before the pod: $(< "$scratch/wrong")"
  ! grep --invert-match --extended-regexp "$usual" "$scratch/wrong" || fail "kubectl says more than it should"
}
usual="^I[0-9]{4} |^All commands and output from this session|^If you don't see a command prompt"

say "by SPDY"
export KUBECTL_REMOTE_COMMAND_WEBSOCKETS=false
attach
kill "$attached" && wait "$attached" || true

say "by WebSocket, until the pod ends"
export KUBECTL_REMOTE_COMMAND_WEBSOCKETS=true
attach
k delete pod ticker --grace-period=1 --timeout="$LIMIT"
ended() {
  ! kill -0 "$attached"
}
eventually "kubectl ends" ended
