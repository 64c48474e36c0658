# Logs are read and commands are run in the source, and come from the target.
. "$(dirname "$0")/lib.sh"

k apply --filename - << YAML
apiVersion: v1
kind: Pod
metadata:
  name: talker
  annotations: {$PREFIX/elect: ""}
spec:
  containers:
  - name: talker
    image: registry.k8s.io/e2e-test-images/busybox:1.29-4
    command: [sh, -c, "echo one; echo two; echo three; sleep 3600"]
YAML
k wait pod/talker --for=condition=Ready --timeout="$LIMIT"

say "logs"
three_lines() {
  [[ $(k logs talker) == $'one\ntwo\nthree' ]]
}
eventually "three lines are read" three_lines
[[ $(k logs talker --tail=1) == three ]] || fail "the last line isn't the last line"

say "a command"
[[ $(k exec talker -- echo hello) == hello ]] || fail "the command said something else"
[[ $(echo word | k exec --stdin talker -- sh -c 'read word; echo "[$word]"') == '[word]' ]] ||
  fail "input didn't reach the command"

k delete pod talker --grace-period=1 --timeout="$LIMIT"
