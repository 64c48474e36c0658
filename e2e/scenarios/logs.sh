# Logs are read, commands run, files copied and ports forwarded in the source, and all of it comes from the target.
. "$(dirname "$0")/lib.sh"

scratch=$(mktemp --directory)
finish() {
  local jobs
  jobs=$(jobs -p)
  [[ -z $jobs ]] || kill $jobs 2> /dev/null || true
  rm --recursive --force "$scratch"
}
trap finish EXIT
IMAGE=registry.k8s.io/e2e-test-images/busybox:1.29-4
SAY="echo one; echo two; echo three"

k apply --filename - << YAML
apiVersion: v1
kind: Pod
metadata:
  name: talker
  annotations: {$PREFIX/elect: ""}
spec:
  initContainers:
  - name: first
    image: $IMAGE
    command: [sh, -c, "$SAY"]
  containers:
  - name: talker
    image: $IMAGE
    command: [sh, -c, "$SAY; while true; do nc -l -p 8080 -e cat; done"]
YAML
k wait pod/talker --for=condition=Ready --timeout="$LIMIT"

say "logs"
three_lines() {
  [[ $(k logs talker "$@") == $'one\ntwo\nthree' ]]
}
eventually "three lines are read" three_lines
[[ $(k logs talker --tail=1) == three ]] || fail "the last line isn't the last line"
three_lines --since=90000h || fail "lines of the last ten years aren't all lines"
[[ -z $(k logs talker --since-time=2100-01-01T00:00:00Z) ]] || fail "there are lines of a time to come"
[[ $(k logs talker --timestamps --tail=1) =~ ^[0-9]{4}-[0-9]{2}-[0-9]{2}T[^\ ]+\ three$ ]] || fail "a line has no time"

say "logs of other containers"
three_lines --container=first || fail "the init container has other lines"
k debug talker --image="$IMAGE" --container=later -- sh -c "$SAY"
eventually "three lines of a debug container are read" three_lines --container=later

say "logs as they come"
k logs talker --follow > "$scratch/followed" &
followed=$!
eventually "three lines are followed" grep --quiet three "$scratch/followed"

say "a command"
[[ $(k exec talker -- echo hello) == hello ]] || fail "the command said something else"
[[ $(echo word | k exec --stdin talker -- sh -c 'read word; echo "[$word]"') == '[word]' ]] ||
  fail "input didn't reach the command"
[[ $(KUBECTL_REMOTE_COMMAND_WEBSOCKETS=false k exec talker -- echo hello) == hello ]] ||
  fail "the command said something else by SPDY"

say "a file"
# The image may have no files of its own but its programs.
file=/tmp/copied-$NAMESPACE
k exec talker -- sh -c "mkdir -p /tmp && echo written there > $file"
k cp "talker:$file" "$scratch/copied"
k exec talker -- rm "$file"
grep --quiet '^written there$' "$scratch/copied" || fail "the file has something else in it"

say "a port"
# By a kubectl of its own each time: it ends when the container has nobody at the port, as between two connections.
answers() {
  local kubectl port answer
  kubectl --kubeconfig "$KUBECONFIGS/source" --namespace "$NAMESPACE" port-forward pod/talker :8080 > "$scratch/port" &
  kubectl=$!
  until port=$(grep --only-matching --perl-regexp --max-count=1 '127.0.0.1:\K[0-9]+' "$scratch/port"); do
    kill -0 "$kubectl" || return 1
    sleep 0.1
  done
  exec 3<> "/dev/tcp/127.0.0.1/$port"
  echo ping >&3
  read -r -t 5 answer <&3
  exec 3>&-
  kill "$kubectl" && wait "$kubectl" || true
  [[ $answer == ping ]]
}
for websockets in true false; do
  export KUBECTL_PORT_FORWARD_WEBSOCKETS=$websockets
  eventually "the port answers" answers
done

k delete pod talker --grace-period=1 --timeout="$LIMIT"
# The log ends with its pod.
wait "$followed" || true
